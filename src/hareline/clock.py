"""Wall and monotonic time, read once per turn; a test replaces it by a clock it moves by hand."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Protocol


class Timer(Protocol):
    def cancel(self) -> None:
        """Do not call back; no error where that has happened already."""


class Timers(Protocol):
    """Calls back later; the server's run on its event loop, a test's when it advances the clock."""

    def call_later(self, delay_s: float, callback: Callable[[], None]) -> Timer:
        """Refresh the clock and call ``callback`` once, in ``delay_s`` seconds or a bit later."""


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
        """Monotonic time of this very moment: how long a share of work has taken."""
        return time.monotonic()


class ManualClock(Clock):
    """A clock that only moves when told to; for tests.

    ``work_s``: what has passed of ``running_s`` at each look at it, as if work took time.
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
