"""Wall and monotonic time, read once per turn, and a token bucket, which goes by it.

Tests use a clock that they move by hand.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final, Protocol

# Who waits for tokens looks again after that time at the earliest: few timers serve high rates.
LEAST_WAIT_S: Final = 0.1


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


class TokenBucket:
    """Token bucket: ``rate`` tokens a second, above 0, capacity one second, but at least 1 token.

    A new one is full. It may be overdrawn, and then says how long to wait, so that what comes
    together waits in the order of coming.
    """

    __slots__ = ("_at_s", "_level", "rate")

    def __init__(self, rate: float, now_s: float) -> None:
        self.rate = rate
        self._level = self._size
        self._at_s = now_s

    @property
    def _size(self) -> float:
        return max(self.rate, 1.0)

    def take(self, count: float, now_s: float) -> float:
        """Take tokens, also those that are not there; returns in how many seconds they are."""
        self._fill(now_s)
        self._level -= count
        return -self._level / self.rate if self._level < 0 else 0.0

    def count(self, now_s: float) -> int:
        """Whole tokens that are there; a hundredth of one may be missing, as timers ring early."""
        self._fill(now_s)
        return max(0, int(self._level + 0.01))

    def wait_s(self, now_s: float) -> float:
        """Seconds after which to look again where there was no whole token."""
        self._fill(now_s)
        return max(LEAST_WAIT_S, (1 - self._level) / self.rate)

    def give_back(self, count: float) -> None:
        self._level = min(self._level + count, self._size)

    def is_full(self, now_s: float) -> bool:
        """True if nothing was taken for long enough: a new bucket would be no different."""
        self._fill(now_s)
        return self._level >= self._size

    def set_rate(self, rate: float, now_s: float) -> None:
        """Another rate from now on; what was taken stays taken."""
        self._fill(now_s)
        self.rate = rate
        self._level = min(self._level, self._size)

    def _fill(self, now_s: float) -> None:
        if now_s > self._at_s:
            self._level = min(self._level + (now_s - self._at_s) * self.rate, self._size)
            self._at_s = now_s
