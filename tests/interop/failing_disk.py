"""A disk that fails when a test says so, below a real broker on a real data directory.

The broker runs in a thread of this process (the fixture ``inside``), and the one class that reaches
the journal's files is told what to do.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Sequence

import pytest

from hareline.storage.journal.files import Files


class Disk:
    """What the journal's disk does from now on; asked in the journal's thread."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.is_broken = False
        self.is_full = False
        sync, write = Files.sync, Files.write

        def do_sync(files: Files, fd: int) -> None:
            if self.is_broken:
                raise OSError(errno.EIO, os.strerror(errno.EIO))
            sync(files, fd)

        def do_write(files: Files, fd: int, parts: Sequence[bytes], offset: int) -> None:
            if self.is_full:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            write(files, fd, parts, offset)

        monkeypatch.setattr(Files, "sync", do_sync)
        monkeypatch.setattr(Files, "write", do_write)
