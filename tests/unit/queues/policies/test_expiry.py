"""When entries expire, to the millisecond, and what is left behind."""

from __future__ import annotations

from itertools import count

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hareline.message import Message
from hareline.queues.core.entry import QueueEntry
from hareline.queues.orders.fifo import FifoOrder
from hareline.queues.policies.deadline_timer import LOOK_AGAIN_MS
from hareline.queues.policies.expiry import DROPS_PER_TURN, SETTLED_ALLOWED
from hareline.queues.queue import Queue
from tests.support.consumers import RecordingConsumer
from tests.support.freed import all_freed
from tests.support.messages import make_message
from tests.support.timed_queue import TimedQueue


def first(place: TimedQueue) -> QueueEntry:
    entry = place.queue.get()
    assert entry is not None
    return entry


# ------------------------------------------------------------------------- at the very time


def test_a_message_expires_at_its_millisecond_and_not_before(place: TimedQueue) -> None:
    place.publish(b"m", 1000)
    place.pass_time(999)
    assert place.ready == [b"m"]
    place.pass_time(1)
    assert place.ready == []
    assert place.deaths.bodies == [b"m"]
    assert place.deaths.reasons == ["expired"]


@pytest.mark.row("A28")
def test_a_message_behind_one_that_lives_longer_expires_in_its_time(place: TimedQueue) -> None:
    place.publish(b"long", 5000)
    place.publish(b"for ever")
    place.publish(b"short", 10)
    place.pass_time(10)
    assert place.ready == [b"long", b"for ever"]
    assert place.queue.ready_bytes == len(b"longfor ever")


def test_what_expires_together_leaves_by_time_and_then_by_place(place: TimedQueue) -> None:
    expiry = place.expire(sweep_ms=0)
    for body, ttl_ms in [(b"c", 30), (b"a", 10), (b"d", 30), (b"b", 20), (b"e", 30)]:
        place.publish(body, ttl_ms)
    place.pass_time(31)
    assert not expiry.drop_expired()
    assert place.deaths.bodies == [b"a", b"b", b"c", b"d", b"e"]
    assert place.deaths.batch_sizes == [5]


def test_a_message_without_a_time_to_live_stays(place: TimedQueue) -> None:
    place.publish(b"m")
    place.pass_time(10**9)
    assert place.ready == [b"m"]
    assert place.timers.set_count == 0


def test_an_instant_far_away_is_looked_at_now_and_then(place: TimedQueue) -> None:
    place.publish(b"m", 10 * LOOK_AGAIN_MS + 1)
    place.pass_time(10 * LOOK_AGAIN_MS)
    assert place.ready == [b"m"]
    assert place.timers.set_count == 11
    place.pass_time(1)
    assert place.ready == []
    assert place.timers.pending == []


def test_many_messages_need_one_timer(place: TimedQueue) -> None:
    place.expire(message_ttl_ms=1000)
    for _ in range(100):
        place.publish(b"m")
    assert place.timers.set_count == 1


def test_an_earlier_time_moves_the_timer_forward(place: TimedQueue) -> None:
    place.publish(b"late", 900)
    place.publish(b"soon", 100)
    assert len(place.timers.pending) == 1
    place.pass_time(100)
    assert place.ready == [b"late"]
    place.pass_time(800)
    assert place.ready == []


# ---------------------------------------------------------------------- the turn of arrival


def test_a_time_to_live_of_0_leaves_time_for_the_delivery_in_its_turn(place: TimedQueue) -> None:
    consumer = RecordingConsumer(place.queue, prefetch_count=2)
    place.queue.add_consumer(consumer)
    for body in (b"1", b"2", b"3"):
        place.accept(body, 0)
    place.turn.run()
    assert consumer.bodies == [b"1", b"2"]
    assert place.deaths.bodies == [b"3"]
    assert place.timers.set_count == 0


def test_without_a_consumer_a_time_to_live_of_0_is_the_end(place: TimedQueue) -> None:
    place.expire(message_ttl_ms=0)
    place.publish(b"m")
    assert place.deaths.bodies == [b"m"]
    assert place.queue.get() is None


def test_an_instant_of_an_earlier_turn_is_not_delivered(place: TimedQueue) -> None:
    consumer = RecordingConsumer(place.queue)
    place.queue.add_consumer(consumer)
    place.publish(b"m", -1)
    assert consumer.bodies == []
    assert place.deaths.bodies == [b"m"]


def test_what_expired_before_the_timer_rang_is_not_delivered(place: TimedQueue) -> None:
    place.publish(b"old", 10)
    place.publish(b"new", 1000)
    place.clock.advance(11)
    consumer = RecordingConsumer(place.queue)
    place.queue.add_consumer(consumer)
    place.turn.run()
    assert consumer.bodies == [b"new"]
    assert place.deaths.bodies == [b"old"]


def test_a_get_finds_nothing_that_expired_before_the_timer_rang(place: TimedQueue) -> None:
    place.publish(b"old", 10)
    place.publish(b"new", 1000)
    place.clock.advance(10)
    assert first(place).message.body == b"new"
    assert place.deaths.bodies == [b"old"]


# ----------------------------------------------------------------------------- limits


@pytest.mark.parametrize(
    ("own_ms", "queue_ms", "expected_ms"),
    [(None, 500, 500), (400, 500, 400), (500, 500, 500), (600, 500, 500), (600, None, 600)],
)
def test_the_shorter_of_message_and_queue_counts(
    place: TimedQueue, own_ms: int | None, queue_ms: int | None, expected_ms: int
) -> None:
    place.expire(message_ttl_ms=queue_ms)
    place.publish(b"m", own_ms)
    assert first(place).expires_at_ms == place.now_ms + expected_ms


@pytest.mark.row("A16")
@pytest.mark.parametrize(
    ("own_ms", "queue_ms", "min_ms", "max_ms", "expected_ms"),
    [
        (None, None, 100, None, None),  # the minimum gives no time to live
        (50, None, 100, None, 100),
        (100, None, 100, None, 100),
        (150, None, 100, None, 150),
        (None, None, None, 200, 200),  # the maximum does
        (150, None, None, 200, 150),
        (250, None, None, 200, 200),
        (50, None, 100, 200, 100),
        (None, None, 200, 200, 200),  # equal bounds force one time to live
        (5, None, 200, 200, 200),
        (500, None, 200, 200, 200),
        (50, None, 300, 200, 200),  # the maximum comes last
        (None, 50, 100, None, 100),  # the queue's own counts like the message's
        (None, 500, None, 200, 200),
        (50, None, 0, 0, 50),  # 0 is no bound
    ],
)
def test_bounds_on_the_time_to_live(
    place: TimedQueue,
    own_ms: int | None,
    queue_ms: int | None,
    min_ms: int | None,
    max_ms: int | None,
    expected_ms: int | None,
) -> None:
    place.expire(message_ttl_ms=queue_ms, min_ttl_ms=min_ms, max_ttl_ms=max_ms)
    place.publish(b"m", own_ms)
    expected = 0 if expected_ms is None else place.now_ms + expected_ms
    assert first(place).expires_at_ms == expected


@pytest.mark.parametrize(
    ("message_ttl_ms", "min_ms", "max_ms", "concerns_all"),
    [
        (None, None, None, False),
        (0, None, None, True),
        (5, None, None, True),
        (None, 5, None, True),
        (None, None, 5, True),
        (None, 0, 0, False),
    ],
)
def test_only_what_the_queue_sets_makes_it_concern_all_messages(
    place: TimedQueue,
    message_ttl_ms: int | None,
    min_ms: int | None,
    max_ms: int | None,
    concerns_all: bool,
) -> None:
    expiry = place.expire(message_ttl_ms=message_ttl_ms, min_ttl_ms=min_ms, max_ttl_ms=max_ms)
    assert expiry.concerns_all is concerns_all
    assert place.queue.needs_admission is concerns_all


# ---------------------------------------------------------------------- what somebody has


def test_what_somebody_has_does_not_expire_until_it_comes_back(place: TimedQueue) -> None:
    place.publish(b"m", 100)
    entry = first(place)
    place.pass_time(1000)
    assert place.deaths.bodies == []
    place.queue.release([entry])
    assert place.deaths.bodies == [b"m"]
    assert place.queue.unacked_count == 0


@pytest.mark.parametrize(("back_after_ms", "is_dead"), [(99, False), (100, True)])
def test_what_comes_back_is_held_against_its_time(
    place: TimedQueue, back_after_ms: int, is_dead: bool
) -> None:
    place.publish(b"m", 100)
    entry = first(place)
    place.clock.advance(back_after_ms)
    place.queue.release([entry])
    assert place.deaths.bodies == ([b"m"] if is_dead else [])


def test_what_came_back_in_time_still_expires(place: TimedQueue) -> None:
    place.publish(b"m", 100)
    place.queue.release([first(place)])
    place.pass_time(100)
    assert place.deaths.bodies == [b"m"]


def test_what_was_acked_does_not_expire(place: TimedQueue) -> None:
    place.publish(b"m", 100)
    place.queue.settle(first(place))
    place.pass_time(1000)
    assert place.deaths.bodies == []


# --------------------------------------------------------------------------- clock steps


def test_a_clock_set_forward_is_noticed_without_an_event(place: TimedQueue) -> None:
    place.publish(b"m", 3_600_000)
    place.set_clock(3_600_000)
    place.pass_time(LOOK_AGAIN_MS)
    assert place.ready == []


def test_a_clock_set_back_gives_the_time_back(place: TimedQueue) -> None:
    place.publish(b"m", 1000)
    place.set_clock(-500)
    place.pass_time(1499)
    assert place.ready == [b"m"]
    place.pass_time(1)
    assert place.ready == []


def test_a_clock_set_back_does_not_revive_what_expired_while_somebody_had_it(
    place: TimedQueue,
) -> None:
    place.publish(b"m", 100)
    entry = first(place)
    place.pass_time(100)
    place.set_clock(-3_600_000)
    assert place.expiry.is_expired(entry)
    place.queue.release([entry])
    assert place.deaths.bodies == [b"m"]


def test_a_clock_set_back_between_the_timer_and_its_dispatch_loses_no_timer(
    place: TimedQueue,
) -> None:
    place.publish(b"m", 100)
    place.clock.advance(100)
    place.expiry._on_deadline()
    place.set_clock(-50)
    place.turn.run()
    assert place.ready == [b"m"]
    place.pass_time(50)
    assert place.ready == []


# --------------------------------------------------------------------- expiry-check-period


@pytest.mark.row("C9")
def test_with_a_period_the_timer_drops_at_most_once_in_it(place: TimedQueue) -> None:
    place.expire(sweep_ms=1000)
    place.publish(b"1", 10)
    place.pass_time(10)
    assert place.deaths.bodies == [b"1"]
    place.publish(b"2", 10)
    place.publish(b"3", 500)
    place.pass_time(999)
    assert place.ready == [b"2", b"3"]
    place.pass_time(1)
    assert place.deaths.bodies == [b"1", b"2", b"3"]


@pytest.mark.row("C9")
@pytest.mark.parametrize("sweep_ms", [0, 30_000])
def test_without_a_sweep_nothing_expired_is_delivered_or_got(
    place: TimedQueue, sweep_ms: int
) -> None:
    place.expire(sweep_ms=sweep_ms)
    if sweep_ms:
        place.publish(b"the first one", 1)
        place.pass_time(1)
    for body in (b"1", b"2", b"3"):
        place.publish(body, 10)
        place.publish(body * 3)
    place.pass_time(29_000)
    assert place.queue.ready_count == 6
    assert first(place).message.body == b"111"
    consumer = RecordingConsumer(place.queue)
    place.queue.add_consumer(consumer)
    place.turn.run()
    assert consumer.bodies == [b"222", b"333"]
    assert place.deaths.bodies[-3:] == [b"1", b"2", b"3"]


@pytest.mark.row("C9")
def test_a_lazy_queue_drops_nothing_by_itself(place: TimedQueue) -> None:
    place.expire(sweep_ms=0)
    place.publish(b"m", 10)
    place.pass_time(10 * LOOK_AGAIN_MS)
    assert place.queue.ready_count == 1
    place.queue.deliver_due()  # as everything that looks at the queue
    assert place.queue.ready_count == 0


# ----------------------------------------------------------------------------- shares


def test_a_great_many_expire_in_shares_and_nothing_is_delivered_before(place: TimedQueue) -> None:
    place.expire(sweep_ms=0)
    message = make_message(b"old").expiring_at(place.now_ms + 5)
    for _ in range(3 * DROPS_PER_TURN + 1):
        place.queue.put(message)
    place.accept(b"new")
    place.turn.run()
    place.clock.advance(6)
    consumer = RecordingConsumer(place.queue)
    place.queue.add_consumer(consumer)  # looks at the queue, and so drops the first share
    for _ in range(2):
        place.turn.step()
        assert consumer.bodies == []
    place.turn.step()
    assert consumer.bodies == [b"new"]
    assert place.deaths.batch_sizes == [DROPS_PER_TURN] * 3 + [1]
    assert not place.turn.is_armed


def test_a_get_waits_for_no_later_turn(place: TimedQueue) -> None:
    place.expire(sweep_ms=0)
    message = make_message(b"old").expiring_at(place.now_ms + 5)
    for _ in range(2 * DROPS_PER_TURN + 1):
        place.queue.put(message)
    place.publish(b"new")
    place.clock.advance(6)
    assert first(place).message.body == b"new"


def test_the_timer_asks_for_turns_until_all_are_gone(place: TimedQueue) -> None:
    message = make_message(b"old").expiring_at(place.now_ms + 5)
    for _ in range(DROPS_PER_TURN + 1):
        place.queue.put(message)
    place.pass_time(5)
    assert place.queue.ready_count == 0
    assert place.deaths.batch_sizes == [DROPS_PER_TURN, 1]


# ----------------------------------------------------------------------------- memory


def test_settled_entries_do_not_wait_in_the_index_for_their_time(place: TimedQueue) -> None:
    for _ in range(1000):
        place.accept(b"m", 3_600_000)
    place.turn.run()
    for entry in place.queue.acquire(1000):
        place.queue.settle(entry)
    place.pass_time(LOOK_AGAIN_MS)
    assert len(place.expiry) <= SETTLED_ALLOWED


def test_neither_do_those_that_need_no_ack(place: TimedQueue) -> None:
    place.queue.add_consumer(RecordingConsumer(place.queue, acknowledges=False))
    for _ in range(1000):
        place.accept(b"m", 3_600_000)
    place.turn.run()
    assert place.queue.unacked_count == 0
    place.pass_time(LOOK_AGAIN_MS)
    assert len(place.expiry) <= SETTLED_ALLOWED


def test_neither_do_those_that_were_purged(place: TimedQueue) -> None:
    for number in range(1000):
        place.accept(b"m", 3_600_000 - number)
    place.turn.run()
    assert place.queue.purge() == 1000
    place.pass_time(LOOK_AGAIN_MS)
    assert len(place.expiry) <= SETTLED_ALLOWED


def test_a_busy_queue_sweeps_its_index_without_the_timer(place: TimedQueue) -> None:
    place.expire(message_ttl_ms=3_600_000)
    place.queue.add_consumer(RecordingConsumer(place.queue, acknowledges=False))
    for _ in range(10 * SETTLED_ALLOWED):
        place.publish(b"m")
        assert len(place.expiry) <= 2 * SETTLED_ALLOWED


def test_sweeping_keeps_every_entry_that_lives(place: TimedQueue) -> None:
    for number in range(400):
        place.accept(str(number).encode(), 3_600_000 - number % 7)
    place.turn.run()
    for number, entry in enumerate(place.queue.acquire(400)):
        if number % 10:
            place.queue.settle(entry)
        else:
            place.queue.restore([entry])
    place.pass_time(LOOK_AGAIN_MS)
    assert len(place.expiry) == place.queue.ready_count == 40
    place.pass_time(3_600_000)
    assert sorted(map(int, place.deaths.bodies)) == list(range(0, 400, 10))


def test_a_deleted_queue_cancels_its_timer_and_is_freed(place: TimedQueue) -> None:
    with all_freed(Queue):
        queue = Queue("other", FifoOrder(), place.turn, environment=place.environment)
        queue.put(make_message(b"m").expiring_at(place.now_ms + 1000))
        place.turn.run()
        assert len(place.timers.pending) == 1
        queue.delete()
        assert place.timers.pending == []
        del queue


# ------------------------------------------------------------------- against a plain list

OPERATIONS = st.lists(
    st.one_of(
        st.tuples(st.just("accept"), st.none() | st.integers(-2, 30)),
        st.tuples(st.just("get"), st.just(0)),
        st.tuples(st.just("settle"), st.integers(0, 5)),
        st.tuples(st.just("release"), st.integers(0, 5)),
        st.tuples(st.just("pass"), st.integers(0, 20)),
        st.tuples(st.just("jump"), st.integers(0, 20)),
        st.tuples(st.just("purge"), st.just(0)),
    ),
    max_size=40,
)


class Model:
    """The rules on plain lists: (number, instant or None) of what is ready and of what is out."""

    def __init__(self) -> None:
        self.ready: list[tuple[int, int | None]] = []
        self.out: list[tuple[int, int | None]] = []
        self.dead: list[int] = []

    def expire(self, now_ms: int) -> None:
        due = [item for item in self.ready if item[1] is not None and item[1] <= now_ms]
        due.sort(key=lambda item: (item[1], item[0]))
        self.dead += [number for number, _ in due]
        self.ready = [item for item in self.ready if item not in due]


@given(OPERATIONS, st.sampled_from([None, 0, 7]))
def test_any_history_is_that_of_a_plain_list(
    operations: list[tuple[str, int | None]], sweep_ms: int | None
) -> None:
    place, model, numbers = TimedQueue(), Model(), count()
    place.expire(sweep_ms=sweep_ms)
    out: list[QueueEntry] = []
    for operation, argument in operations:
        if operation == "accept":
            number = next(numbers)
            expires_at_ms = None if argument is None else place.now_ms + argument
            place.publish(str(number).encode(), argument)
            model.ready.append((number, expires_at_ms))
            model.expire(place.now_ms)
        elif operation in ("pass", "jump"):
            assert argument is not None
            if operation == "pass":
                for _ in range(argument):
                    place.pass_time(1)
                    place.queue.deliver_due()
                    model.expire(place.now_ms)
            else:
                place.clock.advance(argument)  # the timers are late
                place.queue.deliver_due()
                model.expire(place.now_ms)
        elif operation == "get":
            entry = place.queue.get()
            assert (entry is None) == (not model.ready)
            if entry is not None:
                out.append(entry)
                model.out.append(model.ready.pop(0))
                assert entry.message.body == str(model.out[-1][0]).encode()
        elif operation == "purge":
            assert place.queue.purge() == len(model.ready)
            model.ready.clear()
        elif out:
            assert argument is not None
            index = argument % len(out)
            entry, item = out.pop(index), model.out.pop(index)
            if operation == "settle":
                place.queue.settle(entry)
            else:
                place.queue.release([entry])
                place.turn.run()
                model.ready = sorted([*model.ready, item])
                model.expire(place.now_ms)
        assert [int(body) for body in place.ready] == [number for number, _ in model.ready]
        assert [int(body) for body in place.deaths.bodies] == model.dead


def test_an_expiring_message_is_shared_and_each_queue_has_its_own_time(place: TimedQueue) -> None:
    other = TimedQueue()
    place.expire(message_ttl_ms=100)
    message: Message = make_message(b"m").expiring_at(place.now_ms + 1000)
    place.queue.put(message)
    other.queue.put(message)
    times = [first(each).expires_at_ms - each.now_ms for each in (place, other)]
    assert times == [100, 1000]
