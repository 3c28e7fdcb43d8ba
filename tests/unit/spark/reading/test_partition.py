"""A task reads its whole range as bounded record batches, or says what is missing of it."""

from __future__ import annotations

import datetime
import logging
import pickle
from array import array
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
from hareline.spark.reading import partition as module
from hareline.spark.reading.access import Chunk
from hareline.spark.reading.columns import COLUMNS, arrow_schema
from hareline.spark.reading.options import read_options
from hareline.spark.reading.partition import BatchBuilder, RangePartition, read_partition
from hareline.spark.reading.planning import Range
from hareline.wire.properties import Properties, encode_properties
from hareline.wire.stream_chunks import HEADER_SIZE, decode_header, encode_chunk
from hareline.wire.table import Table, encode_shortstr, encode_table
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


ALL = tuple(column.name for column in COLUMNS)
TYPES = {column.name: column.ddl for column in COLUMNS}
HEADERS = Table(a="1", nested=Table(b=[1, 2]))
FULL = Properties(
    content_type="text/plain",
    content_encoding="gzip",
    headers=HEADERS,
    delivery_mode=2,
    priority=200,
    correlation_id="c",
    reply_to="r",
    expiration="60000",
    message_id="m",
    timestamp=1_700_000_000,  # type: ignore[arg-type]
    type="t",
    user_id="u",
    app_id="a",
)


def schema(*names: str) -> Any:
    fields = [
        SimpleNamespace(
            name=name,
            nullable=True,
            dataType=SimpleNamespace(simpleString=lambda name=name: TYPES[name]),
        )
        for name in names
    ]
    return arrow_schema(SimpleNamespace(fields=fields))


def chunk(*rows: tuple[bytes, bytes], first: int = 5) -> Chunk:
    """Rows of properties and body; arrivals are the numbers of rows."""
    metas = [encode_shortstr("ex") + encode_shortstr("key") + each for each, _ in rows]
    octets = b"".join(
        encode_chunk(first, array("Q", range(len(rows))), metas, [body for _, body in rows])
    )
    return Chunk(decode_header(octets), bytearray(octets[HEADER_SIZE:]))


def builder(*names: str) -> BatchBuilder:
    return BatchBuilder("/", "q", "00000000000000aa", schema(*names))


def rows_of(made: Chunk, *names: str) -> list[dict[str, Any]]:
    rows = []
    for batch in builder(*names).batches(made):
        batch.validate(full=True)
        rows += batch.to_pylist()
    return rows


def test_every_column_has_its_value() -> None:
    [row] = rows_of(chunk((encode_properties(FULL), b"body")), *ALL)
    epoch = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
    assert row == {
        "vhost": "/",
        "queue": "q",
        "incarnation": "00000000000000aa",
        "offset": 5,
        "timestamp": epoch,
        "exchange": "ex",
        "routing_key": "key",
        "body": b"body",
        "content_type": "text/plain",
        "content_encoding": "gzip",
        "delivery_mode": 2,
        "priority": 200,
        "correlation_id": "c",
        "reply_to": "r",
        "expiration": "60000",
        "message_id": "m",
        "app_timestamp": epoch + datetime.timedelta(seconds=1_700_000_000),
        "type": "t",
        "user_id": "u",
        "app_id": "a",
        "headers": [("a", "1"), ("nested", '{"b":[1,2]}')],
        "headers_raw": encode_table(HEADERS),
        "size": 4,
    }


def test_what_a_message_does_not_have_is_null() -> None:
    [row] = rows_of(chunk((encode_properties(Properties()), b"")), *ALL)
    there = {name for name, value in row.items() if value is not None}
    assert there == {column.name for column in COLUMNS if column.is_always_there}
    [row] = rows_of(chunk((encode_properties(Properties(headers=Table())), b"")), "headers")
    assert row == {"headers": []}


@pytest.mark.parametrize("name", ALL)
def test_each_column_can_be_read_alone(name: str) -> None:
    rows = chunk(
        (encode_properties(FULL), b"body"),
        (encode_properties(Properties()), b""),
        (encode_properties(FULL), b"other"),
    )
    assert rows_of(rows, name) == [{name: row[name]} for row in rows_of(rows, *ALL)]


def test_columns_come_in_the_order_of_the_schema() -> None:
    [batch] = builder("body", "offset").batches(chunk((b"\0\0", b"x")))
    assert batch.schema.names == ["body", "offset"]


def test_batches_are_bounded_by_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "ROWS_MAX", 3)
    made = chunk(*((b"\0\0", b"%d" % number) for number in range(7)))
    sizes = [each.num_rows for each in builder("queue", "headers", "offset").batches(made)]
    assert sizes == [3, 3, 1]
    assert [row["offset"] for row in rows_of(made, *ALL)] == [*range(5, 12)]
    assert [row["body"] for row in rows_of(made, "body")] == [b"%d" % each for each in range(7)]


def test_batches_are_bounded_by_octets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "OCTETS_MAX", 100)
    bodies = [b"x" * size for size in (30, 30, 30, 300, 0, 0, 99)]
    made = chunk(*((b"\0\0", body) for body in bodies))
    got = [[len(body.as_py()) for body in batch["body"]] for batch in builder("body").batches(made)]
    assert got == [[30, 30], [30], [300], [0, 0], [99]]


def test_a_message_that_cannot_be_decoded_is_named() -> None:
    bad = b"\x20\x00\x00\x00\x00\x05\x01aZ99"  # a header of type Z
    made = chunk((b"\0\0", b""), (b"\0\0", b""), (bad, b""))
    with pytest.raises(MessagesMissing, match=r"message 7: its properties .* type octet 0x5a"):
        rows_of(made, "headers")
    assert len(rows_of(made, "headers_raw")) == 3
    with pytest.raises(MessagesMissing, match=r"message 5: .* run past the end"):
        rows_of(chunk((b"\x80\x00\x09a", b"")), "app_id")


def test_bodies_are_not_copied() -> None:
    made = chunk((b"\0\0", b"before"), (b"\0\0", b"body"))
    [batch] = builder("body").batches(made)
    made.columns[-4:] = b"BODY"
    assert batch["body"][1].as_py() == b"BODY"


def test_columns_that_are_not_told_are_null(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "OCTETS_MAX", 1)
    names = ("timestamp", "body", "incarnation")
    made = BatchBuilder("/", "q", "", schema(*names), {"timestamp", "incarnation"})
    found = [*made.batches(chunk((b"\0\0", b"a"), (b"\0\0", b"b")))]
    assert [each.num_rows for each in found] == [1, 1]
    for each, body in zip(found, (b"a", b"b"), strict=True):
        each.validate(full=True)
        assert each.to_pylist() == [{"timestamp": None, "body": body, "incarnation": None}]
