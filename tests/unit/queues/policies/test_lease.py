"""x-expires: what keeps an unused queue, and when it goes."""

from __future__ import annotations

from functools import partial

import pytest

from hareline.queues.orders.fifo import FifoOrder
from hareline.queues.policies.lease import EMPTY_CHECK_S, Lease
from hareline.queues.queue import Queue
from tests.support.consumers import RecordingConsumer
from tests.support.freed import all_freed
from tests.support.messages import make_message
from tests.support.timed_queue import TimedQueue

TERM_MS = 5_000


class LeasedQueue(TimedQueue):
    """``gone_ms``: when the queue was deleted, counted from its declaration."""

    def __init__(self, *, if_empty: bool = False) -> None:
        super().__init__()
        self.gone_ms: list[int] = []
        self._declared_ms = round(self.clock.monotonic_s * 1000)
        self.lease = Lease(self.queue, self.environment, TERM_MS, if_empty, self._delete)
        self.queue.lease = self.lease

    def _delete(self) -> None:
        self.gone_ms.append(round(self.clock.monotonic_s * 1000) - self._declared_ms)
        self.queue.delete()


@pytest.fixture
def place() -> LeasedQueue:
    return LeasedQueue()


def test_an_unused_queue_goes_when_its_time_is_over(place: LeasedQueue) -> None:
    place.pass_time(TERM_MS - 1)
    assert place.gone_ms == []
    place.pass_time(1)
    assert place.gone_ms == [TERM_MS]
    assert place.timers.pending == []
    place.pass_time(10 * TERM_MS)
    assert place.gone_ms == [TERM_MS]


def test_messages_do_not_keep_it(place: LeasedQueue) -> None:
    place.pass_time(TERM_MS - 1)
    place.publish(b"m")
    place.pass_time(1)
    assert place.gone_ms == [TERM_MS]


def test_each_use_begins_the_time_anew(place: LeasedQueue) -> None:
    for _ in range(3):
        place.pass_time(TERM_MS - 1)
        place.lease.touch()
    place.pass_time(TERM_MS - 1)
    assert place.gone_ms == []
    place.pass_time(1)
    assert place.gone_ms == [3 * (TERM_MS - 1) + TERM_MS]


def test_a_get_is_a_use_even_of_an_empty_queue(place: LeasedQueue) -> None:
    place.pass_time(3_000)
    assert place.queue.get() is None
    place.pass_time(4_999)
    assert place.gone_ms == []
    place.pass_time(1)
    assert place.gone_ms == [8_000]


def test_a_consumer_keeps_it_and_the_time_runs_from_its_end(place: LeasedQueue) -> None:
    consumer = RecordingConsumer(place.queue)
    place.queue.add_consumer(consumer)
    place.pass_time(10 * TERM_MS - 1)
    place.queue.remove_consumer(consumer)
    place.pass_time(TERM_MS - 1)
    assert place.gone_ms == []
    place.pass_time(1)
    assert place.gone_ms == [11 * TERM_MS - 1]


def test_the_first_of_two_consumers_to_go_ends_nothing(place: LeasedQueue) -> None:
    consumers = [RecordingConsumer(place.queue, tag) for tag in "ab"]
    for consumer in consumers:
        place.queue.add_consumer(consumer)
    place.queue.remove_consumer(consumers[0])
    place.pass_time(3 * TERM_MS)
    assert place.gone_ms == []


def test_uses_set_no_timers(place: LeasedQueue) -> None:
    for _ in range(1000):
        place.lease.touch()
    assert place.timers.set_count == 1
    place.pass_time(TERM_MS - 1)
    place.lease.touch()
    place.pass_time(1)
    assert place.timers.set_count == 2


@pytest.mark.parametrize("step_ms", [-3_600_000, 3_600_000])
def test_a_wall_clock_that_is_set_changes_nothing(place: LeasedQueue, step_ms: int) -> None:
    place.pass_time(1_000)
    place.set_clock(step_ms)
    place.pass_time(3_999)
    assert place.gone_ms == []
    place.pass_time(1)
    assert place.gone_ms == [TERM_MS]


@pytest.mark.parametrize("steps_ms", [[1] * 4_999, [7] * 714, [333] * 15])
def test_steps_of_any_size_come_to_the_same_instant(
    place: LeasedQueue, steps_ms: list[int]
) -> None:
    for step_ms in steps_ms:
        place.pass_time(step_ms)
    assert place.gone_ms == []
    place.pass_time(TERM_MS - sum(steps_ms))
    assert place.gone_ms == [TERM_MS]


# ------------------------------------------------------------------------ only if empty


def test_an_overdue_queue_waits_until_it_is_empty() -> None:
    place = LeasedQueue(if_empty=True)
    place.publish(b"1")
    place.publish(b"2")
    place.pass_time(3 * TERM_MS)
    assert place.gone_ms == []
    place.queue.purge()
    place.pass_time(round(EMPTY_CHECK_S * 1000))
    assert len(place.gone_ms) == 1


def test_an_empty_one_goes_at_its_time() -> None:
    place = LeasedQueue(if_empty=True)
    place.pass_time(TERM_MS)
    assert place.gone_ms == [TERM_MS]


def test_unacked_messages_are_messages() -> None:
    place = LeasedQueue(if_empty=True)
    place.publish(b"m")
    entry = place.queue.get()
    assert entry is not None
    place.pass_time(3 * TERM_MS)
    assert place.gone_ms == []
    place.queue.settle(entry)
    place.pass_time(round(EMPTY_CHECK_S * 1000))
    assert len(place.gone_ms) == 1


def test_held_messages_are_messages() -> None:
    place = LeasedQueue(if_empty=True)
    place.hold()
    place.publish(b"m", headers={"x-delay": 3 * TERM_MS})
    place.pass_time(4 * TERM_MS)
    assert place.gone_ms == []


def test_a_use_while_it_is_overdue_is_a_new_beginning() -> None:
    place = LeasedQueue(if_empty=True)
    place.publish(b"m")
    place.pass_time(2 * TERM_MS)
    entry = place.queue.get()
    assert entry is not None
    place.queue.settle(entry)
    place.pass_time(TERM_MS - 1)
    assert place.gone_ms == []
    place.pass_time(round(EMPTY_CHECK_S * 1000))
    assert len(place.gone_ms) == 1


# ------------------------------------------------------------------------------ deletion


def test_a_queue_deleted_otherwise_cancels_its_timer_and_is_freed(place: LeasedQueue) -> None:
    with all_freed(Queue):
        queue = Queue("other", FifoOrder(), place.turn, environment=place.environment)
        queue.enqueue(make_message(b"m"))
        place.turn.run()
        gone: list[Queue] = []
        queue.lease = Lease(queue, place.environment, TERM_MS, False, partial(gone.append, queue))
        before = len(place.timers.pending)
        queue.delete()
        assert len(place.timers.pending) == before - 1
        del queue
    place.pass_time(10 * TERM_MS)
    assert gone == []
