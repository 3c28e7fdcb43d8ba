"""The changes of ``management.change_log`` on disk, so that a restart knows of them.

Two files of lines of JSON in the data directory: the one that is written to, and the one before it.
They are not in the definitions: those are synced at each change and hold what the broker needs to
start, while here a few lines lost to a power failure do no harm, a damaged file is passed over line
by line, and declarations may come by the thousand. ``http_side`` has one ``ChangeKeeper``.

Invariant: the files have at most twice ``KEPT_MAX`` lines; nothing here waits for the disk on the
event loop once the broker has started, and no error of the disk stops anything.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Final

from hareline import events
from hareline.broker.change_recorder import Doer
from hareline.events import Report
from hareline.management.change_log import KEPT_MAX, LINE_MAX, Change, ChangeLog, change_of

FILE_NAME: Final = "changes.jsonl"
OLDER_NAME: Final = "changes.older.jsonl"
WRITE_S: Final = 1.0
_MODE: Final = 0o640
_READ_MAX: Final = 2 * LINE_MAX  # of a line, with what stands around the details


class ChangeFile:
    """``count``: lines in the file that is written to."""

    def __init__(self, directory: Path) -> None:
        self._path = directory / FILE_NAME
        self._older = directory / OLDER_NAME
        self._is_torn = False  # it ends with half a line
        self.count = 0

    def read(self) -> Iterator[Change]:
        """All that is kept, the oldest first; lines that are damaged are left out."""
        for path in (self._older, self._path):
            self.count, self._is_torn = 0, False
            try:
                lines = path.open("rb")
            except OSError:
                continue  # the first start, or one that may not read it: ``append`` will say so
            with lines:
                while line := lines.readline(_READ_MAX):
                    self.count += 1
                    self._is_torn = not line.endswith(b"\n")
                    change = change_of(line)
                    if change is not None:
                        yield change

    def append(self, lines: list[bytes]) -> None:
        """Write lines; the file is begun again when it is full. Raises OSError."""
        if self.count + len(lines) > KEPT_MAX and self.count:
            self._path.replace(self._older)
            self.count, self._is_torn = 0, False
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
        with os.fdopen(os.open(self._path, flags, _MODE), "wb") as file:
            file.write(b"\n" * self._is_torn + b"".join(lines))
        self.count, self._is_torn = self.count + len(lines), False


class ChangeKeeper:
    """Writes what the log has not written yet, and looks for new settings, every ``WRITE_S``.

    ``directory`` None: nothing is kept.
    """

    def __init__(
        self,
        log: ChangeLog,
        directory: Path | None,
        settings: Callable[[], object],
        report: Report,
    ) -> None:
        self._log = log
        self._file = None if directory is None else ChangeFile(directory)
        self._settings = settings
        self._settings_seen = settings()
        self._report = report
        self._is_failing = False
        self._stopping = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Read what is kept, and write from now on."""
        if self._file is not None:
            self._log.restore(self._file.read())
        self._task = asyncio.create_task(self._run())

    async def stop(self) -> None:
        """Write the rest."""
        task, self._task = self._task, None
        self._stopping.set()
        if task is not None:
            await task

    async def _run(self) -> None:
        is_last = False
        while not is_last:
            with suppress(TimeoutError):
                is_last = await asyncio.wait_for(self._stopping.wait(), WRITE_S)
            self.look_at_settings()
            await self.write()

    def look_at_settings(self) -> None:
        """Note it if the settings were read again."""
        settings = self._settings()
        if settings is not self._settings_seen:
            self._settings_seen = settings
            self._log.note("settings.changed", {}, Doer("settings", ""))

    async def write(self) -> None:
        """Write what is not written yet, in a thread of its own; what fails is tried again."""
        unwritten, file = self._log.unwritten, self._file
        if file is None:
            unwritten.clear()
            return
        lines = list(islice(unwritten, KEPT_MAX))
        if not lines:
            return
        try:
            await asyncio.to_thread(file.append, lines)
        except OSError as error:
            if not self._is_failing:
                self._is_failing = True
                self._report(events.CHANGES_NOT_KEPT, problem=str(error))
            return
        self._is_failing = False
        for line in lines:
            if unwritten and unwritten[0] is line:  # it may have been pushed out meanwhile
                unwritten.popleft()
