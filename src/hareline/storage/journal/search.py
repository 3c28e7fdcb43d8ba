"""Search for batches and records in octets that cannot be read from front to back.

What is found has a right checksum, under the seed of its segment.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final, NamedTuple
from zlib import crc32

from hareline.storage.journal.files import Files
from hareline.storage.journal.format.frame import (
    BATCH,
    BATCH_MAGIC,
    BATCH_MAGIC_OFFSET,
    BATCH_SIZE,
    GAP,
    KIND_NAMES,
    LAST_KIND,
    MESSAGE,
    RECORD_HEAD,
    RECORD_OVERHEAD,
    RECORD_PREFIX,
    Batch,
    MalformedRecord,
    decode_batch,
)
from hareline.storage.journal.format.header import HEADER_SIZE_MIN, SegmentHeader
from hareline.storage.journal.format.message import ENTRY, MESSAGE_HEAD
from hareline.storage.journal.format.positions import offset_of, position_of, segment_of
from hareline.storage.journal.format.records import DECODERS
from hareline.storage.journal.segment import Segment

_WINDOW_BYTES: Final = 4 << 20
_PREFIX: Final = RECORD_PREFIX.size

Record = tuple[int, int, memoryview]  # position, kind, payload

# Three octets of a length below 2**28, its last, a checksum, and a kind.
_MAYBE_RECORD: Final = re.compile(rb"(?s)(?=...[\x00-\x0f]....[\x02-\x0c])")


class Stretch(NamedTuple):
    """Octets from ``start`` to ``end`` (offsets in the segment) that are not a valid record.

    ``kind``, ``entries``, ``is_exhaustive``: see ``Damage``.
    """

    start: int
    end: int
    what: str
    kind: int = 0
    entries: tuple[tuple[int, int], ...] = ()
    is_exhaustive: bool = False


def parse_records(
    view: memoryview,
    start: int,
    end: int,
    seed: int,
    base: int,
    gaps: list[Record] | None = None,
) -> tuple[list[Record], int, int]:
    """Return the valid records from ``start`` on, how many there are, and where they stop.

    They stop at ``end`` if all is valid. ``base`` + an index into ``view`` is a position. GAP
    records are counted, and go into ``gaps`` only.                                          [hot]
    """
    records = []
    gap_count = 0
    at = start
    last = end - RECORD_OVERHEAD
    unpack = RECORD_HEAD.unpack_from
    while at <= last:
        length, checksum, kind = unpack(view, at)
        stop = at + _PREFIX + length
        if not BATCH < kind <= LAST_KIND or stop > end or not length:
            break
        if crc32(view[at + _PREFIX : stop], seed) != checksum:
            break
        if kind == GAP:
            gap_count += 1
            if gaps is not None:
                gaps.append((base + at, kind, view[at + RECORD_OVERHEAD : stop]))
        else:
            records.append((base + at, kind, view[at + RECORD_OVERHEAD : stop]))
        at = stop
    return records, len(records) + gap_count, at


def find_batches(
    files: Files, segment: Segment, start: int, end: int, seed: int | None
) -> Iterator[Batch]:
    """Yield the valid BATCH records from ``start`` to before ``end``, found by their magic.

    The search goes on behind what belongs to each.
    """
    at = start
    window, base = b"", start
    while at + BATCH_SIZE <= end:
        if not base <= at or at + BATCH_SIZE > base + len(window):
            base = at
            window = files.read(segment.fd, min(_WINDOW_BYTES, end - base), base)
            if len(window) < BATCH_SIZE:
                return
        found = window.find(BATCH_MAGIC, at - base + BATCH_MAGIC_OFFSET)
        if found < 0:
            at = base + len(window) - BATCH_SIZE + 1
            if len(window) < min(_WINDOW_BYTES, end - base):
                return
            continue
        at = base + found - BATCH_MAGIC_OFFSET
        if at + BATCH_SIZE > base + len(window):
            continue
        batch = decode_batch(window, at - base, seed)
        if batch is None or batch.position != position_of(segment.number, at):
            at += 1
            continue
        yield batch
        at += BATCH_SIZE + batch.octets


def open_damaged(files: Files, path: str, number: int) -> Segment | None:
    """Open a segment without a valid header by its first batch; None if it has none.

    Its header is made up: an empty manifest, and ``size_bytes`` is where that batch stands.
    """
    fd = files.open_to_read(path)
    size = files.size(fd)
    segment = Segment(path, fd, SegmentHeader(number, 0, 0, (), HEADER_SIZE_MIN), size)
    for batch in find_batches(files, segment, 0, size, None):
        start = offset_of(batch.position)
        if segment_of(batch.position) == number and start >= HEADER_SIZE_MIN:
            header = SegmentHeader(number, batch.time_ms, batch.salt, (), start)
            return Segment(path, fd, header, size)
    files.close(fd)
    return None


def open_segment(files: Files, path: str, number: int) -> Segment:
    """Open a segment, also one with a damaged header as long as it has a valid batch.

    Raises OSError, MalformedRecord, UnsupportedVersion.
    """
    try:
        return Segment.open(files, path)
    except MalformedRecord:
        segment = open_damaged(files, path, number)
        if segment is None:
            raise
        return segment


def salvage(
    octets: memoryview, base: int, segment: Segment, has_head: bool
) -> tuple[list[Record], list[Stretch]]:
    """Return all valid records in ``octets``, and the damaged stretches between them.

    ``base``: the offset of the octets. ``has_head``: they begin with a valid BATCH. Where the
    length of a damaged record leads to no other, the next one is searched octet by octet.
    """
    records: list[Record] = []
    stretches: list[Stretch] = []
    end = len(octets)
    at = BATCH_SIZE if has_head else 0
    position = position_of(segment.number, base)
    while at < end:
        found, _, stop = parse_records(octets, at, end, segment.seed, position)
        records += found
        if stop == end:
            break
        at = _next_valid(octets, stop, segment.seed)
        stretches.append(_diagnosis(octets, stop, at, segment.seed, base))
    return records, stretches


def _next_valid(octets: memoryview, damaged: int, seed: int) -> int:
    """Return where the next record after the damaged one stands, or the end.

    That is the next valid one, or a damaged one if this one's length and what follows look right.
    """
    end = len(octets)
    following = end + 1
    if damaged + RECORD_OVERHEAD <= end:
        length: int = RECORD_PREFIX.unpack_from(octets, damaged)[0]
        if length:
            following = damaged + _PREFIX + length
        if following == end or _is_record(octets, following, seed):
            return following
    valid = end
    for match in _MAYBE_RECORD.finditer(octets, damaged + 1):
        if _is_plausible(octets, match.start()) and _is_record(octets, match.start(), seed):
            valid = match.start()
            break
    return following if following < valid and _is_plausible(octets, damaged) else valid


def _is_plausible(octets: memoryview, at: int) -> bool:
    """True if what follows this record could be one too: cheaper than its checksum."""
    length: int = RECORD_PREFIX.unpack_from(octets, at)[0]
    following = at + _PREFIX + length
    left = len(octets) - following
    if left < RECORD_OVERHEAD:
        return left == 0
    length, _, kind = RECORD_HEAD.unpack_from(octets, following)
    return bool(kind in KIND_NAMES and 0 < length <= left - _PREFIX)


def _is_record(octets: memoryview, at: int, seed: int) -> bool:
    if at + RECORD_OVERHEAD > len(octets):
        return False
    length, checksum, kind = RECORD_HEAD.unpack_from(octets, at)
    stop = at + _PREFIX + length
    if not BATCH < kind <= LAST_KIND or not length or stop > len(octets):
        return False
    return bool(crc32(octets[at + _PREFIX : stop], seed) == checksum)


def _diagnosis(octets: memoryview, at: int, valid: int, seed: int, base: int) -> Stretch:
    """Return what is wrong from ``at`` to the next valid record, as far as it shows."""
    start, stop, end = base + at, base + valid, len(octets)
    if not any(octets[at:end]):
        return Stretch(start, stop, "there are only zeros")
    if end - at < RECORD_OVERHEAD:
        return Stretch(start, stop, "too few octets for a record")
    length, checksum, kind = RECORD_HEAD.unpack_from(octets, at)
    if kind not in KIND_NAMES:
        return Stretch(start, stop, f"unknown kind of record {kind}")
    if kind == BATCH:
        what = "checksum of the batch's head does not match"
        return Stretch(start, stop, what, is_exhaustive=valid - at == BATCH_SIZE)
    if not length or length > end - at - _PREFIX:
        what = f"a record says it has {length} octets, {end - at - _PREFIX} are there"
        return Stretch(start, stop, what)
    following = at + _PREFIX + length
    payload = octets[at + RECORD_OVERHEAD : following]
    what = "checksum does not match"
    if crc32(octets[at + _PREFIX : following], seed) == checksum:
        what = f"{KIND_NAMES[kind]} record without the batch it belongs to"
    entries = _guess_entries(payload) if kind == MESSAGE else ()
    if kind == MESSAGE:
        return Stretch(start, stop, what, kind, entries, bool(entries) and following == valid)
    if not _looks_like(kind, payload):
        return Stretch(start, stop, what)
    return Stretch(start, stop, what, kind, is_exhaustive=following == valid)


def _looks_like(kind: int, payload: memoryview) -> bool:
    """True if a record of this kind may have had this payload."""
    decode = DECODERS.get(kind)
    if decode is None:
        return kind == GAP
    try:
        decode(payload)
    except MalformedRecord:
        return False
    return True


def _guess_entries(payload: memoryview) -> tuple[tuple[int, int], ...]:
    if len(payload) < MESSAGE_HEAD.size:
        return ()
    count: int = MESSAGE_HEAD.unpack_from(payload)[-1]
    end = MESSAGE_HEAD.size + count * ENTRY.size
    if end > len(payload):
        return ()
    items = ENTRY.iter_unpack(payload[MESSAGE_HEAD.size : end])
    return tuple((queue_id, offset) for queue_id, offset, _, _ in items)
