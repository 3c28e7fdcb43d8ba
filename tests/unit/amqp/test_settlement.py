"""Entries of several queues are settled, rejected and released, each in its own queue."""

from __future__ import annotations

import pytest

from hareline.amqp.settlement import reject_entries, release_entries, settle_entries
from hareline.queues.core.entry import QueueEntry
from hareline.wire.methods import commands

from .peer import Peer, SteppedBroker


@pytest.fixture
def entries(broker: SteppedBroker, peer: Peer) -> list[QueueEntry]:
    """Two entries of "a" and two of "b" that a client has, in turn."""
    for name in ("a", "b"):
        peer.declare(name)
        peer.fill(name, b"1", b"2")
    for name in ("a", "b", "a", "b"):
        assert peer.get(name) is not None
    return peer.connection.channels.by_number[1].port.unacked.take_all()


def counts(broker: SteppedBroker) -> list[tuple[int, int]]:
    """Ready and unacked entries of the two queues."""
    queues = [broker.queue(name) for name in ("a", "b")]
    return [(queue.ready_count, queue.unacked_count) for queue in queues]


def test_settled_entries_are_gone(broker: SteppedBroker, entries: list[QueueEntry]) -> None:
    assert counts(broker) == [(0, 2), (0, 2)]
    settle_entries(entries)
    assert counts(broker) == [(0, 0), (0, 0)]


def test_rejected_entries_are_gone(broker: SteppedBroker, entries: list[QueueEntry]) -> None:
    reject_entries(entries)
    assert counts(broker) == [(0, 0), (0, 0)]


def test_released_entries_are_ready_in_their_order(
    broker: SteppedBroker, peer: Peer, entries: list[QueueEntry]
) -> None:
    release_entries(entries[::-1])
    assert counts(broker) == [(2, 0), (2, 0)]
    assert peer.drain("a") == [b"1", b"2"]
    assert peer.drain("b") == [b"1", b"2"]


def test_consumers_have_their_credit_back(broker: SteppedBroker, peer: Peer) -> None:
    peer.declare("q")
    peer.call(1, commands.Basic.Qos, prefetch_count=1)
    peer.subscribe("q", "t")
    peer.fill("q", b"1", b"2")
    assert peer.bodies() == [b"1"]
    settle_entries(peer.connection.channels.by_number[1].port.unacked.take_all())
    assert peer.bodies() == [b"2"]
