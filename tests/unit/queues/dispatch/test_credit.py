"""A credit window: at most so many deliveries, at most so many octets, and who waits for it."""

from __future__ import annotations

import pytest

from hareline.queues.core.credit import CreditWindow
from hareline.queues.core.lane import ENTRIES_PER_TURN
from hareline.queues.orders.fifo import FifoOrder
from hareline.queues.queue import Queue
from tests.support.consumers import RecordingConsumer
from tests.support.messages import make_message
from tests.support.turns import ManualTurn


def test_a_window_without_limits_admits_everything() -> None:
    window = CreditWindow()
    assert not window.is_limited
    for _ in range(1000):
        assert window.admits(1 << 40)
        window.count(1 << 40)


@pytest.mark.parametrize(("count", "size"), [(1, 0), (0, 1), (1, 1)])
def test_either_limit_makes_a_window_limited(count: int, size: int) -> None:
    assert CreditWindow(count, size).is_limited


def test_a_count_limit_admits_exactly_so_many_deliveries() -> None:
    window = CreditWindow(limit_count=2)
    window.count(10)
    assert window.admits(10)
    window.count(10)
    assert not window.admits(0)
    window.restore(10)
    assert window.admits(10)


def test_an_octet_limit_admits_up_to_the_last_octet() -> None:
    window = CreditWindow(limit_bytes=100)
    window.count(60)
    assert window.admits(40)
    assert not window.admits(41)


def test_an_oversized_message_passes_when_nothing_is_outstanding() -> None:
    window = CreditWindow(limit_bytes=100)
    assert window.admits(101)
    window.count(101)
    assert not window.admits(1)
    window.restore(101)
    assert window.admits(5000)


def test_an_oversized_message_waits_while_something_is_outstanding() -> None:
    window = CreditWindow(limit_bytes=100)
    window.count(1)
    assert not window.admits(100)


def test_empty_bodies_cost_no_octets() -> None:
    window = CreditWindow(limit_bytes=10)
    window.count(10)
    assert window.admits(0)


def test_both_limits_must_admit() -> None:
    window = CreditWindow(limit_count=2, limit_bytes=100)
    window.count(90)
    assert not window.admits(11)
    assert window.admits(10)
    window.count(10)
    assert not window.admits(0)


def test_a_smaller_limit_counts_what_is_outstanding() -> None:
    window = CreditWindow(limit_count=5)
    for _ in range(4):
        window.count(1)
    window.resize(3, 0)
    assert not window.admits(1)
    window.restore(1)
    assert not window.admits(1)
    window.restore(1)
    assert window.admits(1)


def test_resizing_to_nothing_lifts_the_limits() -> None:
    window = CreditWindow(limit_count=1, limit_bytes=1)
    window.count(1)
    window.resize(0, 0)
    assert not window.is_limited
    assert window.admits(100)


# ------------------------------------------------------------------- who stands in line


class Channel:
    """Queues of one message size, each with a consumer, which share a window."""

    def __init__(self, window: CreditWindow, *depths: int) -> None:
        self.turn = ManualTurn()
        self.window = window
        self.queues: list[Queue] = []
        self.consumers: list[RecordingConsumer] = []
        for depth in depths:
            queue = Queue(f"q{len(self.queues)}", FifoOrder(), self.turn)
            self.queues.append(queue)
            self.publish(queue, depth)
            self.consumers.append(RecordingConsumer(queue, queue.name, windows=(window,)))
        for queue, consumer in zip(self.queues, self.consumers, strict=True):
            queue.add_consumer(consumer)
            self.turn.run()

    def publish(self, queue: Queue, count: int, body: bytes = b"body") -> None:
        for _ in range(count):
            queue.enqueue(make_message(body))

    def ack(self, count: int = 1) -> None:
        """The oldest unacked deliveries of the first consumers that have any."""
        for consumer in self.consumers:
            part = min(count, len(consumer.unacked))
            consumer.ack(part)
            count -= part
        assert count == 0, "fewer were unacked"

    @property
    def delivered(self) -> list[int]:
        return [len(consumer.bodies) for consumer in self.consumers]


def test_credit_goes_to_the_queue_that_has_waited_longest() -> None:
    channel = Channel(CreditWindow(1), 100, 100, 100)
    assert channel.delivered == [1, 0, 0]
    for _ in range(99):
        channel.ack()
        channel.turn.run()
    assert sorted(channel.delivered) == [33, 33, 34]


def test_much_credit_at_once_is_shared_by_all_that_wait() -> None:
    channel = Channel(CreditWindow(90), 500, 500, 500)
    assert channel.delivered == [90, 0, 0]
    channel.ack(90)
    channel.turn.run()
    assert channel.delivered == [90 + 30, 30, 30]


def test_a_quiet_queue_is_served_beside_a_busy_one() -> None:
    """What comes to the busy one in the same turn as the credit does not go first."""
    channel = Channel(CreditWindow(1), 10, 0)
    busy, quiet = channel.queues
    channel.publish(quiet, 1)
    channel.turn.run()
    for _ in range(2):
        channel.publish(busy, 5)
        channel.ack()
        channel.turn.run()
    assert channel.consumers[1].bodies == [b"body"]


def test_credit_that_is_not_taken_is_offered_to_the_next() -> None:
    channel = Channel(CreditWindow(1), 5, 5, 5)
    first, second, third = channel.queues
    assert list(channel.window.waiting) == channel.consumers
    first.purge()
    second.purge()
    channel.ack()
    channel.turn.run()
    assert channel.delivered == [1, 0, 1]
    assert list(channel.window.waiting) == [channel.consumers[2]]
    channel.publish(first, 1)
    channel.turn.run()
    channel.ack()
    channel.turn.run()
    channel.ack()
    channel.turn.run()
    assert channel.delivered == [2, 0, 2]
    assert third.ready_count == 3


def test_a_consumer_with_a_full_output_does_not_keep_what_it_was_offered() -> None:
    channel = Channel(CreditWindow(1), 5, 5)
    first, second = channel.consumers
    first.ack()
    channel.turn.run()
    assert list(channel.window.waiting) == [second, first]
    second.fill()
    first.ack()
    channel.turn.run()
    assert second.is_suspended
    assert channel.delivered == [3, 0], "the other one has it"
    second.drain()
    channel.turn.run()
    first.ack()
    channel.turn.run()
    first.ack()
    channel.turn.run()
    assert channel.delivered == [4, 1]


def test_one_that_is_never_served_in_a_busy_queue_does_not_keep_what_it_was_offered() -> None:
    """There is always something left for a consumer of higher priority."""
    channel = Channel(CreditWindow(1), 1, 5)
    busy, quiet = channel.queues
    first, second = channel.consumers
    assert list(channel.window.waiting) == [second]
    channel.publish(busy, 1)
    channel.turn.run()
    assert list(channel.window.waiting) == [second, first]
    busy.add_consumer(RecordingConsumer(busy, "higher", priority=1, acknowledges=False))
    first.ack()
    for _ in range(4):
        channel.publish(busy, ENTRIES_PER_TURN + 1)
        channel.turn.step()
    second.ack()  # now it is the turn of the other one, which is not served
    for _ in range(8):
        channel.publish(busy, ENTRIES_PER_TURN + 1)
        channel.turn.step()
    assert channel.delivered == [1, 2]
    assert quiet.ready_count == 3


def test_the_place_of_a_consumer_that_leaves_is_the_nexts() -> None:
    channel = Channel(CreditWindow(1), 5, 5, 5)
    first, second, third = channel.consumers
    channel.queues[0].remove_consumer(first)
    first.ack()
    assert list(channel.window.invited) == [second]
    channel.queues[1].remove_consumer(second)
    channel.turn.run()
    assert channel.delivered == [1, 0, 1]
    assert (channel.window.used_count, list(channel.window.waiting)) == (1, [third])


def test_who_needs_more_octets_than_are_left_stays_the_first() -> None:
    window = CreditWindow(limit_bytes=10)
    channel = Channel(window, 0, 0)
    small, large = channel.queues
    channel.publish(small, 8, b"12")
    channel.turn.run()
    assert channel.delivered == [5, 0]
    channel.publish(large, 1, b"123456789")
    channel.turn.run()
    channel.ack()  # the first in line is the small one, whose next fits
    channel.turn.run()
    assert channel.delivered == [6, 0]
    for _ in range(4):
        channel.ack()
        channel.turn.run()
    assert channel.delivered == [6, 0], "the large one waits, and nobody passes it"
    channel.ack()
    channel.turn.run()
    assert channel.delivered == [6, 1]


def test_lifting_the_limits_lets_all_go_on() -> None:
    channel = Channel(CreditWindow(1), 3, 3, 3)
    channel.window.resize(0, 0)
    channel.turn.run()
    assert channel.delivered == [3, 3, 3]
    assert not channel.window.waiting


def test_a_queue_that_is_deleted_makes_room_for_the_next() -> None:
    channel = Channel(CreditWindow(1), 3, 3, 3)
    for queue in channel.queues[:2]:
        queue.delete()
    channel.ack()
    channel.turn.run()
    assert channel.delivered[2] == 1
