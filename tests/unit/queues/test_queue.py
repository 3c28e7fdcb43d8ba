"""A queue: its books, the ways in and out, and its consumers."""

from __future__ import annotations

import gc
import sys

import pytest

from hareline.errors import StoreError
from hareline.message import ContentSource, StoredMessage, Table
from hareline.queues.core.entry import ACQUIRED, HELD, READY, SETTLED, QueueEntry, RankedEntry
from hareline.queues.core.kinds import DISCARDED, REFUSED, TAKEN
from hareline.queues.core.lane import ENTRIES_PER_TURN
from hareline.queues.declare.table import OverflowPolicy
from hareline.queues.orders.fifo import FifoOrder
from hareline.queues.policies.overflow import Overflow
from hareline.queues.queue import Queue
from tests.support.consumers import RecordingConsumer
from tests.support.messages import make_message
from tests.support.timed_queue import TimedQueue
from tests.support.turns import ManualTurn

from .conftest import Publish

# ------------------------------------------------------------------------------------------- books


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


# ------------------------------------------------------------------------------------------- queue


# ----------------------------------------------------------------------------- in


# ---------------------------------------------------------------------------- out


def test_a_released_entry_returns_to_its_place_and_counts_its_delivery(
    queue: Queue, publish: Publish
) -> None:
    publish(b"1", b"2", b"3", b"4")
    entries = queue.acquire(3)
    queue.settle(entries[0])
    queue.release([entries[2]])
    queue.release([entries[1]])
    assert [entry.delivery_count for entry in entries] == [0, 1, 1]
    assert entries[1].state == READY
    assert entries[1].consumer is None
    assert books(queue) == (3, 3, 0)
    assert bodies(queue) == [b"2", b"3", b"4"]
    assert queue.released_count == 2


def test_each_release_counts(queue: Queue, publish: Publish) -> None:
    publish(b"x")
    for count in range(1, 4):
        (entry,) = queue.acquire(1)
        queue.release([entry])
        assert entry.delivery_count == count


def test_a_released_entry_is_delivered_as_redelivered(
    queue: Queue, turn: ManualTurn, publish: Publish
) -> None:
    consumer = RecordingConsumer(queue, prefetch_count=2)
    queue.add_consumer(consumer)
    publish(b"1", b"2")
    turn.run()
    consumer.release(1)
    turn.run()
    assert consumer.bodies == [b"1", b"2", b"1"]
    assert consumer.redelivered == [False, False, True]


def test_a_release_makes_waiting_consumers_receive(
    queue: Queue, turn: ManualTurn, publish: Publish
) -> None:
    consumer = RecordingConsumer(queue)
    queue.add_consumer(consumer)
    publish(b"1")
    (entry,) = queue.acquire(1)
    turn.run()
    assert consumer.bodies == []
    queue.release([entry])
    turn.run()
    assert consumer.bodies == [b"1"]


def test_purge_drops_what_is_ready_and_leaves_what_is_unacked(
    queue: Queue, publish: Publish
) -> None:
    publish(b"1", b"22", b"333", b"4444")
    taken = queue.acquire(2)
    queue.release([taken[0]])
    assert queue.purge() == 3
    assert books(queue) == (0, 0, 1)
    queue.release([taken[1]])
    assert bodies(queue) == [b"22"]


def test_purging_an_empty_queue_drops_nothing(queue: Queue) -> None:
    assert queue.purge() == 0


def test_messages_after_a_purge_are_delivered(
    queue: Queue, turn: ManualTurn, publish: Publish
) -> None:
    consumer = RecordingConsumer(queue)
    queue.add_consumer(consumer)
    publish(b"old")
    assert queue.purge() == 1
    publish(b"new")
    turn.run()
    assert consumer.bodies == [b"new"]


# ---------------------------------------------------------------------- consumers


def test_a_consumer_that_comes_gets_what_is_waiting(
    queue: Queue, turn: ManualTurn, publish: Publish
) -> None:
    publish(b"1", b"2")
    turn.run()
    consumer = RecordingConsumer(queue)
    queue.add_consumer(consumer)
    turn.run()
    assert consumer.bodies == [b"1", b"2"]


def test_what_was_published_before_a_consumer_came_is_the_earlier_ones(
    queue: Queue, turn: ManualTurn, publish: Publish
) -> None:
    first, second = RecordingConsumer(queue, "1"), RecordingConsumer(queue, "2")
    queue.add_consumer(first)
    publish(b"1", b"2")
    queue.add_consumer(second)
    turn.run()
    assert (first.bodies, second.bodies) == ([b"1", b"2"], [])


def test_what_is_due_can_be_delivered_before_the_end_of_the_turn(
    queue: Queue, turn: ManualTurn, publish: Publish
) -> None:
    consumer = RecordingConsumer(queue, prefetch_count=2)
    queue.add_consumer(consumer)
    turn.run()
    publish(b"1", b"2", b"3")
    queue.deliver_due()
    assert consumer.bodies == [b"1", b"2"]
    assert books(queue) == (1, 1, 2)
    assert turn.run() == 1
    queue.deliver_due()
    assert consumer.bodies == [b"1", b"2"]


def test_a_removed_consumer_gets_nothing_more_and_keeps_what_it_has(
    queue: Queue, turn: ManualTurn, publish: Publish
) -> None:
    consumer = RecordingConsumer(queue)
    queue.add_consumer(consumer)
    publish(b"1")
    turn.run()
    queue.remove_consumer(consumer)
    publish(b"2")
    turn.run()
    assert consumer.bodies == [b"1"]
    assert books(queue) == (1, 1, 1)
    consumer.ack()
    assert books(queue) == (1, 1, 0)


def test_removing_a_consumer_twice_is_no_error(queue: Queue) -> None:
    consumer = RecordingConsumer(queue)
    queue.add_consumer(consumer)
    queue.remove_consumer(consumer)
    queue.remove_consumer(consumer)
    assert queue.consumers == []


def test_a_suspended_consumer_that_was_removed_stays_away_when_its_output_drains(
    queue: Queue, turn: ManualTurn, publish: Publish
) -> None:
    consumer = RecordingConsumer(queue)
    consumer.fill()
    queue.add_consumer(consumer)
    publish(b"1")
    turn.run()
    queue.remove_consumer(consumer)
    consumer.drain()
    turn.run()
    assert consumer.bodies == []
    assert not consumer.is_active


def test_the_last_consumer_to_leave_is_reported(turn: ManualTurn) -> None:
    unused: list[Queue] = []
    queue = Queue("q", FifoOrder(), turn, is_auto_delete=True, on_unused=unused.append)
    consumers = [RecordingConsumer(queue, f"c{index}") for index in range(2)]
    for consumer in consumers:
        queue.add_consumer(consumer)
    queue.remove_consumer(consumers[0])
    assert unused == []
    queue.remove_consumer(consumers[1])
    assert unused == [queue]


def test_consumers_are_listed_in_the_order_in_which_they_came(queue: Queue) -> None:
    consumers = [RecordingConsumer(queue, f"c{index}", priority=index % 3) for index in range(6)]
    for consumer in consumers:
        queue.add_consumer(consumer)
    assert queue.consumers == consumers


@pytest.mark.parametrize("is_exclusive", [False, True])
def test_an_exclusive_consumer_is_seen_as_such(queue: Queue, is_exclusive: bool) -> None:
    consumer = RecordingConsumer(queue, is_exclusive=is_exclusive)
    queue.add_consumer(consumer)
    assert queue.exclusive_count == is_exclusive
    queue.remove_consumer(consumer)
    assert not queue.exclusive_count


# ------------------------------------------------------------------------- the end


def test_a_deleted_queue_lets_go_of_everybody_and_everything(
    queue: Queue, turn: ManualTurn, publish: Publish
) -> None:
    consumers = [RecordingConsumer(queue, f"c{index}") for index in range(2)]
    for consumer in consumers:
        consumer.fill()
        queue.add_consumer(consumer)
    publish(b"1", b"2")
    turn.run()
    assert queue.delete() == consumers
    assert queue.is_deleted
    assert queue.consumers == []
    assert all(consumer.is_cancelled for consumer in consumers)
    assert books(queue) == (0, 0, 0)


def test_what_was_unacked_when_its_queue_was_deleted_cannot_come_back(
    queue: Queue, turn: ManualTurn, publish: Publish
) -> None:
    consumer = RecordingConsumer(queue)
    queue.add_consumer(consumer)
    publish(b"1", b"2")
    turn.run()
    queue.delete()
    consumer.ack(1)
    consumer.release(1)
    turn.run()
    assert queue.ready_count == 0
    assert len(consumer.bodies) == 2


def test_deleting_does_not_report_the_queue_as_unused(turn: ManualTurn) -> None:
    unused: list[Queue] = []
    queue = Queue("q", FifoOrder(), turn, on_unused=unused.append)
    queue.add_consumer(RecordingConsumer(queue))
    queue.delete()
    assert unused == []


def test_its_repr_tells_name_and_books(queue: Queue, publish: Publish) -> None:
    publish(b"1", b"2")
    queue.acquire(1)
    assert repr(queue) == "<Queue 'q', 1 ready, 1 unacked>"


def test_what_is_due_is_delivered_by_one_share_a_turn_before_others_look() -> None:
    """Hundreds of clients may look at once, and each would make the rest wait for a share."""
    turn = ManualTurn()
    queue = Queue("q", FifoOrder(), turn)
    consumer = RecordingConsumer(queue, acknowledges=False)
    queue.add_consumer(consumer)
    turn.run()
    for _ in range(5 * ENTRIES_PER_TURN):
        queue.enqueue(make_message(b"m"))
    for _ in range(100):
        queue.deliver_due()
    assert queue.ready_count == 4 * ENTRIES_PER_TURN
    turn.step()
    assert queue.ready_count == 3 * ENTRIES_PER_TURN
    queue.deliver_due()
    assert queue.ready_count == 2 * ENTRIES_PER_TURN
    turn.run()
    assert queue.ready_count == 0


# --------------------------------------------------------------------------------------- admission


def limit(place: TimedQueue, policy: OverflowPolicy) -> None:
    overflow = Overflow(
        place.queue, place.environment, max_length=1, max_length_bytes=None, policy=policy
    )
    place.queue.install(overflow=overflow)


def test_a_queue_that_needs_no_admission_puts_a_message_as_it_enqueues_it(
    place: TimedQueue,
) -> None:
    assert place.queue.put(make_message(b"m"))
    (entry,) = place.queue.acquire(1)
    assert type(entry) is QueueEntry
    assert place.queue.expiry is None


def test_the_first_message_that_can_expire_makes_the_queue_look_at_times(
    place: TimedQueue,
) -> None:
    message = make_message(b"m").expiring_at(place.clock.now_ms + 10)
    assert place.queue.put(message)
    assert place.queue.expiry is not None
    place.pass_time(20)
    assert place.queue.ready_count == 0
    assert place.deaths.reasons == ["expired"]


def test_in_a_timeless_queue_nothing_expires(place: TimedQueue) -> None:
    place.queue.is_timeless = True
    assert place.queue.put(make_message(b"m").expiring_at(place.clock.now_ms + 10))
    place.pass_time(20)
    assert (place.queue.expiry, place.queue.ready_count) == (None, 1)


@pytest.mark.parametrize(
    ("policy", "outcome", "left"),
    [
        ("reject-publish", REFUSED, [b"one"]),
        ("discard", DISCARDED, [b"one"]),
        ("drop-head", TAKEN, [b"two"]),
    ],
)
def test_a_full_queue_answers_by_its_policy(
    place: TimedQueue, policy: OverflowPolicy, outcome: int, left: list[bytes]
) -> None:
    limit(place, policy)
    assert place.queue.put(make_message(b"one")) == TAKEN
    assert place.queue.put(make_message(b"two")) == outcome
    assert [entry.message.body for entry in place.queue.acquire(9)] == left


def test_what_is_not_valid_yet_is_held_and_takes_its_place_later(place: TimedQueue) -> None:
    place.hold()
    soon = make_message(b"held", headers=Table({"x-delay": 1000}))
    soon.arrival_ms = place.clock.now_ms
    assert place.queue.put(soon)
    assert place.queue.put(make_message(b"ready"))
    assert (place.queue.held_count, place.queue.ready_count) == (1, 1)
    place.pass_time(2000)
    entries = place.queue.acquire(9)
    assert [entry.message.body for entry in entries] == [b"held", b"ready"]
    assert HELD not in {entry.state for entry in entries}


def test_a_revived_entry_counts_its_time_from_its_arrival_and_shows_its_returns(
    place: TimedQueue,
) -> None:
    queue = place.queue
    queue.shows_delivery_count = True
    old = make_message(b"old").expiring_at(place.clock.now_ms + 1000)
    entry = queue.revive(7, 2, old)
    assert (type(entry), entry.state, entry.offset, queue.next_offset) == (RankedEntry, READY, 7, 8)
    assert entry.message.header("x-delivery-count") == 2
    place.pass_time(2000)
    assert queue.ready_count == 0


class BrokenDisk(ContentSource):
    def content(self, position: int) -> bytes:
        raise StoreError(f"nothing to read at {position}")

    def drop_spooled(self, position: int) -> None:
        raise AssertionError


def test_a_message_that_cannot_be_read_is_left_as_it_is(place: TimedQueue) -> None:
    place.queue.shows_delivery_count = True
    stored = StoredMessage(make_message(b"m"), BrokenDisk(), 5)
    assert place.queue.revive(7, 3, stored).message is stored
