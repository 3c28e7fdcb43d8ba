"""Tokens of OAuth 2 over AMQP and HTTP, with the keys of an identity provider that rotates them."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import httpx
import pika
import pika.exceptions
import pytest

from hareline.authorities.oauth import COOLDOWN_S
from tests.support.broker_process import BrokerProcess, StartDaemon
from tests.support.http_api import HttpApi
from tests.support.tokens import Signer
from tests.support.waiting import wait_for
from tests.support.web_service import WebService, key_server, web_service

ALL = ("rabbitmq.read:*/*", "rabbitmq.write:*/*", "rabbitmq.configure:*/*")
SIGNER = Signer("ES256", "key-1")
T = TypeVar("T")


@pytest.fixture
def provider() -> Iterator[WebService]:
    with web_service(key_server(SIGNER.public())) as service:
        yield service


def config(provider: WebService, more: str = "") -> str:
    return f"""
        [auth]
        backends = ["internal", "oauth2"]
        failure_delay_s = 0
        login_failures_max = 0
        [oauth]
        resource_server_id = "rabbitmq"
        jwks_url = "{provider.url}/jwks"
        {more}
    """


@pytest.fixture
def daemon(start_daemon: StartDaemon, provider: WebService) -> BrokerProcess:
    return start_daemon(config(provider))


def connect(daemon: BrokerProcess, token: str, name: str = "any") -> pika.BlockingConnection:
    return pika.BlockingConnection(
        pika.ConnectionParameters(
            daemon.host,
            daemon.port,
            credentials=pika.PlainCredentials(name, token),
            blocked_connection_timeout=60,
        )
    )


def bearer(daemon: BrokerProcess, token: str, path: str = "/api/whoami") -> httpx.Response:
    api = HttpApi(daemon.management_url, None)
    return api.ask("GET", path, headers={"Authorization": f"Bearer {token}"})


@pytest.mark.acceptance
def test_a_token_is_a_password_and_its_scopes_the_rights(daemon: BrokerProcess) -> None:
    token = SIGNER.token("rabbitmq.read:*/a*", "rabbitmq.configure:*/a*", "rabbitmq.write:*/a*")
    with connect(daemon, token) as connection:
        channel = connection.channel()
        channel.queue_declare("abc")
        with pytest.raises(pika.exceptions.ChannelClosedByBroker) as caught:
            channel.queue_declare("xyz")
        assert caught.value.reply_code == 403
        assert "configure access to queue 'xyz' in vhost '/' refused for user 'ann'" in str(
            caught.value
        )
        channel = connection.channel()
        assert channel.basic_get("abc") == (None, None, None)


@pytest.mark.acceptance
def test_users_of_the_broker_still_log_in(daemon: BrokerProcess) -> None:
    with connect(daemon, "guest", "guest") as connection:
        connection.channel().queue_declare("q")


@pytest.mark.acceptance
def test_topics_need_a_scope_for_the_key(daemon: BrokerProcess) -> None:
    token = SIGNER.token("rabbitmq.write:*/*", "rabbitmq.write:*/amq.topic/eu.*")
    with connect(daemon, token) as connection:
        channel = connection.channel()
        channel.confirm_delivery()
        channel.basic_publish("amq.topic", "eu.orders", b"x")
        with pytest.raises(pika.exceptions.ChannelClosedByBroker, match="topic 'us"):
            channel.basic_publish("amq.topic", "us.orders", b"x")


@pytest.mark.acceptance
@pytest.mark.parametrize("what", ["expired", "other audience", "other key", "garbage"])
def test_a_token_that_is_wrong_is_refused_and_never_logged(
    daemon: BrokerProcess, what: str
) -> None:
    tokens = {
        "expired": SIGNER.token(*ALL, exp=int(time.time()) - 1),
        "other audience": SIGNER.token(*ALL, aud="other"),
        "other key": Signer("ES256", "key-1").token(*ALL),
        "garbage": "eyJhbGciOiJFUzI1NiJ9.e30.AAAA",
    }
    with pytest.raises(pika.exceptions.ProbableAuthenticationError):
        connect(daemon, tokens[what])
    assert bearer(daemon, tokens[what]).status_code == 401
    assert tokens[what][10:] not in daemon.log_tail()


@pytest.mark.acceptance
def test_no_virtual_host_is_entered_without_a_scope(daemon: BrokerProcess) -> None:
    refused = "access to vhost '/' refused"
    with pytest.raises(pika.exceptions.ProbableAccessDeniedError, match=refused):
        connect(daemon, SIGNER.token("rabbitmq.read:other/*"))


class TestHttp:
    @pytest.mark.acceptance
    def test_a_bearer_token_says_who_asks(self, daemon: BrokerProcess) -> None:
        answer = bearer(daemon, SIGNER.token("rabbitmq.tag:management", *ALL))
        assert answer.json()["name"] == "ann"
        assert answer.json()["tags"] == ["management"]

    @pytest.mark.acceptance
    def test_a_token_may_be_the_password_of_basic(self, daemon: BrokerProcess) -> None:
        token = SIGNER.token("rabbitmq.tag:monitoring")
        assert HttpApi(daemon.management_url, "x", token).get("/api/whoami")["name"] == "ann"

    @pytest.mark.acceptance
    def test_rights_are_those_of_the_scopes(self, daemon: BrokerProcess) -> None:
        token = SIGNER.token("rabbitmq.tag:management", "rabbitmq.configure:*/a*")
        api = HttpApi(daemon.management_url, "x", token)
        assert api.call("PUT", "/api/queues/%2F/abc", {})[0] == 201
        assert api.call("PUT", "/api/queues/%2F/xyz", {})[0] in (401, 403)
        assert [each["name"] for each in api.get("/api/vhosts")] == ["/"]

    @pytest.mark.acceptance
    def test_an_administrator_makes_what_its_scopes_may_not_enter(
        self, daemon: BrokerProcess
    ) -> None:
        api = HttpApi(daemon.management_url, "x", SIGNER.token("rabbitmq.tag:administrator"))
        assert api.call("PUT", "/api/vhosts/shop", {})[0] == 201
        assert api.call("PUT", "/api/users/bob", {"password": "pw", "tags": ""})[0] == 201
        rights = {"configure": "", "write": "", "read": ""}
        assert api.call("PUT", "/api/permissions/shop/bob", rights)[0] == 201
        assert [each["user"] for each in api.get("/api/vhosts/shop/permissions")] == ["bob"]

    @pytest.mark.acceptance
    def test_a_token_without_a_tag_is_no_manager(self, daemon: BrokerProcess) -> None:
        answer = bearer(daemon, SIGNER.token(*ALL))
        assert answer.status_code == 401
        assert answer.json()["reason"].startswith("Not management user: ")


class TestKeys:
    @pytest.mark.acceptance
    def test_a_new_key_is_fetched_when_a_token_names_it(
        self, daemon: BrokerProcess, provider: WebService
    ) -> None:
        new = Signer("EdDSA", "key-2")
        provider.answer = key_server(SIGNER.public(), new.public())
        # one that was just read is not read again at once
        wait_for(lambda: bearer(daemon, new.token("rabbitmq.tag:management")).is_success, 60, "it")
        with connect(daemon, new.token(*ALL)) as connection:
            assert connection.is_open

    @pytest.mark.acceptance
    def test_made_up_keys_do_not_have_the_server_asked_each_time(
        self, daemon: BrokerProcess, provider: WebService
    ) -> None:
        asked, started_s = len(provider.asked), time.monotonic()
        for number in range(20):
            assert bearer(daemon, Signer("ES256", f"x{number}").token()).status_code in (401, 429)
        cooldowns = (time.monotonic() - started_s) // COOLDOWN_S
        assert len(provider.asked) <= asked + 2 + cooldowns

    @pytest.mark.acceptance
    def test_a_slow_provider_delays_only_those_who_need_it(
        self, start_daemon: StartDaemon, provider: WebService
    ) -> None:
        provider.gate.clear()
        daemon = start_daemon(config(provider))
        with connect(daemon, "guest", "guest") as connection:
            connection.channel().queue_declare("q")
        provider.gate.set()
        with connect(daemon, SIGNER.token(*ALL)) as connection:
            assert connection.is_open

    @pytest.mark.acceptance
    def test_keys_may_be_found_by_the_issuer(
        self, start_daemon: StartDaemon, provider: WebService
    ) -> None:
        keys = key_server(SIGNER.public())
        document = json.dumps({"jwks_uri": f"{provider.url}/jwks"})
        provider.answer = lambda asked: (
            (200, document) if asked.path.endswith("/openid-configuration") else keys(asked)
        )
        text = config(provider).replace("jwks_url", "issuer").replace("/jwks", "/realm")
        daemon = start_daemon(text)
        with connect(daemon, SIGNER.token(*ALL, iss=f"{provider.url}/realm")) as connection:
            assert connection.is_open
        with pytest.raises(pika.exceptions.ProbableAuthenticationError):
            connect(daemon, SIGNER.token(*ALL, iss="https://evil.example"))

    @pytest.mark.acceptance
    def test_keys_may_be_in_a_file(self, start_daemon: StartDaemon, tmp_path: Path) -> None:
        (tmp_path / "key.pem").write_text(SIGNER.pem())
        daemon = start_daemon(f"""
            [auth]
            backends = ["oauth2"]
            [oauth]
            resource_server_id = "rabbitmq"
            key_file = "{tmp_path}/key.pem"
        """)
        with connect(daemon, SIGNER.token(*ALL)) as connection:
            assert connection.is_open


def with_a_short_life(story: Callable[[int], T]) -> T:
    """What comes of ``story``, which gets the end of its token; a slow machine has more time."""
    for life_s in (3, 12):
        try:
            return story(int(time.time()) + life_s)
        except pika.exceptions.AMQPConnectionError:
            continue
    return story(int(time.time()) + 48)


class TestExpiry:
    @pytest.mark.acceptance
    def test_a_connection_ends_with_its_token(self, daemon: BrokerProcess) -> None:
        connection = with_a_short_life(
            lambda expires_s: connect(daemon, SIGNER.token(*ALL, exp=expires_s))
        )
        with pytest.raises(pika.exceptions.ConnectionClosedByBroker) as caught:
            connection.sleep(60)
        assert (caught.value.reply_code, caught.value.reply_text) == (
            320,
            "CONNECTION_FORCED - credential expired",
        )

    @pytest.mark.acceptance
    def test_update_secret_renews_it(self, daemon: BrokerProcess) -> None:
        def renew(expires_s: int) -> tuple[pika.BlockingConnection, int]:
            connection = connect(daemon, SIGNER.token(*ALL, exp=expires_s))
            connection.update_secret(SIGNER.token("rabbitmq.configure:*/a*"), "renewed")
            return connection, expires_s

        connection, expires_s = with_a_short_life(renew)
        channel = connection.channel()
        while time.time() < expires_s + 1:  # the first one has ended, and the broker has seen it
            connection.process_data_events(0.1)
        channel.queue_declare("abc")
        with pytest.raises(pika.exceptions.ChannelClosedByBroker):
            channel.queue_declare("xyz")
        connection.close()

    @pytest.mark.acceptance
    @pytest.mark.parametrize(
        "claims", [{"sub": "bob"}, {"aud": "other"}, {"exp": 1}], ids=["user", "audience", "time"]
    )
    def test_a_secret_that_is_wrong_ends_the_connection(
        self, daemon: BrokerProcess, claims: dict[str, Any]
    ) -> None:
        connection = connect(daemon, SIGNER.token(*ALL))
        with pytest.raises(pika.exceptions.ConnectionClosedByBroker) as caught:
            connection.update_secret(SIGNER.token(*ALL, **claims), "renewed")
        assert caught.value.reply_code == 530
        assert "New secret was refused by one of the backends" in caught.value.reply_text
