"""The book of a lane's consumers."""

from __future__ import annotations

import pytest

from hareline.queues.core.consumer_book import ConsumerBook
from hareline.queues.core.credit import CreditWindow
from hareline.queues.core.live_limit import LiveLimit
from hareline.queues.queue import Queue
from tests.support.consumers import RecordingConsumer


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
