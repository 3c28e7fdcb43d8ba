"""``transport=amqp`` reads streams of a real Hareline, as http does, and of a real RabbitMQ.

Those of RabbitMQ need Debian's rabbitmq-server (3.10), which is started here as a node of its own.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pika
import pytest

from benchmarks.macro.brokers import RabbitMQ
from tests.support.broker_process import BrokerProcess
from tests.support.rabbitmq_management import installed_rabbitmq
from tests.support.waiting import wait_for

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row, SparkSession
    from pyspark.sql.streaming import DataStreamWriter

#: Beside other work, starting Spark alone may take a minute.
pytestmark = [pytest.mark.acceptance, pytest.mark.timeout(400)]
END_S: Final = 180
STREAM: Final = {"x-queue-type": "stream"}


@dataclass
class Peer:
    """A broker as pika and the source find it."""

    url: str
    #: Of the source with transport=http; empty if the broker has no such port.
    http_url: str = ""

    @property
    def options(self) -> dict[str, str]:
        port = pika.URLParameters(self.url).port
        return {"url": f"amqp://127.0.0.1:{port}", "user": "guest"}

    @contextmanager
    def channel(self) -> Iterator[Any]:
        connection = pika.BlockingConnection(pika.URLParameters(self.url))
        try:
            channel = connection.channel()
            channel.confirm_delivery()
            yield channel
        finally:
            connection.close()

    def fill(
        self,
        queue: str,
        start: int,
        end: int,
        arguments: Mapping[str, object] | None = None,
        size: int = 0,
    ) -> None:
        """Declare a stream and publish messages whose bodies begin with their number."""
        with self.channel() as channel:
            channel.queue_declare(queue, durable=True, arguments={**STREAM, **(arguments or {})})
            for number in range(start, end):
                properties = pika.BasicProperties(
                    headers={"n": number, "deep": {"list": [1, {"x": "y"}]}},
                    message_id=f"m{number}",
                    content_type="text/plain" if number % 2 else None,
                    priority=number % 200,
                    delivery_mode=2,
                )
                body = b"%d;" % number + b"." * size
                channel.basic_publish("", queue, body, properties)

    def read(self, spark: SparkSession, **more: str) -> DataFrame:
        options = {**self.options, "transport": "amqp", **more}
        return spark.read.format("amqp").options(**options).load()


@pytest.fixture(scope="module")
def hareline(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Peer]:
    with BrokerProcess(tmp_path_factory.mktemp("broker")) as broker:
        yield Peer(broker.url, broker.management_url)


@pytest.fixture(scope="module")
def rabbitmq() -> Iterator[Peer]:
    with RabbitMQ(installed_rabbitmq()) as server:
        yield Peer(server.url)


@pytest.fixture(params=["hareline", "rabbitmq"])
def peer(request: pytest.FixtureRequest) -> Peer:
    found: Peer = request.getfixturevalue(request.param)
    return found


def numbers(rows: list[Row]) -> list[int]:
    """The number in each body, in the order of the offsets."""
    in_order = sorted(rows, key=lambda row: row.offset)
    return [int(bytes(row.body).split(b";")[0]) for row in in_order]


def test_rows_are_those_of_http(spark: SparkSession, hareline: Peer) -> None:
    hareline.fill("same", 0, 50)
    with hareline.channel() as channel:
        nothing = pika.BasicProperties()
        channel.basic_publish("", "same", b"", nothing)
        channel.basic_publish("", "same", b"\xff" * 300_000, pika.BasicProperties(headers={}))
    asked = {"queue": "same", "columns": "all", "minPartitions": "3"}
    over_amqp = hareline.read(spark, **asked)
    over_http = hareline.read(spark, **asked, transport="http", httpUrl=hareline.http_url)
    assert over_amqp.rdd.getNumPartitions() == 3
    untold = ("timestamp", "incarnation")
    rows, theirs = (
        sorted((row.asDict() for row in frame.collect()), key=lambda row: row["offset"])
        for frame in (over_amqp, over_http)
    )
    assert len(rows) == 52
    assert rows[7]["headers"] == {"n": "7", "deep": '{"list":[1,{"x":"y"}]}'}
    assert all(row[name] is None for row in rows for name in untold)
    assert rows == [{**row, **dict.fromkeys(untold)} for row in theirs]


def test_ranges_at_their_bounds(spark: SparkSession, peer: Peer) -> None:
    peer.fill("q", 0, 20)
    for start, end, parts in ((0, 0, 1), (0, 1, 4), (3, 20, 7)):
        frame = peer.read(
            spark,
            queue="q",
            startingOffsets=json.dumps({"q": start}),
            endingOffsets=json.dumps({"q": end}),
            minPartitions=str(parts),
        )
        assert numbers(frame.collect()) == [*range(start, end)]
    assert numbers(peer.read(spark, queue="q").collect()) == [*range(20)]


def test_a_large_stream_is_complete_over_its_segments(spark: SparkSession, peer: Peer) -> None:
    small_segments = {"x-stream-max-segment-size-bytes": 60_000, "x-max-length-bytes": 200_000}
    peer.fill("large", 0, 400, {"x-stream-max-segment-size-bytes": 60_000}, size=200)
    frame = peer.read(spark, queue="large", maxRecordsPerPartition="120", columns="offset,body")
    assert frame.rdd.getNumPartitions() >= 4
    assert numbers(frame.collect()) == [*range(400)]
    # What retention dropped is missed, or known to be gone.
    peer.fill("short", 0, 1200, small_segments, size=200)
    wanted = {"queue": "short", "startingOffsets": '{"short": 1}'}
    with pytest.raises(Exception, match=r"\[OFFSET_GONE\].*messages 1 to \d+ were dropped"):
        peer.read(spark, **wanted).collect()
    left = numbers(peer.read(spark, **wanted, failOnDataLoss="false").collect())
    assert left == [*range(left[0], 1200)]
    assert 100 < len(left) < 1199


def test_an_empty_stream_and_one_by_time(spark: SparkSession, peer: Peer) -> None:
    peer.fill("empty", 0, 0)
    assert peer.read(spark, queue="empty").collect() == []
    before = int(time.time()) - 100
    peer.fill("timed", 0, 5)
    timed = {"queue": "timed", "startingTimestamp": str(before * 1000)}
    assert numbers(peer.read(spark, **timed).collect()) == [*range(5)]
    timed = {"queue": "timed", "endingTimestamp": str(before * 1000)}
    assert peer.read(spark, **timed).collect() == []


def test_a_query_goes_on_from_its_checkpoint(
    spark: SparkSession, peer: Peer, tmp_path: Path
) -> None:
    batches: list[list[int]] = []

    def take(frame: DataFrame, _: int) -> None:
        batches.append(numbers(frame.select("offset", "body").collect()))

    def has(number: int) -> bool:
        return any(number in each for each in batches)

    def writer(**more: str) -> DataStreamWriter:
        batches.clear()
        given = {**peer.options, "transport": "amqp", "queue": "flow", **more}
        frame = spark.readStream.format("amqp").options(**given, startingOffsets="earliest").load()
        made = frame.writeStream.foreachBatch(take)
        return made.option("checkpointLocation", str(tmp_path / "checkpoint"))

    def run(**more: str) -> list[int]:
        """Read what is there; returns the new numbers."""
        query = writer(**more).trigger(availableNow=True).start()
        try:
            assert query.awaitTermination(END_S)
        finally:
            query.stop()
        return [number for batch in batches for number in batch]

    peer.fill("flow", 0, 25)
    assert run(maxRecordsPerTrigger="15") == [*range(25)]
    assert [len(each) for each in batches] == [15, 10]
    query = writer().start()
    try:
        for start, end in ((25, 30), (30, 40)):
            peer.fill("flow", start, end)
            wait_for(partial(has, end - 1), END_S, "news")
    finally:
        query.stop()
    assert [number for batch in batches for number in batch] == [*range(25, 40)]
    with peer.channel() as channel:
        channel.queue_delete("flow")
    peer.fill("flow", 0, 3)
    with pytest.raises(
        Exception, match=r"\[TAIL_REGRESSED\] stream 'flow': .* up to 39 .* before 3"
    ):
        run()


def test_errors_say_what_is_wrong(spark: SparkSession, peer: Peer) -> None:
    with peer.channel() as channel:
        channel.queue_declare("classic", durable=True)
        channel.basic_publish("", "classic", b"keep me")
    for options, text in (
        ({"queue": "classic"}, r"\[NOT_A_STREAM\] queue 'classic' .*x-archive-to"),
        ({"queue": "none"}, r"\[QUEUE_GONE\] there is no stream 'none' in virtual host '/'"),
        ({"queue": "q", "password": "s3cret"}, r"\[LOGIN_REFUSED\].* refuses user 'guest'"),
    ):
        with pytest.raises(Exception, match=text) as raised:
            peer.read(spark, **{"retries": "0", **options}).collect()
        assert "s3cret" not in str(raised.value)
    with peer.channel() as channel:
        method, _, body = channel.basic_get("classic")
        assert (method.redelivered, body) == (False, b"keep me")


def test_tasks_leave_no_connection_and_no_thread(spark: SparkSession, hareline: Peer) -> None:
    hareline.fill("left", 0, 30)
    assert hareline.read(spark, queue="left", minPartitions="4").count() == 30
    hareline.read(spark, queue="left", minPartitions="2").limit(1).collect()
    wait_for(lambda: _connections(hareline) == 0, END_S, "the end of all connections")

    def threads(_: int) -> list[str]:
        import threading

        return [each.name for each in threading.enumerate()]

    started = spark.sparkContext.parallelize(range(4), 4).map(threads).collect()
    assert all(names == ["MainThread"] for names in started)


def _connections(peer: Peer) -> int:
    """How many connections to the broker are established (proc(5), net/tcp)."""
    port = pika.URLParameters(peer.url).port
    found = 0
    for line in Path("/proc/net/tcp").read_text().splitlines()[1:]:
        _, local, _, state = line.split()[:4]
        found += state == "01" and int(local.split(":")[1], 16) == port
    return found
