"""The garbage collector, kept off the message path.

Messages and entries are freed by reference counts; they are in no cycles. Yet each is an object the
collector would look at, and a full collection over a million of them stops the broker for a second.
So automatic collection is off, what exists after start is frozen, and cycles (ended connections,
exceptions) are collected from a timer. When that would take long, because a queue is deep, what
exists is frozen too: reference counts still free it, and only a cycle that is frozen while it is
alive stays for good, which is why a connection takes its own cycles apart when it ends.
"""

from __future__ import annotations

import asyncio
import gc
import time
from typing import Final

INTERVAL_S: Final = 10.0
# A collection of this many young objects takes about 10 ms.
YOUNG_OBJECTS_MAX: Final = 200_000
PAUSE_MAX_S: Final = 0.02


class IdleCollector:
    """Takes the collector over between ``start`` and ``stop``."""

    def __init__(self) -> None:
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        gc.collect()
        gc.freeze()
        gc.disable()
        self._arm()

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        gc.unfreeze()
        gc.enable()

    def _arm(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(INTERVAL_S, self._collect)

    def _collect(self) -> None:
        if gc.get_count()[0] > YOUNG_OBJECTS_MAX:
            gc.freeze()
        else:
            started = time.perf_counter()
            gc.collect()
            if time.perf_counter() - started > PAUSE_MAX_S:
                gc.freeze()
        self._arm()
