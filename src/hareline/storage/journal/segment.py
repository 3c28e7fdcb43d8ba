"""One file of the journal: making it, using an old one again, opening it, one record.

Nothing here syncs: the caller syncs a new file and its directory before a batch in it counts as
durable. A crash in between leaves a torn tail. ``<number>.log`` is a segment; all else in the
directory has another name.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Final
from zlib import crc32

from hareline.storage.journal.files import Files
from hareline.storage.journal.format.frame import (
    BATCH_SIZE,
    RECORD_HEAD,
    RECORD_OVERHEAD,
    RECORD_PREFIX,
    MalformedRecord,
)
from hareline.storage.journal.format.header import (
    HEADER_SIZE_MIN,
    SegmentHeader,
    UnsupportedVersion,
    decode_header,
    encode_header,
    header_octets_needed,
    header_size,
)
from hareline.storage.journal.format.positions import (
    SEGMENT_BYTES_MAX,
    SEGMENT_NUMBER_MAX,
    segment_name,
)

SPARE_PREFIX: Final = "spare-"
SALT_BITS: Final = 32
_SINGLE_READ_BYTES: Final = 4096


class Segment:
    """An open segment file.

    ``end``: where the next batch goes, and once it is sealed where its last batch ends.
    ``size_bytes``: octets of the file. ``seed``: what the checksums of its records begin with.
    """

    __slots__ = ("end", "fd", "header", "number", "path", "seed", "size_bytes")

    def __init__(self, path: str, fd: int, header: SegmentHeader, size_bytes: int) -> None:
        self.path = path
        self.fd = fd
        self.header = header
        self.number = header.number
        self.seed = header.seed
        self.size_bytes = size_bytes
        self.end = header.size_bytes

    @classmethod
    def create(
        cls, files: Files, directory: str, header: SegmentHeader, size_bytes: int
    ) -> Segment:
        """Make a new file, preallocated. Raises OSError, and then there is no such file."""
        _check(header, size_bytes)
        path = segment_path(directory, header.number)
        fd = files.open(path, create=True)
        try:
            files.allocate(fd, size_bytes)
            files.write(fd, [encode_header(header)], 0)
        except OSError:
            files.close(fd)
            files.unlink(path)
            raise
        return Segment(path, fd, header, size_bytes)

    @classmethod
    def recycle(
        cls, files: Files, spare: str, directory: str, header: SegmentHeader, size_bytes: int
    ) -> Segment:
        """Make one of the file ``spare`` (a path), which gets the name of the segment.

        Octets of its former life are never valid, since the checksums have another seed. Raises
        OSError, and then the spare is as good as before.
        """
        _check(header, size_bytes)
        path = segment_path(directory, header.number)
        fd = files.open(spare, create=False)
        try:
            size = files.size(fd)
            if size < size_bytes:
                files.allocate(fd, size_bytes)
                size = size_bytes
            files.write(fd, [encode_header(header)], 0)
            files.rename(spare, path)
        except OSError:
            files.close(fd)
            raise
        return Segment(path, fd, header, size)

    @classmethod
    def open(cls, files: Files, path: str) -> Segment:
        """Open it to read. ``end`` is where the first batch stands: the reader finds the last.

        Raises OSError, MalformedRecord (no header that could be read), UnsupportedVersion; the last
        two begin with the path.
        """
        fd = files.open_to_read(path)
        try:
            return Segment(path, fd, read_header(files, fd, path), files.size(fd))
        except BaseException:
            files.close(fd)
            raise

    def close(self, files: Files) -> None:
        files.close(self.fd)

    def __repr__(self) -> str:
        return f"<Segment {self.number}, {self.end} of {self.size_bytes} octets>"


def read_header(files: Files, fd: int, path: str) -> SegmentHeader:
    """Return the header. Raises OSError, MalformedRecord and UnsupportedVersion, with the path."""
    try:
        octets = files.read(fd, HEADER_SIZE_MIN, 0)
        needed = header_octets_needed(octets)
        if needed > files.size(fd):
            raise MalformedRecord(f"segment header of {needed} octets is longer than the file")
        return decode_header(files.read(fd, needed, 0))
    except UnsupportedVersion as error:
        error.args = (f"{path}: {error}",)
        error.explanation = error.args[0]
        raise
    except MalformedRecord as error:
        raise MalformedRecord(f"{path}: {error}") from None


def read_record(
    files: Files, fd: int, offset: int, seed: int, *, size_hint: int = _SINGLE_READ_BYTES
) -> tuple[int, memoryview]:
    """Return kind and payload of the record at ``offset``, verified by its checksum.

    ``size_hint``: octets of the first read; a longer record takes a second one. Raises OSError, and
    MalformedRecord where no valid record stands there.
    """
    octets = files.read(fd, max(size_hint, RECORD_OVERHEAD), offset)
    if len(octets) < RECORD_OVERHEAD:
        raise MalformedRecord(f"no record at offset {offset}: the file ends")
    length, checksum, kind = RECORD_HEAD.unpack_from(octets)
    end = RECORD_PREFIX.size + length
    if end > len(octets):
        if end > files.size(fd) - offset:
            raise MalformedRecord(f"no record at offset {offset}: it would go beyond the file")
        octets += files.read(fd, end - len(octets), offset + len(octets))
    view = memoryview(octets)[RECORD_PREFIX.size : end]
    if not length or crc32(view, seed) != checksum:
        raise MalformedRecord(f"no record at offset {offset}: checksum does not match")
    return kind, view[1:]


def make_spare(files: Files, directory: str, number: int, size_bytes: int) -> str:
    """Make a file for ``recycle``; returns its path. Raises OSError, and then nothing is left.

    ``number``: any that no spare has; freed segments that become spares keep theirs.
    """
    path = spare_path(directory, number)
    fd = files.open(path, create=True)
    try:
        files.allocate(fd, size_bytes)
    except OSError:
        files.close(fd)
        files.unlink(path)
        raise
    files.close(fd)
    return path


def segment_path(directory: str, number: int) -> str:
    return f"{directory}/{segment_name(number)}"


def spare_path(directory: str, number: int) -> str:
    return f"{directory}/{SPARE_PREFIX}{number:016x}"


def new_header(
    number: int, created_ms: int, manifest: Sequence[tuple[int, int]] = ()
) -> SegmentHeader:
    """Return the header of a segment to make; its salt is drawn at random.

    ``manifest``: (number, end) of live segments before it.
    """
    salt = int.from_bytes(os.urandom(SALT_BITS // 8), "little")
    return SegmentHeader(number, created_ms, salt, tuple(manifest), header_size(len(manifest)))


def _check(header: SegmentHeader, size_bytes: int) -> None:
    if not 0 < header.number <= SEGMENT_NUMBER_MAX:
        raise ValueError(f"segment number {header.number} is not from 1 to {SEGMENT_NUMBER_MAX}")
    least = header.size_bytes + BATCH_SIZE
    if not least <= size_bytes <= SEGMENT_BYTES_MAX:
        raise ValueError(f"segment of {size_bytes} octets: not from {least} to {SEGMENT_BYTES_MAX}")
