"""A replay publishes what the archive has: octet for octet, in order, and within its limits."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from hareline.errors import AmqpError
from hareline.spark.errors import InvalidOption, PublishRefused
from hareline.spark.pipelines import layout
from hareline.spark.pipelines import replay as replay_module
from hareline.spark.pipelines.replay import ReplayedHeaders, ReplayProgress, replay
from hareline.wire.constants import FLAG_HEADERS, FRAME_BODY, FRAME_HEADER
from hareline.wire.decoder import Decoder, FrameSink
from hareline.wire.property_parts import take_apart
from hareline.wire.table import Byte, Float, Short, Table, decode_table, encode_table
from tests.support.broker_process import BrokerProcess
from tests.support.raw_client import RawClient
from tests.support.sink_broker import bodies_in, declare, options_for, take_all

pytestmark = pytest.mark.acceptance

MIDNIGHT = datetime.datetime(2026, 1, 6, tzinfo=datetime.UTC)
MINUTE = datetime.timedelta(minutes=1)
NESTED = encode_table(
    {
        "byte": Byte(-1),
        "short": Short(7),
        "float": Float(0.5),
        "list": [1, "x", {"deep": [b"y", None, True]}],
    }
)


def archived(queue: str, offset: int, **columns: Any) -> dict[str, Any]:
    """A row of an archive; a message arrives each minute, and the sixth one on the next day."""
    return {
        "vhost": "/",
        "incarnation": "00000000000000aa",
        "queue": queue,
        "offset": offset,
        "timestamp": MIDNIGHT + (offset - 5) * MINUTE,
        "exchange": "",
        "routing_key": queue,
        "body": b"%s %d" % (queue.encode(), offset),
        "size": 8,
        **columns,
    }


def archive_of(spark: SparkSession, path: Path, *batches: Sequence[dict[str, Any]]) -> str:
    schema = spark.createDataFrame([], layout.SCHEMA).schema
    source = StructType([field for field in schema if field.name not in {"date", "batch"}])
    for number, rows in enumerate(batches):
        values = [tuple(row.get(field.name) for field in source) for row in rows]
        layout.write_batch(spark.createDataFrame(values, source), str(path), number)
    return str(path)


def contents_of(broker: BrokerProcess, queue: str, count: int) -> list[tuple[bytes | None, bytes]]:
    """Headers table and body of messages, in the octets that came over the wire."""
    with RawClient((broker.host, broker.port)) as client:
        client.open()
        client.consume(queue)
        sink = _Contents()
        decoder = Decoder(sink)
        decoder.frame_max = client.frame_max
        decoder.feed(client._buffer)
        while not sink.has(count):
            decoder.feed(client.socket.recv(65_536))
    return list(zip(sink.tables, sink.bodies, strict=True))


class _Contents(FrameSink):
    """Headers and bodies of deliveries, one body frame each."""

    def __init__(self) -> None:
        self.tables: list[bytes | None] = []
        self.bodies: list[bytes] = []
        self._size = 0

    def has(self, count: int) -> bool:
        return len(self.tables) == count and self._size == sum(map(len, self.bodies))

    def on_frame(self, kind: int, number: int, payload: bytes) -> None:
        if kind == FRAME_HEADER:
            parts = take_apart(payload[12:])
            has_table = int.from_bytes(payload[12:14], "big") & FLAG_HEADERS
            fields = len(parts.fields).to_bytes(4, "big") + parts.fields
            self.tables.append(fields if has_table else None)
            self._size += int.from_bytes(payload[4:12], "big")
            if payload[4:12] == bytes(8):
                self.bodies.append(b"")
        elif kind == FRAME_BODY:
            self.bodies.append(payload)

    def on_error(self, number: int, error: AmqpError) -> bool:
        raise error


def numbers_of(bodies: Sequence[bytes]) -> list[int]:
    return [int(body.rpartition(b" ")[2]) for body in bodies]


def test_a_replay_equals_the_archive_octet_for_octet(
    spark: SparkSession, broker: BrokerProcess, tmp_path: Path
) -> None:
    """Bodies and headers as they were, when nothing is stripped and nothing is added."""
    declare(broker, "exact")
    rows = [
        archived("exact", 0, body=bytes(range(256)), headers_raw=NESTED, headers={"lossy": "1"}),
        archived("exact", 1, body=b"", delivery_mode=2, priority=255, expiration="1000"),
        archived("exact", 2, headers_raw=b"\0\0\0\0", message_id="m", user_id="guest"),
    ]
    options = options_for(broker, dedup="none")
    result = replay(spark, archive_of(spark, tmp_path, rows), options, mark=False)
    assert (result.published, result.dropped, result.total) == (3, 0, 3)
    found = contents_of(broker, "exact", len(rows))
    assert [body for _, body in found] == [row["body"] for row in rows]
    assert [table for table, _ in found] == [row.get("headers_raw") for row in rows]


def test_headers_and_properties_come_back_as_they_were(
    spark: SparkSession, broker: BrokerProcess, tmp_path: Path
) -> None:
    declare(broker, "whole")
    rows = [
        archived(
            "whole",
            0,
            headers_raw=NESTED,
            content_type="text/plain",
            content_encoding="zip",
            delivery_mode=2,
            priority=255,
            correlation_id="c",
            reply_to="r",
            expiration="1",
            message_id="m",
            app_timestamp=MIDNIGHT,
            type="t",
            user_id="guest",
            app_id="a",
        ),
        archived("whole", 1, user_id="somebody"),
    ]
    replay(spark, archive_of(spark, tmp_path, rows), options_for(broker))
    (_, first, _), (_, second, _) = take_all(broker, "whole")
    texts = ("content_type", "content_encoding", "correlation_id", "reply_to", "message_id")
    assert [getattr(first, name) for name in texts] == ["text/plain", "zip", "c", "r", "m"]
    assert (first.type, first.user_id, first.app_id) == ("t", "guest", "a")
    assert (first.delivery_mode, first.priority) == (2, 255)
    assert first.timestamp == int(MIDNIGHT.timestamp())
    assert first.expiration is None
    assert second.user_id is None, "the login may not speak for others"
    assert second.delivery_mode is None
    assert first.headers["x-replayed-from"] == second.headers["x-replayed-from"] == "whole"
    assert first.headers["list"] == [1, "x", {"deep": [b"y", None, True]}]
    assert first.headers["x-producer-id"].startswith("spark/")


def test_queues_are_replayed_in_order_across_days_slices_and_incarnations(
    spark: SparkSession,
    broker: BrokerProcess,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(replay_module, "_SLICE_MESSAGES", 4)
    for queue in ("one", "two"):
        declare(broker, queue)
    rows = [archived(queue, offset) for offset in range(10) for queue in ("one", "two")]
    # Declared again: its offsets begin again, and its id is lower.
    later = [
        archived(
            "one",
            offset,
            incarnation="0000000000000001",
            timestamp=MIDNIGHT + (20 + offset) * MINUTE,
            body=b"again %d" % (100 + offset),
        )
        for offset in range(5)
    ]
    seen: list[ReplayProgress] = []
    # Batches out of order: what decides is the offset.
    path = archive_of(spark, tmp_path, later, rows[::-1])
    result = replay(spark, path, options_for(broker), on_progress=seen.append)
    assert (result.published, result.total) == (25, 25)
    assert numbers_of(bodies_in(broker, "one")) == [*range(10), *range(100, 105)]
    assert numbers_of(bodies_in(broker, "two")) == list(range(10))
    assert len(seen) > 3
    assert [each.published for each in seen] == sorted({each.published for each in seen})
    assert (seen[-1].published, seen[-1].total) == (25, 25)
    assert all(before.until < after.until for before, after in pairwise(seen))


def test_messages_are_chosen_and_sent_elsewhere(
    spark: SparkSession, broker: BrokerProcess, tmp_path: Path
) -> None:
    declare(broker, "elsewhere")
    rows = [
        archived(queue, offset, exchange="gone", priority=offset, body=b"%d" % offset)
        for queue in ("x", "y")
        for offset in range(10)
    ]
    path = archive_of(spark, tmp_path, rows)
    choice: dict[str, Any] = {
        "queues": ["x"],
        "start": "2026-01-05T23:57:00",
        "end": MIDNIGHT + 3 * MINUTE,
        "exchanges": ["gone", "other"],
        "routing_keys": ["x"],
        "where": "priority != 4",
    }
    dry = replay(spark, path, {}, dry_run=True, **choice)
    assert (dry.total, dry.published) == (5, 0)
    [count] = dry.counts
    assert (count.queue, count.exchange, count.messages, count.octets) == ("x", "gone", 5, 40)
    assert (count.first, count.last) == (MIDNIGHT - 3 * MINUTE, MIDNIGHT + 2 * MINUTE)
    assert bodies_in(broker, "elsewhere") == []

    result = replay(
        spark,
        path,
        options_for(broker),
        to_exchange="",
        to_routing_key="elsewhere",
        max_rate=1000,
        **choice,
    )
    assert result.counts == dry.counts
    assert numbers_of(bodies_in(broker, "elsewhere")) == [2, 3, 5, 6, 7]


def test_a_refusal_says_how_far_the_replay_came_and_how_to_go_on(
    spark: SparkSession,
    broker: BrokerProcess,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(replay_module, "_SLICE_MESSAGES", 1)
    declare(broker, "known")
    rows = [archived("known", 0), archived("known", 1), archived("known", 2, routing_key="unknown")]
    path = archive_of(spark, tmp_path, rows)
    with pytest.raises(PublishRefused) as error:
        replay(spark, path, options_for(broker))
    text = str(error.value)
    assert "312 NO_ROUTE" in text
    assert "'unknown'" in text
    assert "2 of 3 messages were published" in text
    assert len(bodies_in(broker, "known")) == 2
    start = text.rpartition("start=")[2]
    result = replay(spark, path, options_for(broker), start=start, to_routing_key="known")
    assert result.published == 1
    dropped = replay(spark, path, options_for(broker, onUnroutable="drop"))
    assert (dropped.published, dropped.dropped) == (2, 1)


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"keep": ["x-deaths"]}, "keep has 'x-deaths'; it may have expiration"),
        ({"start": "yesterday"}, "start must be a time like"),
        ({"where": "priority >"}, "where: "),
        ({"where": "colour = 1"}, "where: .*colour"),
        ({"where": "offset > 'abc'"}, "where: .*'abc'"),
    ],
)
def test_a_wrong_choice_is_one_sentence(
    spark: SparkSession, tmp_path: Path, arguments: dict[str, Any], text: str
) -> None:
    path = archive_of(spark, tmp_path, [archived("q", 0)])
    with pytest.raises(InvalidOption, match=text) as error:
        replay(spark, path, {}, dry_run=True, **arguments)
    assert "\n" not in str(error.value)


def test_an_archive_that_is_not_there_is_named(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(InvalidOption, match="has no archive"):
        replay(spark, str(tmp_path / "nothing"), {}, dry_run=True)


def test_no_message_is_nothing_to_publish(spark: SparkSession, tmp_path: Path) -> None:
    path = archive_of(spark, tmp_path, [archived("q", 0)])
    nowhere = {"url": "amqp://127.0.0.1:1", "user": "guest"}
    result = replay(spark, path, nowhere, queues=["other"])
    assert (result.total, result.published) == (0, 0)


# ------------------------------------------------------------------------------------- headers

DIED = {
    "x-death": [{"queue": "q", "count": 1}],
    "x-death-forgotten": 3,
    "x-first-death-reason": "expired",
    "x-last-death-queue": "q",
}
COPIES = {"CC": ["a"], "BCC": ["b"]}
PRODUCER = {"x-producer-id": "p", "x-producer-seq": 7}
OWN = {"CCC": "stays", "my-x-death": "stays", "b": Byte(1)}


@pytest.mark.parametrize(
    ("keep", "left"),
    [
        ([], OWN),
        (["x-death"], DIED | OWN),
        (["CC"], {"CC": ["a"]} | OWN),
        (["BCC", "CC", "x-death"], DIED | COPIES | OWN),
    ],
)
def test_headers_of_the_first_life_are_taken_out(keep: list[str], left: dict[str, Any]) -> None:
    table = encode_table(DIED | COPIES | PRODUCER | OWN)
    assert ReplayedHeaders(keep, marks=False).table("q", table) == encode_table(left)


def test_the_mark_names_the_queue_of_the_latest_replay() -> None:
    headers = ReplayedHeaders([], marks=True)
    first = headers.table("one", NESTED)
    assert first is not None
    assert first[4 : len(NESTED)] == NESTED[4:]
    second = headers.table("größe", first)
    assert second is not None
    found, _ = decode_table(second, 0)
    assert found == Table({**decode_table(NESTED, 0)[0], "x-replayed-from": "größe"})


def test_no_headers_stay_no_headers_without_a_mark() -> None:
    assert ReplayedHeaders([], marks=False).table("q", None) is None
    marked = ReplayedHeaders([], marks=True).table("q", None)
    assert marked == encode_table({"x-replayed-from": "q"})
