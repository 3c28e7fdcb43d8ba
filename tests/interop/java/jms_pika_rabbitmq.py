"""The Python side of the cross tests with RabbitMQ's JMS client: what pika writes and reads.

`write` publishes before the Maven run what ``PikaWritesRabbitTest`` takes; the ``read_...``
functions hold what ``PikaReadsRabbitTest`` left behind to what its cases sent. Both are called by
``test_jms.py``. Names of queues begin with the prefix that the run was given as jms.prefix.
Invariant: each function reads queues that no other one reads, so their order does not matter.
"""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final

import pika

if TYPE_CHECKING:
    from pika.adapters.blocking_connection import BlockingChannel

TEXT: Final = "hällo €"
OCTETS: Final = bytes([0, 1, 0xCE, 0xFF])
WRITTEN_COUNT: Final = 50

#: Headers that pika writes; the client gives all of them as texts.
WRITTEN: Final[dict[str, Any]] = {
    "int": -70_000,
    "long": 5_000_000_000,
    "decimal": Decimal("2.50"),
    "boolean": True,
    "string": "grün €",
}

#: Headers that the Java case puts, as pika gives them: it cuts floats (1.5, -2.25) to integers.
SENT: Final[dict[str, Any]] = {
    "byte": -7,
    "short": -300,
    "int": 70_000,
    "long": 5_000_000_000,
    "float": 1,
    "double": -2,
    "boolean": True,
    "string": "grün €",
}

#: ``n > 1`` as the client would compile it.
CONDITION: Final = "{'>',{'ident',<<\"n\">>},1}."


def write(channel: BlockingChannel, prefix: str) -> None:
    """Publish what ``PikaWritesRabbitTest`` expects, to durable queues of their own."""
    base = f"{prefix}pika-to-rabbitmq-"
    for what in ("text", "bytes", "many", "selected"):
        channel.queue_declare(base + what, durable=True)
    text = pika.BasicProperties(
        content_type="text/plain",
        headers={**WRITTEN, "JMSType": "TextMessage"},
        delivery_mode=2,
        priority=7,
        correlation_id="corr-1",
        message_id="id-1",
    )
    channel.basic_publish("", f"{base}text", TEXT.encode(), text)
    octets = pika.BasicProperties(headers=WRITTEN)
    channel.basic_publish("", f"{base}bytes", OCTETS, octets)
    for number in range(WRITTEN_COUNT):
        channel.basic_publish("", f"{base}many", f"number {number}".encode())
    exchange = f"{base}selecting"
    channel.exchange_declare(exchange, "x-jms-topic", durable=True)
    selecting = {"rjms_erlang_selector": CONDITION, "rjms_version": "3.7.0"}
    channel.queue_bind(f"{base}selected", exchange, "any", selecting)
    for n, body in ((1, b"passed over"), (2, b"chosen")):
        channel.basic_publish(exchange, "any", body, pika.BasicProperties(headers={"n": n}))


def read_text(channel: BlockingChannel, prefix: str) -> None:
    """A text to an AMQP destination: the body is the text, the rest is in properties."""
    method, properties, body = _only(channel, f"{prefix}rabbitmq-to-pika-text")
    assert body.decode() == TEXT
    assert method.exchange == "amq.direct"
    assert method.routing_key == f"{prefix}rabbitmq-to-pika-text"
    assert properties.content_type == "application/octet-stream"
    assert properties.delivery_mode == 2
    assert properties.priority == 7
    assert properties.expiration == "3600000"
    assert properties.correlation_id == "corr-1"
    assert properties.message_id is None
    assert properties.timestamp is None
    headers = _headers(properties)
    _hold_to_sent(headers)
    assert headers["JMSDeliveryMode"] == "PERSISTENT"
    assert headers["JMSPriority"] == 7
    assert headers["JMSCorrelationID"] == "corr-1"
    assert headers["JMSType"] == "TextMessage"
    assert headers["JMSMessageID"].startswith("ID:")


def read_octets(channel: BlockingChannel, prefix: str) -> None:
    """Octets to an AMQP destination, transient."""
    _, properties, body = _only(channel, f"{prefix}rabbitmq-to-pika-bytes")
    assert body == OCTETS
    assert properties.delivery_mode == 1
    assert properties.expiration is None
    headers = _headers(properties)
    _hold_to_sent(headers)
    assert headers["JMSDeliveryMode"] == "NON_PERSISTENT"


def read_own_kind(channel: BlockingChannel, prefix: str) -> None:
    """A message to a JMS queue: a body only the client reads, and headers that anybody can."""
    method, properties, body = _only(channel, f"{prefix}rabbitmq-to-pika-own")
    assert body.startswith(b"\xac\xed")  # Java's object streams begin so
    assert b"in the client's own encoding" in body
    assert method.exchange == "jms.durable.queues"
    assert method.routing_key == f"{prefix}rabbitmq-to-pika-own"
    headers = _headers(properties)
    _hold_to_sent(headers)
    assert headers["JMSType"] == "kind"


def _headers(properties: pika.BasicProperties) -> dict[str, Any]:
    headers: dict[str, Any] | None = properties.headers
    assert headers is not None, "the message has no headers"
    return headers


def _hold_to_sent(headers: dict[str, Any]) -> None:
    found = {name: headers.get(name) for name in SENT}
    assert found == SENT, f"{found} instead of {SENT}"


def _only(
    channel: BlockingChannel, queue: str
) -> tuple[pika.spec.Basic.GetOk, pika.BasicProperties, bytes]:
    method, properties, body = channel.basic_get(queue, auto_ack=True)
    assert method is not None, f"{queue} is empty"
    assert method.message_count == 0, f"{queue} has {method.message_count} messages more"
    return method, properties, body
