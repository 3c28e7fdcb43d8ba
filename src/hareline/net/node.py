"""What the operating system says of this process: memory, descriptors, disk; and its limits.

``net.sampling`` asks once a tick. Invariant: nothing here waits; what a system does not tell is -1.
"""

from __future__ import annotations

import resource
from contextlib import suppress
from pathlib import Path
from typing import Final

from hareline.net.disk import disk_space
from hareline.net.loop_watch import LoopWatch
from hareline.net.memory import used_bytes
from hareline.statistics.facts import NodeFacts

_DESCRIPTORS: Final = Path("/proc/self/fd")
_UNKNOWN: Final = -1


def open_descriptors(directory: Path = _DESCRIPTORS) -> int:
    """How many file descriptors are open; Linux 6.2 says it as the size of their directory."""
    try:
        return directory.stat().st_size or sum(1 for _ in directory.iterdir())
    except OSError:
        return _UNKNOWN


def descriptors() -> tuple[int, int]:
    """File descriptors that are open, and how many may be."""
    return open_descriptors(), resource.getrlimit(resource.RLIMIT_NOFILE)[0]


def read_node(watch: LoopWatch, directory: Path | None, *, sockets: int) -> NodeFacts:
    """The process now; ``directory``: whose disk counts. The longest times begin anew."""
    used, limit = descriptors()
    free = _UNKNOWN
    if directory is not None:
        with suppress(OSError):
            free = disk_space(directory).free_bytes
    return NodeFacts(
        mem_used=used_bytes(),
        fd_used=used,
        fd_total=limit,
        sockets_used=sockets,
        sockets_total=limit,
        disk_free=free,
        loop_lag_us=round(watch.lag.last_s * 1e6),
        loop_lag_max_us=round(watch.lag.take_max() * 1e6),
        turn_max_us=round(watch.turns.take_max() * 1e6),
        gc_num=watch.collections.count,
        gc_max_us=round(watch.collections.take_max() * 1e6),
    )
