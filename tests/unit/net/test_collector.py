"""The garbage collector: off after the start, and run from a timer while there is little to see."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from hareline.net import collector as collector_module
from hareline.net.collector import (
    FULL_AFTER_S,
    FULL_IDLE_S,
    IDLE_OCTETS_MAX,
    LOOK_S,
    OBJECTS_MAX,
    OBJECTS_PER_S,
    SHALLOW_ENTRIES_MAX,
    YOUNG_OBJECTS_MAX,
    YOUNG_TURNS,
    IdleCollector,
    collection_off,
)

FULL = 2


class Broker:
    """What the collector asks the broker for, and the time; each look is one interval later.

    ``looks``: what the collector did at each of them: a generation, or None. ``took_s``: how long
    a full collection takes.
    """

    def __init__(self, wanted: int) -> None:
        self.wanted = wanted
        self.entries = self.octets = 0
        self.octets_at_each_look = IDLE_OCTETS_MAX + 1
        self.now_s = 1000.0
        self.took_s = 0.0
        self.looks: list[int | None] = []
        self.is_enough = asyncio.Event()

    def count_octets(self) -> int:
        self.now_s += collector_module.INTERVAL_S * 1e4
        self.octets += self.octets_at_each_look
        if len(self.looks) == self.wanted:
            self.is_enough.set()
        self.looks.append(None)
        return self.octets

    def on_collection(self, phase: str, info: dict[str, Any]) -> None:
        if phase == "stop":
            generation = info["generation"]
            self.now_s += self.took_s if generation == FULL else 0.0
            if self.looks:
                self.looks[-1] = generation


@pytest.fixture(autouse=True)
def _collector_as_it_was() -> Iterator[None]:
    yield
    gc.enable()


async def looks(
    monkeypatch: pytest.MonkeyPatch, count: int = 3, **changes: float
) -> list[int | None]:
    """What the collector does the first times that the timer wakes it."""
    broker = Broker(count)
    monkeypatch.setattr(collector_module, "INTERVAL_S", 0.001)  # 10 s of the broker's time
    monkeypatch.setattr(collector_module, "monotonic", lambda: broker.now_s)
    collector = IdleCollector(lambda: broker.entries, broker.count_octets)
    gc.callbacks.append(broker.on_collection)
    try:
        broker.took_s = changes.pop("took_s", 0.0)
        collector.start()
        for name, value in changes.items():
            setattr(broker, name, value)
        async with asyncio.timeout(60):
            await broker.is_enough.wait()
    finally:
        gc.callbacks.remove(broker.on_collection)
        collector.stop()
    return broker.looks[:count]


async def test_what_exists_at_the_start_is_frozen_and_nothing_runs_by_itself() -> None:
    collector = IdleCollector(lambda: 0, lambda: 0)
    before = gc.get_freeze_count()
    collector.start()
    assert gc.get_freeze_count() > before
    assert not gc.isenabled()
    collector.stop()


async def test_what_is_new_is_looked_at_each_time_and_once_more_later(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found = await looks(monkeypatch, 2 * YOUNG_TURNS, entries=SHALLOW_ENTRIES_MAX)
    assert found == ([0] * (YOUNG_TURNS - 1) + [1]) * 2


async def test_deep_queues_are_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    found = await looks(monkeypatch, entries=SHALLOW_ENTRIES_MAX + 1)
    assert found == [None] * 3


async def test_all_is_looked_at_now_and_then_while_no_messages_move(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    turns = int(FULL_IDLE_S / 10)
    found = await looks(monkeypatch, 2 * turns, octets_at_each_look=IDLE_OCTETS_MAX)
    assert [at for at, each in enumerate(found) if each == FULL] == [turns - 1, 2 * turns - 1]


async def test_all_is_looked_at_once_an_hour_while_they_do(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    turns = int(FULL_AFTER_S / 10)
    found = await looks(monkeypatch, turns + 2)
    assert [at for at, each in enumerate(found) if each == FULL] == [turns - 1]


async def test_what_a_full_collection_takes_long_for_is_frozen_the_next_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    turns = int(FULL_IDLE_S / 10)
    found = await looks(
        monkeypatch, 3 * turns, octets_at_each_look=0, took_s=OBJECTS_MAX / OBJECTS_PER_S + 0.01
    )
    assert [at for at, each in enumerate(found) if each == FULL] == [turns - 1, 3 * turns - 1]


class Objects:
    """A collector of a heap of so many objects, which are counted and not made."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.new = self.young = self.old = self.frozen = 0
        self.now_s = 0.0
        self.looked_at: list[int] = []
        monkeypatch.setattr(gc, "get_count", lambda: (self.new, 0, 0))
        monkeypatch.setattr(gc, "collect", self.collect)
        monkeypatch.setattr(gc, "freeze", self.freeze)
        monkeypatch.setattr(collector_module, "INTERVAL_S", 5 * LOOK_S)
        monkeypatch.setattr(collector_module, "monotonic", lambda: self.now_s)
        self.entries = 0
        self.collector = IdleCollector(lambda: self.entries, lambda: 0)

    def collect(self, generation: int = FULL) -> int:
        seen = self.new
        self.young, self.new = self.young + self.new, 0
        if generation >= 1:
            seen, self.old, self.young = self.young, self.old + self.young, 0
        if generation == FULL:
            seen = self.old
            self.now_s += seen / OBJECTS_PER_S
        self.looked_at.append(seen)
        return 0

    def freeze(self) -> None:
        self.frozen += self.new + self.young + self.old
        self.new = self.young = self.old = 0

    def look(self, count: int = 1, *, new: int = 0) -> None:
        """So many looks, and so many new objects before each."""
        for _ in range(count):
            self.new += new
            self.now_s += LOOK_S
            self.collector._look()


@pytest.fixture
async def objects(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Objects]:
    objects = Objects(monkeypatch)
    objects.collector.start()
    objects.looked_at.clear()
    objects.frozen = 0
    yield objects
    objects.collector.stop()


async def test_much_that_is_new_is_looked_at_before_the_interval_is_over(objects: Objects) -> None:
    objects.look(3, new=YOUNG_OBJECTS_MAX // 2 - 1)
    assert objects.looked_at == [3 * (YOUNG_OBJECTS_MAX // 2 - 1)]
    objects.look(1000, new=YOUNG_OBJECTS_MAX // 2)
    assert max(objects.looked_at) <= OBJECTS_MAX
    assert not objects.new + objects.young > YOUNG_OBJECTS_MAX


async def test_what_is_too_much_at_one_go_is_frozen(objects: Objects) -> None:
    objects.entries = SHALLOW_ENTRIES_MAX + 1
    objects.look(10, new=OBJECTS_MAX)
    assert objects.looked_at == [], "queues are deep"
    objects.entries = 0
    objects.look()
    assert objects.looked_at == []
    assert objects.frozen == 10 * OBJECTS_MAX
    objects.look(4, new=10)
    assert objects.looked_at == [40]


async def test_no_collection_of_all_looks_at_more_than_the_bound(objects: Objects) -> None:
    objects.look(int(3 * FULL_IDLE_S / LOOK_S), new=2_000)
    assert max(objects.looked_at) <= OBJECTS_MAX
    assert objects.frozen > OBJECTS_MAX


async def test_an_old_cycle_is_freed(monkeypatch: pytest.MonkeyPatch) -> None:
    freed = asyncio.Event()

    class Request:
        def __init__(self) -> None:
            self.itself = self

        def __del__(self) -> None:
            freed.set()

    monkeypatch.setattr(collector_module, "INTERVAL_S", 0.001)
    monkeypatch.setattr(collector_module, "FULL_IDLE_S", 0.0)
    collector = IdleCollector(lambda: 0, lambda: 0)
    collector.start()
    request = Request()
    gc.collect(1)  # it is old now
    del request
    gc.collect(1)
    assert not freed.is_set()
    async with asyncio.timeout(60):
        await freed.wait()
    collector.stop()


async def test_nothing_is_looked_at_after_the_stop(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(collector_module, "INTERVAL_S", 0.001)
    has_looked = asyncio.Event()

    def count_entries() -> int:
        has_looked.set()
        return 0

    collector = IdleCollector(count_entries, lambda: 0)
    collector.start()
    collector.stop()
    collector.stop()
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(has_looked.wait(), 0.02)


@pytest.mark.parametrize("was_on", [True, False])
def test_a_recovery_runs_without_collections_and_leaves_them_as_they_were(was_on: bool) -> None:
    if not was_on:
        gc.disable()
    with collection_off():
        assert not gc.isenabled()
    assert gc.isenabled() is was_on
    with pytest.raises(LookupError), collection_off():
        raise LookupError
    assert gc.isenabled() is was_on
