"""A batch read plans what the options ask for, and filters only leave out what Spark would."""

from __future__ import annotations

import datetime
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("pyarrow")
pytest.importorskip("pyspark")

from pyspark.sql.datasource import (
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    IsNull,
    LessThan,
    LessThanOrEqual,
    Not,
    StringStartsWith,
)

from hareline.spark.errors import InvalidOption, NotAStream, QueueGone
from hareline.spark.reading.batch import AmqpReader, FilteringAmqpReader
from hareline.spark.reading.options import read_options
from tests.support.consumer_server import ConsumerServer, Scripted, consumer_server
from tests.support.stream_server import StreamServer


def field(name: str, ddl: str) -> Any:
    return SimpleNamespace(
        name=name, nullable=True, dataType=SimpleNamespace(simpleString=lambda: ddl)
    )


SCHEMA = SimpleNamespace(fields=[field("queue", "string"), field("offset", "bigint")])


def reader(server: StreamServer | ConsumerServer, kind: Any = AmqpReader, **more: str) -> Any:
    given = {**server.options, "retries": "1", "minPartitions": "1", **more}
    if not {"queue", "queues", "queuePattern"} & more.keys():
        given["queue"] = "q"
    return kind(read_options(given, is_stream=False, environment={}), SCHEMA)


def planned(made: Any) -> list[tuple[str, int, int]]:
    return [(each.wanted.queue, each.wanted.start, each.wanted.end) for each in made.partitions()]


def pushed(
    server: StreamServer | ConsumerServer, *filters: Filter, **more: str
) -> tuple[Any, list[Filter]]:
    """What is planned with these filters, and those that came back."""
    made = reader(server, FilteringAmqpReader, **more)
    back = [*made.pushFilters([*filters])]
    return planned(made), back


def test_all_there_is_is_read(server: StreamServer) -> None:
    server.fill("q", 10).truncate(3)
    made = reader(server)
    assert planned(made) == [("q", 3, 10)]
    rows = [
        (row["queue"], row["offset"])
        for batch in made.read(made.partitions()[0])
        for row in batch.to_pylist()
    ]
    assert rows == [("q", at) for at in range(3, 10)]


def test_ranges_are_split_over_tasks(server: StreamServer) -> None:
    server.fill("q", 10)
    server.fill("r", 5)
    made = reader(server, queues="q,r", minPartitions="3")
    assert planned(made) == [("q", 0, 5), ("q", 5, 10), ("r", 0, 5)]
    assert len(planned(reader(server, maxRecordsPerPartition="3"))) == 4


def test_an_empty_stream_is_no_partition(server: StreamServer) -> None:
    server.declare("q")
    assert planned(reader(server)) == []


def test_a_read_from_place_to_place(server: StreamServer) -> None:
    server.fill("q", 10)
    asked = {"startingOffsets": '{"q": 2}', "endingOffsets": '{"q": 4}'}
    assert planned(reader(server, **asked)) == [("q", 2, 4)]
    by_time = {"startingTimestamp": "3000", "endingTimestamp": "5000"}
    assert planned(reader(server, **by_time)) == [("q", 2, 4)]
    with pytest.raises(InvalidOption, match="begins at 4 and ends before 2"):
        planned(reader(server, startingOffsets='{"q": 4}', endingOffsets='{"q": 2}'))


def test_what_cannot_be_read_is_named_at_once(server: StreamServer) -> None:
    with pytest.raises(NotAStream):
        planned(reader(server, queue="classic"))
    with pytest.raises(QueueGone, match="matches queuePattern"):
        planned(reader(server, queuePattern="none"))


@pytest.mark.parametrize(
    ("filters", "start", "end"),
    [
        ([EqualTo(("offset",), 4)], 4, 5),
        ([GreaterThan(("offset",), 4)], 5, 10),
        ([GreaterThanOrEqual(("offset",), 4)], 4, 10),
        ([LessThan(("offset",), 4)], 0, 4),
        ([LessThanOrEqual(("offset",), 4)], 0, 5),
        ([GreaterThan(("offset",), -5), LessThan(("offset",), 99)], 0, 10),
        ([GreaterThan(("offset",), 2), LessThan(("offset",), 9), LessThan(("offset",), 5)], 3, 5),
    ],
)
def test_offsets_narrow_the_range(
    server: StreamServer, filters: list[Filter], start: int, end: int
) -> None:
    server.fill("q", 10)
    assert pushed(server, *filters) == ([("q", start, end)], [])


def test_offsets_that_are_not_there_leave_nothing(server: StreamServer) -> None:
    server.fill("q", 10)
    assert pushed(server, GreaterThan(("offset",), 50)) == ([], [])
    assert pushed(server, LessThan(("offset",), -50)) == ([], [])


def test_queues_are_left_out(server: StreamServer) -> None:
    for name in "abc":
        server.fill(name, 2)
    both = {"queues": "a,b,c"}
    assert pushed(server, EqualTo(("queue",), "b"), **both) == ([("b", 0, 2)], [])
    assert pushed(server, In(("queue",), ("a", "c")), **both)[0] == [("a", 0, 2), ("c", 0, 2)]
    assert pushed(server, In(("queue",), ("a", "c")), EqualTo(("queue",), "b"), **both)[0] == []


def test_a_time_narrows_the_range_and_spark_looks_again(server: StreamServer) -> None:
    stream = server.fill("q", 10)
    at = datetime.datetime.fromtimestamp(5, datetime.UTC)
    later = GreaterThan(("timestamp",), at)
    assert pushed(server, later) == ([("q", 4, 10)], [later])
    # The clock was set back: the last message is earlier than those before it.
    stream.messages[-1] = type(stream.messages[-1])(b"q:9;", 1_000_000)
    earlier = LessThan(("timestamp",), at)
    assert pushed(server, earlier) == ([("q", 0, 10)], [earlier])


@pytest.mark.parametrize(
    "each",
    [
        Not(EqualTo(("offset",), 4)),
        IsNull(("offset",)),
        IsNotNull(("app_id",)),
        EqualTo(("routing_key",), "key.1"),
        StringStartsWith(("queue",), "q"),
        In(("offset",), (1, 2)),
        LessThan(("timestamp",), datetime.datetime.fromtimestamp(0, datetime.UTC)),
    ],
)
def test_other_filters_are_left_to_spark(server: StreamServer, each: Filter) -> None:
    server.fill("q", 10)
    assert pushed(server, each, IsNotNull(("offset",))) == ([("q", 0, 10)], [each])


def test_a_read_that_ends_by_time_before_it_begins_has_no_rows(server: StreamServer) -> None:
    server.fill("q", 10)
    server.fill("r", 10)
    both = {"queues": "q,r", "startingOffsets": '{"q": 8}', "endingTimestamp": "5000"}
    assert planned(reader(server, **both)) == [("r", 0, 4)]


def test_filters_over_amqp_do_not_trust_what_is_not_told() -> None:
    with consumer_server("hareline") as server:
        server.streams["q"] = Scripted(by_time={4: 8}).fill(0, 10)
        at = datetime.datetime.fromtimestamp(5, datetime.UTC)
        left: list[Filter] = [
            IsNotNull(("timestamp",)),
            IsNotNull(("incarnation",)),
            GreaterThan(("timestamp",), at),
        ]
        narrowing = GreaterThan(("offset",), 2)
        found = pushed(server, *left, narrowing, IsNotNull(("body",)), transport="amqp")
        assert found == ([("q", 3, 10)], left)
