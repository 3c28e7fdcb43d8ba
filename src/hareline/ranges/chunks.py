"""Builds chunks of a stream from the records of its messages, in the reader process.

Called by ``ranges.process`` for each ``BUILD``. A chunk has as many messages as its limit allows. A
message whose body is in a file of its own is a chunk of its own, and its body stays in the file:
it is read twice, once for the checksums and once as the client takes it.

What is in a chunk is what was published: the header that the broker wrote into a stream's messages
for consumers, their offset, is taken out again.

Invariant: the messages of a chunk are those of the first places, without a gap.
"""

from __future__ import annotations

import os
from array import array
from struct import Struct
from typing import Final
from zlib import crc32

from hareline.errors import StoreError
from hareline.ranges.messages import Build, Built
from hareline.ranges.records import RecordReader
from hareline.storage.journal.files import Files
from hareline.storage.journal.format.message import (
    ENTRY,
    LARGE,
    MESSAGE_HEAD,
    MessageRecord,
    decode_message,
)
from hareline.storage.store.large_bodies import TRAILER_SIZE, large_path, trailer_of
from hareline.wire.property_parts import without_last_header
from hareline.wire.stream_chunks import (
    FIXED_SIZE,
    HEADER_SIZE,
    ChunkHeader,
    encode_chunk,
    encode_header,
)

OFFSET_HEADER: Final = b"x-stream-offset"  # queues.dispatch.reading
_PROPERTIES_START: Final = 19  # in a content: a frame's head, class, weight, size of the body
_BODY_HEAD: Final = 7  # of a body frame
_US_PER_MS: Final = 1000
_PIECE_BYTES: Final = 262_144
_FIXED: Final = Struct("<QII")  # the columns of one message: arrival, size of meta, of body


class BodyFile:
    """A body to be written to a client as it stands in its file."""

    __slots__ = ("_at", "_fd", "_left")

    def __init__(self, fd: int, size: int) -> None:
        """Takes the open file over."""
        self._fd = fd
        self._at = 0
        self._left = size

    def read(self) -> bytes:
        """The next piece; empty at the end. Raises OSError."""
        octets = os.pread(self._fd, min(self._left, _PIECE_BYTES), self._at)
        self._at += len(octets)
        self._left -= len(octets)
        if not octets and self._left:
            raise OSError(f"a body ends {self._left} octets too early")
        return octets

    def close(self) -> None:
        """Close the file; further calls have no effect."""
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)


Piece = bytes | memoryview | BodyFile


class ChunkBuilder:
    """``directory``: of the journal; ``large_directory``: of bodies in files."""

    def __init__(self, directory: str, large_directory: str, files: Files | None = None) -> None:
        self._records = RecordReader(directory, files)
        self._large_directory = large_directory

    def build(self, build: Build) -> tuple[Built, list[Piece]]:
        """Report of what was built, and the octets of the chunk in pieces."""
        metas: list[bytes] = []
        bodies: list[bytes] = []
        arrivals = array("Q")
        unpack, head_size, entry_size = MESSAGE_HEAD.unpack_from, MESSAGE_HEAD.size, ENTRY.size
        room = build.limit_bytes - HEADER_SIZE
        problem = ""
        try:
            for octets, start, end in self._records.read(build.places):
                flags, arrival_ms, _, header_size, size, count = unpack(octets, start)
                if flags:  # there may be optional parts
                    record = decode_message(octets[start:end])
                    if flags & LARGE:
                        if not metas:
                            return self._build_large(build.first_offset, record)
                        break
                    meta, body = _parts(record)
                else:
                    address = start + head_size + count * entry_size
                    middle = address + 1 + octets[address]
                    content = middle + 1 + octets[middle]
                    properties = octets[content + _PROPERTIES_START : content + header_size - 1]
                    meta = octets[address:content] + without_last_header(properties, OFFSET_HEADER)
                    body = octets[content + header_size + _BODY_HEAD : end - 1] if size else b""
                room -= FIXED_SIZE + len(meta) + len(body)
                if room < 0 and metas:
                    break
                arrivals.append(arrival_ms * _US_PER_MS)
                metas.append(meta)
                bodies.append(body)
        except StoreError as error:
            problem = str(error)
        if not metas:
            return Built(0, 0, problem), []
        pieces = encode_chunk(build.first_offset, arrivals, metas, bodies)
        return Built(len(metas), sum(map(len, pieces)), problem), list(pieces)

    def _build_large(self, offset: int, record: MessageRecord) -> tuple[Built, list[Piece]]:
        """A chunk of this one message, whose body is in a file."""
        meta, _ = _parts(record)
        front = _FIXED.pack(record.arrival_ms * _US_PER_MS, len(meta), record.size) + meta
        path = large_path(self._large_directory, record.large_id)
        try:
            fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
            try:
                checksum = _checked(fd, path, record, crc32(front))
            except BaseException:
                os.close(fd)
                raise
        except OSError as error:
            return Built(0, 0, f"{path}: {error.strerror or error}"), []
        except StoreError as error:
            return Built(0, 0, str(error)), []
        header = ChunkHeader(offset, 1, len(meta), record.size, checksum)
        built = Built(1, HEADER_SIZE + header.columns_size, "")
        return built, [encode_header(header), front, BodyFile(fd, record.size)]

    def close(self) -> None:
        """Close the files; they are opened again when they are needed."""
        self._records.close()


def _parts(record: MessageRecord) -> tuple[bytes, bytes]:
    """Meta and body of a message; no body for one in a file."""
    content, header_size = record.content, record.header_size
    properties = content[_PROPERTIES_START : header_size - 1]
    meta = record.address + without_last_header(properties, OFFSET_HEADER)
    has_body = record.size and not record.flags & LARGE
    return meta, content[header_size + _BODY_HEAD : -1] if has_body else b""


def _checked(fd: int, path: str, record: MessageRecord, checksum: int) -> int:
    """The checksum of what came before, whose own this is, and of the body behind it.

    Reads all of the body. Raises OSError, and StoreError if it is damaged.
    """
    size = record.size
    found, expected = os.fstat(fd).st_size, size + TRAILER_SIZE
    if found != expected:
        raise StoreError(f"{path}: {found} octets instead of {expected}")
    of_body = at = 0
    while at < size:
        octets = os.pread(fd, min(_PIECE_BYTES, size - at), at)
        if not octets:
            raise StoreError(f"{path}: ends before the body does")
        of_body = crc32(octets, of_body)
        checksum = crc32(octets, checksum)
        at += len(octets)
    if os.pread(fd, TRAILER_SIZE, size) != trailer_of(record.large_id, size, of_body):
        raise StoreError(f"{path}: the body is not what was written, by its checksum")
    return checksum
