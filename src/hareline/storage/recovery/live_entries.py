"""Live entries of each queue, found in one pass over the records of the journal.

Each record goes into the traces of its queues; they are put together at the end, since the record
that settles an entry may come any time later. Contents stay where they are. A transaction with PART
records counts if a COMMIT says so, or a CHECKPOINT behind them that does not name it.       [hot]
"""

from __future__ import annotations

import struct
from collections import OrderedDict
from collections.abc import Mapping
from typing import Final

from hareline.message import PROPERTIES_START
from hareline.storage.interface import ProducerSequence
from hareline.storage.journal.format.frame import (
    CHECKPOINT,
    CLEAN,
    COMMIT,
    COVER,
    MESSAGE,
    PART,
    PRODUCERS,
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
from hareline.storage.journal.format.positions import segment_of
from hareline.storage.journal.format.records import (
    Run,
    decode_checkpoint,
    decode_commit,
    decode_cover,
    decode_part,
    decode_producers,
    decode_return,
    decode_settle,
)
from hareline.storage.journal.reader import ReadBatch
from hareline.storage.recovery.assembly import LiveEntries, QueueTraces
from hareline.storage.recovery.queue_contents import EXPIRES, LEVEL_SHIFT, SIZE_MASK, KnownQueue

_SINGLE: Final = struct.Struct("<BQHIQIIQHB")  # MESSAGE_HEAD and one ENTRY

#: The most that ``max_producers`` of a virtual host may be; what is less is enforced by the broker.
PRODUCERS_MAX: Final = 100_000


class LiveEntryScan:
    """One pass: ``take`` every batch, then ``finish``.

    ``queues``: those there are, by id; entries of others are dead. ``totals``: segment number to
    the number of entries in its MESSAGE records. ``producers``: by virtual host and producer id
    the highest sequences, in the order in which they were last accepted from.
    """

    def __init__(self, queues: Mapping[int, KnownQueue]) -> None:
        self._queues = {queue_id: QueueTraces(queue) for queue_id, queue in queues.items()}
        self._loaded = [traces for traces in self._queues.values() if traces.is_loaded]
        self._void_position = 0
        self._expiring_count = 0  # in queues whose entries do not all become objects
        self._parts: dict[int, list[Run]] = {}  # of transactions that may have no COMMIT
        self.totals: dict[int, int] = {}
        self.producers: dict[str, OrderedDict[bytes, ProducerSequence]] = {}
        self._takers = {
            SETTLE: self._take_settle,
            RETURN: self._take_return,
            COVER: self._take_cover,
            CLEAN: self._take_clean,
            CHECKPOINT: self._take_checkpoint,
            PART: self._take_part,
            COMMIT: self._take_commit,
            PRODUCERS: self._take_producers,
        }

    # ------------------------------------------------------------ taking

    def take(self, batch: ReadBatch) -> None:
        """Take the next batch. Raises MalformedRecord for invalid octets with a right checksum."""
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
            columns = traces.fresh
            if offset <= columns.last_offset:
                columns = traces.begin_columns(is_moved=False)
            columns.last_offset = offset
            columns.offsets.append(offset)
            columns.positions.append(position)
            if traces.level_of is not None:
                size |= traces.level(_property_octets(payload, header)) << LEVEL_SHIFT
            columns.sizes.append(size)
            if deliveries or marks:
                _take_delivered(traces, offset, position, deliveries, marks)
        segment = segment_of(batch.position)
        self.totals[segment] = self.totals.get(segment, 0) + total

    def _take_unusual(self, position: int, payload: memoryview, flags: int, size: int) -> None:
        """Take a message in several queues or none, or one that was moved or has extras."""
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
            columns = traces.moved if is_moved else traces.fresh
            if offset <= columns.last_offset:
                columns = traces.begin_columns(is_moved)
            columns.last_offset = offset
            columns.offsets.append(offset)
            columns.positions.append(position)
            columns.sizes.append(level << LEVEL_SHIFT | size)
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
                traces.redelivery_watermark = max(traces.redelivery_watermark, offset)

    def _take_clean(self, position: int, _payload: memoryview) -> None:
        """Forget what earlier records say of deliveries: every count is in a record."""
        self._void(position)
        for traces in self._queues.values():
            traces.redelivery_watermark = 0

    def _take_checkpoint(self, _position: int, payload: memoryview) -> None:
        """Set the watermarks to those it lists: the records that said so may be gone."""
        checkpoint = decode_checkpoint(payload)
        self._void(checkpoint.void_position)
        for traces in self._queues.values():
            traces.redelivery_watermark = 0
        for queue_id, next_offset, watermark in checkpoint.queues:
            listed = self._queues.get(queue_id)
            if listed is not None:
                listed.redelivery_watermark = watermark
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

    def _take_producers(self, _position: int, payload: memoryview) -> None:
        """The latest record counts: a producer may have begun again."""
        producers = decode_producers(payload)
        vhost = producers.vhost.decode("utf-8", "surrogateescape")
        by_id = self.producers.get(vhost)
        if by_id is None or producers.is_whole:
            by_id = self.producers[vhost] = OrderedDict()
        for producer_id, sequence, used_ms in producers.sequences:
            known = by_id.get(producer_id)
            if known is None:
                known = by_id[producer_id] = ProducerSequence(producer_id)
                if len(by_id) > PRODUCERS_MAX:
                    by_id.popitem(last=False)
            else:
                by_id.move_to_end(producer_id)
            known.highest = known.written = sequence
            known.used_ms = used_ms

    def _void(self, position: int) -> None:
        """Forget what records before this position say was delivered."""
        if position <= self._void_position:
            return
        self._void_position = position
        for traces in self._queues.values():
            if traces.delivered:
                traces.delivered = {
                    offset: place for offset, place in traces.delivered.items() if place >= position
                }

    def on_left_out(self) -> None:
        """Take open transactions for committed: a COMMIT may be in what is missing here.

        So nothing that was durable is lost.
        """
        self._parts.clear()

    # ------------------------------------------------- putting together

    @property
    def loaded_count(self) -> int:
        """About how many entries so far will become objects."""
        return self._expiring_count + sum([traces.living_count for traces in self._loaded])

    def finish(self) -> LiveEntries:
        """Return what is in the queues; call it once, since nothing is left here."""
        found = LiveEntries()
        self._loaded = []
        undone: dict[int, list[Run]] = {}
        for runs in self._parts.values():
            for run in runs:
                undone.setdefault(run.queue_id, []).append(run)
        for queue_id in list(self._queues):
            found.add_queue(queue_id, self._queues.pop(queue_id), undone.get(queue_id, []))
        return found


def _property_octets(payload: memoryview, header_size: int) -> bytes:
    """Return those of a plain message in one queue. Raises MalformedRecord."""
    at = _SINGLE.size
    try:
        middle = at + 1 + payload[at]
        content = middle + 1 + payload[middle]
    except IndexError:
        raise MalformedRecord("MESSAGE record is too short") from None
    return bytes(payload[content + PROPERTIES_START : content + header_size - 1])


def _take_delivered(
    traces: QueueTraces, offset: int, position: int, deliveries: int, marks: int
) -> None:
    if deliveries:
        traces.counts[offset] = deliveries
    if marks & WAS_DELIVERED:
        traces.delivered[offset] = position
