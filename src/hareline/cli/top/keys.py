"""Single keys from the terminal, without waiting for a line end.

Invariant: the terminal's mode is put back, whatever ends the block.
"""

from __future__ import annotations

import os
import select
import sys
import termios
import tty
from types import TracebackType
from typing import Any, Self


class Keys:
    """``next(seconds)`` waits at most that time for a key."""

    def __init__(self) -> None:
        self._fd = sys.stdin.fileno()
        self._mode: list[Any] = []
        self._typed = b""  # read, and not given out yet

    def __enter__(self) -> Self:
        self._mode = termios.tcgetattr(self._fd)
        tty.setcbreak(self._fd)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        termios.tcsetattr(self._fd, termios.TCSADRAIN, self._mode)

    def next(self, seconds: float) -> str | None:
        """The next key, or None; the end of the input is `q`."""
        if not self._typed:
            ready, _, _ = select.select([self._fd], [], [], seconds)
            if not ready:
                return None
            self._typed = os.read(self._fd, 32)
            if not self._typed:
                return "q"
        key, self._typed = self._typed[:1], self._typed[1:]
        if key == b"\x1b":  # arrows and the like come as a sequence, which has no key of ours
            self._typed = b""
            return None
        return key.decode("latin-1")
