"""``hareline.clock.Timers`` on an event loop: what the queues' timers run on in the server."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from hareline.clock import Clock


class LoopTimers:
    """``clock`` is read anew before each callback, which thus sees that its time has come."""

    __slots__ = ("_clock", "_loop")

    def __init__(self, loop: asyncio.AbstractEventLoop, clock: Clock) -> None:
        self._loop = loop
        self._clock = clock

    def call_later(self, delay_s: float, callback: Callable[[], None]) -> asyncio.TimerHandle:
        return self._loop.call_later(delay_s, self._run, callback)

    def _run(self, callback: Callable[[], None]) -> None:
        self._clock.refresh()
        callback()
