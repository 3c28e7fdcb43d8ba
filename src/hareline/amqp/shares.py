"""Work that is too much for one turn, done in shares of time by many turns.

``Shares`` is run by the turn, before the store is handed what has gathered. A job that has to wait
for the store does not stand in the turn's way meanwhile.

Invariant: a job is run until it is done, whatever becomes of the connection that it is for. Jobs
that a turn has no time for come first in the next one.
"""

from __future__ import annotations

import math
from abc import ABCMeta, abstractmethod
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Final

from hareline.clock import Clock
from hareline.compiled import mypyc_attr
from hareline.turn import Dispatching, Turn

#: Of a turn, for all jobs together: what they add is then dispatched and made records of, which
#: takes as long again or twice, so others wait some 15 ms.
SHARE_S: Final = 0.004


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
        """Whether it cannot go on now; then ``go_on`` is called once it can."""
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
