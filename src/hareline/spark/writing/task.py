"""One task of a write: the rows of one partition, published and confirmed.

The writers of ``sink`` and the replay call `write_partition` on executors; it needs Spark's
settings as text and nothing else of Spark. Invariant: when it returns, the broker has answered for
each row; when it raises, rows may have been published, and the same task done again gives them the
same producer ids and sequences.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import islice

import pyarrow as pa

from hareline.spark.errors import InvalidOption
from hareline.spark.writing.pace import Pace, share_of
from hareline.spark.writing.producers import Lanes
from hareline.spark.writing.publisher import Publisher
from hareline.spark.writing.rows import RowEncoder
from hareline.spark.writing.write_options import WriteOptions

#: Rows, and octets of all columns, that are turned into Python objects at a time.
_ROWS_AT_ONCE = 2000
_OCTETS_AT_ONCE = 8 * 1024 * 1024


@dataclass(frozen=True)
class PartitionPlace:
    """Which partition this is, and what is known of the write it belongs to."""

    partition: int
    #: What the producer ids of this partition begin with, for dedup=batch.
    producer_prefix: str
    #: Grows from batch to batch of a stream; 0 for a batch write.
    batch: int = 0
    #: Those of Spark, as far as tasks see them.
    settings: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class WrittenCount:
    """What became of the rows of a partition."""

    #: Those that the broker has taken.
    published: int = 0
    #: Those that it returned, since no queue takes them, and that onUnroutable=drop gave up.
    dropped: int = 0


def write_partition(
    batches: Iterable[pa.RecordBatch],
    columns: Iterable[str],
    options: WriteOptions,
    place: PartitionPlace,
) -> WrittenCount:
    """Publish all rows, in their order, and wait for all confirms.

    ``columns`` were checked by `check_columns`. A partition without rows opens no connection.
    Raises the errors of ``hareline.spark.errors``.
    """
    refuse_speculation(place.settings)
    pace = _pace(options, place)
    lanes = None
    if options.dedup == "batch":
        lanes = Lanes(place.producer_prefix, options.max_in_flight, place.batch)
    encoder = RowEncoder(columns, options, place.partition, lanes)
    publisher: Publisher | None = None
    try:
        for batch in batches:
            for piece in pieces_of(batch):
                if publisher is None:
                    publisher = _publisher(options, place)
                _publish(publisher, encoder, piece, pace)
        if publisher is None:
            return WrittenCount()
        publisher.drain()
        dropped = publisher.returned
        return WrittenCount(publisher.published - dropped, dropped)
    finally:
        if publisher is not None:
            publisher.close()


def refuse_speculation(settings: Mapping[str, str]) -> None:
    """Raise InvalidOption if Spark may run a task twice at the same time."""
    if settings.get("spark.speculation", "").lower() == "true":
        raise InvalidOption(
            "spark.speculation=true runs tasks twice at the same time, which publishes their rows "
            "twice: set spark.speculation=false for a session that writes to the broker"
        )


def pieces_of(batch: pa.RecordBatch) -> Iterable[pa.RecordBatch]:
    """The rows of a batch in portions that are bounded, since bodies may be large."""
    rows = batch.num_rows
    if rows == 0:
        return
    size = max(1, min(_ROWS_AT_ONCE, rows * _OCTETS_AT_ONCE // max(1, batch.nbytes)))
    for start in range(0, rows, size):
        yield batch.slice(start, size)


def _publish(
    publisher: Publisher, encoder: RowEncoder, piece: pa.RecordBatch, pace: Pace | None
) -> None:
    publish = publisher.publish
    rows = encoder.encode(piece)
    if pace is None:
        for exchange, routing_key, properties, body, mandatory in rows:
            publish(exchange, routing_key, properties, body, mandatory)
        return
    while portion := list(islice(rows, pace.portion)):
        for exchange, routing_key, properties, body, mandatory in portion:
            publish(exchange, routing_key, properties, body, mandatory)
        publisher.wait(pace.wait_after(len(portion), time.monotonic()))


def _pace(options: WriteOptions, place: PartitionPlace) -> Pace | None:
    if options.max_rate is None:
        return None
    processors = os.cpu_count() or 1
    share = share_of(options.max_rate, options.max_rate_tasks, place.settings, processors)
    return Pace(share, time.monotonic())


def _publisher(options: WriteOptions, place: PartitionPlace) -> Publisher:
    return Publisher(
        options.connection,
        confirms=options.confirms,
        max_in_flight=options.max_in_flight,
        timeout_s=options.confirm_timeout_s,
        drops_unroutable=options.drops_unroutable,
        name=f"hareline spark sink, partition {place.partition}",
    )
