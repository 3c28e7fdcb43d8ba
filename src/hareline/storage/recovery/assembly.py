"""Live entries of a queue: traces of it while the journal is read, put together at the end.

Entries come in the order of their offsets, but for those that compaction has moved. Each ascending
run of either kind is an ``EntryColumns``; these are merged by offset, settled entries and those of
transactions without an end are taken out, and delivery counts are inferred. Of an entry recorded
twice the newest record counts.                                                                [hot]
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Iterator
from heapq import merge
from itertools import compress, pairwise
from typing import Final

from hareline.errors import MalformedFrame
from hareline.storage.journal.format.frame import MalformedRecord
from hareline.storage.journal.format.message import UNCOUNTED
from hareline.storage.journal.format.positions import OFFSET_BITS
from hareline.storage.journal.format.records import Run
from hareline.storage.recovery.queue_contents import KnownQueue, QueueContents
from hareline.storage.store.liveness import NOWHERE
from hareline.storage.store.state import RecoveredQueue

LEVELS_KNOWN_MAX: Final = 16_384  # sets of property octets whose level is remembered


class EntryColumns:
    """Offset, position and size of entries whose offsets ascend.

    ``is_mixed``: their positions may not ascend. ``typecode``: of the sizes, "Q" if they have the
    level; see ``recovery.queue_contents``.
    """

    __slots__ = ("is_mixed", "last_offset", "offsets", "positions", "sizes")

    def __init__(self, typecode: str = "I") -> None:
        self.is_mixed = False
        self.last_offset = -1
        self.offsets = array("Q")
        self.positions = array("Q")
        self.sizes = array(typecode)

    def __len__(self) -> int:
        return len(self.offsets)

    def select(self, is_kept: bytearray) -> None:
        """Keep only the entries at whose index there is a 1."""
        self.offsets = array("Q", compress(self.offsets, is_kept))
        self.positions = array("Q", compress(self.positions, is_kept))
        self.sizes = array(self.sizes.typecode, compress(self.sizes, is_kept))


class QueueTraces:
    """Traces of one queue in the journal.

    ``all_columns``: every run of ascending offsets; ``fresh`` and ``moved`` are the ones that grow,
    of new entries and of those that compaction has moved.
    ``firsts``, ``lengths``, ``places``: settled runs, and the segment of the record that says so;
    ``settled_count``: how many entries these are, where some may count twice.
    ``counts``: offset to delivery count, by MESSAGE records. ``returns``: the same by RETURN
    records, with the segment of the record.
    ``delivered``: offset of an entry that was delivered when its record was written, to the
    position of that record. ``redelivery_watermark``: entries below this offset may have been
    delivered, say COVER and CHECKPOINT records.
    ``large``: offset to id and size of a large body.
    """

    __slots__ = (
        "all_columns",
        "counts",
        "delivered",
        "firsts",
        "fresh",
        "is_loaded",
        "large",
        "lengths",
        "level_of",
        "levels",
        "moved",
        "next_offset",
        "places",
        "redelivery_watermark",
        "returns",
        "settled_count",
    )

    def __init__(self, queue: KnownQueue) -> None:
        self.level_of = queue.level_of
        self.is_loaded = queue.is_loaded
        self.levels: dict[bytes, int] = {}
        self.next_offset = 0
        self.redelivery_watermark = 0
        self.settled_count = 0
        self.fresh = self._new_columns()
        self.moved = self._new_columns()
        self.all_columns: list[EntryColumns] = [self.fresh, self.moved]
        self.large: dict[int, tuple[int, int]] = {}
        self.counts: dict[int, int] = {}
        self.returns: dict[int, tuple[int, int]] = {}
        self.delivered: dict[int, int] = {}
        self.firsts = array("Q")
        self.lengths = array("Q")
        self.places = array("Q")

    def _new_columns(self) -> EntryColumns:
        return EntryColumns("I" if self.level_of is None else "Q")

    def level(self, property_octets: bytes) -> int:
        """Return the level of a message with these properties. Raises MalformedRecord.

        Only for queues with priorities.
        """
        level = self.levels.get(property_octets)
        if level is None:
            assert self.level_of is not None
            try:
                level = self.level_of(property_octets)
            except MalformedFrame as error:
                raise MalformedRecord(f"MESSAGE record: {error.explanation}") from None
            if len(self.levels) >= LEVELS_KNOWN_MAX:
                self.levels.clear()
            self.levels[property_octets] = level
        return level

    @property
    def living_count(self) -> int:
        """About how many entries are live so far."""
        return max(0, sum(map(len, self.all_columns)) - self.settled_count)

    def begin_columns(self, is_moved: bool) -> EntryColumns:
        """Go on in a new run: the next offset is not above the last one."""
        columns = self._new_columns()
        self.all_columns.append(columns)
        if is_moved:
            self.moved = columns
        else:
            self.fresh = columns
        return columns

    def settle(self, first: int, length: int, segment: int) -> None:
        """Note a settled run, by a record in this segment."""
        firsts, lengths = self.firsts, self.lengths
        if firsts and firsts[-1] + lengths[-1] == first and self.places[-1] == segment:
            lengths[-1] += length
        else:
            firsts.append(first)
            lengths.append(length)
            self.places.append(segment)
        self.next_offset = max(self.next_offset, first + length)
        self.settled_count += length


class LiveEntries:
    """Live entries of all queues of a journal: parts of a ``RecoveredState``, and the contents.

    ``queues``, ``contents``: by queue id. ``settled``, ``interrupted``: as in ``RecoveredState``.
    """

    __slots__ = ("contents", "interrupted", "queues", "settled")

    def __init__(self) -> None:
        self.queues: dict[int, RecoveredQueue] = {}
        self.contents: dict[int, QueueContents] = {}
        self.settled: dict[int, dict[int, array[int]]] = {}
        self.interrupted: set[int] = set()

    def add_queue(self, queue_id: int, traces: QueueTraces, undone: list[Run]) -> None:
        """Add a queue from its traces, whose columns are taken from them.

        ``undone``: runs of entries whose transaction did not come to its end.
        """
        parts = [columns for columns in traces.all_columns if columns]
        traces.all_columns = []
        columns = _merged(parts, traces.fresh.sizes.typecode, queue_id, self)
        next_offset = max(traces.next_offset, columns.last_offset + 1)
        _apply_settles(columns, traces, queue_id, self)
        contents = QueueContents(columns.offsets, columns.positions, columns.sizes)
        queue = RecoveredQueue(next_offset, _count_by_segment(columns))
        large = {each: traces.large[each] for each in contents.live(traces.large)}
        queue.large = {offset: large_id for offset, (large_id, _) in large.items()}
        if undone:
            queue.undone = _take_undone(columns, undone)
            contents = QueueContents(columns.offsets, columns.positions, columns.sizes)
        _infer_delivery_counts(traces, contents, queue)
        contents.large = {each: large[each] for each in contents.live(large)}
        self.queues[queue_id] = queue
        self.contents[queue_id] = contents

    def note_settled(self, segment: int, place: int, queue_id: int, first: int, count: int) -> None:
        """Note that a record in segment ``place`` settles a run of entries of ``segment``."""
        runs = self.settled.setdefault(segment, {}).setdefault(place, array("Q"))
        if runs and runs[-3] == queue_id and runs[-2] + runs[-1] == first:
            runs[-1] += count
        else:
            runs.extend((queue_id, first, count))

    def note_superseded(self, segment: int, queue_id: int, offset: int) -> None:
        """Note that this segment's record of an entry is not the newest one."""
        self.note_settled(segment, NOWHERE, queue_id, offset, 1)
        self.interrupted.add(segment)


def _merged(
    parts: list[EntryColumns], typecode: str, queue_id: int, found: LiveEntries
) -> EntryColumns:
    """Merge by offset; of an entry in several parts the highest position counts."""
    if not parts:
        return EntryColumns(typecode)
    parts = sorted(parts, key=lambda part: part.offsets[0])
    if len(parts) == 1:
        return parts[0]
    result = EntryColumns(typecode)
    result.is_mixed = True
    if all(one.last_offset < other.offsets[0] for one, other in pairwise(parts)):
        for part in parts:
            result.offsets += part.offsets
            result.positions += part.positions
            result.sizes += part.sizes
    else:
        _merge_into(result, parts, queue_id, found)
    result.last_offset = result.offsets[-1]
    return result


def _merge_into(
    result: EntryColumns, parts: list[EntryColumns], queue_id: int, found: LiveEntries
) -> None:
    offsets, positions, sizes = result.offsets, result.positions, result.sizes
    last = -1
    rows: list[Iterator[tuple[int, int, int]]] = [
        zip(part.offsets, part.positions, part.sizes, strict=True) for part in parts
    ]
    for offset, position, size in merge(*rows):
        if offset == last:  # and this position is the higher one
            found.note_superseded(positions[-1] >> OFFSET_BITS, queue_id, offset)
            positions[-1] = position
        else:
            offsets.append(offset)
            positions.append(position)
            sizes.append(size)
            last = offset


def _apply_settles(
    columns: EntryColumns, traces: QueueTraces, queue_id: int, found: LiveEntries
) -> None:
    """Take the settled entries out, and note them for the segments they stand in."""
    offsets, positions = columns.offsets, columns.positions
    is_kept = bytearray(b"\1") * len(columns)
    for first, length, place in zip(traces.firsts, traces.lengths, traces.places, strict=True):
        start = bisect_left(offsets, first)
        stop = bisect_left(offsets, first + length, start)
        if start == stop:
            continue
        is_kept[start:stop] = bytes(stop - start)
        while start < stop:
            segment = positions[start] >> OFFSET_BITS
            end = _end_of_segment(columns, start, stop)
            begin = offsets[start]
            found.note_settled(segment, place, queue_id, begin, offsets[end - 1] + 1 - begin)
            start = end
    if 0 in is_kept:
        columns.select(is_kept)


def _take_undone(columns: EntryColumns, undone: list[Run]) -> list[tuple[int, int, int]]:
    """Take these entries out; returns runs (segment, first offset, end) of those there were."""
    offsets, positions = columns.offsets, columns.positions
    is_kept = bytearray(b"\1") * len(columns)
    runs: list[tuple[int, int, int]] = []
    for _, first, length in sorted(undone):
        start = bisect_left(offsets, first)
        stop = bisect_left(offsets, first + length, start)
        is_kept[start:stop] = bytes(stop - start)
        for index in range(start, stop):
            offset, segment = offsets[index], positions[index] >> OFFSET_BITS
            if runs and runs[-1][2] == offset and runs[-1][0] == segment:
                runs[-1] = (segment, runs[-1][1], offset + 1)
            else:
                runs.append((segment, offset, offset + 1))
    columns.select(is_kept)
    return runs


def _end_of_segment(columns: EntryColumns, start: int, stop: int) -> int:
    """Return the index up to which entries stand in the same segment as the one at ``start``."""
    positions = columns.positions
    segment = positions[start] >> OFFSET_BITS
    if not columns.is_mixed:
        if positions[stop - 1] >> OFFSET_BITS == segment:
            return stop
        return bisect_left(positions, (segment + 1) << OFFSET_BITS, start, stop)
    end = start + 1
    while end < stop and positions[end] >> OFFSET_BITS == segment:
        end += 1
    return end


def _count_by_segment(columns: EntryColumns) -> dict[int, int]:
    """Return segment number to the number of entries in it."""
    counts: dict[int, int] = {}
    start = 0
    while start < len(columns):
        end = _end_of_segment(columns, start, len(columns))
        segment = columns.positions[start] >> OFFSET_BITS
        counts[segment] = counts.get(segment, 0) + end - start
        start = end
    return counts


def _infer_delivery_counts(
    traces: QueueTraces, contents: QueueContents, queue: RecoveredQueue
) -> None:
    """Set delivery counts: an entry that may have been delivered has at least 1.

    What only may have been delivered has the bit UNCOUNTED too: the crash brought it back.
    """
    counts = contents.delivery_counts
    for offset in contents.live(traces.counts):
        counts[offset] = traces.counts[offset]
    for offset in contents.live(traces.returns):
        count, _ = queue.returns[offset] = traces.returns[offset]
        counts[offset] = max(count, counts.get(offset, 0))
    covered = bisect_left(contents.offsets, traces.redelivery_watermark)
    for offset in (*contents.offsets[:covered], *contents.live(traces.delivered)):
        if offset not in counts:
            counts[offset] = 1 | UNCOUNTED
            queue.returns[offset] = (1 | UNCOUNTED, 0)
