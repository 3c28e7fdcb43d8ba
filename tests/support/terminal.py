"""``hareline``, or another program, on a pseudo-terminal: what a person sees, and presses.

Invariant: the process is ended by its own object, and the reader's thread ends with it.
"""

from __future__ import annotations

import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import termios
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Self

from .waiting import wait_for

DEADLINE_S = 60.0
ESCAPE_SEQUENCE = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\x1b[=>]")


class TerminalProcess:
    """A command on a terminal of this size. Use it in a ``with`` statement."""

    def __init__(
        self,
        *arguments: str,
        program: Sequence[str] = (sys.executable, "-m", "hareline"),
        environ: Mapping[str, str] | None = None,
        rows: int = 24,
        columns: int = 80,
    ) -> None:
        self._written = b""
        self._terminal, end = pty.openpty()
        fcntl.ioctl(end, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        kept = {name: text for name, text in os.environ.items() if name not in {"COLUMNS", "LINES"}}
        self.process = subprocess.Popen(
            [*program, *arguments],
            stdin=end,
            stdout=end,
            stderr=end,
            env={**kept, "TERM": "xterm", **(environ or {})},
        )
        os.close(end)
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self) -> None:
        with suppress(OSError):  # the other end is closed
            while octets := os.read(self._terminal, 65536):
                self._written += octets

    @property
    def raw(self) -> str:
        """All that was written, with its escape sequences."""
        return self._written.decode("utf-8", "replace")

    @property
    def text(self) -> str:
        """All that was written, without colours and movements."""
        return ESCAPE_SEQUENCE.sub("", self.raw).replace("\r", "")

    def press(self, keys: str) -> None:
        """Type these keys."""
        os.write(self._terminal, keys.encode())

    def wait_for_text(self, wanted: str, *, since: int = 0) -> None:
        """Return when this was written, behind so many characters of ``text``."""
        try:
            wait_for(lambda: wanted in self.text[since:], DEADLINE_S, f"'{wanted}'")
        except AssertionError:
            raise AssertionError(f"'{wanted}' is not in {self.text!r}") from None

    def wait(self) -> int:
        """The exit status, and all has been read."""
        status = self.process.wait(DEADLINE_S)
        self._reader.join(DEADLINE_S)
        return status

    def end(self) -> None:
        """Kill it if it runs."""
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        self._reader.join(DEADLINE_S)
        os.close(self._terminal)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()
