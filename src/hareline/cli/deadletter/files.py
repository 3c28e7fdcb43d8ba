"""Files of dead messages: ``1.jsonl``, ``2.jsonl`` and so on in a folder, one for each dump.

They have the format of ``hareline queue export``. ``1.done`` has an octet for each message of
``1.jsonl``, which is 1 if that was published again. Invariant: one message is in memory at a time.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

from hareline.cli.failures import CommandFailed, ExitStatus
from hareline.cli.output import complain
from hareline.message.exported import (
    FORMAT,
    FORMAT_VERSION,
    ImportedMessage,
    InvalidLine,
    imported,
)

BATCH_MESSAGES: Final = 500
BATCH_BYTES: Final = 16 << 20


class Dump:
    """A new file in a folder, which is made if its parent is there. Raises OSError.

    ``count``: messages written. Invariant: the file ends with what was synced last.
    """

    def __init__(self, folder: Path, head: Mapping[str, Any]) -> None:
        if not folder.is_dir():
            folder.mkdir(mode=0o700)
            _sync(folder.parent)
        numbers = [int(file.stem) for file in folder.glob("*.jsonl") if file.stem.isdecimal()]
        self.path = folder / f"{max(numbers, default=0) + 1}.jsonl"
        self.count = 0
        self._synced_bytes = 0
        self._waiting = 0
        self._waiting_bytes = 0
        self._file = open(self.path, "xb", opener=_private)  # noqa: SIM115 - `close` is called
        self._write({"format": FORMAT, "version": FORMAT_VERSION, **head})

    @property
    def is_full(self) -> bool:
        """True if so much waits that it should be synced."""
        return self._waiting >= BATCH_MESSAGES or self._waiting_bytes >= BATCH_BYTES

    def add(self, line: Mapping[str, Any]) -> None:
        """Write a message."""
        self._write(line)
        self.count += 1
        self._waiting += 1

    def end(self) -> None:
        """Write that this is all, and sync."""
        self._write({"end": True, "messages": self.count, "unreadable": 0})
        self.sync()

    def sync(self) -> None:
        """Return when the file, all that was written, and its name are on disk."""
        with _named(self.path):
            self._file.flush()
            os.fsync(self._file.fileno())
            if not self._synced_bytes:
                _sync(self.path.parent)
        self._synced_bytes = self._file.tell()
        self._waiting = self._waiting_bytes = 0

    def close(self) -> None:
        """Cut off what was not synced; a file without anything is removed."""
        with suppress(OSError):  # of a disk that is full
            self._file.close()
        if self._synced_bytes:
            os.truncate(self.path, self._synced_bytes)
        else:
            self.path.unlink()

    def _write(self, line: Mapping[str, Any]) -> None:
        octets = json.dumps(line, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"
        with _named(self.path):
            self._file.write(octets)
        self._waiting_bytes += len(octets)


class Marks:
    """The messages of a file that are done, to which one is added at a time. Raises OSError."""

    def __init__(self, file: Path) -> None:
        self._path = _marks_path(file)
        self._fd = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o600)
        self._marks = self._path.read_bytes()

    def __contains__(self, number: int) -> bool:
        return is_marked(self._marks, number)

    def add(self, number: int) -> None:
        """Mark a message, which outlives this process; a power cut only from `close` on."""
        with _named(self._path):
            os.pwrite(self._fd, b"\x01", number - 1)

    def close(self) -> None:
        """Sync the marks."""
        with _named(self._path):
            os.fsync(self._fd)
        os.close(self._fd)
        _sync(self._path.parent)


def marks_of(file: Path) -> bytes:
    """The octets that say which messages of a file are done."""
    path = _marks_path(file)
    return path.read_bytes() if path.exists() else b""


def is_marked(marks: bytes, number: int) -> bool:
    """True if the message of this number, from 1 on, is done."""
    return number <= len(marks) and marks[number - 1] == 1


def files_of(folder: Path) -> list[Path]:
    """The files of a folder, in the order in which they were written. Raises CommandFailed."""
    if not folder.is_dir():
        raise CommandFailed(f"{folder}: no such directory", ExitStatus.NOT_FOUND)
    found = sorted(folder.glob("*.jsonl"), key=lambda file: (len(file.stem), file.stem))
    if not found:
        raise CommandFailed(f"{folder}: has no dump", ExitStatus.NOT_FOUND)
    return found


def messages_of(file: Path) -> Iterator[tuple[int, ImportedMessage]]:
    """Yield the messages of a file with their numbers, from 1 on. Raises CommandFailed."""
    with file.open("rb") as lines:
        head = _fields_of(next(lines, b""))
        if head is None or head.get("format") != FORMAT or head.get("version") != FORMAT_VERSION:
            raise CommandFailed(f"{file}: line 1: is not the head of a dump")
        for number, octets in enumerate(lines, 1):
            fields = _fields_of(octets)
            if fields is None and not octets.endswith(b"\n"):
                break
            if fields is not None and "end" in fields:
                return
            try:
                if fields is None:
                    raise InvalidLine("is not a JSON object")
                message = imported(fields)
            except InvalidLine as error:
                raise CommandFailed(f"{file}: line {number + 1}: {error}") from None
            yield number, message
    complain(f"{file}: was cut off, and may lack messages", style="yellow")


def _fields_of(octets: bytes) -> dict[str, Any] | None:
    try:
        fields = json.loads(octets)
    except (ValueError, RecursionError):
        return None
    return fields if isinstance(fields, dict) else None


def _marks_path(file: Path) -> Path:
    return file.with_suffix(".done")


def _private(name: str, flags: int) -> int:
    return os.open(name, flags, 0o600)


def _sync(folder: Path) -> None:
    """Return when the names in a folder are on disk."""
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


@contextmanager
def _named(path: Path) -> Iterator[None]:
    """Name the file in an error of the system that does not, such as that of a full disk."""
    try:
        yield
    except OSError as error:
        raise CommandFailed(f"{path}: {error.strerror}") from None
