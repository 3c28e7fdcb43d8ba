"""Work on segment files other than appending: spares, freeing, retention, the end.

An error here loses nothing: at worst a file stays that should be gone. ``Discard`` touches a file
only after the FREE record that names it is durable.
"""

from __future__ import annotations

import errno
from collections.abc import Callable
from pathlib import Path
from typing import Final, NamedTuple

from hareline.storage.journal.files import Files
from hareline.storage.journal.format.frame import MalformedRecord
from hareline.storage.journal.format.header import UnsupportedVersion
from hareline.storage.journal.format.positions import number_of_name, segment_name
from hareline.storage.journal.segment import (
    SPARE_PREFIX,
    make_spare,
    read_header,
    segment_path,
    spare_path,
)
from hareline.storage.journal.syncer import Work
from hareline.storage.journal.writer import JournalWriter

SPARES_MAX: Final = 2
RETAINED_FOLDER: Final = "retained"
_NO_SPACE: Final = (errno.ENOSPC, errno.EDQUOT)
_MS_PER_S: Final = 1000


class Freed(NamedTuple):
    """A segment that is no longer needed. ``last_ms``: when its last batch was written."""

    number: int
    end: int
    size_bytes: int
    last_ms: int


class Retained(NamedTuple):
    last_ms: int
    number: int
    size_bytes: int


class Retention:
    """Keeps freed segments in ``journal/retained/`` for replay, up to an age and a total size.

    0 for one of the limits: no such limit; 0 for both: nothing is kept. All in the thread.
    """

    __slots__ = ("_age_ms", "_directory", "_files", "_limit_bytes", "_parent", "segments")

    def __init__(self, files: Files, directory: str, age_s: int, limit_bytes: int) -> None:
        """``directory``: of the journal. Touches no file."""
        self._files = files
        self._parent = directory
        self._directory = f"{directory}/{RETAINED_FOLDER}"
        self._age_ms = age_s * _MS_PER_S
        self._limit_bytes = limit_bytes
        self.segments: list[Retained] = []

    @property
    def is_on(self) -> bool:
        return bool(self._age_ms or self._limit_bytes)

    def open(self) -> None:
        """Take over what earlier runs have retained. Raises OSError.

        The age of a segment counts from when it was begun: when it was full is not known.
        """
        if not self.is_on:
            return
        self._files.make_directory(self._directory)
        for name in self._files.list(self._directory):
            number = number_of_name(name)
            if number is None:
                continue
            path = f"{self._directory}/{name}"
            fd = self._files.open(path, create=False)
            try:
                created_ms = read_header(self._files, fd, path).created_ms
                self.segments.append(Retained(created_ms, number, self._files.size(fd)))
            except (MalformedRecord, UnsupportedVersion):
                continue  # not one of ours; left where it is
            finally:
                self._files.close(fd)
        self.segments.sort()

    def take(self, freed: Freed) -> None:
        """Move the file here, cut to what was written. Raises OSError."""
        path = segment_path(self._parent, freed.number)
        fd = self._files.open(path, create=False)
        try:
            self._files.truncate(fd, freed.end)
        finally:
            self._files.close(fd)
        self._files.rename(path, f"{self._directory}/{segment_name(freed.number)}")
        self.segments.append(Retained(freed.last_ms, freed.number, freed.end))
        self.segments.sort()

    def trim(self, now_ms: int) -> None:
        """Unlink what is too old or exceeds the size, the oldest first. Raises OSError."""
        total_bytes = sum(segment.size_bytes for segment in self.segments)
        while self.segments:
            oldest = self.segments[0]
            is_old = self._age_ms and oldest.last_ms < now_ms - self._age_ms
            if not is_old and not (self._limit_bytes and total_bytes > self._limit_bytes):
                return
            self._files.unlink(f"{self._directory}/{segment_name(oldest.number)}")
            total_bytes -= oldest.size_bytes
            del self.segments[0]


class Prepare(Work):
    """Before the first batch: make directories, take over spares and retained segments."""

    __slots__ = ("_on_done", "_retention", "_writer", "error")

    def __init__(
        self, writer: JournalWriter, retention: Retention, on_done: Callable[[str], None]
    ) -> None:
        self._writer = writer
        self._retention = retention
        self._on_done = on_done
        self.error = ""

    def run(self) -> None:
        writer = self._writer
        try:
            writer.files.make_directory(writer.directory)
            writer.files.sync_directory(str(Path(writer.directory).parent))
            self._adopt_spares()
            self._retention.open()
        except OSError as error:
            self.error = f"{writer.directory}: {error.strerror}"

    def finished(self) -> None:
        self._on_done(self.error)

    def _adopt_spares(self) -> None:
        writer, files = self._writer, self._writer.files
        for name in files.list(writer.directory):
            if not name.startswith(SPARE_PREFIX):
                continue
            path = f"{writer.directory}/{name}"
            if len(writer.spares) < SPARES_MAX and self._size(path) == writer.segment_bytes:
                writer.spares.append(path)
            else:
                files.unlink(path)

    def _size(self, path: str) -> int:
        fd = self._writer.files.open(path, create=False)
        try:
            return self._writer.files.size(fd)
        finally:
            self._writer.files.close(fd)


class MakeSpare(Work):
    """Make a spare if there is none. ``is_out_of_space``: there is no room for one."""

    __slots__ = ("_number", "_on_done", "_writer", "error", "is_out_of_space")

    def __init__(self, writer: JournalWriter, on_done: Callable[[MakeSpare], None]) -> None:
        self._writer = writer
        self._number = writer.next_number  # not the number of any other spare
        self._on_done = on_done
        self.is_out_of_space = False
        self.error = ""

    def run(self) -> None:
        writer = self._writer
        self.is_out_of_space = False
        self.error = ""
        if writer.spares:
            return
        try:
            spare = make_spare(writer.files, writer.directory, self._number, writer.segment_bytes)
        except OSError as error:
            self.is_out_of_space = error.errno in _NO_SPACE
            self.error = f"{writer.directory}: no spare segment: {error.strerror}"
        else:
            writer.spares.append(spare)

    def finished(self) -> None:
        self._on_done(self)


class Discard(Work):
    """Make freed segments spares, or retain or unlink them. ``sync_error`` is final.

    ``leftovers``: see ``RecoveredState``.
    """

    __slots__ = (
        "_freed",
        "_leftovers",
        "_now_ms",
        "_on_done",
        "_retention",
        "_writer",
        "errors",
        "sync_error",
    )

    def __init__(
        self,
        writer: JournalWriter,
        retention: Retention,
        freed: list[Freed],
        leftovers: list[tuple[str, int]],
        now_ms: int,
        on_done: Callable[[Discard], None],
    ) -> None:
        self._writer = writer
        self._retention = retention
        self._freed = freed
        self._leftovers = leftovers
        self._now_ms = now_ms
        self._on_done = on_done
        self.errors: list[str] = []
        self.sync_error = ""

    def run(self) -> None:
        writer = self._writer
        try:
            if writer.sync != "always":
                writer.sync_segment()  # the FREE record
        except OSError as error:
            self.sync_error = f"{writer.directory}: sync failed: {error.strerror}"
            return
        for freed in self._freed:
            path = segment_path(writer.directory, freed.number)
            try:
                self._discard(freed, path)
            except OSError as error:
                self.errors.append(f"{path}: {error.strerror}")
        for path, size in self._leftovers:
            try:
                self._cut(path, size)
            except OSError as error:
                self.errors.append(f"{path}: {error.strerror}")
        try:
            if self._retention.is_on:
                self._retention.trim(self._now_ms)
        except OSError as error:
            self.errors.append(f"{writer.directory}/{RETAINED_FOLDER}: {error.strerror}")

    def finished(self) -> None:
        self._on_done(self)

    def _cut(self, path: str, size: int) -> None:
        files = self._writer.files
        if not size:
            files.unlink(path)
            return
        fd = files.open(path, create=False)
        try:
            files.truncate(fd, size)
        finally:
            files.close(fd)

    def _discard(self, freed: Freed, path: str) -> None:
        writer = self._writer
        if self._retention.is_on:
            self._retention.take(freed)
        elif len(writer.spares) < SPARES_MAX and freed.size_bytes == writer.segment_bytes:
            spare = spare_path(writer.directory, freed.number)
            if spare in writer.spares:  # made, or left by an earlier run, for this number to come
                writer.files.unlink(path)
                return
            writer.files.rename(path, spare)
            writer.spares.append(spare)
        else:
            writer.files.unlink(path)


class Finish(Work):
    """The end: cut the tail to what was written, sync and close it.

    ``has_failed``: the store has failed, so what is in the file is unknown; it is only closed.
    """

    __slots__ = ("_has_failed", "_on_done", "_writer", "error")

    def __init__(
        self, writer: JournalWriter, on_done: Callable[[str], None], *, has_failed: bool = False
    ) -> None:
        self._writer = writer
        self._on_done = on_done
        self._has_failed = has_failed
        self.error = ""

    def run(self) -> None:
        try:
            if self._has_failed:
                self._writer.abandon_segment()
            else:
                self._writer.close_segment()
        except OSError as error:
            self.error = f"{self._writer.directory}: {error.strerror}"

    def finished(self) -> None:
        self._on_done(self.error)
