"""Where brokers under test keep their data, and what the kernel says about a disk.

Used by ``brokers`` (the directory), ``machine`` (how long a sync takes) and the scenarios of
durable messages. A broker that syncs to memory would measure nothing, so the directory is never on
a file system that lives there.
"""

from __future__ import annotations

import contextlib
import os
import re
import tempfile
import time
from pathlib import Path
from typing import Final

from benchmarks.macro.percentile import percentile

MOUNTS: Final = Path("/proc/self/mounts")
IN_MEMORY: Final = frozenset({"tmpfs", "ramfs", "devtmpfs"})
SYNC_SAMPLES: Final = 50
SYNC_OCTETS: Final = 4096

_OCTAL: Final = re.compile(r"\\([0-7]{3})")  # how mounts writes blanks, see fstab(5)


def data_directory(fallback: Path, mounts: Path = MOUNTS) -> Path:
    """The directory for temporary ones: the usual place, or `fallback` where that is in memory."""
    usual = Path(tempfile.gettempdir())
    if file_system_of(usual, mounts) not in IN_MEMORY:
        return usual
    fallback.mkdir(parents=True, exist_ok=True)
    return fallback


def file_system_of(path: Path, mounts: Path = MOUNTS) -> str:
    """The type of the file system that holds a path; empty where the kernel does not tell."""
    place = path.resolve()
    found, depth = "", -1
    try:
        lines = mounts.read_text(encoding="utf-8", errors="surrogateescape").splitlines()
    except OSError:
        return ""
    for line in lines:
        _, point, kind, *_ = line.split(" ")
        mounted = Path(_OCTAL.sub(lambda code: chr(int(code[1], 8)), point))
        # of two at one place the later one is seen
        if place.is_relative_to(mounted) and len(mounted.parts) >= depth:
            found, depth = kind, len(mounted.parts)
    return found


def fdatasync_ms(directory: Path) -> float:
    """The median time in which 4 KiB in an allocated file are written and durable."""
    samples = []
    with tempfile.TemporaryFile(dir=directory) as file:
        number = file.fileno()
        os.posix_fallocate(number, 0, SYNC_SAMPLES * SYNC_OCTETS)
        os.fsync(number)
        for place in range(SYNC_SAMPLES):
            started = time.perf_counter()
            os.pwrite(number, b"x" * SYNC_OCTETS, place * SYNC_OCTETS)
            os.fdatasync(number)
            samples.append(time.perf_counter() - started)
    return percentile(sorted(samples), 0.5) * 1e3


def used_bytes(directory: Path) -> int:
    """What the files below a directory occupy, whatever their length says.

    Files may go while they are counted; those count nothing.
    """
    total = 0
    for file in directory.rglob("*"):
        with contextlib.suppress(FileNotFoundError):
            total += file.lstat().st_blocks * 512  # the unit of stat(2)
    return total


def free_bytes(directory: Path) -> int:
    """What an ordinary user may still write there."""
    facts = os.statvfs(directory)
    return facts.f_bavail * facts.f_frsize


def forget_cached(directory: Path) -> None:
    """Have the kernel drop what it holds of these files in memory, so that they are read again."""
    os.sync()  # only what is on disk is dropped
    for file in directory.rglob("*"):
        if file.is_file():
            with file.open("rb") as opened:
                os.posix_fadvise(opened.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
