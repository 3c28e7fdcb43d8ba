"""Work on segment files other than appending: spares, freeing, retention, the end.

All of it is for the thread. An error loses nothing: at worst a file stays that should be gone.
``discard`` touches a file only after the FREE record that names it is durable.
"""

from __future__ import annotations

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
from hareline.storage.journal.writer import JournalWriter

SPARES_MAX: Final = 2
RETAINED_FOLDER: Final = "retained"
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

    0 for one of the limits: no such limit; 0 for both: nothing is kept.
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
        _cut(self._files, path, freed.end)
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


class Discarded(NamedTuple):
    """Texts on files that stayed. ``sync_error``: final; nothing was touched then."""

    errors: list[str]
    sync_error: str = ""


def prepare(writer: JournalWriter, retention: Retention) -> str:
    """Make directories, take over spares and retained segments; before the first batch.

    Returns an error, or "".
    """
    try:
        writer.files.make_directory(writer.directory)
        writer.files.sync_directory(str(Path(writer.directory).parent))
        _adopt_spares(writer)
        retention.open()
    except OSError as error:
        return f"{writer.directory}: {error.strerror}"
    return ""


def _adopt_spares(writer: JournalWriter) -> None:
    files = writer.files
    for name in files.list(writer.directory):
        if not name.startswith(SPARE_PREFIX):
            continue
        path = f"{writer.directory}/{name}"
        if len(writer.spares) < SPARES_MAX and _size(files, path) == writer.segment_bytes:
            writer.spares.append(path)
        else:
            files.unlink(path)


def _size(files: Files, path: str) -> int:
    fd = files.open(path, create=False)
    try:
        return files.size(fd)
    finally:
        files.close(fd)


def ensure_spare(writer: JournalWriter, number: int) -> OSError | None:
    """Make a spare if there is none; returns why that failed. ``number``: of no other spare."""
    if not writer.spares:
        try:
            spare = make_spare(writer.files, writer.directory, number, writer.segment_bytes)
        except OSError as error:
            return error
        writer.spares.append(spare)
    return None


def discard(
    writer: JournalWriter,
    retention: Retention,
    freed: list[Freed],
    leftovers: list[tuple[str, int]],
    now_ms: int,
) -> Discarded:
    """Make freed segments spares, or retain or unlink them.

    ``leftovers``: see ``RecoveredState``.
    """
    try:
        if writer.sync != "always":
            writer.sync_segment()  # the FREE record
    except OSError as error:
        return Discarded([], f"{writer.directory}: sync failed: {error.strerror}")
    errors = []
    for each in freed:
        path = segment_path(writer.directory, each.number)
        try:
            _discard(writer, retention, each, path)
        except OSError as error:
            errors.append(f"{path}: {error.strerror}")
    for path, size in leftovers:
        try:
            if size:
                _cut(writer.files, path, size)
            else:
                writer.files.unlink(path)
        except OSError as error:
            errors.append(f"{path}: {error.strerror}")
    try:
        if retention.is_on:
            retention.trim(now_ms)
    except OSError as error:
        errors.append(f"{writer.directory}/{RETAINED_FOLDER}: {error.strerror}")
    return Discarded(errors)


def _discard(writer: JournalWriter, retention: Retention, freed: Freed, path: str) -> None:
    if retention.is_on:
        retention.take(freed)
    elif len(writer.spares) < SPARES_MAX and freed.size_bytes == writer.segment_bytes:
        spare = spare_path(writer.directory, freed.number)
        if spare in writer.spares:  # made, or left by an earlier run, for this number to come
            writer.files.unlink(path)
            return
        writer.files.rename(path, spare)
        writer.spares.append(spare)
    else:
        writer.files.unlink(path)


def _cut(files: Files, path: str, size: int) -> None:
    fd = files.open(path, create=False)
    try:
        files.truncate(fd, size)
    finally:
        files.close(fd)


def finish(writer: JournalWriter, *, has_failed: bool = False) -> str:
    """Cut the tail to what was written, sync and close it; returns an error, or "".

    ``has_failed``: the store has failed, so what is in the file is unknown; it is only closed.
    """
    try:
        if has_failed:
            writer.abandon_segment()
        else:
            writer.close_segment()
    except OSError as error:
        return f"{writer.directory}: {error.strerror}"
    return ""
