"""A user whom a token names is not the broker's user of that name."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pika
import pika.exceptions
import pytest

from hareline.settings import Limits, Settings
from tests.support.broker_thread import BrokerThread, broker_in_thread
from tests.support.http_api import HttpApi
from tests.support.tokens import Signer

SIGNER = Signer()
SCOPES = ("rabbitmq.read:*/*", "rabbitmq.write:*/*", "rabbitmq.configure:*/*")


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerThread]:
    keys: Path = tmp_path_factory.mktemp("keys") / "keys.json"
    keys.write_text(json.dumps({"keys": [SIGNER.public()]}))
    tree = {
        "auth": {"backends": ["internal", "oauth2"], "failure_delay_s": 0},
        "oauth": {"resource_server_id": "rabbitmq", "key_file": str(keys)},
    }
    settings = Settings.model_validate(tree)
    settings = settings.model_copy(update={"limits": Limits(max_connections_per_user=2)})
    with broker_in_thread(settings, has_http=True) as thread:
        yield thread


def connect(broker: BrokerThread, password: str) -> pika.BlockingConnection:
    credentials = pika.PlainCredentials("guest", password)
    return pika.BlockingConnection(
        pika.ConnectionParameters(*broker.address, credentials=credentials)
    )


def token(*more: str) -> str:
    return SIGNER.token(*SCOPES, *more, sub="guest")


@pytest.fixture
def own(broker: BrokerThread) -> Iterator[pika.BlockingConnection]:
    """A connection of the broker's own guest."""
    with connect(broker, "guest") as connection:
        yield connection


def http(broker: BrokerThread, password: str) -> HttpApi:
    return HttpApi(broker.management_url, "guest", password)


@pytest.mark.usefixtures("own")
@pytest.mark.parametrize("tag", ["management", "monitoring"])
def test_a_namesake_does_not_close_connections(broker: BrokerThread, tag: str) -> None:
    namesake, guest = http(broker, token(f"rabbitmq.tag:{tag}")), http(broker, "guest")
    (row,) = guest.get("/api/connections")
    assert len(namesake.get("/api/connections")) == (tag == "monitoring")
    assert namesake.ask("DELETE", f"/api/connections/{row['name']}").status_code in (401, 404)
    assert namesake.ask("DELETE", "/api/connections/username/guest").status_code == 204
    assert [each["name"] for each in guest.get("/api/connections")] == [row["name"]]


@pytest.mark.usefixtures("own")
def test_a_namesake_has_limits_of_its_own(broker: BrokerThread) -> None:
    broker.wait_until(
        lambda broker: ("oauth2", "guest") not in broker.context.open_counts.by_user,
        "the end of earlier connections",
    )
    with (
        connect(broker, token()),
        connect(broker, token()),
        pytest.raises(pika.exceptions.ProbableAccessDeniedError, match="limit"),
    ):
        connect(broker, token())


def test_a_namesake_may_not_say_that_a_user_of_the_broker_has_sent_its_messages(
    broker: BrokerThread, own: pika.BlockingConnection
) -> None:
    properties = pika.BasicProperties(user_id="guest")
    own.channel().basic_publish("", "nowhere", b"", properties)
    with connect(broker, token()) as connection:
        channel = connection.channel()
        channel.confirm_delivery()
        with pytest.raises(pika.exceptions.ChannelClosedByBroker, match="of backend oauth2"):
            channel.basic_publish("", "nowhere", b"", properties)
    body = {
        "properties": {"user_id": "guest"},
        "routing_key": "nowhere",
        "payload": "",
        "payload_encoding": "string",
    }
    namesake = http(broker, token("rabbitmq.tag:management"))
    answer = namesake.ask("POST", "/api/exchanges/%2F/amq.default/publish", body)
    assert "of backend oauth2" in answer.text
    assert answer.status_code == 400


def test_a_user_of_another_backend_may_use_its_own_name(broker: BrokerThread) -> None:
    with connect(broker, SIGNER.token(*SCOPES, sub="ann")) as connection:
        channel = connection.channel()
        queue = channel.queue_declare("", exclusive=True).method.queue
        channel.basic_publish("", queue, b"", pika.BasicProperties(user_id="ann"))
        _, properties, _ = channel.basic_get(queue, auto_ack=True)
        assert properties.user_id == "ann"
