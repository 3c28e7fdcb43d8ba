"""Facts from the kernel: memory and processor time of a process, and the machine's description."""

from __future__ import annotations

import contextlib
import os
import platform
import resource
import subprocess
import time
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from typing import Final

from benchmarks.macro import disk

PROJECT_ROOT: Final = Path(__file__).resolve().parents[2]
#: where the brokers' data goes if the usual place for temporary files is in memory
DATA_FALLBACK: Final = PROJECT_ROOT / ".cache" / "bench"

_MEASURING: Final = ("benchmarks/macro", "benchmarks/jms", "benchmarks/management")
_TICKS_PER_SECOND: Final = os.sysconf("SC_CLK_TCK")
_SETTLE_STEP_S: Final = 0.5
_SETTLED_WITHIN: Final = 0.002


def rss_bytes(pid: int) -> int:
    """Resident memory of a process. :raises OSError: it is gone."""
    return _status_bytes(pid, "VmRSS:")


def peak_rss_bytes(pid: int) -> int:
    """The most resident memory a process has ever had. :raises OSError: it is gone."""
    return _status_bytes(pid, "VmHWM:")


def _status_bytes(pid: int, field: str) -> int:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(field):
            return int(line.split()[1]) * 1024
    raise ProcessLookupError(f"process {pid} has no memory any more")


def written_bytes(pid: int) -> int:
    """What a process has given to the disk so far, in whole pages: proc_pid_io(5), write_bytes.

    A page that is written again after it went to the disk counts again. :raises OSError: it is gone
    or belongs to another user.
    """
    for line in Path(f"/proc/{pid}/io").read_text().splitlines():
        if line.startswith("write_bytes:"):
            return int(line.split()[1])
    raise ProcessLookupError(f"the kernel does not tell what process {pid} has written")


def settled_rss_bytes(
    pid: int,
    limit_s: float,
    *,
    read: Callable[[int], int] = rss_bytes,
    pause: Callable[[float], None] = time.sleep,
) -> int:
    """Resident memory once it has stopped moving by more than 0.2 %, or after `limit_s`.

    Brokers collect garbage and allocate in the background for a while after the last message.
    `read` may read something else that moves on for a while, as `written_bytes` does.
    """
    before = read(pid)
    for _ in range(max(1, int(limit_s / _SETTLE_STEP_S))):
        pause(_SETTLE_STEP_S)
        now = read(pid)
        if abs(now - before) <= before * _SETTLED_WITHIN:
            return now
        before = now
    return before


def processor_seconds(pid: int) -> float:
    """User and system time a process has used so far. :raises OSError: it is gone."""
    after_name = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()
    return (int(after_name[11]) + int(after_name[12])) / _TICKS_PER_SECOND


def family_seconds(pid: int) -> float:
    """The same of a process and all that it has started, as far as they live or were waited for.

    :raises OSError: it is gone.
    """
    children: dict[int, list[int]] = {}
    ticks: dict[int, int] = {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        with contextlib.suppress(OSError):  # it has ended meanwhile
            fields = (entry / "stat").read_text().rpartition(")")[2].split()
            children.setdefault(int(fields[1]), []).append(int(entry.name))
            # its own, and of children that have ended: utime, stime, cutime, cstime
            ticks[int(entry.name)] = sum(map(int, fields[11:15]))
    if pid not in ticks:
        raise ProcessLookupError(f"process {pid} is gone")
    total, pending = 0, [pid]
    for each in pending:
        total += ticks.get(each, 0)
        pending += children.get(each, [])
    return total / _TICKS_PER_SECOND


def busy_seconds() -> float:
    """Processor time that all cores together have been busy, time stolen by a host included."""
    user, nice, system, _, _, irq, softirq, steal = (
        int(ticks) for ticks in Path("/proc/stat").read_text().split()[1:9]
    )
    return (user + nice + system + irq + softirq + steal) / _TICKS_PER_SECOND


def describe_machine() -> dict[str, object]:
    """Processor, cores, memory, versions and commit: what a number means nothing without."""
    return {
        "processor": _first_field("/proc/cpuinfo", "model name") or platform.machine(),
        "cores": len(os.sched_getaffinity(0)),
        "memory_gib": round(
            int((_first_field("/proc/meminfo", "MemTotal") or "0").split()[0]) / 2**20, 1
        ),
        "kernel": platform.release(),
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "uvloop": _package_version("uvloop"),
        "commit": _commit(),
        "file_system": disk.file_system_of(data_directory()),
        "fdatasync_ms": round(disk.fdatasync_ms(data_directory()), 3),
    }


def data_directory() -> Path:
    """Where the brokers under test keep their data: always on a disk."""
    return disk.data_directory(DATA_FALLBACK)


def _first_field(file: str, name: str) -> str | None:
    for line in Path(file).read_text().splitlines():
        key, _, value = line.partition(":")
        if key.strip() == name:
            return value.strip()
    return None


def _package_version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def _commit() -> str | None:
    """The commit of this tree, with ``+changes`` when the sources differ from it."""
    try:
        commit = _git("rev-parse", "--short", "HEAD")
        changed = _git("status", "--porcelain", "--", "src", *_MEASURING)
    except (OSError, subprocess.CalledProcessError):
        return None
    return f"{commit}+changes" if changed else commit


def _git(*arguments: str) -> str:
    done = subprocess.run(
        ["git", *arguments], cwd=PROJECT_ROOT, check=True, capture_output=True, text=True
    )
    return done.stdout.strip()


def raise_file_limit(wanted: int) -> int:
    """Let this process and its children open `wanted` files if it may; the limit it then has."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < wanted:
        target = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (target, hard))
        soft = target
    return soft
