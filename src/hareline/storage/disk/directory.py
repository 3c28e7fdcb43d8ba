"""Data directory: the places in it, and its lock for one broker.

Locks are flock's, which end with the process: on the lock file, which has the process id; on the
directory, since a lock on a removed file stops no second broker; and on the journal, for the
offline tools, which may be given it by another path.
"""

from __future__ import annotations

import fcntl
import os
from pathlib import Path
from typing import Final

from hareline.errors import StoreError
from hareline.storage.definitions.schema import FILE_NAME
from hareline.storage.journal.files import lock_directory

LOCK_NAME: Final = "lock"
DIRECTORY_MODE: Final = 0o750
_MODE: Final = 0o640


class DataDirectory:
    """Held from construction to ``close``."""

    __slots__ = ("_fd", "_locked", "path")

    def __init__(self, path: Path) -> None:
        """Lock it; made if it is missing. Raises StoreError while another broker has it."""
        path.mkdir(DIRECTORY_MODE, parents=True, exist_ok=True)
        self.path = path
        self._locked: list[int] = []
        self._fd = os.open(path / LOCK_NAME, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, _MODE)
        try:
            self._lock()
        except BaseException:
            self._unlock()
            raise

    def _lock(self) -> None:
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            owner = os.pread(self._fd, 32, 0).decode("ascii", "replace").strip()
            who = f"the broker with process id {owner}" if owner.isdigit() else "another broker"
            raise StoreError(f"{self.path}: in use by {who}") from None
        journal = Path(self.journal)
        journal.mkdir(DIRECTORY_MODE, exist_ok=True)
        for directory in (self.path, journal):
            try:
                self._locked.append(lock_directory(directory, fcntl.LOCK_EX))
            except BlockingIOError:
                raise StoreError(
                    f"{directory}: in use by another process, probably a broker whose file "
                    f"'{LOCK_NAME}' was removed; stop that first"
                ) from None
        os.ftruncate(self._fd, 0)
        os.pwrite(self._fd, f"{os.getpid()}\n".encode(), 0)

    def _unlock(self) -> None:
        for fd in (*self._locked, self._fd):
            os.close(fd)

    @property
    def definitions(self) -> Path:
        return self.path / FILE_NAME

    @property
    def journal(self) -> str:
        return str(self.path / "journal")

    @property
    def large(self) -> str:
        """Bodies that are too large for the journal."""
        return str(self.path / "large")

    @property
    def spool(self) -> str:
        """Contents that do not survive the process."""
        return str(self.path / "spool")

    def close(self) -> None:
        os.ftruncate(self._fd, 0)
        self._unlock()
