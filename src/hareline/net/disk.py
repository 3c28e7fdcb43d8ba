"""Free space on the disk of the data directory, and the alarm when it is too little.

The alarm "disk" has two reasons: free space below the watermark, checked at intervals, and a store
that the system refuses room for its next segment. It is cleared when neither holds;
``Alarms.why`` names them, with the sizes that count.
"""

from __future__ import annotations

import asyncio
import os
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

from hareline import events
from hareline.amqp.alarms import Alarms
from hareline.events import Report
from hareline.octets import in_units

# Above this multiple of the watermark an alarm is cleared, so that it does not flutter.
CLEAR_MULTIPLE: Final = 1.05


class DiskSpace(NamedTuple):
    """Of a file system: what an ordinary user may still write, and its whole size."""

    free_bytes: int
    total_bytes: int


def disk_space(directory: Path) -> DiskSpace:
    """Raises OSError."""
    found = os.statvfs(directory)
    return DiskSpace(found.f_bavail * found.f_frsize, found.f_blocks * found.f_frsize)


class DiskWatch:
    """``watermark_bytes``, ``watermark`` and ``interval_s`` may be changed while it runs.

    ``watermark``: the option that the bytes come from, as it is set. ``segment_bytes``: what the
    store needs for its next file.
    """

    def __init__(
        self,
        alarms: Alarms,
        report: Report,
        directory: Path,
        watermark_bytes: int,
        interval_s: float,
        watermark: object = "",
        segment_bytes: int = 0,
    ) -> None:
        self._alarms = alarms
        self._report = report
        self._directory = directory
        self.watermark_bytes = watermark_bytes
        self.watermark = watermark
        self.interval_s = interval_s
        self._segment_bytes = segment_bytes
        self._is_low = False
        self._is_store_full = False
        self._is_alarmed = False
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Check now and at intervals. Raises OSError if the free space cannot be read."""
        self.check(disk_space(self._directory).free_bytes)
        self._arm()

    def _arm(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(self.interval_s, self._tick)

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _tick(self) -> None:
        # If the free space cannot be read, the store will say what is wrong with the directory.
        with suppress(OSError):
            self.check(disk_space(self._directory).free_bytes)
        self._arm()

    def check(self, free: int) -> None:
        """Compare ``free`` bytes with the watermark."""
        multiple = CLEAR_MULTIPLE if self._is_low else 1
        self._is_low = free < self.watermark_bytes * multiple
        self._renew(free)

    def on_store_full(self, is_full: bool) -> None:
        """The store has no room for its next segment, or has it again."""
        self._is_store_full = is_full
        free = 0
        with suppress(OSError):
            free = disk_space(self._directory).free_bytes
        self._renew(free)

    def _renew(self, free: int) -> None:
        is_short = self._is_low or self._is_store_full
        why = self._why(free)
        if is_short and not self._is_alarmed:
            self._report(
                events.DISK_ALARM_SET,
                reason=why,
                free_bytes=free,
                watermark_bytes=self.watermark_bytes,
            )
            self._alarms.set("disk")
        if is_short:
            self._alarms.why["disk"] = why
        elif self._is_alarmed:
            self._report(
                events.DISK_ALARM_CLEARED, free_bytes=free, watermark_bytes=self.watermark_bytes
            )
            self._alarms.clear("disk")
        self._is_alarmed = is_short

    def _why(self, free: int) -> str:
        """Reasons of the alarm, with the sizes that count.

        Of the watermark: itself while less is free, then the size above it that ends the alarm.
        """
        found = [f"{in_units(free)} are free on the disk"]
        if self._is_store_full:
            found.append(f"no room for the journal's next file of {in_units(self._segment_bytes)}")
        if self._is_low:
            is_below = free < self.watermark_bytes
            needed = self.watermark_bytes * (1 if is_below else CLEAR_MULTIPLE)
            found.append(f"{in_units(needed)} are needed (disk.free_watermark = {self.watermark})")
        return ", ".join(found)
