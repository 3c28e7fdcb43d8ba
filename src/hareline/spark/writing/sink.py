"""Writers that the data source gives to Spark: one for batches, one for streams.

Spark runs `write` for each partition in a task; `commit` and `abort` run in another process, which
knows only what `write` returned. Invariant: options and columns are checked before any task.
"""

from __future__ import annotations

import logging
import os
from abc import ABC, abstractmethod
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
from hareline.spark.writing.write_options import check_columns, read_write_options

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


class _Writer(ABC):
    """Options and columns, checked on the driver, and the work of a task."""

    def __init__(self, options: Mapping[str, str], schema: StructType) -> None:
        """Raises InvalidOption or InvalidRows."""
        self._options = read_write_options(options)
        types = {each.name: each.dataType.simpleString() for each in schema.fields}
        self._columns = check_columns(types, self._options)

    @sentence_only()
    def write(self, iterator: Iterator[pa.RecordBatch]) -> WrittenPartition:
        """Publish the rows of a partition; runs in a task."""
        task = TaskContext.get()
        assert task is not None, "write is called by Spark, in a task"
        # Spark's settings and the properties of its query, as far as tasks see them.
        settings: Any = getattr(task, "_localProperties", None)
        place = self._place(task.partitionId(), dict(settings or {}))
        counts = write_partition(iterator, self._columns, self._options, place)
        return WrittenPartition(place.partition, *counts)

    @abstractmethod
    def _place(self, partition: int, settings: Mapping[str, str]) -> PartitionPlace:
        """The partition, with the prefix of its producers and the number of the batch."""


class BatchWriter(_Writer, DataSourceArrowWriter):
    """Writes one batch; its producer ids are its own, so a retried task repeats them."""

    def __init__(
        self,
        options: Mapping[str, str],
        schema: StructType,
        write: str | None = None,
        batch: int = 0,
    ) -> None:
        """``write`` names the write and ``batch`` is its number, for one made of several parts."""
        super().__init__(options, schema)
        self._id = str(uuid4()) if write is None else write
        self._batch = batch

    def _place(self, partition: int, settings: Mapping[str, str]) -> PartitionPlace:
        return PartitionPlace(partition, batch_prefix(self._id, partition), self._batch, settings)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Say in the log what was dropped; each task has waited for its confirms."""
        _report("the write", messages)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Say in the log what stays at the broker, which cannot take messages back."""
        _report_aborted("the write", messages)


class StreamWriter(_Writer, DataSourceStreamArrowWriter):
    """Writes the batches of a streaming query; a replayed batch repeats its producer ids."""

    def __init__(self, options: Mapping[str, str], schema: StructType) -> None:
        super().__init__(options, schema)
        self._processors = os.cpu_count() or 1  # of the driver's machine, as this runs there

    def _place(self, partition: int, settings: Mapping[str, str]) -> PartitionPlace:
        query, batch = settings.get(_QUERY_ID, ""), settings.get(_BATCH_ID, "")
        if self._options.dedup == "batch" and not (query and batch):
            raise InvalidOption(
                "this version of Spark does not tell tasks their query and batch, which "
                "dedup=batch needs: set dedup=none or dedup=column"
            )
        prefix = stream_prefix(query, partition, self._processors, settings)
        return PartitionPlace(partition, prefix, int(batch or 0), settings)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 - Spark's name
        """As for a batch."""
        _report(f"batch {batchId}", messages)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 - Spark's name
        """As for a batch."""
        _report_aborted(f"batch {batchId}", messages)


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
