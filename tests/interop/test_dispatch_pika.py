"""Which consumer gets a message, as users of pika see it."""

from __future__ import annotations

from time import monotonic
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("pika", reason="pika (PyPI) is not installed")

from tests.support.pika_calls import serve_until

from .inbox import Inbox, put

if TYPE_CHECKING:
    import pika
    from pika.adapters.blocking_connection import BlockingChannel

    from tests.support.broker_process import BrokerUnderTest


@pytest.fixture(autouse=True)
def only_here(broker: BrokerUnderTest) -> None:
    # differs: additions
    if broker.is_foreign:
        pytest.skip("RabbitMQ has no dispatch rules")


def declare(channel: BlockingChannel, arguments: dict[str, Any]) -> str:
    return str(channel.queue_declare("", exclusive=True, arguments=arguments).method.queue)


@pytest.mark.row("E30")
def test_a_consumer_for_urgent_messages_leaves_the_others_to_the_rest(
    connection: pika.BlockingConnection, channel: BlockingChannel
) -> None:
    queue = declare(channel, {"x-max-priority": 9})
    urgent = Inbox(connection, queue, arguments={"x-min-priority": 5})
    for priority in (1, 7, 2, 5):
        put(channel, queue, b"%d" % priority, priority=priority)
    put(channel, queue, b"none")
    urgent.wait(b"7", b"5")
    rest = Inbox(connection, queue)
    rest.wait(b"2", b"1", b"none")


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        ("round-robin", ((b"0", b"2"), (b"1", b"3", b"4"))),
        ("strict", ((b"0", b"1"), (b"2", b"3", b"4"))),
        ("least-loaded", ((b"0",), (b"1", b"2", b"3", b"4"))),
    ],
)
def test_a_rule_says_which_consumer_is_next(
    connection: pika.BlockingConnection,
    channel: BlockingChannel,
    rule: str,
    expected: tuple[tuple[bytes, ...], ...],
) -> None:
    queue = declare(channel, {"x-dispatch": rule})
    small = Inbox(connection, queue, prefetch_count=2)
    large = Inbox(connection, queue, prefetch_count=8)
    for number in range(5):
        put(channel, queue, b"%d" % number)
    serve_until(connection, lambda: len(small.bodies + large.bodies) == 5, "all of them")
    assert (tuple(small.bodies), tuple(large.bodies)) == expected


def test_deliveries_start_with_the_second_consumer(
    connection: pika.BlockingConnection, channel: BlockingChannel
) -> None:
    queue = declare(channel, {"x-consumers-before-dispatch": 2})
    for number in range(4):
        put(channel, queue, b"%d" % number)
    first = Inbox(connection, queue)
    first.wait()
    second = Inbox(connection, queue)
    first.wait(b"0", b"2")
    second.wait(b"1", b"3")


@pytest.mark.parametrize("place", ["queue", "consumer"])
def test_messages_come_at_the_rate_that_was_asked_for(
    connection: pika.BlockingConnection, channel: BlockingChannel, place: str
) -> None:
    rate = {"x-max-rate": 20}
    queue = declare(channel, rate if place == "queue" else {})
    bodies = [b"%d" % number for number in range(30)]
    for body in bodies:
        put(channel, queue, body)
    started_s = monotonic()
    inbox = Inbox(connection, queue, arguments=rate if place == "consumer" else {})
    inbox.wait(*bodies)
    assert monotonic() - started_s > 0.3  # twenty at once, and ten more at 20 a second
