"""Work on the disk, run one piece after the other in one thread; results come back on the loop.

The journal has one thread and the definitions have one, so that neither waits for the other.
``finished`` runs on the loop's side, once, in the order of the runs.
"""

from __future__ import annotations

import math
import threading
import time
import traceback
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import suppress
from heapq import heappop, heappush
from queue import Empty, SimpleQueue
from typing import Generic, TypeVar

T = TypeVar("T")


class Work(ABC):
    """One piece of work on the disk."""

    __slots__ = ()

    @abstractmethod
    def run(self) -> None:
        """Do it, in the thread. Errors of the disk are kept for ``finished``; a raise is a bug."""

    @abstractmethod
    def finished(self) -> None:
        """Report the result, on the loop's side. May submit more."""


def ignore(_: object) -> None:
    """Stands for a callback that was not given."""


class Task(Work, Generic[T]):
    """A function for the thread, whose result another one gets on the loop's side.

    After a bug in ``run`` there is no result, and ``on_done`` is not called.
    """

    __slots__ = ("_on_done", "_results", "_run")

    def __init__(self, run: Callable[[], T], on_done: Callable[[T], object] = ignore) -> None:
        self._run = run
        self._on_done = on_done
        self._results: list[T] = []

    def run(self) -> None:
        self._results = [self._run()]

    def finished(self) -> None:
        for result in self._results:
            self._on_done(result)


class Pause(Work):
    """No work: submitted with a delay, it calls back when that has passed."""

    __slots__ = ("_on_over",)

    def __init__(self, on_over: Callable[[], None]) -> None:
        self._on_over = on_over

    def run(self) -> None:
        """Do nothing in the thread."""

    def finished(self) -> None:
        self._on_over()


class Syncer(ABC):
    """``on_bug``: called on the loop's side with what a ``run`` raised, before its ``finished``."""

    __slots__ = ("on_bug",)

    def __init__(self) -> None:
        self.on_bug: Callable[[str], None] = _complain

    @abstractmethod
    def submit(self, work: Work, delay_s: float = 0.0) -> None:
        """Run it when what is due before it is done; with a delay, no earlier than that."""

    @abstractmethod
    def drain(self, until_s: float = math.inf) -> bool:
        """Wait until all work is done and ``finished``; delayed work is done at once.

        ``until_s``: on the monotonic clock. False if it has passed: the disk hangs, and this syncer
        must not be used any more.
        """

    @abstractmethod
    def close(self, until_s: float = math.inf) -> bool:
        """Drain and end; False as above, and then the thread is left alone."""


def _complain(bug: str) -> None:
    raise RuntimeError(bug)


def bug_text(what: str, error: Exception) -> str:
    """Return a text with the place where it was raised."""
    place = traceback.extract_tb(error.__traceback__)[-1]
    return f"{what}: {error!r} in {place.name}, line {place.lineno}"


def _run(work: Work) -> str:
    """Run it; returns what it raised, or "": an error must not end the thread unnoticed."""
    try:
        work.run()
    except Exception as error:
        return bug_text(type(work).__name__, error)
    return ""


class ThreadSyncer(Syncer):
    """``hand_back``: runs a function on the loop soon, from any thread (call_soon_threadsafe).

    Both ways lead through a queue that is written in C: a condition variable would be taken several
    times for each piece of work, in Python. ``_left``: pieces that were submitted and not reported.
    """

    __slots__ = (
        "_count",
        "_counting",
        "_done",
        "_hand_back",
        "_has_ended",
        "_is_draining",
        "_left",
        "_submitted",
        "_thread",
    )

    def __init__(
        self, hand_back: Callable[[Callable[[], None]], object], name: str = "journal"
    ) -> None:
        """``name``: of the thread."""
        super().__init__()
        self._hand_back = hand_back
        # when it is due, its number, and the work; None: look again at what is asked of the thread
        self._submitted: SimpleQueue[tuple[float, int, Work] | None] = SimpleQueue()
        self._done: SimpleQueue[tuple[Work, str]] = SimpleQueue()  # with what was raised
        # the collector may find a large body without references, and have it removed, in any thread
        self._counting = threading.RLock()
        self._count = 0
        self._left = 0
        self._is_draining = False
        self._has_ended = False
        self._thread = threading.Thread(target=self._serve, name=name, daemon=True)
        self._thread.start()

    def submit(self, work: Work, delay_s: float = 0.0) -> None:
        assert not self._has_ended, "work for a syncer that is closed"
        with self._counting:
            self._count = number = self._count + 1
            self._left += 1
        self._submitted.put((time.monotonic() + delay_s, number, work))

    def drain(self, until_s: float = math.inf) -> bool:
        self._is_draining = True
        self._submitted.put(None)
        while self._left:
            left_s = until_s - time.monotonic()
            try:
                work, bug = self._done.get(timeout=None if left_s == math.inf else max(left_s, 0.0))
            except Empty:
                return False
            self._report(work, bug)  # may submit more
        self._is_draining = False
        return True

    def close(self, until_s: float = math.inf) -> bool:
        if not self.drain(until_s):
            return False
        self._has_ended = True
        self._submitted.put(None)
        self._thread.join()
        return True

    def _tell(self) -> None:
        """On the loop's side: report what is done; nothing if ``drain`` has done so meanwhile."""
        while not self._done.empty():
            work, bug = self._done.get()
            self._report(work, bug)

    def _report(self, work: Work, bug: str) -> None:
        with self._counting:
            self._left -= 1
        if bug:
            self.on_bug(bug)
        work.finished()

    # ----------------------------------------------------------------- in the thread

    def _serve(self) -> None:
        waiting: list[tuple[float, int, Work]] = []  # a heap by the time each is due
        while (work := self._next(waiting)) is not None:
            self._done.put((work, _run(work)))
            del work  # which may be all that still refers to a body in a file
            if not self._is_draining:
                with suppress(RuntimeError):  # the loop is closed: only ``drain`` reports now
                    self._hand_back(self._tell)

    def _next(self, waiting: list[tuple[float, int, Work]]) -> Work | None:
        """Wait for what is due first; None when there is nothing more to do for good."""
        submitted = self._submitted
        while True:
            wait_s = None
            if waiting and submitted.empty():
                wait_s = 0.0 if self._is_draining else waiting[0][0] - time.monotonic()
                if wait_s <= 0.0:
                    return heappop(waiting)[2]
            try:
                each = submitted.get(timeout=wait_s)
            except Empty:
                continue
            if each is not None:
                heappush(waiting, each)
            elif self._has_ended and not waiting:
                return None


class InlineSyncer(Syncer):
    """For tests: what was submitted waits until ``step``, which does the next piece.

    ``is_automatic``: work without a delay is done when it is submitted.
    """

    __slots__ = ("_is_stepping", "is_automatic", "submitted")

    def __init__(self, *, is_automatic: bool = False) -> None:
        super().__init__()
        self.submitted: list[tuple[float, Work]] = []
        self.is_automatic = is_automatic
        self._is_stepping = False

    def submit(self, work: Work, delay_s: float = 0.0) -> None:
        self.submitted.append((delay_s, work))
        if not self.is_automatic or self._is_stepping:
            return
        self._is_stepping = True  # what ``finished`` submits takes its turn here
        try:
            while any(delay_s == 0.0 for delay_s, _ in self.submitted):
                self.step()
        finally:
            self._is_stepping = False

    def step(self) -> bool:
        """Do the next one without a delay, or if there is none the one with the least.

        False when nothing was submitted.
        """
        if not self.submitted:
            return False
        index = min(range(len(self.submitted)), key=lambda each: self.submitted[each][0])
        work = self.submitted.pop(index)[1]
        bug = _run(work)
        if bug:
            self.on_bug(bug)
        work.finished()
        return True

    def drain(self, until_s: float = math.inf) -> bool:
        while self.step():
            continue
        return True

    def close(self, until_s: float = math.inf) -> bool:
        return self.drain(until_s)
