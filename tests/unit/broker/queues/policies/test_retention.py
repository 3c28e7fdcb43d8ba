"""What a stream keeps, by age and by octets."""

from __future__ import annotations

import pytest

from hareline.broker.queues.dispatch.start_position import NEXT
from hareline.broker.queues.policies import retention
from tests.support.reading_queue import ReadingQueue, numbers


def stream(**arguments: object) -> ReadingQueue:
    named = {name.replace("_", "-"): value for name, value in arguments.items()}
    return ReadingQueue({"x-queue-type": "stream", **named})


def test_a_message_stays_for_its_age_and_no_longer() -> None:
    queue = stream(x_max_age="10s")
    queue.publish(b"old")
    queue.timers.advance(3_000)
    queue.publish(b"young")
    queue.timers.advance(6_999)
    assert queue.bodies == [b"old", b"young"]
    queue.timers.advance(1)
    assert queue.bodies == [b"young"]
    queue.timers.advance(2_999)
    assert queue.bodies == [b"young"]
    queue.timers.advance(1)
    assert queue.bodies == []


def test_an_age_of_hours_costs_a_timer_at_a_time() -> None:
    queue = stream(x_max_age="1h")
    queue.publish(*numbers(0, 100))
    assert len(queue.timers.pending) == 1
    queue.timers.advance(3_599_999)
    assert queue.queue.ready_count == 100
    queue.timers.advance(1)
    assert queue.queue.ready_count == 0
    assert queue.timers.pending == []


def test_what_is_too_old_is_not_shown() -> None:
    queue = stream(x_max_age="10s")
    queue.publish(*numbers(0, 3))
    queue.timers.clock.advance(10_000)  # no timer has rung yet
    assert queue.consume(5).bodies == []


def test_many_that_get_too_old_at_once_are_dropped_in_parts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(retention, "DROPPED_AT_ONCE", 10)
    queue = stream(x_max_age="1s")
    queue.publish(*numbers(0, 35))
    queue.timers.advance(999)
    assert queue.queue.ready_count == 35
    queue.timers.advance(1)
    assert queue.queue.ready_count == 0


def test_octets_beyond_the_limit_cost_the_oldest() -> None:
    queue = stream(x_max_length_bytes=9)
    # differs: stream-retention
    queue.publish(*numbers(0, 3))
    assert queue.bodies == numbers(0, 3)
    queue.publish(b"003")
    assert queue.bodies == numbers(1, 4)


def test_the_newest_stays_whatever_its_size() -> None:
    queue = stream(x_max_length_bytes=9)
    queue.publish(*numbers(0, 3))
    queue.publish(b"x" * 100)
    assert queue.bodies == [b"x" * 100]
    queue.publish(b"004")
    assert queue.bodies == [b"004"]


def test_readers_have_their_chance_before_anything_is_dropped() -> None:
    queue = stream(x_max_length_bytes=9)
    reader = queue.consume(100, start=NEXT)
    queue.publish(*numbers(0, 50))
    assert reader.bodies == numbers(0, 50)
    assert queue.bodies == numbers(47, 50)


def test_what_is_not_kept_is_no_dead_letter() -> None:
    queue = ReadingQueue({})
    dead = queue.queue
    queue.vhost.set_default_dead_letter_exchange("dlx")
    queue.vhost.bind("dlx", "queue", dead, "#", {})
    queue.queue = queue.vhost.declare_queue(
        "stream",
        is_durable=True,
        is_auto_delete=False,
        owner=None,
        arguments={"x-queue-type": "stream", "x-max-age": "1s", "x-max-length-bytes": 3},
    )
    queue.publish(*numbers(0, 3))
    assert queue.bodies == numbers(2, 3)
    queue.timers.advance(1000)
    assert queue.bodies == []
    assert dead.ready_count == 0


def test_a_deleted_stream_leaves_no_timer_behind() -> None:
    queue = stream(x_max_age="10s")
    queue.publish(b"one")
    queue.vhost.delete_queue("q", None)
    assert queue.timers.pending == []


def test_a_purged_stream_starts_anew() -> None:
    queue = stream(x_max_age="10s", x_max_length_bytes=100)
    queue.publish(*numbers(0, 3))
    queue.queue.purge()
    queue.timers.advance(5_000)
    queue.publish(b"later")
    queue.timers.advance(9_999)
    assert queue.bodies == [b"later"]
    queue.timers.advance(1)
    assert queue.bodies == []


class TestPins:
    """What a reader has pinned stays longer, up to twice each limit."""

    def pin(self, queue: ReadingQueue, offset: int, name: str = "r", *, pin: bool = True) -> None:
        queue.vhost.readers.put(queue.queue, name, offset, is_pinned=pin)
        queue.turn.run()

    def test_what_is_before_the_pin_goes_as_without_it(self) -> None:
        queue = stream(x_max_length_bytes=9)
        self.pin(queue, 0)
        queue.publish(*numbers(0, 4))
        self.pin(queue, 2)
        assert queue.bodies == numbers(1, 4)
        queue.publish(*numbers(4, 5))
        assert queue.bodies == numbers(2, 5)

    def test_what_is_pinned_stays_up_to_twice_the_octets(self) -> None:
        queue = stream(x_max_length_bytes=9)
        self.pin(queue, 0)
        queue.publish(*numbers(0, 6))
        assert queue.bodies == numbers(0, 6)
        queue.publish(*numbers(6, 8))
        assert queue.bodies == numbers(2, 8)

    def test_a_position_without_a_pin_keeps_nothing(self) -> None:
        queue = stream(x_max_length_bytes=9)
        self.pin(queue, 0, pin=False)
        queue.publish(*numbers(0, 5))
        assert queue.bodies == numbers(2, 5)

    def test_a_reader_that_moves_on_or_is_removed_lets_go_at_once(self) -> None:
        queue = stream(x_max_length_bytes=9)
        self.pin(queue, 0)
        queue.publish(*numbers(0, 6))
        self.pin(queue, 1)
        assert queue.bodies == numbers(1, 6)
        self.pin(queue, 1, "other")
        queue.vhost.readers.remove(queue.queue, "r")
        queue.turn.run()
        assert queue.bodies == numbers(1, 6)
        queue.vhost.readers.remove(queue.queue, "other")
        queue.turn.run()
        assert queue.bodies == numbers(3, 6)

    def test_what_is_pinned_stays_for_twice_the_age(self) -> None:
        queue = stream(x_max_age="10s")
        queue.publish(*numbers(0, 2))
        self.pin(queue, 1)
        queue.timers.advance(5_000)
        queue.publish(*numbers(2, 3))
        queue.timers.advance(5_000)
        assert queue.bodies == numbers(1, 3)
        queue.timers.advance(9_999)
        assert queue.bodies == numbers(1, 3)
        queue.timers.advance(1)
        assert queue.bodies == numbers(2, 3)
        queue.timers.advance(4_999)
        assert queue.bodies == numbers(2, 3)
        queue.timers.advance(1)
        assert queue.bodies == []
        queue.publish(*numbers(3, 4))  # the timer is set again
        queue.timers.advance(20_000)
        assert queue.bodies == []

    def test_both_limits_with_a_pin(self) -> None:
        queue = stream(x_max_age="10s", x_max_length_bytes=9)
        self.pin(queue, 0)
        queue.publish(*numbers(0, 8))
        assert queue.bodies == numbers(2, 8)
        queue.timers.advance(19_999)
        assert queue.bodies == numbers(2, 8)
        queue.timers.advance(1)
        assert queue.bodies == []

    @pytest.mark.parametrize(
        ("arguments", "left"), [({"x_max_length_bytes": 9}, 3), ({"x_max_age": "4D"}, 0)]
    )
    def test_a_pin_that_nobody_renews_ends_without_a_publish(
        self, arguments: dict[str, object], left: int
    ) -> None:
        queue = stream(**arguments)
        self.pin(queue, 0)
        queue.publish(*numbers(0, 6))
        queue.timers.advance(7 * 86_400_000 - 1)
        assert queue.queue.ready_count == 6
        queue.timers.advance(1)
        assert queue.queue.ready_count == left

    def test_many_that_end_at_once_behind_a_pin_are_dropped_in_parts(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(retention, "DROPPED_AT_ONCE", 10)
        queue = stream(x_max_age="1s")
        queue.publish(*numbers(0, 70))
        self.pin(queue, 35)
        queue.timers.advance(1_000)
        assert queue.bodies == numbers(35, 70)
        queue.timers.advance(1_000)
        assert queue.bodies == []

    def test_the_newest_stays_whatever_is_pinned(self) -> None:
        queue = stream(x_max_length_bytes=9)
        self.pin(queue, 0)
        queue.publish(b"x" * 100)
        assert queue.queue.ready_count == 1
