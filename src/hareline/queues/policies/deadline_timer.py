"""One timer for something that has a next instant; used by ``expiry``, ``hold`` and ``retention``.

It fires at the instant, and also whenever ``LOOK_AGAIN_MS`` have passed, for two reasons: instants
are wall time, so a wall clock that was set forward is noticed; and what keeps entries until then
can let go of those that are settled by now. So what it calls looks whether anything is due, and
sets the timer again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from hareline.clock import Timer
from hareline.queues.core.environment import QueueEnvironment

LOOK_AGAIN_MS: Final = 10_000
NEVER: Final = 1 << 63  # later than any instant


class DeadlineTimer:
    """``at_ms``: when it fires at the latest, in epoch milliseconds; NEVER while it is not set."""

    __slots__ = ("_call_back", "_clock", "_timer", "_timers", "at_ms")

    def __init__(self, environment: QueueEnvironment, call_back: Callable[[], None]) -> None:
        self._clock = environment.clock
        self._timers = environment.timers
        self._call_back: Callable[[], None] | None = call_back
        self._timer: Timer | None = None
        self.at_ms = NEVER

    def set(self, at_ms: int) -> None:
        """Fire then, and not when it was to fire before; at once for an instant that has passed."""
        self.cancel()
        if self._call_back is None:
            return
        now_ms = self._clock.now_ms
        delay_ms = min(max(at_ms - now_ms, 0), LOOK_AGAIN_MS)
        self.at_ms = now_ms + delay_ms
        self._timer = self._timers.call_later(delay_ms / 1000, self._on_time)

    def cancel(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
            self.at_ms = NEVER

    def stop(self) -> None:
        """Never fire again, and let go of what it called, so that this is freed at once."""
        self.cancel()
        self._call_back = None

    def _on_time(self) -> None:
        self._timer = None
        self.at_ms = NEVER
        if self._call_back is not None:
            self._call_back()
