"""The garbage collector: off after the start, and run from a timer while there is little to see."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Iterator

import pytest

from hareline.net import collector as collector_module
from hareline.net.collector import SHALLOW_ENTRIES_MAX, IdleCollector, collection_off


@pytest.fixture(autouse=True)
def _collector_as_it_was() -> Iterator[None]:
    yield
    gc.unfreeze()
    gc.enable()


class Collections:
    """How often the collector has run since this was made."""

    def __init__(self) -> None:
        self._before = self._all()

    def _all(self) -> int:
        return int(gc.get_stats()[-1]["collections"])

    @property
    def count(self) -> int:
        return self._all() - self._before


async def looks(monkeypatch: pytest.MonkeyPatch, entries: int) -> int:
    """How often the collector runs while the queues are looked at three times."""
    monkeypatch.setattr(collector_module, "INTERVAL_S", 0.001)
    looked = 0
    is_enough = asyncio.Event()

    def count_entries() -> int:
        nonlocal looked
        looked += 1
        if looked == 4:  # so that three have run to their end
            is_enough.set()
        return entries

    collector = IdleCollector(count_entries)
    collector.start()
    collections = Collections()
    async with asyncio.timeout(60):
        await is_enough.wait()
    collector.stop()
    return collections.count


async def test_what_exists_at_the_start_is_frozen_and_nothing_runs_by_itself() -> None:
    collector = IdleCollector(lambda: 0)
    collector.start()
    assert gc.get_freeze_count() > 0
    assert not gc.isenabled()
    collector.stop()


async def test_shallow_queues_are_collected_at_each_look(monkeypatch: pytest.MonkeyPatch) -> None:
    assert await looks(monkeypatch, SHALLOW_ENTRIES_MAX) >= 3


async def test_deep_queues_are_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    assert await looks(monkeypatch, SHALLOW_ENTRIES_MAX + 1) == 0


async def test_nothing_is_looked_at_after_the_stop(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(collector_module, "INTERVAL_S", 0.001)
    has_looked = asyncio.Event()

    def count_entries() -> int:
        has_looked.set()
        return 0

    collector = IdleCollector(count_entries)
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
