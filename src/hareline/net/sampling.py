"""The numbers of a running broker: its sampler, what times the event loop, and what runs both.

``server`` starts and stops a ``Statistics`` while management is on. A tick of the sampler is taken
a share at a time; between two shares the event loop does everything else that is due.

Invariant: at most one tick is under way; one that takes longer than its interval delays the next.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path

from hareline import events
from hareline.amqp.context import Context
from hareline.counts import EndedObjects
from hareline.events import Report
from hareline.net.loop_watch import LoopWatch
from hareline.net.node import read_node
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
