"""The book of a lane's consumers: which are live, and who takes over."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hareline.queues.core.consumer_book import ConsumerBook, LiveLimit
from hareline.queues.core.credit import CreditWindow
from hareline.queues.orders.fifo import FifoOrder
from hareline.queues.queue import Queue
from tests.support.consumers import RecordingConsumer
from tests.support.turns import ManualTurn


@pytest.fixture
def book() -> ConsumerBook:
    return ConsumerBook()


def test_consumers_stand_in_the_order_in_which_they_came(book: ConsumerBook, queue: Queue) -> None:
    consumers = [RecordingConsumer(queue, priority=priority) for priority in (1, 3, 2)]
    assert not book
    for consumer in consumers:
        book.add(consumer)
    assert list(book) == consumers
    assert len(book) == 3
    book.remove(consumers[0])
    assert list(book) == consumers[1:]


def test_a_priority_is_known_while_a_consumer_has_it(book: ConsumerBook, queue: Queue) -> None:
    one, other = RecordingConsumer(queue, priority=4), RecordingConsumer(queue, priority=4)
    book.add(one)
    book.add(other)
    book.remove(one)
    assert book.has_priority(4)
    book.remove(other)
    assert not book.has_priority(4)


def test_without_a_limit_all_are_live_and_none_has_a_successor(
    book: ConsumerBook, queue: Queue
) -> None:
    one, other = RecordingConsumer(queue), RecordingConsumer(queue)
    other.is_live = False  # as another queue's limit may have left it
    for consumer in (one, other):
        book.add(consumer)
        assert consumer.is_live
    assert book.remove(one) is None


def test_with_a_limit_the_one_that_takes_over_is_returned(book: ConsumerBook, queue: Queue) -> None:
    book.live = LiveLimit(1)
    active, waiting = RecordingConsumer(queue), RecordingConsumer(queue)
    book.add(active)
    book.add(waiting)
    assert (active.is_live, waiting.is_live) == (True, False)
    assert book.remove(active) is waiting
    assert waiting.is_live
    assert book.remove(waiting) is None


def test_a_removed_consumer_waits_for_no_window(book: ConsumerBook, queue: Queue) -> None:
    window = CreditWindow(1)
    window.count(1)
    consumer = RecordingConsumer(queue, windows=(window,))
    book.add(consumer)
    assert window.refuses(consumer, 1)
    book.remove(consumer)
    assert not window.waiting


def test_those_that_are_active_are_given_in_order_and_are_not_any_more(
    book: ConsumerBook, queue: Queue
) -> None:
    consumers = [RecordingConsumer(queue) for _ in range(4)]
    for consumer in consumers:
        book.add(consumer)
    consumers[2].is_active = consumers[0].is_active = True
    assert book.deactivate_all() == [consumers[0], consumers[2]]
    assert not any(consumer.is_active for consumer in consumers)
    assert list(book) == consumers


# ------------------------------------------------------------------------------- the limit

QUEUE = Queue("q", FifoOrder(), ManualTurn())


def consumer(priority: int = 0) -> RecordingConsumer:
    return RecordingConsumer(QUEUE, f"p{priority}", priority=priority)


def test_the_first_to_come_are_live_whatever_their_priority() -> None:
    limit = LiveLimit(2)
    coming = [consumer(), consumer(), consumer(9)]
    for one in coming:
        limit.add(one)
    assert [one.is_live for one in coming] == [True, True, False]


def test_the_highest_priority_takes_over_and_of_equals_the_first() -> None:
    limit = LiveLimit(1)
    first, low, high, peer = consumer(), consumer(-1), consumer(5), consumer(5)
    for one in (first, low, high, peer):
        limit.add(one)
    assert limit.remove(first) is high
    assert limit.remove(high) is peer
    assert limit.remove(peer) is low
    assert limit.remove(low) is None
    assert all(one.is_live for one in (high, peer, low))


def test_one_that_stands_by_leaves_without_a_successor() -> None:
    limit = LiveLimit(1)
    live, leaving, next_ = consumer(), consumer(3), consumer()
    for one in (live, leaving, next_):
        limit.add(one)
    assert limit.remove(leaving) is None
    assert limit.remove(live) is next_


@given(st.integers(1, 3), st.lists(st.one_of(st.integers(-2, 2), st.just("leave")), max_size=30))
def test_it_keeps_a_list(at_most: int, steps: list[int | str]) -> None:
    limit = LiveLimit(at_most)
    everybody: list[RecordingConsumer] = []
    for number, step in enumerate(steps):
        live = [one for one in everybody if one.is_live]
        if isinstance(step, int):
            new = consumer(step)
            limit.add(new)
            assert new.is_live is (len(live) < at_most)
            everybody.append(new)
        elif everybody:
            leaving = everybody.pop(number % len(everybody))
            waiting = [one for one in everybody if not one.is_live]
            expected = max(waiting, key=lambda one: one.priority, default=None)
            was_live = leaving.is_live
            successor = limit.remove(leaving)
            assert successor is (expected if was_live else None)
            assert successor is None or successor.is_live
