"""What an x-delay means, and in which order and shares delayed entries go on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hareline import events
from hareline.broker.restoring import restore_entries
from hareline.errors import StoreError
from hareline.message import UNWRITTEN, Message, StoredMessage
from hareline.queues.core.entry import HELD
from hareline.queues.orders.fifo import FifoOrder
from hareline.queues.orders.window import Paging
from hareline.queues.policies.delay import (
    DELAY_HEADER,
    DELAY_MAX_MS,
    PAUSE_MS,
    SENT_BYTES_PER_STEP,
    SENT_PER_LOOK,
    SENT_PER_STEP,
    STEP_S,
    Delay,
    delay_ms_of,
)
from hareline.queues.queue import Queue
from hareline.storage.memory import MemoryStore
from hareline.wire.table import (
    Byte,
    Float,
    LongLong,
    Short,
    SignedInt,
    Table,
    UnsignedByte,
    UnsignedInt,
    UnsignedShort,
)
from tests.support.freed import all_freed
from tests.support.messages import make_message
from tests.support.stores import FakeStore
from tests.support.timed_queue import TimedQueue


class Onward:
    """Stands where delayed messages go, and writes down what comes, and when."""

    def __init__(self, place: TimedQueue) -> None:
        self.place = place
        self.sent: list[bytes] = []
        self.instants: list[int] = []
        self.unreadable = b"unreadable"
        self.before_sending: Callable[[], None] = lambda: None

    def send(self, message: Message) -> None:
        self.before_sending()
        if message.body == self.unreadable:
            raise StoreError("journal: checksum does not match")
        self.sent.append(message.body)
        self.instants.append(self.place.now_ms)


class DelayPlace(TimedQueue):
    """A queue that passes everything on, ``onward``."""

    def __init__(self, store: MemoryStore | None = None) -> None:
        super().__init__()
        if store is not None:
            self.environment = replace(self.environment, store=store)
        self.onward = Onward(self)
        self.delay = self.queue.hold = Delay(self.queue, self.environment, self.onward.send)
        self.queue.is_timeless = True
        self.queue.install()


def persistent(body: bytes) -> Message:
    """To be delayed by 5 ms, and not stored yet."""
    message = make_message(body, headers={"x-delay": 5})
    message.position = UNWRITTEN
    return message


@pytest.fixture
def place() -> DelayPlace:
    return DelayPlace()


def bearing(value: object) -> Message:
    return make_message(headers=Table({"x-delay": value}))


def delay_asked_by(value: object) -> int:
    """As it is read out of a message."""
    return delay_ms_of(bearing(value).header(DELAY_HEADER))


# ------------------------------------------------------------------------------ the header


@pytest.mark.row("S9")
@pytest.mark.parametrize(
    "value",
    [
        *(Byte(100), UnsignedByte(100), Short(100), UnsignedShort(100)),
        *(SignedInt(100), UnsignedInt(100), LongLong(100), 100),
        *(Float(100.5), 100.9, Decimal("100.9")),
        *("100", "+100", "0100"),
    ],
)
def test_delay_is_a_number_of_any_type_or_a_text_with_one(value: object) -> None:
    assert delay_asked_by(value) == 100


@pytest.mark.parametrize(
    "value",
    [
        *(True, None, [100], {"a": 100}, b"100", float("nan")),
        *("", "+", "-", "soon", "1.5", "1e3", " 1", "1_000", "\u0661", "--1", "0" * 5000),
        *(0, 0.9),
    ],
)
def test_what_is_no_number_is_no_delay(value: object) -> None:
    assert delay_asked_by(value) == 0


@pytest.mark.parametrize("value", [-1, -1.5, "-1", LongLong(-(1 << 63)), float("-inf")])
def test_delay_below_zero_is_none(value: object) -> None:
    assert delay_asked_by(value) <= 0


@pytest.mark.parametrize("value", [1 << 63, float("inf"), 1e300, "9" * 19, "9" * 5000])
def test_delay_is_limited_to_what_the_header_can_say(value: object) -> None:
    if value == 1 << 63:
        value = str(value)
    assert delay_asked_by(value) == DELAY_MAX_MS


def test_delay_beyond_the_limit_of_the_plugin_is_as_long_as_it_says() -> None:
    # differs: delay-long
    assert delay_asked_by(LongLong(1 << 32)) == 1 << 32


@given(st.integers(0, (1 << 63) - 1))
def test_number_and_text_mean_the_same(number: int) -> None:
    assert delay_asked_by(LongLong(number)) == delay_asked_by(str(number)) == number


def test_message_without_headers_has_no_delay() -> None:
    assert delay_ms_of(make_message().header(DELAY_HEADER)) == 0
    assert delay_ms_of(make_message(headers=Table({"x-delayed": 5})).header(DELAY_HEADER)) == 0


# ---------------------------------------------------------------------------- when they go


@pytest.mark.row("S9")
def test_entry_goes_at_its_time_and_no_earlier(place: DelayPlace) -> None:
    place.publish(b"m", headers={"x-delay": 1000})
    assert place.queue.held_count == 1
    place.pass_time(999)
    assert place.onward.sent == []
    place.pass_time(1)
    assert place.onward.sent == [b"m"]
    assert place.queue.held_count == place.queue.ready_count == place.queue.ready_bytes == 0
    assert place.queue.settled_count == 1


def test_nothing_is_ever_ready_even_what_is_due_at_once(place: DelayPlace) -> None:
    place.publish(b"m", headers={"x-delay": -5})
    assert (place.queue.held_count, place.queue.ready_count) == (1, 0)
    place.pass_time(0)
    assert place.onward.sent == [b"m"]


@pytest.mark.row("S9")
@given(st.lists(st.integers(1, 50), max_size=30), st.integers(1, 60))
def test_entries_go_in_the_order_of_their_times_whoever_came_first(
    delays: list[int], pause_ms: int
) -> None:
    """Also those that are due together, because nobody looked for a while."""
    place = DelayPlace()
    for number, delay_ms in enumerate(delays):
        place.publish(b"%d" % number, headers={"x-delay": delay_ms})
    place.clock.now_ms += pause_ms  # the wall clock alone: no timer rings
    place.pass_time(100_000)
    in_order = sorted(range(len(delays)), key=lambda number: (delays[number], number))
    assert place.onward.sent == [b"%d" % number for number in in_order]


def test_restored_entries_wait_for_the_rest_of_their_time(place: DelayPlace) -> None:
    now_ms = place.now_ms
    messages = []
    for body, delay_ms, age_ms in ((b"late", 900, 1000), (b"soon", 3000, 2500), (b"due", 10, 1000)):
        message = make_message(body, headers=Table({"x-delay": delay_ms}))
        message.arrival_ms = now_ms - age_ms
        messages.append(message)
    restore_entries(place.queue, ((10 + n, 0, message) for n, message in enumerate(messages)))
    assert place.queue.held_count == 3
    place.pass_time(0)
    assert place.onward.sent == [b"due", b"late"]  # due 990 and 100 ms ago
    place.pass_time(499)
    assert place.onward.sent == [b"due", b"late"]
    place.pass_time(1)
    assert place.onward.sent == [b"due", b"late", b"soon"]
    assert place.queue.next_offset == 13


def test_time_to_live_does_not_run_while_delayed(place: DelayPlace) -> None:
    place.publish(b"m", ttl_ms=10, headers={"x-delay": 1000})
    place.pass_time(999)
    assert place.queue.held_count == 1
    assert place.queue.expiry is None
    place.pass_time(1)
    assert place.onward.sent == [b"m"]
    assert place.deaths.bodies == []


# ------------------------------------------------------------------------ how many at once


def test_so_many_go_at_once_and_the_rest_in_the_next_turns(place: DelayPlace) -> None:
    for number in range(3 * SENT_PER_STEP):
        place.accept(b"%d" % number, headers={"x-delay": 5})
    rings: list[int] = []
    place.clock.advance(5)
    while place.queue.held_count:
        place.delay._on_deadline()
        rings.append(len(place.onward.sent))
    assert rings == [SENT_PER_STEP, 2 * SENT_PER_STEP, 3 * SENT_PER_STEP]
    assert place.onward.sent == [b"%d" % number for number in range(3 * SENT_PER_STEP)]


@pytest.mark.parametrize(
    ("cost_s", "at_most"), [(2 * STEP_S, 1), (STEP_S / 20, 20 + SENT_PER_LOOK)]
)
def test_few_go_at_once_where_each_takes_long(
    place: DelayPlace, cost_s: float, at_most: int
) -> None:
    """A message may go to thousands of queues."""

    def work() -> None:
        place.clock.monotonic_s += cost_s

    place.onward.before_sending = work
    for number in range(100):
        place.accept(b"%d" % number, headers={"x-delay": 5})
    place.clock.advance(5)
    sent = [0]
    while place.queue.held_count:
        place.delay._on_deadline()
        sent.append(len(place.onward.sent))
    assert max(after - before for before, after in pairwise(sent)) <= at_most
    assert place.onward.sent == [b"%d" % number for number in range(100)]


def test_operators_make_all_due_however_long_that_takes(place: DelayPlace) -> None:
    def work() -> None:
        place.clock.monotonic_s += STEP_S

    place.onward.before_sending = work
    for number in range(10):
        place.accept(b"%d" % number, headers={"x-delay": 5_000})
    place.delay.make_due(place.delay.entries())
    assert len(place.onward.sent) == 10


def test_large_messages_go_fewer_at_once(place: DelayPlace) -> None:
    body = bytes(SENT_BYTES_PER_STEP // 4)
    for _ in range(10):
        place.accept(body, headers={"x-delay": 5})
    place.clock.advance(5)
    place.delay._on_deadline()
    assert len(place.onward.sent) == 4
    place.pass_time(1)
    assert len(place.onward.sent) == 10


class BehindStore(MemoryStore):
    is_slow = False

    @property
    def is_behind(self) -> bool:
        return self.is_slow


def test_they_wait_while_the_store_is_behind_unless_it_has_failed() -> None:
    store = BehindStore()
    place = DelayPlace(store)
    store.is_slow = True
    place.publish(b"m", headers={"x-delay": 5})
    place.pass_time(5 + 3 * PAUSE_MS)
    assert place.onward.sent == []
    store.is_slow = False
    place.pass_time(PAUSE_MS)
    assert place.onward.sent == [b"m"]
    store.is_slow = True
    store.failure = "broken"
    place.publish(b"n", headers={"x-delay": 5})
    place.pass_time(5)
    assert place.onward.sent == [b"m", b"n"]


def test_they_wait_during_a_recovery_and_are_still_there(place: DelayPlace) -> None:
    """Other queues have not got theirs back."""
    scheduler = place.environment.dead_letter_scheduler
    scheduler.hold()
    place.publish(b"m", headers={"x-delay": 5})
    place.pass_time(10)
    assert place.onward.sent == []
    assert place.queue.held_count == 1
    scheduler.release()
    place.pass_time(PAUSE_MS)
    assert place.onward.sent == [b"m"]
    assert place.queue.held_count == 0


def test_they_do_not_wait_for_dead_letters(place: DelayPlace) -> None:
    scheduler = place.environment.dead_letter_scheduler
    scheduler._is_occupied = True  # a deep queue is being deleted
    place.publish(b"m", headers={"x-delay": 5})
    place.pass_time(5)
    assert place.onward.sent == [b"m"]


def test_each_is_settled_when_it_is_sent_and_not_before(place: DelayPlace) -> None:
    """A crash in the next callback of the loop neither loses nor doubles one."""
    ledger = FakeStore().open_queue(1, "q")
    assert ledger is not None
    place.queue.install(ledger=ledger)
    place.queue.install()
    settled: list[list[int]] = []
    place.onward.before_sending = lambda: settled.append(list(ledger.settled))
    for number in range(3):
        place.queue.put(persistent(b"%d" % number))
    place.pass_time(5)
    assert settled == [[], [0], [0, 1]]
    assert ledger.settled == [0, 1, 2]


def test_what_cannot_be_read_is_reported_and_stays_in_the_store(place: DelayPlace) -> None:
    ledger = FakeStore().open_queue(1, "q")
    assert ledger is not None
    place.queue.install(ledger=ledger)
    place.queue.install()
    for body in (b"a", b"unreadable", b"c"):
        place.queue.put(persistent(body))
    place.pass_time(5)
    assert place.onward.sent == [b"a", b"c"]
    assert ledger.settled == [0, 2]
    assert place.reports == [events.MESSAGES_UNREADABLE]


# -------------------------------------------------------------------- contents on the disk


class ContentStore:
    """The messages of all entries by position, of which some cannot be read."""

    def __init__(self, place: DelayPlace) -> None:
        """Takes the contents away."""
        entries = sorted(place.delay.entries(), key=lambda entry: entry.offset)
        self.messages = {n: entry.message for n, entry in enumerate(entries, 1)}
        self.broken: set[int] = set()
        self.read_count = 0
        queue = place.queue
        paging = Paging(queue, queue.order, place.environment, self)  # type: ignore[arg-type]
        queue.install(paging=paging)
        self.contents = paging.contents
        paging.has_stored = True
        for position, entry in enumerate(entries, 1):
            assert entry.state == HELD
            entry.message = StoredMessage(entry.message, self.contents, position)

    def read(self, position: int) -> Message:
        self.read_count += 1
        if position in self.broken:
            raise StoreError(f"position {position}: Input/output error")
        return self.messages[position]

    def read_run(self, positions: list[int]) -> list[Message]:
        return [self.read(position) for position in positions]

    def content(self, position: int) -> bytes:
        return self.read(position).content

    def drop_spooled(self, positions: object) -> None:
        raise AssertionError("nothing is spooled here")


def test_entry_whose_content_cannot_be_read_is_reported_and_costs_no_other(
    place: DelayPlace,
) -> None:
    place.accept(b"lost", headers={"x-delay": 5})
    place.accept(b"kept", headers={"x-delay": 5})
    content_store = ContentStore(place)
    content_store.broken.add(1)
    place.pass_time(5)
    assert place.onward.sent == [b"kept"]
    assert place.reports == [events.MESSAGES_UNREADABLE]
    assert place.queue.held_count == place.queue.ready_bytes == 0
    assert place.queue.settled_count == 2
    assert not content_store.contents._recent, "what was read is still remembered"


def test_content_on_the_disk_is_read_once_for_all_that_is_made_of_it(place: DelayPlace) -> None:
    for number in range(10):
        place.accept(b"%d" % number, headers={"x-delay": 5})
    content_store = ContentStore(place)
    place.pass_time(5)
    assert place.onward.sent == [b"%d" % number for number in range(10)]
    assert content_store.read_count == 10
    assert place.reports == []


# -------------------------------------------------------------------------------- the end


def test_deleted_queue_sends_nothing_and_is_freed_at_once(place: DelayPlace) -> None:
    with all_freed(Queue):
        queue = Queue("other", FifoOrder(), place.turn, environment=place.environment)
        queue.hold = Delay(queue, place.environment, Sender(queue).send)
        queue.install()
        queue.put(bearing(1000))
        assert len(place.timers.pending) == 1
        queue.delete()
        assert place.timers.pending == []
        del queue


class Sender:
    """It knows the queue that knows it, as an exchange does."""

    def __init__(self, queue: Queue) -> None:
        self.queue = queue

    def send(self, message: Message) -> None:
        raise AssertionError("its queue is deleted")
