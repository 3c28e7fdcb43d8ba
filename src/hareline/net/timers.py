"""``hareline.clock.Timers`` on an event loop: what the queues' timers run on in the server.

The end of a turn is called from here as well, so that both are stopped in one place: what a queue
does after the store is closed would never reach the disk.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from hareline.clock import Clock


class LoopTimers:
    """``clock`` is read again before a timer calls back, so the callback sees that it is time."""

    __slots__ = ("_clock", "_has_stopped", "_loop", "_rings")

    def __init__(self, loop: asyncio.AbstractEventLoop, clock: Clock) -> None:
        self._loop = loop
        self._clock = clock
        self._rings = True
        self._has_stopped = False

    def call_later(self, delay_s: float, callback: Callable[[], None]) -> asyncio.TimerHandle:
        return self._loop.call_later(delay_s, self._run, callback)

    def call_soon(self, callback: Callable[[], None]) -> None:
        """Call ``callback`` after what the loop has found to do by now; the clock is as it was."""
        self._loop.call_soon(self._run_soon, callback)

    def stop_timers(self) -> None:
        """Silence all timers, also those set later; ``call_soon`` goes on."""
        self._rings = False

    def stop(self) -> None:
        """Call nothing any more."""
        self._rings = False
        self._has_stopped = True

    def _run(self, callback: Callable[[], None]) -> None:
        if self._rings:
            self._clock.refresh()
            callback()

    def _run_soon(self, callback: Callable[[], None]) -> None:
        if not self._has_stopped:
            callback()
