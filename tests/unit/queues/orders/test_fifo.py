"""First in, first out, and back to one's place; what every ordering must do is in conformance/."""

from __future__ import annotations

import random

import pytest

from hareline.queues.core.entry import SETTLED, QueueEntry
from hareline.queues.orders.fifo import DEAD_ALLOWED, DEAD_BYTES_ALLOWED, FifoOrder
from hareline.queues.queue import Queue
from tests.support.messages import make_message

MESSAGE = make_message(b"x")


@pytest.fixture
def order() -> FifoOrder:
    return FifoOrder()


@pytest.fixture
def entries(queue: Queue, order: FifoOrder) -> list[QueueEntry]:
    """Ten entries that are in the order already."""
    entries = [QueueEntry(queue, MESSAGE, offset) for offset in range(10)]
    for entry in entries:
        order.add(entry)
    return entries


def offsets(entries: list[QueueEntry]) -> list[int]:
    return [entry.offset for entry in entries]


def test_entries_are_taken_in_the_order_of_their_enqueueing(
    order: FifoOrder, entries: list[QueueEntry]
) -> None:
    assert order.take(3) == entries[:3]
    assert order.take(7) == entries[3:]


def test_taking_more_than_there_is_gives_what_there_is(
    order: FifoOrder, entries: list[QueueEntry]
) -> None:
    assert order.take(1000) == entries
    assert order.take(1) == []
    assert len(order) == 0


def test_taking_none_leaves_everything(order: FifoOrder, entries: list[QueueEntry]) -> None:
    assert order.take(0) == []
    order.restore(order.take(2))
    assert order.take(0) == []
    assert order.take(10) == entries


def test_peek_shows_what_take_would_give(order: FifoOrder, entries: list[QueueEntry]) -> None:
    assert order.peek() is entries[0]
    taken = order.take(2)
    assert order.peek() is entries[2]
    order.restore([taken[1]])
    assert order.peek() is entries[1]
    assert order.take(1) == [entries[1]]


def test_peek_into_an_empty_order_is_none(order: FifoOrder) -> None:
    assert order.peek() is None


def test_a_restored_entry_comes_before_all_that_were_never_taken(
    order: FifoOrder, entries: list[QueueEntry]
) -> None:
    taken = order.take(5)
    order.restore([taken[3]])
    assert offsets(order.take(10)) == [3, 5, 6, 7, 8, 9]


def test_entries_restored_in_any_sequence_are_sorted_back(
    order: FifoOrder, entries: list[QueueEntry]
) -> None:
    taken = order.take(6)
    order.restore([taken[4], taken[0]])
    order.restore([taken[5]])
    order.restore([taken[2], taken[1], taken[3]])
    assert order.take(10) == entries


def test_restored_entries_and_new_ones_are_taken_in_one_call(
    order: FifoOrder, entries: list[QueueEntry], queue: Queue
) -> None:
    order.restore(order.take(10))
    late = QueueEntry(queue, MESSAGE, 10)
    order.add(late)
    assert order.take(11) == [*entries, late]


def test_restoring_nothing_changes_nothing(order: FifoOrder, entries: list[QueueEntry]) -> None:
    order.restore([])
    assert order.take(10) == entries


@pytest.mark.parametrize("chunk", [1, 3, 250, 1000])
def test_many_returned_entries_keep_their_places_whatever_the_size_of_the_returns(
    queue: Queue, chunk: int
) -> None:
    order = FifoOrder()
    entries = [QueueEntry(queue, MESSAGE, offset) for offset in range(1000)]
    for entry in entries:
        order.add(entry)
    taken = order.take(1000)
    random.Random(chunk).shuffle(taken)
    for start in range(0, 1000, chunk):
        order.restore(taken[start : start + chunk])
    assert len(order) == 1000
    assert order.take(1000) == entries


def test_length_counts_fresh_and_returned_entries(
    order: FifoOrder, entries: list[QueueEntry]
) -> None:
    assert len(order) == 10
    taken = order.take(4)
    assert len(order) == 6
    order.restore(taken[:2])
    assert len(order) == 8


def test_add_stays_valid_after_the_order_was_emptied(
    order: FifoOrder, entries: list[QueueEntry], queue: Queue
) -> None:
    add = order.add
    order.take(10)
    late = QueueEntry(queue, MESSAGE, 10)
    add(late)
    assert order.take(1) == [late]


# ---------------------------------------------------------------- settled where they stand


def settle(order: FifoOrder, entry: QueueEntry) -> None:
    entry.state = SETTLED
    order.discard(entry)


def test_a_settled_entry_counts_no_more_and_never_comes_out(
    order: FifoOrder, entries: list[QueueEntry]
) -> None:
    for offset in (3, 0, 9):
        settle(order, entries[offset])
    assert len(order) == 7
    assert offsets(list(order)) == [1, 2, 4, 5, 6, 7, 8]
    assert order.peek() is entries[1]
    assert offsets(order.take(3)) == [1, 2, 4]
    assert offsets(order.take(10)) == [5, 6, 7, 8]


def test_a_settled_entry_that_had_come_back_never_comes_out(
    order: FifoOrder, entries: list[QueueEntry]
) -> None:
    order.restore([order.take(4)[2]])
    order.take(3)
    order.restore([entries[1], entries[4]])
    settle(order, entries[1])
    assert offsets(list(order)) == [4, 6, 7, 8, 9]
    assert order.peek() is entries[4]
    assert offsets(order.take(10)) == [4, 6, 7, 8, 9]


def test_the_first_entry_is_let_go_of_at_once_when_it_is_settled(
    order: FifoOrder, entries: list[QueueEntry]
) -> None:
    settle(order, entries[1])
    assert len(order._fresh) == 10
    settle(order, entries[0])
    assert [*order._fresh] == entries[2:]


def test_settled_entries_are_swept_out_when_they_are_the_majority(queue: Queue) -> None:
    order = FifoOrder()
    entries = [QueueEntry(queue, MESSAGE, offset) for offset in range(1000)]
    for entry in entries:
        order.add(entry)
    for entry in entries[1:-1]:
        settle(order, entry)
        assert len(order._fresh) <= 2 * len(order) + DEAD_ALLOWED + 1
    assert order.take(10) == [entries[0], entries[-1]]


def test_large_settled_entries_are_swept_out_before_they_are_the_majority(queue: Queue) -> None:
    order = FifoOrder()
    large = make_message(bytes(DEAD_BYTES_ALLOWED // 4))
    entries = [QueueEntry(queue, large, offset) for offset in range(40)]
    for entry in entries:
        order.add(entry)
    for entry in entries[1:5]:
        settle(order, entry)
    assert len(order._fresh) == 40
    settle(order, entries[5])
    assert [*order._fresh] == [entries[0], *entries[6:]]
    assert len(order) == 35


def test_add_stays_valid_after_a_sweep(queue: Queue) -> None:
    order = FifoOrder()
    add = order.add
    entries = [QueueEntry(queue, MESSAGE, offset) for offset in range(2 * DEAD_ALLOWED)]
    for entry in entries:
        add(entry)
    for entry in entries[1:]:
        settle(order, entry)
    late = QueueEntry(queue, MESSAGE, 2 * DEAD_ALLOWED)
    add(late)
    assert order.take(10) == [entries[0], late]


def test_an_entry_that_comes_late_takes_its_place_between_those_that_stand(
    queue: Queue, order: FifoOrder
) -> None:
    """One that was held until now was never taken, so it may belong anywhere."""
    entries = [QueueEntry(queue, MESSAGE, offset) for offset in range(5)]
    for offset in (1, 2, 4):
        order.add(entries[offset])
    order.restore([entries[3]])
    order.restore([entries[0]])
    assert order.take(10) == entries


def test_the_oldest_is_the_least_and_the_offset_the_rank(
    order: FifoOrder, entries: list[QueueEntry]
) -> None:
    assert order.least() is entries[0]
    assert [order.rank(entry) for entry in entries] == [*range(10)]
