"""What the pika tests say often: publish, take everything, wait for deliveries.

Invariant: every wait ends at a deadline, and names what was missing.
"""

from __future__ import annotations

from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pamqp import commands, frame, header
from pamqp.body import ContentBody

from .broker_process import BrokerProcess, BrokerUnderTest
from .neighbour import busy_s
from .raw_client import RawClient
from .waiting import wait_for

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import pika
    from pika.adapters.blocking_connection import BlockingChannel

DELIVERY_DEADLINE_S = 60.0


def worked_s(broker: BrokerUnderTest) -> float:
    """Seconds of processor time that the broker's event loop has had; 0 where nobody counts them.

    What other processes on the machine do does not count.
    """
    if isinstance(broker, BrokerProcess) and Path("/proc/self/schedstat").exists():
        return busy_s(broker)
    return 0.0


@contextmanager
def channel_to(url: str, *, confirms: bool = True) -> Iterator[BlockingChannel]:
    """A channel of a connection of its own; with confirms a publish returns when it is safe."""
    import pika  # not before a test needs it: it may not be installed

    connection = pika.BlockingConnection(pika.URLParameters(url))
    try:
        channel = connection.channel()
        if confirms:
            channel.confirm_delivery()
        yield channel
    finally:
        if connection.is_open:
            connection.close()


def declare(channel: BlockingChannel, name: str = "", **arguments: object) -> str:
    """An exclusive queue; ``x_max_length`` and the like are its arguments."""
    named = {key.replace("_", "-"): value for key, value in arguments.items()}
    return str(channel.queue_declare(name, exclusive=True, arguments=named).method.queue)


def publish(channel: BlockingChannel, queue: str, *bodies: bytes) -> None:
    for body in bodies:
        channel.basic_publish("", queue, body)


@contextmanager
def raw_to(broker: BrokerUnderTest) -> Iterator[RawClient]:
    """An open client that can send several things in one piece, which arrive at the same time."""
    with RawClient((broker.host, broker.port)) as raw:
        yield raw.open(broker.username, broker.password, vhost=broker.vhost)
        raw.close()


def publish_octets(exchange: str, routing_key: str, body: bytes, **properties: Any) -> bytes:
    """The frames of a publish, on channel 1."""
    publishing = commands.Basic.Publish(exchange=exchange, routing_key=routing_key)
    head = header.ContentHeader(
        body_size=len(body), properties=commands.Basic.Properties(**properties)
    )
    parts = (publishing, head, ContentBody(body))
    return b"".join(frame.marshal(part, 1) for part in parts)


def get_all(channel: BlockingChannel, queue: str) -> list[bytes]:
    """Every ready message's body, taken with basic.get and no acks."""
    bodies: list[bytes] = []
    while True:
        method, _, body = channel.basic_get(queue, auto_ack=True)
        if method is None:
            return bodies
        bodies.append(body)


def receive(
    channel: BlockingChannel, queue: str, count: int, **options: Any
) -> list[tuple[Any, pika.BasicProperties, bytes]]:
    """The next ``count`` deliveries of a new consumer, which stays; fails at the deadline."""
    received: list[tuple[Any, pika.BasicProperties, bytes]] = []
    for method, properties, body in channel.consume(
        queue, inactivity_timeout=DELIVERY_DEADLINE_S, **options
    ):
        assert method is not None, f"{len(received)} of {count} deliveries, then silence"
        received.append((method, properties, body))
        if len(received) == count:
            break
    return received


def ready_count(channel: BlockingChannel, queue: str) -> int:
    return int(channel.queue_declare(queue, passive=True).method.message_count)


def serve_until(
    connection: pika.BlockingConnection, condition: Callable[[], object], what: str
) -> None:
    """Process the connection's events until ``condition`` holds; fails naming ``what``."""

    def served() -> bool:
        connection.process_data_events(0.05)
        return bool(condition())

    wait_for(served, DELIVERY_DEADLINE_S, what)
