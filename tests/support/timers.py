"""Timers that ring when a test moves the clock; they stand for ``hareline.net.timers.LoopTimers``.

``queue_environment`` is what a queue needs beside them that stands by itself.
"""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop, heappush
from itertools import count
from typing import Any

from hareline.clock import ManualClock
from hareline.queues.core.environment import QueueEnvironment
from hareline.storage.memory import MemoryStore


class ManualTimer:
    """One call to come; ``is_pending`` until it was made or cancelled."""

    def __init__(self, callback: Callable[[], None]) -> None:
        self.callback = callback
        self.is_pending = True

    def cancel(self) -> None:
        self.is_pending = False


class ManualTimers:
    """Everything rings in the order of its time, then in the order in which it was set.

    ``clock`` may also be moved by itself, or its wall time set, as somebody's hand does; timers go
    by its monotonic time alone. ``set_count``: how many were ever set. ``on_rung`` is called after
    each call, as an event loop comes round to what a call has asked for.
    """

    def __init__(
        self, clock: ManualClock | None = None, on_rung: Callable[[], object] | None = None
    ) -> None:
        self.clock = clock or ManualClock()
        self._on_rung = on_rung
        self._numbers = count()
        self._waiting: list[tuple[int, int, ManualTimer]] = []
        self.set_count = 0

    def call_later(self, delay_s: float, callback: Callable[[], None]) -> ManualTimer:
        assert delay_s >= 0, delay_s
        timer = ManualTimer(callback)
        due_ms = round((self.clock.monotonic_s + delay_s) * 1000)
        heappush(self._waiting, (due_ms, next(self._numbers), timer))
        self.set_count += 1
        return timer

    def advance(self, milliseconds: int) -> None:
        """Let time pass, and make the calls that are due on the way, each at its own instant."""
        end_ms = self._now_ms + milliseconds
        while self._waiting and self._waiting[0][0] <= end_ms:
            due_ms, _, timer = heappop(self._waiting)
            if timer.is_pending:
                timer.is_pending = False
                self.clock.advance(max(0, due_ms - self._now_ms))
                timer.callback()
                if self._on_rung is not None:
                    self._on_rung()
        self.clock.advance(end_ms - self._now_ms)

    @property
    def pending(self) -> list[ManualTimer]:
        """The timers that are still to ring, the next one first."""
        return [timer for _, _, timer in sorted(self._waiting) if timer.is_pending]

    @property
    def _now_ms(self) -> int:
        return round(self.clock.monotonic_s * 1000)


def queue_environment(timers: ManualTimers, **others: Any) -> QueueEnvironment:
    """One in which nothing is routed, kept or reported, but for what ``others`` say."""
    parts: dict[str, Any] = {
        "report": lambda *_, **__: None,
        "route": lambda *_: ((), ()),
        "on_admission_changed": lambda: None,
        "vhost_name": "/",
        "store": MemoryStore(),
    }
    return QueueEnvironment(clock=timers.clock, timers=timers, **(parts | others))
