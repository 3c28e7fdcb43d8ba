"""Long turns of the event loop and garbage collections of a Hareline process, counted by itself.

``brokers`` starts the broker through ``program``, which runs `counting_broker.py` in front of it;
the latency scenarios read the counts. They are in a file that both processes map into memory, so
that reading them costs the broker nothing.
"""

from __future__ import annotations

import mmap
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Final

PROGRAM: Final = Path(__file__).with_name("counting_broker.py")
#: long turns, nanoseconds of the longest, collections, nanoseconds of the longest
COUNTS: Final = struct.Struct("=QQQQ")


@dataclass(frozen=True)
class TurnCounts:
    long_turns: int
    longest_turn_ms: float
    collections: int
    longest_collection_ms: float


class TurnWatch:
    """The counts of one process; `program` makes the file they are in."""

    def __init__(self) -> None:
        self._map: mmap.mmap | None = None

    def program(self, directory: Path) -> list[str]:
        """What the interpreter is to run in place of ``-m hareline``."""
        file = directory / "turns"
        file.write_bytes(bytes(COUNTS.size))
        with file.open("r+b") as opened:
            self._map = mmap.mmap(opened.fileno(), COUNTS.size)
        # -P: the directory of the program must not be searched for modules
        return ["-P", str(PROGRAM), str(file)]

    def clear(self) -> None:
        """Begin to count."""
        assert self._map is not None, "the broker is started first"
        self._map[:] = bytes(COUNTS.size)

    def read(self) -> TurnCounts:
        """What was counted since `clear`."""
        assert self._map is not None, "the broker is started first"
        turns, turn_ns, collections, collection_ns = COUNTS.unpack(self._map[:])
        return TurnCounts(turns, turn_ns / 1e6, collections, collection_ns / 1e6)
