"""Records about entries, segments and producers: all kinds but BATCH, MESSAGE and GAP.

SETTLE, RETURN, COVER, FREE and COMMIT are lists of items of one size; CLEAN, CHECKPOINT, PART and
PRODUCERS have a layout of their own. Decoders raise MalformedRecord.                        [hot]
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Mapping
from struct import Struct
from typing import Any, Final, NamedTuple

from hareline.storage.journal.format.frame import (
    CHECKPOINT,
    CLEAN,
    COMMIT,
    COVER,
    FREE,
    KIND_NAMES,
    PART,
    PRODUCERS,
    RETURN,
    SETTLE,
    MalformedRecord,
)

RUN: Final = Struct("<IQI")  # queue id, first offset, count
RETURNED: Final = Struct("<IQH")  # queue id, offset, delivery count
COVERED: Final = Struct("<IQ")  # queue id, offset
CLEAN_TIME: Final = Struct("<Q")
CHECKPOINT_HEAD: Final = Struct("<QI")  # void position, number of queues
CHECKPOINT_QUEUE: Final = Struct("<IQQ")  # queue id, next offset, cover
FREED: Final = Struct("<Q")
TRANSACTION: Final = Struct("<Q")


class Run(NamedTuple):
    """Entries ``first`` to ``first + length - 1`` of a queue are settled."""

    queue_id: int
    first: int
    length: int


class Returned(NamedTuple):
    """An entry that came back, with its new delivery count."""

    queue_id: int
    offset: int
    delivery_count: int


class Cover(NamedTuple):
    """Entries below ``offset`` may have been delivered."""

    queue_id: int
    offset: int


class CheckpointQueue(NamedTuple):
    """A queue in a CHECKPOINT. ``cover``: the highest ``Cover.offset`` that counts for it."""

    queue_id: int
    next_offset: int
    cover: int


class Checkpoint(NamedTuple):
    """``void_position``: a cover or "was delivered" before it does not count.

    ``transactions``: those with parts before it that are not committed; all others are.
    """

    void_position: int
    queues: list[CheckpointQueue]
    transactions: tuple[int, ...] = ()


class Part(NamedTuple):
    """The entries of these runs count only if the transaction is committed."""

    transaction: int
    runs: list[Run]


def decode_settle(payload: bytes | memoryview) -> list[Run]:
    return [Run(*fields) for fields in _items(RUN, payload, SETTLE)]


def decode_return(payload: bytes | memoryview) -> list[Returned]:
    return [Returned(*fields) for fields in _items(RETURNED, payload, RETURN)]


def decode_cover(payload: bytes | memoryview) -> list[Cover]:
    return [Cover(*fields) for fields in _items(COVERED, payload, COVER)]


def decode_free(payload: bytes | memoryview) -> list[int]:
    """Return numbers of segments."""
    return [number for (number,) in _items(FREED, payload, FREE)]


def decode_clean(payload: bytes | memoryview) -> int:
    """Return when the broker stopped, epoch milliseconds."""
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
    """Return numbers of transactions."""
    return [number for (number,) in _items(TRANSACTION, payload, COMMIT)]


def _items(item: Struct, payload: bytes | memoryview, kind: int) -> Iterable[tuple[int, ...]]:
    if not payload or len(payload) % item.size:
        raise MalformedRecord(
            f"{KIND_NAMES[kind]} record with {len(payload)} octets, items have {item.size}"
        )
    return item.iter_unpack(payload)


def encode_items(item: Struct, items: Iterable[tuple[int, ...]]) -> bytes:
    """Return the payload of a record that is a list of items.

    ``item``: RUN for SETTLE, RETURNED for RETURN, COVERED for COVER, FREED for FREE, TRANSACTION
    for COMMIT.
    """
    return b"".join(item.pack(*fields) for fields in items)


WHOLE: Final = 1  # flag of a list: producers that are not in it are forgotten

_FLAGS: Final = Struct("<B")
SEQUENCE: Final = Struct("<QQB")  # sequence, time, octets of the id that follows


class KeptSequence(NamedTuple):
    """``sequence``: the highest of a producer. ``used_ms``: when it was last accepted from."""

    producer_id: bytes
    sequence: int
    used_ms: int


class Producers(NamedTuple):
    """``is_whole``: producers of the virtual host that are not listed are forgotten."""

    vhost: bytes
    is_whole: bool
    sequences: list[KeptSequence]


def producers_head(vhost: bytes, is_whole: bool) -> bytes:
    """Return what a payload begins with, in front of the items."""
    return _FLAGS.pack(WHOLE if is_whole else 0) + bytes((len(vhost),)) + vhost


def decode_producers(payload: bytes | memoryview) -> Producers:
    """Return the virtual host and the sequences of its producers. Raises MalformedRecord."""
    try:
        (flags,) = _FLAGS.unpack_from(payload)
        at = 2 + payload[1]
        if flags & ~WHOLE:
            raise MalformedRecord(f"PRODUCERS record with unknown flags {flags:#x}")
        vhost = bytes(payload[2:at])
        sequences = []
        while at < len(payload):
            sequence, used_ms, size = SEQUENCE.unpack_from(payload, at)
            at += SEQUENCE.size
            sequences.append(KeptSequence(bytes(payload[at : at + size]), sequence, used_ms))
            at += size
    except (struct.error, IndexError):
        raise MalformedRecord("PRODUCERS record is too short") from None
    if at != len(payload) or not sequences:
        raise MalformedRecord(
            f"PRODUCERS record of {len(sequences)} producers with {len(payload)} octets"
        )
    return Producers(vhost, bool(flags & WHOLE), sequences)


#: Kind of each record in this module to its decoder.
DECODERS: Final[Mapping[int, Callable[[bytes | memoryview], Any]]] = {
    SETTLE: decode_settle,
    RETURN: decode_return,
    COVER: decode_cover,
    CLEAN: decode_clean,
    CHECKPOINT: decode_checkpoint,
    FREE: decode_free,
    PART: decode_part,
    COMMIT: decode_commit,
    PRODUCERS: decode_producers,
}
