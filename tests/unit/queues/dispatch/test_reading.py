"""Lane of readers: offsets, where each reader begins, what it is shown, basic.get, and the end."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Mapping

import pytest

from hareline.queues.core.credit import CreditWindow
from hareline.queues.core.entry import QueueEntry
from hareline.queues.core.lane import BATCH_ENTRIES
from hareline.queues.core.start_position import LAST, NEXT, StartPosition
from hareline.queues.dispatch import reading
from hareline.queues.dispatch.reading import Getter, ReadingLane
from hareline.queues.orders.log_order import LogOrder
from hareline.queues.queue import Queue
from hareline.selectors.selector import compile_selector
from hareline.wire.table import Table
from tests.support.consumers import RecordingConsumer
from tests.support.deep_queues import deep_log, make_windows_small, publish
from tests.support.vhosts import NON_DESTRUCTIVE, QueueStand, numbers

PRIORITIES = {**NON_DESTRUCTIVE, "x-max-priority": 9}
SORTED = {**NON_DESTRUCTIVE, "x-sort-key": "k"}
STREAM = {"x-queue-type": "stream"}
LAST_VALUES = {**NON_DESTRUCTIVE, "x-last-value-key": "k"}


@pytest.fixture
def log() -> QueueStand:
    return QueueStand(NON_DESTRUCTIVE)


def lane_of(queue: QueueStand) -> ReadingLane:
    lane = queue.queue.lane
    assert isinstance(lane, ReadingLane)
    return lane


# ------------------------------------------------------------------------------------- what is read


@pytest.mark.row("A15")
def test_every_reader_sees_everything_and_nothing_goes(log: QueueStand) -> None:
    log.publish(*numbers(0, 5))
    early, late = log.consume(), log.consume(acknowledges=False)
    log.publish(*numbers(5, 8))
    assert early.bodies == late.bodies == numbers(0, 8)
    early.ack()
    assert log.bodies == numbers(0, 8)


@pytest.mark.parametrize("arguments", [NON_DESTRUCTIVE, PRIORITIES, SORTED, LAST_VALUES], ids=str)
def test_each_message_carries_its_offset(arguments: dict[str, object]) -> None:
    queue = QueueStand(arguments)
    reader = queue.consume()
    queue.publish(*numbers(0, 3))
    queue.publish(b"claims", headers={"x-stream-offset": "mine", "other": 1})
    headers = [entry.message.headers for entry in reader.unacked]
    assert [header["x-stream-offset"] for header in headers] == [0, 1, 2, 3]
    assert headers[3]["other"] == 1


def test_a_message_keeps_its_other_properties_and_its_body(log: QueueStand) -> None:
    reader = log.consume()
    log.publish(b"body", content_type="text/plain", delivery_mode=2, message_id="m")
    message = reader.unacked[0].message
    assert message.body == b"body"
    assert message.properties.content_type == "text/plain"
    assert message.properties.delivery_mode == 2
    assert message.properties.message_id == "m"


@pytest.mark.row("A28")
def test_messages_expire_from_a_non_destructive_queue() -> None:
    queue = QueueStand({**NON_DESTRUCTIVE, "x-message-ttl": 1000})
    reader = queue.consume()
    queue.publish(*numbers(0, 3))
    queue.timers.advance(500)
    queue.publish(*numbers(3, 5))
    queue.timers.advance(500)
    assert queue.bodies == numbers(3, 5)
    assert queue.consume().bodies == numbers(3, 5)
    queue.timers.advance(500)
    assert queue.bodies == []
    assert reader.bodies == numbers(0, 5)


@pytest.mark.row("A15")
def test_fifty_readers_share_one_copy_of_each_message(log: QueueStand) -> None:
    log.publish(*numbers(0, 100))
    consumers = [log.consume() for _ in range(50)]
    for number in range(100):
        shown = {id(consumer.unacked[number].message) for consumer in consumers}
        assert len(shown) == 1
    assert all(not one.heap and not one.shelf for one in lane_of(log)._by_consumer.values())


# ------------------------------------------------------------------------------- what is handed out


@pytest.mark.row("A15")
def test_acks_and_nacks_give_credit_back_and_change_nothing(log: QueueStand) -> None:
    log.publish(*numbers(0, 9))
    reader = log.consume(3)
    assert reader.bodies == numbers(0, 3)
    reader.ack()
    log.turn.run()
    assert reader.bodies == numbers(0, 6)
    rejected = reader.take_unacked()
    for entry in rejected:
        reader.restore_credit(entry.message.size)
    rejected[0].queue.reject(rejected)
    log.turn.run()
    assert reader.bodies == numbers(0, 9)
    assert log.queue.ready_count == 9


def test_what_is_requeued_is_not_redelivered(log: QueueStand) -> None:
    log.publish(*numbers(0, 4))
    reader = log.consume(2)
    reader.release()
    log.turn.run()
    assert reader.bodies == numbers(0, 4)
    assert reader.redelivered == [False] * 4


def test_readings_are_counted_as_unacked(log: QueueStand) -> None:
    log.publish(*numbers(0, 4))
    reader, other = log.consume(3), log.consume(acknowledges=False)
    assert log.queue.unacked_count == 3
    assert log.queue.delivered_count == 7
    reader.ack(1)
    assert log.queue.unacked_count == 2
    reader.release()
    assert log.queue.unacked_count == 0
    assert len(other.bodies) == 4


# --------------------------------------------------------------------------------- where they begin


@pytest.mark.parametrize(
    "arguments", [NON_DESTRUCTIVE, PRIORITIES, {}], ids=["log", "priorities", "browser"]
)
@pytest.mark.row("A17")
def test_what_comes_before_a_start_in_the_future_is_not_shown(
    arguments: dict[str, object],
) -> None:
    queue = QueueStand(arguments)
    since_ms = queue.timers.clock.now_ms + 5000
    start = StartPosition("time", since_ms)
    queue.publish(b"0")
    reader = queue.consume(start=start, since_ms=since_ms, is_browser=not arguments)
    queue.publish(b"1")
    queue.timers.advance(4999)
    queue.publish(b"2")
    queue.timers.advance(1)
    queue.publish(b"3")
    assert reader.bodies == [b"3"]


@pytest.mark.parametrize(
    ("start", "first"),
    [
        (StartPosition("first"), 0),
        (StartPosition("last"), 9),
        (StartPosition("next"), 10),
        (StartPosition("offset", 0), 0),
        (StartPosition("offset", 4), 4),
        (StartPosition("offset", 10), 10),
        (StartPosition("offset", 999), 10),
    ],
)
@pytest.mark.parametrize("arguments", [NON_DESTRUCTIVE, PRIORITIES], ids=["log", "priorities"])
@pytest.mark.row("A17")
def test_a_reader_begins_where_it_asked(
    arguments: dict[str, object], start: StartPosition, first: int
) -> None:
    queue = QueueStand(arguments)
    queue.publish(*numbers(0, 10))
    reader = queue.consume(start=start)
    queue.publish(*numbers(10, 12))
    assert reader.bodies == numbers(first, 12)


@pytest.mark.parametrize("arguments", [NON_DESTRUCTIVE, PRIORITIES], ids=["log", "priorities"])
@pytest.mark.parametrize(
    ("ago_ms", "first"), [(10_000, 0), (5_000, 0), (4_999, 1), (1_000, 4), (999, 5), (0, 5)]
)
@pytest.mark.row("A17")
def test_a_reader_begins_at_an_instant(
    arguments: dict[str, object], ago_ms: int, first: int
) -> None:
    queue = QueueStand(arguments)
    for body in numbers(0, 5):
        queue.publish(body)
        queue.timers.advance(1_000)
    reader = queue.consume(start=StartPosition("time", queue.timers.clock.now_ms - ago_ms))
    queue.publish(b"005")
    assert reader.bodies == numbers(first, 6)


def test_the_last_is_the_newest_that_is_still_there(log: QueueStand) -> None:
    log.publish(*numbers(0, 5))
    log.queue.drop(log.queue.lane.ready_entries()[-2:], "expired")
    assert log.consume(start=LAST).bodies == [b"002"]


def test_the_last_of_an_empty_queue_is_the_next(log: QueueStand) -> None:
    log.publish(*numbers(0, 5))
    log.queue.purge()
    reader = log.consume(start=LAST)
    log.publish(b"new")
    assert reader.bodies == [b"new"]


def test_an_offset_that_is_gone_is_the_next_that_is_there(log: QueueStand) -> None:
    log.publish(*numbers(0, 200))
    log.queue.drop(log.queue.lane.ready_entries()[:150], "expired")
    assert log.consume(start=StartPosition("offset", 3)).bodies == numbers(150, 200)


# ---------------------------------------------------------------------- what happens under a reader


@pytest.mark.row("A28")
def test_what_expires_before_a_reader_comes_to_it_is_not_shown(log: QueueStand) -> None:
    log.publish(*numbers(0, 500))
    slow, fast = log.consume(10), log.consume()
    log.queue.drop(log.queue.lane.ready_entries()[5:450], "expired")
    slow.ack()
    log.turn.run()
    slow.ack()
    log.turn.run()
    assert slow.bodies == numbers(0, 10) + numbers(450, 470)
    assert fast.bodies == numbers(0, 500)
    assert log.bodies == numbers(0, 5) + numbers(450, 500)


def test_a_ring_of_readers_keeps_the_newest() -> None:
    queue = QueueStand({**NON_DESTRUCTIVE, "x-max-length": 3})
    reader = queue.consume()
    queue.publish(*numbers(0, 10))
    assert queue.bodies == numbers(7, 10)
    assert reader.bodies == numbers(0, 10)
    assert queue.consume().bodies == numbers(7, 10)


def test_a_purge_leaves_readers_where_they_are(log: QueueStand) -> None:
    log.publish(*numbers(0, 10))
    reader = log.consume(5)
    assert log.queue.purge() == 10
    log.publish(*numbers(10, 12))
    reader.ack()
    log.turn.run()
    assert reader.bodies == numbers(0, 5) + numbers(10, 12)


def test_what_was_held_is_shown_also_to_who_is_past_its_place() -> None:
    queue = QueueStand({**NON_DESTRUCTIVE, "x-hold-on-publish": True})
    queue.publish(b"held", headers={"x-delay": 1000})
    queue.publish(b"one")
    past = queue.consume()
    behind = queue.consume(start=NEXT)
    assert past.bodies == [b"one"]
    queue.timers.advance(1000)
    assert past.bodies == [b"one", b"held"]
    assert behind.bodies == []
    assert queue.consume().bodies == [b"held", b"one"]
    assert [entry.message.headers["x-stream-offset"] for entry in past.unacked] == [1, 0]


# ---------------------------------------------------------------------------------- other orderings


def test_a_reader_of_priorities_sees_the_highest_of_what_is_left() -> None:
    queue = QueueStand(PRIORITIES)
    for number in range(6):
        queue.accept(b"%d" % number, priority=number)
    reader = queue.consume(2)
    assert reader.bodies == [b"5", b"4"]
    queue.publish(b"9", priority=9)
    reader.ack()
    queue.turn.run()
    assert reader.bodies == [b"5", b"4", b"9", b"3"]
    other = queue.consume()
    assert other.bodies == [b"9", b"5", b"4", b"3", b"2", b"1", b"0"]


def test_a_reader_of_a_sorted_queue_never_sees_anything_twice() -> None:
    queue = QueueStand(SORTED)
    for key in "dba":
        queue.accept(key.encode(), headers={"k": key})
    reader = queue.consume(2)
    queue.publish(b"c", headers={"k": "c"})
    queue.publish(b"0", headers={"k": "0"})
    for _ in range(3):
        reader.ack()
        queue.turn.run()
    assert reader.bodies == [b"a", b"b", b"0", b"c", b"d"]


@pytest.mark.row("A15")
def test_readers_of_last_values_see_what_is_current() -> None:
    queue = QueueStand(LAST_VALUES)
    early = queue.consume()
    for number, key in enumerate("abab"):
        queue.publish(b"%s%d" % (key.encode(), number), headers={"k": key})
    late = queue.consume()
    assert early.bodies == [b"a0", b"b1", b"a2", b"b3"]
    assert late.bodies == [b"a2", b"b3"]
    late.ack()
    queue.publish(b"a4", headers={"k": "a"})
    assert late.bodies == [b"a2", b"b3", b"a4"]
    assert queue.bodies == [b"b3", b"a4"]


@pytest.mark.row("A15")
def test_what_is_replaced_for_a_slow_reader_is_passed_over() -> None:
    queue = QueueStand(LAST_VALUES)
    reader = queue.consume(1)
    for number in range(1000):
        queue.publish(b"%d" % number, headers={"k": number % 3})
    reader.ack()
    queue.turn.run()
    assert reader.bodies == [b"0", b"997"]
    order = queue.queue.order
    assert isinstance(order, LogOrder)
    assert len(order.entries) < 100


def test_what_readers_keep_for_themselves_is_swept() -> None:
    queue = QueueStand({**PRIORITIES, "x-max-length": 10})
    reader = queue.consume(1)
    for number in range(2000):
        queue.publish(b"%d" % number)
    kept = lane_of(queue)._by_consumer[reader]
    assert len(kept.heap) < 2 * 10 + reading.DEAD_ALLOWED + reading.RUNS_PER_SWEEP + 1
    reader.ack()
    queue.turn.run()
    assert reader.bodies == [b"0", b"1990"]


# ------------------------------------------------------------------------------------ to whom, when


def test_a_selector_passes_over_what_it_does_not_select(log: QueueStand) -> None:
    for number in range(20):
        log.accept(b"%03d" % number, headers={"even": number % 2 == 0})
    reader = log.consume(3, selector="even = TRUE")
    assert reader.bodies == [b"000", b"002", b"004"]
    reader.ack()
    log.turn.run()
    assert reader.bodies == [b"000", b"002", b"004", b"006", b"008", b"010"]
    assert log.consume(selector="even = FALSE").bodies == numbers(0, 20)[1::2]


def test_a_selector_that_selects_nothing_does_not_hold_the_turn_up(log: QueueStand) -> None:
    log.accept(*numbers(0, 3 * reading.LOOKS_PER_TURN), headers={"k": 1})
    log.accept(b"wanted", headers={"k": 2})
    log.turn.run()
    reader = RecordingConsumer(log.queue, selector=compile_selector("k = 2"))
    log.queue.add_consumer(reader)
    log.turn.step()
    assert reader.bodies == []
    assert log.turn.is_armed
    log.turn.run()
    assert reader.bodies == [b"wanted"]


def test_readers_are_served_in_turn_within_a_share(log: QueueStand) -> None:
    log.publish(*numbers(0, 1000))
    consumers = [log.consume(room=-1) for _ in range(8)]
    for consumer in consumers:
        consumer.drain()
    log.turn.step()
    counts = [len(consumer.bodies) for consumer in consumers]
    assert sum(counts) <= reading.LOOKS_PER_TURN + BATCH_ENTRIES
    assert min(counts) > 0
    log.turn.run()
    assert all(consumer.bodies == numbers(0, 1000) for consumer in consumers)


def test_higher_priorities_are_served_first(log: QueueStand) -> None:
    low, high = log.consume(room=-1), log.consume(room=-1, priority=5)
    log.publish(*numbers(0, reading.LOOKS_PER_TURN + 1))
    low.drain()
    high.drain()
    log.turn.step()
    assert len(high.bodies) >= reading.LOOKS_PER_TURN
    assert low.bodies == []
    log.turn.run()
    assert len(low.bodies) == reading.LOOKS_PER_TURN + 1


def test_what_does_not_fit_comes_next(log: QueueStand) -> None:
    log.publish(*numbers(0, 20))
    size = len(log.queue.lane.ready_entries()[0].message.content)
    reader = log.consume(10, room=3 * size)
    assert reader.bodies == numbers(0, 4)
    assert reader.credit == 6
    assert log.queue.unacked_count == 4
    reader.drain(2 * size)
    log.turn.run()
    assert reader.bodies == numbers(0, 7)
    reader.drain()
    log.turn.run()
    assert reader.bodies == numbers(0, 10)


def test_what_does_not_fit_comes_next_in_other_orderings() -> None:
    queue = QueueStand(PRIORITIES)
    queue.publish(*numbers(0, 20))
    size = len(queue.queue.lane.ready_entries()[0].message.content)
    reader = queue.consume(room=3 * size)
    queue.publish(b"high", priority=5)
    reader.drain(size)
    queue.turn.run()
    reader.drain()
    queue.turn.run()
    assert reader.bodies == [*numbers(0, 4), b"high", *numbers(4, 20)]


def test_octet_windows_are_kept(log: QueueStand) -> None:
    log.publish(*numbers(0, 10))
    reader = log.consume(windows=(CreditWindow(0, 7),))
    assert reader.bodies == numbers(0, 2)
    reader.ack(1)
    log.turn.run()
    assert reader.bodies == numbers(0, 3)
    reader.ack()
    log.turn.run()
    assert reader.bodies == numbers(0, 5)


def test_readers_share_the_window_of_their_channel(log: QueueStand) -> None:
    shared = CreditWindow(3)
    log.publish(*numbers(0, 5))
    one, other = log.consume(windows=(shared,)), log.consume(windows=(shared,))
    assert len(one.bodies) + len(other.bodies) == 3
    for _ in range(20):
        one.ack()
        other.ack()
        log.turn.run()
    assert one.bodies == other.bodies == numbers(0, 5)
    assert shared.used_count == 0


def test_a_window_gets_back_what_did_not_fit(log: QueueStand) -> None:
    log.publish(*numbers(0, 20))
    window = CreditWindow(10)
    size = len(log.queue.lane.ready_entries()[0].message.content)
    reader = log.consume(windows=(window,), room=3 * size)
    assert reader.bodies == numbers(0, 4)
    assert window.used_count == 4


def test_one_of_several_is_active_and_the_next_takes_over() -> None:
    queue = QueueStand({**NON_DESTRUCTIVE, "x-single-active-consumer": True})
    queue.publish(*numbers(0, 3))
    first, second = queue.consume(), queue.consume()
    assert first.bodies == numbers(0, 3)
    assert second.bodies == []
    queue.queue.remove_consumer(first)
    queue.turn.run()
    assert second.bodies == numbers(0, 3)


def test_waiting_readers_cost_nothing(log: QueueStand) -> None:
    log.publish(*numbers(0, 3))
    for _ in range(20):
        log.consume()
    busy = log.consume(1)
    known = lane_of(log)
    assert len(known._at_end) == 20
    busy.ack()
    assert sum(len(ring) for _, ring in known._rings.by_precedence) == 1
    log.turn.run()
    assert busy.bodies == numbers(0, 2)


@pytest.mark.row("A14")
def test_a_reader_that_closes_at_the_end_is_let_go(log: QueueStand) -> None:
    log.publish(*numbers(0, 3))
    reader = log.consume(closes_at_end=True)
    assert reader.bodies == numbers(0, 3)
    assert reader.is_told_of_end
    assert log.queue.consumers == []


def test_a_cancelled_reader_is_forgotten(log: QueueStand) -> None:
    log.publish(b"one")
    reader, waiting = log.consume(), log.consume(room=-1)
    for consumer in (reader, waiting):
        log.queue.remove_consumer(consumer)
    log.publish(b"two")
    assert reader.bodies == [b"one"]
    reader.ack()
    assert log.queue.unacked_count == 0
    known = lane_of(log)
    assert not known._by_consumer
    assert not known._at_end


# ----------------------------------------------------------------------------------- stream filters


def filtered_stream() -> QueueStand:
    stream = QueueStand(STREAM)
    stream.publish(b"eu", headers={"a": 1, "x-stream-filter-value": "eu"})
    stream.publish(b"us", headers={"x-stream-filter-value": "us"})
    stream.publish(b"none")
    stream.publish(b"other", headers={"other": "eu"})
    stream.publish(b"number", headers={"x-stream-filter-value": 5})
    stream.publish(b"table", headers={"x-stream-filter-value": Table(eu=1)})
    stream.publish(b"asia", headers={"x-stream-filter-value": "asia"})
    return stream


@pytest.mark.parametrize(
    ("values", "bodies"),
    [
        ({"eu"}, [b"eu"]),
        ({"eu", "asia"}, [b"eu", b"asia"]),
        ({"nobody"}, []),
        ({"us", ""}, [b"us", b"none", b"other", b"number", b"table"]),
    ],
)
def test_a_stream_filter_lets_only_its_values_through(
    values: set[str], bodies: list[bytes]
) -> None:
    stream = filtered_stream()
    reader = stream.consume(100, stream_filter=frozenset(values))
    assert reader.bodies == bodies
    stream.publish(b"eu later", headers={"x-stream-filter-value": "eu"})
    assert reader.bodies == bodies + [b"eu later"] * ("eu" in values)


def test_a_stream_filter_and_a_selector_must_both_be_true() -> None:
    stream = filtered_stream()
    wanted = frozenset(("eu", "us"))
    assert stream.consume(9, stream_filter=wanted, selector="a = 1").bodies == [b"eu"]
    assert stream.consume(9, stream_filter=wanted, selector="a = 2").bodies == []


def test_what_a_stream_filter_passes_over_costs_no_credit() -> None:
    stream = QueueStand(STREAM)
    for number in range(3 * BATCH_ENTRIES):
        value = "rare" if number % 300 == 299 else "often"
        stream.accept(b"%d" % number, headers={"x-stream-filter-value": value})
    reader = stream.consume(2, stream_filter=frozenset(("rare",)))
    assert reader.bodies == [b"299", b"599"]
    reader.ack()
    stream.turn.run()
    assert reader.bodies == [b"299", b"599", b"899", b"1199"]


@pytest.mark.pure("replaces a constant, which is compiled in")
def test_a_long_stretch_of_other_values_is_looked_at_in_shares() -> None:
    stream = QueueStand(STREAM)
    stream.accept(*[b"x"] * (reading.LOOKS_PER_TURN + 1))
    stream.accept(b"found", headers={"x-stream-filter-value": "eu"})
    stream.turn.run()
    reader = RecordingConsumer(stream.queue, prefetch_count=5)
    reader.stream_filter = frozenset(("eu",))
    stream.queue.add_consumer(reader)
    assert stream.queue.dispatch()
    assert reader.bodies == []
    assert not stream.queue.dispatch()
    assert reader.bodies == [b"found"]


# ---------------------------------------------------------------------------------------- basic.get


def with_filters(queue: Mapping[str, object], **filters: tuple[str, str]) -> QueueStand:
    table = {name: {type_: [argument]} for name, (type_, argument) in filters.items()}
    return QueueStand({**queue, "x-default-filters": table})


def got(queue: QueueStand) -> bytes | None:
    entry = queue.queue.get()
    if entry is None:
        return None
    entry.queue.settle(entry)
    return entry.message.body


@pytest.mark.row("A15")
def test_get_shows_the_first_every_time(log: QueueStand) -> None:
    assert log.queue.get() is None
    log.publish(*numbers(0, 3))
    first, second = log.queue.get(), log.queue.get()
    assert first is not None
    assert second is not None
    assert first.message.body == second.message.body == b"000"
    assert log.queue.unacked_count == 2
    first.queue.settle(first)
    second.queue.release([second])
    assert log.queue.unacked_count == 0
    assert log.queue.ready_count == 3


@pytest.mark.parametrize("arguments", [NON_DESTRUCTIVE, PRIORITIES, SORTED], ids=str)
@pytest.mark.row("A18")
def test_get_shows_the_first_of_which_the_default_selector_is_true(
    arguments: dict[str, object],
) -> None:
    queue = with_filters(
        {**arguments, "x-message-ttl": 1000}, colour=("x-filter-jms-selector", "colour = 'red'")
    )
    queue.publish(b"blue", headers={"colour": "blue"})
    assert got(queue) is None
    queue.publish(b"red", headers={"colour": "red"})
    queue.timers.advance(600)
    queue.publish(b"new blue", headers={"colour": "blue"})
    queue.publish(b"new red", headers={"colour": "red"})
    assert [got(queue), got(queue)] == [b"red", b"red"]
    queue.timers.advance(600)
    assert got(queue) == b"new red"
    assert queue.queue.unacked_count == 0
    assert queue.bodies == [b"new blue", b"new red"]


@pytest.mark.parametrize("arguments", [NON_DESTRUCTIVE, PRIORITIES], ids=["log", "priorities"])
@pytest.mark.row("A18")
def test_get_shows_the_first_within_the_default_replay_period(
    arguments: dict[str, object],
) -> None:
    queue = with_filters(arguments, recent=("x-qpid-replay-period", "10"))
    queue.publish(b"old")
    queue.timers.advance(6000)
    queue.publish(b"new")
    assert got(queue) == b"old"
    queue.timers.advance(6000)
    assert got(queue) == b"new"
    queue.timers.advance(6000)
    assert got(queue) is None


@pytest.mark.parametrize("period", ["0", "-5"])
@pytest.mark.row("A18")
def test_get_shows_nothing_where_only_what_is_to_come_is_shown(period: str) -> None:
    queue = with_filters(NON_DESTRUCTIVE, recent=("x-qpid-replay-period", period))
    queue.publish(b"now")
    assert got(queue) is None


@pytest.mark.row("A18")
def test_selector_and_replay_period_hold_for_get_together() -> None:
    queue = with_filters(
        NON_DESTRUCTIVE,
        recent=("x-qpid-replay-period", "10"),
        colour=("x-filter-jms-selector", "colour = 'red'"),
        size=("x-filter-jms-selector", "size > 3"),
    )
    queue.publish(b"old", headers={"colour": "red", "size": 9})
    queue.timers.advance(11_000)
    queue.publish(b"blue", headers={"colour": "blue", "size": 9})
    queue.publish(b"small", headers={"colour": "red", "size": 1})
    assert got(queue) is None
    queue.publish(b"right", headers={"colour": "red", "size": 9})
    assert got(queue) == b"right"


@pytest.mark.row("A18")
@pytest.mark.pure("replaces a method, which compiled code calls directly")
def test_get_looks_at_each_message_of_a_log_once(monkeypatch: pytest.MonkeyPatch) -> None:
    queue = with_filters(NON_DESTRUCTIVE, colour=("x-filter-jms-selector", "colour = 'red'"))
    looks: list[QueueEntry] = []
    matches = Getter._is_true_of

    def look(getter: Getter, entry: QueueEntry) -> bool:
        looks.append(entry)
        return matches(getter, entry)

    monkeypatch.setattr(Getter, "_is_true_of", look)
    queue.publish(*numbers(0, 50))
    assert [got(queue), got(queue)] == [None, None]
    assert len(looks) == 50
    queue.publish(b"red", headers={"colour": "red"})
    queue.publish(*numbers(50, 60))
    assert [got(queue), got(queue), got(queue)] == [b"red"] * 3
    assert len(looks) == 53


@pytest.mark.row("A18")
def test_get_goes_back_for_what_was_held() -> None:
    queue = with_filters(
        {**NON_DESTRUCTIVE, "x-hold-on-publish": True},
        colour=("x-filter-jms-selector", "colour = 'red'"),
    )
    due = queue.timers.clock.now_ms + 60_000
    queue.publish(b"held", headers={"colour": "red", "x-qpid-not-valid-before": due})
    queue.publish(b"blue", headers={"colour": "blue"})
    queue.publish(b"red", headers={"colour": "red"})
    assert got(queue) == b"red"
    queue.timers.advance(61_000)
    assert got(queue) == b"held"


def test_a_get_goes_on_from_pages_into_the_window(monkeypatch: pytest.MonkeyPatch) -> None:
    make_windows_small(monkeypatch)
    paged, log = deep_log(40)
    assert log.paged_count == 32
    wanted = "0029"
    selector = compile_selector(f"JMSCorrelationID = '{wanted}'")
    getter = Getter(selector, [], paged.timers.clock)
    assert getter.first(log) is None
    looked_at = sum(paged.content_store.runs)
    assert looked_at == 32
    publish(paged, 1, correlation_id=wanted)
    paged.settle_down()
    for _ in range(2):
        entry = getter.first(log)
        assert entry is not None
        assert entry.offset == 40
    assert sum(paged.content_store.runs) == looked_at, "looked at again"


# ----------------------------------------------------------------------------- the end of the queue


def test_readings_outlive_their_queue(log: QueueStand) -> None:
    log.publish(*numbers(0, 3))
    reader = log.consume()
    log.vhost.delete_queue("q", None)
    reader.ack(1)
    reader.release()
    log.turn.run()
    assert reader.bodies == numbers(0, 3)


class Probe:
    """Held by a queue alone, so it goes when the queue goes."""

    def __call__(self, queue: Queue) -> None:
        """Nothing to do when the last consumer leaves."""


def test_a_deleted_log_is_freed_without_the_collector() -> None:
    log = QueueStand({"x-queue-type": "stream", "x-max-age": "1h", "x-max-length-bytes": 10})
    log.publish(*numbers(0, 3))
    log.consume(acknowledges=False)
    log.queue.on_unused = Probe()
    probe = weakref.ref(log.queue.on_unused)
    gc.disable()
    try:
        log.vhost.delete_queue("q", None)
        del log.queue
        log.timers.advance(20_000)  # lets go of the timers that were cancelled
        assert probe() is None
    finally:
        gc.enable()
