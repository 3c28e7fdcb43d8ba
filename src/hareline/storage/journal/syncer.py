"""Runs the journal's work on the disk, one piece after the other, in one thread.

``writing.durable`` submits work from the event loop and goes on; the thread runs it and hands the
result back to the loop. ``InlineSyncer`` is for tests, which decide by hand when the disk has done
something. This is the only thread of the storage.

Invariant: of what was submitted exactly one ``Work`` runs at a time, in the order in which they are
due; ``finished`` runs on the loop's side only, once, and in the order of the runs.
"""

from __future__ import annotations

import math
import threading
import time
import traceback
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from heapq import heappop, heappush


class Work(ABC):
    """One piece of work on the disk."""

    __slots__ = ()

    @abstractmethod
    def run(self) -> None:
        """Do it, in the thread. Errors of the disk are kept for ``finished``; a raise is a bug."""

    @abstractmethod
    def finished(self) -> None:
        """Report the result, on the loop's side. May submit more."""


class Pause(Work):
    """No work: submitted with a delay, it calls back when that has passed."""

    __slots__ = ("_on_over", "is_over")

    def __init__(self, on_over: Callable[[], None]) -> None:
        self._on_over = on_over
        self.is_over = False

    def run(self) -> None:
        self.is_over = True

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
    """``hand_back``: runs a function on the loop soon, from any thread (call_soon_threadsafe)."""

    __slots__ = (
        "_changed",
        "_count",
        "_done",
        "_hand_back",
        "_has_ended",
        "_is_draining",
        "_is_running",
        "_submitted",
        "_thread",
    )

    def __init__(self, hand_back: Callable[[Callable[[], None]], object]) -> None:
        super().__init__()
        self._hand_back = hand_back
        self._submitted: list[tuple[float, int, Work]] = []  # a heap by the time each is due
        self._done: deque[tuple[Work, str]] = deque()  # with what was raised
        self._count = 0
        self._is_running = False
        self._is_draining = False
        self._has_ended = False
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=self._serve, name="journal", daemon=True)
        self._thread.start()

    def submit(self, work: Work, delay_s: float = 0.0) -> None:
        due_s = time.monotonic() + delay_s
        with self._changed:
            assert not self._has_ended, "work for a syncer that is closed"
            self._count += 1
            heappush(self._submitted, (due_s, self._count, work))
            self._changed.notify_all()

    def drain(self, until_s: float = math.inf) -> bool:
        with self._changed:
            self._is_draining = True
            self._changed.notify_all()
        while True:
            with self._changed:
                while self._submitted or self._is_running:
                    left_s = until_s - time.monotonic()
                    if left_s <= 0.0:
                        return False
                    self._changed.wait(None if left_s == math.inf else left_s)
                if not self._done:
                    self._is_draining = False
                    return True
            self._tell()  # may submit more

    def close(self, until_s: float = math.inf) -> bool:
        if not self.drain(until_s):
            return False
        with self._changed:
            self._has_ended = True
            self._changed.notify_all()
        self._thread.join()
        return True

    def _tell(self) -> None:
        """On the loop's side: report what is done; nothing if ``drain`` has done so meanwhile."""
        done = self._done
        while done:
            work, bug = done.popleft()
            if bug:
                self.on_bug(bug)
            work.finished()

    # ----------------------------------------------------------------- in the thread

    def _serve(self) -> None:
        while (work := self._next()) is not None:
            bug = _run(work)
            with self._changed:
                self._done.append((work, bug))
                self._is_running = False
                is_waited_for = self._is_draining
                self._changed.notify_all()
            if not is_waited_for:
                with suppress(RuntimeError):  # the loop is closed: only ``drain`` reports now
                    self._hand_back(self._tell)

    def _next(self) -> Work | None:
        """Waits for what is due first; None when there is nothing more to do for good."""
        with self._changed:
            while True:
                submitted = self._submitted
                if not submitted:
                    if self._has_ended:
                        return None
                    self._changed.wait()
                    continue
                wait_s = 0.0 if self._is_draining else submitted[0][0] - time.monotonic()
                if wait_s <= 0.0:
                    self._is_running = True
                    return heappop(submitted)[2]
                self._changed.wait(wait_s)


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
