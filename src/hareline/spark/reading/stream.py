"""Streaming reads: Spark's calls, in Spark's words, handed on to a `StreamFollower`.

One instance lives on the driver as long as the query; `read` runs on copies of it in tasks, which
know nothing of what it learned. Spark calls `commit` one batch late, never for the last batch, and
may kill the process without `stop`: the checkpoint alone says where a query goes on.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)

from hareline.spark.errors import InvalidOption, sentence_only
from hareline.spark.reading.columns import arrow_schema
from hareline.spark.reading.following import Position, StreamFollower, from_json, to_json
from hareline.spark.reading.options import ReadOptions
from hareline.spark.reading.partition import RangePartition, read_partition


class AmqpStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads streams as they grow."""

    def __init__(self, options: ReadOptions, schema: Any) -> None:
        """``schema``: Spark's. Raises InvalidOption."""
        self._options = options
        self._vhost = options.connection.vhost
        self._schema = arrow_schema(schema, options.untold)
        self._follower = StreamFollower(options)

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """The limit that Spark hands to `latestOffset` unless the trigger says otherwise."""
        return ReadMaxRows(self._options.max_trigger_rows)

    @sentence_only()
    def initialOffset(self) -> dict[str, object]:  # noqa: N802
        """Offset of a new query."""
        return to_json(self._vhost, self._follower.initial())

    @sentence_only()
    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Ignore everything that arrives from now on."""
        self._follower.end_here()

    @sentence_only()
    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, object]:  # noqa: N802
        """End of the batch that begins at ``start``."""
        max_rows: int | None = self._options.max_trigger_rows
        max_octets: int | None = self._options.max_trigger_octets
        if isinstance(limit, ReadAllAvailable):
            max_rows = max_octets = None
        elif isinstance(limit, ReadMaxRows):
            max_rows = limit.max_rows
        elif isinstance(limit, ReadMaxBytes):
            max_octets = limit.max_bytes
        positions = self._positions(start)
        return to_json(self._vhost, self._follower.latest(positions, max_rows, max_octets))

    def reportLatestOffset(self) -> dict[str, object]:  # noqa: N802
        """Ends and amounts of the streams, for the progress of the query."""
        return to_json(self._vhost, self._follower.seen(), self._follower.amounts())

    @sentence_only()
    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        """The ranges between two offsets, the same whenever Spark asks."""
        ranges = self._follower.ranges(self._positions(start), self._positions(end))
        return [RangePartition(each) for each in ranges]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """The record batches of a partition."""
        return read_partition(self._options, self._schema, partition)

    def commit(self, end: dict[str, Any]) -> None:
        """Report the position to the broker under ``readerName``, if there is one."""
        self._follower.report(self._positions(end))

    def stop(self) -> None:
        """Let go of the broker; Spark mostly ends the process instead."""
        self._follower.close()

    def _positions(self, offset: dict[str, Any]) -> dict[str, Position]:
        """The positions in an offset. Raises InvalidOption for one of the other transport."""
        positions = from_json(self._vhost, offset)
        is_over_amqp = self._options.is_over_amqp
        for queue, at in positions.items():
            if is_over_amqp == bool(at.incarnation):
                wrote = "http" if is_over_amqp else "amqp"
                raise InvalidOption(
                    f"the checkpoint is of a query with transport={wrote}, which knows stream "
                    f"{queue!r} otherwise: set transport={wrote}, or use another checkpointLocation"
                )
        return positions
