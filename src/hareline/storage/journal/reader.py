"""Reading a journal from its first live segment to its end, batch by batch.

Called by recovery and by the offline tools. Which files belong to the journal is said by the newest
header that can be read: its manifest and itself, without what FREE records after it name, and what
has a higher number. A batch counts only whole.

Invariant: what is yielded was written by the broker, in this order, and its checksums are right;
whatever cannot be read is either a torn tail, by the rule of docs/journal-format.md, or has been
shown to the ``Reporter``.                                                                   [hot]
"""

from __future__ import annotations

from collections.abc import Container, Generator, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple
from zlib import crc32

from hareline.storage.journal.damage import Damage, Decision, JournalDamaged, Reporter
from hareline.storage.journal.files import Files
from hareline.storage.journal.format.frame import (
    BATCH_SIZE,
    CHECKPOINT,
    FREE,
    RECORD_HEAD,
    RECORD_OVERHEAD,
    RECORD_PREFIX,
    Batch,
    MalformedRecord,
    decode_batch,
)
from hareline.storage.journal.format.positions import (
    number_of_name,
    offset_of,
    position_of,
    segment_name,
)
from hareline.storage.journal.format.records import decode_free
from hareline.storage.journal.search import (
    Record,
    Stretch,
    find_batches,
    open_damaged,
    parse_records,
    salvage,
)
from hareline.storage.journal.segment import Segment

__all__ = ["Damage", "Decision", "JournalDamaged", "JournalReader", "ReadBatch", "ReadSegment"]

_CHUNK_BYTES: Final = 4 << 20
_READ_AHEAD_BYTES: Final = 16 << 20
_SINGLE_READ_BYTES: Final = 4096


class ReadBatch(NamedTuple):
    """``records``: (position, kind, payload without the kind), never BATCH nor GAP; ``gaps``: the
    latter, in the same way, where the batch is whole.

    ``end``: the position behind it. ``is_whole``: nothing in it was damaged. ``durable`` and
    ``time_ms`` are 0 where the batch's head itself was. Payloads are views of one large piece of
    octets: what outlives the batch should be copied.
    """

    position: int
    end: int
    durable: int
    time_ms: int
    is_whole: bool
    records: list[Record]
    gaps: Sequence[Record] = ()


@dataclass(slots=True)
class ReadSegment:
    """A file of the journal. ``end``: where its last batch ends, final when it has been read.

    ``end`` is 0 where it is not known before. ``segment`` is None where there is nothing to be read
    in it (never so in ``live`` once all is read), ``problem`` says why, or what is wrong with its
    header.
    """

    number: int
    path: str
    size_bytes: int
    end: int
    segment: Segment | None
    problem: str = ""
    is_missing: bool = False


class JournalReader:
    """One pass over a journal, by one call of ``batches``.

    ``live``: the segments, ascending; once ``batches`` is through, those that belong to what was
    yielded, and ``strays`` the paths of files that do not: freed ones, and those behind a cut.
    ``cut_position``: from where on everything was given up, torn or by order; 0 for nowhere.
    ``newest``: number of a segment that was durable for certain, its first batch included, and so
    were all before it; 0 if that is not known.
    Raises OSError, UnsupportedVersion and StoreError, each naming the file; ``close`` it.
    """

    def __init__(
        self,
        files: Files,
        directory: str,
        reporter: Reporter,
        *,
        newest: int = 0,
        chunk_bytes: int = _CHUNK_BYTES,
    ) -> None:
        self.live: list[ReadSegment] = []
        self.strays: list[str] = []
        self._newest = newest
        self._files = files
        self._directory = directory
        self._reporter = reporter
        self._chunk_bytes = max(chunk_bytes, BATCH_SIZE)
        self.cut_position = 0
        self._done_octets = 0
        self._all_octets = 0
        try:
            self._survey()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Close the files. They are open until then, for ``segment`` of ``live`` is of use."""
        for source in self.live:
            if source.segment is not None:
                source.segment.close(self._files)
        self.live = []

    def batches(self) -> Iterator[ReadBatch]:
        """All of them. Raises JournalDamaged where the reporter says FAIL."""
        self._all_octets = sum(source.end or source.size_bytes for source in self.live)
        for index, source in enumerate(self.live):
            yield from self._read_segment(index)
            if self.cut_position:
                self._drop_from(index + 1 if source.end else index)
                break
            self._done_octets += source.end
        self.live = [source for source in self.live if source.segment is not None]
        self._reporter.on_progress(self._all_octets, self._all_octets)

    # Which files there are.

    def _survey(self) -> None:
        numbers = sorted(
            number
            for name in self._files.list(self._directory)
            if (number := number_of_name(name)) is not None
        )
        for number in numbers:
            self.live.append(self._open(number))
        self._choose_live(numbers)
        last = max(numbers, default=0)
        if last < self._newest:
            source = self._missing(self._newest)
            source.problem = "the file of the newest segment is missing"
            if last + 1 < self._newest:
                source.problem += ", those of earlier ones may be too"
            self.live.append(source)

    def _choose_live(self, numbers: list[int]) -> None:
        """Of the files that are there, those of the journal; and those that should be there."""
        found = {source.number: source for source in self.live}
        newest = self._newest_readable()
        if newest is None or newest.segment is None:
            return
        wanted = dict(newest.segment.header.manifest)
        later = [number for number in numbers if number >= newest.number]
        freed = self._freed_in([found[number] for number in later], found)
        for number in freed:
            wanted.pop(number, None)
        self.live = []
        for number in sorted({*wanted, *(number for number in later if number not in freed)}):
            source = found.pop(number, None) or self._missing(number)
            source.end = wanted.get(number, 0)
            self.live.append(source)
        for source in found.values():
            self.strays.append(source.path)
            if source.segment is not None:
                source.segment.close(self._files)

    def _open(self, number: int) -> ReadSegment:
        path = f"{self._directory}/{segment_name(number)}"
        try:
            segment = Segment.open(self._files, path)
        except MalformedRecord as error:
            damaged = open_damaged(self._files, path, number)
            problem = str(error).removeprefix(f"{path}: ")
            size = damaged.size_bytes if damaged is not None else self._size_of(path)
            return ReadSegment(number, path, size, 0, damaged, problem)
        if segment.number != number:
            # A recycled file whose new name outlived a crash, and whose new header did not.
            segment.close(self._files)
            problem = f"header of segment {segment.number:#x} in this file"
            return ReadSegment(number, path, segment.size_bytes, 0, None, problem)
        return ReadSegment(number, path, segment.size_bytes, 0, segment)

    def _size_of(self, path: str) -> int:
        fd = self._files.open_to_read(path)
        try:
            return self._files.size(fd)
        finally:
            self._files.close(fd)

    def _missing(self, number: int) -> ReadSegment:
        path = f"{self._directory}/{segment_name(number)}"
        return ReadSegment(number, path, 0, 0, None, "the file is missing", is_missing=True)

    def _newest_readable(self) -> ReadSegment | None:
        for source in reversed(self.live):
            if source.segment is not None and not source.problem:
                return source
        return None

    def _freed_in(self, sources: list[ReadSegment], numbers: Container[int]) -> set[int]:
        """Segments that whole batches in these say are freed; ``numbers`` of those there are.

        A batch behind a torn one will be cut off with it, and what it frees is needed still. That
        has not gone yet, since FREE is durable before a file goes.
        """
        told: list[tuple[int, bool, list[int]]] = []  # position, nothing torn before, segments
        durable = 0
        is_whole = True
        for source in sources:
            segment = source.segment
            if segment is None:
                is_whole = False
                continue
            at = segment.header.size_bytes
            for batch in self._batches_in(source, 0):
                durable = max(durable, batch.durable)
                records, is_valid = self._records_of(segment, batch)
                is_whole = is_whole and is_valid and offset_of(batch.position) == at
                at = offset_of(batch.position) + BATCH_SIZE + batch.octets
                if is_valid:
                    told += [
                        (batch.position, is_whole, decode_free(payload))
                        for _, kind, payload in records
                        if kind == FREE
                    ]
            is_whole = False  # nobody knows where it should have ended
        return {
            number
            for position, is_first, freed in told
            for number in freed
            if is_first or position < durable or number not in numbers
        }

    def _records_of(self, segment: Segment, batch: Batch) -> tuple[list[Record], bool]:
        start = offset_of(batch.position) + BATCH_SIZE
        octets = self._files.read(segment.fd, batch.octets, start)
        position = position_of(segment.number, start)
        if len(octets) < batch.octets:
            return [], False
        view = memoryview(octets)
        records, count, stop = parse_records(view, 0, len(octets), segment.seed, position)
        return records, stop == len(octets) and count == batch.records

    # From the first batch to the last.

    def _read_segment(self, index: int) -> Iterator[ReadBatch]:
        source = self.live[index]
        if source.problem and not self._is_header_passed(index):
            return
        segment = source.segment
        if segment is None:
            return
        at = segment.header.size_bytes
        while at >= 0:
            for batch in self._whole_batches(source, segment, at):
                at = offset_of(batch.end)
                yield batch
            at = yield from self._mend(index, segment, at)

    def _whole_batches(self, source: ReadSegment, segment: Segment, at: int) -> Iterator[ReadBatch]:
        """From offset ``at`` up to the first thing that is no whole batch."""
        limit = _limit(source)
        seed = segment.seed
        first = position_of(segment.number, 0)
        window = memoryview(b"")
        base = at
        while True:
            if at + BATCH_SIZE > base + len(window):
                window, base = self._window(segment, at, BATCH_SIZE, limit), at
            batch = decode_batch(window, at - base, seed)
            if batch is None or batch.position != first + at:
                return
            end = at + BATCH_SIZE + batch.octets
            if end > base + len(window):
                window, base = self._window(segment, at, end - at, limit), at
                if end > base + len(window):
                    return
            gaps: list[Record] = []
            records, count, stop = parse_records(
                window, at - base + BATCH_SIZE, end - base, seed, first + base, gaps
            )
            if stop != end - base or count != batch.records:
                return
            yield ReadBatch(
                first + at, first + end, batch.durable, batch.time_ms, True, records, gaps
            )
            at = end

    def _window(self, segment: Segment, at: int, wanted: int, limit: int) -> memoryview:
        """A large piece from ``at`` on, with ``wanted`` octets if there are so many."""
        size = min(max(wanted, self._chunk_bytes), limit - at)
        if size <= 0:
            return memoryview(b"")
        octets = self._files.read(segment.fd, size, at)
        ahead = at + len(octets)
        if ahead < limit:
            self._files.will_need(segment.fd, ahead, min(_READ_AHEAD_BYTES, limit - ahead))
        self._reporter.on_progress(self._done_octets + at, self._all_octets)
        return memoryview(octets)

    # Where the last whole batch ends.

    def _mend(self, index: int, segment: Segment, at: int) -> Generator[ReadBatch, None, int]:
        """What stands at ``at`` is no whole batch. Returns where one stands again, -1 for nowhere.

        It is the end as the manifest has it, or a torn tail, or damage.
        """
        source = self.live[index]
        if at == source.end or self._is_end_by_next(index, at):
            source.end = at
            return -1
        batch = self._batch_at(segment, at)
        is_said = self._is_said_durable(index, at)
        if not is_said and not self._is_before_newest(source, at):
            self._cut(source, at)
            if batch is not None:
                octets = BATCH_SIZE + batch.octets
                self._reporter.on_torn_tail(source.path, batch.position, octets)
            return -1
        end, is_last = self._next_batch(source, segment, at)
        view = memoryview(self._files.read(segment.fd, end - at, at))
        records, stretches = salvage(view, at, segment, has_head=batch is not None)
        is_known = bool(source.end) or is_said or at == segment.header.size_bytes
        if is_last and not is_known and batch is None and not records:
            source.end = at  # nothing says that it went on, and nothing of it stands here
            return -1
        if is_last and source.end > source.size_bytes:
            what = f"the file ends at {source.size_bytes}, the journal went on to {source.end}"
            stretches.append(Stretch(end, source.end, what))
        if not stretches:
            stretches.append(Stretch(at, end, "a batch has not the records it should have"))
        if self._is_to_cut(index, stretches, at):
            self._cut(source, at)
            return -1
        if is_last:
            source.end = end
        if records:
            durable, time_ms = (batch.durable, batch.time_ms) if batch is not None else (0, 0)
            first = position_of(segment.number, 0)
            yield ReadBatch(first + at, first + end, durable, time_ms, False, records)
        return end

    def _is_header_passed(self, index: int) -> bool:
        """Whether to go on with a segment whose header cannot be read, as far as there is one."""
        source = self.live[index]
        is_durable = self._is_before_newest(source, 0) or self._is_said_durable(index, 0)
        if not source.is_missing and not is_durable:
            self._cut(source, 0)
            return False
        octets = source.end or source.size_bytes
        is_told = False
        if source.segment is not None:
            octets = source.segment.header.size_bytes
            is_told = self._begins_with_checkpoint(source, source.segment)
        if self._is_to_cut(index, [Stretch(0, octets, source.problem, is_told=is_told)], 0):
            self._cut(source, 0)
            return False
        return True

    def _begins_with_checkpoint(self, source: ReadSegment, segment: Segment) -> bool:
        """Whether the first batch that is found is the first there was."""
        first = next(self._batches_in(source, 0), None)
        records = self._records_of(segment, first)[0] if first is not None else []
        return bool(records) and records[0][1] == CHECKPOINT

    def _is_end_by_next(self, index: int, at: int) -> bool:
        """Whether the next segment, its header being unreadable, began when all was durable here.

        Its manifest would say where this one ends; what was durable by its first batch says it too.
        """
        if self.live[index].end or index + 1 == len(self.live):
            return False
        following = next(self._batches_in(self.live[index + 1], 0), None)
        here = position_of(self.live[index].number, at)
        return following is not None and following.durable == here

    def _is_before_newest(self, source: ReadSegment, at: int) -> bool:
        """Whether what stood here was durable when the newest segment had its first batch."""
        if source.number != self._newest:
            return source.number < self._newest
        return at <= (source.segment.header.size_bytes if source.segment is not None else 0)

    def _is_said_durable(self, index: int, at: int) -> bool:
        """Whether any batch behind says that what stands here was durable: then it is no torn tail.

        Batches are handed to the disk one after the other, but reach it in any order.
        """
        position = position_of(self.live[index].number, at)
        for later, source in enumerate(self.live[index:]):
            for batch in self._batches_in(source, 0 if later else at + 1):
                if batch.durable > position:
                    return True
        return False

    def _batches_in(self, source: ReadSegment, start: int) -> Iterator[Batch]:
        segment = source.segment
        if segment is None:
            return iter(())
        start = max(start, segment.header.size_bytes)
        return find_batches(self._files, segment, start, _limit(source), segment.seed)

    def _batch_at(self, segment: Segment, at: int) -> Batch | None:
        batch = decode_batch(self._files.read(segment.fd, BATCH_SIZE, at), 0, segment.seed)
        return batch if batch is None or offset_of(batch.position) == at else None

    def _next_batch(self, source: ReadSegment, segment: Segment, at: int) -> tuple[int, bool]:
        """Where the damage at ``at`` ends at the latest, and whether that is the end of it all."""
        following = next(self._batches_in(source, at + 1), None)
        if following is not None:
            return offset_of(following.position), False
        end = _limit(source)
        if source.end == 0:  # a preallocated file: nobody knows where it ended but by its zeros
            octets = self._files.read(segment.fd, end - at, at)
            end = at + (len(octets.rstrip(b"\0")) or len(octets))
        return end, True

    def _is_to_cut(self, index: int, stretches: list[Stretch], cut_at: int) -> bool:
        """Show the damage. Raises JournalDamaged for FAIL; whether the answer is TRUNCATE."""
        source = self.live[index]
        cut_octets = self._octets_from(index, cut_at)
        for stretch in stretches:
            damage = Damage(
                source.path,
                position_of(source.number, stretch.start),
                stretch.end - stretch.start,
                stretch.what,
                stretch.kind,
                stretch.entries,
                stretch.is_told,
                position_of(source.number, cut_at),
                cut_octets,
            )
            decision = self._reporter.on_damage(damage)
            if decision is Decision.FAIL:
                raise JournalDamaged(damage)
            if decision is Decision.TRUNCATE:
                return True
        return False

    def _octets_from(self, index: int, at: int) -> int:
        """How much was written from there on, in this segment and the later ones."""
        octets = -at
        for source in self.live[index:]:
            end = source.end
            for batch in () if end else self._batches_in(source, 0):
                end = offset_of(batch.position) + BATCH_SIZE + batch.octets
            octets += end
        return max(octets, 0)

    def _cut(self, source: ReadSegment, at: int) -> None:
        source.end = at
        self.cut_position = position_of(source.number, at)

    def _drop_from(self, index: int) -> None:
        for source in self.live[index:]:
            if not source.is_missing:
                self.strays.append(source.path)
            if source.problem and not source.is_missing:
                position = position_of(source.number, 0)
                self._reporter.on_torn_tail(source.path, position, source.size_bytes)
            if source.segment is not None:
                source.segment.close(self._files)
        del self.live[index:]


def read_record(
    files: Files, fd: int, offset: int, seed: int, *, size_hint: int = _SINGLE_READ_BYTES
) -> tuple[int, memoryview]:
    """Kind and payload of the record at ``offset``, verified by its checksum.

    ``size_hint``: octets to be read at first; a longer record takes a second read. Raises OSError,
    and MalformedRecord where no valid record stands there.
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


def _limit(source: ReadSegment) -> int:
    """Where reading a segment stops at the latest."""
    return min(source.end or source.size_bytes, source.size_bytes)
