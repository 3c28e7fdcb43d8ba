"""Reading a journal from its first live segment to its end, batch by batch.

What is yielded was written by the broker, in this order, in whole batches with right checksums;
anything else is a torn tail, or has been reported as damage to the ``Reporter``.              [hot]
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from functools import partial
from typing import Final, NamedTuple

from hareline.storage.journal.damage import Damage, Decision, JournalDamaged, Reporter
from hareline.storage.journal.files import Files
from hareline.storage.journal.format.frame import BATCH_SIZE, CHECKPOINT, Batch, decode_batch
from hareline.storage.journal.format.positions import offset_of, position_of
from hareline.storage.journal.live_segments import ReadSegment, find_live_segments, records_of
from hareline.storage.journal.search import Record, Stretch, parse_records, salvage
from hareline.storage.journal.segment import Segment

_CHUNK_BYTES: Final = 4 << 20
_READ_AHEAD_BYTES: Final = 16 << 20


class ReadBatch(NamedTuple):
    """The records that were written together.

    ``end``: the position behind the batch. ``is_whole``: nothing in it was damaged. ``durable``,
    ``time_ms``: as in its BATCH record, 0 where that was damaged. ``records``: (position, kind,
    payload without the kind) of each but BATCH and GAP. ``gaps``: the GAP records, where the batch
    is whole.

    Payloads are views of one large piece of octets: copy what outlives the batch.
    """

    position: int
    end: int
    durable: int
    time_ms: int
    is_whole: bool
    records: list[Record]
    gaps: Sequence[Record] = ()


def whole_batches(
    segment: Segment, at: int, read: Callable[[int, int], memoryview]
) -> Iterator[ReadBatch]:
    """Yield batches from offset ``at`` on, up to the first octets that are not a whole one.

    ``read``: returns a large piece from an offset on, with as many octets as are asked for if they
    are there.
    """
    seed = segment.seed
    first = position_of(segment.number, 0)
    window = memoryview(b"")
    base = at
    while True:
        if at + BATCH_SIZE > base + len(window):
            window, base = read(at, BATCH_SIZE), at
        batch = decode_batch(window, at - base, seed)
        if batch is None or batch.position != first + at:
            return
        end = at + BATCH_SIZE + batch.octets
        if end > base + len(window):
            window, base = read(at, end - at), at
            if end > base + len(window):
                return
        gaps: list[Record] = []
        records, count, stop = parse_records(
            window, at - base + BATCH_SIZE, end - base, seed, first + base, gaps
        )
        if stop != end - base or count != batch.records:
            return
        yield ReadBatch(first + at, first + end, batch.durable, batch.time_ms, True, records, gaps)
        at = end


class JournalReader:
    """One pass over a journal, by one call of ``batches``.

    ``live``: the segments, ascending; after ``batches`` those that belong to what was yielded.
    ``strays``: the paths of segment files that do not: freed ones, and after ``batches`` those
    behind a cut. ``cut_position``: from where on everything was cut off, torn or by order; 0 for
    nowhere.
    ``newest``: number of a segment that was durable for certain with its first batch, as all before
    it were; 0 if that is not known.
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
        self._newest = newest
        self._files = files
        self._reporter = reporter
        self._chunk_bytes = max(chunk_bytes, BATCH_SIZE)
        self.cut_position = 0
        self._done_octets = 0
        self._all_octets = 0
        self.live, self.strays = find_live_segments(files, directory, newest)

    def close(self) -> None:
        """Close the files, which are open until then: ``segment`` of ``live`` is used."""
        for source in self.live:
            if source.segment is not None:
                source.segment.close(self._files)
        self.live = []

    def batches(self) -> Iterator[ReadBatch]:
        """Yield every batch. Raises JournalDamaged where the reporter says FAIL."""
        self._all_octets = sum(source.end or source.size_bytes for source in self.live)
        for index, source in enumerate(self.live):
            yield from self._read_segment(index)
            if self.cut_position:
                self._drop_from(index + 1 if source.end else index)
                break
            self._done_octets += source.end
        self.live = [source for source in self.live if source.segment is not None]
        self._reporter.on_progress(self._all_octets, self._all_octets)

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
            for batch in whole_batches(segment, at, partial(self._window, segment, source.limit)):
                at = offset_of(batch.end)
                yield batch
            at = yield from self._mend(index, segment, at)

    def _window(self, segment: Segment, limit: int, at: int, wanted: int) -> memoryview:
        """Read a large piece from ``at`` on, with ``wanted`` octets if there are as many."""
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
        """Decide what the octets at ``at``, which are not a whole batch, are.

        They are the end as the manifest has it, or a torn tail, or damage, whose records are
        yielded as far as they are valid. Returns where the next batch stands, -1 for nowhere.
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
        """True to go on with a segment whose header cannot be read, as far as there is one."""
        source = self.live[index]
        is_durable = self._is_before_newest(source, 0) or self._is_said_durable(index, 0)
        if not source.is_missing and not is_durable:
            self._cut(source, 0)
            return False
        octets = source.end or source.size_bytes
        is_exhaustive = False
        if source.segment is not None:
            octets = source.segment.header.size_bytes
            is_exhaustive = self._begins_with_checkpoint(source, source.segment)
        header = Stretch(0, octets, source.problem, is_exhaustive=is_exhaustive)
        if self._is_to_cut(index, [header], 0):
            self._cut(source, 0)
            return False
        return True

    def _begins_with_checkpoint(self, source: ReadSegment, segment: Segment) -> bool:
        """True if the first batch that is found is the first that was written."""
        first = next(source.batches_from(self._files, 0), None)
        records = records_of(self._files, segment, first)[0] if first is not None else []
        return bool(records) and records[0][1] == CHECKPOINT

    def _is_end_by_next(self, index: int, at: int) -> bool:
        """True if the first batch of the next segment says that this one ends here.

        Asked where the header of that segment cannot be read, whose manifest would say it.
        """
        if self.live[index].end or index + 1 == len(self.live):
            return False
        following = next(self.live[index + 1].batches_from(self._files, 0), None)
        here = position_of(self.live[index].number, at)
        return following is not None and following.durable == here

    def _is_before_newest(self, source: ReadSegment, at: int) -> bool:
        """True if what stood here was durable when the newest segment got its first batch."""
        if source.number != self._newest:
            return source.number < self._newest
        return at <= (source.segment.header.size_bytes if source.segment is not None else 0)

    def _is_said_durable(self, index: int, at: int) -> bool:
        """True if a later batch says that what stands here was durable, so it is no torn tail.

        Batches are handed to the disk one after the other, but reach it in any order.
        """
        position = position_of(self.live[index].number, at)
        for later, source in enumerate(self.live[index:]):
            for batch in source.batches_from(self._files, 0 if later else at + 1):
                if batch.durable > position:
                    return True
        return False

    def _batch_at(self, segment: Segment, at: int) -> Batch | None:
        batch = decode_batch(self._files.read(segment.fd, BATCH_SIZE, at), 0, segment.seed)
        return batch if batch is None or offset_of(batch.position) == at else None

    def _next_batch(self, source: ReadSegment, segment: Segment, at: int) -> tuple[int, bool]:
        """Return where the damage at ``at`` ends at the latest; True if nothing follows it."""
        following = next(source.batches_from(self._files, at + 1), None)
        if following is not None:
            return offset_of(following.position), False
        end = source.limit
        if source.end == 0:  # a preallocated file: only its zeros show where it ended
            octets = self._files.read(segment.fd, end - at, at)
            end = at + (len(octets.rstrip(b"\0")) or len(octets))
        return end, True

    def _is_to_cut(self, index: int, stretches: list[Stretch], cut_at: int) -> bool:
        """Report the damage; True if the answer is TRUNCATE. Raises JournalDamaged for FAIL."""
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
                stretch.is_exhaustive,
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
        """Return how much was written from there on, in this segment and the later ones."""
        octets = -at
        for source in self.live[index:]:
            end = source.end
            for batch in () if end else source.batches_from(self._files, 0):
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
