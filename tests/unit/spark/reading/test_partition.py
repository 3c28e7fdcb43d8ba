"""A task reads its whole range, or says what is missing of it."""

from __future__ import annotations

import logging
import pickle
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("pyarrow")
pytest.importorskip("pyspark")

from pyspark.sql.datasource import InputPartition

from hareline.spark.errors import (
    IncarnationChanged,
    MessagesMissing,
    OffsetGone,
    QueueGone,
    TailRegressed,
)
from hareline.spark.reading.columns import arrow_schema
from hareline.spark.reading.options import read_options
from hareline.spark.reading.partition import RangePartition, read_partition
from hareline.spark.reading.splitting import Range
from tests.support.consumer_server import ConsumerServer, Scripted, consumer_server
from tests.support.stream_server import StreamServer

OFFSET = SimpleNamespace(
    name="offset", nullable=True, dataType=SimpleNamespace(simpleString=lambda: "bigint")
)


def read(
    server: StreamServer | ConsumerServer,
    start: int,
    end: int,
    incarnation: str = f"{1:016x}",
    is_stream: bool | None = None,
    **more: str,
) -> list[int]:
    """The offsets of a range of the stream "q" in its first life."""
    given = {**server.options, "queue": "q", **more}
    options = read_options(given, is_stream=is_stream, environment={})
    schema: Any = arrow_schema(SimpleNamespace(fields=[OFFSET]))
    partition = pickle.loads(pickle.dumps(RangePartition(Range("q", incarnation, start, end))))
    return [
        offset.as_py()
        for batch in read_partition(options, schema, partition)
        for offset in batch["offset"]
    ]


def test_a_range_is_read(server: StreamServer) -> None:
    server.fill("q", 1000)
    assert read(server, 0, 1000) == [*range(1000)]
    assert read(server, 10, 11) == [10]
    assert read(server, 10, 10) == []


def test_a_partition_that_spark_made_up_has_no_rows(server: StreamServer) -> None:
    options = read_options({**server.options, "queue": "q"}, environment={})
    assert [*read_partition(options, None, InputPartition(None))] == []


def test_truncation_is_an_error_or_skipped_with_a_count(
    server: StreamServer, caplog: pytest.LogCaptureFixture
) -> None:
    server.fill("q", 10).truncate(6)
    with pytest.raises(OffsetGone, match="messages 2 to 5"):
        read(server, 2, 10)
    with caplog.at_level(logging.WARNING):
        assert read(server, 2, 10, failOnDataLoss="false") == [6, 7, 8, 9]
        assert read(server, 2, 4, failOnDataLoss="false") == []
    assert [each.getMessage()[:14] for each in caplog.records] == [
        "skipped 4 rows",
        "skipped 2 rows",
    ]


def test_a_queue_that_is_gone_is_an_error_or_skipped(
    server: StreamServer, caplog: pytest.LogCaptureFixture
) -> None:
    server.fill("r", 10)
    with pytest.raises(QueueGone):
        read(server, 0, 10)
    with caplog.at_level(logging.WARNING):
        assert read(server, 0, 10, failOnDataLoss="false") == []
        assert read(server, 0, 10, is_stream=True, onIncarnationChange="restart") == []
    assert caplog.text.count("skipped 10 rows of stream 'q'") == 2


def test_a_streaming_query_waits_for_a_queue_that_is_gone(server: StreamServer) -> None:
    server.fill("q", 10)
    del server.streams["q"]
    with pytest.raises(QueueGone):
        read(server, 0, 10, is_stream=True, requestTimeoutMs="50", retries="1")
    server.when_gone = lambda: server.fill("q", 3)
    with pytest.raises(IncarnationChanged, match="its messages 0 to 9 are gone"):
        read(server, 0, 10, is_stream=True)


def test_another_life_is_an_error_or_skipped(
    server: StreamServer, caplog: pytest.LogCaptureFixture
) -> None:
    server.declare("q")
    server.declare("q")
    server.fill("q", 10)
    with pytest.raises(IncarnationChanged):
        read(server, 0, 10)
    with pytest.raises(IncarnationChanged):
        read(server, 0, 10, failOnDataLoss="false")
    with caplog.at_level(logging.WARNING):
        assert read(server, 0, 10, onIncarnationChange="restart") == []
    assert "skipped 10 rows of stream 'q'" in caplog.text


def test_a_lost_tail_is_an_error_in_any_case(server: StreamServer) -> None:
    server.fill("q", 10)
    with pytest.raises(TailRegressed):
        read(server, 0, 11, failOnDataLoss="false", onIncarnationChange="restart")


def over_amqp(server: ConsumerServer, start: int, end: int, **more: str) -> list[int]:
    return read(server, start, end, "", None, transport="amqp", **more)


def test_a_range_is_read_over_amqp() -> None:
    with consumer_server("rabbitmq") as server:
        # Offset 5 and the last one are not messages' but the broker's.
        server.streams["q"] = Scripted().fill(0, 5).fill(6, 9).fill(10, 11)
        assert over_amqp(server, 0, 10) == [0, 1, 2, 3, 4, 6, 7, 8]
        assert over_amqp(server, 4, 6) == [4]


def test_gaps_over_amqp_are_an_error_or_skipped(caplog: pytest.LogCaptureFixture) -> None:
    with consumer_server("hareline") as server:
        server.streams["q"] = Scripted().fill(4, 6).fill(8, 12)
        with pytest.raises(OffsetGone, match="messages 2 to 3"):
            over_amqp(server, 2, 10)
        with pytest.raises(MessagesMissing, match="messages 6 to 7"):
            over_amqp(server, 4, 10)
        with caplog.at_level(logging.WARNING):
            assert over_amqp(server, 2, 10, failOnDataLoss="false") == [4, 5, 8, 9]
            assert over_amqp(server, 2, 7, failOnDataLoss="false") == [4, 5]
    assert [each.getMessage()[:14] for each in caplog.records] == [
        "skipped 2 rows",
        "skipped 2 rows",
        "skipped 2 rows",
        "skipped 1 rows",
    ]
