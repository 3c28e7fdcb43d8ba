"""From the records of the journal, read once from front to back, to what is in each queue.

Called by ``recovery.read_journal``. While it reads, an entry is three numbers in columns (offset,
position, size), 20 octets, and settled ones are runs; all is put together at the end, since the
record that settles an entry may come any time later. Contents stay where they are.

Entries of one queue come in the order of their offsets, but for what compaction has moved; each
ascending stretch of either kind is a *lane*, in which both offsets and positions ascend.

A transaction whose work was spread over several batches has PART records, and counts if a COMMIT,
or a CHECKPOINT that does not name it any more, says that it came to its end.

Invariant: of an entry that is recorded more than once, because it was moved, the newest record
counts.                                                                                      [hot]
"""

from __future__ import annotations

import struct
from array import array
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from heapq import merge
from itertools import compress, pairwise
from typing import Final, NamedTuple

from hareline.errors import MalformedFrame
from hareline.message import PROPERTIES_START
from hareline.storage.journal.format.frame import (
    CHECKPOINT,
    CLEAN,
    COMMIT,
    COVER,
    MESSAGE,
    PART,
    RETURN,
    SETTLE,
    MalformedRecord,
)
from hareline.storage.journal.format.message import (
    HAS_EXPIRY,
    LARGE,
    MOVED,
    WAS_DELIVERED,
    decode_entries,
    decode_message,
)
from hareline.storage.journal.format.positions import OFFSET_BITS, segment_of
from hareline.storage.journal.format.records import (
    Run,
    decode_checkpoint,
    decode_commit,
    decode_cover,
    decode_part,
    decode_return,
    decode_settle,
)
from hareline.storage.journal.reader import ReadBatch
from hareline.storage.recovery.state import RecoveredQueue
from hareline.storage.space.liveness import NOWHERE

# A column of sizes also says whether the message has a time to live: who keeps entries as bare
# numbers cannot have those among them. In a queue with priorities it has 64 bits, and the level.
EXPIRES: Final = 1 << 31
SIZE_MASK: Final = EXPIRES - 1
LEVEL_SHIFT: Final = 32
LEVELS_KNOWN_MAX: Final = 16_384  # sets of property octets whose level is remembered

LevelReader = Callable[[bytes], int]

_SINGLE: Final = struct.Struct("<BQHIQIIQHB")  # MESSAGE_HEAD and one ENTRY


class KnownQueue(NamedTuple):
    """What is known of a queue before the journal is read.

    ``name``: what to call it. ``level_of``: the level of a message by its property octets, where
    the queue has priorities. ``is_loaded``: about whether its entries become objects, for an
    estimate.
    """

    name: str
    level_of: LevelReader | None = None
    is_loaded: bool = False


class Lane:
    """Entries whose offsets ascend; their positions too, unless ``is_mixed``.

    ``typecode``: of the column of sizes, "Q" where it has levels.
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
        """Keep the entries at whose index there is a 1."""
        self.offsets = array("Q", compress(self.offsets, is_kept))
        self.positions = array("Q", compress(self.positions, is_kept))
        self.sizes = array(self.sizes.typecode, compress(self.sizes, is_kept))


@dataclass(slots=True)
class QueueContents:
    """The live entries of one queue, ascending by offset.

    ``sizes``: octets of the bodies; with EXPIRES added where the message has a time to live, and
    the level from LEVEL_SHIFT on where the queue has priorities.
    ``delivery_counts``: of the entries that have been delivered, or may have been. ``large``: those
    whose body is in a file of its own, with the id of that and its size.
    """

    offsets: array[int] = field(default_factory=lambda: array("Q"))
    positions: array[int] = field(default_factory=lambda: array("Q"))
    sizes: array[int] = field(default_factory=lambda: array("I"))
    delivery_counts: dict[int, int] = field(default_factory=dict)
    large: dict[int, tuple[int, int]] = field(default_factory=dict)

    @property
    def expiring_count(self) -> int:
        """How many have a time to live."""
        return sum([size & EXPIRES for size in self.sizes]) // EXPIRES

    @property
    def has_levels(self) -> bool:
        return self.sizes.typecode == "Q"

    def remove(self, offset: int) -> int:
        """Take one entry out, which is there; returns its position."""
        index = bisect_left(self.offsets, offset)
        del self.offsets[index]
        del self.sizes[index]
        return self.positions.pop(index)

    def __len__(self) -> int:
        return len(self.offsets)


class _Traces:
    """What the journal says of one queue.

    ``counts``: delivery counts by MESSAGE records. ``returns``: those by RETURN records, with the
    number of the segment. ``delivered``: the entries that were delivered when their record was
    written, by the position of that record. ``firsts``, ``lengths``, ``places``: settled runs, and
    the segment that says so; ``settled_count``: how many entries these are, some twice perhaps.
    """

    __slots__ = (
        "counts",
        "cover",
        "delivered",
        "firsts",
        "fresh",
        "is_loaded",
        "lanes",
        "large",
        "lengths",
        "level_of",
        "levels",
        "moved",
        "next_offset",
        "places",
        "returns",
        "settled_count",
    )

    def __init__(self, queue: KnownQueue) -> None:
        self.level_of = queue.level_of
        self.is_loaded = queue.is_loaded
        self.levels: dict[bytes, int] = {}
        self.next_offset = 0
        self.cover = 0
        self.settled_count = 0
        self.fresh = self._new_lane()
        self.moved = self._new_lane()
        self.lanes: list[Lane] = [self.fresh, self.moved]
        self.large: dict[int, tuple[int, int]] = {}
        self.counts: dict[int, int] = {}
        self.returns: dict[int, tuple[int, int]] = {}
        self.delivered: dict[int, int] = {}
        self.firsts = array("Q")
        self.lengths = array("Q")
        self.places = array("Q")

    def _new_lane(self) -> Lane:
        return Lane("I" if self.level_of is None else "Q")

    def level(self, property_octets: bytes) -> int:
        """Of a queue with priorities. Raises MalformedRecord."""
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
        """About how many entries there are so far."""
        return max(0, sum(map(len, self.lanes)) - self.settled_count)

    def begin_lane(self, is_moved: bool) -> Lane:
        lane = self._new_lane()
        self.lanes.append(lane)
        if is_moved:
            self.moved = lane
        else:
            self.fresh = lane
        return lane

    def settle(self, first: int, length: int, segment: int) -> None:
        firsts, lengths = self.firsts, self.lengths
        if firsts and firsts[-1] + lengths[-1] == first and self.places[-1] == segment:
            lengths[-1] += length
        else:
            firsts.append(first)
            lengths.append(length)
            self.places.append(segment)
        self.next_offset = max(self.next_offset, first + length)
        self.settled_count += length


class Found:
    """The result of ``LiveEntryScan.finish``: parts of a ``RecoveredState``, and the contents."""

    __slots__ = ("contents", "interrupted", "queues", "settled")

    def __init__(self) -> None:
        self.queues: dict[int, RecoveredQueue] = {}
        self.contents: dict[int, QueueContents] = {}
        self.settled: dict[int, dict[int, array[int]]] = {}
        self.interrupted: set[int] = set()

    def note_settled(self, segment: int, place: int, queue_id: int, first: int, count: int) -> None:
        """Of this segment's entries these are settled, says a record in the segment ``place``."""
        runs = self.settled.setdefault(segment, {}).setdefault(place, array("Q"))
        if runs and runs[-3] == queue_id and runs[-2] + runs[-1] == first:
            runs[-1] += count
        else:
            runs.extend((queue_id, first, count))

    def note_superseded(self, segment: int, queue_id: int, offset: int) -> None:
        """This segment's record of the entry is not the newest one."""
        self.note_settled(segment, NOWHERE, queue_id, offset, 1)
        self.interrupted.add(segment)


class LiveEntryScan:
    """``queues``: those there are, by id; entries of others are dead."""

    def __init__(self, queues: Mapping[int, KnownQueue]) -> None:
        self._queues = {queue_id: _Traces(queue) for queue_id, queue in queues.items()}
        self._loaded = [traces for traces in self._queues.values() if traces.is_loaded]
        self._void_position = 0
        self._expiring_count = 0  # in the others
        self._parts: dict[int, list[Run]] = {}  # of transactions that may not have come to an end
        self.totals: dict[int, int] = {}  # segment number to entries in its MESSAGE records
        self._takers = {
            SETTLE: self._take_settle,
            RETURN: self._take_return,
            COVER: self._take_cover,
            CLEAN: self._take_clean,
            CHECKPOINT: self._take_checkpoint,
            PART: self._take_part,
            COMMIT: self._take_commit,
        }

    # ------------------------------------------------------------ taking

    def take(self, batch: ReadBatch) -> None:
        """The next batch. Raises MalformedRecord for octets that a right checksum vouches for."""
        queues, unpack, takers = self._queues, _SINGLE.unpack_from, self._takers
        total = 0
        for position, kind, payload in batch.records:
            if kind != MESSAGE:
                taker = takers.get(kind)
                if taker is not None:
                    taker(position, payload)
                continue
            try:
                flags, _, _, header, size, count, queue_id, offset, deliveries, marks = unpack(
                    payload
                )
            except struct.error:
                raise MalformedRecord("MESSAGE record is too short") from None
            total += count
            if flags or count != 1:
                self._take_unusual(position, payload, flags, size)
                continue
            traces = queues.get(queue_id)
            if traces is None:
                continue
            lane = traces.fresh
            if offset <= lane.last_offset:
                lane = traces.begin_lane(is_moved=False)
            lane.last_offset = offset
            lane.offsets.append(offset)
            lane.positions.append(position)
            if traces.level_of is not None:
                size |= traces.level(_property_octets(payload, header)) << LEVEL_SHIFT
            lane.sizes.append(size)
            if deliveries or marks:
                _take_delivered(traces, offset, position, deliveries, marks)
        segment = segment_of(batch.position)
        self.totals[segment] = self.totals.get(segment, 0) + total

    def _take_unusual(self, position: int, payload: memoryview, flags: int, size: int) -> None:
        """A message in several queues, or none any more, or one that was moved, or has extras."""
        is_moved = bool(flags & MOVED)
        large_id = decode_message(payload).large_id if flags & LARGE else 0
        if flags & HAS_EXPIRY:
            size |= EXPIRES
        for queue_id, offset, deliveries, marks in decode_entries(payload):
            traces = self._queues.get(queue_id)
            if traces is None:
                continue
            level = 0
            if traces.level_of is not None:
                record = decode_message(payload)
                level = traces.level(record.content[PROPERTIES_START : record.header_size - 1])
            lane = traces.moved if is_moved else traces.fresh
            if offset <= lane.last_offset:
                lane = traces.begin_lane(is_moved)
            lane.last_offset = offset
            lane.offsets.append(offset)
            lane.positions.append(position)
            lane.sizes.append(level << LEVEL_SHIFT | size)
            if size & EXPIRES and not traces.is_loaded:
                self._expiring_count += 1
            if large_id:
                traces.large[offset] = (large_id, size & SIZE_MASK)
            if deliveries or marks:
                _take_delivered(traces, offset, position, deliveries, marks)

    def _take_settle(self, position: int, payload: memoryview) -> None:
        segment = segment_of(position)
        for queue_id, first, length in decode_settle(payload):
            traces = self._queues.get(queue_id)
            if traces is not None:
                traces.settle(first, length, segment)

    def _take_return(self, position: int, payload: memoryview) -> None:
        segment = segment_of(position)
        for queue_id, offset, delivery_count in decode_return(payload):
            traces = self._queues.get(queue_id)
            if traces is not None:
                traces.returns[offset] = (delivery_count, segment)

    def _take_cover(self, _position: int, payload: memoryview) -> None:
        for queue_id, offset in decode_cover(payload):
            traces = self._queues.get(queue_id)
            if traces is not None:
                traces.cover = max(traces.cover, offset)

    def _take_clean(self, position: int, _payload: memoryview) -> None:
        """What stands before it about deliveries is over: every count is in a record."""
        self._void(position)
        for traces in self._queues.values():
            traces.cover = 0

    def _take_checkpoint(self, _position: int, payload: memoryview) -> None:
        """Covers are the ones it lists, whatever became of the records that said so."""
        checkpoint = decode_checkpoint(payload)
        self._void(checkpoint.void_position)
        for traces in self._queues.values():
            traces.cover = 0
        for queue_id, next_offset, cover in checkpoint.queues:
            listed = self._queues.get(queue_id)
            if listed is not None:
                listed.cover = cover
                listed.next_offset = max(listed.next_offset, next_offset)
        still_open = set(checkpoint.transactions)
        for number in self._parts.keys() - still_open:
            del self._parts[number]

    def _take_part(self, _position: int, payload: memoryview) -> None:
        part = decode_part(payload)
        self._parts.setdefault(part.transaction, []).extend(part.runs)

    def _take_commit(self, _position: int, payload: memoryview) -> None:
        for number in decode_commit(payload):
            self._parts.pop(number, None)

    def _void(self, position: int) -> None:
        if position <= self._void_position:
            return
        self._void_position = position
        for traces in self._queues.values():
            if traces.delivered:
                traces.delivered = {
                    offset: place for offset, place in traces.delivered.items() if place >= position
                }

    def on_left_out(self) -> None:
        """Something is missing here, maybe the record that says that a transaction came to its end.

        Those that are open are taken for committed, rather than losing what was.
        """
        self._parts.clear()

    # ------------------------------------------------- putting together

    @property
    def loaded_count(self) -> int:
        """About how many entries so far are to be loaded."""
        return self._expiring_count + sum([traces.living_count for traces in self._loaded])

    def finish(self) -> Found:
        """What is in the queues; to be called once, it takes everything from here."""
        found = Found()
        self._loaded = []
        undone: dict[int, list[Run]] = {}
        for runs in self._parts.values():
            for run in runs:
                undone.setdefault(run.queue_id, []).append(run)
        for queue_id in list(self._queues):
            traces = self._queues.pop(queue_id)
            lanes = [lane for lane in traces.lanes if lane]
            traces.lanes = []
            lane = _merged(lanes, traces.fresh.sizes.typecode, queue_id, found)
            next_offset = max(traces.next_offset, lane.last_offset + 1)
            _apply_settles(lane, traces, queue_id, found)
            contents = QueueContents(lane.offsets, lane.positions, lane.sizes)
            queue = RecoveredQueue(next_offset, _count_by_segment(lane))
            large = {each: traces.large[each] for each in _live(traces.large, contents)}
            queue.large = {offset: large_id for offset, (large_id, _) in large.items()}
            if queue_id in undone:
                queue.undone = _take_undone(lane, undone[queue_id])
                contents = QueueContents(lane.offsets, lane.positions, lane.sizes)
            _conclude_deliveries(traces, contents, queue)
            contents.large = {each: large[each] for each in _live(large, contents)}
            found.queues[queue_id] = queue
            found.contents[queue_id] = contents
        return found


def _property_octets(payload: memoryview, header_size: int) -> bytes:
    """Those of a plain message in one queue. Raises MalformedRecord."""
    at = _SINGLE.size
    try:
        middle = at + 1 + payload[at]
        content = middle + 1 + payload[middle]
    except IndexError:
        raise MalformedRecord("MESSAGE record is too short") from None
    return bytes(payload[content + PROPERTIES_START : content + header_size - 1])


def _take_delivered(
    traces: _Traces, offset: int, position: int, deliveries: int, marks: int
) -> None:
    if deliveries:
        traces.counts[offset] = deliveries
    if marks & WAS_DELIVERED:
        traces.delivered[offset] = position


def _merged(lanes: list[Lane], typecode: str, queue_id: int, found: Found) -> Lane:
    """One lane of all; of an entry that is in several, the record with the highest position."""
    if not lanes:
        return Lane(typecode)
    lanes = sorted(lanes, key=lambda lane: lane.offsets[0])
    if len(lanes) == 1:
        return lanes[0]
    result = Lane(typecode)
    result.is_mixed = True
    if all(one.last_offset < other.offsets[0] for one, other in pairwise(lanes)):
        for lane in lanes:
            result.offsets += lane.offsets
            result.positions += lane.positions
            result.sizes += lane.sizes
    else:
        _merge_into(result, lanes, queue_id, found)
    result.last_offset = result.offsets[-1]
    return result


def _merge_into(result: Lane, lanes: list[Lane], queue_id: int, found: Found) -> None:
    offsets, positions, sizes = result.offsets, result.positions, result.sizes
    last = -1
    rows: list[Iterator[tuple[int, int, int]]] = [
        zip(lane.offsets, lane.positions, lane.sizes, strict=True) for lane in lanes
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


def _apply_settles(lane: Lane, traces: _Traces, queue_id: int, found: Found) -> None:
    """Take the settled entries out of the lane, and note for each segment which are its own."""
    offsets, positions = lane.offsets, lane.positions
    is_kept = bytearray(b"\1") * len(lane)
    for first, length, place in zip(traces.firsts, traces.lengths, traces.places, strict=True):
        start = bisect_left(offsets, first)
        stop = bisect_left(offsets, first + length, start)
        if start == stop:
            continue
        is_kept[start:stop] = bytes(stop - start)
        while start < stop:
            segment = positions[start] >> OFFSET_BITS
            end = _end_of_segment(lane, start, stop)
            begin = offsets[start]
            found.note_settled(segment, place, queue_id, begin, offsets[end - 1] + 1 - begin)
            start = end
    if 0 in is_kept:
        lane.select(is_kept)


def _take_undone(lane: Lane, parts: list[Run]) -> list[tuple[int, int, int]]:
    """Take these entries out of the lane; returns those that were in it, by their segment."""
    offsets, positions = lane.offsets, lane.positions
    is_kept = bytearray(b"\1") * len(lane)
    runs: list[tuple[int, int, int]] = []
    for _, first, length in sorted(parts):
        start = bisect_left(offsets, first)
        stop = bisect_left(offsets, first + length, start)
        is_kept[start:stop] = bytes(stop - start)
        for index in range(start, stop):
            offset, segment = offsets[index], positions[index] >> OFFSET_BITS
            if runs and runs[-1][2] == offset and runs[-1][0] == segment:
                runs[-1] = (segment, runs[-1][1], offset + 1)
            else:
                runs.append((segment, offset, offset + 1))
    lane.select(is_kept)
    return runs


def _end_of_segment(lane: Lane, start: int, stop: int) -> int:
    """The index up to which entries stand in the same segment as the one at ``start``."""
    positions = lane.positions
    segment = positions[start] >> OFFSET_BITS
    if not lane.is_mixed:
        if positions[stop - 1] >> OFFSET_BITS == segment:
            return stop
        return bisect_left(positions, (segment + 1) << OFFSET_BITS, start, stop)
    end = start + 1
    while end < stop and positions[end] >> OFFSET_BITS == segment:
        end += 1
    return end


def _count_by_segment(lane: Lane) -> dict[int, int]:
    counts: dict[int, int] = {}
    start = 0
    while start < len(lane):
        end = _end_of_segment(lane, start, len(lane))
        segment = lane.positions[start] >> OFFSET_BITS
        counts[segment] = counts.get(segment, 0) + end - start
        start = end
    return counts


def _conclude_deliveries(traces: _Traces, contents: QueueContents, queue: RecoveredQueue) -> None:
    """Whoever may have been delivered when the broker died is redelivered from now on."""
    counts = contents.delivery_counts
    for offset in _live(traces.counts, contents):
        counts[offset] = traces.counts[offset]
    for offset in _live(traces.returns, contents):
        count, _ = queue.returns[offset] = traces.returns[offset]
        counts[offset] = max(count, counts.get(offset, 0))
    covered = bisect_left(contents.offsets, traces.cover)
    for offset in (*contents.offsets[:covered], *_live(traces.delivered, contents)):
        if offset not in counts:
            counts[offset] = 1
            queue.returns[offset] = (1, 0)


def _live(offsets: Iterable[int], contents: QueueContents) -> Iterator[int]:
    """Those of them that are in the queue."""
    known = contents.offsets
    for offset in offsets:
        index = bisect_left(known, offset)
        if index < len(known) and known[index] == offset:
            yield offset
