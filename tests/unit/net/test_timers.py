"""The server's timers, on the loops it may run on."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from hareline.clock import Clock, ManualClock
from hareline.net.timers import LoopTimers
from hareline.server.broker import loop_factory


class CountingClock(ManualClock):
    """Each refresh is a millisecond."""

    __slots__ = ()

    def refresh(self) -> None:
        self.advance(1)


@pytest.fixture(params=["asyncio", "of the server"])
def runner(request: pytest.FixtureRequest) -> asyncio.Runner:
    factory = asyncio.new_event_loop if request.param == "asyncio" else loop_factory()
    return asyncio.Runner(loop_factory=factory)


def test_the_callback_finds_the_clock_refreshed(runner: asyncio.Runner) -> None:
    clock = CountingClock(1000)

    async def run() -> list[int]:
        called = asyncio.Event()
        seen: list[int] = []

        def note() -> None:
            seen.append(clock.now_ms)
            called.set()

        start_ms = clock.now_ms
        LoopTimers(asyncio.get_running_loop(), clock).call_later(0, note)
        await asyncio.wait_for(called.wait(), 60)
        return [seen[0] - start_ms, len(seen)]

    with runner:
        assert runner.run(run()) == [1, 1]


def test_the_delay_is_in_seconds(runner: asyncio.Runner) -> None:
    async def run() -> float:
        called = asyncio.Event()
        clock = Clock()
        start_s = clock.monotonic_s
        LoopTimers(asyncio.get_running_loop(), clock).call_later(0.05, called.set)
        await asyncio.wait_for(called.wait(), 60)
        return clock.monotonic_s - start_s

    with runner:
        # a loop may round its delays, and its clock is not the one that was read before
        assert 0.045 <= runner.run(run()) < 5


def test_a_cancelled_timer_does_not_call(runner: asyncio.Runner) -> None:
    async def run() -> list[str]:
        calls: list[str] = []
        called = asyncio.Event()
        timers = LoopTimers(asyncio.get_running_loop(), Clock())
        cancelled = timers.call_later(0, _noting(calls, "cancelled"))
        cancelled.cancel()
        timers.call_later(0.001, called.set)
        await asyncio.wait_for(called.wait(), 60)
        cancelled.cancel()
        return calls

    with runner:
        assert runner.run(run()) == []


def test_nothing_is_called_after_the_stop_whenever_it_was_set(runner: asyncio.Runner) -> None:
    async def run() -> list[str]:
        calls: list[str] = []
        loop = asyncio.get_running_loop()
        timers = LoopTimers(loop, Clock())
        first = asyncio.Event()
        timers.call_soon(first.set)
        await asyncio.wait_for(first.wait(), 60)
        timers.call_later(0, _noting(calls, "a timer that was due"))
        timers.call_later(0.001, _noting(calls, "a timer"))
        timers.call_soon(_noting(calls, "a turn"))
        timers.stop()
        timers.call_later(0, _noting(calls, "a later timer")).cancel()
        timers.call_later(0, _noting(calls, "a later timer"))
        timers.call_soon(_noting(calls, "a later turn"))
        over = asyncio.Event()
        loop.call_later(0.01, over.set)
        await asyncio.wait_for(over.wait(), 60)
        return calls

    with runner:
        assert runner.run(run()) == []


def test_turns_may_go_on_when_timers_are_stopped(runner: asyncio.Runner) -> None:
    async def run() -> list[str]:
        calls: list[str] = []
        loop = asyncio.get_running_loop()
        timers = LoopTimers(loop, Clock())
        timers.call_later(0, _noting(calls, "a timer"))
        timers.stop_timers()
        timers.call_later(0, _noting(calls, "a later timer"))
        timers.call_soon(_noting(calls, "a turn"))
        over = asyncio.Event()
        loop.call_later(0.01, over.set)
        await asyncio.wait_for(over.wait(), 60)
        return calls

    with runner:
        assert runner.run(run()) == ["a turn"]


def _noting(calls: list[str], word: str) -> Callable[[], None]:
    return lambda: calls.append(word)
