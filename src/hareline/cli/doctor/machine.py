"""Checks of the machine: Python, uvloop, limits of the system, clock.

Each returns its findings and changes nothing.
"""

from __future__ import annotations

import importlib.metadata
import platform
import resource
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from hareline import compiled
from hareline.cli.doctor.finding import Finding, note, ok, warning

_OLDEST_PYTHON: Final = (3, 11)
_FILES_WANTED: Final = 4096
_BEFORE_RELEASE_S: Final = 1_735_689_600  # 2025: no build is older
_SKEW_S: Final = 60.0
_SOMAXCONN: Final = Path("/proc/sys/net/core/somaxconn")


def check_python() -> Iterator[Finding]:
    """The interpreter, and the event loop that the broker will use."""
    version = platform.python_version()
    name = f"{platform.python_implementation()} {version}"
    if sys.version_info[:2] < _OLDEST_PYTHON:
        yield warning("python", name, "install Python 3.11 or newer")
    else:
        yield ok("python", f"{name}, hareline {_version('hareline')} ({compiled.build()} build)")
    uvloop = _version("uvloop")
    if uvloop is not None:
        yield ok("uvloop", f"uvloop {uvloop}")
    elif platform.python_implementation() == "CPython":
        yield warning(
            "uvloop",
            "not installed: the broker runs on plain asyncio, slower",
            "python -m pip install uvloop",
        )
    else:
        yield note("uvloop", "not available for this Python: the broker runs on plain asyncio")


def check_limits(backlog: int, broker_files: int | None = None) -> Iterator[Finding]:
    """Open files, and connections that the system may hold ready.

    ``broker_files``: what the running broker may open; without it, what this process may.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    who = "for a broker that is started from here"
    if broker_files is not None:
        soft, hard, who = broker_files, resource.RLIM_INFINITY, "for the broker"
    if soft != resource.RLIM_INFINITY and soft < _FILES_WANTED:
        yield warning(
            "open files",
            f"{soft} at most {who}: each connection needs one, and each journal segment",
            f"raise it to {_FILES_WANTED} or more: `ulimit -n`, or LimitNOFILE= in systemd"
            + (f" (the hard limit is {hard})" if hard != resource.RLIM_INFINITY else ""),
        )
    else:
        yield ok(
            "open files", "no limit" if soft == resource.RLIM_INFINITY else f"{soft} at most {who}"
        )
    try:
        somaxconn = int(_SOMAXCONN.read_text())
    except (OSError, ValueError):
        return
    if somaxconn < backlog:
        yield note(
            "backlog",
            f"the system holds {somaxconn} connections ready, listener.backlog asks for {backlog}",
            f"sysctl -w net.core.somaxconn={backlog}",
        )


def check_clock(newest_file_s: float | None, broker_s: float | None) -> Iterator[Finding]:
    """The wall clock against the files of the broker and against the running broker."""
    now = time.time()
    remedy = "set the clock, and keep it with chrony or systemd-timesyncd"
    if now < _BEFORE_RELEASE_S:
        yield warning("clock", f"it is {time.ctime(now)}, which is long ago", remedy)
    elif newest_file_s is not None and newest_file_s > now + _SKEW_S:
        yield warning(
            "clock",
            f"files of the data directory were written {newest_file_s - now:.0f} s from now: the "
            "clock was set back; message times to live count from it",
            remedy,
        )
    elif broker_s is not None and abs(broker_s - now) > _SKEW_S:
        yield warning(
            "clock", f"the broker's clock differs by {broker_s - now:+.0f} s from this one", remedy
        )
    else:
        yield ok("clock", time.strftime("%Y-%m-%d %H:%M:%S %z"))


def _version(distribution: str) -> str | None:
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return None
