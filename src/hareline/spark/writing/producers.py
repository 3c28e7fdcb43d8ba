"""Producer ids and sequences, by which the broker recognises a message that it has already.

The broker keeps the highest sequence of each id and drops what is not above it, so a pair must
neither change nor be skipped. Rows take turns among *lanes*, an id each, with at most one message
of a lane in flight; docs/spark-sink.md has the reasoning. Invariant: a pair depends only on the
prefix, the number of lanes, the batch and the row's number in its partition.
"""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import blake2s
from struct import Struct
from typing import Final

PRODUCER_ID: Final = "x-producer-id"
PRODUCER_SEQUENCE: Final = "x-producer-seq"
#: Producer ids are short strings at the broker.

#: Rows that one lane may have in one batch.
_BATCH_STEP: Final = 1 << 32
_SIZE: Final = Struct(">I")
_SEQUENCE: Final = Struct(">q")
_ID_NAME: Final = bytes((len(PRODUCER_ID),)) + PRODUCER_ID.encode() + b"S"
_SEQUENCE_NAME: Final = bytes((len(PRODUCER_SEQUENCE),)) + PRODUCER_SEQUENCE.encode() + b"l"

#: Settings of Spark that decide into how many partitions a batch is cut, as far as tasks see them.
_CUTTING: Final = (
    "spark.master",
    "spark.default.parallelism",
    "spark.sql.shuffle.partitions",
    "spark.executor.instances",
    "spark.executor.cores",
    "spark.cores.max",
)


def producer_fields(producer: bytes, sequence: int) -> bytes:
    """The two fields of a headers table."""
    return _before_sequence(producer) + _SEQUENCE.pack(sequence)


def _before_sequence(producer: bytes) -> bytes:
    return _ID_NAME + _SIZE.pack(len(producer)) + producer + _SEQUENCE_NAME


class Lanes:
    """The producers of one partition of one batch."""

    def __init__(self, prefix: str, count: int, batch: int = 0) -> None:
        """``count``: how many messages may be in flight. ``batch`` grows from batch to batch."""
        self._count = count
        self._base = batch * _BATCH_STEP
        # The number of lanes is part of the name: with another one, rows have other lanes.
        self._heads = [
            _before_sequence(f"{prefix}/{count}/{lane}".encode()) for lane in range(count)
        ]

    def fields(self, first: int, count: int) -> list[bytes]:
        """The fields of ``count`` rows, from row ``first`` of the partition on."""
        lanes, heads, base, pack = self._count, self._heads, self._base, _SEQUENCE.pack
        return [
            heads[row % lanes] + pack(base + row // lanes) for row in range(first, first + count)
        ]


def stream_prefix(query: str, partition: int, processors: int, settings: Mapping[str, str]) -> str:
    """Prefix of the producers of one partition of a streaming query.

    It is the same in all batches of the query, so the broker has few producers to remember. A
    batch that is replayed after Spark was started with other settings may be cut differently, and
    then row 5 of partition 0 is another row; so what decides how a batch is cut is in the name.
    The replayed batch is then published twice instead of being lost. ``settings`` are those of
    Spark, ``processors`` those of the driver's machine.
    """
    cut = [f"{name}={settings.get(name)}" for name in _CUTTING]
    digest = blake2s(f"{processors}|{'|'.join(cut)}".encode(), digest_size=4).hexdigest()
    return f"spark/{query}/{digest}/{partition}"


def batch_prefix(write: str, partition: int) -> str:
    """Prefix of the producers of one partition of a batch write; ``write`` is its id."""
    return f"spark/{write}/{partition}"
