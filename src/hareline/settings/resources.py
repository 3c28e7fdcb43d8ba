"""Options of memory and disk: what is kept, where, and when publishers are blocked."""

from __future__ import annotations

from typing import Final

from hareline.settings.section import Section, option
from hareline.settings.values import (
    CorruptionPolicy,
    DiskWatermark,
    JournalSync,
    Octets,
    StorageKind,
    Watermark,
)

SEGMENT_MIN_BYTES: Final = 1 << 20
SEGMENT_MAX_BYTES: Final = 1 << 30
DISK_SHARE: Final = 0.02  # what "auto" means for the disk, and its upper bound
DISK_AT_MOST_BYTES: Final = 1 << 30


class Memory(Section):
    """Thresholds at which publishers are blocked because memory runs short."""

    watermark: Watermark = option(
        0.6,
        "Above it, connections that publish are blocked. Up to 1 it is a share of the memory this "
        "process may use (the limit of the cgroup or of `ulimit -v`, if there is one); otherwise "
        'an amount, as a number of bytes or with a unit: "4GiB".',
        reload="live",
    )
    check_interval_s: float = option(
        1.0, "How often memory use is looked at.", reload="live", gt=0, le=60
    )
    spool_share: float = option(
        0.7,
        "Above this share of the watermark the contents of messages that are not persistent leave "
        "memory for the disk, and come back when they are delivered. 1 means never.",
        reload="live",
        gt=0,
        le=1,
    )

    def watermark_bytes(self, total_bytes: int) -> int:
        """The watermark in bytes, where ``total_bytes`` is what this process may use at most."""
        if isinstance(self.watermark, float):
            return int(self.watermark * total_bytes)
        return self.watermark


class Storage(Section):
    """Storage of what is declared durable and what is published persistent."""

    kind: StorageKind = option(
        "journal",
        "`journal`: on disk, below data_dir. `memory`: nothing is kept, every queue is gone with "
        "the process; for tests.",
    )


class Journal(Section):
    """Journal of persistent messages: its place, and when they count as safe."""

    sync: JournalSync = option(
        "always",
        "When a confirm is sent. `always`: what it confirms is on the disk. `interval`: it is with "
        "the system, and on the disk within sync_interval_ms; a crash of the machine, but not of "
        "the broker, may lose that much. `never`: the system decides when it writes.",
    )
    sync_interval_ms: int = option(
        1000, "How often the disk is synced where `sync` is `interval`.", ge=1, le=60_000
    )
    segment_bytes: Octets = option(
        67_108_864,
        "Size of the journal's files; each is allocated as a whole.",
        ge=SEGMENT_MIN_BYTES,
        le=SEGMENT_MAX_BYTES,
    )
    on_corruption: CorruptionPolicy = option(
        "fail",
        "When the journal is found damaged, other than by a write that a crash cut off. `fail`: "
        "the broker says what is damaged and does not start. `skip`: it leaves out what is damaged "
        "and goes on behind it. `truncate`: it drops everything from there on.",
    )
    retention_age_s: int = option(
        0,
        "How long journal files are kept that no queue needs any more, so that messages can be "
        "replayed from them; 0 means no limit. Where retention_bytes is 0 too, none is kept.",
        ge=0,
    )
    retention_bytes: Octets = option(
        0,
        "How much of the disk such files may take, the oldest go first; 0 means no limit. Where "
        "retention_age_s is 0 too, none is kept.",
        ge=0,
    )


class Disk(Section):
    """Thresholds at which publishers are blocked because the disk of data_dir runs full."""

    free_watermark: DiskWatermark = option(
        "auto",
        "With less free space, connections that publish are blocked. Up to 1 it is a share of the "
        "disk, otherwise an amount, as a number of bytes or with a unit. `auto`: 2 % of the disk, "
        "but not more than 1 GiB.",
        reload="live",
    )
    check_interval_s: float = option(
        1.0, "How often free space is looked at.", reload="live", gt=0, le=60
    )

    def watermark_bytes(self, total_bytes: int) -> int:
        """The watermark in bytes, where ``total_bytes`` is the size of the disk."""
        if self.free_watermark == "auto":
            return min(int(DISK_SHARE * total_bytes), DISK_AT_MOST_BYTES)
        if isinstance(self.free_watermark, float):
            return int(self.free_watermark * total_bytes)
        return self.free_watermark
