"""The octets of the journal: what docs/journal-format.md says, as constants and small functions.

Everything that reads or writes a journal goes by this module; it does no I/O. Decoders take the
payload of a record whose checksum was found right, and raise ``MalformedRecord`` where the octets
are none of that kind all the same. Encoders are for whatever is written seldom; the writer packs
messages and settles itself, by the Struct objects below.

Invariant: what is declared here for a version never changes; see "Versions" of that page.     [hot]
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from struct import Struct
from typing import Final, NamedTuple
from zlib import crc32

from hareline.errors import StoreError

VERSION: Final = 2
READABLE_VERSIONS: Final = (1, 2)

OFFSET_BITS: Final = 32
OFFSET_MASK: Final = (1 << OFFSET_BITS) - 1
# Bit 62 of a position says "not in the journal" (``storage.interface.SPOOLED``).
SEGMENT_NUMBER_MAX: Final = (1 << (62 - OFFSET_BITS)) - 1
SEGMENT_BYTES_MAX: Final = OFFSET_MASK

SEGMENT_MAGIC: Final = b"HARELINE"
BATCH_MAGIC: Final = b"\xb1HLBATCH"

# Kinds of records.
BATCH: Final = 1
MESSAGE: Final = 2
SETTLE: Final = 3
RETURN: Final = 4
COVER: Final = 5
CLEAN: Final = 6
CHECKPOINT: Final = 7
FREE: Final = 8
GAP: Final = 9
PART: Final = 10  # from version 2 on
COMMIT: Final = 11  # likewise
LAST_KIND: Final = COMMIT
KIND_NAMES: Final = {
    BATCH: "BATCH",
    MESSAGE: "MESSAGE",
    SETTLE: "SETTLE",
    RETURN: "RETURN",
    COVER: "COVER",
    CLEAN: "CLEAN",
    CHECKPOINT: "CHECKPOINT",
    FREE: "FREE",
    GAP: "GAP",
    PART: "PART",
    COMMIT: "COMMIT",
}

# Flags of a MESSAGE.
MOVED: Final = 1
LARGE: Final = 2
DEAD_LETTER: Final = 4
FROM_DEFAULT: Final = 8
HAS_EXPIRY: Final = 16
HAS_BLIND_KEYS: Final = 32
ALL_MESSAGE_FLAGS: Final = MOVED | LARGE | DEAD_LETTER | FROM_DEFAULT | HAS_EXPIRY | HAS_BLIND_KEYS

# Flags of an entry in a MESSAGE.
WAS_DELIVERED: Final = 1

DELIVERY_COUNT_MAX: Final = 0xFFFF  # higher ones are written as this
UNCOUNTED: Final = 0x8000  # bit of a delivery count: it also came back in a way that does not count

# A record: length of (kind + payload), checksum of (kind + payload); then kind and payload.
RECORD_PREFIX: Final = Struct("<II")
RECORD_HEAD: Final = Struct("<IIB")
RECORD_OVERHEAD: Final = RECORD_HEAD.size  # octets of a record beyond its payload

# kind, magic, position, octets that follow, records that follow, salt, durable position, time
_BATCH_BODY: Final = Struct("<B8sQIIIQQ")
BATCH_SIZE: Final = RECORD_PREFIX.size + _BATCH_BODY.size
BATCH_LENGTH: Final = _BATCH_BODY.size
BATCH_MAGIC_OFFSET: Final = RECORD_HEAD.size  # from the start of the record

# flags, arrival_ms, channel, header_size, size, number of entries
MESSAGE_HEAD: Final = Struct("<BQHIQI")
KIND_AND_MESSAGE_HEAD: Final = Struct("<BBQHIQI")  # the same after the kind: what is summed
ENTRY: Final = Struct("<IQHB")  # queue id, offset, delivery count, entry flags
EXPIRY: Final = Struct("<Q")
HISTORY_SIZE: Final = Struct("<I")
BLIND_KEY_COUNT: Final = Struct("<H")
LARGE_ID: Final = Struct("<Q")

RUN: Final = Struct("<IQI")  # queue id, first offset, count
RETURNED: Final = Struct("<IQH")  # queue id, offset, delivery count
COVERED: Final = Struct("<IQ")  # queue id, offset
CLEAN_TIME: Final = Struct("<Q")
CHECKPOINT_HEAD: Final = Struct("<QI")  # void position, number of queues
CHECKPOINT_QUEUE: Final = Struct("<IQQ")  # queue id, next offset, cover
FREED: Final = Struct("<Q")
TRANSACTION: Final = Struct("<Q")

# A segment's front is the same in every version: magic, version, zero, checksum of these.
_FRONT: Final = Struct("<8sHHI")
FRONT_SIZE: Final = _FRONT.size
# number, created_ms, salt, header size, count of the manifest
_HEADER: Final = Struct("<QQIII")
_MANIFEST_ITEM: Final = Struct("<QI")  # segment number, its end
_CRC: Final = Struct("<I")
_SALT_AND_NUMBER: Final = Struct("<QI")


class MalformedRecord(StoreError):
    """Octets that are none of what they stand for, though a checksum may be right."""


class UnsupportedVersion(StoreError):
    """A segment of a version that this build does not read; its checksum says it is no accident."""

    def __init__(self, version: int) -> None:
        readable = ", ".join(map(str, READABLE_VERSIONS))
        super().__init__(f"journal format version {version}; this build reads version {readable}")
        self.version = version


@dataclass(frozen=True, slots=True)
class SegmentHeader:
    """What a segment says of itself. ``size_bytes``: where the first batch stands.

    ``manifest``: number and end of each segment that was live when this one was begun, ascending;
    they all are before it.
    """

    number: int
    created_ms: int
    salt: int
    manifest: tuple[tuple[int, int], ...]
    size_bytes: int

    @property
    def seed(self) -> int:
        return seed_of(self.number, self.salt)


class Batch(NamedTuple):
    """``octets`` and ``records``: what follows and belongs to it. ``durable``: a position."""

    position: int
    octets: int
    records: int
    salt: int
    durable: int
    time_ms: int


class Entry(NamedTuple):
    queue_id: int
    offset: int
    delivery_count: int
    flags: int


class MessageRecord(NamedTuple):
    """``expires_at_ms``, ``history_size``, ``large_id`` are 0 where the flags say there is none.

    ``address``: shortstr exchange, shortstr routing key. ``content``: as in ``message.Message``.
    """

    flags: int
    arrival_ms: int
    channel: int
    header_size: int
    size: int
    entries: list[Entry]
    expires_at_ms: int
    history_size: int
    blind_keys: tuple[bytes, ...]
    large_id: int
    address: bytes
    content: bytes


class Run(NamedTuple):
    """Entries ``first`` to ``first + length - 1`` of a queue are settled."""

    queue_id: int
    first: int
    length: int


class Returned(NamedTuple):
    queue_id: int
    offset: int
    delivery_count: int


class Cover(NamedTuple):
    """Entries below ``offset`` may have been delivered."""

    queue_id: int
    offset: int


class CheckpointQueue(NamedTuple):
    queue_id: int
    next_offset: int
    cover: int


class Checkpoint(NamedTuple):
    """``void_position``: covers and "was delivered" before it say nothing any more.

    ``transactions``: those with parts before it that are not committed; all others are. Version 1
    has none.
    """

    void_position: int
    queues: list[CheckpointQueue]
    transactions: tuple[int, ...] = ()


class Part(NamedTuple):
    """The entries of these runs count only if the transaction is committed."""

    transaction: int
    runs: list[Run]


def position_of(number: int, offset: int) -> int:
    return number << OFFSET_BITS | offset


def segment_of(position: int) -> int:
    return position >> OFFSET_BITS


def offset_of(position: int) -> int:
    return position & OFFSET_MASK


def seed_of(number: int, salt: int) -> int:
    """What the checksums of a segment's records begin with.

    The number alone would be enough for what a recycled file still holds of its former life. The
    salt is for a message whose body has records in it, be it a backup of a journal or a forgery.
    """
    return crc32(_SALT_AND_NUMBER.pack(number, salt))


def segment_name(number: int) -> str:
    return f"{number:016x}.log"


def number_of_name(name: str) -> int | None:
    """The segment that a file of this name is; None if it is none."""
    stem, dot, extension = name.partition(".")
    if extension != "log" or len(stem) != 16 or not dot:
        return None
    if any(digit not in "0123456789abcdef" for digit in stem):
        return None
    return int(stem, 16)


def encode_record(kind: int, payload_parts: Sequence[bytes], seed: int) -> list[bytes]:
    """The octets of a record as parts to be written one after the other."""
    checksum = crc32(bytes((kind,)), seed)
    length = 1
    for part in payload_parts:
        checksum = crc32(part, checksum)
        length += len(part)
    return [RECORD_HEAD.pack(length, checksum, kind), *payload_parts]


def encode_header(header: SegmentHeader) -> bytes:
    """``size_bytes`` of them, the last ones zero where the manifest needs less."""
    front = _FRONT.pack(SEGMENT_MAGIC, VERSION, 0, 0)[: FRONT_SIZE - _CRC.size]
    rest = b"".join(
        (
            _HEADER.pack(
                header.number,
                header.created_ms,
                header.salt,
                header.size_bytes,
                len(header.manifest),
            ),
            *(_MANIFEST_ITEM.pack(*item) for item in header.manifest),
        )
    )
    octets = front + _CRC.pack(crc32(front)) + rest + _CRC.pack(crc32(rest))
    if len(octets) > header.size_bytes:
        raise ValueError(f"header of {len(octets)} octets in {header.size_bytes}")
    return octets.ljust(header.size_bytes, b"\0")


def header_size(live_segments: int) -> int:
    """Octets of a header with a manifest of so many."""
    return FRONT_SIZE + _HEADER.size + live_segments * _MANIFEST_ITEM.size + _CRC.size


HEADER_SIZE_MIN: Final = header_size(0)


def header_octets_needed(octets: bytes) -> int:
    """How many octets ``decode_header`` needs, by the first ``HEADER_SIZE_MIN`` of them.

    Raises MalformedRecord and UnsupportedVersion.
    """
    _check_front(octets)
    *_, count = _HEADER.unpack_from(octets, FRONT_SIZE)
    return header_size(count)


def decode_header(octets: bytes) -> SegmentHeader:
    """Raises MalformedRecord, and UnsupportedVersion where the rest cannot even be looked at."""
    needed = header_octets_needed(octets)
    if len(octets) < needed:
        raise MalformedRecord(f"segment header of {needed} octets, but only {len(octets)} there")
    number, created_ms, salt, size_bytes, count = _HEADER.unpack_from(octets, FRONT_SIZE)
    end = needed - _CRC.size
    if crc32(octets[FRONT_SIZE:end]) != _CRC.unpack_from(octets, end)[0]:
        raise MalformedRecord("checksum of the segment header does not match")
    start = FRONT_SIZE + _HEADER.size
    items = _MANIFEST_ITEM.iter_unpack(octets[start : start + count * _MANIFEST_ITEM.size])
    manifest = tuple((number, end) for number, end in items)
    if size_bytes < needed:
        raise MalformedRecord(f"segment header says it has {size_bytes} octets, it has {needed}")
    return SegmentHeader(number, created_ms, salt, manifest, size_bytes)


def _check_front(octets: bytes) -> None:
    if len(octets) < HEADER_SIZE_MIN:
        raise MalformedRecord(f"{len(octets)} octets are too few for a segment header")
    magic, version, _, checksum = _FRONT.unpack_from(octets)
    if magic != SEGMENT_MAGIC:
        raise MalformedRecord("does not begin with the octets HARELINE")
    if crc32(octets[: FRONT_SIZE - _CRC.size]) != checksum:
        raise MalformedRecord("checksum of the version does not match")
    if version not in READABLE_VERSIONS:
        raise UnsupportedVersion(version)


def encode_batch(batch: Batch, seed: int) -> bytes:
    """The BATCH record, ``BATCH_SIZE`` octets."""
    body = _BATCH_BODY.pack(
        BATCH,
        BATCH_MAGIC,
        batch.position,
        batch.octets,
        batch.records,
        batch.salt,
        batch.durable,
        batch.time_ms,
    )
    return RECORD_PREFIX.pack(BATCH_LENGTH, crc32(body, seed)) + body


def decode_batch(octets: bytes | memoryview, start: int, seed: int | None = None) -> Batch | None:
    """The BATCH record that stands at ``start``, or None where no valid one does.

    Without a seed, the segment's header being unreadable, its own salt is believed.
    """
    if len(octets) - start < BATCH_SIZE:
        return None
    length, checksum = RECORD_PREFIX.unpack_from(octets, start)
    if length != BATCH_LENGTH:
        return None
    kind, magic, *fields = _BATCH_BODY.unpack_from(octets, start + RECORD_PREFIX.size)
    if kind != BATCH or magic != BATCH_MAGIC:
        return None
    batch = Batch(*fields)
    if seed is None:
        seed = seed_of(segment_of(batch.position), batch.salt)
    body = octets[start + RECORD_PREFIX.size : start + BATCH_SIZE]
    return batch if crc32(body, seed) == checksum else None


def decode_entries(payload: bytes | memoryview) -> list[tuple[int, int, int, int]]:
    """The entries of a MESSAGE alone: queue id, offset, delivery count, entry flags.

    Raises MalformedRecord.
    """
    try:
        count: int = MESSAGE_HEAD.unpack_from(payload)[5]
        end = MESSAGE_HEAD.size + count * ENTRY.size
        if count == 1:
            return [ENTRY.unpack_from(payload, MESSAGE_HEAD.size)]
    except struct.error:
        raise MalformedRecord("MESSAGE record is too short") from None
    if len(payload) < end:
        raise MalformedRecord(f"MESSAGE record says it has {count} entries, and is too short")
    return list(ENTRY.iter_unpack(payload[MESSAGE_HEAD.size : end]))


def decode_message(payload: bytes | memoryview) -> MessageRecord:
    """Raises MalformedRecord."""
    entries = [Entry(*fields) for fields in decode_entries(payload)]
    flags, arrival_ms, channel, header, size, count = MESSAGE_HEAD.unpack_from(payload)
    if flags & ~ALL_MESSAGE_FLAGS:
        raise MalformedRecord(f"MESSAGE record with unknown flags {flags:#x}")
    at = MESSAGE_HEAD.size + count * ENTRY.size
    expires_at_ms = history_size = large_id = 0
    blind_keys: tuple[bytes, ...] = ()
    try:
        if flags & HAS_EXPIRY:
            (expires_at_ms,) = EXPIRY.unpack_from(payload, at)
            at += EXPIRY.size
        if flags & DEAD_LETTER:
            (history_size,) = HISTORY_SIZE.unpack_from(payload, at)
            at += HISTORY_SIZE.size
        if flags & HAS_BLIND_KEYS:
            blind_keys, at = _short_strings(payload, at)
        if flags & LARGE:
            (large_id,) = LARGE_ID.unpack_from(payload, at)
            at += LARGE_ID.size
        middle = at + 1 + payload[at]
        end = middle + 1 + payload[middle]
    except (struct.error, IndexError):
        raise MalformedRecord("MESSAGE record is too short") from None
    content = bytes(payload[end:])
    expected = header if flags & LARGE or size == 0 else header + size + _BODY_FRAME_OVERHEAD
    if len(content) != expected:
        raise MalformedRecord(f"MESSAGE record has {len(content)} octets for {expected} of content")
    return MessageRecord(
        flags,
        arrival_ms,
        channel,
        header,
        size,
        entries,
        expires_at_ms,
        history_size,
        blind_keys,
        large_id,
        bytes(payload[at:end]),
        content,
    )


_BODY_FRAME_OVERHEAD: Final = 8  # AMQP 0-9-1, 4.2.3: type, channel, size, and the end octet


def _short_strings(payload: bytes | memoryview, at: int) -> tuple[tuple[bytes, ...], int]:
    (count,) = BLIND_KEY_COUNT.unpack_from(payload, at)
    at += BLIND_KEY_COUNT.size
    strings = []
    for _ in range(count):
        end = at + 1 + payload[at]
        if end > len(payload):
            raise MalformedRecord("MESSAGE record is too short")
        strings.append(bytes(payload[at + 1 : end]))
        at = end
    return tuple(strings), at


def encode_message(record: MessageRecord) -> list[bytes]:
    """The payload of a MESSAGE, in parts. Delivery counts are cut at ``DELIVERY_COUNT_MAX``."""
    parts = [
        MESSAGE_HEAD.pack(
            record.flags,
            record.arrival_ms,
            record.channel,
            record.header_size,
            record.size,
            len(record.entries),
        )
    ]
    parts += [
        ENTRY.pack(queue_id, offset, min(delivery_count, DELIVERY_COUNT_MAX), flags)
        for queue_id, offset, delivery_count, flags in record.entries
    ]
    if record.flags & HAS_EXPIRY:
        parts.append(EXPIRY.pack(record.expires_at_ms))
    if record.flags & DEAD_LETTER:
        parts.append(HISTORY_SIZE.pack(record.history_size))
    if record.flags & HAS_BLIND_KEYS:
        parts.append(BLIND_KEY_COUNT.pack(len(record.blind_keys)))
        parts += [bytes((len(key),)) + key for key in record.blind_keys]
    if record.flags & LARGE:
        parts.append(LARGE_ID.pack(record.large_id))
    return [*parts, record.address, record.content]


def decode_settle(payload: bytes | memoryview) -> list[Run]:
    return [Run(*fields) for fields in _items(RUN, payload, SETTLE)]


def decode_return(payload: bytes | memoryview) -> list[Returned]:
    return [Returned(*fields) for fields in _items(RETURNED, payload, RETURN)]


def decode_cover(payload: bytes | memoryview) -> list[Cover]:
    return [Cover(*fields) for fields in _items(COVERED, payload, COVER)]


def decode_free(payload: bytes | memoryview) -> list[int]:
    """Numbers of segments."""
    return [number for (number,) in _items(FREED, payload, FREE)]


def decode_clean(payload: bytes | memoryview) -> int:
    """When the broker stopped, epoch milliseconds."""
    if len(payload) != CLEAN_TIME.size:
        raise MalformedRecord(f"CLEAN record with {len(payload)} octets")
    time_ms: int = CLEAN_TIME.unpack(payload)[0]
    return time_ms


def decode_checkpoint(payload: bytes | memoryview) -> Checkpoint:
    if len(payload) < CHECKPOINT_HEAD.size:
        raise MalformedRecord("CHECKPOINT record is too short")
    void_position, count = CHECKPOINT_HEAD.unpack_from(payload)
    end = CHECKPOINT_HEAD.size + count * CHECKPOINT_QUEUE.size
    if len(payload) < end or (len(payload) - end) % TRANSACTION.size:
        size = len(payload) - CHECKPOINT_HEAD.size
        raise MalformedRecord(f"CHECKPOINT record of {count} queues with {size} octets")
    items = CHECKPOINT_QUEUE.iter_unpack(payload[CHECKPOINT_HEAD.size : end])
    transactions = tuple(number for (number,) in TRANSACTION.iter_unpack(payload[end:]))
    return Checkpoint(void_position, [CheckpointQueue(*fields) for fields in items], transactions)


def decode_part(payload: bytes | memoryview) -> Part:
    if len(payload) < TRANSACTION.size:
        raise MalformedRecord("PART record is too short")
    (transaction,) = TRANSACTION.unpack_from(payload)
    items = _items(RUN, payload[TRANSACTION.size :], PART)
    return Part(transaction, [Run(*fields) for fields in items])


def decode_commit(payload: bytes | memoryview) -> list[int]:
    """Numbers of transactions."""
    return [number for (number,) in _items(TRANSACTION, payload, COMMIT)]


def _items(item: Struct, payload: bytes | memoryview, kind: int) -> Iterable[tuple[int, ...]]:
    if not payload or len(payload) % item.size:
        raise MalformedRecord(
            f"{KIND_NAMES[kind]} record with {len(payload)} octets, items have {item.size}"
        )
    return item.iter_unpack(payload)


def encode_checkpoint(checkpoint: Checkpoint) -> bytes:
    """The payload of a CHECKPOINT."""
    head = CHECKPOINT_HEAD.pack(checkpoint.void_position, len(checkpoint.queues))
    queues = b"".join(CHECKPOINT_QUEUE.pack(*queue) for queue in checkpoint.queues)
    return head + queues + b"".join(map(TRANSACTION.pack, checkpoint.transactions))


def encode_part(part: Part) -> bytes:
    """The payload of a PART."""
    return TRANSACTION.pack(part.transaction) + encode_items(RUN, part.runs)


def encode_items(item: Struct, items: Iterable[tuple[int, ...]]) -> bytes:
    """The payload of SETTLE (RUN), RETURN (RETURNED), COVER (COVERED), FREE (FREED) or COMMIT
    (TRANSACTION)."""
    return b"".join(item.pack(*fields) for fields in items)
