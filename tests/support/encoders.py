"""Payloads of journal records made of what the decoders return; the broker packs its own."""

from __future__ import annotations

from collections.abc import Iterable

from hareline.storage.journal.format.message import (
    BLIND_KEY_COUNT,
    DEAD_LETTER,
    DELIVERY_COUNT_MAX,
    ENTRY,
    EXPIRY,
    HAS_BLIND_KEYS,
    HAS_EXPIRY,
    HISTORY_SIZE,
    LARGE,
    LARGE_ID,
    MESSAGE_HEAD,
    MessageRecord,
)
from hareline.storage.journal.format.records import (
    CHECKPOINT_HEAD,
    CHECKPOINT_QUEUE,
    RUN,
    SEQUENCE,
    TRANSACTION,
    Checkpoint,
    KeptSequence,
    Part,
    encode_items,
    producers_head,
)


def encode_message(record: MessageRecord) -> list[bytes]:
    """Return the payload of a MESSAGE in parts.

    Delivery counts above ``DELIVERY_COUNT_MAX`` are written as that.
    """
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


def encode_producers(vhost: bytes, is_whole: bool, sequences: Iterable[KeptSequence]) -> bytes:
    """Return the payload of a PRODUCERS record."""
    items = [
        SEQUENCE.pack(sequence, used_ms, len(producer_id)) + producer_id
        for producer_id, sequence, used_ms in sequences
    ]
    return b"".join((producers_head(vhost, is_whole), *items))


def encode_checkpoint(checkpoint: Checkpoint) -> bytes:
    """Return the payload of a CHECKPOINT."""
    head = CHECKPOINT_HEAD.pack(checkpoint.void_position, len(checkpoint.queues))
    queues = b"".join(CHECKPOINT_QUEUE.pack(*queue) for queue in checkpoint.queues)
    return head + queues + b"".join(map(TRANSACTION.pack, checkpoint.transactions))


def encode_part(part: Part) -> bytes:
    """Return the payload of a PART."""
    return TRANSACTION.pack(part.transaction) + encode_items(RUN, part.runs)
