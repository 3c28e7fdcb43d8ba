"""Counters of a queue."""

from __future__ import annotations

from hareline.counts import QueueCounts
from hareline.queues.books import QueueTally
from hareline.queues.queue import Queue
from tests.support.messages import make_message

from .conftest import Publish

# ------------------------------------------------------------------------------------------ counts


def test_all_ways_out_are_told_apart(queue: Queue, publish: Publish) -> None:
    publish(*[b"m"] * 10)
    acked, rejected, unacked = queue.acquire(3)
    queue.settle(acked)
    queue.reject([rejected])
    queue.settle_delivered(queue.acquire(2))
    queue.purge()
    assert unacked.queue is queue
    assert queue.counts == QueueCounts(publish=10, deliver=3, deliver_no_ack=2, ack=1)


def test_what_an_earlier_life_published_does_not_count(queue: Queue, publish: Publish) -> None:
    queue.revive(41, 0, make_message(b"old"))
    queue.revive(42, 1, make_message(b"old, delivered before"))
    assert queue.counts == QueueCounts()
    publish(b"new")
    queue.acquire(3)
    assert queue.counts == QueueCounts(publish=1, deliver=3, redeliver=1)


def test_the_mark_changes_with_whatever_happens(queue: Queue, publish: Publish) -> None:
    marks = [queue.change_mark]

    def changed() -> None:
        marks.append(queue.change_mark)
        assert len(set(marks)) == len(marks), marks

    publish(b"1", b"2", b"3")
    changed()
    (first,) = queue.acquire(1)
    changed()
    queue.release([first])
    changed()
    entries = queue.acquire(2)
    changed()
    queue.settle(entries[0])
    changed()
    queue.reject(entries[1:])
    changed()
    queue.tally.count_get(None, acknowledges=True)
    changed()
    queue.purge()
    changed()


# ------------------------------------------------------------------------------------------- tally


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
