"""Which messages are held, until when, and where they go then."""

from __future__ import annotations

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hareline.message import Message
from hareline.queues.core.entry import HELD, QueueEntry
from hareline.queues.orders.fifo import FifoOrder
from hareline.queues.orders.last_values import LastValueOrder
from hareline.queues.policies.deadline_timer import LOOK_AGAIN_MS, NEVER
from hareline.queues.policies.hold import (
    LEFT_ALLOWED,
    READIED_PER_STEP,
    Hold,
    hold_headers,
    ready_at_ms,
)
from hareline.queues.queue import Queue
from hareline.wire.table import (
    Byte,
    Float,
    LongLong,
    Short,
    SignedInt,
    Table,
    Timestamp,
    UnsignedByte,
    UnsignedInt,
    UnsignedShort,
)
from tests.support.consumers import RecordingConsumer
from tests.support.freed import all_freed
from tests.support.messages import make_message
from tests.support.timed_queue import TimedQueue

NOT_VALID_BEFORE = "x-qpid-not-valid-before"
NOW_MS = 1_700_000_000_000


@pytest.fixture
def place() -> TimedQueue:
    place = TimedQueue()
    place.hold()
    return place


def publish_held(place: TimedQueue, body: bytes, delay_ms: int, ttl_ms: int | None = None) -> None:
    place.publish(body, ttl_ms, {"x-delay": delay_ms})


def bearing(**headers: object) -> Message:
    return make_message(
        headers=Table({name.replace("_", "-"): value for name, value in headers.items()})
    )


# ------------------------------------------------------------------------- what is held


@pytest.mark.row("A19")
@pytest.mark.parametrize("offset_ms", [-1000, -1, 0, 1, 1000])
def test_not_valid_before_is_held_while_now_is_not_past_it(
    place: TimedQueue, offset_ms: int
) -> None:
    place.publish(b"m", headers={NOT_VALID_BEFORE: place.now_ms + offset_ms})
    assert place.queue.held_count == (offset_ms >= 0)
    if offset_ms >= 0:
        place.pass_time(offset_ms)
        assert place.ready == []
        place.pass_time(1)
    assert place.ready == [b"m"]
    assert place.queue.held_count == 0
    assert place.queue.ready_bytes == 1


@pytest.mark.row("A19")
@pytest.mark.parametrize("header", ["x-delay", "x-opt-delivery-delay"])
@pytest.mark.parametrize("delay_ms", [-5, 0, 1, 1000])
def test_a_delay_counts_from_now(place: TimedQueue, header: str, delay_ms: int) -> None:
    place.publish(b"m", headers={header: delay_ms})
    assert place.queue.held_count == (delay_ms > 0)
    if delay_ms > 0:
        place.pass_time(delay_ms - 1)
        assert place.ready == []
        place.pass_time(1)
    assert place.ready == [b"m"]


@pytest.mark.row("A19")
@pytest.mark.parametrize("offset_ms", [-1, 0, 1, 1000])
def test_a_delivery_time_is_the_instant_itself(place: TimedQueue, offset_ms: int) -> None:
    place.publish(b"m", headers={"x-opt-delivery-time": place.now_ms + offset_ms})
    assert place.queue.held_count == (offset_ms > 0)
    place.pass_time(max(0, offset_ms))
    assert place.ready == [b"m"]


@pytest.mark.row("A19")
@pytest.mark.parametrize(
    "value",
    [
        1_800_000_000_000,
        LongLong(1_800_000_000_000),
        Timestamp(1_800_000_000_000),
        1_800_000_000_000.0,
        1_800_000_000_000.9,
    ],
)
def test_any_numeric_type_is_milliseconds(value: object) -> None:
    message = bearing(x_qpid_not_valid_before=value)
    assert ready_at_ms(message, NOW_MS) == 1_800_000_000_001


@pytest.mark.parametrize(
    "value",
    [
        Byte(100),
        UnsignedByte(100),
        Short(100),
        UnsignedShort(100),
        SignedInt(100),
        UnsignedInt(100),
        Float(100.5),
        Decimal("100.5"),
    ],
)
def test_short_numeric_types_will_do_for_a_delay(value: object) -> None:
    assert ready_at_ms(bearing(x_delay=value), NOW_MS) == NOW_MS + 100


@pytest.mark.row("A19")
@pytest.mark.parametrize(
    "value",
    [
        "1800000000000",
        b"1800000000000",
        True,
        None,
        [1_800_000_000_000],
        {"a": 1_800_000_000_000},
        float("nan"),
        float("-inf"),
        -1,
        0,
        0.5,
    ],
)
@pytest.mark.parametrize(
    "header",
    ["x_qpid_not_valid_before", "x_opt_delivery_time", "x_opt_delivery_delay", "x_delay"],
)
def test_what_is_no_number_of_the_future_holds_nothing(header: str, value: object) -> None:
    assert ready_at_ms(bearing(**{header: value}), NOW_MS) <= NOW_MS


def test_a_number_without_end_holds_for_ever() -> None:
    assert ready_at_ms(bearing(x_opt_delivery_time=float("inf")), NOW_MS) == NEVER


def test_of_several_headers_the_latest_instant_counts() -> None:
    headers = {
        "x_qpid_not_valid_before": NOW_MS + 10,
        "x_opt_delivery_time": NOW_MS + 20,
        "x_opt_delivery_delay": 30,
        "x_delay": 25,
    }
    assert ready_at_ms(bearing(**headers), NOW_MS) == NOW_MS + 30
    headers["x_opt_delivery_time"] = NOW_MS + 40
    assert ready_at_ms(bearing(**headers), NOW_MS) == NOW_MS + 40
    headers["x_qpid_not_valid_before"] = NOW_MS + 40
    assert ready_at_ms(bearing(**headers), NOW_MS) == NOW_MS + 41


@pytest.mark.row("S14")
@pytest.mark.parametrize(
    "value",
    [
        "2027-01-15T08:00:00.000001+00:00",  # as Celery writes it
        "2027-01-15T10:00:00.0001+02:00",
        "2027-01-15T08:00:00.001Z",
        "20270115T080000.001",  # without a zone: UTC
        1_800_000_000_001,
        1_800_000_000_001.9,
    ],
)
def test_a_header_that_the_queue_names_holds_until_its_time(value: object) -> None:
    headers = hold_headers(on_publish=False, until_header="eta")
    assert ready_at_ms(bearing(eta=value), NOW_MS, headers) == 1_800_000_000_001
    assert ready_at_ms(bearing(other=value), NOW_MS, headers) == 0


def test_a_timestamp_in_the_named_header_counts_seconds() -> None:
    headers = hold_headers(on_publish=False, until_header="eta")
    message = bearing(eta=Timestamp(1_800_000_000))
    assert ready_at_ms(message, NOW_MS, headers) == 1_800_000_000_000


@pytest.mark.parametrize("value", [None, "", "soon", "2027-13-15", "0001-01-01", True, [1], -1])
def test_what_is_no_time_in_the_named_header_holds_nothing(value: object) -> None:
    headers = hold_headers(on_publish=False, until_header="eta")
    assert ready_at_ms(bearing(eta=value), NOW_MS, headers) <= 0


def test_the_named_header_and_those_of_the_broker_hold_each_with_its_argument() -> None:
    message = bearing(eta=NOW_MS + 10, x_delay=20)
    times = [
        ready_at_ms(message, NOW_MS, hold_headers(on_publish, header)) - NOW_MS
        for on_publish, header in [(True, None), (True, "eta"), (None, "eta"), (True, "x-delay")]
    ]
    assert times == [20, 20, 10, 20]
    assert hold_headers(on_publish=None, until_header=None) == ()


def test_the_words_alone_hold_nothing(place: TimedQueue) -> None:
    place.publish(b"m", headers={"a": "x-delay", "b": NOT_VALID_BEFORE, "x-opt-delivery-": 5})
    assert place.ready == [b"m"]
    assert place.timers.set_count == 0


@pytest.mark.row("A19")
def test_without_the_argument_nothing_is_held() -> None:
    place = TimedQueue()
    publish_held(place, b"m", 1000)
    assert place.ready == [b"m"]


# ----------------------------------------------------------------------- becoming ready


@pytest.mark.row("A19")
def test_others_overtake_what_is_held_and_it_takes_its_own_place_then(
    place: TimedQueue,
) -> None:
    publish_held(place, b"1", 100)
    place.publish(b"2")
    publish_held(place, b"3", 50)
    place.publish(b"4")
    assert place.ready == [b"2", b"4"]
    place.pass_time(50)
    assert place.ready == [b"2", b"3", b"4"]
    place.pass_time(50)
    assert place.ready == [b"1", b"2", b"3", b"4"]


def test_a_waiting_consumer_gets_it_at_its_time(place: TimedQueue) -> None:
    consumer = RecordingConsumer(place.queue)
    place.queue.add_consumer(consumer)
    publish_held(place, b"later", 100)
    publish_held(place, b"late", 100)
    place.publish(b"now")
    assert consumer.bodies == [b"now"]
    place.pass_time(99)
    assert consumer.bodies == [b"now"]
    place.pass_time(1)
    assert consumer.bodies == [b"now", b"later", b"late"]


def test_a_get_finds_nothing_while_all_is_held(place: TimedQueue) -> None:
    publish_held(place, b"m", 100)
    assert place.queue.get() is None


@given(st.lists(st.integers(0, 40), max_size=30))
def test_they_become_ready_by_time_and_then_by_place(delays: list[int]) -> None:
    place = TimedQueue()
    place.hold()
    consumer = RecordingConsumer(place.queue)
    place.queue.add_consumer(consumer)
    for number, delay_ms in enumerate(delays):
        place.accept(str(number).encode(), headers={"x-delay": delay_ms})
    place.turn.run()
    place.pass_time(40)
    expected = sorted(range(len(delays)), key=lambda number: (delays[number], number))
    assert [int(body) for body in consumer.bodies] == expected
    assert place.timers.pending == []


def test_a_great_many_become_ready_in_shares(place: TimedQueue) -> None:
    message = bearing(x_delay=5)
    for _ in range(READIED_PER_STEP + 1):
        place.queue.put(message)
    place.pass_time(4)
    assert place.queue.held_count == READIED_PER_STEP + 1
    place.clock.advance(1)
    place.queue.hold._on_deadline()  # type: ignore[union-attr]
    assert place.queue.held_count == 1
    place.pass_time(0)
    assert place.queue.held_count == 0
    assert place.queue.ready_count == READIED_PER_STEP + 1


# --------------------------------------------------------------------------- clock steps


def test_a_clock_set_forward_is_noticed(place: TimedQueue) -> None:
    publish_held(place, b"m", 3_600_000)
    place.set_clock(3_600_000)
    place.pass_time(LOOK_AGAIN_MS)
    assert place.ready == [b"m"]


def test_a_clock_set_back_holds_for_longer(place: TimedQueue) -> None:
    publish_held(place, b"m", 1000)
    place.set_clock(-500)
    place.pass_time(1499)
    assert place.ready == []
    place.pass_time(1)
    assert place.ready == [b"m"]


# ------------------------------------------------------------ with expiry, purge, delete


@pytest.mark.parametrize("ttl_ms", [1, 99, 100])
@pytest.mark.parametrize("is_hold_first", [True, False])
def test_what_expires_while_it_is_held_is_never_ready(ttl_ms: int, is_hold_first: bool) -> None:
    place = TimedQueue()
    place.hold()
    if is_hold_first:  # then its timer is the first to ring where both are due
        publish_held(place, b"other", 100)
    consumer = RecordingConsumer(place.queue)
    publish_held(place, b"m", 100, ttl_ms)
    place.queue.add_consumer(consumer)
    place.pass_time(ttl_ms)
    assert place.deaths.bodies == [b"m"]
    place.pass_time(1000)
    assert place.queue.held_count == 0
    assert place.deaths.bodies == [b"m"]
    assert consumer.bodies == ([b"other"] if is_hold_first else [])


def test_what_expires_after_it_was_held_is_delivered(place: TimedQueue) -> None:
    consumer = RecordingConsumer(place.queue)
    place.queue.add_consumer(consumer)
    publish_held(place, b"m", 100, 101)
    place.pass_time(1000)
    assert consumer.bodies == [b"m"]
    assert place.deaths.bodies == []


def test_a_time_to_live_of_0_ends_what_is_held(place: TimedQueue) -> None:
    publish_held(place, b"m", 100, 0)
    place.pass_time(0)
    assert place.queue.held_count == 0
    assert place.deaths.bodies == [b"m"]


@pytest.mark.parametrize("batch_ms", [[50], [20, 30]])
def test_a_last_value_is_the_newest_from_its_time_on(batch_ms: list[int]) -> None:
    place = TimedQueue(LastValueOrder("key"))
    place.hold()
    for body, delay_ms in [(b"1", 50), (b"2", 40), (b"3", 45), (b"4", 0)]:
        place.publish(body, headers={"key": "a", "x-delay": delay_ms})
    place.publish(b"other", headers={"key": "b", "x-delay": 1})
    assert place.ready == [b"4"]
    for milliseconds in batch_ms:
        place.clock.advance(milliseconds)  # what is due meanwhile becomes ready at once
        place.pass_time(0)
    place.pass_time(LOOK_AGAIN_MS)
    assert place.ready == [b"1", b"other"]
    assert place.queue.held_count == 0
    assert sorted(place.deaths.bodies) == [b"2", b"3", b"4"]
    assert set(place.deaths.reasons) == {"replaced"}
    assert place.queue.ready_bytes == len(b"1other")


def test_a_purge_takes_what_is_held(place: TimedQueue) -> None:
    publish_held(place, b"2", 50)
    place.publish(b"1")
    publish_held(place, b"3", 10)
    assert [entry.message.body for entry in place.queue._take_all()] == [b"1", b"2", b"3"]
    assert place.queue.held_count == 0
    assert place.timers.pending == []
    place.pass_time(1000)
    assert place.ready == []
    publish_held(place, b"4", 10)
    place.pass_time(10)
    assert place.ready == [b"4"]


def test_what_expired_while_it_was_held_does_not_wait_for_its_time(place: TimedQueue) -> None:
    for _ in range(10 * LEFT_ALLOWED):
        publish_held(place, b"m", 3_600_000, 10)
    publish_held(place, b"kept", 3_600_000)
    place.pass_time(LOOK_AGAIN_MS)
    assert place.queue.held_count == 1
    hold = place.queue.hold
    assert hold is not None
    assert len(hold) <= LEFT_ALLOWED + 2
    place.pass_time(3_600_000)
    assert place.ready == [b"kept"]


def test_a_busy_queue_sweeps_without_the_timer(place: TimedQueue) -> None:
    hold = place.queue.hold
    assert hold is not None
    for _ in range(10 * LEFT_ALLOWED):
        publish_held(place, b"m", 3_600_000, 0)
        place.queue.deliver_due()
        assert len(hold) <= LEFT_ALLOWED + 1


def test_a_deleted_queue_cancels_its_timer_and_is_freed(place: TimedQueue) -> None:
    with all_freed(Queue):
        queue = Queue("other", FifoOrder(), place.turn, environment=place.environment)
        queue.hold = Hold(queue, place.environment)
        queue.install()
        queue.put(bearing(x_delay=1000))
        assert len(place.timers.pending) == 1
        queue.delete()
        assert place.timers.pending == []
        del queue


def test_a_held_entry_says_so(place: TimedQueue) -> None:
    publish_held(place, b"m", 1000)
    hold = place.queue.hold
    assert hold is not None
    entry: QueueEntry = hold._heap[0][2]
    assert entry.state == HELD
