"""Wall and monotonic time, read once per turn; tests use a clock that they move by hand."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Protocol


class Timer(Protocol):
    def cancel(self) -> None:
        """Prevent the call; no effect if it has already happened."""


class Timers(Protocol):
    """Calls back later: on the server's event loop, or in tests when the clock is advanced."""

    def call_later(self, delay_s: float, callback: Callable[[], None]) -> Timer:
        """Refresh the clock and call ``callback`` once, ``delay_s`` seconds or slightly later."""


class Clock:
    """The time of the current turn.

    ``now_ms`` is wall time in epoch milliseconds (what TTLs, timestamps and x-death carry);
    ``monotonic_s`` is for intervals. Both stand still until ``refresh``, so that everything in one
    turn happens at one instant and messages of a turn share one int object; ``running_s`` does not.
    """

    __slots__ = ("monotonic_s", "now_ms")

    def __init__(self) -> None:
        self.now_ms = 0
        self.monotonic_s = 0.0
        self.refresh()

    def refresh(self) -> None:
        self.now_ms = int(time.time() * 1000)
        self.monotonic_s = time.monotonic()

    def running_s(self) -> float:
        """Monotonic time now, not at the start of the turn: to measure a share of work."""
        return time.monotonic()


class ManualClock(Clock):
    """A clock that only moves when told to; for tests.

    ``work_s``: what each reading of ``running_s`` adds to it, as if work took time.
    """

    __slots__ = ("_worked_s", "work_s")

    def __init__(self, now_ms: int = 1_700_000_000_000) -> None:
        super().__init__()
        self.now_ms = now_ms
        self.monotonic_s = 0.0
        self.work_s = 0.0
        self._worked_s = 0.0

    def refresh(self) -> None:
        """Time stands still between calls of ``advance``."""

    def running_s(self) -> float:
        self._worked_s += self.work_s
        return self.monotonic_s + self._worked_s

    def advance(self, milliseconds: int) -> None:
        self.now_ms += milliseconds
        self.monotonic_s += milliseconds / 1000
