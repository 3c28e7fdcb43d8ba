"""How much memory this process uses and may use, and the alarm when it is too much.

``server`` starts the watch. Linux tells both through /proc and the cgroup files; elsewhere only the
peak of use is known, which errs on the side of blocking publishers.
"""

from __future__ import annotations

import asyncio
import os
import resource
import sys
from pathlib import Path
from typing import Final

from hareline import events
from hareline.amqp.alarms import Alarms
from hareline.amqp.context import Report
from hareline.net.allocator import release_freed_memory

_CGROUP_LIMITS: Final = (
    Path("/sys/fs/cgroup/memory.max"),  # version 2
    Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"),  # version 1
)
_STATM: Final = Path("/proc/self/statm")
# Below this share of the watermark an alarm is cleared, so that it does not flutter.
CLEAR_SHARE: Final = 0.95


def used_bytes() -> int:
    """Resident memory of this process."""
    try:
        pages = int(_STATM.read_text().split()[1])
    except OSError:
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return peak if sys.platform == "darwin" else peak * 1024
    return pages * os.sysconf("SC_PAGE_SIZE")


def available_bytes(limit_files: tuple[Path, ...] = _CGROUP_LIMITS) -> int:
    """What this process may use at most: the machine's memory, or its cgroup's limit if lower."""
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    for file in limit_files:
        try:
            text = file.read_text().strip()
        except OSError:
            continue
        if text.isdigit():  # version 2 says "max" for no limit, version 1 a huge number
            return min(total, int(text))
    return total


class MemoryWatch:
    """Sets the memory alarm above ``watermark_bytes`` and clears it below 95 % of that."""

    def __init__(self, alarms: Alarms, report: Report, watermark_bytes: int, interval_s: float):
        self._alarms = alarms
        self._report = report
        self.watermark_bytes = watermark_bytes
        self.interval_s = interval_s
        self._is_alarmed = False
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Look now, and from now on."""
        self._tick()

    def _arm(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(self.interval_s, self._tick)

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _tick(self) -> None:
        used = used_bytes()
        if used > self.watermark_bytes * CLEAR_SHARE:
            release_freed_memory()
            used = used_bytes()
        self.check(used)
        self._arm()

    def check(self, used: int) -> None:
        """Compare ``used`` bytes with the watermark."""
        if used > self.watermark_bytes and not self._is_alarmed:
            self._is_alarmed = True
            self._report(
                events.MEMORY_ALARM_SET, used_bytes=used, watermark_bytes=self.watermark_bytes
            )
            self._alarms.set("memory")
        elif used < self.watermark_bytes * CLEAR_SHARE and self._is_alarmed:
            self._is_alarmed = False
            self._report(
                events.MEMORY_ALARM_CLEARED, used_bytes=used, watermark_bytes=self.watermark_bytes
            )
            self._alarms.clear("memory")
