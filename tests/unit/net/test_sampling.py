"""The sampler's timer, the times of the event loop, and the process."""

from __future__ import annotations

import gc
import os
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from hareline.events import Event
from hareline.net.sampling import LoopWatch, SampleTimer, open_descriptors, read_node
from hareline.server.broker import Broker
from hareline.settings import Listener, Management, Settings, Storage
from tests.support.turns import ManualTurn
from tests.support.waiting import until


class Ticks:
    """Counts ticks and their shares; raises in the tick ``fails_at``."""

    def __init__(self, shares: int, fails_at: int = 0) -> None:
        self.begun = self.done = self.shares = 0
        self._shares = shares
        self._fails_at = fails_at
        self.reports: list[dict[str, object]] = []

    def sample(self) -> Iterator[None]:
        self.begun += 1
        for _ in range(self._shares):
            self.shares += 1
            yield
        if self.begun == self._fails_at:
            raise ZeroDivisionError("a bug")
        self.done += 1

    def report(self, event: Event, **fields: object) -> None:
        self.reports.append(fields)


async def test_a_tick_is_taken_a_share_at_a_time() -> None:
    ticks = Ticks(shares=3)
    timer = SampleTimer(ticks.sample, lambda: 0.001, ticks.report)
    timer.start()
    assert (ticks.begun, ticks.shares, ticks.done) == (1, 1, 0)
    await until(lambda: ticks.done >= 3, "three ticks")
    timer.stop()
    assert ticks.shares >= 9


async def test_a_failure_is_reported_and_the_next_tick_comes() -> None:
    ticks = Ticks(shares=1, fails_at=1)
    timer = SampleTimer(ticks.sample, lambda: 0.001, ticks.report)
    timer.start()
    await until(lambda: ticks.done >= 1, "the next tick")
    timer.stop()
    assert [report["where"] for report in ticks.reports] == ["statistics"]


async def test_nothing_is_sampled_after_the_stop() -> None:
    ticks = Ticks(shares=5)
    timer = SampleTimer(ticks.sample, lambda: 0.0, ticks.report)
    timer.start()
    timer.stop()
    timer.stop()
    assert ticks.shares == 1


@pytest.fixture
async def broker(tmp_path: Path) -> AsyncIterator[Broker]:
    made = Broker(
        Settings(
            data_dir=tmp_path,
            listener=Listener(port=0),
            management=Management(port=0, sample_interval_s=0.1),
            storage=Storage.model_validate({"kind": "journal"}),
        )
    )
    await made.start()
    try:
        yield made
    finally:
        await made.stop(0)


async def test_a_broker_samples_itself(broker: Broker) -> None:
    statistics = broker.statistics
    assert statistics is not None
    sampler = statistics.sampler
    await until(lambda: sampler.latest("node", ()), "a sample")
    assert sampler.latest("node", ())["disk_free"] > 0
    assert broker.context.counts.ended is not None


async def test_without_management_nothing_is_sampled(tmp_path: Path) -> None:
    made = Broker(
        Settings(
            data_dir=tmp_path,
            listener=Listener(port=0),
            management=Management(enabled=False),
            storage=Storage.model_validate({"kind": "memory"}),
        )
    )
    await made.start()
    try:
        assert made.statistics is None
        assert (made.context.counts.ended, made.context.turn.watch) == (None, None)
    finally:
        await made.stop(0)


# --------------------------------------------------------------------------------------- loop watch


async def test_a_loop_that_is_kept_busy_is_late() -> None:
    watch = LoopWatch(ManualTurn())
    watch.start()
    watch._due_s = time.monotonic() - 0.25
    watch._tick()
    assert watch.lag.last_s >= 0.25
    watch.stop()


async def test_it_measures_from_start_to_stop() -> None:
    turn = ManualTurn()
    watch = LoopWatch(turn)
    assert turn.watch is None
    watch.start()
    try:
        turn.arm()
        turn.step()
        assert watch.turns.count == 1
        gc.collect()
        assert watch.collections.count >= 1
        await until(lambda: watch.lag.count > 0, "a tick")
    finally:
        watch.stop()
    counted = watch.collections.count
    gc.collect()
    assert (watch.collections.count, turn.watch) == (counted, None)
    watch.stop()


async def test_two_watches_do_not_stop_each_other() -> None:
    one, other = LoopWatch(ManualTurn()), LoopWatch(ManualTurn())
    one.start()
    other.start()
    one.stop()
    gc.collect()
    assert (one.collections.count, other.collections.count) == (0, 1)
    other.stop()


# --------------------------------------------------------------------------------------------- node


def test_open_descriptors_are_counted() -> None:
    before = open_descriptors()
    pipe = os.pipe()
    try:
        assert open_descriptors() == before + 2
    finally:
        for each in pipe:
            os.close(each)


def test_they_are_listed_where_their_directory_has_no_size(tmp_path: Path) -> None:
    assert open_descriptors(tmp_path / "missing") == -1


def test_the_process_as_it_is(tmp_path: Path) -> None:
    watch = LoopWatch(ManualTurn())
    watch.lag.add(0.002)
    watch.turns.add(0.001)
    facts = read_node(watch, tmp_path, sockets=3)
    assert facts.mem_used > 1_000_000
    assert 0 < facts.fd_used <= facts.fd_total
    assert facts.sockets_used == 3
    assert facts.disk_free > 0
    assert (facts.loop_lag_us, facts.loop_lag_max_us, facts.turn_max_us) == (2000, 2000, 1000)
    again = read_node(watch, None, sockets=0)
    assert (again.loop_lag_us, again.loop_lag_max_us, again.disk_free) == (2000, 0, -1)
    assert read_node(watch, tmp_path / "missing", sockets=0).disk_free == -1
