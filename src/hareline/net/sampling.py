"""Numbers of a running broker: the times of its event loop, its process, and the sampler's timer.

``server`` starts and stops a ``Statistics`` while management is on. A tick of the sampler is taken
a share at a time, at most one tick is under way, and one that takes longer than its interval delays
the next. A number that the system does not tell is -1.
"""

from __future__ import annotations

import asyncio
import gc
import resource
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

from hareline import events
from hareline.amqp.context import Context
from hareline.counts import EndedObjects
from hareline.events import Report
from hareline.net.disk import disk_space
from hareline.net.memory import used_bytes
from hareline.statistics.facts import NodeFacts
from hareline.statistics.sampler import Sampler
from hareline.statistics.sources import (
    ChannelSource,
    ConnectionSource,
    ExchangeSource,
    NodeSource,
    OverviewSource,
    QueueSource,
    VhostSource,
)
from hareline.statistics.timings import Timings
from hareline.turn import Turn

INTERVAL_S: Final = 0.5


class LoopWatch:
    """``lag``: how late its timer was; ``turns``: each turn; ``collections``: each of the GC."""

    def __init__(self, turn: Turn) -> None:
        self._turn = turn
        self.lag = Timings()
        self.turns = Timings()
        self.collections = Timings()
        self._collected_from_s = 0.0
        self._due_s = 0.0
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Measure from now on."""
        self._turn.watch = self.turns.add
        gc.callbacks.append(self._on_collection)
        self._arm()

    def stop(self) -> None:
        """Measure no more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
            self._turn.watch = None
            gc.callbacks.remove(self._on_collection)

    def _arm(self) -> None:
        self._due_s = time.monotonic() + INTERVAL_S
        self._timer = asyncio.get_running_loop().call_later(INTERVAL_S, self._tick)

    def _tick(self) -> None:
        self.lag.add(max(0.0, time.monotonic() - self._due_s))
        self._arm()

    def _on_collection(self, phase: str, info: Mapping[str, int]) -> None:
        if phase == "start":
            self._collected_from_s = time.perf_counter()
        elif self._collected_from_s:
            self.collections.add(time.perf_counter() - self._collected_from_s)
            self._collected_from_s = 0.0


# -------------------------------------------------------------------------------------- the process


_DESCRIPTORS: Final = Path("/proc/self/fd")
_UNKNOWN: Final = -1


def open_descriptors(directory: Path = _DESCRIPTORS) -> int:
    """Number of open file descriptors; Linux 6.2 has it as the size of their directory."""
    try:
        return directory.stat().st_size or sum(1 for _ in directory.iterdir())
    except OSError:
        return _UNKNOWN


def descriptors() -> tuple[int, int]:
    """Open file descriptors, and their limit."""
    return open_descriptors(), resource.getrlimit(resource.RLIMIT_NOFILE)[0]


def read_node(watch: LoopWatch, directory: Path | None, *, sockets: int) -> NodeFacts:
    """The process now; ``directory``: whose disk counts. The longest times begin again."""
    used, limit = descriptors()
    free = _UNKNOWN
    if directory is not None:
        with suppress(OSError):
            free = disk_space(directory).free_bytes
    return NodeFacts(
        mem_used=used_bytes(),
        fd_used=used,
        fd_total=limit,
        sockets_used=sockets,
        sockets_total=limit,
        disk_free=free,
        loop_lag_us=round(watch.lag.last_s * 1e6),
        loop_lag_max_us=round(watch.lag.take_max() * 1e6),
        turn_max_us=round(watch.turns.take_max() * 1e6),
        gc_num=watch.collections.count,
        gc_max_us=round(watch.collections.take_max() * 1e6),
    )


# ------------------------------------------------------------------------------ the sampler's timer


class Statistics:
    """``sampler`` has rates and histories, ``watch`` the times of the event loop.

    ``interval_s`` is asked before each tick. ``directory``: on the disk whose room is sampled, None
    without one.
    """

    def __init__(
        self, context: Context, interval_s: Callable[[], float], directory: Path | None
    ) -> None:
        self._context = context
        self._directory = directory
        self.watch = LoopWatch(context.turn)
        ended = self._ended = EndedObjects()
        self.sampler = Sampler(
            context.clock,
            (  # channels first: they collect what is counted for exchanges
                ChannelSource(context, ended),
                ExchangeSource(context, ended),
                ConnectionSource(context, ended),
                QueueSource(context, ended),
            ),
            (OverviewSource(context), VhostSource(context), NodeSource(self.node)),
        )
        self._timer = SampleTimer(self.sampler.sample, interval_s, context.report)

    def start(self) -> None:
        """Sample from now on."""
        self._context.counts.ended = self._ended
        self.watch.start()
        self._timer.start()

    def stop(self) -> None:
        """Sample no more."""
        self._timer.stop()
        self.watch.stop()
        self._context.counts.ended = None

    def node(self) -> NodeFacts:
        """The process now."""
        sockets = len(self._context.connections)
        return read_node(self.watch, self._directory, sockets=sockets)


class SampleTimer:
    """Runs ``sample``, which yields between its shares, at each interval."""

    def __init__(
        self, sample: Callable[[], Iterator[None]], interval_s: Callable[[], float], report: Report
    ) -> None:
        self._sample = sample
        self._interval_s = interval_s
        self._report = report
        self._handle: asyncio.Handle | None = None

    def start(self) -> None:
        """Take a sample now, and then at intervals."""
        self._begin()

    def stop(self) -> None:
        """Take no more samples."""
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None

    def _begin(self) -> None:
        loop = asyncio.get_running_loop()
        self._go_on(self._sample(), loop.time() + self._interval_s())

    def _go_on(self, shares: Iterator[None], next_s: float) -> None:
        loop = asyncio.get_running_loop()
        try:
            next(shares)
        except StopIteration:
            self._handle = loop.call_at(max(next_s, loop.time()), self._begin)
        except Exception as error:  # a bug here must not end the samples for good
            self._report(events.BROKER_FAILED, where="statistics", exc_info=error)
            self._handle = loop.call_at(next_s, self._begin)
        else:
            self._handle = loop.call_soon(self._go_on, shares, next_s)
