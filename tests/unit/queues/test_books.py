"""States of entries and the counters over them."""

from __future__ import annotations

import gc
import sys

from hareline.queues.core.entry import ACQUIRED, SETTLED
from hareline.queues.orders.fifo import FifoOrder
from hareline.queues.queue import Queue
from tests.support.consumers import RecordingConsumer
from tests.support.messages import make_message
from tests.support.turns import ManualTurn

from .conftest import Publish


def books(queue: Queue) -> tuple[int, int, int]:
    """Ready messages, octets of their bodies, unacked messages."""
    return queue.ready_count, queue.ready_bytes, queue.unacked_count


def bodies(queue: Queue) -> list[bytes]:
    """What is ready, in order; takes it."""
    return [entry.message.body for entry in queue.acquire(queue.ready_count)]


def test_an_enqueued_message_is_ready_and_in_the_books(queue: Queue, publish: Publish) -> None:
    publish(b"12345", b"", b"678")
    assert books(queue) == (3, 8, 0)
    assert queue.next_offset == 3


def test_one_message_may_stand_in_many_queues(turn: ManualTurn) -> None:
    message = make_message(b"shared")
    queues = [Queue(name, FifoOrder(), turn) for name in "abc"]
    for queue in queues:
        queue.enqueue(message)
    entries = [queue.acquire(1)[0] for queue in queues]
    assert all(entry.message is message for entry in entries)
    queues[0].settle(entries[0])
    queues[1].release([entries[1]])
    assert [books(queue) for queue in queues] == [(0, 0, 0), (1, 6, 0), (0, 0, 1)]


def test_messages_that_come_together_are_enqueued_as_one_by_one(
    queue: Queue, turn: ManualTurn
) -> None:
    queue.enqueue(make_message(b"first"))
    queue.enqueue_run([make_message(b"1"), make_message(b""), make_message(b"333")])
    assert books(queue) == (4, 9, 0)
    assert queue.next_offset == 4
    assert [entry.offset for entry in queue.order] == [0, 1, 2, 3]
    assert bodies(queue) == [b"first", b"1", b"", b"333"]
    assert len(turn._queues) == 1


def test_any_number_of_enqueues_mark_the_queue_once(
    queue: Queue, turn: ManualTurn, publish: Publish
) -> None:
    publish(*[b"x"] * 100)
    assert len(turn._queues) == 1
    turn.step()
    assert not turn.is_armed


def test_acquired_entries_are_unacked_and_no_longer_ready(queue: Queue, publish: Publish) -> None:
    publish(b"one", b"four", b"sixsix")
    first, second = queue.acquire(2)
    assert (first.message.body, second.message.body) == (b"one", b"four")
    assert first.state == second.state == ACQUIRED
    assert first.consumer is None
    assert books(queue) == (1, 6, 2)
    assert queue.delivered_count == 2


def test_acquiring_from_an_empty_queue_gives_nothing(queue: Queue) -> None:
    assert queue.acquire(5) == []
    assert books(queue) == (0, 0, 0)


def test_a_settled_entry_has_left_the_queue(queue: Queue, publish: Publish) -> None:
    publish(b"one", b"two")
    (entry,) = queue.acquire(1)
    queue.settle(entry)
    assert entry.state == SETTLED
    assert books(queue) == (1, 3, 0)
    assert queue.settled_count == 1


def test_a_restored_entry_returns_as_if_it_had_never_left(queue: Queue, publish: Publish) -> None:
    publish(b"1", b"2", b"3")
    entries = queue.acquire(2)
    queue.restore(entries)
    assert [entry.delivery_count for entry in entries] == [0, 0]
    assert queue.delivered_count == 0
    assert books(queue) == (3, 3, 0)
    assert bodies(queue) == [b"1", b"2", b"3"]


def test_deliveries_that_need_no_acknowledgement_are_settled_at_once(
    queue: Queue, turn: ManualTurn, publish: Publish
) -> None:
    consumer = RecordingConsumer(queue, acknowledges=False)
    queue.add_consumer(consumer)
    publish(b"1", b"2", b"3")
    turn.run()
    assert books(queue) == (0, 0, 0)
    assert (queue.delivered_count, queue.settled_count) == (3, 3)


def test_settled_messages_are_freed(queue: Queue, turn: ManualTurn) -> None:
    """By their reference counts: the broker keeps the garbage collector off the message path."""
    consumer = RecordingConsumer(queue)
    queue.add_consumer(consumer)
    message = make_message(b"x")
    references = sys.getrefcount(message)
    gc.disable()
    try:
        queue.enqueue(message)
        turn.run()
        assert sys.getrefcount(message) == references + 1
        consumer.ack()
        consumer.batches.clear()
        assert sys.getrefcount(message) == references
    finally:
        gc.enable()
