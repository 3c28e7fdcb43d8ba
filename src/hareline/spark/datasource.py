"""`AmqpDataSource`: the class behind ``format("amqp")``.

Spark makes one for each read or write, and asks it for schema, readers and writers in processes of
their own. Options are checked when a reader or writer is made. Needs pyspark, but not pyarrow.
"""

from __future__ import annotations

from typing import Any

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
)

from hareline.spark.errors import InvalidOption, sentence_only
from hareline.spark.reading.columns import chosen, ddl
from hareline.spark.reading.options import read_options


class AmqpDataSource(DataSource):
    """Streams of a Hareline broker to read, exchanges to write to."""

    @classmethod
    def name(cls) -> str:
        """Name for ``format``."""
        return "amqp"

    @sentence_only()
    def schema(self) -> str:
        """The columns of a read for which the user gives no schema. Raises InvalidOption."""
        return ddl(chosen(read_options(self.options).columns))

    @sentence_only()
    def reader(self, schema: Any) -> DataSourceReader:
        """A batch read. Raises InvalidOption."""
        from hareline.spark.reading.batch import AmqpReader, FilteringAmqpReader

        options = read_options(self.options, is_stream=False)
        kind = FilteringAmqpReader if options.pushes_filters else AmqpReader
        return kind(options, schema)

    @sentence_only()
    def streamReader(self, schema: Any) -> DataSourceStreamReader:  # noqa: N802
        """A streaming read. Raises InvalidOption."""
        from hareline.spark.reading.stream import AmqpStreamReader

        return AmqpStreamReader(read_options(self.options, is_stream=True), schema)

    @sentence_only()
    def writer(self, schema: Any, overwrite: bool) -> DataSourceWriter:
        """A batch write. Raises InvalidOption or InvalidRows."""
        from hareline.spark.writing.sink import BatchWriter

        if overwrite:
            raise InvalidOption(
                "mode 'overwrite' would have to delete what is in the queues: use mode('append')"
            )
        return BatchWriter(self.options, schema)

    @sentence_only()
    def streamWriter(self, schema: Any, overwrite: bool) -> DataSourceStreamWriter:  # noqa: N802
        """A streaming write. Raises InvalidOption or InvalidRows.

        With output mode complete (``overwrite``) each batch is the whole result, published whole.
        """
        from hareline.spark.writing.sink import StreamWriter

        return StreamWriter(self.options, schema)
