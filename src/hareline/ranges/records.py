"""Reads MESSAGE records at given places of a journal that the broker goes on writing.

Called by ``ranges.chunks`` in the reader process. Places ascend mostly and lie close together, so
they are read in windows. What is asked for is written and stays where it is while it is read
(``storage.store.pinned``).

Invariant: each record that comes out is a MESSAGE and matches its checksum.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from typing import Final
from zlib import crc32

from hareline.errors import StoreError
from hareline.storage.journal.files import Files
from hareline.storage.journal.format.frame import KIND_NAMES, MESSAGE, RECORD_HEAD, RECORD_PREFIX
from hareline.storage.journal.format.positions import OFFSET_BITS, OFFSET_MASK
from hareline.storage.journal.segment import Segment, segment_path

OPEN_MAX: Final = 16  # segments kept open
WINDOW_BYTES: Final = 1_048_576
_SINGLE_BYTES: Final = 16_384  # read for a record whose neighbours are far away
_LOOK_AHEAD: Final = 16  # places that decide whether they are


class RecordReader:
    """``directory``: of the journal. Keeps segments open until ``close``."""

    def __init__(self, directory: str, files: Files | None = None) -> None:
        self._directory = directory
        self._files = Files() if files is None else files
        self._open: dict[int, Segment] = {}

    def read(self, places: array[int]) -> Iterator[tuple[bytes, int, int]]:
        """Yield octets, and where in them the payload of each record begins and ends.

        Raises StoreError, which names the file, at the first place without a valid record.
        """
        number = -1
        window = b""
        start = seed = 0
        for index, place in enumerate(places):
            offset = place & OFFSET_MASK
            at = offset - start
            if place >> OFFSET_BITS != number or not 0 <= at <= len(window) - RECORD_HEAD.size:
                segment = self._segment(place >> OFFSET_BITS)
                number, seed, start, at = segment.number, segment.seed, offset, 0
                window = self._octets(segment, offset, _window_bytes(places, index))
            if at + RECORD_HEAD.size <= len(window):
                length, checksum, kind = RECORD_HEAD.unpack_from(window, at)
                first = at + RECORD_PREFIX.size
                last = first + length
                if (
                    last <= len(window)
                    and kind == MESSAGE
                    and crc32(window[first:last], seed) == checksum
                ):
                    yield window, first + 1, last
                    continue
            body = self._single(self._segment(number), offset)
            yield body, 1, len(body)

    def close(self) -> None:
        """Close all segments; they are opened again when they are needed."""
        segments, self._open = self._open, {}
        for segment in segments.values():
            segment.close(self._files)

    def _single(self, segment: Segment, offset: int) -> bytes:
        """Kind and payload of the record there, which does not stand in a window as a whole."""
        head = self._octets(segment, offset, RECORD_HEAD.size)
        if len(head) < RECORD_HEAD.size:
            raise StoreError(f"{segment.path}: nothing stands at {offset}")
        length, checksum, kind = RECORD_HEAD.unpack_from(head)
        if RECORD_PREFIX.size + length > segment.size_bytes - offset:
            raise StoreError(f"{segment.path}: record at {offset} goes beyond the end")
        body = self._octets(segment, offset + RECORD_PREFIX.size, length)
        if crc32(body, segment.seed) != checksum:
            raise StoreError(f"{segment.path}: record at {offset} does not match its checksum")
        if kind != MESSAGE:
            name = KIND_NAMES.get(kind, kind)
            raise StoreError(f"{segment.path}: at {offset} stands no message but {name}")
        return body

    def _segment(self, number: int) -> Segment:
        segment = self._open.pop(number, None)
        if segment is None:
            path = segment_path(self._directory, number)
            try:
                segment = Segment.open(self._files, path)
            except OSError as error:
                raise StoreError(f"{path}: {error.strerror}") from None
            if len(self._open) >= OPEN_MAX:
                self._open.pop(next(iter(self._open))).close(self._files)
        self._open[number] = segment  # the one read last stands last
        return segment

    def _octets(self, segment: Segment, offset: int, size: int) -> bytes:
        try:
            return self._files.read(segment.fd, size, offset)
        except OSError as error:
            raise StoreError(f"{segment.path}: {error.strerror}") from None


def _window_bytes(places: array[int], index: int) -> int:
    """Octets to read at once: as far as the places go on close by."""
    place, last = places[index], places[-1]
    if place < last < place + WINDOW_BYTES:
        return last - place + _SINGLE_BYTES
    ahead = places[min(index + _LOOK_AHEAD, len(places) - 1)]
    return WINDOW_BYTES if place < ahead < place + WINDOW_BYTES else _SINGLE_BYTES
