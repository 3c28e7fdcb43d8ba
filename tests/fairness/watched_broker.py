"""Runs the command behind it in this process, and notes how long its event loop was busy at one go.

    python -P watched_broker.py FILE python -m hareline serve ...

FILE holds four unsigned 64 bit numbers, see ``stand.COUNTS``. A timer that is due each `TICK_S`
asks how much processor time the loop's thread has used since it last ran: what one client had to
wait for another, and not for what else runs on this machine. The broker's code is not changed.
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

TICK_S: Final = 0.001
_NUMBER: Final = struct.Struct("=Q")
_LONGEST, _LONGEST_COLLECTION, _TICKS, _BUSY = 0, 8, 16, 24


class Watch:
    """Writes what it has seen into the mapped file."""

    def __init__(self, file: Path) -> None:
        with file.open("r+b") as opened:
            self._map = mmap.mmap(opened.fileno(), 0)
        self._used_ns = 0
        self._collecting_ns = 0

    def start(self, loop: asyncio.AbstractEventLoop) -> None:
        """Begin, in the loop's thread."""
        gc.callbacks.append(self._on_collection)
        self._used_ns = time.thread_time_ns()
        loop.call_later(TICK_S, self._tick, loop)

    def _tick(self, loop: asyncio.AbstractEventLoop) -> None:
        used_ns = time.thread_time_ns()
        self._raise_to(_LONGEST, used_ns - self._used_ns)
        self._write(_BUSY, used_ns)
        self._write(_TICKS, self._read(_TICKS) + 1)
        self._used_ns = used_ns
        loop.call_later(TICK_S, self._tick, loop)

    def _on_collection(self, phase: str, info: dict[str, int]) -> None:
        if phase == "start":
            self._collecting_ns = time.thread_time_ns()
        else:
            self._raise_to(_LONGEST_COLLECTION, time.thread_time_ns() - self._collecting_ns)

    def _raise_to(self, at: int, value: int) -> None:
        if value > self._read(at):
            self._write(at, value)

    def _read(self, at: int) -> int:
        value: int = _NUMBER.unpack_from(self._map, at)[0]
        return value

    def _write(self, at: int, value: int) -> None:
        _NUMBER.pack_into(self._map, at, value)


def main(file: Path, arguments: list[str]) -> None:
    """Run the command; it is ``python -m hareline ...``."""
    watch = Watch(file)
    run_plainly = asyncio.Runner.run

    def run(runner: asyncio.Runner, main: Coroutine[Any, Any, Any], **options: Any) -> Any:
        loop = runner.get_loop()
        loop.call_soon(watch.start, loop)
        return run_plainly(runner, main, **options)

    asyncio.Runner.run = run  # type: ignore[method-assign, assignment]
    from hareline.cli import main as hareline

    sys.argv = ["hareline", *arguments[3:]]
    hareline()


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
