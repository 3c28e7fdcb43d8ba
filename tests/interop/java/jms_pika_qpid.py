"""The pika side of what the Qpid JMS client and a Python program say to each other.

``write`` fills queues before the JUnit suite begins, for ``PikaWritesQpidTest``; the checks are for
what ``PikaReadsQpidTest`` has left behind. Called by ``test_jms.py``.
Invariant: both sides name a queue by the run's prefix, so that runs do not meet.
"""

from __future__ import annotations

import time
from collections.abc import Mapping

import pika
from pika.adapters.blocking_connection import BlockingChannel
from pika.compat import long

TEXT = "h\u00e4re \u20ac"
OCTETS = bytes([0, 1, 0xCE, 0xFF])
A_DAY_MS = 86_400_000


def write(channel: BlockingChannel, prefix: str) -> None:
    """Leave the messages that ``PikaWritesQpidTest`` is to find, one queue for each case."""
    _leave(
        channel,
        prefix + "pika-to-qpid-text",
        TEXT.encode(),
        content_type="text/plain",
        correlation_id="corr-1",
        type="kind",
        priority=7,
        delivery_mode=2,
        message_id="ID:pika-1",
    )
    headers = {
        "boolean": True,
        "int": 70_000,
        "long": 5_000_000_000,
        "text": "text",
        "nothing": None,
        "JMSXGroupID": "g",
    }
    _leave(channel, prefix + "pika-to-qpid-headers", b"", headers=headers)
    _leave(channel, prefix + "pika-to-qpid-bytes", OCTETS)
    for number in range(4):
        properties = {"n": number, "colour": "red" if number % 2 else "blue"}
        name = prefix + "pika-to-qpid-select"
        _leave(channel, name, b"%d" % number, content_type="text/plain", headers=properties)
    _leave(channel, prefix + "pika-to-qpid-ttl", b"ttl", expiration=str(A_DAY_MS))


def _leave(channel: BlockingChannel, queue: str, body: bytes, **properties: object) -> None:
    channel.queue_declare(queue, durable=True)
    channel.basic_publish("", queue, body, pika.BasicProperties(**properties))


def check_text(channel: BlockingChannel, prefix: str) -> None:
    """A TextMessage is UTF-8 with its JMS headers as properties, its properties as headers."""
    properties, body = _take(channel, prefix + "qpid-to-pika-text")
    assert body.decode() == TEXT
    assert properties.content_type == "text/plain"
    assert properties.delivery_mode == 2
    assert properties.priority == 7
    assert properties.type == "kind"
    assert properties.correlation_id == "corr-1"
    assert properties.message_id.startswith("ID:")
    assert properties.user_id == "guest"
    now_ms = time.time() * 1000
    assert abs(properties.timestamp - now_ms) < A_DAY_MS, "milliseconds, where others write seconds"
    assert int(properties.expiration) == properties.timestamp + 3_600_000, "an instant"
    _check_headers(properties.headers)


def _check_headers(headers: Mapping[str, object]) -> None:
    """The types as well; pika itself cuts floats (1.5, -2.25) to integers.

    What was 8 octets wide, or a float, pika gives as its ``long``, and the rest as ``int``.
    """
    expected = {
        "boolean": True,
        "byte": -7,
        "short": -300,
        "int": 70_000,
        "long": 5_000_000_000,
        "float": 1,
        "double": -2,
        "text": "t\u00e4xt",
        "JMS_QPID_DESTTYPE": 1,
    }
    assert headers == expected, headers
    longs = {name for name, value in headers.items() if isinstance(value, long)}
    assert longs == {"long", "float", "double"}
    assert headers["boolean"] is True


def check_bytes(channel: BlockingChannel, prefix: str) -> None:
    """A BytesMessage is its octets."""
    properties, body = _take(channel, prefix + "qpid-to-pika-bytes")
    assert body == OCTETS
    assert properties.content_type == "application/octet-stream"


def check_map(channel: BlockingChannel, prefix: str) -> None:
    """A MapMessage is in the format that its content type names."""
    properties, body = _take(channel, prefix + "qpid-to-pika-map")
    assert properties.content_type == "amqp/map"
    assert b"key" in body
    assert b"value" in body


def _take(channel: BlockingChannel, queue: str) -> tuple[pika.BasicProperties, bytes]:
    method, properties, body = channel.basic_get(queue, auto_ack=True)
    assert method is not None, f"nothing in {queue}"
    return properties, body
