"""One range of one stream as record batches: the work of a task.

Offsets, arrivals, sizes and bodies are views of a chunk's octets, on little-endian machines as
pyarrow is; each distinct meta of a batch is decoded once. Invariant: all rows of the range come
out, in order, or an error; fewer only where an option allows it, with a warning.
"""

from __future__ import annotations

import logging
from array import array
from bisect import bisect_right
from collections.abc import Collection, Iterable, Iterator
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.datasource import InputPartition

from hareline.errors import MalformedFrame
from hareline.spark.errors import (
    IncarnationChanged,
    MessagesMissing,
    OffsetGone,
    QueueGone,
    sentence_only,
)
from hareline.spark.reading.access import OCTETS_MAX, ROWS_MAX, Chunk, StreamAccess
from hareline.spark.reading.metas import (
    ADDRESS,
    HEADERS,
    IN_METAS,
    Metas,
    decode_metas,
    header_texts,
)
from hareline.spark.reading.options import ReadOptions
from hareline.spark.reading.planning import Range, client_of

_ZERO: Final = pa.array([0], pa.int32())


class BatchBuilder:
    """Builds the batches of one stream for one schema."""

    def __init__(
        self,
        vhost: str,
        queue: str,
        incarnation: str,
        schema: Any,
        untold: Collection[str] = frozenset(),
    ) -> None:
        """``schema``: an Arrow schema of ``columns.arrow_schema``; ``untold``: columns of nulls."""
        self._queue = queue
        self._schema = schema
        self._untold = {
            name: pa.nulls(ROWS_MAX, schema.field(name).type)
            for name in untold
            if name in schema.names
        }
        known = {"vhost": vhost, "queue": queue, "incarnation": incarnation}
        self._constants = {
            name: pa.repeat(pa.scalar(value, pa.string()), ROWS_MAX)
            for name, value in known.items()
            if name in schema.names
        }
        self._meta_columns = IN_METAS & set(schema.names)

    def batches(self, chunk: Chunk) -> Iterator[Any]:
        """The messages of a chunk. Raises MessagesMissing for properties that cannot be read."""
        header = chunk.header
        count = header.count
        octets = pa.py_buffer(chunk.columns)
        sizes = count * 16
        arrivals = _view(self._type("timestamp"), octets, 0, count)
        body_sizes = _view(pa.int32(), octets, count * 12, count)
        metas = _binaries(
            _view(pa.int32(), octets, count * 8, count), octets.slice(sizes, header.metas_size)
        )
        bodies = _binaries(body_sizes, octets.slice(sizes + header.metas_size, header.bodies_size))
        for start, end in _cuts(metas, bodies, count):
            rows = end - start
            columns = {name: each.slice(0, rows) for name, each in self._constants.items()}
            columns["timestamp"] = arrivals.slice(start, rows)
            columns["body"] = bodies.slice(start, rows)
            columns["size"] = body_sizes.slice(start, rows)
            first = header.first_offset + start
            if "offset" in self._schema.names:
                numbers = pa.py_buffer(array("q", range(first, first + rows)))
                columns["offset"] = pa.Array.from_buffers(pa.int64(), rows, [None, numbers])
            columns |= {name: each.slice(0, rows) for name, each in self._untold.items()}
            if self._meta_columns:
                columns |= self._decoded(metas.slice(start, rows), first)
            yield pa.RecordBatch.from_arrays(
                [columns[name] for name in self._schema.names], schema=self._schema
            )

    def _decoded(self, metas: Any, first_offset: int) -> dict[str, Any]:
        """The columns that are in metas."""
        distinct = metas.dictionary_encode()
        octets = distinct.dictionary.to_pylist()
        try:
            decoded = decode_metas(octets, self._meta_columns)
            columns = self._columns_of(decoded)
        except MalformedFrame as problem:
            raise MessagesMissing(self._unreadable(metas, first_offset, problem)) from None
        if len(octets) == len(metas):  # each has its own, in their order
            return columns
        return {name: each.take(distinct.indices) for name, each in columns.items()}

    def _columns_of(self, decoded: Metas) -> dict[str, Any]:
        columns = {
            name: pa.array(values, self._type(name))
            for name, values in decoded.properties.items()
            if name in self._meta_columns
        }
        if not ADDRESS.isdisjoint(self._meta_columns):
            address_of = pa.array(decoded.address_of, pa.int32())
            for name, texts in zip(
                ("exchange", "routing_key"), decoded.address_texts(), strict=True
            ):
                columns[name] = pa.array(texts, pa.string()).take(address_of)
        if not HEADERS.isdisjoint(self._meta_columns):
            table_of = pa.array(decoded.table_of, pa.int32())
            if "headers" in self._meta_columns:
                columns["headers"] = _maps(decoded.tables).take(table_of)
            if "headers_raw" in self._meta_columns:
                columns["headers_raw"] = pa.array(decoded.tables, pa.binary()).take(table_of)
        return columns

    def _unreadable(self, metas: Any, first_offset: int, problem: MalformedFrame) -> str:
        """Names the first message whose meta cannot be decoded."""
        at = first_offset
        for number, meta in enumerate(metas.to_pylist()):
            try:
                self._columns_of(decode_metas([meta], self._meta_columns))
            except MalformedFrame as first_problem:
                at, problem = first_offset + number, first_problem
                break
        return (
            f"stream {self._queue!r}, message {at}: its properties cannot be read: "
            f"{problem.explanation}"
        )

    def _type(self, name: str) -> Any:
        if name in self._schema.names:
            return self._schema.field(name).type
        return pa.timestamp("us", tz="UTC") if name == "timestamp" else pa.binary()


def _maps(tables: Iterable[bytes]) -> Any:
    """The headers in each of these tables, as an array of maps. Raises MalformedFrame."""
    ends = [0]
    names: list[str] = []
    values: list[str | None] = []
    for table in tables:
        texts = header_texts(table)
        names.extend(texts)
        values.extend(texts.values())
        ends.append(len(names))
    return pa.MapArray.from_arrays(
        pa.array(ends, pa.int32()), pa.array(names, pa.string()), pa.array(values, pa.string())
    )


def _view(kind: Any, octets: Any, start: int, count: int) -> Any:
    """Numbers of a chunk as an Arrow array, not copied."""
    size = count * (kind.bit_width // 8)
    return pa.Array.from_buffers(kind, count, [None, octets.slice(start, size)])


def _binaries(sizes: Any, octets: Any) -> Any:
    """Pieces of these sizes as an Arrow array; the octets are not copied."""
    ends = pa.concat_arrays([_ZERO, pc.cumulative_sum_checked(sizes)])
    return pa.Array.from_buffers(pa.binary(), len(sizes), [None, ends.buffers()[1], octets])


def _cuts(metas: Any, bodies: Any, count: int) -> Iterator[tuple[int, int]]:
    """Start and end of each batch among the messages of a chunk."""
    meta_ends = memoryview(metas.buffers()[1]).cast("i")
    body_ends = memoryview(bodies.buffers()[1]).cast("i")
    start = 0
    while start < count:
        limit = meta_ends[start] + body_ends[start] + OCTETS_MAX
        last = min(start + ROWS_MAX, count)
        # the last end that is within the limit, or one row
        end = bisect_right(
            range(start + 1, last + 1), limit, key=lambda at: meta_ends[at] + body_ends[at]
        )
        end = start + max(1, end)
        yield start, end
        start = end


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
