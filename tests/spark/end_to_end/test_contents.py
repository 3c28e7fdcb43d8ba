"""Messages of a real stream, read, archived and replayed by Spark: the same octets all the way."""

from __future__ import annotations

import datetime
import json
from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import pika
import pyarrow as pa
import pyarrow.dataset as ds
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as Spark's documentation calls it

from hareline.spark.pipelines import layout
from hareline.spark.pipelines.archive import archive
from hareline.spark.pipelines.replay import replay
from hareline.wire.properties import Properties, decode_properties, encode_properties
from hareline.wire.table import (
    Byte,
    Float,
    LongLong,
    Short,
    SignedInt,
    Table,
    Timestamp,
    UnsignedByte,
    UnsignedInt,
    UnsignedShort,
)
from tests.support.broker_process import BrokerProcess
from tests.support.raw_client import RawClient
from tests.support.sink_broker import channel_of, declare, options_for, source_options_for
from tests.support.stream_contents import Content, contents_of

pytestmark = pytest.mark.acceptance

STREAM = {"x-queue-type": "stream"}
#: More than the broker keeps in memory of a stream, so that the first ones stand in pages on disk.
DEEP = 20_000
DEEP_WINDOW = 8_192

EVERY_TYPE = Table(
    flag=True,
    byte=Byte(-128),
    unsigned_byte=UnsignedByte(255),
    short=Short(-32_768),
    unsigned_short=UnsignedShort(65_535),
    signed=SignedInt(-(2**31)),
    unsigned=UnsignedInt(2**32 - 1),
    long=-(2**63),
    long_long=LongLong(2**63 - 1),
    single=Float(0.5),
    double=-1.25e300,
    decimal=Decimal("-12.345"),
    text="grüße 🐇",
    time=Timestamp(1_700_000_000),
    void=None,
    octets=b"\x00\xff\xce",
    array=[1, "x", [Byte(2), None], Table(deep=[Table(er=b"\x00")])],
    table=Table(empty=Table(), list=[]),
)
#: What the source makes of them in the column ``headers``.
EVERY_TEXT = {
    "flag": "true",
    "byte": "-128",
    "unsigned_byte": "255",
    "short": "-32768",
    "unsigned_short": "65535",
    "signed": "-2147483648",
    "unsigned": "4294967295",
    "long": "-9223372036854775808",
    "long_long": "9223372036854775807",
    "single": "0.5",
    "double": "-1.25e+300",
    "decimal": "-12.345",
    "text": "grüße 🐇",
    "time": "1700000000",
    "void": None,
    "octets": "AP/O",
    "array": '[1,"x",[2,null],{"deep":[{"er":"AA=="}]}]',
    "table": '{"empty":{},"list":[]}',
}
FULL = Properties(
    content_type="text/plain; charset=größe",
    content_encoding="gzip",
    headers=EVERY_TYPE,
    delivery_mode=2,
    priority=255,
    correlation_id="c" * 255,
    reply_to="amq.topic",
    expiration="86400000",
    message_id="m",
    timestamp=Timestamp(1_700_000_000),
    type="t",
    user_id="guest",
    app_id="a",
)
NAMES = tuple(name for name in Properties.__dataclass_fields__ if name != "cluster_id")
#: Properties as other encoders write them: a header of a name twice, and a true that is not 1.
STRANGE = b"\x20\x00" + b"\x00\x00\x00\x08" + b"\x01at\x02" + b"\x01ab\x07"


def raw_messages() -> list[Content]:
    """Properties in octets and body: each property alone, all of them, none, and odd ones."""
    alone = [Properties(**{name: getattr(FULL, name)}) for name in NAMES]
    bodies = [b"", b"\x00", bytes(range(256)), "grüße".encode(), b"\xce" * 300_000]
    return [
        *(Content(encode_properties(each), b"alone") for each in alone),
        *(Content(encode_properties(FULL), body) for body in bodies),
        Content(encode_properties(Properties()), b""),
        Content(encode_properties(Properties(headers=Table())), b"an empty table"),
        Content(STRANGE, b"strange"),
    ]


def publish_raw(broker: BrokerProcess, queue: str, messages: Sequence[Content]) -> None:
    with RawClient((broker.host, broker.port)) as client:
        client.open()
        client.select_confirms()
        for start in range(0, len(messages), 500):
            part = messages[start : start + 500]
            client.send_octets(
                b"".join(client.publish_octets(queue, each.body, each.properties) for each in part)
            )
            client.read_confirms(start + len(part))


def publish_by_pika(broker: BrokerProcess, queue: str) -> None:
    """What an ordinary client writes, and does its own way."""
    with channel_of(broker) as channel:
        channel.confirm_delivery()
        channel.basic_publish("", queue, b"plain")
        channel.queue_bind(queue, "amq.topic", "a.#")
        headers = {
            "nested": {"list": [1, 2**40, "x", None, True, b"\xff"], "table": {"a": {"b": {}}}},
            "decimal": Decimal("1.50"),
            "when": datetime.datetime(2026, 2, 3, tzinfo=datetime.UTC),
        }
        properties = pika.BasicProperties(headers=headers, priority=3, message_id="by pika")
        channel.basic_publish("amq.topic", "a.größe", b"\x00\x01", properties)


def read(spark: SparkSession, broker: BrokerProcess, queue: str, **options: str) -> DataFrame:
    given = source_options_for(broker, queue=queue, **options)
    return spark.read.format("amqp").options(**given).load()


def between(queue: str, start: int, end: int) -> dict[str, str]:
    return {
        "startingOffsets": json.dumps({queue: start}),
        "endingOffsets": json.dumps({queue: end}),
    }


def properties_of(row: Any) -> dict[str, object]:
    """The properties but the headers, in the words of AMQP."""
    found = {name: row[name] for name in NAMES if name not in {"headers", "timestamp"}}
    moment = row["app_timestamp"]
    found["timestamp"] = None if moment is None else int(moment.timestamp())
    return found


def test_what_is_read_archived_and_replayed_is_the_same_octets(
    spark: SparkSession, broker: BrokerProcess, tmp_path: Path
) -> None:
    for queue in ("original", "again"):
        declare(broker, queue, STREAM, durable=True)
    before = datetime.datetime.now()
    raw = raw_messages()
    publish_raw(broker, "original", raw)
    publish_by_pika(broker, "original")
    stored = contents_of(broker, "original")
    # The broker keeps the octets that came, but for a table that is empty.
    empty = Content(encode_properties(Properties(headers=Table())), b"an empty table")
    absent = Content(encode_properties(Properties()), b"an empty table")
    assert stored[: len(raw)] == [absent if each == empty else each for each in raw]
    assert len(stored) == len(raw) + 2

    rows = read(spark, broker, "original", columns="all").orderBy("offset").collect()
    after = datetime.datetime.now()
    assert [row.offset for row in rows] == [*range(len(stored))]
    assert [bytes(row.body) for row in rows] == [each.body for each in stored]
    assert [row["size"] for row in rows] == [len(each.body) for each in stored]
    millisecond = datetime.timedelta(milliseconds=1)
    assert all(before - millisecond <= row.timestamp <= after + millisecond for row in rows)
    assert {(row.vhost, row.queue) for row in rows} == {("/", "original")}
    assert len({row.incarnation for row in rows}) == 1
    assert {(row.exchange, row.routing_key) for row in rows[:-1]} == {("", "original")}
    assert (rows[-1].exchange, rows[-1].routing_key) == ("amq.topic", "a.größe")
    for row, content in zip(rows, stored, strict=True):
        decoded = decode_properties(content.properties)
        assert properties_of(row) == {
            name: getattr(decoded, name) for name in NAMES if name != "headers"
        }
        assert row.headers_raw == content.headers
        assert (row.headers is None) == (content.headers is None)
    full = len(NAMES)
    assert rows[full].headers == EVERY_TEXT
    assert json.loads(rows[-1].headers["nested"]) == {
        "list": [1, 2**40, "x", None, True, "/w=="],
        "table": {"a": {"b": {}}},
    }
    narrow = read(spark, broker, "original").orderBy("offset").collect()
    assert narrow == [tuple(row[name] for name in narrow[0].asDict()) for row in rows]

    path = str(tmp_path / "archive")
    done = archive(spark, path, source_options_for(broker, queue="original"))
    assert (done.messages, done.is_done) == (len(stored), True)
    archived = layout.read_archive(spark, path).orderBy("offset").collect()
    assert [row["incarnation"] for row in archived] == [row["incarnation"] for row in rows]
    assert [{name: row[name] for name in rows[0].asDict()} for row in archived] == [
        row.asDict() for row in rows
    ]
    partitions = pa.schema([("queue", pa.string()), ("date", pa.string()), ("batch", pa.int64())])
    hive = ds.partitioning(partitions, flavor="hive")
    table = ds.dataset(path, partitioning=hive).to_table().sort_by("offset")
    assert table["body"].to_pylist() == [each.body for each in stored]
    assert table["headers_raw"].to_pylist() == [each.headers for each in stored]

    result = replay(
        spark,
        path,
        options_for(broker, dedup="none"),
        to_exchange="",
        to_routing_key="again",
        keep=("expiration", "user_id"),
        mark=False,
    )
    assert result.published == len(stored)
    assert contents_of(broker, "again") == stored


def test_ranges_of_a_deep_stream_before_and_after_restarts(
    spark: SparkSession, broker: BrokerProcess
) -> None:
    declare(broker, "deep", STREAM, durable=True)
    publish_raw(broker, "deep", [Content(b"\0\0", b"%d" % at) for at in range(DEEP)])

    def rows(start: int, end: int, **options: str) -> list[tuple[int, bytes]]:
        frame = read(
            spark, broker, "deep", columns="offset,body", **between("deep", start, end), **options
        )
        return sorted((row.offset, bytes(row.body)) for row in frame.collect())

    def expected(start: int, end: int) -> list[tuple[int, bytes]]:
        return [(at, b"%d" % at) for at in range(start, end)]

    bounds = (
        *((0, 0), (0, 1), (DEEP - 1, DEEP), (DEEP, DEEP)),
        (DEEP - DEEP_WINDOW - 1, DEEP - DEEP_WINDOW + 1),
    )
    for start, end in bounds:
        assert rows(start, end) == expected(start, end)
    assert rows(0, DEEP, minPartitions="3", maxRecordsPerPartition="6001") == expected(0, DEEP)
    with pytest.raises(Exception, match=rf"\[INVALID_OPTION\].*{DEEP + 1}"):
        rows(0, DEEP + 1)

    condition = (F.col("offset") > 4_094) & (F.col("offset") <= 4_097) & (F.col("queue") == "deep")
    for pushes in ("false", "true"):
        found = read(spark, broker, "deep", filterPushdown=pushes).where(condition).collect()
        assert sorted(bytes(row.body) for row in found) == [b"4095", b"4096", b"4097"]

    broker.restart()
    assert rows(0, DEEP) == expected(0, DEEP)
    broker.restart_by_kill()
    assert rows(0, DEEP) == expected(0, DEEP)
    publish_raw(broker, "deep", [Content(b"\0\0", b"%d" % DEEP)])
    assert rows(DEEP - 1, DEEP + 1) == expected(DEEP - 1, DEEP + 1)


class StoppedQuery:
    """A query that is run now and then on one checkpoint; each run reads what there is."""

    def __init__(self, spark: SparkSession, broker: BrokerProcess, folder: Path) -> None:
        self._spark = spark
        self._broker = broker
        self._checkpoint = folder / "checkpoint"

    def run(self, queue: str, **options: str) -> list[int]:
        """The bodies of the new rows, which are numbers, in the order of their offsets."""
        found: list[tuple[int, int]] = []

        def take(frame: DataFrame, number: int) -> None:
            found.extend((row.offset, int(bytes(row.body))) for row in frame.collect())

        given = source_options_for(self._broker, queue=queue, startingOffsets="earliest", **options)
        query = (
            self._spark.readStream.format("amqp")
            .options(**given)
            .load()
            .select("offset", "body")
            .writeStream.foreachBatch(take)
            .option("checkpointLocation", str(self._checkpoint))
            .trigger(availableNow=True)
            .start()
        )
        try:
            query.awaitTermination()
        finally:
            query.stop()
        return [number for _, number in sorted(found)]


def test_what_happens_to_a_real_stream_while_its_query_is_stopped(
    spark: SparkSession, broker: BrokerProcess, tmp_path: Path
) -> None:
    arguments = {**STREAM, "x-max-length-bytes": 100 * 20}
    declare(broker, "short", arguments, durable=True)
    query = StoppedQuery(spark, broker, tmp_path)

    def publish(start: int, end: int) -> None:
        messages = [Content(b"\0\0", b"%20d" % number) for number in range(start, end)]
        publish_raw(broker, "short", messages)

    publish(0, 50)
    assert query.run("short") == [*range(50)]
    publish(50, 150)
    assert query.run("short") == [*range(50, 150)]
    # Retention goes past the checkpoint: 100 messages of 350 are left.
    publish(150, 350)
    with pytest.raises(Exception, match=r"\[OFFSET_GONE\].*messages 150 to 249 were dropped"):
        query.run("short")
    assert query.run("short", failOnDataLoss="false") == [*range(250, 350)]
    with channel_of(broker) as channel:
        channel.queue_delete("short")
    with pytest.raises(Exception, match=r"\[QUEUE_GONE\]"):
        query.run("short")
    declare(broker, "short", arguments, durable=True)
    publish(1000, 1060)
    with pytest.raises(Exception, match=r"\[INCARNATION_CHANGED\].*declared again"):
        query.run("short", failOnDataLoss="false")
    assert query.run("short", onIncarnationChange="restart") == [*range(1000, 1060)]


def test_both_lives_of_a_stream_are_archived_and_replayed_in_their_order(
    spark: SparkSession, broker: BrokerProcess, tmp_path: Path
) -> None:
    path = str(tmp_path / "archive")
    options = source_options_for(broker, queue="twice", onIncarnationChange="restart")
    lives = ([b"first %d" % at for at in range(20)], [b"second %d" % at for at in range(10)])
    for bodies in lives:
        declare(broker, "twice", STREAM, durable=True)
        publish_raw(broker, "twice", [Content(b"\0\0", body) for body in bodies])
        assert archive(spark, path, options).messages == len(bodies)
        with channel_of(broker) as channel:
            channel.queue_delete("twice")
    by_life = layout.read_archive(spark, path).groupBy("incarnation").count().collect()
    assert sorted(row["count"] for row in by_life) == [10, 20]
    assert None not in {row["incarnation"] for row in by_life}

    declare(broker, "whole", STREAM, durable=True)
    target = options_for(broker)
    assert replay(spark, path, target, to_exchange="", to_routing_key="whole").published == 30
    assert [each.body for each in contents_of(broker, "whole")] == [*lives[0], *lives[1]]
