"""One task of a write: the rows of one partition, published at its pace and confirmed.

It needs Spark's settings as text and nothing else of Spark. Invariant: when `write_partition`
returns, the broker has answered for each row; when it raises, rows may have been published, and
the same task done again gives them the same producer ids and sequences.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import Final

import pyarrow as pa

from hareline.spark.errors import InvalidOption
from hareline.spark.writing.producers import Lanes
from hareline.spark.writing.publisher import Publisher
from hareline.spark.writing.rows import RowEncoder
from hareline.spark.writing.write_options import WriteOptions

#: Rows, and octets of all columns, that are turned into Python objects at a time.
_ROWS_AT_ONCE = 2000
_OCTETS_AT_ONCE = 8 * 1024 * 1024
#: Portions of a second, so that waits are short and rows come evenly.
_PORTIONS: Final = 20


@dataclass(frozen=True)
class PartitionPlace:
    """Number of a partition, and facts of the write that it belongs to."""

    partition: int
    #: What the producer ids of this partition begin with, for dedup=batch.
    producer_prefix: str
    #: Grows from batch to batch of a stream; 0 for a batch write.
    batch: int = 0
    #: Those of Spark, as far as tasks see them.
    settings: Mapping[str, str] = field(default_factory=dict)


def write_partition(
    batches: Iterable[pa.RecordBatch],
    columns: Iterable[str],
    options: WriteOptions,
    place: PartitionPlace,
) -> tuple[int, int]:
    """Publish all rows, in their order, wait for all confirms, and count them.

    Returns how many the broker has taken, and how many it returned and onUnroutable=drop gave up.

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
            return 0, 0
        publisher.drain()
        dropped = publisher.returned
        return publisher.published - dropped, dropped
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


class Pace:
    """``rate`` rows a second from ``start`` on."""

    def __init__(self, rate: float, start: float) -> None:
        self._rate = rate
        self._start = start
        self._rows = 0
        #: How many rows to publish before the next question.
        self.portion = max(1, int(rate / _PORTIONS))

    def wait_after(self, rows: int, now: float) -> float:
        """Seconds to wait now that ``rows`` more were published; 0 if the task is behind."""
        due = self._start + (self._rows + rows) / self._rate
        self._rows += rows
        if now > due + 1:  # do not make up for what was lost longer than a second ago
            self._start, self._rows = now, 0
            return 0.0
        return max(0.0, due - now)


def share_of(rate: int, tasks: int | None, settings: Mapping[str, str], processors: int) -> float:
    """Rows a second for one of ``tasks`` tasks, or of as many as Spark runs at once.

    ``settings`` are those of Spark. Raises InvalidOption if they do not say how many.
    """
    if tasks is None:
        tasks = tasks_at_once(settings, processors)
    if tasks is None:
        raise InvalidOption(
            "maxRate is shared by all tasks that run at the same time, and this cluster's settings "
            "do not say how many: give maxRateTasks, the number of cores that the write may use"
        )
    return rate / tasks


def tasks_at_once(settings: Mapping[str, str], processors: int) -> int | None:
    """Number of tasks that Spark runs at once, None if its settings do not say."""
    master = settings.get("spark.master", "")
    if master == "local":
        return 1
    if master.startswith("local["):
        threads = master.removeprefix("local[").rstrip("]").partition(",")[0]
        return processors if threads == "*" else int(threads)
    if settings.get("spark.cores.max", "").isdecimal():
        return int(settings["spark.cores.max"])
    executors = settings.get("spark.executor.instances", "")
    cores = settings.get("spark.executor.cores", "1")
    if executors.isdecimal() and cores.isdecimal():
        return int(executors) * int(cores)
    return None
