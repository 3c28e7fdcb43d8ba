"""Compaction: live records of a mostly dead segment are moved to the tail.

The sealed segment with the least is read in chunks, in a thread, and each batch moves the records
of one chunk, with exactly those entries that live then. Meanwhile no segment is freed: what says
that one of the two copies of an entry is settled must outlive both.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import TYPE_CHECKING, Final, NamedTuple
from zlib import crc32

from hareline.errors import StoreError
from hareline.storage.journal.files import Files
from hareline.storage.journal.format.frame import MESSAGE, RECORD_HEAD, RECORD_PREFIX
from hareline.storage.journal.format.message import (
    DELIVERY_COUNT_MAX,
    ENTRY,
    KIND_AND_MESSAGE_HEAD,
    MESSAGE_HEAD,
    MOVED,
    WAS_DELIVERED,
    decode_entries,
)
from hareline.storage.journal.format.positions import position_of
from hareline.storage.journal.segment import Segment, segment_path
from hareline.storage.journal.syncer import Syncer, Task, Work
from hareline.storage.store.liveness import Liveness, Moves, SegmentBooks

if TYPE_CHECKING:
    from hareline.storage.store.ledger import DurableLedger

CHUNK_BYTES: Final = 262_144
#: Compaction begins below this share of live octets, and takes only segments below it.
LIVE_SHARE: Final = 0.5


class MovedRecord(NamedTuple):
    """A record to write again.

    ``offset``: in the file it comes from. ``body``: kind and payload as they are to be written.

    ``entries``: queue id and offset of each.
    """

    offset: int
    body: bytes
    entries: list[tuple[int, int]]


class Dead:
    """The settled entries of the source: runs as they were at the beginning, and those since.

    ``prepare`` is the long part, for the thread; ``add`` may be called before it, ``has`` after.
    """

    __slots__ = ("_ends", "_firsts", "_reported", "_since")

    def __init__(self, books: SegmentBooks) -> None:
        self._reported = [triples[:] for triples in books.settled.values()]
        self._firsts: dict[int, list[int]] = {}
        self._ends: dict[int, list[int]] = {}
        self._since: set[tuple[int, int]] = set()

    def prepare(self) -> None:
        """Sort what was known at the beginning."""
        runs: dict[int, list[tuple[int, int]]] = {}
        for triples in self._reported:
            fields = iter(triples)
            for queue_id, first, count in zip(fields, fields, fields, strict=True):
                runs.setdefault(queue_id, []).append((first, first + count))
        self._reported = []
        for queue_id, of_queue in runs.items():
            of_queue.sort()
            self._firsts[queue_id] = [first for first, _ in of_queue]
            highest = 0  # runs may overlap: a forwarded one, an older copy
            self._ends[queue_id] = [highest := max(highest, end) for _, end in of_queue]

    def add(self, queue_id: int, first: int, end: int) -> None:
        self._since.update((queue_id, offset) for offset in range(first, end))

    def has(self, queue_id: int, offset: int) -> bool:
        firsts = self._firsts.get(queue_id)
        if firsts is not None:
            index = bisect_right(firsts, offset) - 1
            if index >= 0 and offset < self._ends[queue_id][index]:
                return True
        return (queue_id, offset) in self._since


class Compactor:
    """One source at a time. ``source``: its number, 0 for none. ``moved_bytes``: written so far.

    ``on_chunk`` is called when there is something for the next batch; ``report`` gets a sentence
    when a segment cannot be read back.
    """

    __slots__ = (
        "_at",
        "_chunk",
        "_dead",
        "_directory",
        "_failure",
        "_files",
        "_first",
        "_ledgers",
        "_liveness",
        "_on_chunk",
        "_reading",
        "_report",
        "_syncer",
        "_unreadable",
        "is_off",
        "moved_bytes",
        "source",
        "void_position",
    )

    def __init__(
        self,
        files: Files,
        directory: str,
        syncer: Syncer,
        liveness: Liveness,
        ledgers: dict[int, DurableLedger],
        on_chunk: Callable[[], None],
        report: Callable[[str], None],
    ) -> None:
        self._files = files
        self._directory = directory
        self._syncer = syncer
        self._liveness = liveness
        self._ledgers = ledgers
        self._on_chunk = on_chunk
        self._report = report
        self._first: deque[int] = deque()
        self._unreadable: set[int] = set()
        self._reading: Reading | None = None
        self._chunk = b""
        self._at = 0
        self._failure = ""
        self._dead: Dead | None = None
        self.source = 0
        self.is_off = False
        self.moved_bytes = 0
        self.void_position = 0

    @property
    def is_due(self) -> bool:
        """True if a chunk waits for a batch."""
        return bool(self._chunk)

    def resume(self, numbers: Iterable[int]) -> None:
        """Begin with these, which a crash interrupted; nothing is freed before they are done."""
        self._first.extend(numbers)

    @property
    def is_active(self) -> bool:
        """True while no segment may be freed."""
        return bool(self.source or self._first)

    def consider(self, has_room: bool) -> None:
        """Begin, if it is time; called after a batch. ``has_room``: for half a segment more."""
        if self.source or self.is_off:
            return
        if self._first:
            number = self._first.popleft()
        elif has_room and self._liveness.share < LIVE_SHARE:
            number = self._candidate()
        else:
            return
        books = self._liveness.segments.get(number)
        if books is None:
            return
        self.source = number
        if not books.live:  # an interrupted one that had come to its end
            self._end()
            return
        self._dead = Dead(books)
        self._liveness.moves.setdefault(number, Moves())
        self._at = 0
        self._reading = Reading(
            self._files,
            segment_path(self._directory, number),
            books.end,
            self._dead,
            self._on_read,
        )
        self._syncer.submit(self._reading)

    def _candidate(self) -> int:
        best, number = LIVE_SHARE, 0
        for books in self._liveness.sealed():
            if 0 < books.live < best * books.total and books.number not in self._unreadable:
                best, number = books.live / books.total, books.number
        return number

    def on_settled(self, queue_id: int, first: int, end: int) -> None:
        """Note a run of entries of the source that the batch being built settles."""
        if self._dead is not None:
            self._dead.add(queue_id, first, end)

    def _on_read(self, reading: Reading) -> None:
        if reading is not self._reading:
            return  # given up meanwhile
        if reading.error:
            self._give_up(reading.error)
            return
        self._chunk = reading.chunk
        self._at = reading.at
        self._on_chunk()

    def take(self) -> list[MovedRecord]:
        """Return the live records of the chunk that was read, and have the next one read."""
        chunk, self._chunk = self._chunk, b""
        reading = self._reading
        if not chunk or reading is None:
            return []
        moved: list[MovedRecord] = []
        at = 0
        while len(chunk) - at >= RECORD_HEAD.size:
            length, checksum, kind = RECORD_HEAD.unpack_from(chunk, at)
            end = at + RECORD_PREFIX.size + length
            if end > len(chunk):
                break
            body = chunk[at + RECORD_PREFIX.size : end]
            if not length or crc32(body, reading.seed) != checksum:
                self._failure = f"record at {self._at + at} does not match its checksum"
                return moved
            if kind == MESSAGE:
                record = self._living(body, self._at + at)
                if record is not None:
                    moved.append(record)
            at = end
        self._at += at
        if self._at < reading.end:
            needed = CHUNK_BYTES
            if at == 0:  # one record longer than that
                length = RECORD_PREFIX.unpack_from(chunk)[0] if len(chunk) >= 8 else 0
                needed = RECORD_PREFIX.size + length
                if self._at + needed > reading.end or needed <= len(chunk):
                    self._failure = f"record at {self._at} goes beyond the end"
                    return moved
            self._read_on(reading, needed)
        return moved

    def _read_on(self, reading: Reading, size: int) -> None:
        reading.at = self._at
        reading.size = size
        self._syncer.submit(reading)

    def _living(self, body: bytes, offset: int) -> MovedRecord | None:
        """Return what to write of a MESSAGE record; None if all its entries are gone."""
        dead = self._dead
        assert dead is not None, "no compaction is under way"
        listed = []
        keys = []
        is_void = position_of(self.source, offset) < self.void_position
        payload = memoryview(body)[1:]
        entries = decode_entries(payload)
        for queue_id, entry_offset, count, flags in entries:
            ledger = self._ledgers.get(queue_id)
            if ledger is None or dead.has(queue_id, entry_offset):
                continue
            known, _ = ledger.books.returns.get(entry_offset, (count, 0))
            kept = flags & ~WAS_DELIVERED if is_void else flags
            listed.append(ENTRY.pack(queue_id, entry_offset, min(known, DELIVERY_COUNT_MAX), kept))
            keys.append((queue_id, entry_offset))
        if not listed:
            return None
        flags, arrival_ms, channel, header_size, size, _ = MESSAGE_HEAD.unpack_from(payload)
        head = KIND_AND_MESSAGE_HEAD.pack(
            MESSAGE, flags | MOVED, arrival_ms, channel, header_size, size, len(listed)
        )
        rest = payload[MESSAGE_HEAD.size + len(entries) * ENTRY.size :]
        return MovedRecord(offset, b"".join((head, *listed, rest)), keys)

    def moved(self, record: MovedRecord, position: int, tail: SegmentBooks) -> None:
        """Note that a record stands in the batch being built, at this position."""
        liveness = self._liveness
        source = self.source
        for queue_id, offset in record.entries:
            self._ledgers[queue_id].books.move(offset, source, tail)
        tail.total += len(record.entries)
        liveness.moves[source].add(
            record.offset, position, [queue_id for queue_id, _ in record.entries]
        )
        self.moved_bytes += len(record.body) + RECORD_PREFIX.size

    def after_batch(self) -> None:
        """End the compaction of the segment if all its live records are in a batch."""
        reading = self._reading
        if reading is None:
            return
        if self._failure:
            self._give_up(f"{reading.path}: {self._failure}")
            return
        if self._at < reading.end:
            return
        books = self._liveness.segments[self.source]
        if books.live:
            self._give_up(f"{reading.path}: {books.live} entries were not found in it")
            return
        self._end()

    def _end(self) -> None:
        self.close()
        self._liveness.emptied.add(self.source)
        self.source = 0
        self._dead = None
        self._liveness.has_dead = True

    def _give_up(self, why: str) -> None:
        """Leave the segment as it is; if some of it was moved, nothing is freed any more."""
        self._report(f"compaction given up: {why}")
        self._failure = ""
        self._unreadable.add(self.source)
        moves = self._liveness.moves[self.source]
        self.close()
        if moves.offsets:
            self.is_off = True  # ``source`` stays, so nothing is freed
            return
        del self._liveness.moves[self.source]
        self.source = 0
        self._dead = None

    def close(self) -> None:
        reading, self._reading = self._reading, None
        self._chunk = b""
        if reading is not None:
            self._syncer.submit(Task(reading.close))


class Reading(Work):
    """Read a segment chunk by chunk: ``size`` octets from ``at``, 0 to begin."""

    __slots__ = (
        "_dead",
        "_files",
        "_on_read",
        "at",
        "chunk",
        "end",
        "error",
        "path",
        "seed",
        "segment",
        "size",
    )

    def __init__(
        self,
        files: Files,
        path: str,
        end: int,
        dead: Dead,
        on_read: Callable[[Reading], None],
    ) -> None:
        self._files = files
        self._dead = dead
        self._on_read = on_read
        self.path = path
        self.end = end
        self.at = 0
        self.size = CHUNK_BYTES
        self.seed = 0
        self.chunk = b""
        self.error = ""
        self.segment: Segment | None = None

    def run(self) -> None:
        try:
            if self.segment is None:
                self._dead.prepare()
                self.segment = Segment.open(self._files, self.path)
                self.seed = self.segment.seed
                self.at = self.segment.header.size_bytes
            size = min(self.size, self.end - self.at)
            self.chunk = self._files.read(self.segment.fd, size, self.at)
            if len(self.chunk) < size:
                self.error = f"{self.path}: shorter than it was"
        except OSError as error:
            self.error = f"{self.path}: {error.strerror}"
        except StoreError as error:
            self.error = str(error)

    def finished(self) -> None:
        self._on_read(self)

    def close(self) -> None:
        segment, self.segment = self.segment, None
        if segment is not None:
            with suppress(OSError):  # the descriptor is gone anyway
                segment.close(self._files)
