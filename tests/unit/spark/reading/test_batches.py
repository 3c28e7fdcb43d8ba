"""Record batches have the messages of their chunks, all of them, in batches of bounded size."""

from __future__ import annotations

import datetime
from array import array
from types import SimpleNamespace
from typing import Any

import pytest

pa = pytest.importorskip("pyarrow")

from hareline.spark.errors import MessagesMissing  # noqa: E402
from hareline.spark.reading import batches  # noqa: E402
from hareline.spark.reading.access import Chunk  # noqa: E402
from hareline.spark.reading.batches import BatchBuilder  # noqa: E402
from hareline.spark.reading.columns import COLUMNS, arrow_schema  # noqa: E402
from hareline.wire.properties import Properties, encode_properties  # noqa: E402
from hareline.wire.stream_chunks import HEADER_SIZE, decode_header, encode_chunk  # noqa: E402
from hareline.wire.table import Table, encode_shortstr, encode_table  # noqa: E402

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


def read(made: Chunk, *names: str) -> list[dict[str, Any]]:
    rows = []
    for batch in builder(*names).batches(made):
        batch.validate(full=True)
        rows += batch.to_pylist()
    return rows


def test_every_column_has_its_value() -> None:
    [row] = read(chunk((encode_properties(FULL), b"body")), *ALL)
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
    [row] = read(chunk((encode_properties(Properties()), b"")), *ALL)
    there = {name for name, value in row.items() if value is not None}
    assert there == {column.name for column in COLUMNS if column.is_always_there}
    [row] = read(chunk((encode_properties(Properties(headers=Table())), b"")), "headers")
    assert row == {"headers": []}


@pytest.mark.parametrize("name", ALL)
def test_each_column_can_be_read_alone(name: str) -> None:
    rows = chunk(
        (encode_properties(FULL), b"body"),
        (encode_properties(Properties()), b""),
        (encode_properties(FULL), b"other"),
    )
    assert read(rows, name) == [{name: row[name]} for row in read(rows, *ALL)]


def test_columns_come_in_the_order_of_the_schema() -> None:
    [batch] = builder("body", "offset").batches(chunk((b"\0\0", b"x")))
    assert batch.schema.names == ["body", "offset"]


def test_batches_are_bounded_by_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batches, "ROWS_MAX", 3)
    made = chunk(*((b"\0\0", b"%d" % number) for number in range(7)))
    sizes = [each.num_rows for each in builder("queue", "headers", "offset").batches(made)]
    assert sizes == [3, 3, 1]
    assert [row["offset"] for row in read(made, *ALL)] == [*range(5, 12)]
    assert [row["body"] for row in read(made, "body")] == [b"%d" % each for each in range(7)]


def test_batches_are_bounded_by_octets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batches, "OCTETS_MAX", 100)
    bodies = [b"x" * size for size in (30, 30, 30, 300, 0, 0, 99)]
    made = chunk(*((b"\0\0", body) for body in bodies))
    got = [[len(body.as_py()) for body in batch["body"]] for batch in builder("body").batches(made)]
    assert got == [[30, 30], [30], [300], [0, 0], [99]]


def test_a_message_that_cannot_be_decoded_is_named() -> None:
    bad = b"\x20\x00\x00\x00\x00\x05\x01aZ99"  # a header of type Z
    made = chunk((b"\0\0", b""), (b"\0\0", b""), (bad, b""))
    with pytest.raises(MessagesMissing, match=r"message 7: its properties .* type octet 0x5a"):
        read(made, "headers")
    assert len(read(made, "headers_raw")) == 3
    with pytest.raises(MessagesMissing, match=r"message 5: .* run past the end"):
        read(chunk((b"\x80\x00\x09a", b"")), "app_id")


def test_bodies_are_not_copied() -> None:
    made = chunk((b"\0\0", b"before"), (b"\0\0", b"body"))
    [batch] = builder("body").batches(made)
    made.columns[-4:] = b"BODY"
    assert batch["body"][1].as_py() == b"BODY"


def test_columns_that_are_not_told_are_null(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batches, "OCTETS_MAX", 1)
    names = ("timestamp", "body", "incarnation")
    made = BatchBuilder("/", "q", "", schema(*names), {"timestamp", "incarnation"})
    found = [*made.batches(chunk((b"\0\0", b"a"), (b"\0\0", b"b")))]
    assert [each.num_rows for each in found] == [1, 1]
    for each, body in zip(found, (b"a", b"b"), strict=True):
        each.validate(full=True)
        assert each.to_pylist() == [{"timestamp": None, "body": body, "incarnation": None}]
