"""Contents read back from the journal and the spool, for queues deeper than their window.

Reads block the loop: they are of what will be delivered next, mostly in the page cache. A position
always reads the message it was given for, also after a compaction moved it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Final
from zlib import crc32

from hareline.errors import StoreError
from hareline.message import Message
from hareline.storage.interface import SPOOLED, ContentStore
from hareline.storage.journal.files import Files
from hareline.storage.journal.format.frame import KIND_NAMES, MESSAGE, RECORD_HEAD, RECORD_PREFIX
from hareline.storage.journal.format.positions import OFFSET_BITS, OFFSET_MASK
from hareline.storage.journal.segment import Segment, segment_path
from hareline.storage.journal.writer import JournalWriter
from hareline.storage.store.liveness import Liveness
from hareline.storage.store.message_records import MessageReader
from hareline.storage.store.spool import Spool, position_when_spooled

if TYPE_CHECKING:
    from hareline.storage.store.large_bodies import LargeBodies

OPEN_MAX: Final = 128  # segments kept open to read
_SINGLE_BYTES: Final = 16_384
_WINDOW_BYTES: Final = 1_048_576
# How much the system is asked to read ahead of a run: a tenth of a second of a disk, so that the
# loop finds in memory what comes next.
AHEAD_BYTES: Final = 16_777_216


class JournalContentStore(ContentStore):
    """Contents by position; keeps the segments that were read last open."""

    __slots__ = (
        "_ahead",
        "_files",
        "_liveness",
        "_open",
        "_reader",
        "_spool",
        "_writer",
    )

    def __init__(
        self,
        files: Files,
        writer: JournalWriter,
        liveness: Liveness,
        spool: Spool,
        bodies: LargeBodies | None = None,
    ) -> None:
        self._files = files
        self._writer = writer
        self._liveness = liveness
        self._spool = spool
        self._reader = MessageReader(bodies)
        self._open: dict[int, Segment] = {}
        self._ahead = 0  # the position up to which the system was asked to read

    def read(self, position: int) -> Message:
        return self._message(self._record(position), position)

    def content(self, position: int) -> bytes:
        return self.read(position).content

    def read_run(self, positions: Sequence[int]) -> list[Message]:
        messages: list[Message] = []
        add = messages.append
        number = -1
        window = b""
        start = end = seed = 0
        current = self._liveness.current
        unpack, message_at = RECORD_HEAD.unpack_from, self._reader.message_at
        has_moves = bool(self._liveness.moves)
        for index, position in enumerate(positions):
            place = current(position) if has_moves and position < SPOOLED else position
            offset = place & OFFSET_MASK
            if place >> OFFSET_BITS != number or not start <= offset < end - RECORD_HEAD.size:
                if place >= SPOOLED or self._is_in_flight(place):
                    add(self.read(position))
                    continue
                number = place >> OFFSET_BITS
                segment = self._segment(number)
                seed = segment.seed
                size = self._window_bytes(positions, index, place)
                if size > _SINGLE_BYTES:
                    self._read_ahead(segment, place + size)
                window = self._read(segment, size, offset)
                start, end = offset, offset + len(window)
            at = offset - start
            if len(window) - at >= RECORD_HEAD.size:
                length, checksum, kind = unpack(window, at)
                at += RECORD_PREFIX.size
                last = at + length
                if (
                    kind == MESSAGE
                    and last <= len(window)
                    and crc32(window[at:last], seed) == checksum
                ):
                    add(message_at(window, at + 1, last, position))
                    continue
            add(self.read(position))  # beyond the window, or damaged: raises if so
        return messages

    def _window_bytes(self, positions: Sequence[int], index: int, place: int) -> int:
        """Return how much to read at once: as far as the run goes on close by."""
        last = positions[-1]
        limit = place + _WINDOW_BYTES
        if place < last < limit:
            return last - place + _SINGLE_BYTES
        ahead = positions[min(index + 16, len(positions) - 1)]
        return _WINDOW_BYTES if place < ahead < limit else _SINGLE_BYTES

    def _read_ahead(self, segment: Segment, place: int) -> None:
        """Ask the system to read on behind ``place``, up to which a run was read."""
        left = self._ahead - place
        if 0 <= left <= AHEAD_BYTES and left > AHEAD_BYTES // 2:
            return
        start = self._ahead if 0 <= left <= AHEAD_BYTES else place
        size = min(place + AHEAD_BYTES - start, segment.size_bytes - (start & OFFSET_MASK))
        if start >> OFFSET_BITS == segment.number and size > 0:
            self._files.will_need(segment.fd, start & OFFSET_MASK, size)
            self._ahead = start + size

    def spool(self, message: Message) -> int:
        return self._spool.add(message)

    def drop_spooled(self, positions: Iterable[int]) -> None:
        self._spool.drop(positions)

    def forget_segment(self, number: int) -> None:
        """Close a segment that is freed: its file may become another one."""
        segment = self._open.pop(number, None)
        if segment is not None:
            segment.close(self._files)

    def close(self) -> None:
        for number in list(self._open):
            self.forget_segment(number)
        self._spool.close()

    # ---------------------------------------------------------------- below

    def _message(self, body: bytes, position: int) -> Message:
        payload = memoryview(body)[1:]
        if position >= SPOOLED:
            position = position_when_spooled(payload)
        return self._reader.message_of(payload, position)

    def _record(self, position: int) -> bytes:
        """Return kind and payload of the MESSAGE record. Raises StoreError."""
        if position >= SPOOLED:
            return self._spool.record(position)
        place = self._liveness.current(position)
        offset = place & OFFSET_MASK
        write = self._writer.in_flight
        if write is not None and write.position <= place < write.position + write.octets:
            gathered = write.octets_from(place)
            length, _, kind = RECORD_HEAD.unpack_from(gathered)
            return bytes(gathered[RECORD_PREFIX.size : RECORD_PREFIX.size + length])
        segment = self._segment(place >> OFFSET_BITS)
        octets = self._read(segment, _SINGLE_BYTES, offset)
        if len(octets) < RECORD_HEAD.size:
            raise StoreError(f"{segment.path}: nothing stands at {offset}")
        length, checksum, kind = RECORD_HEAD.unpack_from(octets)
        end = RECORD_PREFIX.size + length
        if end > segment.size_bytes - offset:
            raise StoreError(f"{segment.path}: record at {offset} goes beyond the end")
        if end > len(octets):
            octets += self._read(segment, end - len(octets), offset + len(octets))
        body = octets[RECORD_PREFIX.size : end]
        if crc32(body, segment.seed) != checksum:
            raise StoreError(f"{segment.path}: record at {offset} does not match its checksum")
        if kind != MESSAGE:
            name = KIND_NAMES.get(kind, kind)
            raise StoreError(f"{segment.path}: at {offset} stands no message but {name}")
        return body

    def _is_in_flight(self, place: int) -> bool:
        write = self._writer.in_flight
        return write is not None and place >= write.position

    def _segment(self, number: int) -> Segment:
        segment = self._open.pop(number, None)
        if segment is None:
            path = segment_path(self._writer.directory, number)
            try:
                segment = Segment.open(self._files, path)
            except OSError as error:
                raise StoreError(f"{path}: {error.strerror}") from None
            if len(self._open) >= OPEN_MAX:
                self.forget_segment(next(iter(self._open)))
        self._open[number] = segment  # the one read last stands last
        return segment

    def _read(self, segment: Segment, size: int, offset: int) -> bytes:
        try:
            return self._files.read(segment.fd, size, offset)
        except OSError as error:
            raise StoreError(f"{segment.path}: {error.strerror}") from None
