"""The sampler over objects that a test moves by hand."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest

from hareline.clock import ManualClock
from hareline.counts import ChannelCounts, Counts, ExchangeCounts, QueueCounts
from hareline.statistics.history import BASIC, GLOBAL
from hareline.statistics.sampler import (
    OBJECTS_PER_LOOK,
    STATS_GROUPS,
    Key,
    Sampler,
    Source,
    Sums,
    SumSource,
    message_stats,
    with_details,
)
from hareline.statistics.windows import Window


@dataclass
class Thing:
    """Something that is sampled; ``asked``: how often its numbers were."""

    group: str = "g"
    count: int = 0
    depth: int = 0
    asked: int = 0


class Things(Source):
    kind = "thing"
    names = ("count", "depth")
    retention = BASIC

    def __init__(self) -> None:
        self.all: dict[str, Thing] = {}
        self.ended: list[tuple[Key, str]] = []

    def visit(self) -> Iterator[tuple[Key, str, int, Thing]]:
        for name, thing in list(self.all.items()):
            yield (name,), thing.group, thing.count, thing

    def values(self, key: Key, found: Thing) -> tuple[int, ...]:
        found.asked += 1
        return found.count, found.depth

    def take_ended(self) -> list[tuple[Key, str]]:
        ended, self.ended = self.ended, []
        return ended

    def end(self, name: str) -> None:
        self.ended.append(((name,), self.all.pop(name).group))


class Totals(SumSource):
    kind = "total"
    names = ("count", "depth")
    retention = GLOBAL

    def rows(self, sums: Sums) -> list[tuple[Key, tuple[int, ...]]]:
        return [((), sums.of("thing") or (0, 0))]


@dataclass
class Stand:
    clock: ManualClock = field(default_factory=ManualClock)
    things: Things = field(default_factory=Things)

    def __post_init__(self) -> None:
        self.sampler = Sampler(self.clock, (self.things,), (Totals(),))

    def add(self, name: str, **numbers: int) -> Thing:
        thing = self.things.all[name] = Thing(**numbers)  # type: ignore[arg-type]
        return thing

    def tick(self, seconds: float = 5) -> int:
        """A tick, so long after the one before; returns how often it has yielded."""
        self.clock.advance(round(seconds * 1000))
        return sum(1 for _ in self.sampler.sample())


@pytest.fixture
def stand() -> Stand:
    return Stand()


def test_a_rate_is_the_difference_of_the_last_two_samples_by_their_time(stand: Stand) -> None:
    thing = stand.add("a", count=100)
    stand.tick()
    assert stand.sampler.rate("thing", ("a",), "count") == 0.0
    thing.count = 110
    thing.depth = 1
    stand.tick()
    assert stand.sampler.rate("thing", ("a",), "count") == 2.0
    assert stand.sampler.rate("thing", ("a",), "depth") == 0.2
    thing.count = 111
    thing.depth = 0
    stand.tick(10)
    assert stand.sampler.rate("thing", ("a",), "count") == 0.1
    assert stand.sampler.rate("thing", ("a",), "depth") == -0.1
    stand.tick()
    assert stand.sampler.rate("thing", ("a",), "count") == 0.0


def test_what_is_not_known_has_no_rate_and_no_numbers(stand: Stand) -> None:
    stand.add("idle")
    stand.tick()
    stand.tick()
    for kind, key, name in (
        ("thing", ("idle",), "count"),
        ("thing", ("other",), "count"),
        ("nothing", (), "count"),
    ):
        assert stand.sampler.rate(kind, key, name) == 0.0
        assert stand.sampler.latest(kind, key) == {}
    assert stand.sampler.changed_ms("thing", ("idle",)) is None


def test_what_has_not_changed_is_not_asked_for_its_numbers(stand: Stand) -> None:
    idle, busy = stand.add("idle"), stand.add("busy", count=1)
    for _ in range(5):
        busy.count += 1
        stand.tick()
    assert (idle.asked, busy.asked) == (0, 5)
    for _ in range(5):
        stand.tick()
    assert busy.asked == 5
    assert stand.sampler.latest("thing", ("busy",)) == {"count": 6, "depth": 0}


def test_it_is_known_since_when_an_object_is_idle(stand: Stand) -> None:
    thing = stand.add("a", count=1)
    stand.tick()
    changed_ms = stand.clock.now_ms
    stand.tick()
    assert stand.sampler.changed_ms("thing", ("a",)) == changed_ms
    thing.count += 1
    stand.tick()
    assert stand.sampler.changed_ms("thing", ("a",)) == stand.clock.now_ms


def test_it_is_known_when_a_counter_came_to_a_number(stand: Stand) -> None:
    thing = stand.add("a")
    times = []
    for _ in range(4):
        thing.count += 10
        stand.tick()
        times.append(stand.clock.now_ms)
    reached_ms = stand.sampler.reached_ms
    assert [reached_ms("thing", ("a",), "count", count) for count in (1, 10, 11, 40, 41)] == [
        times[0],
        times[0],
        times[1],
        times[3],
        None,
    ]
    assert reached_ms("thing", ("b",), "count", 1) is None


def test_sums_follow_the_objects_and_those_that_end(stand: Stand) -> None:
    one, other = stand.add("a", count=1, depth=10), stand.add("b", count=2, depth=20)
    other.group = "h"
    stand.tick()
    assert stand.sampler.sums.of("thing") == (3, 30)
    one.count, one.depth = 5, 7
    stand.tick()
    assert stand.sampler.sums.of("thing") == (7, 27)
    assert stand.sampler.sums.of("thing", "g") == (5, 7)
    assert stand.sampler.sums.of("thing", "h") == (2, 20)
    stand.things.end("b")
    stand.tick()
    assert stand.sampler.sums.of("thing") == (5, 7)
    assert stand.sampler.latest("thing", ("b",)) == {}
    assert stand.sampler.latest("total", ()) == {"count": 5, "depth": 7}
    assert stand.sampler.rate("total", (), "depth") == -4.0


def test_an_object_of_the_same_name_begins_anew(stand: Stand) -> None:
    stand.add("a", count=7, depth=3)
    stand.tick()
    stand.things.end("a")
    stand.add("a", count=7, depth=1)
    stand.tick()
    stand.tick()
    assert stand.sampler.sums.of("thing") == (7, 1)
    assert stand.sampler.latest("thing", ("a",)) == {"count": 7, "depth": 1}


def test_one_that_ends_between_two_shares_is_not_in_the_sums(stand: Stand) -> None:
    for number in range(3 * OBJECTS_PER_LOOK):
        stand.add(str(number), count=1)
    stand.clock.work_s = 1.0  # each look at the clock finds the share used up
    shares = stand.sampler.sample()
    next(shares)
    stand.things.end("0")  # was visited
    stand.things.end(str(3 * OBJECTS_PER_LOOK - 1))  # is to be visited, in the list that was made
    for _ in shares:
        continue
    assert stand.sampler.sums.of("thing") == (3 * OBJECTS_PER_LOOK - 2, 0)


def test_much_is_sampled_in_shares(stand: Stand) -> None:
    for number in range(10 * OBJECTS_PER_LOOK):
        stand.add(str(number), count=1)
    assert stand.tick() == 0
    stand.clock.work_s = 0.0015
    assert stand.tick() == 5


def test_samples_of_a_window_come_newest_first(stand: Stand) -> None:
    stand.clock.advance(-stand.clock.now_ms % 10_000)
    thing = stand.add("a")
    for _ in range(6):
        thing.count += 10
        thing.depth += 1
        stand.tick()
    now_ms = stand.clock.now_ms
    assert stand.sampler.details("thing", ("a",), "count", Window(20, 10)) == {
        "rate": 2.0,
        "samples": [
            {"sample": 60, "timestamp": now_ms},
            {"sample": 40, "timestamp": now_ms - 10_000},
            {"sample": 20, "timestamp": now_ms - 20_000},
        ],
        "avg_rate": 2.0,
        "avg": 40.0,
    }
    assert stand.sampler.details("thing", ("a",), "count") == {"rate": 2.0}


@pytest.mark.parametrize("hours", [-24, 24])
def test_a_clock_that_is_set_changes_no_rate_and_keeps_no_more_rows(
    stand: Stand, hours: int
) -> None:
    untouched = Stand()
    things = [each.add("a") for each in (stand, untouched)]
    for tick in range(800):
        if tick == 400:
            stand.clock.now_ms += hours * 3_600_000
        for each, thing in zip((stand, untouched), things, strict=True):
            thing.count += 10
            each.tick()
            assert not tick or each.sampler.rate("thing", ("a",), "count") == 2.0
    kept, expected = (each.sampler._series["thing"][("a",)] for each in (stand, untouched))
    assert kept._levels == expected._levels
    assert stand.sampler.changed_ms("thing", ("a",)) == stand.clock.now_ms
    assert stand.sampler.reached_ms("thing", ("a",), "count", 8000) == stand.clock.now_ms
    details = stand.sampler.details("thing", ("a",), "count", Window(60, 5))
    assert details["avg_rate"] == 2.0
    samples = details["samples"]
    assert isinstance(samples, list)
    assert stand.clock.now_ms - 5000 < samples[0]["timestamp"] <= stand.clock.now_ms


def test_samples_from_before_the_object_are_0(stand: Stand) -> None:
    stand.clock.advance(-stand.clock.now_ms % 5_000)
    stand.add("a", count=3)
    stand.tick()
    now_ms = stand.clock.now_ms
    details = stand.sampler.details("thing", ("a",), "count", Window(10, 5))
    assert details == {
        "rate": 0.0,
        "samples": [
            {"sample": 3, "timestamp": now_ms},
            {"sample": 0, "timestamp": now_ms - 5_000},
            {"sample": 0, "timestamp": now_ms - 10_000},
        ],
        "avg_rate": 0.3,
        "avg": 1.0,
    }
    details = stand.sampler.details("thing", ("b",), "count", Window(5, 5))
    assert (details["avg_rate"], details["avg"]) == (0.0, 0.0)
    assert details["samples"] == [
        {"sample": 0, "timestamp": now_ms},
        {"sample": 0, "timestamp": now_ms - 5_000},
    ]


def test_message_stats_are_shown_by_groups_of_which_something_was_counted(stand: Stand) -> None:
    counts = {"publish": 3, "confirm": 0, "deliver": 0, "ack": 0, "disk_reads": 0}
    assert message_stats(None, "thing", ("a",), dict.fromkeys(counts, 0)) == {}
    assert message_stats(stand.sampler, "thing", ("a",), counts) == {
        "publish": 3,
        "publish_details": {"rate": 0.0},
        "confirm": 0,
        "confirm_details": {"rate": 0.0},
    }
    assert with_details(stand.sampler, "thing", ("a",), {"depth": 0}) == {
        "depth": 0,
        "depth_details": {"rate": 0.0},
    }


@pytest.mark.parametrize("counts", [QueueCounts(), ChannelCounts(), ExchangeCounts()])
def test_every_counter_is_in_one_group(counts: Counts) -> None:
    grouped = [name for group in STATS_GROUPS for name in group]
    assert set(counts.as_dict()) <= set(grouped)
    assert len(set(grouped)) == len(grouped)
