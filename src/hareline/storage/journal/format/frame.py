"""Frame of all records: kind, length, checksum, and the BATCH around them.

The checksums of a segment begin with a seed of its own, so octets of a file's former life, or of a
message, never pass for its records. A record counts only within a valid BATCH.                [hot]
"""

from __future__ import annotations

from collections.abc import Sequence
from struct import Struct
from typing import Final, NamedTuple
from zlib import crc32

from hareline.errors import StoreError
from hareline.storage.journal.format.positions import segment_of

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
PART: Final = 10
COMMIT: Final = 11
PRODUCERS: Final = 12
LAST_KIND: Final = PRODUCERS
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
    PRODUCERS: "PRODUCERS",
}

# A record: length of (kind + payload), checksum of (kind + payload); then kind and payload.
RECORD_PREFIX: Final = Struct("<II")
RECORD_HEAD: Final = Struct("<IIB")
RECORD_OVERHEAD: Final = RECORD_HEAD.size  # octets of a record beyond its payload

# kind, magic, position, octets that follow, records that follow, salt, durable position, time
_BATCH_BODY: Final = Struct("<B8sQIIIQQ")
BATCH_SIZE: Final = RECORD_PREFIX.size + _BATCH_BODY.size
BATCH_LENGTH: Final = _BATCH_BODY.size
BATCH_MAGIC_OFFSET: Final = RECORD_HEAD.size  # from the start of the record
_SALT_AND_NUMBER: Final = Struct("<QI")


class MalformedRecord(StoreError):
    """Octets that are not a valid record or header, though a checksum may match."""


class Batch(NamedTuple):
    """``octets``, ``records``: how much follows and belongs to it.

    ``durable``: the position up to which the journal was durable when the batch was built.
    """

    position: int
    octets: int
    records: int
    salt: int
    durable: int
    time_ms: int


def seed_of(number: int, salt: int) -> int:
    """Return what the checksums of a segment's records begin with.

    The number is enough for what a recycled file still holds of its former life. The salt is for a
    message whose body contains records, be it a backup of a journal or a forgery.
    """
    return crc32(_SALT_AND_NUMBER.pack(number, salt))


def encode_record(kind: int, payload_parts: Sequence[bytes], seed: int) -> list[bytes]:
    """Return the octets of a record as parts, to be written one after the other."""
    checksum = crc32(bytes((kind,)), seed)
    length = 1
    for part in payload_parts:
        checksum = crc32(part, checksum)
        length += len(part)
    return [RECORD_HEAD.pack(length, checksum, kind), *payload_parts]


def encode_batch(batch: Batch, seed: int) -> bytes:
    """Return the BATCH record, ``BATCH_SIZE`` octets."""
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
    """Return the BATCH record at ``start``; None if it is not valid.

    Without a seed (the segment's header cannot be read) the salt in the record is believed.
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
