"""Order by a header; what every ordering must do is in conformance/."""

from __future__ import annotations

import random

import pytest

from hareline.message import Table
from hareline.queues.core.entry import SETTLED, QueueEntry, RankedEntry
from hareline.queues.orders import sorted as sorted_order
from hareline.queues.orders.sorted import SortedOrder
from hareline.queues.queue import Queue
from tests.support.messages import make_message
from tests.support.turns import ManualTurn


def make_queue(order: SortedOrder) -> Queue:
    return Queue("q", order, ManualTurn())


def publish(queue: Queue, *keys: object) -> None:
    """The body is the number of the message and its key: ``0:b``; None is no header."""
    for key in keys:
        headers = None if key is None else Table({"k": key})
        queue.put(make_message(f"{queue.next_offset}:{key}".encode(), headers=headers))


def bodies(queue: Queue) -> list[str]:
    return [entry.message.body.decode() for entry in queue.acquire(queue.ready_count)]


def make_entries(order: SortedOrder, *keys: object) -> list[RankedEntry]:
    """Entries that are in the order already."""
    queue = make_queue(SortedOrder("k"))
    entries = [
        RankedEntry(queue, make_message(b"x", headers=Table({"k": key})), offset)
        for offset, key in enumerate(keys)
    ]
    for entry in entries:
        order.add(entry)
    return entries


def settle(order: SortedOrder, entry: QueueEntry) -> None:
    entry.state = SETTLED
    order.discard(entry)


@pytest.mark.row("A5")
def test_texts_come_out_in_ascending_order() -> None:
    queue = make_queue(SortedOrder("k"))
    publish(queue, "b", "10", "a", "B", "9", "")
    assert bodies(queue) == ["5:", "1:10", "4:9", "3:B", "2:a", "0:b"]


@pytest.mark.row("A5")
def test_messages_without_the_header_come_first_as_they_arrived() -> None:
    queue = make_queue(SortedOrder("k"))
    publish(queue, "", None, "a", None)
    assert bodies(queue) == ["1:None", "3:None", "0:", "2:a"]


@pytest.mark.row("A5")
def test_equal_keys_keep_the_order_of_their_arrival() -> None:
    queue = make_queue(SortedOrder("k"))
    publish(queue, "b", "a", "b", "a", "b")
    assert bodies(queue) == ["1:a", "3:a", "0:b", "2:b", "4:b"]


@pytest.mark.row("A5")
def test_values_of_other_types_are_sorted_by_their_text() -> None:
    queue = make_queue(SortedOrder("k"))
    publish(queue, True, 10, "9", 2.5)
    assert bodies(queue) == ["1:10", "3:2.5", "2:9", "0:True"]


def test_descending_leaves_missing_keys_first_and_equal_ones_as_they_arrived() -> None:
    queue = make_queue(SortedOrder("k", descending=True))
    publish(queue, "a", None, "b", "ab", "b", None)
    assert bodies(queue) == ["1:None", "5:None", "2:b", "4:b", "3:ab", "0:a"]


def test_numbers_are_sorted_by_value_whatever_their_type() -> None:
    queue = make_queue(SortedOrder("k", numeric=True))
    publish(queue, 10, "9", 9.5, "apples", -1)
    assert bodies(queue) == ["3:apples", "4:-1", "1:9", "2:9.5", "0:10"]


def test_numbers_can_descend() -> None:
    queue = make_queue(SortedOrder("k", descending=True, numeric=True))
    publish(queue, 10, "9", None, 11)
    assert bodies(queue) == ["2:None", "3:11", "0:10", "1:9"]


def test_a_smaller_key_that_comes_later_is_next() -> None:
    queue = make_queue(SortedOrder("k"))
    publish(queue, "m", "n")
    assert bodies(queue)[:1] == ["0:m"]
    publish(queue, "z", "a")
    assert bodies(queue) == ["3:a", "2:z"]


@pytest.mark.row("A5")
def test_a_released_entry_returns_to_its_place() -> None:
    queue = make_queue(SortedOrder("k"))
    publish(queue, "a", "b", "b", "c")
    _first, second, third = queue.acquire(3)
    queue.release([third])
    queue.release([second])
    publish(queue, "b", "aa")
    assert bodies(queue) == ["5:aa", "1:b", "2:b", "4:b", "3:c"]


@pytest.mark.parametrize("sequence", ["growing", "falling", "mixed", "equal"])
def test_many_keys_in_any_sequence_come_out_sorted(sequence: str) -> None:
    count = 1500
    numbers = [*range(count)]
    if sequence == "falling":
        numbers.reverse()
    elif sequence == "mixed":
        random.Random(7).shuffle(numbers)
    elif sequence == "equal":
        numbers = [5] * count
    order = SortedOrder("k", numeric=True)
    entries = make_entries(order, *numbers)
    assert list(order) == sorted(entries, key=lambda entry: (numbers[entry.offset], entry.offset))


def test_places_whose_entries_are_settled_do_not_pile_up() -> None:
    order = SortedOrder("k", numeric=True)
    queue = make_queue(SortedOrder("k"))
    for offset in range(50 * sorted_order.STALE_ALLOWED):
        message = make_message(b"x", headers=Table({"k": offset % 3}))
        entry = RankedEntry(queue, message, offset)
        order.add(entry)
        settle(order, entry)
    assert len(order._places) <= 2 * sorted_order.STALE_ALLOWED
    assert order.peek() is None


def test_nor_do_those_of_entries_that_were_held_and_came_by_restore() -> None:
    order = SortedOrder("k")
    queue = make_queue(order)
    for offset in range(20 * sorted_order.STALE_ALLOWED):
        key = "a" if offset == 0 else f"b{offset % 10}"
        entry = RankedEntry(queue, make_message(b"x", headers=Table({"k": key})), offset)
        order.restore([entry])
        if offset:
            settle(order, entry)
    assert len(order._places) <= 2 * sorted_order.STALE_ALLOWED


def test_an_emptied_order_starts_anew() -> None:
    order = SortedOrder("k")
    assert len(order.take(len(make_entries(order, "a", "b")))) == 2
    assert (order._piles, order._places) == ({}, [])
    entries = make_entries(order, "z")
    assert order.take(1) == entries


# ------------------------------------------------------------------- the least


def test_the_least_is_what_arrived_first_whatever_its_key() -> None:
    order = SortedOrder("k")
    entries = make_entries(order, "m", "a", "z")
    assert order.least() is entries[0]
    settle(order, entries[0])
    assert order.least() is entries[1]
    assert order.take(1) == [entries[1]]
    assert order.least() is entries[2]


def test_an_entry_that_came_back_is_the_least_again() -> None:
    order = SortedOrder("k")
    entries = make_entries(order, "a", "b")
    assert order.least() is entries[0]
    order.take(1)
    assert order.least() is entries[1]
    order.restore([entries[0]])
    assert order.least() is entries[0]


def test_who_never_asks_for_the_least_pays_nothing_for_it() -> None:
    order = SortedOrder("k")
    make_entries(order, "a", "b")
    order.take(2)
    assert order._arrivals is None


def test_what_is_remembered_of_arrivals_stays_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sorted_order, "STALE_ALLOWED", 10)
    order = SortedOrder("k")
    first = make_entries(order, "z")[0]
    for _ in range(50):
        assert order.least() is first
        for _ in range(50):
            order.restore(order.take(1))
            assert order._arrivals is None or len(order._arrivals) <= 2 * 1 + 10 + 1


def test_a_purge_sorts_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """It would take microseconds for each of a million messages, in one step."""
    queue = Queue("q", SortedOrder("k"), ManualTurn())
    for number in range(100):
        queue.enqueue(make_message(b"%d" % number, headers={"k": f"{number % 60:03}"}))
    back = queue.acquire(10)
    queue.release(back)
    assert queue.order.least() is not None

    def compare(*_: object) -> None:
        raise AssertionError("an entry was compared with others")

    monkeypatch.setattr(sorted_order, "heappop", compare)
    monkeypatch.setattr(sorted_order, "heapify", compare)
    assert queue.purge() == 100
    assert (len(queue.order), queue.ready_count, queue.ready_bytes) == (0, 0, 0)
    monkeypatch.undo()
    for key in ("2", "1"):
        queue.enqueue(make_message(key.encode(), headers={"k": key}))
    assert [entry.message.body for entry in queue.acquire(2)] == [b"1", b"2"]
