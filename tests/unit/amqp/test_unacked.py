"""The tags of a channel that wait for an acknowledgement, against a plain dict as the model.

Entries of several queues are settled, rejected and released, each in its own queue.
"""

from __future__ import annotations

from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hareline.amqp.unacked import UnackedDeliveries, reject_entries, release_entries, settle_entries
from hareline.queues.core.entry import QueueEntry
from hareline.wire.methods import commands

from .peer import Peer, SteppedBroker


class Entry(QueueEntry):
    """Stands for a queue entry, which is never looked into here."""

    def __init__(self, tag: int) -> None:
        self.tag = tag


def filled(unacked: UnackedDeliveries, *tags: int) -> None:
    for tag in tags:
        unacked.entries[tag] = Entry(tag)


def tags_of(entries: list[QueueEntry]) -> list[int]:
    return [cast("Entry", entry).tag for entry in entries]


def test_what_is_put_back_is_taken_again_in_its_order() -> None:
    unacked = UnackedDeliveries()
    filled(unacked, *range(1, 6))
    taken = list(zip((1, 2, 3), unacked.take_up_to(3), strict=True))
    filled(unacked, 6)
    unacked.put_back([taken[2], taken[0]])
    unacked.put_back([])
    assert tags_of(unacked.take_up_to(5)) == [1, 3, 4, 5]


def test_a_multiple_ack_after_many_single_ones_costs_what_is_left() -> None:
    unacked = UnackedDeliveries()
    last = 10**12  # walking up to this tag one by one would take days
    filled(unacked, last - 1, last, last + 1)
    assert tags_of(unacked.take_up_to(last)) == [last - 1, last]
    filled(unacked, last + 2)
    assert tags_of(unacked.take_up_to(last + 2)) == [last + 1, last + 2]


@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("deliver"), st.integers(1, 30)),
            st.tuples(st.just("take"), st.integers(0, 60)),
            st.tuples(st.just("take_up_to"), st.integers(0, 60)),
            st.tuples(st.sampled_from(["take_all", "tags"]), st.just(0)),
            st.tuples(st.just("undo"), st.integers(1, 3)),
        ),
        max_size=40,
    )
)
def test_any_sequence_of_acks_does_what_a_plain_dict_does(steps: list[tuple[str, int]]) -> None:
    unacked = UnackedDeliveries()
    model: dict[int, QueueEntry] = {}
    taken: list[tuple[int, QueueEntry]] = []
    next_tag = 1
    for step, value in steps:
        before = dict(model)
        if step == "deliver":
            filled(unacked, *range(next_tag, next_tag + value))
            for tag in range(next_tag, next_tag + value):
                model[tag] = unacked.entries[tag]
            next_tag += value
        elif step == "take":
            assert unacked.take(value) is model.pop(value, None)
        elif step == "take_up_to":
            if value in model:
                expected = sorted(tag for tag in model if tag <= value)
                assert unacked.take_up_to(value) == [model.pop(tag) for tag in expected]
        elif step == "tags":
            assert unacked.tags() == sorted(model)
        elif step == "take_all":
            assert unacked.take_all() == [model.pop(tag) for tag in sorted(model)]
        elif taken:
            unacked.put_back(taken[-value:])
            model.update(taken[-value:])
            del taken[-value:]
        taken += [(tag, entry) for tag, entry in before.items() if tag not in model]
        assert unacked.entries == model
        assert len(unacked) == len(model)


# ------------------------------------------------------------------ entries of several queues


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
