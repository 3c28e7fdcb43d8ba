"""The sink in Spark against a broker process: contents, retried tasks, replayed batches, errors."""

from __future__ import annotations

import datetime
import logging
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark import TaskContext, cloudpickle
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as Spark's documentation calls it
from pyspark.sql.types import StringType, StructField, StructType

from hareline.spark.errors import InvalidOption, InvalidRows, PublishRefused, error_of
from hareline.spark.writing.sink import BatchWriter, StreamWriter, WrittenPartition
from hareline.wire.table import Byte, Short, encode_table
from tests.support.broker_process import BrokerProcess
from tests.support.sink_broker import bodies_in, channel_of, declare, options_for, take_all

FORMAT = "amqp"
MOMENT = datetime.datetime(2026, 2, 3, 4, 5, 6, tzinfo=datetime.UTC)
SECONDS = 1770091506

# Workers cannot import this module, so its classes travel as they are.
cloudpickle.register_pickle_by_value(sys.modules[__name__])


@pytest.fixture
def session(spark: SparkSession) -> Iterator[SparkSession]:
    """The session, with small record batches."""
    name = "spark.sql.execution.arrow.maxRecordsPerBatch"
    before = spark.conf.get(name)
    spark.conf.set(name, "50")
    try:
        yield spark
    finally:
        spark.conf.set(name, before)


def save(frame: DataFrame, broker: BrokerProcess, mode: str = "append", **options: str) -> None:
    writer = frame.write.format(FORMAT).options(**options_for(broker, **options))
    writer.mode(mode).save()


def numbers(session: SparkSession, count: int, partitions: int = 1) -> DataFrame:
    """Rows with the bodies "0", "1" and so on."""
    frame = session.range(0, count, 1, partitions)
    return frame.select(F.col("id").cast("string").alias("body"))


def pairs_in(broker: BrokerProcess, queue: str) -> list[tuple[str, int, bytes]]:
    return sorted(
        (each.headers["x-producer-id"], each.headers["x-producer-seq"], body)
        for _, each, body in take_all(broker, queue)
    )


# -------------------------------------------------------------------------------------- contents


@pytest.mark.acceptance
def test_every_column_comes_out_at_a_consumer(session: SparkSession, broker: BrokerProcess) -> None:
    declare(broker, "all")
    raw = encode_table({"b": Byte(-3), "s": Short(4), "nested": {"list": [1, "x"]}})
    texts = {
        name: f"{name} größe"
        for name in ("content_type", "content_encoding", "correlation_id", "reply_to")
    }
    texts |= {"message_id": "m", "type": "t", "app_id": "a", "user_id": "guest"}
    full = {
        "body": b"\0\xff",
        "exchange": "amq.direct",
        "routing_key": "all",
        **texts,
        "expiration": "3600000",
        "delivery_mode": 1,
        "priority": 255,
        "app_timestamp": MOMENT,
        "headers": {"lossy": "1"},
        "headers_raw": raw,
        "mandatory": True,
    }
    mapped = {**full, "headers_raw": None, "exchange": None, "mandatory": False}
    bare = dict.fromkeys(full) | {"body": b"bare", "routing_key": "all"}
    schema = (
        "body binary, exchange string, routing_key string, "
        + ", ".join(f"{name} string" for name in texts)
        + ", expiration string, delivery_mode smallint, priority int, app_timestamp timestamp, "
        "headers map<string,string>, headers_raw binary, mandatory boolean"
    )
    rows = [tuple(row.values()) for row in (full, mapped, bare)]
    frame = session.createDataFrame(rows, schema).coalesce(1)
    with channel_of(broker) as channel:
        channel.queue_bind("all", "amq.direct", "all")
    save(frame, broker, dedup="none")

    (first, second, third) = take_all(broker, "all")
    for method, properties, body in (first, second):
        assert body == b"\0\xff"
        assert {name: getattr(properties, name) for name in texts} == texts
        assert (properties.delivery_mode, properties.priority) == (1, 255)
        assert (properties.timestamp, properties.expiration) == (SECONDS, "3600000")
        assert method.routing_key == "all"
    assert (first[0].exchange, second[0].exchange) == ("amq.direct", "")
    assert first[1].headers == {"b": -3, "s": 4, "nested": {"list": [1, "x"]}}
    assert second[1].headers == {"lossy": "1"}
    assert third[2] == b"bare"
    assert {name for name, value in vars(third[1]).items() if value is not None} == set()


@pytest.mark.acceptance
def test_partitions_without_rows_and_many_rows(
    session: SparkSession, broker: BrokerProcess
) -> None:
    declare(broker, "many")
    frame = numbers(session, 3000, partitions=3).where("body < 'A'").union(numbers(session, 0))
    save(frame, broker, routingKey="many")
    assert sorted(bodies_in(broker, "many"), key=int) == [b"%d" % n for n in range(3000)]


# --------------------------------------------------------------------------------- done again


def fail_first_attempt_at(row: int) -> Any:
    """For a column of numbers: the first attempt of a task fails when it comes to that one."""

    def pass_on(number: str) -> str:
        task = TaskContext.get()
        if int(number) >= row and task is not None and task.attemptNumber() == 0:
            raise OSError("the executor was lost")
        return number

    return F.udf(pass_on, "string", useArrow=False)


@pytest.mark.acceptance
@pytest.mark.parametrize("dedup", ["none", "batch"])
def test_the_rows_of_a_retried_task_are_there_once_with_dedup(
    session: SparkSession, broker: BrokerProcess, dedup: str
) -> None:
    """At least once without dedup; with it the broker leaves out what the first attempt sent."""
    queue = f"retried-{dedup}"
    declare(broker, queue)
    # So many that the first rows are published before the failing one is computed.
    count = 12_000
    padded = F.lpad("body", 100, "0").alias("body")
    frame = numbers(session, count).select(padded)
    frame = frame.select(fail_first_attempt_at(count - 10)("body").alias("body"))
    save(frame, broker, routingKey=queue, dedup=dedup)
    taken = take_all(broker, queue)
    numbers_taken = [int(body) for _, _, body in taken]
    if dedup == "none":
        assert len(taken) > count, "the first attempt published rows"
        assert set(numbers_taken) == set(range(count))
    else:
        assert numbers_taken == [*range(count)]


@pytest.mark.acceptance
def test_two_writes_of_the_same_rows_are_two_producers(
    session: SparkSession, broker: BrokerProcess
) -> None:
    declare(broker, "twice")
    for _ in range(2):
        save(numbers(session, 5), broker, routingKey="twice")
    assert len({pair[:2] for pair in pairs_in(broker, "twice")}) == 10


def run_stream(session: SparkSession, folder: Path, broker: BrokerProcess, queue: str) -> None:
    """One run of a query over the files of ``folder``, a batch for each, until all are written."""
    frame = session.readStream.schema("body string").option("maxFilesPerTrigger", "1")
    query = (
        frame.parquet(str(folder / "in"))
        .writeStream.format(FORMAT)
        .options(**options_for(broker, routingKey=queue))
        .option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    try:
        query.awaitTermination()
    finally:
        query.stop()


@pytest.mark.acceptance
def test_a_stream_writes_each_batch_once_also_if_it_is_replayed(
    session: SparkSession, broker: BrokerProcess, tmp_path: Path
) -> None:
    declare(broker, "stream")
    for first in (0, 100):
        frame = numbers(session, 100).select((F.col("body").cast("int") + first).cast("string"))
        frame.toDF("body").coalesce(1).write.mode("append").parquet(str(tmp_path / "in"))
    run_stream(session, tmp_path, broker, "stream")
    before = pairs_in(broker, "stream")
    assert sorted(int(body) for _, _, body in before) == list(range(200))
    assert len({pair[:2] for pair in before}) == 200
    batches = {sequence >> 32 for _, sequence, _ in before}
    assert batches == {0, 1}

    # As if Spark had been killed after the last batch was written and before it noted that.
    commits = tmp_path / "checkpoint" / "commits"
    for name in ("1", ".1.crc"):
        (commits / name).unlink()
    run_stream(session, tmp_path, broker, "stream")
    assert (commits / "1").exists()
    assert pairs_in(broker, "stream") == []


# -------------------------------------------------------------------------------------- errors


@pytest.mark.acceptance
def test_unroutable_rows_fail_the_write_or_are_dropped(
    session: SparkSession, broker: BrokerProcess
) -> None:
    with pytest.raises(Exception, match="NO_ROUTE") as error:
        save(numbers(session, 5), broker, routingKey="nowhere")
    refused = error_of(error.value)
    assert isinstance(refused, PublishRefused)
    assert "returned 5 messages: 312 NO_ROUTE" in str(refused)
    assert "routing keys: 'nowhere'" in str(refused)
    save(numbers(session, 5), broker, routingKey="nowhere", onUnroutable="drop")


@pytest.mark.acceptance
@pytest.mark.parametrize(
    ("columns", "options", "kind", "text"),
    [
        ("id", {}, InvalidRows, "no column 'id'"),
        ("body, id", {"routingKey": "k"}, InvalidRows, "no column 'id'"),
        ("id AS body", {"routingKey": "k"}, InvalidRows, "column 'body' is bigint"),
        ("body", {}, InvalidRows, "nothing says where"),
        ("body", {"routing": "k"}, InvalidOption, "did you mean 'routingKey'"),
        ("body, 300 AS priority", {"routingKey": "k"}, InvalidRows, "'priority' is 300"),
    ],
)
def test_what_is_wrong_with_a_write_is_said_in_one_sentence(
    session: SparkSession,
    broker: BrokerProcess,
    columns: str,
    options: dict[str, str],
    kind: type[Exception],
    text: str,
) -> None:
    frame = session.range(2).selectExpr("id", "cast(id AS string) AS body")
    with pytest.raises(Exception, match=text) as error:
        save(frame.selectExpr(*columns.split(", ")), broker, **options)
    assert isinstance(error_of(error.value), kind)


@pytest.mark.acceptance
def test_nothing_at_the_broker_is_overwritten(session: SparkSession, broker: BrokerProcess) -> None:
    with pytest.raises(Exception, match="use mode\\('append'\\)"):
        save(numbers(session, 1), broker, mode="overwrite", routingKey="k")


@pytest.mark.acceptance
def test_a_task_sees_how_many_share_the_rate(session: SparkSession, broker: BrokerProcess) -> None:
    """Without the settings of Spark the sink would ask for maxRateTasks."""
    declare(broker, "rate")
    save(numbers(session, 20), broker, routingKey="rate", maxRate="1000")
    assert len(bodies_in(broker, "rate")) == 20


@pytest.mark.acceptance
def test_commit_and_abort_say_how_many_rows(caplog: pytest.LogCaptureFixture) -> None:
    options = {"url": "amqp://host", "user": "guest", "routingKey": "k"}
    columns = StructType([StructField("body", StringType())])
    messages: list[Any] = [WrittenPartition(0, 5, 2), None, WrittenPartition(2, 1, 0)]
    with caplog.at_level(logging.INFO, "hareline.spark"):
        writer = BatchWriter(options, columns)
        writer.commit(messages)
        writer.abort(messages)
        stream = StreamWriter(options, columns)
        stream.commit([WrittenPartition(0, 5, 0)], 7)
        stream.abort(messages, 8)
    assert [(each.levelname, each.getMessage()) for each in caplog.records] == [
        ("WARNING", "the write: 6 rows published, 2 dropped as unroutable"),
        (
            "WARNING",
            "the write failed; 6 rows of tasks that had ended stay at the broker, "
            "and those of others may",
        ),
        ("INFO", "batch 7: 5 rows published, 0 dropped as unroutable"),
        (
            "WARNING",
            "batch 8 failed; 6 rows of tasks that had ended stay at the broker, "
            "and those of others may",
        ),
    ]
