"""The spool: contents of transient messages that memory has no room for.

Records are as in the journal, without entries and never synced, in files of their own that are
erased at start and removed as soon as nothing in them is needed.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final
from zlib import crc32

from hareline.errors import StoreError
from hareline.message import TRANSIENT, UNWRITTEN, Message
from hareline.storage.interface import SPOOLED
from hareline.storage.journal.files import Files
from hareline.storage.journal.format.frame import RECORD_HEAD, RECORD_PREFIX
from hareline.storage.journal.format.message import MESSAGE_HEAD
from hareline.storage.journal.format.positions import OFFSET_BITS, OFFSET_MASK
from hareline.storage.store.message_records import record_head

FILE_BYTES: Final = 67_108_864
PIECE_BYTES: Final = 262_144

# A persistent message in a queue that is not durable is still persistent when it is read: its
# record has this entry, which is of no queue.
_PERSISTENT: Final = ((0, 0, 0, 0),)


class SpoolFile:
    """``end``: of what is written; ``gathered``: what comes behind it. ``live``: records needed."""

    __slots__ = ("end", "fd", "gathered", "live", "number", "path")

    def __init__(self, number: int, path: str, fd: int) -> None:
        self.number = number
        self.path = path
        self.fd = fd
        self.end = 0
        self.gathered = bytearray()
        self.live = 0

    @property
    def size_bytes(self) -> int:
        return self.end + len(self.gathered)


class Spool:
    """``directory``: only for the spool; ``open`` erases everything in it."""

    __slots__ = ("_directory", "_files", "_next_number", "_tail", "file_bytes", "files")

    def __init__(self, files: Files, directory: str, file_bytes: int = FILE_BYTES) -> None:
        self._files = files
        self._directory = directory
        self.file_bytes = file_bytes
        self._next_number = 1
        self._tail: SpoolFile | None = None
        self.files: dict[int, SpoolFile] = {}

    def open(self) -> None:
        """Raises OSError."""
        self._files.make_directory(self._directory)
        for name in self._files.list(self._directory):
            self._files.unlink(f"{self._directory}/{name}")

    def add(self, message: Message) -> int:
        """Keep the message; returns its position. Raises StoreError, and then nothing was kept."""
        head = record_head(message, _PERSISTENT if message.position else ())
        content = message.content
        checksum = crc32(content, crc32(head))
        length = len(head) + len(content)
        try:
            tail = self._tail
            if tail is None or (tail.size_bytes + length > self.file_bytes and tail.size_bytes):
                tail = self._begin()
            offset = tail.size_bytes
            tail.gathered += RECORD_PREFIX.pack(length, checksum)
            tail.gathered += head
            tail.gathered += content
            if len(tail.gathered) >= PIECE_BYTES:
                try:
                    self._write(tail)
                except OSError:
                    del tail.gathered[offset - tail.end :]
                    raise
        except OSError as error:
            raise StoreError(f"{self._directory}: cannot spool: {error.strerror}") from None
        tail.live += 1
        return SPOOLED | tail.number << OFFSET_BITS | offset

    def record(self, position: int) -> bytes:
        """Return kind and payload of the record at this position. Raises StoreError."""
        number = (position & ~SPOOLED) >> OFFSET_BITS
        offset = position & OFFSET_MASK
        file = self.files.get(number)
        if file is None:
            raise StoreError(f"{self._directory}: nothing was spooled at {position:#x}")
        head = self._read(file, RECORD_HEAD.size, offset)
        if len(head) == RECORD_HEAD.size:
            length, checksum, _ = RECORD_HEAD.unpack(head)
            body = self._read(file, length, offset + RECORD_PREFIX.size)
            if len(body) == length and crc32(body) == checksum:
                return body
        raise StoreError(f"{file.path}: what was spooled at {offset} does not match its checksum")

    def drop(self, positions: Iterable[int]) -> None:
        """Free spooled messages; positions of the journal are skipped.

        Raises nothing: a file that cannot be unlinked is erased at the next start.
        """
        for position in positions:
            if position < SPOOLED:
                continue
            file = self.files.get((position & ~SPOOLED) >> OFFSET_BITS)
            if file is None:
                continue
            file.live -= 1
            if not file.live:
                self._empty(file)

    def close(self) -> None:
        for file in list(self.files.values()):
            self._discard(file)
        self._tail = None

    def _begin(self) -> SpoolFile:
        last = self._tail
        if last is not None:
            self._write(last)
        number = self._next_number
        path = f"{self._directory}/{number:08x}.spool"
        fd = self._files.open(path, create=True)
        self._next_number += 1
        self._tail = self.files[number] = SpoolFile(number, path, fd)
        return self._tail

    def _write(self, file: SpoolFile) -> None:
        if file.gathered:
            self._files.write(file.fd, [bytes(file.gathered)], file.end)
            file.end += len(file.gathered)
            file.gathered.clear()

    def _read(self, file: SpoolFile, size: int, offset: int) -> bytes:
        """Read octets of one record, which is either in the file or gathered, never split."""
        if offset >= file.end:
            start = offset - file.end
            return bytes(file.gathered[start : start + size])
        try:
            return self._files.read(file.fd, size, offset)
        except OSError as error:
            raise StoreError(f"{file.path}: {error.strerror}") from None

    def _empty(self, file: SpoolFile) -> None:
        if file is not self._tail:
            self._discard(file)
            return
        file.gathered.clear()
        if file.end:
            try:
                self._files.truncate(file.fd, 0)
            except OSError:
                return  # go on behind what is there
            file.end = 0

    def _discard(self, file: SpoolFile) -> None:
        del self.files[file.number]
        try:
            self._files.close(file.fd)
            self._files.unlink(file.path)
        except OSError:
            return


def position_when_spooled(payload: bytes | memoryview) -> int:
    """Return ``Message.position`` of a spooled message, TRANSIENT or UNWRITTEN."""
    return UNWRITTEN if MESSAGE_HEAD.unpack_from(payload)[5] else TRANSIENT
