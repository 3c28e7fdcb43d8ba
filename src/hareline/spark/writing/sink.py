"""Writers that the data source gives to Spark: one for batches, one for streams.

Spark runs `write` for each partition in a task; `commit` and `abort` run in another process, which
knows only what `write` returned. Invariant: options and columns are checked before any task.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final
from uuid import uuid4

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)
from pyspark.sql.types import StructType

from hareline.spark.errors import InvalidOption, sentence_only
from hareline.spark.writing.producers import batch_prefix, stream_prefix
from hareline.spark.writing.task import PartitionPlace, write_partition
from hareline.spark.writing.write_options import WriteOptions, check_columns, read_write_options

_LOG: Final = logging.getLogger("hareline.spark")
# What a task is told of its query; in no documentation of Spark, but in all of 4.0 to 4.3.
_QUERY_ID: Final = "sql.streaming.queryId"
_BATCH_ID: Final = "streaming.sql.batchId"


@dataclass(frozen=True)
class WrittenPartition(WriterCommitMessage):
    """Counts of one task."""

    partition: int
    published: int
    #: Returned by the broker as unroutable, and given up because of onUnroutable=drop.
    dropped: int


def make_writer(options: Mapping[str, str], schema: StructType, overwrite: bool) -> BatchWriter:
    """The writer of a batch. Raises InvalidOption or InvalidRows."""
    if overwrite:
        raise InvalidOption(
            "mode 'overwrite' would have to delete what is in the queues: use mode('append')"
        )
    checked = read_write_options(options)
    return BatchWriter(checked, check_columns(columns_of(schema), checked))


def make_stream_writer(
    options: Mapping[str, str], schema: StructType, overwrite: bool
) -> StreamWriter:
    """The writer of a stream; with output mode complete (``overwrite``) each batch is the whole
    result, and is published whole. Raises InvalidOption or InvalidRows."""
    checked = read_write_options(options)
    return StreamWriter(checked, check_columns(columns_of(schema), checked))


def columns_of(schema: StructType) -> dict[str, str]:
    """Name and type of each column, as `check_columns` takes them."""
    return {each.name: each.dataType.simpleString() for each in schema.fields}


class BatchWriter(DataSourceArrowWriter):
    """Writes one batch; its producer ids are its own, so a retried task repeats them."""

    def __init__(
        self, options: WriteOptions, columns: list[str], write: str | None = None, batch: int = 0
    ) -> None:
        """``write`` names the write and ``batch`` is its number, for one made of several parts."""
        self._options = options
        self._columns = columns
        self._id = str(uuid4()) if write is None else write
        self._batch = batch

    @sentence_only()
    def write(self, iterator: Iterator[pa.RecordBatch]) -> WrittenPartition:
        """Publish the rows of a partition; runs in a task."""
        task = _task()
        partition = task.partitionId()
        place = PartitionPlace(
            partition, batch_prefix(self._id, partition), self._batch, _settings_of(task)
        )
        return WrittenPartition(
            partition, *write_partition(iterator, self._columns, self._options, place)
        )

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Say in the log what was dropped; each task has waited for its confirms."""
        _report("the write", messages)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Say in the log what stays at the broker, which cannot take messages back."""
        _report_aborted("the write", messages)


class StreamWriter(DataSourceStreamArrowWriter):
    """Writes the batches of a streaming query; a replayed batch repeats its producer ids."""

    def __init__(self, options: WriteOptions, columns: list[str]) -> None:
        self._options = options
        self._columns = columns
        self._processors = os.cpu_count() or 1  # of the driver's machine, as this runs there

    @sentence_only()
    def write(self, iterator: Iterator[pa.RecordBatch]) -> WrittenPartition:
        """Publish the rows of a partition; runs in a task."""
        task = _task()
        settings = _settings_of(task)
        query, batch = settings.get(_QUERY_ID, ""), settings.get(_BATCH_ID, "")
        if self._options.dedup == "batch" and not (query and batch):
            raise InvalidOption(
                "this version of Spark does not tell tasks their query and batch, which "
                "dedup=batch needs: set dedup=none or dedup=column"
            )
        partition = task.partitionId()
        prefix = stream_prefix(query, partition, self._processors, settings)
        place = PartitionPlace(partition, prefix, int(batch or 0), settings)
        return WrittenPartition(
            partition, *write_partition(iterator, self._columns, self._options, place)
        )

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 - Spark's name
        """Say in the log what was dropped; each task has waited for its confirms."""
        _report(f"batch {batchId}", messages)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 - Spark's name
        """Say in the log what stays at the broker, which cannot take messages back."""
        _report_aborted(f"batch {batchId}", messages)


def _settings_of(task: TaskContext) -> dict[str, str]:
    """Spark's settings and the properties of its query, as far as tasks see them."""
    properties: Any = getattr(task, "_localProperties", None)
    return dict(properties or {})


def _task() -> TaskContext:
    task = TaskContext.get()
    assert task is not None, "write is called by Spark, in a task"
    return task


def _totals(messages: list[WriterCommitMessage | None]) -> tuple[int, int]:
    written = [each for each in messages if isinstance(each, WrittenPartition)]
    return sum(each.published for each in written), sum(each.dropped for each in written)


def _report(what: str, messages: list[WriterCommitMessage | None]) -> None:
    published, dropped = _totals(messages)
    level = logging.WARNING if dropped else logging.INFO
    _LOG.log(level, "%s: %d rows published, %d dropped as unroutable", what, published, dropped)


def _report_aborted(what: str, messages: list[WriterCommitMessage | None]) -> None:
    published, _ = _totals(messages)
    _LOG.warning(
        "%s failed; %d rows of tasks that had ended stay at the broker, and those of others may",
        *(what, published),
    )
