"""Batch reads: what the streams have at the moment of planning, or a part of it.

Spark refuses a reader with ``pushFilters`` wherever its configuration does not allow it, so that
is a class of its own. Invariant: a filter that is not handed back is fulfilled by every row.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Iterator
from typing import Any

from pyspark.sql.datasource import (
    DataSourceReader,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    InputPartition,
    IsNotNull,
    LessThan,
    LessThanOrEqual,
)

from hareline.spark.errors import InvalidOption, sentence_only
from hareline.spark.reading.access import StreamAccess
from hareline.spark.reading.columns import COLUMNS, arrow_schema
from hareline.spark.reading.options import ReadOptions, default_partitions
from hareline.spark.reading.partition import RangePartition, read_partition
from hareline.spark.reading.planning import (
    Range,
    client_of,
    ends,
    needs_one,
    split,
    starts,
    streams_of,
)

_ALWAYS_THERE = frozenset(column.name for column in COLUMNS if column.is_always_there)


class AmqpReader(DataSourceReader):
    """Reads streams from one place to another and ends."""

    def __init__(self, options: ReadOptions, schema: Any) -> None:
        """``schema``: Spark's. Raises InvalidOption."""
        self._options = options
        self._schema = arrow_schema(schema, options.untold)
        # What filters leave of the streams: names, and bounds of offsets and of arrival.
        self._only: frozenset[object] | None = None
        self._from = 0
        self._to: int | None = None
        self._since_ms: int | None = None

    @sentence_only()
    def partitions(self) -> list[InputPartition]:
        """The ranges of the tasks. Raises what is wrong with the streams or the options."""
        with client_of(self._options) as client:
            whole = self._whole(client)
        options = self._options
        pieces = split(
            whole, options.max_partition_rows, options.min_partitions, default_partitions()
        )
        return [RangePartition(each) for each in pieces]

    def _whole(self, client: StreamAccess) -> list[Range]:
        """The range to read of each stream."""
        options = self._options
        streams = streams_of(options, client)
        needs_one(options, streams)
        begin, end = starts(options, client, streams), ends(options, client, streams)
        whole = []
        for queue, state in sorted(streams.items()):
            if begin[queue] > end[queue] and isinstance(options.end, dict):
                raise InvalidOption(
                    f"the read of stream {queue!r} begins at {begin[queue]} and ends before "
                    f"{end[queue]}"
                )
            if self._only is not None and queue not in self._only:
                continue
            first = max(begin[queue], self._from)
            last = end[queue] if self._to is None else min(end[queue], self._to)
            if self._since_ms is not None and first < last:
                first = max(first, client.offset_at(queue, self._since_ms))
            whole.append(Range(queue, state.incarnation, first, last))
        return whole

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """The record batches of a partition."""
        return read_partition(self._options, self._schema, partition)


class FilteringAmqpReader(AmqpReader):
    """Reads only the part of the streams that filters on queue, offset and timestamp leave."""

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802
        """Narrow the read by these filters; those that Spark must apply itself come back."""
        for each in filters:
            if not self._push(each):
                yield each

    def _push(self, each: Filter) -> bool:
        """True if all rows that are read now fulfil the filter."""
        name = each.attribute[0] if hasattr(each, "attribute") else None
        if isinstance(each, IsNotNull):
            return name in _ALWAYS_THERE - self._options.untold
        if name == "queue":
            return self._push_queue(each)
        if name == "offset":
            return self._push_offset(each)
        if name == "timestamp" and name not in self._options.untold:
            self._push_timestamp(each)
        return False

    def _push_queue(self, each: Filter) -> bool:
        names: frozenset[object]
        if isinstance(each, EqualTo):
            names = frozenset((each.value,))
        elif isinstance(each, In):
            names = frozenset(each.value)
        else:
            return False
        self._only = names if self._only is None else self._only & names
        return True

    def _push_offset(self, each: Filter) -> bool:
        if not isinstance(
            each, EqualTo | GreaterThan | GreaterThanOrEqual | LessThan | LessThanOrEqual
        ):
            return False
        value = each.value
        if not isinstance(value, int):
            return False
        if isinstance(each, EqualTo | GreaterThan | GreaterThanOrEqual):
            least = value + 1 if isinstance(each, GreaterThan) else value
            self._from = max(self._from, least)
        if isinstance(each, EqualTo | LessThan | LessThanOrEqual):
            end = value if isinstance(each, LessThan) else value + 1
            self._to = end if self._to is None else min(self._to, end)
        return True

    def _push_timestamp(self, each: Filter) -> None:
        """Note a lower bound, in whole milliseconds below it.

        Spark applies the filter too: a clock that was set back lets later messages be earlier. So
        an upper bound would leave out messages that fulfil it.
        """
        if isinstance(each, EqualTo | GreaterThan | GreaterThanOrEqual):
            value = each.value
            if isinstance(value, datetime.datetime) and value.tzinfo is not None:
                since_ms = int(value.timestamp() * 1000) - 1
                self._since_ms = max(0, since_ms, self._since_ms or 0)
