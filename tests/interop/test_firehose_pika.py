"""The firehose as pika sees it, here and on RabbitMQ 3.10: the same copies, header by header."""

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
TRACED: Final = '[[vhosts]]\nname = "/"\ntracing = true\n'


@pytest.fixture
def here(start_daemon: StartDaemon) -> str:
    """The URL of a broker of ours whose virtual host is traced."""
    return start_daemon(TRACED).url


@pytest.fixture
def there() -> Iterator[str]:
    """The URL of a RabbitMQ whose virtual host is traced."""
    server = RabbitMQ(installed_rabbitmq())
    with server:
        server.control("trace_on")
        yield server.url


def story(url: str) -> list[tuple[str, bytes, dict[str, Any], dict[str, Any]]]:
    """Key, body, headers and further properties of the copies of a few messages, in order."""
    parameters = pika.URLParameters(url)
    with (
        pika.BlockingConnection(parameters) as watching,
        pika.BlockingConnection(parameters) as connection,
    ):
        watcher = watching.channel()
        watcher.queue_declare("copies", exclusive=True)
        watcher.queue_bind("copies", "amq.rabbitmq.trace", "#")
        channel = connection.channel()
        channel.confirm_delivery()
        channel.queue_declare("q", exclusive=True)
        channel.exchange_declare("x", "fanout", auto_delete=True)
        channel.queue_bind("q", "x")
        properties = pika.BasicProperties(
            content_type="text/plain",
            content_encoding="utf-8",
            headers={"text": "t", "number": 5, "flag": True, "CC": ["copied"]},
            delivery_mode=2,
            priority=3,
            correlation_id="c",
            reply_to="r",
            expiration="60000",
            message_id="m",
            timestamp=1_700_000_000,
            type="t",
            user_id="guest",
            app_id="a",
        )
        channel.basic_publish("x", "key", b"body", properties)
        channel.basic_publish("amq.direct", "nowhere", b"")
        method, _, _ = channel.basic_get("q")
        channel.basic_nack(method.delivery_tag, requeue=True)
        for method, _, _ in channel.consume("q", inactivity_timeout=DEADLINE_S):
            channel.basic_ack(method.delivery_tag)
            break
        channel.cancel()
        found: list[Any] = []

        def has_all() -> bool:
            found.append(watcher.basic_get("copies", auto_ack=True))
            return len([each for each in found if each[0] is not None]) == 4

        wait_for(has_all, DEADLINE_S, "four copies")
        return [_plain(*each) for each in found if each[0] is not None]


def _plain(
    method: Any, properties: Any, body: bytes
) -> tuple[str, bytes, dict[str, Any], dict[str, Any]]:
    headers = dict(properties.headers)
    assert " -> 127.0.0.1:" in headers.pop("connection")
    assert "@" in headers.pop("node")
    further = {
        name: value
        for name, value in vars(properties).items()
        if value is not None and name != "headers"
    }
    assert method.exchange == "amq.rabbitmq.trace"
    return method.routing_key, body, headers, further


@pytest.mark.acceptance
def test_copies_of_a_publish_and_its_deliveries(here: str) -> None:
    copies = story(here)
    assert [key for key, *_ in copies] == [
        "publish.x",
        "publish.amq.direct",
        "deliver.q",
        "deliver.q",
    ]
    assert [body for _, body, *_ in copies] == [b"body", b"", b"body", b"body"]
    assert [headers.get("routed_queues") for _, _, headers, _ in copies] == [["q"], [], None, None]
    assert [headers.get("redelivered") for _, _, headers, _ in copies] == [None, None, 0, 1]
    assert all(not further for *_, further in copies)


@pytest.mark.acceptance
def test_copies_are_rabbitmq_s(here: str, there: str) -> None:
    assert story(here) == story(there)
