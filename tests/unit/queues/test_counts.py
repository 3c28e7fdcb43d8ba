"""What is said of a queue's messages, worked out of its counters."""

from __future__ import annotations

from hareline.broker.queue_counts import queue_counts, queue_mark
from hareline.counts import QueueCounts
from hareline.queues.queue import Queue
from tests.support.messages import make_message

from .conftest import Publish


def test_all_ways_out_are_told_apart(queue: Queue, publish: Publish) -> None:
    publish(*[b"m"] * 10)
    acked, rejected, unacked = queue.acquire(3)
    queue.settle(acked)
    queue.reject([rejected])
    queue.settle_delivered(queue.acquire(2))
    queue.purge()
    assert unacked.queue is queue
    assert queue_counts(queue) == QueueCounts(publish=10, deliver=3, deliver_no_ack=2, ack=1)


def test_what_an_earlier_life_published_does_not_count(queue: Queue, publish: Publish) -> None:
    queue.revive(41, 0, make_message(b"old"))
    queue.revive(42, 1, make_message(b"old, delivered before"))
    assert queue_counts(queue) == QueueCounts()
    publish(b"new")
    queue.acquire(3)
    assert queue_counts(queue) == QueueCounts(publish=1, deliver=3, redeliver=1)


def test_the_mark_changes_with_whatever_happens(queue: Queue, publish: Publish) -> None:
    marks = [queue_mark(queue)]

    def changed() -> None:
        marks.append(queue_mark(queue))
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
