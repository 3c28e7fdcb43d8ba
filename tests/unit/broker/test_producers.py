"""How far each producer has come, who is forgotten, and what is said of it."""

from __future__ import annotations

import pytest

from hareline import events
from hareline.broker import producers as module
from hareline.broker.producers import Producers, PublishNumber
from hareline.clock import ManualClock
from hareline.events import REPORT_INTERVAL_MS, Event
from hareline.storage.interface import ProducerSequence
from hareline.storage.memory import MemoryStore
from tests.support.stores import FakeSequences, FakeStore


class Stand:
    """The producers of a virtual host, on a store that keeps nothing unless one is given."""

    def __init__(self, store: FakeStore | None = None) -> None:
        self.clock = ManualClock()
        self.reports: list[tuple[Event, dict[str, object]]] = []
        self.store = store or MemoryStore()
        self.producers = Producers("/", self.store, self.clock, self._report)

    def _report(self, event: Event, **fields: object) -> None:
        self.reports.append((event, fields))

    def is_new(self, producer_id: bytes, sequence: int) -> bool:
        """Whether it is taken for new; if so, a queue takes it."""
        number = PublishNumber(producer_id, sequence)
        if self.producers.find(number) is not None:
            return False
        self.producers.accept(number, is_kept=False)
        return True

    def reported(self, event: Event) -> list[dict[str, object]]:
        return [fields for each, fields in self.reports if each is event]


@pytest.fixture
def stand() -> Stand:
    return Stand()


def test_only_what_is_above_the_highest_is_new(stand: Stand) -> None:
    taken = [number for number in (0, 0, 1, 5, 3, 5, 4, 6, 1 << 62) if stand.is_new(b"a", number)]
    assert taken == [0, 1, 5, 6, 1 << 62]
    assert stand.producers.duplicate_count == 4


def test_producers_do_not_know_of_each_other(stand: Stand) -> None:
    assert stand.is_new(b"a", 7)
    assert stand.is_new(b"b", 3)
    assert not stand.is_new(b"b", 3)


def test_to_be_found_new_moves_nothing(stand: Stand) -> None:
    number = PublishNumber(b"a", 7)
    assert stand.producers.find(number) is None
    assert stand.producers.find(number) is None
    assert len(stand.producers) == 0


# ----------------------------------------------------------------------------------- forgetting


def test_the_least_recently_used_is_forgotten_for_a_new_one(stand: Stand) -> None:
    stand.producers.max_count = 3
    for name in (b"a", b"b", b"c"):
        assert stand.is_new(name, 10)
    assert not stand.is_new(b"a", 10)  # a duplicate is a use too
    assert stand.is_new(b"d", 0)
    assert len(stand.producers) == 3
    assert [stand.is_new(name, 10) for name in (b"a", b"c")] == [False, False]
    assert stand.is_new(b"b", 1)


def test_a_million_producers_take_no_more_room_than_the_limit(stand: Stand) -> None:
    stand.producers.max_count = 50
    for number in range(1000):
        assert stand.is_new(b"%d" % number, 0)
        assert len(stand.producers) <= 50
    assert stand.producers.forgotten_count == 950


@pytest.mark.pure("replaces a constant, which is compiled in")
def test_a_lower_limit_is_reached_step_by_step(
    stand: Stand, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(40):
        stand.is_new(b"%d" % number, 0)
    monkeypatch.setattr(module, "FORGOTTEN_AT_ONCE", 4)
    stand.producers.max_count = 10
    stand.is_new(b"next", 0)
    assert len(stand.producers) == 37
    for number in range(20):
        stand.is_new(b"next %d" % number, 0)
    assert len(stand.producers) == 10


def test_one_that_was_not_used_for_long_is_forgotten(stand: Stand) -> None:
    stand.producers.max_age_ms = 1000
    assert stand.is_new(b"a", 5)
    stand.clock.advance(1000)
    assert not stand.is_new(b"a", 5)
    stand.clock.advance(1001)
    assert stand.is_new(b"a", 2)
    assert not stand.is_new(b"a", 2)


def test_old_ones_leave_memory_when_a_new_one_comes(stand: Stand) -> None:
    stand.producers.max_age_ms = 1000
    for number in range(5):
        stand.is_new(b"%d" % number, 0)
    stand.clock.advance(1001)
    assert stand.is_new(b"new", 0)
    assert len(stand.producers) == 1
    assert stand.producers.forgotten_count == 5


# -------------------------------------------------------------------------------------- reports


def test_forgetting_is_reported_now_and_then(stand: Stand) -> None:
    stand.producers.max_count = 1
    for number in range(4):
        stand.is_new(b"%d" % number, 0)
    assert stand.reported(events.PRODUCERS_FORGOTTEN) == [
        {"vhost": "/", "count": 1, "known": 0, "max_producers": 1}
    ]
    stand.clock.advance(REPORT_INTERVAL_MS)
    stand.is_new(b"next", 0)
    assert [each["count"] for each in stand.reported(events.PRODUCERS_FORGOTTEN)] == [1, 3]


def test_duplicates_are_reported_now_and_then(stand: Stand) -> None:
    stand.is_new(b"orders \xff", 9)
    for number in range(4):
        stand.is_new(b"orders \xff", number)
    stand.clock.advance(REPORT_INTERVAL_MS - 1)
    stand.is_new(b"orders \xff", 0)
    stand.clock.advance(1)
    stand.is_new(b"orders \xff", 0)
    assert stand.reported(events.PRODUCER_DUPLICATES) == [
        {"vhost": "/", "producer": "orders \\xff", "count": 1},
        {"vhost": "/", "producer": "orders \\xff", "count": 5},
    ]


# ------------------------------------------------------------------------------------- the store


def test_only_what_the_store_has_is_noted_with_it() -> None:
    store = FakeStore()
    stand = Stand(store)
    store.settled_count = 1
    stand.producers.accept(PublishNumber(b"a", 1), is_kept=True)
    stand.producers.accept(PublishNumber(b"a", 2), is_kept=False)
    stand.producers.accept(PublishNumber(b"b", 3), is_kept=False)
    assert store.sequences["/"].noted == [(b"a", 1)]
    assert not stand.is_new(b"a", 2)
    assert not stand.is_new(b"b", 3)


def test_producers_are_those_that_the_store_has_found() -> None:
    store = FakeStore()
    ledger = store.sequences["/"] = FakeSequences(store)
    known = ledger.by_id[b"a"] = ProducerSequence(b"a")
    known.highest = 41
    known.used_ms = ManualClock().now_ms
    stand = Stand(store)
    assert not stand.is_new(b"a", 41)
    assert stand.is_new(b"a", 42)


def test_a_duplicate_is_safe_unless_its_original_may_be_lost() -> None:
    store = FakeStore()
    stand = Stand(store)
    store.settled_count = 1
    stand.producers.accept(PublishNumber(b"a", 1), is_kept=True)
    original = stand.producers.find(PublishNumber(b"a", 1))
    assert original is not None
    assert stand.producers.is_safe(original)
    store.sequences["/"].undecided.add(b"a")
    assert not stand.producers.is_safe(original)
    store.sequences["/"].undecided.clear()
    store.failure = "broken"
    assert not stand.producers.is_safe(original)
    store.durable_ticket = original.ticket
    assert stand.producers.is_safe(original)
