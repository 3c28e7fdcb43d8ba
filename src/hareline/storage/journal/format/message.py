"""The MESSAGE record: one message, and a line for each queue that it is in.

``storage.store.message_records`` packs messages by the Struct objects, for speed.
``decode_entries`` reads the lines only, without the message.                                  [hot]
"""

from __future__ import annotations

import struct
from struct import Struct
from typing import Final, NamedTuple

from hareline.storage.journal.format.frame import MalformedRecord

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

# flags, arrival_ms, channel, header_size, size, number of entries
MESSAGE_HEAD: Final = Struct("<BQHIQI")
KIND_AND_MESSAGE_HEAD: Final = Struct(
    "<BBQHIQI"
)  # the same after the kind: what the checksum covers
ENTRY: Final = Struct("<IQHB")  # queue id, offset, delivery count, entry flags
EXPIRY: Final = Struct("<Q")
HISTORY_SIZE: Final = Struct("<I")
BLIND_KEY_COUNT: Final = Struct("<H")
LARGE_ID: Final = Struct("<Q")

_BODY_FRAME_OVERHEAD: Final = 8  # AMQP 0-9-1, 4.2.3: type, channel, size, and the end octet


class Entry(NamedTuple):
    """A line of a MESSAGE: its place in one queue. ``flags``: WAS_DELIVERED or 0."""

    queue_id: int
    offset: int
    delivery_count: int
    flags: int


class MessageRecord(NamedTuple):
    """A decoded MESSAGE.

    ``expires_at_ms``, ``history_size``, ``large_id``: 0 without their flag.

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


def decode_entries(payload: bytes | memoryview) -> list[tuple[int, int, int, int]]:
    """Return only the entries of a MESSAGE: queue id, offset, delivery count, entry flags.

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
    """Return the fields of a MESSAGE. Raises MalformedRecord."""
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
