"""Deliveries that come back wait, for longer each time, and what may happen to them meanwhile."""

from __future__ import annotations

import pytest

from hareline.queues.core.entry import QueueEntry
from hareline.queues.core.kinds import LOST, REJECTED, RETURNED, SHOWN
from hareline.queues.orders.last_values import LastValueOrder
from hareline.queues.orders.order import EntryOrder
from hareline.queues.policies.hold import Hold
from hareline.queues.policies.retry import CAUSES, DELAY_MAX_MS, Retry
from tests.support.consumers import RecordingConsumer
from tests.support.timed_queue import TimedQueue
from tests.support.vhosts import QueueStand

MIN_MS = 1_000


def waits(
    causes: int = CAUSES["all"],
    *,
    max_ms: int | None = None,
    multiplier: int | None = None,
    jitter_percent: float = 0,
) -> Retry:
    return Retry(
        causes,
        min_ms=MIN_MS,
        max_ms=max_ms,
        multiplier=multiplier,
        jitter_percent=jitter_percent,
    )


def place_with(retry: Retry, order: EntryOrder | None = None) -> TimedQueue:
    place = TimedQueue(order)
    hold = Hold(place.queue, place.environment)
    hold.headers = ()
    hold.retry = retry
    place.queue.install(hold=hold)
    return place


def got(place: TimedQueue) -> QueueEntry:
    entry = place.queue.get()
    assert entry is not None
    return entry


def give_back(place: TimedQueue, *entries: QueueEntry, cause: int = RETURNED) -> None:
    place.queue.release(list(entries), cause=cause)
    place.turn.run()


@pytest.fixture
def place() -> TimedQueue:
    return place_with(waits())


# ------------------------------------------------------------------------- how long


@pytest.mark.row("E18")
@pytest.mark.parametrize(
    ("retry", "expected"),
    [
        (waits(), [1, 2, 3, 4, 5]),
        (waits(max_ms=3_500), [1, 2, 3, 3.5, 3.5]),
        (waits(multiplier=1), [1, 1, 1, 1, 1]),
        (waits(multiplier=2), [1, 2, 4, 8, 16]),
        (waits(multiplier=3, max_ms=10_000), [1, 3, 9, 10, 10]),
    ],
    ids=["linear", "linear to a maximum", "constant", "exponential", "exponential to a maximum"],
)
def test_each_wait_follows_from_the_number_of_returns(retry: Retry, expected: list[float]) -> None:
    assert [retry.delay_ms(returns) / 1000 for returns in range(1, 6)] == expected


def test_a_return_that_is_not_counted_waits_as_the_first() -> None:
    assert waits().delay_ms(0) == MIN_MS


@pytest.mark.parametrize("multiplier", [None, 2, 1_000])
def test_no_wait_is_above_the_longest_that_there_is(multiplier: int | None) -> None:
    retry = Retry(1, min_ms=DELAY_MAX_MS, max_ms=None, multiplier=multiplier, jitter_percent=0)
    assert retry.delay_ms(0x7FFF) == DELAY_MAX_MS


def test_jitter_makes_waits_differ_by_no_more_than_it_says() -> None:
    retry = waits(jitter_percent=20)
    found = {retry.delay_ms(1) for _ in range(200)}
    assert len(found) > 20
    assert 800 <= min(found) < 1_000 < max(found) <= 1_200


# ---------------------------------------------------------------------- what waits


@pytest.mark.parametrize(
    ("kind", "waiting"),
    [
        ("all", [RETURNED, REJECTED, LOST]),
        ("returned", [RETURNED]),
        ("failed", [REJECTED, LOST]),
        ("disabled", []),
        (None, [RETURNED, REJECTED]),
    ],
)
@pytest.mark.parametrize("cause", [SHOWN, RETURNED, REJECTED, LOST])
def test_the_type_says_which_returns_wait(kind: str | None, waiting: list[int], cause: int) -> None:
    place = place_with(waits(CAUSES[kind]))
    place.publish(b"m")
    give_back(place, got(place), cause=cause)
    is_waiting = cause in waiting
    assert (place.queue.held_count, place.queue.ready_count) == (is_waiting, not is_waiting)


@pytest.mark.row("E18")
def test_it_is_delivered_again_after_its_wait_and_not_before(place: TimedQueue) -> None:
    consumer = RecordingConsumer(place.queue, prefetch_count=1)
    place.queue.add_consumer(consumer)
    place.publish(b"m")
    for number in (1, 2, 3):
        assert consumer.bodies == [b"m"] * number
        consumer.release()
        place.turn.run()
        place.pass_time(MIN_MS * number - 1)
        assert consumer.bodies == [b"m"] * number
        place.pass_time(1)
    assert consumer.redelivered == [False, True, True, True]
    assert place.queue.held_count == 0


def test_others_go_first_and_it_comes_back_to_its_own_place(place: TimedQueue) -> None:
    for body in (b"a", b"b", b"c"):
        place.publish(body)
    give_back(place, got(place))
    assert place.ready == [b"b", b"c"]
    place.pass_time(MIN_MS)
    assert place.ready == [b"a", b"b", b"c"]
    assert place.queue.ready_bytes == 3


def test_the_counts_are_those_of_a_return(place: TimedQueue) -> None:
    place.publish(b"m")
    give_back(place, got(place))
    queue = place.queue
    assert (queue.unacked_count, queue.held_count, queue.released_count) == (0, 1, 1)
    assert queue.counts.redeliver == 0
    place.pass_time(MIN_MS)
    entry = got(place)
    assert queue.counts.redeliver == 1
    queue.settle(entry)
    assert (queue.counts.ack, queue.unacked_count, queue.held_count) == (1, 0, 0)


def test_messages_come_in_as_without_it(place: TimedQueue) -> None:
    assert not place.queue.needs_admission
    place.publish(b"m", headers={"x-delay": 60_000})
    assert place.ready == [b"m"]


def test_what_came_back_too_often_does_not_wait(place: TimedQueue) -> None:
    place.queue.delivery_limit = 1
    place.publish(b"m")
    give_back(place, got(place))
    place.pass_time(MIN_MS)
    give_back(place, got(place))
    assert place.deaths.reasons == ["delivery_limit"]
    assert place.queue.held_count == 0


def test_it_may_expire_while_it_waits() -> None:
    place = place_with(waits())
    place.publish(b"m", ttl_ms=500)
    give_back(place, got(place))
    place.pass_time(500)
    assert (place.deaths.reasons, place.queue.held_count) == (["expired"], 0)


def test_a_purge_and_a_deletion_take_it_along(place: TimedQueue) -> None:
    for body in (b"a", b"b"):
        place.publish(body)
    give_back(place, got(place))
    assert place.queue.purge() == 2
    place.publish(b"c")
    give_back(place, got(place))
    place.queue.delete()
    place.pass_time(10 * MIN_MS)
    assert place.timers.pending == []


def test_a_newer_value_takes_the_place_of_one_that_waits() -> None:
    place = place_with(waits(), LastValueOrder("k"))
    place.publish(b"old", headers={"k": "a"})
    give_back(place, got(place))
    place.publish(b"new", headers={"k": "a"})
    assert place.queue.held_count == 0
    place.pass_time(MIN_MS)
    assert place.ready == [b"new"]


# -------------------------------------------------------------------- of an earlier life


def test_what_had_come_back_waits_once_more_after_a_restart(place: TimedQueue) -> None:
    place.publish(b"x")
    message = got(place).message
    revived = place_with(waits())
    revived.queue.revive(0, 2, message)
    revived.queue.revive(1, 0, message)
    assert (revived.queue.held_count, revived.queue.ready_count) == (1, 1)
    revived.pass_time(2 * MIN_MS - 1)
    assert revived.queue.held_count == 1
    revived.pass_time(1)
    assert [entry.offset for entry in revived.queue.order] == [0, 1]


def test_of_last_values_the_newest_is_left_after_a_restart() -> None:
    source = place_with(waits(), LastValueOrder("k"))
    messages = []
    for body in (b"old", b"new"):
        source.publish(body, headers={"k": "a"})
        messages.append(got(source).message)
    revived = place_with(waits(), LastValueOrder("k"))
    revived.queue.revive(0, 1, messages[0])
    revived.queue.revive(1, 0, messages[1])
    revived.pass_time(MIN_MS)
    assert revived.ready == [b"new"]


# ---------------------------------------------------------------- with other parts of a queue


def retried(**arguments: object) -> QueueStand:
    named = {f"x-{name.replace('_', '-')}": value for name, value in arguments.items()}
    return QueueStand({"x-delayed-retry-min": MIN_MS, **named})


def test_a_higher_priority_that_waits_comes_back_before_lower_ones() -> None:
    stand = retried(max_priority=5)
    stand.publish(b"low", priority=1)
    stand.publish(b"high", priority=5)
    consumer = stand.consume(prefetch_count=1)
    consumer.release()
    stand.turn.run()
    assert consumer.bodies == [b"high", b"low"]
    stand.publish(b"middle", priority=3)
    stand.timers.advance(MIN_MS)
    consumer.ack()
    stand.turn.run()
    assert consumer.bodies == [b"high", b"low", b"high"]


def test_a_browser_is_not_shown_it_twice() -> None:
    stand = retried()
    stand.publish(b"m")
    browser = stand.browse()
    consumer = stand.consume()
    consumer.release()
    stand.turn.run()
    assert stand.queue.held_count == 1
    stand.timers.advance(MIN_MS)
    assert (consumer.bodies, browser.bodies) == ([b"m", b"m"], [b"m"])


def test_its_group_is_free_while_it_waits() -> None:
    stand = retried(message_group_key="g", message_group_type="shared")
    stand.publish(b"a", b"b", headers={"g": "1"})
    first = stand.consume(prefetch_count=1)
    second = stand.consume(prefetch_count=1)
    assert (first.bodies, second.bodies) == ([b"a"], [])
    first.release()
    stand.turn.run()
    assert sorted(first.bodies + second.bodies) == [b"a", b"b"]
    stand.timers.advance(MIN_MS)
    (first if first.unacked else second).ack()
    stand.turn.run()
    assert (first.bodies + second.bodies).count(b"a") == 2


def test_messages_that_are_not_valid_yet_are_held_beside_it() -> None:
    stand = retried(hold_on_publish=True)
    consumer = stand.consume()
    stand.publish(b"now")
    stand.publish(b"later", headers={"x-delay": 5 * MIN_MS})
    consumer.release()
    stand.turn.run()
    assert stand.queue.held_count == 2
    stand.timers.advance(MIN_MS)
    assert consumer.bodies == [b"now", b"now"]
    stand.timers.advance(5 * MIN_MS)
    assert consumer.bodies == [b"now", b"now", b"later"]


def test_what_is_only_read_does_not_come_back() -> None:
    stand = retried(non_destructive=True)
    assert stand.queue.hold is None
