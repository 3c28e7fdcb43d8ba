"""Spark reads streams as batches: the right rows, the right columns, or an error that says why."""

from __future__ import annotations

import datetime
import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql.functions import col
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from hareline.spark.reading.columns import COLUMNS, NARROW, arrow_schema, ddl
from hareline.wire.properties import Properties, encode_properties
from hareline.wire.table import Table, Timestamp, encode_table
from tests.support.stream_server import Stored, StreamServer, stream_server

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

#: Beside other work, starting Spark alone may take a minute.
pytestmark = [pytest.mark.timeout(400)]

ALL = tuple(column.name for column in COLUMNS)


@pytest.fixture
def server() -> Iterator[StreamServer]:
    with stream_server() as running:
        yield running


def read(spark: SparkSession, server: StreamServer, **more: str) -> DataFrame:
    options = {**server.options, **more}
    if not {"queue", "queues", "queuePattern"} & more.keys():
        options["queue"] = "q"
    return spark.read.format("amqp").options(**options).load()


def offsets(frame: DataFrame) -> list[int]:
    return sorted(row.offset for row in frame.select("offset").collect())


def text_of(raised: pytest.ExceptionInfo[Exception]) -> str:
    return str(raised.value)


def test_every_property_and_header_arrives(spark: SparkSession, server: StreamServer) -> None:
    headers = Table(
        text="grüße", number=-5, flag=True, none=None, nested=Table(list=[1, Table(x="y")])
    )
    full = Properties(
        content_type="text/plain",
        content_encoding="gzip",
        headers=headers,
        delivery_mode=2,
        priority=255,
        correlation_id="c",
        reply_to="r",
        expiration="60000",
        message_id="m",
        timestamp=Timestamp(1_700_000_000),
        type="t",
        user_id="u",
        app_id="a",
        cluster_id="x",
    )
    server.declare("q").publish(
        Stored(b"\x00\xff" * 500, 1_700_000_000_123_456, "ex", "k.ü", encode_properties(full)),
        Stored(b"", 0),
    )
    first, second = sorted(read(spark, server, columns="all").collect(), key=lambda row: row.offset)
    assert first.asDict() == {
        "vhost": "/",
        "queue": "q",
        "incarnation": server.streams["q"].incarnation,
        "offset": 0,
        "timestamp": _local(1_700_000_000_123_456),
        "exchange": "ex",
        "routing_key": "k.ü",
        "body": b"\x00\xff" * 500,
        "content_type": "text/plain",
        "content_encoding": "gzip",
        "delivery_mode": 2,
        "priority": 255,
        "correlation_id": "c",
        "reply_to": "r",
        "expiration": "60000",
        "message_id": "m",
        "app_timestamp": _local(1_700_000_000_000_000),
        "type": "t",
        "user_id": "u",
        "app_id": "a",
        "headers": {
            "text": "grüße",
            "number": "-5",
            "flag": "true",
            "none": None,
            "nested": '{"list":[1,{"x":"y"}]}',
        },
        "headers_raw": encode_table(headers),
        "size": 1000,
    }
    there = {name for name, value in second.asDict().items() if value is not None}
    assert there == {column.name for column in COLUMNS if column.is_always_there}
    assert (second.body, second.size, second.timestamp) == (b"", 0, _local(0))


@pytest.mark.acceptance
def test_ranges_at_their_bounds(spark: SparkSession, server: StreamServer) -> None:
    server.chunk_rows = 3
    server.fill("q", 10)
    server.declare("empty")
    for start, end, parts in ((0, 0, 1), (0, 1, 4), (3, 7, 1), (9, 10, 1), (0, 10, 4)):
        bounds = {
            "startingOffsets": json.dumps({"q": start}),
            "endingOffsets": json.dumps({"q": end}),
        }
        frame = read(spark, server, minPartitions=str(parts), **bounds)
        assert offsets(frame) == [*range(start, end)]
    assert read(spark, server, queue="empty").count() == 0


@pytest.mark.acceptance
def test_large_ranges_are_complete(spark: SparkSession, server: StreamServer) -> None:
    server.chunk_rows, server.max_octets = 15_000, 1 << 20
    server.fill("q", 50_000)
    frame = read(spark, server, maxRecordsPerPartition="20000")
    assert frame.rdd.getNumPartitions() >= 3
    assert frame.count() == 50_000
    assert offsets(frame) == [*range(50_000)]
    row = frame.where("offset = 49999").select("body", "routing_key").head()
    assert row is not None
    assert bytes(row.body).startswith(b"q:49999;")
    assert row.routing_key == "key.1"


@pytest.mark.acceptance
def test_only_the_columns_of_the_schema_are_read(spark: SparkSession, server: StreamServer) -> None:
    server.fill("q", 5)
    # Properties that cannot be decoded do not matter to those who do not ask for them.
    server.streams["q"].publish(Stored(b"x", 0, "e", "k", b"\xff"))
    options = {**server.options, "queue": "q"}
    frame = spark.read.format("amqp").options(**options).schema("size int, offset bigint").load()
    assert frame.columns == ["size", "offset"]
    assert sorted(map(tuple, frame.collect())) == [(1, 5), *((20, at) for at in range(5))]
    assert read(spark, server, columns="body,queue").columns == ["body", "queue"]
    narrow = read(spark, server)
    assert tuple(narrow.columns) == NARROW
    with pytest.raises(Exception, match=r"MESSAGES_MISSING.*message 5: its properties"):
        narrow.collect()


@pytest.mark.acceptance
def test_schemas_are_those_that_spark_computes() -> None:
    for names in (*((name,) for name in ALL), ALL, NARROW, NARROW[::-1]):
        for null in ("", " NOT NULL"):
            if null and not all(each.is_always_there for each in COLUMNS if each.name in names):
                continue
            kind = StructType.fromDDL(ddl(names).replace(", ", null + ", ") + null)
            assert arrow_schema(kind).equals(to_arrow_schema(kind, timezone="UTC")), names


@pytest.mark.acceptance
def test_filters_narrow_the_read_where_they_are_enabled(
    spark: SparkSession, server: StreamServer
) -> None:
    server.fill("q", 100)
    server.fill("r", 100)
    both: dict[str, Any] = {"queues": "q,r", "minPartitions": "1"}
    condition = (col("queue") == "q") & (col("offset") >= 20) & (col("offset") < 25)
    assert offsets(read(spark, server, **both).where(condition)) == [*range(20, 25)]
    assert _ranges(server) == {"q 0-100", "r 0-100"}

    def pushed() -> DataFrame:
        """Loaded for each query: Spark keeps the filters of the last one with the DataFrame."""
        return read(spark, server, filterPushdown="true", **both)

    assert offsets(pushed().where(condition)) == [*range(20, 25)]
    assert _ranges(server) == {"q 20-25"}
    assert pushed().where(condition).count() == 5
    late = col("timestamp") > datetime.datetime.fromtimestamp(91, datetime.UTC)
    server.seen.paths.clear()
    assert offsets(pushed().where(late & (col("queue") == "r"))) == [*range(91, 100)]
    assert _ranges(server) == {"r 90-100"}
    assert offsets(pushed().where("offset = 3 and routing_key = 'key.0'")) == [3, 3]
    assert offsets(pushed().where("offset > 98 or queue = 'none'")) == [99, 99]


@pytest.mark.acceptance
def test_several_queues_and_patterns(spark: SparkSession, server: StreamServer) -> None:
    for number in range(3):
        server.fill(f"orders-{number}", 10 + number)
    server.fill("bills", 5)
    frame = read(spark, server, queuePattern="orders-.*")
    counts = {row["queue"]: row["count"] for row in frame.groupBy("queue").count().collect()}
    assert counts == {"orders-0": 10, "orders-1": 11, "orders-2": 12}
    assert read(spark, server, queues="bills, orders-1").count() == 16


@pytest.mark.acceptance
def test_a_read_by_time_and_a_task_that_is_repeated(
    spark: SparkSession, server: StreamServer
) -> None:
    server.fill("q", 500)
    server.faults.drops = 2
    times = {"startingTimestamp": "3000", "endingTimestamp": "460000"}
    frame = read(spark, server, retries="0", minPartitions="1", **times)
    assert offsets(frame) == [*range(2, 459)]
    assert server.faults.drops == 0


@pytest.mark.acceptance
@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"queue": "classic"}, r"\[NOT_A_STREAM\].*x-archive-to"),
        ({"queue": "none"}, r"\[QUEUE_GONE\] there is no stream 'none'"),
        ({"queu": "q"}, r"\[INVALID_OPTION\] there is no option 'queu'; did you mean 'queue'"),
        ({"password": "s3cret"}, r"\[LOGIN_REFUSED\].*user 'guest'"),
        ({"httpUrl": "http://127.0.0.1:9"}, r"\[BROKER_UNREACHABLE\] http://127.0.0.1:9"),
    ],
)
def test_errors_say_what_is_wrong(
    spark: SparkSession, server: StreamServer, options: dict[str, str], text: str
) -> None:
    server.fill("q", 10)
    with pytest.raises(Exception, match=text) as raised:
        read(spark, server, retries="0", **options).collect()
    assert "s3cret" not in text_of(raised)


@pytest.mark.acceptance
def test_a_range_with_a_hole_is_an_error_and_never_short(
    spark: SparkSession, server: StreamServer
) -> None:
    server.fill("q", 10)
    server.faults.hole_at = 4
    with pytest.raises(Exception, match=r"\[MESSAGES_MISSING\].*messages 4 to 4"):
        read(spark, server).count()


@pytest.mark.acceptance
def test_a_password_is_shown_nowhere(spark: SparkSession, server: StreamServer) -> None:
    server.fill("q", 1)
    frame = read(spark, server)
    plan = frame._jdf.queryExecution().toString()
    assert "guest" not in plan


def _local(microseconds: int) -> datetime.datetime:
    """As Spark hands out a time: in the zone of this process, without saying so."""
    return datetime.datetime.fromtimestamp(microseconds / 1_000_000)


def _ranges(server: StreamServer) -> set[str]:
    """What was asked for since the last time."""
    found = set()
    for path in server.seen.paths:
        queue, _, query = path.removeprefix("GET /api/stream/%2F/").partition("/range?start=")
        if query:
            start, end = query.split("&")[0:2]
            found.add(f"{queue} {start}-{end.removeprefix('end=')}")
    server.seen.paths.clear()
    return found
