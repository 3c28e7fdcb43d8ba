"""The data source makes readers of its options, and says what is wrong with them."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("pyarrow")
pytest.importorskip("pyspark")

from hareline.spark.datasource import AmqpDataSource
from hareline.spark.errors import InvalidOption
from hareline.spark.reading.batch import AmqpReader, FilteringAmqpReader
from hareline.spark.reading.stream import AmqpStreamReader

SCHEMA = SimpleNamespace(
    fields=[
        SimpleNamespace(
            name="body", nullable=True, dataType=SimpleNamespace(simpleString=lambda: "binary")
        )
    ]
)


def source(**options: str) -> Any:
    return AmqpDataSource({"url": "amqp://h", "queue": "q", **options})


def test_the_schema_has_the_chosen_columns() -> None:
    assert AmqpDataSource.name() == "amqp"
    assert source().schema().startswith("queue string, offset bigint, timestamp timestamp")
    assert source(columns="offset,body").schema() == "offset bigint, body binary"
    assert source(columns="all").schema().count(",") == 23


def test_readers_are_made_by_kind() -> None:
    assert type(source().reader(SCHEMA)) is AmqpReader
    assert type(source(filterpushdown="true").reader(SCHEMA)) is FilteringAmqpReader
    assert type(source(readername="me").streamReader(SCHEMA)) is AmqpStreamReader


def test_a_plain_reader_does_not_push_filters() -> None:
    from pyspark.sql.datasource import DataSourceReader

    # Spark refuses every read of a reader that does, unless its configuration allows it.
    assert AmqpReader.pushFilters is DataSourceReader.pushFilters


def test_options_are_checked_when_a_reader_is_made() -> None:
    with pytest.raises(InvalidOption, match="did you mean 'queue'"):
        source(queu="q").schema()
    with pytest.raises(InvalidOption, match="readerName means nothing"):
        source(readername="me").reader(SCHEMA)
    with pytest.raises(InvalidOption, match="endingOffsets means nothing"):
        source(endingoffsets="latest").streamReader(SCHEMA)
