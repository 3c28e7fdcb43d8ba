"""What a queue counts beside its depths."""

from __future__ import annotations

from hareline.queues.core.tally import QueueTally
from hareline.queues.queue import Queue

from .conftest import Publish


def test_gets_are_counted_by_their_kind(queue: Queue, publish: Publish) -> None:
    publish(b"1")
    (entry,) = queue.acquire(1)
    tally = QueueTally()
    tally.count_get(entry, acknowledges=True)
    tally.count_get(entry, acknowledges=False)
    tally.count_get(None, acknowledges=False)
    assert (tally.get, tally.get_no_ack, tally.get_empty) == (1, 1, 1)


def test_entries_that_leave_otherwise_are_dropped(queue: Queue, publish: Publish) -> None:
    publish(*[b"m"] * 10)
    taken = queue.acquire(3)
    queue.settle(taken[0])
    queue.reject(taken[1:2])
    queue.release(taken[2:])
    queue.drop(queue.order.take(0), "expired")
    assert queue.purge() == 8
    assert (queue.settled_count, queue.tally.dropped, queue.tally.automatic) == (10, 9, 0)


def test_returned_entries_are_looked_for_only_while_there_are_some(
    queue: Queue, publish: Publish
) -> None:
    publish(*[b"m"] * 4)
    queue.release(queue.acquire(2))
    assert queue.returned_count == 2
    assert [entry.delivery_count for entry in queue.acquire(3)] == [1, 1, 0]
    assert (queue.tally.redelivered, queue.redelivering, queue.returned_count) == (2, 2, 0)


def test_a_delivery_that_did_not_happen_is_no_redelivery(queue: Queue, publish: Publish) -> None:
    publish(b"m", b"m")
    queue.release(queue.acquire(1))
    queue.restore(queue.acquire(2))
    assert (queue.tally.redelivered, queue.redelivering) == (0, 0)
    queue.acquire(1)
    assert queue.tally.redelivered == 1


def test_an_empty_queue_has_no_returned_entries(queue: Queue, publish: Publish) -> None:
    publish(b"m", b"m")
    queue.release(queue.acquire(2))
    queue.purge()
    publish(b"m")
    queue.acquire(1)
    assert queue.returned_count == 0
