"""Work that is too much for one turn, done in shares of time by many turns.

``Shares`` runs jobs, ``Later`` hands over items one by one. Both are run by the turn, before the
store is handed what has gathered. ``Loss`` counts and reports what there was no room for.

Invariant: a job is run until it is done, whatever becomes of the connection that it is for. Jobs
that a turn has no time for come first in the next one. An item is handed over, or counted as lost.
"""

from __future__ import annotations

import math
from abc import ABCMeta, abstractmethod
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Final, Generic, TypeVar

from hareline.clock import Clock, Timers
from hareline.compiled import mypyc_attr
from hareline.turn import Dispatching, Turn

#: Of a turn, for all jobs together: what they add is then dispatched and made records of, which
#: takes as long again or twice, so others wait some 15 ms.
SHARE_S: Final = 0.004
ITEMS_PER_LOOK: Final = 16  # at the clock; an item takes some 10 us
ITEMS_MAX: Final = 50_000
REPORT_S: Final = 1.0  # after the first loss, and then as often

Item = TypeVar("Item")


def _do_nothing() -> None:
    """Nothing depends on when the job is done."""


@mypyc_attr(allow_interpreted_subclasses=True)
class Job(metaclass=ABCMeta):
    """Something with many steps of some microseconds each."""

    __slots__ = ()

    @abstractmethod
    def run(self, until_s: float) -> bool:
        """Go on until ``clock.running_s`` says so; True when all is done."""

    def waits(self, go_on: Callable[[], None]) -> bool:
        """True if it cannot go on now; then ``go_on`` is called once it can."""
        return False


class Shares(Dispatching):
    """The jobs of one broker, each with its share of the turn."""

    __slots__ = ("_clock", "_is_marked", "_jobs", "_turn", "_waiting")

    def __init__(self, turn: Turn, clock: Clock) -> None:
        self._turn = turn
        self._clock = clock
        self._is_marked = False
        self._jobs: deque[tuple[Job, Callable[[], None]]] = deque()
        self._waiting: dict[Job, Callable[[], None]] = {}

    def start(self, job: Job, on_done: Callable[[], None] = _do_nothing) -> bool:
        """Run the first share; True if that was all, else ``on_done`` is called after the last."""
        if job.run(self._clock.running_s() + SHARE_S):
            return True
        self._put_off(job, on_done)
        return False

    def add(self, job: Job) -> None:
        """Run it in later turns."""
        self._put_off(job, _do_nothing)

    def dispatch(self) -> bool:
        """The turn's call; never says that it is behind, which would make publishers pause."""
        self._is_marked = False
        clock, jobs = self._clock, self._jobs
        clock.refresh()
        count = len(jobs)
        end_s = clock.running_s() + SHARE_S
        try:
            for _ in range(count):
                job, on_done = jobs.popleft()
                if job.run(clock.running_s() + SHARE_S / count):
                    on_done()
                else:
                    self._put_off(job, on_done)
                if clock.running_s() >= end_s:  # each of thousands takes a step at least
                    break
        finally:  # a bug in one job is no reason to forget the others
            self._mark()
        return False

    def finish(self) -> None:
        """Run all jobs to their end, now: the broker stops."""
        jobs = [*self._jobs, *self._waiting.items()]
        self._jobs.clear()
        self._waiting.clear()
        for job, on_done in jobs:
            while not job.run(math.inf):
                continue
            on_done()

    def _put_off(self, job: Job, on_done: Callable[[], None]) -> None:
        if job.waits(partial(self._go_on, job)):
            self._waiting[job] = on_done
            return
        self._jobs.append((job, on_done))
        self._mark()

    def _mark(self) -> None:
        if self._jobs and not self._is_marked:
            self._is_marked = True
            self._turn.mark_queue(self)

    def _go_on(self, job: Job) -> None:
        on_done = self._waiting.pop(job, None)
        if on_done is not None:  # else it was finished meanwhile
            self._put_off(job, on_done)


class Loss:
    """Count of lost items. ``report`` gets those since its last call, and the last reason."""

    __slots__ = ("_is_report_due", "_reason", "_report", "_timers", "_unreported", "count")

    def __init__(self, timers: Timers, report: Callable[[int, str], None]) -> None:
        self._timers = timers
        self._report = report
        self._is_report_due = False
        self._reason = ""
        self._unreported = 0
        self.count = 0

    def add(self, reason: str) -> None:
        """Count one, which is reported within ``REPORT_S``."""
        self.count += 1
        self._unreported += 1
        self._reason = reason
        if not self._is_report_due:
            self._is_report_due = True
            self._timers.call_later(REPORT_S, self._tell)

    def _tell(self) -> None:
        self._is_report_due = False
        count, self._unreported = self._unreported, 0
        self._report(count, self._reason)


class Later(Dispatching, Generic[Item]):
    """Items that ``handle`` gets one by one, in the order in which they came.

    ``slows_publishers``: while some wait, the turn is behind, and publishers are read more slowly.
    """

    __slots__ = ("_handle", "_is_marked", "_slows_publishers", "_turn", "waiting")

    def __init__(
        self, turn: Turn, handle: Callable[[Item], None], *, slows_publishers: bool
    ) -> None:
        self._turn = turn
        self._handle = handle
        self._slows_publishers = slows_publishers
        self._is_marked = False
        self.waiting: deque[Item] = deque()

    def add(self, item: Item) -> None:
        """Hand it over in a later turn, or at the end of this one."""
        self.waiting.append(item)
        if not self._is_marked:
            self._is_marked = True
            self._turn.mark_queue(self)

    def dispatch(self) -> bool:
        """Hand over what a share of the turn has time for; True if publishers have to wait."""
        waiting, now = self.waiting, self._turn.now
        end_s = now() + SHARE_S
        is_left = False  # to the turn, which makes publishers wait and calls again
        try:
            while waiting:
                for _ in range(min(ITEMS_PER_LOOK, len(waiting))):
                    self._handle(waiting.popleft())
                if now() >= end_s:
                    break
            is_left = bool(waiting) and self._slows_publishers
        finally:  # a bug with one item is no reason to forget the others
            self._is_marked = bool(waiting)
            if self._is_marked and not is_left:
                self._turn.mark_queue(self)
        return is_left
