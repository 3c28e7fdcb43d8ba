"""Logins and rights that an HTTP service decides, as RabbitMQ asks one."""

from __future__ import annotations

from collections.abc import Iterator

import pika
import pika.exceptions
import pytest

from tests.support.broker_process import BrokerProcess, StartDaemon
from tests.support.http_api import HttpApi
from tests.support.web_service import Asked, WebService, web_service


def decide(asked: Asked) -> tuple[int, str]:
    """ann may do all with what begins with a, but for topics of the us; mo is a manager."""
    fields = asked.fields
    if asked.path == "/auth/user":
        if fields["password"] != f"{fields['username']}-pw":
            return 200, "deny wrong password"
        return 200, "allow management" if fields["username"] == "mo" else "allow"
    if asked.path == "/auth/vhost":
        return 200, "allow" if fields["vhost"] == "/" else "deny"
    if asked.path == "/auth/resource":
        return 200, "allow" if fields["name"].startswith("a") else "deny"
    return 200, "allow" if fields["routing_key"].startswith("eu") else "deny"


@pytest.fixture
def service() -> Iterator[WebService]:
    with web_service(decide) as service:
        yield service


def config(service: WebService, more: str = "") -> str:
    return f"""
        [auth]
        backends = ["internal", "http"]
        failure_delay_s = 0
        [http_auth]
        user_url = "{service.url}/auth/user"
        vhost_url = "{service.url}/auth/vhost"
        resource_url = "{service.url}/auth/resource"
        topic_url = "{service.url}/auth/topic"
        timeout_s = 60
        cache_s = 3600
        {more}
    """


@pytest.fixture
def daemon(start_daemon: StartDaemon, service: WebService) -> BrokerProcess:
    return start_daemon(config(service))


def connect(
    daemon: BrokerProcess, name: str = "ann", password: str | None = None
) -> pika.BlockingConnection:
    given = f"{name}-pw" if password is None else password
    return pika.BlockingConnection(
        pika.URLParameters(daemon.url_for(username=name, password=given))
    )


@pytest.mark.acceptance
def test_the_service_is_asked_as_rabbitmq_asks_it(
    daemon: BrokerProcess, service: WebService
) -> None:
    with connect(daemon) as connection:
        channel = connection.channel()
        channel.confirm_delivery()
        channel.queue_declare("abc")
        channel.basic_publish("amq.topic", "eu.x", b"1")
        channel.basic_publish("", "abc", b"2")
        assert channel.basic_get("abc")[2] == b"2"
    user = {"username": "ann", "tags": ""}
    place = {**user, "vhost": "/"}
    assert service.asked_for("/auth/user") == [{"username": "ann", "password": "ann-pw"}]
    assert service.asked_for("/auth/vhost") == [{**place, "ip": "127.0.0.1"}]
    assert service.asked_for("/auth/resource") == [
        {**place, "resource": resource, "name": name, "permission": right}
        for resource, name, right in (
            ("queue", "abc", "configure"),
            ("exchange", "amq.topic", "write"),
            ("exchange", "amq.default", "write"),
            ("queue", "abc", "read"),
        )
    ]
    assert service.asked_for("/auth/topic") == [
        {
            **place,
            "resource": "topic",
            "name": "amq.topic",
            "permission": "write",
            "routing_key": "eu.x",
            "variable_map.username": "ann",
            "variable_map.vhost": "/",
        }
    ]
    assert {each.method for each in service.asked} == {"POST"}


@pytest.mark.acceptance
def test_what_is_denied_is_refused_by_name(daemon: BrokerProcess) -> None:
    with connect(daemon) as connection:
        with pytest.raises(pika.exceptions.ChannelClosedByBroker) as caught:
            connection.channel().queue_declare("xyz")
        assert caught.value.reply_code == 403
        assert "configure access to queue 'xyz' in vhost '/' refused" in caught.value.reply_text
        channel = connection.channel()
        channel.confirm_delivery()
        with pytest.raises(pika.exceptions.ChannelClosedByBroker, match="topic 'us' in exchange"):
            channel.basic_publish("amq.topic", "us", b"")


@pytest.mark.acceptance
def test_a_wrong_password_is_refused_and_logged_nowhere(
    daemon: BrokerProcess, service: WebService
) -> None:
    with pytest.raises(pika.exceptions.ProbableAuthenticationError):
        connect(daemon, password="not-this-one")
    assert "wrong password" in daemon.log_tail()
    assert "not-this-one" not in daemon.log_tail()
    with pytest.raises(pika.exceptions.ProbableAuthenticationError):
        connect(daemon, password="")
    assert len(service.asked_for("/auth/user")) == 1


@pytest.mark.acceptance
@pytest.mark.parametrize("answer", [(500, "allow"), (200, "allowed"), (200, ""), (200, "maybe")])
def test_what_is_no_answer_allows_nothing(
    daemon: BrokerProcess, service: WebService, answer: tuple[int, str]
) -> None:
    service.answer = lambda _: answer
    with pytest.raises(pika.exceptions.ProbableAuthenticationError):
        connect(daemon)
    assert "no answer about user 'ann'" in daemon.log_tail()


@pytest.mark.acceptance
def test_a_service_that_is_gone_allows_nothing(daemon: BrokerProcess, service: WebService) -> None:
    connection = connect(daemon)
    service.answer = lambda _: (503, "")
    with pytest.raises(pika.exceptions.ChannelClosedByBroker) as caught:
        connection.channel().queue_declare("abc")
    assert caught.value.reply_code == 403
    connection.close()


@pytest.mark.acceptance
def test_answers_are_remembered_for_all_connections(
    daemon: BrokerProcess, service: WebService
) -> None:
    for _ in range(3):
        with connect(daemon) as connection:
            connection.channel().queue_declare("abc")
    assert len(service.asked) == 3


@pytest.mark.acceptance
def test_a_slow_service_delays_no_other_client(daemon: BrokerProcess, service: WebService) -> None:
    with connect(daemon) as slow, connect(daemon, "guest", "guest") as other:
        channel = slow.channel()
        service.gate.clear()
        channel.basic_publish("amq.topic", "eu.x", b"waits for its right")
        slow.process_data_events(0)
        other.channel().queue_declare("q")
        service.gate.set()
        channel.queue_declare("abc")


class TestHttp:
    @pytest.mark.acceptance
    def test_the_api_asks_the_service_too(self, daemon: BrokerProcess) -> None:
        api = HttpApi(daemon.management_url, "mo", "mo-pw")
        assert api.get("/api/whoami") == {
            "name": "mo",
            "tags": ["management"],
            "is_internal_user": False,
        }
        assert [each["name"] for each in api.get("/api/vhosts")] == ["/"]
        assert api.call("PUT", "/api/queues/%2F/abc", {"durable": True})[0] == 201
        assert api.call("PUT", "/api/queues/%2F/xyz", {})[0] in (401, 403)
        body = {
            "properties": {},
            "routing_key": "abc",
            "payload": "x",
            "payload_encoding": "string",
        }
        assert api.done("POST", "/api/exchanges/%2F/amq.default/publish", body) == {"routed": True}

    @pytest.mark.acceptance
    def test_a_user_without_a_tag_is_no_manager(self, daemon: BrokerProcess) -> None:
        assert HttpApi(daemon.management_url, "ann", "ann-pw").call("GET", "/api/whoami")[0] == 401


class TestRightsOfThisBroker:
    """The service says who somebody is, and this broker what they may do."""

    @pytest.fixture
    def daemon(self, start_daemon: StartDaemon, service: WebService) -> BrokerProcess:
        return start_daemon(config(service, 'rights = "internal"\nmethod = "get"'))

    @pytest.mark.acceptance
    def test_a_user_has_the_rights_that_it_has_here(
        self, daemon: BrokerProcess, service: WebService
    ) -> None:
        api = HttpApi(daemon.management_url)
        api.done("PUT", "/api/users/ann", {"password": "another", "tags": ""})
        rights = {"configure": "^x", "write": "", "read": ""}
        api.done("PUT", "/api/permissions/%2F/ann", rights)
        connection = connect(daemon)
        connection.channel().queue_declare("xyz")
        assert {(each.method, each.path) for each in service.asked} == {("GET", "/auth/user")}
        api.done("DELETE", "/api/users/ann")
        with pytest.raises(pika.exceptions.ConnectionClosedByBroker, match="user 'ann' is deleted"):
            connection.sleep(60)

    @pytest.mark.acceptance
    def test_a_user_that_is_not_known_here_is_refused(self, daemon: BrokerProcess) -> None:
        with pytest.raises(pika.exceptions.ProbableAuthenticationError):
            connect(daemon)
        assert "no user 'ann' is known here" in daemon.log_tail()
