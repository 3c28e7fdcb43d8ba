"""Spark's calls of a streaming read become those of a follower, in JSON that has one text."""

from __future__ import annotations

import json
import pickle
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("pyarrow")
pytest.importorskip("pyspark")

from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxBytes, ReadMaxRows

from hareline.spark.errors import InvalidOption
from hareline.spark.reading.options import read_options
from hareline.spark.reading.stream import AmqpStreamReader
from tests.support.consumer_server import ConsumerServer, Scripted, consumer_server
from tests.support.stream_server import StreamServer

SCHEMA = SimpleNamespace(
    fields=[
        SimpleNamespace(
            name="offset", nullable=True, dataType=SimpleNamespace(simpleString=lambda: "bigint")
        )
    ]
)


def reader(server: StreamServer | ConsumerServer, **more: str) -> AmqpStreamReader:
    given = {
        **server.options,
        "queue": "q",
        "startingOffsets": "earliest",
        "longPollMs": "0",
        "maxRecordsPerTrigger": "6",
        **more,
    }
    return AmqpStreamReader(read_options(given, is_stream=True, environment={}), SCHEMA)


def end_of(offset: dict[str, Any]) -> int:
    return int(offset["q"]["//q"]["o"])


def test_a_batch_from_offset_to_offset(server: StreamServer) -> None:
    incarnation = server.fill("q", 10).incarnation
    made = reader(server)
    start = made.initialOffset()
    assert json.dumps(start) == f'{{"v": 1, "q": {{"//q": {{"i": "{incarnation}", "o": 0}}}}}}'
    assert made.initialOffset() == start
    end = made.latestOffset(start, made.getDefaultReadLimit())
    assert end_of(end) == 6
    latest: Any = made.reportLatestOffset()
    assert end_of(latest) == 10
    assert latest["q"]["//q"] == {
        "i": incarnation,
        "o": 10,
        "rows": 6,
        "octets": 120,
        "lag_rows": 4,
        "lag_octets": 80,
    }
    [partition] = made.partitions(start, end)
    task = pickle.loads(pickle.dumps(made))
    rows = [each.as_py() for batch in task.read(partition) for each in batch["offset"]]
    assert rows == [*range(6)]
    assert made.partitions(end, end) == []


def test_limits_of_the_trigger_come_first(server: StreamServer) -> None:
    server.fill("q", 10, size=20)
    made = reader(server)
    start = made.initialOffset()
    assert end_of(made.latestOffset(start, ReadMaxRows(3))) == 3
    assert end_of(made.latestOffset(start, ReadAllAvailable())) == 10
    assert end_of(made.latestOffset(start, ReadMaxBytes(40))) == 2
    tight = reader(server, maxBytesPerTrigger="100")
    assert end_of(tight.latestOffset(start, ReadMaxRows(9))) == 5


def test_what_is_there_is_read_and_then_the_query_ends(server: StreamServer) -> None:
    server.fill("q", 10)
    made = reader(server)
    made.prepareForTriggerAvailableNow()
    server.fill("q", 10)
    at: dict[str, Any] = made.initialOffset()
    ends = []
    for _ in range(3):
        at = made.latestOffset(at, made.getDefaultReadLimit())
        ends.append(end_of(at))
    assert ends == [6, 10, 10]


def test_a_commit_is_a_position(server: StreamServer) -> None:
    server.fill("q", 10)
    made = reader(server, readerName="me")
    made.commit(made.initialOffset())
    assert server.seen.readers["q", "me"]["offset"] == 0
    made.stop()


def test_a_checkpoint_of_another_virtual_host_is_refused(server: StreamServer) -> None:
    server.fill("q", 10)
    made = reader(server)
    start = made.initialOffset()
    other = reader(server, url="amqp://h/shop")
    with pytest.raises(InvalidOption, match="'//q' and the url has virtual host 'shop'"):
        other.latestOffset(start, ReadMaxRows(1))


def test_a_checkpoint_of_the_other_transport_is_refused(server: StreamServer) -> None:
    server.fill("q", 10)
    over_http = reader(server)
    with consumer_server("hareline") as consumers:
        consumers.streams["q"] = Scripted().fill(0, 10)
        over_amqp = reader(consumers, transport="amqp")
        theirs = (
            over_http.initialOffset(),
            over_http.latestOffset(over_http.initialOffset(), ReadAllAvailable()),
        )
        ours = (
            over_amqp.initialOffset(),
            over_amqp.latestOffset(over_amqp.initialOffset(), ReadAllAvailable()),
        )
        assert ours[1] == {"v": 1, "q": {"//q": {"i": "", "o": 10}}}
        for made, (start, end), wrote in ((over_amqp, theirs, "http"), (over_http, ours, "amqp")):
            with pytest.raises(InvalidOption, match=f"set transport={wrote}, or use another"):
                made.latestOffset(start, ReadAllAvailable())
            with pytest.raises(InvalidOption, match=f"of a query with transport={wrote}"):
                made.partitions(start, end)
        over_amqp.stop()
        assert over_amqp.latestOffset(ours[1], ReadAllAvailable()) == ours[1]
        over_amqp.stop()
