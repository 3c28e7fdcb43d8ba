"""Queues and consumers that get so many messages a second."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from hareline.errors import PreconditionFailed
from hareline.queues.core.credit import CreditWindow
from hareline.queues.core.rate_window import RateWindow
from tests.support.vhosts import QueueStand, StoredVhost

if TYPE_CHECKING:
    from tests.support.consumers import RecordingConsumer

RATE = "x-max-rate"
ANY = "priority >= 0 OR priority IS NULL"  # takes the selective lane, and every message
STREAM = {"x-queue-type": "stream"}
LANES = pytest.mark.parametrize("selector", [None, ANY], ids=["plain", "selective"])


def filled(arguments: dict[str, Any], count: int = 1_000) -> QueueStand:
    place = QueueStand(arguments)
    place.publish(*(b"%d" % number for number in range(count)))
    return place


def limited(place: QueueStand, rate: int, *others: CreditWindow, **options: Any) -> Any:
    window = RateWindow(rate, place.timers.clock, place.timers)
    return place.consume(windows=(*others, window), **options)


def counts(*consumers: RecordingConsumer) -> list[int]:
    return [len(each.bodies) for each in consumers]


# -------------------------------------------------------------------------------- of a queue


@LANES
def test_a_queue_gives_its_consumers_no_more_than_its_rate(selector: str | None) -> None:
    place = filled({RATE: 100})
    first, second = place.consume(selector=selector), place.consume(selector=selector)
    assert sum(counts(first, second)) == 100  # what a rest has saved up
    for seconds in range(1, 6):
        place.timers.advance(1_000)
        assert sum(counts(first, second)) == 100 + 100 * seconds
    assert counts(first, second) == [350, 250]  # the first was alone at first
    assert sorted(map(int, first.bodies + second.bodies)) == list(range(600))


@LANES
@pytest.mark.parametrize("acknowledges", [True, False])
def test_acknowledging_gives_nothing_back(selector: str | None, acknowledges: bool) -> None:
    place = filled({RATE: 10})
    consumer = place.consume(50, selector=selector, acknowledges=acknowledges)
    assert counts(consumer) == [10]
    consumer.ack(len(consumer.unacked))
    place.turn.run()
    assert counts(consumer) == [10]
    place.timers.advance(1_000)
    assert counts(consumer) == [20]


@pytest.mark.parametrize("rate", [1, 3, 7, 9, 10, 33, 1_000, 5_000])
@pytest.mark.parametrize("late_ms", [0, 10])
def test_the_rate_is_reached_and_kept_also_if_timers_are_late(rate: int, late_ms: int) -> None:
    place = filled({RATE: rate}, 4 * rate)
    consumer = place.consume(acknowledges=False)
    assert counts(consumer) == [rate]
    for _ in range(20):
        place.timers.clock.advance(late_ms)
        place.timers.advance(100 - late_ms)
    assert 3 * rate - max(1, rate // 5) <= len(consumer.bodies) <= 3 * rate


def test_a_rest_saves_up_the_messages_of_a_second() -> None:
    place = filled({RATE: 50}, 0)
    consumer = place.consume()
    place.timers.advance(3_600_000)
    assert not place.timers.pending  # nothing waits, so nothing rings
    place.publish(*(b"%d" % number for number in range(100)))
    assert counts(consumer) == [50]


@LANES
def test_priority_comes_before_the_order_of_asking(selector: str | None) -> None:
    place = filled({RATE: 10})
    low = place.consume(selector=selector)
    before = len(low.bodies)
    high = place.consume(selector=selector, priority=1)
    place.timers.advance(10_000)
    assert counts(low, high) == [before, 100]


@LANES
def test_a_dispatch_rule_holds_with_a_rate(selector: str | None) -> None:
    place = filled({RATE: 10, "x-dispatch": "strict"})
    first, second = place.consume(selector=selector), place.consume(selector=selector)
    place.timers.advance(10_000)
    assert counts(first, second) == [110, 0]
    small = filled({RATE: 1_000, "x-dispatch": "least-loaded"}, 500)
    few, many = small.consume(10, selector=selector), small.consume(400, selector=selector)
    small.timers.advance(10_000)
    assert counts(few, many) == [10, 400]


def test_readers_of_a_non_destructive_queue_share_its_rate_in_few_turns() -> None:
    place = filled({"x-non-destructive": True, RATE: 1_000}, 1_500)
    first, second = place.consume(), place.consume()
    turns = place.turn.number
    place.timers.advance(400)
    assert sum(counts(first, second)) == 1_000 + 400
    assert place.turn.number - turns < 20
    place.timers.advance(2_000)
    assert first.bodies == second.bodies == [b"%d" % number for number in range(1_500)]


@LANES
def test_a_rate_is_set_changed_and_lifted_while_messages_wait(selector: str | None) -> None:
    place = filled({})
    change = place.vhost.live_arguments.change
    consumer = place.consume(1, selector=selector)
    change(place.queue, {RATE: 500})
    for _ in range(101):
        consumer.ack()
        place.turn.run()
    before = len(consumer.bodies)
    change(place.queue, {RATE: 1})
    place.turn.run()
    for _ in range(10):
        consumer.ack()
        place.turn.run()
        place.timers.advance(1_000)
    assert before + 10 <= len(consumer.bodies) <= before + 11
    change(place.queue, {RATE: None})
    for _ in range(50):
        consumer.ack()
        place.turn.run()
    assert len(consumer.bodies) >= before + 60
    place.timers.advance(60_000)
    assert not place.timers.pending


def test_what_a_full_socket_gave_back_is_not_counted() -> None:
    place = filled({RATE: 100})
    slow = place.consume()
    slow.room = 0
    place.timers.advance(1_000)
    taken = len(slow.bodies)
    fast = place.consume()
    place.timers.advance(1_000)
    assert len(slow.bodies) - taken + len(fast.bodies) >= 100


def test_a_queue_that_is_paused_or_deleted_leaves_no_timer() -> None:
    place = filled({RATE: 10})
    consumer = place.consume()
    place.queue.set_paused(True)
    place.timers.advance(60_000)
    assert counts(consumer) == [10]
    assert not place.timers.pending
    place.queue.set_paused(False)
    place.turn.run()
    assert counts(consumer) == [20]
    place.vhost.delete_queue("q", object())
    assert not place.timers.pending


# ----------------------------------------------------------------------------- of a consumer


@LANES
def test_one_consumer_is_slowed_down_and_the_others_take_the_rest(selector: str | None) -> None:
    place = filled({}, 100)
    slow = limited(place, 5, priority=1)
    assert counts(slow) == [5]
    fast = place.consume(selector=selector)
    assert counts(fast) == [95]
    place.timers.advance(10_000)
    assert not place.timers.pending
    place.publish(b"a", b"b", b"c")
    assert counts(slow, fast) == [8, 95]


def test_a_reader_of_a_stream_is_slowed_down_and_others_are_not() -> None:
    place = filled(STREAM, 100)
    slow, fast = limited(place, 10, prefetch_count=50), place.consume(100)
    assert counts(slow, fast) == [10, 100]
    place.timers.advance(1_000)
    assert counts(slow) == [20]


@LANES
def test_a_limit_of_the_channel_holds_beside_the_rate(selector: str | None) -> None:
    place = filled({})
    shared = CreditWindow(limit_count=4)
    slow = limited(place, 5, shared, selector=selector)
    other = place.consume(windows=(shared,), selector=selector)
    place.timers.advance(5_000)
    assert sum(counts(slow, other)) == 4
    for _ in range(40):
        slow.ack(len(slow.unacked))
        other.ack(len(other.unacked))
        place.turn.run()
        place.timers.advance(100)
    assert 20 <= len(slow.bodies) <= 30
    assert len(other.bodies) >= 80


def test_a_full_socket_costs_the_consumer_nothing() -> None:
    place = filled({})
    slow = limited(place, 100, acknowledges=False)
    slow.room = 0
    place.timers.advance(1_000)
    taken = len(slow.bodies)
    slow.drain()
    place.turn.run()
    assert len(slow.bodies) - taken >= 20


def test_a_consumer_that_leaves_takes_its_timer_along() -> None:
    place = filled({})
    consumer = limited(place, 1)
    assert place.timers.pending
    place.queue.remove_consumer(consumer)
    assert not place.timers.pending


@pytest.mark.parametrize("value", [0, -1, "fast"])
def test_other_values_are_refused(value: object) -> None:
    with pytest.raises(PreconditionFailed, match=RATE):
        StoredVhost().declare("q", arguments={RATE: value})
