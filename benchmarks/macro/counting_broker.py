"""Runs ``hareline`` in this process, and counts long turns of its loop and garbage collections.

    python -P counting_broker.py FILE serve ...

FILE holds four unsigned 64 bit numbers in the machine's order, see ``turn_watch``. A timer is due
each `TICK_S`; a turn is long if it keeps the timer waiting for more than `LONG_NS`. So a turn
counts that took 5 ms, or up to 1 ms less or more. The broker's own code is not changed; the timer
costs it about half a hundredth of its core.

It imports nothing of the benchmarks, as it also runs where the compiled build is installed.
"""

from __future__ import annotations

import asyncio
import gc
import mmap
import struct
import sys
import time
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, Final

TICK_S: Final = 0.002
LONG_NS: Final = 4_000_000  # on average the timer became due in the middle of a tick
_NUMBER: Final = struct.Struct("=Q")
_LONG_TURNS, _LONGEST_TURN, _COLLECTIONS, _LONGEST_COLLECTION = 0, 8, 16, 24


class Counting:
    """Writes the counts into the mapped file."""

    def __init__(self, file: Path) -> None:
        with file.open("r+b") as opened:
            self._map = mmap.mmap(opened.fileno(), 0)
        self._begun_ns = 0
        self._due_ns = 0

    def start(self, loop: asyncio.AbstractEventLoop) -> None:
        gc.callbacks.append(self._on_collection)
        self._arm(loop)

    def _arm(self, loop: asyncio.AbstractEventLoop) -> None:
        self._due_ns = time.monotonic_ns() + int(TICK_S * 1e9)
        loop.call_later(TICK_S, self._tick, loop)

    def _tick(self, loop: asyncio.AbstractEventLoop) -> None:
        late_ns = time.monotonic_ns() - self._due_ns
        if late_ns > LONG_NS:
            self._count(_LONG_TURNS, _LONGEST_TURN, late_ns)
        self._arm(loop)

    def _on_collection(self, phase: str, info: dict[str, int]) -> None:
        if phase == "start":
            self._begun_ns = time.monotonic_ns()
        else:
            taken_ns = time.monotonic_ns() - self._begun_ns
            self._count(_COLLECTIONS, _LONGEST_COLLECTION, taken_ns)

    def _count(self, count_at: int, longest_at: int, took_ns: int) -> None:
        (count,) = _NUMBER.unpack_from(self._map, count_at)
        (longest,) = _NUMBER.unpack_from(self._map, longest_at)
        _NUMBER.pack_into(self._map, count_at, count + 1)
        _NUMBER.pack_into(self._map, longest_at, max(longest, took_ns))


def main(file: Path, arguments: list[str]) -> None:
    counting = Counting(file)

    run_plainly = asyncio.Runner.run

    def run(runner: asyncio.Runner, main: Coroutine[Any, Any, Any], **options: Any) -> Any:
        loop = runner.get_loop()
        loop.call_soon(counting.start, loop)
        return run_plainly(runner, main, **options)

    asyncio.Runner.run = run  # type: ignore[method-assign, assignment]
    from hareline.cli import main as hareline

    sys.argv = ["hareline", *arguments]
    hareline()


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
