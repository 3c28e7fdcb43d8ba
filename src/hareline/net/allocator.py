"""glibc's malloc, set for a broker that allocates and frees large blocks all the time.

By default each body above 128 KiB is a mapping of its own, and freed memory goes back to the system
at once, so every large message pays for its page faults again: keeping it halves the cost of 1 MiB
bodies (benchmarks: autoack_1x1_1MiB). ``net.memory`` gives it back before it judges memory use.
"""

from __future__ import annotations

import ctypes
from typing import Final

_M_TRIM_THRESHOLD: Final = -1
_M_TOP_PAD: Final = -2
_M_MMAP_THRESHOLD: Final = -3

KEPT_BYTES: Final = 134_217_728  # free memory at the top of the heap that is not given back
GROWTH_BYTES: Final = 16_777_216  # how much the heap grows at a time
MAPPING_BYTES: Final = 33_554_432  # from here on a block is a mapping of its own; the most allowed


def keep_freed_memory() -> bool:
    """Set glibc's thresholds for the whole process; False if there is no glibc or it refuses."""
    library = _glibc()
    if library is None:
        return False
    settings = (
        (_M_TRIM_THRESHOLD, KEPT_BYTES),
        (_M_TOP_PAD, GROWTH_BYTES),
        (_M_MMAP_THRESHOLD, MAPPING_BYTES),
    )
    results = [library.mallopt(option, value) for option, value in settings]
    return all(results)


def release_freed_memory() -> None:
    """Give free memory back to the system; costs some milliseconds for each gigabyte kept."""
    library = _glibc()
    if library is not None:
        library.malloc_trim(0)


def _glibc() -> ctypes.CDLL | None:
    try:
        library = ctypes.CDLL(None)
        library.gnu_get_libc_version  # noqa: B018 - musl has no such symbol
    except (OSError, AttributeError, TypeError):
        return None
    return library
