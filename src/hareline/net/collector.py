"""The garbage collector, kept off the message path.

Messages and entries are freed by reference counts; they are in no cycles. Yet the collector would
look at each of them, and a full collection over a million objects stops the broker for a second. So
automatic collection is off, what exists after the start is frozen, and cycles (ended connections
and channels) are collected from a timer while queues are shallow. While queues are deep, cycles
wait. ``daemon`` starts and stops it.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
from collections.abc import Callable, Iterator
from typing import Final

INTERVAL_S: Final = 10.0
# A collection over the objects of this many entries takes about 10 ms.
SHALLOW_ENTRIES_MAX: Final = 50_000


@contextlib.contextmanager
def collection_off() -> Iterator[None]:
    """No automatic collection while millions of objects are made and none is garbage (recovery)."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


class IdleCollector:
    """Runs the collector from a timer between ``start`` and ``stop``.

    ``count_entries`` gives the number of entries in all queues.
    """

    def __init__(self, count_entries: Callable[[], int]) -> None:
        self._count_entries = count_entries
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        gc.collect()
        gc.freeze()
        gc.disable()
        self._arm()

    def stop(self) -> None:
        """The process ends: keep the collector from millions of entries that end with it anyway."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        gc.freeze()

    def _arm(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(INTERVAL_S, self._collect)

    def _collect(self) -> None:
        if self._count_entries() <= SHALLOW_ENTRIES_MAX:
            gc.collect()
        self._arm()
