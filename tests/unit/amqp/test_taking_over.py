"""Single active consumer of a quorum queue: one of higher priority takes over, as in RabbitMQ 4.

The active consumer gets nothing more from then on, and the new one nothing before all that the
active one has is settled.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from hareline.wire.methods import commands
from tests.unit.amqp.peer import Peer, SteppedBroker

BASIC, TX = commands.Basic, commands.Tx

Settle = Callable[[Peer], None]


def ack_each(peer: Peer) -> None:
    peer.ack(2)
    peer.ack(1)


def ack_all(peer: Peer) -> None:
    peer.ack(0, multiple=True)


def reject_all(peer: Peer) -> None:
    peer.nack(2, multiple=True, requeue=False)


def commit(peer: Peer) -> None:
    peer.call(1, TX.Select)
    ack_all(peer)
    peer.call(1, TX.Commit)


@pytest.fixture
def low(broker: SteppedBroker) -> Peer:
    peer = broker.connect()
    arguments = {"x-queue-type": "quorum", "x-single-active-consumer": True}
    peer.declare("q", durable=True, arguments=arguments)
    return peer


@pytest.fixture
def high(broker: SteppedBroker) -> Peer:
    return broker.connect()


def consume(peer: Peer, tag: str, priority: int, **more: Any) -> None:
    peer.subscribe("q", tag, arguments={"x-priority": priority, **more})


def test_it_takes_over_at_once_where_nothing_is_outstanding(low: Peer, high: Peer) -> None:
    consume(low, "low", 1)
    consume(high, "high", 2)
    low.fill("q", b"1", b"2")
    assert (low.bodies(), high.bodies()) == ([], [b"1", b"2"])
    high.ack(0, multiple=True)
    high.call(1, BASIC.Cancel, consumer_tag="high")
    low.fill("q", b"3")
    assert low.bodies() == [b"3"]


@pytest.mark.parametrize("settle", [ack_each, ack_all, reject_all, commit])
@pytest.mark.parametrize("prefetch", [{}, {"x-prefetch-count": 2}, {"x-prefetch-count": 5}])
@pytest.mark.parametrize("more", [{}, {"x-filter-jms-selector": "TRUE"}])
def test_it_waits_until_all_is_settled(
    low: Peer, high: Peer, settle: Settle, prefetch: dict[str, object], more: dict[str, object]
) -> None:
    consume(low, "low", 0, **prefetch)
    low.fill("q", b"1", b"2")
    assert low.bodies() == [b"1", b"2"]
    consume(high, "high", 1, **more)
    low.fill("q", b"3")
    assert (low.bodies(), high.bodies()) == ([], [])
    settle(low)
    assert (low.bodies(), high.bodies()) == ([], [b"3"])
    high.ack(1)
    high.call(1, BASIC.Cancel, consumer_tag="high")
    high.fill("q", *(b"%d" % number for number in range(9)))
    assert len(low.bodies()) == prefetch.get("x-prefetch-count", 9)


def test_what_comes_back_is_for_the_new_one(low: Peer, high: Peer) -> None:
    consume(low, "low", 0, **{"x-prefetch-count": 10, "x-prefetch-refill": 50})
    low.fill("q", b"1", b"2", b"3")
    assert len(low.bodies()) == 3
    consume(high, "high", 1)
    low.ack(2)
    assert high.bodies() == []
    low.nack(3, multiple=True)
    assert high.bodies() == [b"1", b"3"]


def test_the_active_one_goes_on_if_the_new_one_leaves_meanwhile(low: Peer, high: Peer) -> None:
    consume(low, "low", 0)
    low.fill("q", b"1")
    assert low.bodies() == [b"1"]
    consume(high, "high", 1)
    high.call(1, BASIC.Cancel, consumer_tag="high")
    low.fill("q", b"2")
    assert low.bodies() == []
    low.ack(1)
    assert low.bodies() == [b"2"]


def test_the_highest_takes_over_if_the_active_one_leaves_meanwhile(low: Peer, high: Peer) -> None:
    consume(low, "low", 0)
    low.fill("q", b"1")
    assert low.bodies() == [b"1"]
    consume(high, "high", 1)
    consume(high, "highest", 2)
    low.fill("q", b"2")
    low.call(1, BASIC.Cancel, consumer_tag="low")
    (delivered,) = high.receive()
    assert (delivered.method.consumer_tag, delivered.body) == ("highest", b"2")


def test_message_groups_go_with_it(broker: SteppedBroker, low: Peer, high: Peer) -> None:
    arguments = {
        "x-queue-type": "quorum",
        "x-single-active-consumer": True,
        "x-message-group-default": "all",
        "x-message-group-type": "standard",
    }
    low.declare("grouped", durable=True, arguments=arguments)
    low.subscribe("grouped", "low", arguments={"x-priority": 0})
    low.fill("grouped", b"1")
    assert low.bodies() == [b"1"]
    high.subscribe("grouped", "high", arguments={"x-priority": 1})
    low.fill("grouped", b"2")
    low.ack(1)
    assert (low.bodies(), high.bodies()) == ([], [b"2"])


@pytest.mark.parametrize(("queue_type", "priority"), [("quorum", 5), ("classic", 6)])
def test_it_stands_by_otherwise(
    broker: SteppedBroker, high: Peer, queue_type: str, priority: int
) -> None:
    low = broker.connect()
    arguments = {"x-queue-type": queue_type, "x-single-active-consumer": True}
    low.declare("q", durable=True, arguments=arguments)
    consume(low, "low", 5)
    consume(high, "high", priority)
    low.fill("q", b"1")
    assert (low.bodies(), high.bodies()) == ([b"1"], [])
