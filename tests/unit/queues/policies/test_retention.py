"""What a stream keeps, by age and by octets."""

from __future__ import annotations

import pytest

from hareline.broker.restoring import end_paged
from hareline.message import UNWRITTEN
from hareline.queues.core.start_position import NEXT
from hareline.queues.dispatch.reading import ReadingLane
from hareline.queues.orders.log_order import LogOrder
from hareline.queues.orders.log_pages import LogPages
from hareline.queues.policies import retention
from hareline.queues.policies.overflow import Overflow
from hareline.queues.policies.reader_positions import ReaderPosition, ReaderPositions
from hareline.queues.policies.retention import Retention
from tests.support.content_stores import PagedQueue
from tests.support.deep_queues import bodies, deep_log, publish, read
from tests.support.messages import make_message
from tests.support.vhosts import QueueStand, numbers


def stream(**arguments: object) -> QueueStand:
    named = {name.replace("_", "-"): value for name, value in arguments.items()}
    return QueueStand({"x-queue-type": "stream", **named})


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
    queue = QueueStand({})
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

    def pin(self, queue: QueueStand, offset: int, name: str = "r", *, pin: bool = True) -> None:
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


# ------------------------------------------------------------------ where most of it is on disk


class DeepStream:
    """40 messages, the first 32 of which are numbers; one arrives each second."""

    def __init__(self, ttl_ms: int = 0, **limits: int | None) -> None:
        self.paged, self.log = deep_log(0)
        self.limits = {"max_age_ms": None, "max_length_bytes": None, **limits}
        for number in range(40):
            self.publish(ttl_ms * (number % 2))
            self.paged.timers.advance(1000)
        self.paged.settle_down()
        self.start_ms = self.paged.timers.clock.now_ms - 40_000
        retain(self.paged, self.log, self.limits)
        self.paged.content_store.runs.clear()

    def publish(self, ttl_ms: int = 0) -> None:
        message = make_message(b"%04d" % self.paged.queue.next_offset)
        message.position = UNWRITTEN
        message.arrival_ms = self.paged.timers.clock.now_ms
        if ttl_ms:
            message = message.expiring_at(message.arrival_ms + ttl_ms)
        assert self.paged.queue.put(message)

    @property
    def offsets(self) -> list[int]:
        return list(self.log.positions(0, 1000)[0])


def retain(
    paged: PagedQueue,
    log: LogOrder,
    limits: dict[str, int | None],
    pins: ReaderPositions | None = None,
) -> None:
    lane = paged.queue.lane
    assert isinstance(lane, ReadingLane)
    lane.retention = Retention(
        paged.queue,
        log,
        paged.environment,
        max_age_ms=limits["max_age_ms"],
        max_length_bytes=limits["max_length_bytes"],
    )
    lane.retention.pins = pins
    paged.queue.mark()
    paged.turn.run()


@pytest.mark.usefixtures("small_windows")
def test_octets_on_disk_are_dropped_without_reading_them() -> None:
    stream = DeepStream(max_length_bytes=4 * 23)
    assert stream.offsets == list(range(17, 40))
    assert stream.paged.content_store.runs == []
    stream.publish()
    stream.paged.turn.run()
    assert stream.offsets == list(range(18, 41))
    assert stream.paged.ledger is not None
    stream.paged.store.sync()
    assert list(stream.paged.ledger.living) == stream.offsets
    assert stream.paged.queue.ready_bytes == 4 * 23


@pytest.mark.usefixtures("small_windows")
@pytest.mark.parametrize("kept", [1, 3, 8, 9, 31])
def test_octets_are_dropped_across_pages_and_the_window(kept: int) -> None:
    assert DeepStream(max_length_bytes=4 * kept).offsets == list(range(40 - kept, 40))


@pytest.mark.usefixtures("small_windows")
def test_the_newest_stays_where_all_is_on_disk() -> None:
    stream = DeepStream()
    stream.log.page_out(stream.paged.paging, 0, 100)
    assert stream.log.entries == []
    retain(stream.paged, stream.log, {"max_age_ms": None, "max_length_bytes": 0})
    assert stream.offsets == [39]


@pytest.mark.usefixtures("small_windows")
def test_pages_get_too_old_and_only_the_one_with_the_limit_is_read() -> None:
    stream = DeepStream(max_age_ms=60_000)
    assert stream.offsets == list(range(40))
    stream.paged.timers.advance(20_000 + 9_000 - 1)
    assert stream.offsets == list(range(9, 40))
    assert sum(stream.paged.content_store.runs) < 40
    stream.paged.timers.advance(1)
    assert stream.offsets == list(range(10, 40))
    stream.paged.timers.advance(29_000)
    assert stream.offsets == [39]
    stream.paged.timers.advance(1000)
    assert stream.offsets == []
    assert stream.paged.timers.pending == []


@pytest.mark.usefixtures("small_windows")
def test_whole_pages_are_dropped_in_shares(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retention, "DROPPED_AT_ONCE", 5)
    stream = DeepStream(max_age_ms=50_000)
    stream.paged.timers.advance(45_000)
    assert stream.offsets == list(range(36, 40))


@pytest.mark.usefixtures("small_windows")
def test_what_expires_is_dropped_with_the_numbers_around_it() -> None:
    stream = DeepStream(ttl_ms=1_000_000, max_length_bytes=4 * 20)
    assert len(stream.log.kept_entries()) == 6
    assert stream.offsets == list(range(20, 40))
    assert stream.paged.queue.ready_bytes == 80
    assert read(list(stream.log)) == bodies(20, 40)


@pytest.mark.usefixtures("small_windows")
def test_a_full_queue_of_readers_drops_its_head_from_disk() -> None:
    paged, log = deep_log(40)
    overflow = Overflow(
        paged.queue,
        paged.environment,
        max_length=25,
        max_length_bytes=None,
        policy="drop-head",
    )
    paged.queue.install(overflow=overflow)
    end_paged(paged.queue)
    assert list(log.positions(0, 99)[0]) == list(range(15, 40))
    publish(paged, 3)
    assert read(list(log)) == bodies(18, 43)
    assert paged.queue.ready_bytes == 100


@pytest.mark.usefixtures("small_windows")
def test_the_age_of_what_has_left_counts_no_more() -> None:
    """Else a timer that is due at once would follow the other."""
    stream = DeepStream(max_age_ms=60_000)
    stream.paged.timers.advance(10_000)
    first = stream.log.peek()
    assert first is not None
    assert stream.log.first_arrival_ms == stream.start_ms
    stream.paged.queue.drop([first], "expired")
    assert stream.log.first_arrival_ms == stream.start_ms + 1000


# ------------------------------------------------------------- pins where most of it is on disk


class PinnedStream(DeepStream):
    """A DeepStream with one pin."""

    def __init__(self, pin: int, ttl_ms: int = 0, **limits: int | None) -> None:
        super().__init__(ttl_ms)
        assert self.log.pages is not None
        assert self.log.pages.end == 32
        clock = self.paged.timers.clock
        self.pins = ReaderPositions(clock)
        self.pins.put("r", ReaderPosition(pin, is_pinned=True, put_ms=clock.now_ms))
        limits = {"max_age_ms": None, "max_length_bytes": None, **limits}
        retain(self.paged, self.log, limits, self.pins)

    @property
    def first(self) -> int:
        """The lowest offset; all that follow are there, and their octets are counted."""
        offsets = self.offsets
        assert offsets == list(range(offsets[0], 40))
        assert self.paged.queue.ready_bytes == 4 * len(offsets)
        return offsets[0]


PINS = [
    # pin, kept without it, first offset that is kept with it
    (0, 30, 0),  # before all: nothing is above twice what is kept
    (0, 15, 10),
    (5, 30, 5),  # in a page
    (5, 15, 10),
    (9, 15, 10),
    (12, 15, 12),  # where a page begins
    (16, 4, 32),  # twice as much is less than what is pinned: all pages go
    (32, 4, 32),  # behind the pages
    (35, 4, 35),
    (35, 2, 36),
    (38, 4, 36),  # behind what is kept without it
    (40, 4, 36),
]


@pytest.mark.usefixtures("small_windows")
@pytest.mark.parametrize("ttl_ms", [0, 1_000_000])
@pytest.mark.parametrize(("pin", "kept", "first"), PINS)
def test_a_pin_keeps_octets_that_stand_in_pages(
    pin: int, kept: int, first: int, ttl_ms: int
) -> None:
    stream = PinnedStream(pin, ttl_ms, max_length_bytes=4 * kept)
    assert stream.first == first
    stream.pins.remove("r")
    stream.paged.queue.mark()
    stream.paged.turn.run()
    assert stream.first == 40 - kept


@pytest.mark.usefixtures("small_windows")
@pytest.mark.parametrize("at_once", [3, 10_000])
@pytest.mark.parametrize("ttl_ms", [0, 1_000_000])
@pytest.mark.parametrize(("pin", "kept", "first"), PINS)
def test_a_pin_keeps_what_is_old_in_pages(
    monkeypatch: pytest.MonkeyPatch, pin: int, kept: int, first: int, ttl_ms: int, at_once: int
) -> None:
    monkeypatch.setattr(retention, "DROPPED_AT_ONCE", at_once)
    stream = PinnedStream(pin, ttl_ms, max_age_ms=1000 * kept + 500)
    stream.paged.timers.advance(499)  # first ones of the kind
    assert stream.first == first
    stream.pins.remove("r")
    stream.paged.queue.mark()
    stream.paged.turn.run()
    stream.paged.timers.advance(0)
    assert stream.first == 40 - kept


@pytest.mark.usefixtures("small_windows")
@pytest.mark.parametrize("limits", [{"max_length_bytes": 4 * 30}, {"max_age_ms": 30_000}])
def test_what_a_pin_keeps_is_not_looked_through_in_each_turn(
    monkeypatch: pytest.MonkeyPatch, limits: dict[str, int]
) -> None:
    stream = PinnedStream(0, **limits)
    looked_at: list[object] = []

    def count(name: str) -> None:
        method = getattr(LogPages, name)

        def counting(pages: LogPages, *arguments: int) -> int:
            looked_at.append((name, arguments))
            offset = method(pages, *arguments)
            assert isinstance(offset, int)
            return offset

        monkeypatch.setattr(LogPages, name, counting)

    count("offset_after")
    count("offset_of_younger")
    for _ in range(3):
        stream.publish()
        stream.paged.turn.run()
    assert stream.offsets == list(range(43))
    assert looked_at == []
