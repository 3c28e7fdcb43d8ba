"""How late the event loop is, how long turns take, and how long the garbage collector stops it.

``server`` runs one while management is on. A timer that comes late says how long everything else
had to wait; the turn reports its own time, and ``gc`` calls back around each collection.

Invariant: after ``stop`` nothing refers to it any more.
"""

from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import Mapping
from typing import Final

from hareline.statistics.timings import Timings
from hareline.turn import Turn

INTERVAL_S: Final = 0.5


class LoopWatch:
    """``lag``: how late its timer was; ``turns``: each turn; ``collections``: each of the GC."""

    def __init__(self, turn: Turn) -> None:
        self._turn = turn
        self.lag = Timings()
        self.turns = Timings()
        self.collections = Timings()
        self._collected_from_s = 0.0
        self._due_s = 0.0
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Measure from now on."""
        self._turn.watch = self.turns.add
        gc.callbacks.append(self._on_collection)
        self._arm()

    def stop(self) -> None:
        """Measure no more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
            self._turn.watch = None
            gc.callbacks.remove(self._on_collection)

    def _arm(self) -> None:
        self._due_s = time.monotonic() + INTERVAL_S
        self._timer = asyncio.get_running_loop().call_later(INTERVAL_S, self._tick)

    def _tick(self) -> None:
        self.lag.add(max(0.0, time.monotonic() - self._due_s))
        self._arm()

    def _on_collection(self, phase: str, info: Mapping[str, int]) -> None:
        if phase == "start":
            self._collected_from_s = time.perf_counter()
        elif self._collected_from_s:
            self.collections.add(time.perf_counter() - self._collected_from_s)
            self._collected_from_s = 0.0
