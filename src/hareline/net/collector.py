"""The garbage collector, kept off the message path.

Reference counts free messages, and a full collection over a million objects takes a second. So
automatic collection is off, and a timer collects: new objects while queues are shallow, old ones
rarely, at most ``OBJECTS_MAX`` at once; what would take it too long is frozen.
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
#: How often there is a look at how much is new. So much of it is looked at then, in some 20 ms.
LOOK_S: Final = 0.5
YOUNG_OBJECTS_MAX: Final = 100_000
#: More is frozen, new or old; to look at this many takes some 100 ms.
OBJECTS_MAX: Final = 500_000
OBJECTS_PER_S: Final = 5_000_000
#: Less than this in an interval is heartbeats, of some ten thousand connections.
IDLE_OCTETS_MAX: Final = 100_000
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
        self._looked_s = 0.0  # of the interval that are over
        self._young = 0  # objects that the next look at all that is new has
        self._old = 0  # objects that the next full collection has, about
        self._full_s = 0.0  # when the last full collection was

    def start(self) -> None:
        """Collect, freeze what is there, and collect from a timer from now on."""
        gc.collect()
        gc.freeze()
        self._full_s = monotonic()
        gc.disable()
        self._arm()

    def stop(self) -> None:
        """The process ends: keep the collector from millions of entries that end with it anyway."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        gc.freeze()

    def _arm(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(min(LOOK_S, INTERVAL_S), self._look)

    def _look(self) -> None:
        self._looked_s += LOOK_S
        if self._looked_s >= INTERVAL_S:
            self._looked_s = 0.0
            self._collect()
        elif self._young + gc.get_count()[0] > YOUNG_OBJECTS_MAX and self._is_shallow:
            self._collect_new(1)
        self._arm()

    @property
    def _is_shallow(self) -> bool:
        return self._count_entries() <= SHALLOW_ENTRIES_MAX

    def _collect(self) -> None:
        octets = self._count_octets()
        is_idle = abs(octets - self._octets) <= IDLE_OCTETS_MAX
        self._octets = octets
        if not self._is_shallow:
            return
        self._turns += 1
        self._collect_new(0 if self._turns % YOUNG_TURNS else 1)
        if monotonic() - self._full_s >= (FULL_IDLE_S if is_idle else FULL_AFTER_S):
            self._collect_all()

    def _collect_new(self, generation: int) -> None:
        """Look at what is new: since the last look (0), or all that is not old yet (1)."""
        young = self._young + gc.get_count()[0]
        self._young = 0
        if young > OBJECTS_MAX:
            self._freeze()
        elif generation or young > YOUNG_OBJECTS_MAX:
            gc.collect(1)
            self._old += young
        else:
            gc.collect(0)
            self._young = young

    def _collect_all(self) -> None:
        """Look at everything, unless that is too much: then it is not looked at any more."""
        self._full_s = started_s = monotonic()
        if self._old + self._young > OBJECTS_MAX:
            self._freeze()
            return
        gc.collect()
        self._young = 0
        self._old = int((monotonic() - started_s) * OBJECTS_PER_S)

    def _freeze(self) -> None:
        gc.freeze()
        self._old = self._young = 0
