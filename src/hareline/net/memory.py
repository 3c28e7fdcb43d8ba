"""Memory that this process uses and may use, and the alarm when it is too much.

Linux tells both by /proc and the cgroup files; elsewhere only the peak of use is known, which errs
on the side of blocking publishers.
"""

from __future__ import annotations

import asyncio
import os
import resource
import sys
from collections.abc import Callable, Iterator
from pathlib import Path, PurePosixPath
from typing import Final

from hareline import events
from hareline.amqp.alarms import Alarms
from hareline.events import Report
from hareline.net.allocator import release_freed_memory

_CGROUP_ROOT: Final = Path("/sys/fs/cgroup")
_MEMBERSHIP: Final = Path("/proc/self/cgroup")
_STATM: Final = Path("/proc/self/statm")
# Below this share of the watermark an alarm is cleared, so that it does not flutter.
CLEAR_SHARE: Final = 0.95


def used_bytes() -> int:
    """Resident memory of this process in bytes."""
    try:
        pages = int(_STATM.read_text().split()[1])
    except OSError:
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return peak if sys.platform == "darwin" else peak * 1024
    return pages * os.sysconf("SC_PAGE_SIZE")


def available_bytes(membership_file: Path = _MEMBERSHIP, cgroup_root: Path = _CGROUP_ROOT) -> int:
    """Memory that this process may use: the machine's, or a lower limit of it.

    The process's own cgroup or any above it may have a limit, in version 2 (memory.max) or 1
    (memory.limit_in_bytes); inside a container the own one appears as the root. The limit of the
    process itself (``ulimit -v``) counts without what it has reserved and does not use.
    """
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    limits = [_limit_in(file) for file in _limit_files(membership_file, cgroup_root)]
    limits.append(_address_space_limit())
    return min([total, *(limit for limit in limits if limit is not None)])


def _address_space_limit() -> int | None:
    """Bytes that RLIMIT_AS leaves to be resident; None without a limit, or without /proc."""
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    if limit == resource.RLIM_INFINITY:
        return None
    try:
        size, resident = map(int, _STATM.read_text().split()[:2])
    except OSError:
        return None
    return max(0, limit - (size - resident) * os.sysconf("SC_PAGE_SIZE"))


def _limit_files(membership_file: Path, cgroup_root: Path) -> Iterator[Path]:
    """Every file that may hold a limit; lines are ``hierarchy:controllers:path`` (cgroups(7))."""
    yield cgroup_root / "memory.max"
    yield cgroup_root / "memory" / "memory.limit_in_bytes"
    try:
        lines = membership_file.read_text().splitlines()
    except OSError:
        return
    for line in lines:
        hierarchy, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if hierarchy == "0":
            root, name = cgroup_root, "memory.max"
        elif "memory" in controllers.split(","):
            root, name = cgroup_root / "memory", "memory.limit_in_bytes"
        else:
            continue
        directory = PurePosixPath(path.lstrip("/"))
        for parent in (directory, *directory.parents):
            yield root / parent / name


def _limit_in(file: Path) -> int | None:
    """The limit; None for no file or "max". Version 1 has a huge number for no limit."""
    try:
        text = file.read_text().strip()
    except OSError:
        return None
    return int(text) if text.isdigit() else None


class MemoryWatch:
    """Sets the memory alarm above ``watermark_bytes`` and clears it below 95 % of that.

    ``on_pressure`` is a lesser alarm, upon which contents leave memory: it is called with True when
    memory use passes ``spool_share`` of the watermark, and with False when it falls below 95 % of
    that. A share of 1 turns it off. The three values may be changed while the watch runs.

    ``on_critical`` is called likewise where memory use passes half of what is between the watermark
    and ``total_bytes``, all that this process may use: publishers are blocked by then, so something
    else takes it.
    """

    def __init__(
        self,
        alarms: Alarms,
        report: Report,
        watermark_bytes: int,
        interval_s: float,
        *,
        spool_share: float = 1.0,
        on_pressure: Callable[[bool], None] | None = None,
        total_bytes: int = 0,
        on_critical: Callable[[bool], None] | None = None,
    ) -> None:
        self._alarms = alarms
        self._report = report
        self.watermark_bytes = watermark_bytes
        self.interval_s = interval_s
        self.spool_share = spool_share
        self._on_pressure = on_pressure
        self._total_bytes = total_bytes
        self._on_critical = on_critical
        self._is_critical = False
        self._is_pressed = False
        self._is_alarmed = False
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Check now and at intervals."""
        self._tick()

    def _arm(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(self.interval_s, self._tick)

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _tick(self) -> None:
        used = used_bytes()
        if used > self.watermark_bytes * self.spool_share * CLEAR_SHARE:
            release_freed_memory()
            used = used_bytes()
        self.check(used)
        self._arm()

    def check(self, used: int) -> None:
        """Compare ``used`` bytes with the watermark and the share of it."""
        if self._on_pressure is not None:
            mark = self.watermark_bytes * self.spool_share
            is_high = used > (mark * CLEAR_SHARE if self._is_pressed else mark)
            is_pressed = is_high and self.spool_share < 1
            if is_pressed != self._is_pressed:
                self._is_pressed = is_pressed
                self._on_pressure(is_pressed)
        if self._on_critical is not None:
            self._check_critical(used, self._on_critical)
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

    @property
    def critical_bytes(self) -> int:
        """Memory use above which nothing new may be declared, and no client may come."""
        watermark = self.watermark_bytes
        return watermark + max(0, self._total_bytes - watermark) // 2

    def _check_critical(self, used: int, on_critical: Callable[[bool], None]) -> None:
        mark = self.critical_bytes
        is_critical = used > (mark * CLEAR_SHARE if self._is_critical else mark)
        if is_critical == self._is_critical:
            return
        self._is_critical = is_critical
        if is_critical:
            self._report(events.MEMORY_CRITICAL, used_bytes=used, critical_bytes=mark)
        else:
            self._report(events.MEMORY_NOT_CRITICAL, used_bytes=used, critical_bytes=mark)
        on_critical(is_critical)
