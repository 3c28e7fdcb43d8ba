"""The event exchange as pika sees it, here and on RabbitMQ 3.10: keys, headers and their types."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import pytest

from benchmarks.macro.brokers import RabbitMQ
from tests.support.broker_process import StartDaemon
from tests.support.rabbitmq_management import installed_rabbitmq
from tests.support.waiting import wait_for

pika = pytest.importorskip("pika", reason="pika (PyPI) is not installed")

DEADLINE_S: Final = 60.0

#: Headers that RabbitMQ 3.10 has and this broker has not, and why.
MISSING_HERE: Final = {
    # no TLS
    **dict.fromkeys(
        ("peer_cert_subject", "peer_cert_issuer", "peer_cert_validity"), "there is no TLS"
    ),
    **dict.fromkeys(
        ("ssl_protocol", "ssl_key_exchange", "ssl_cipher", "ssl_hash"), "there is no TLS"
    ),
    "owner_pid": "there are no processes; exclusive says whether there is an owner",
    "client_id": "MQTT",
}
#: Headers of another type here, and why.
OTHERWISE_HERE: Final = {
    "arguments": "a table; RabbitMQ 3.10 writes Erlang's terms as text, and nothing as an array",
    "client_properties": "likewise",
    "error": "text; RabbitMQ 3.10 writes an array of the numbers of its characters",
}
#: Headers that this broker has in addition.
ADDED_HERE: Final = {
    "exclusive": "RabbitMQ 3.10 does not say it of a queue",
    "user_provided_name": "only where the client gives one",
    "vhost": "of connection.closed and consumer.deleted",
    "user_who_performed_action": "of connection.closed",
    "name": "of connection.closed and channel.closed, where RabbitMQ has the process alone",
}


@pytest.fixture
def here(start_daemon: StartDaemon) -> str:
    """The URL of a broker of ours with an event exchange."""
    return start_daemon('[events]\nvhost = "/"\n').url


@pytest.fixture
def there() -> Iterator[str]:
    """The URL of a RabbitMQ with the plugin."""
    with RabbitMQ(installed_rabbitmq(), ("rabbitmq_event_exchange",)) as server:
        yield server.url


def story(url: str) -> dict[str, dict[str, Any]]:
    """Headers of the last event of each key, of what a client does in its life."""
    parameters = pika.URLParameters(url)
    with pika.BlockingConnection(parameters) as watching:
        watcher = watching.channel()
        watcher.queue_declare("events", exclusive=True)
        watcher.queue_bind("events", "amq.rabbitmq.event", "#")
        connection = pika.BlockingConnection(parameters)
        channel = connection.channel()
        channel.exchange_declare("x", "topic", auto_delete=True)
        channel.queue_declare("q", arguments={"x-max-length": 10})
        channel.queue_bind("q", "x", "k")
        channel.basic_qos(prefetch_count=7)
        tag = channel.basic_consume("q", lambda *_: None)
        channel.basic_cancel(tag)
        channel.queue_unbind("q", "x", "k")
        channel.queue_delete("q")
        channel.close()
        connection.close()
        wrong = pika.URLParameters(url)
        wrong.credentials = pika.PlainCredentials("guest", "wrong")
        with pytest.raises(pika.exceptions.AMQPError):
            pika.BlockingConnection(wrong)
        found: dict[str, dict[str, Any]] = {}

        def has_all() -> bool:
            method, properties, body = watcher.basic_get("events", auto_ack=True)
            if method is not None:
                assert body == b""
                assert properties.delivery_mode == 2
                assert (
                    abs(properties.headers["timestamp_in_ms"] // 1000 - properties.timestamp) <= 1
                )
                found[method.routing_key] = properties.headers
            return "user.authentication.failure" in found

        wait_for(has_all, DEADLINE_S, "the event of the last login")
        return found


@pytest.mark.acceptance
def test_a_client_s_life_as_events(here: str) -> None:
    happened = story(here)
    assert set(happened) == {
        *("user.authentication.success", "user.authentication.failure"),
        *("connection.created", "connection.closed", "channel.created", "channel.closed"),
        *("exchange.created", "exchange.deleted", "queue.created", "queue.deleted"),
        *("binding.created", "binding.deleted", "consumer.created", "consumer.deleted"),
    }
    assert happened["connection.created"]["pid"] == happened["connection.closed"]["pid"]
    assert happened["queue.created"]["arguments"] == {"x-max-length": 10}


@pytest.mark.acceptance
def test_keys_headers_and_types_are_rabbitmq_s(here: str, there: str) -> None:
    ours, theirs = story(here), story(there)
    assert set(ours) == set(theirs)
    problems = []
    for key, fields in theirs.items():
        for name, value in fields.items():
            if name in MISSING_HERE or (name in OTHERWISE_HERE and name in ours[key]):
                continue
            if name not in ours[key]:
                problems.append(f"{key}: {name} is missing, RabbitMQ has {value!r}")
            elif type(ours[key][name]) is not type(value):
                problems.append(f"{key}: {name} is {ours[key][name]!r}, RabbitMQ has {value!r}")
        problems += [
            f"{key}: {name} is ours alone"
            for name in ours[key]
            if name not in fields and name not in ADDED_HERE
        ]
    assert not problems, "\n".join(problems)
