"""The garbage collector, kept off the message path.

Messages and entries are freed by reference counts; they are in no cycles. Yet the collector would
look at each of them, and a full collection over a million objects stops the broker for a second. So
automatic collection is off, what exists after the start is frozen, and a timer collects while
queues are shallow. While queues are deep, cycles wait. ``daemon`` starts and stops it.

What is new is looked at each time: requests over HTTP leave cycles. What is old is hundreds of
objects for each queue and connection, which are freed by reference counts too when these end. So
all of it is looked at only now and then while no messages move, or once in an hour.

Invariant: full collections take at most ``FULL_SHARE`` of the time.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
from collections.abc import Callable, Iterator
from time import monotonic
from typing import Final

INTERVAL_S: Final = 10.0
# A collection over the objects of this many entries takes about 10 ms.
SHALLOW_ENTRIES_MAX: Final = 50_000
#: What has survived so many collections of what is new is looked at once more, and then is old.
YOUNG_TURNS: Final = 6
#: Less than this in an interval is heartbeats, of some ten thousand connections.
IDLE_OCTETS_MAX: Final = 100_000
FULL_SHARE: Final = 0.005
#: All is looked at after so long, if no messages move; if they do.
FULL_IDLE_S: Final = 300.0
FULL_AFTER_S: Final = 3_600.0


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

    ``count_entries``: entries in all queues. ``count_octets``: read and written by the connections
    that are open.
    """

    def __init__(self, count_entries: Callable[[], int], count_octets: Callable[[], int]) -> None:
        self._count_entries = count_entries
        self._count_octets = count_octets
        self._timer: asyncio.TimerHandle | None = None
        self._turns = 0
        self._octets = 0
        self._full_s = 0.0  # when the last full collection was, and how long it took
        self._full_took_s = 0.0

    def start(self) -> None:
        """Collect, freeze what is there, and collect from a timer from now on."""
        self._collect_all()
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
        octets = self._count_octets()
        is_idle = abs(octets - self._octets) <= IDLE_OCTETS_MAX
        self._octets = octets
        if self._count_entries() <= SHALLOW_ENTRIES_MAX:
            self._turns += 1
            if self._is_full_due(is_idle):
                self._collect_all()
            else:
                gc.collect(0 if self._turns % YOUNG_TURNS else 1)
        self._arm()

    def _is_full_due(self, is_idle: bool) -> bool:
        since_s = monotonic() - self._full_s
        if since_s * FULL_SHARE < self._full_took_s:
            return False
        return since_s >= (FULL_IDLE_S if is_idle else FULL_AFTER_S)

    def _collect_all(self) -> None:
        started_s = monotonic()
        gc.collect()
        self._full_s = monotonic()
        self._full_took_s = self._full_s - started_s
