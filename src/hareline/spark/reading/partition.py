"""What a task reads: one range of one stream, as record batches.

``batch`` and ``stream`` send it to executors. Invariant: all rows of the range come out, in order,
or an error; less only where an option allows it, and then a warning says how many rows are gone.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any, Final

from pyspark.sql.datasource import InputPartition

from hareline.spark.errors import IncarnationChanged, MessagesMissing, OffsetGone, QueueGone
from hareline.spark.errors.failures import sentence_only
from hareline.spark.reading.access import StreamAccess
from hareline.spark.reading.batches import BatchBuilder
from hareline.spark.reading.options import ReadOptions
from hareline.spark.reading.places import client_of
from hareline.spark.reading.splitting import Range

_log: Final = logging.getLogger(__name__)


class RangePartition(InputPartition):
    """A range for one task."""

    def __init__(self, wanted: Range) -> None:
        super().__init__(tuple(wanted))
        self.wanted = wanted


def read_partition(options: ReadOptions, schema: Any, partition: InputPartition) -> Iterator[Any]:
    """The record batches of a partition; ``schema`` is Arrow's. Raises what is missing.

    Spark makes up a partition of its own if there is nothing to read; it has no rows.
    """
    if not isinstance(partition, RangePartition):
        return
    wanted = partition.wanted
    builder = BatchBuilder(
        options.connection.vhost, wanted.queue, wanted.incarnation, schema, options.untold
    )
    with sentence_only(), client_of(options) as client:
        yield from _read(options, client, builder, wanted)


def _read(
    options: ReadOptions, client: StreamAccess, builder: BatchBuilder, wanted: Range
) -> Iterator[Any]:
    at = wanted.start
    patience = client.patience()
    while at < wanted.end:
        try:
            for chunk in client.chunks(wanted.queue, at, wanted.end, wanted.incarnation):
                yield from builder.batches(chunk)
                at = chunk.header.first_offset + chunk.header.count
            return
        except (OffsetGone, MessagesMissing) as problem:
            first = problem.first
            if options.fails_on_data_loss or first is None or first <= at:
                raise
            gone = min(first, wanted.end) - at
            _log.warning("skipped %d rows of stream %r: %s", gone, wanted.queue, problem)
            at += gone
        except (QueueGone, IncarnationChanged) as problem:
            # Its messages do not return with it: either option may have said that this is fine.
            is_gone = isinstance(problem, QueueGone)
            if not (
                options.restarts_on_new_incarnation or (is_gone and not options.fails_on_data_loss)
            ):
                if is_gone and options.waits_for_streams and patience.pause():
                    continue
                raise
            gone = wanted.end - at
            _log.warning("skipped %d rows of stream %r: %s", gone, wanted.queue, problem)
            return
