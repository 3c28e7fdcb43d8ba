"""Columns of Arrow become properties that the broker's own decoder reads back."""

from __future__ import annotations

import datetime
from typing import Any

import pytest

from hareline.spark.errors import InvalidRows
from hareline.spark.writing.producers import Lanes
from hareline.spark.writing.write_options import check_columns, read_write_options
from hareline.wire.properties import Properties, decode_properties
from hareline.wire.table import Byte, Short, Table, encode_table

pa = pytest.importorskip("pyarrow", reason="the extra spark is not installed")

from hareline.spark.writing.rows import OutgoingRow, RowEncoder  # noqa: E402

TYPES = {
    "binary": pa.binary(),
    "string": pa.string(),
    "smallint": pa.int16(),
    "bigint": pa.int64(),
    "boolean": pa.bool_(),
    "timestamp": pa.timestamp("us", tz="UTC"),
    "timestamp_ntz": pa.timestamp("us"),
    "map<string,string>": pa.map_(pa.string(), pa.string()),
}
MOMENT = datetime.datetime(2026, 2, 3, 4, 5, 6, 700_000, tzinfo=datetime.UTC)
SECONDS = 1770091506


def batch_of(**columns: tuple[str, list[Any]]) -> Any:
    """A record batch of ``name=(Spark's type, values)``."""
    return pa.RecordBatch.from_pydict(
        {name: pa.array(values, TYPES[kind]) for name, (kind, values) in columns.items()}
    )


def encode(
    lanes: Lanes | None = None, options: dict[str, str] | None = None, **columns: Any
) -> list[OutgoingRow]:
    given = {"url": "amqp://host", "user": "guest", "dedup": "none", **(options or {})}
    checked = read_write_options(given, {})
    if "routing_key" not in columns and "routingKey" not in given:
        columns["routing_key"] = ("string", ["k"] * len(columns["body"][1]))
    read = check_columns({name: kind for name, (kind, _) in columns.items()}, checked)
    return list(RowEncoder(read, checked, 3, lanes).encode(batch_of(**columns)))


def properties(**columns: Any) -> list[Properties]:
    count = len(next(iter(columns.values()))[1])
    rows = encode(body=("binary", [b""] * count), **columns)
    return [decode_properties(row.properties) for row in rows]


@pytest.mark.parametrize(
    "name",
    [
        *("content_type", "content_encoding", "correlation_id", "reply_to", "expiration"),
        *("message_id", "type", "user_id", "app_id"),
    ],
)
def test_a_text_property_comes_through_or_is_absent(name: str) -> None:
    found = properties(**{name: ("string", ["text", None, "größe", "", "x" * 255])})
    assert [getattr(each, name) for each in found] == ["text", None, "größe", "", "x" * 255]
    assert all(each.delivery_mode == 2 for each in found)


@pytest.mark.parametrize("kind", ["smallint", "bigint"])
@pytest.mark.parametrize("name", ["delivery_mode", "priority"])
def test_an_octet_comes_through_or_is_absent(name: str, kind: str) -> None:
    found = properties(**{name: (kind, [0, None, 255])})
    assert [getattr(each, name) for each in found] == [0, None, 255]


@pytest.mark.parametrize("kind", ["timestamp", "timestamp_ntz"])
def test_a_timestamp_comes_through_in_whole_seconds(kind: str) -> None:
    moment = MOMENT if kind == "timestamp" else MOMENT.replace(tzinfo=None)
    found = properties(app_timestamp=(kind, [moment, None]))
    assert [each.timestamp for each in found] == [SECONDS, None]


def test_all_properties_together_with_all_ways_of_nulls() -> None:
    texts = ["content_type", "content_encoding", "correlation_id", "reply_to", "expiration"]
    texts += ["message_id", "type", "user_id", "app_id"]
    columns: dict[str, Any] = {
        name: ("string", [name if row & 1 << place else None for row in range(512)])
        for place, name in enumerate(texts)
    }
    columns["priority"] = ("smallint", [7] * 512)
    columns["app_timestamp"] = ("timestamp", [MOMENT] * 512)
    columns["headers"] = ("map<string,string>", [[("n", str(row))] for row in range(512)])
    for row, found in enumerate(properties(**columns)):
        wanted = {name: name for place, name in enumerate(texts) if row & 1 << place}
        assert found == Properties(
            delivery_mode=2,
            priority=7,
            timestamp=found.timestamp,
            headers=Table(n=str(row)),
            **wanted,
        )


def test_headers_are_texts_and_voids() -> None:
    found = properties(
        headers=(
            "map<string,string>",
            [[("a", "1"), ("b", None)], None, [], [("größe", "x" * 999)]],
        )
    )
    assert [each.headers for each in found] == [
        {"a": "1", "b": None},
        None,
        {},
        {"größe": "x" * 999},
    ]


def test_headers_of_a_slice_are_its_own() -> None:
    options = read_write_options({"url": "amqp://h", "user": "guest", "routingKey": "k"}, {})
    batch = batch_of(
        body=("binary", [b""] * 9),
        headers=("map<string,string>", [[("n", str(n)), ("m", "x")] for n in range(9)]),
    )
    encoder = RowEncoder(["body", "headers"], options, 0)
    for start, size in ((2, 3), (0, 0), (8, 1)):
        rows = list(encoder.encode(batch.slice(start, size)))
        found = [decode_properties(row.properties).headers for row in rows]
        assert found == [{"n": str(n), "m": "x"} for n in range(start, start + size)]


def test_raw_headers_win_and_come_out_octet_for_octet() -> None:
    raw = encode_table({"b": Byte(1), "s": Short(2), "nested": {"list": [1, b"x", {"y": None}]}})
    rows = encode(
        body=("binary", [b"", b"", b""]),
        headers=("map<string,string>", [[("lossy", "1")], [("kept", "2")], None]),
        headers_raw=("binary", [raw, None, None]),
    )
    assert raw in rows[0].properties
    assert decode_properties(rows[1].properties).headers == {"kept": "2"}
    assert decode_properties(rows[2].properties).headers is None


@pytest.mark.parametrize("kind", ["binary", "string"])
def test_bodies_are_octets(kind: str) -> None:
    text = "größe \0"
    value: Any = text if kind == "string" else text.encode()
    assert [row.body for row in encode(body=(kind, [value, value[:0]]))] == [text.encode(), b""]


def test_places_come_from_columns_and_null_is_the_empty_name() -> None:
    rows = encode(
        body=("binary", [b"", b""]),
        exchange=("string", ["e", None]),
        routing_key=("string", [None, "k"]),
        mandatory=("boolean", [False, None]),
    )
    assert [row[:2] for row in rows] == [("e", ""), ("", "k")]
    assert [row.mandatory for row in rows] == [False, True]


def test_an_option_wins_over_the_column() -> None:
    [row] = encode(
        options={"exchange": "E", "routingKey": "K", "mandatory": "false"},
        body=("binary", [b""]),
        exchange=("string", ["e"]),
        routing_key=("string", ["k"]),
        mandatory=("boolean", [True]),
    )
    assert (row.exchange, row.routing_key, row.mandatory) == ("E", "K", False)


# --------------------------------------------------------------------------------------- dedup


def test_producers_go_on_from_batch_to_batch_and_replace_others() -> None:
    foreign = encode_table({"x-producer-id": "other", "a": "1", "x-producer-seq": 5})
    options = read_write_options({"url": "amqp://h", "user": "guest", "routingKey": "k"}, {})
    encoder = RowEncoder(["body", "headers_raw"], options, 0, Lanes("p", 2, batch=1))
    batch = batch_of(body=("binary", [b""] * 2), headers_raw=("binary", [None, foreign]))
    found = [
        decode_properties(row.properties).headers for _ in range(2) for row in encoder.encode(batch)
    ]
    base = 1 << 32
    assert found == [
        {"x-producer-id": "p/2/0", "x-producer-seq": base},
        {"a": "1", "x-producer-id": "p/2/1", "x-producer-seq": base},
        {"x-producer-id": "p/2/0", "x-producer-seq": base + 1},
        {"a": "1", "x-producer-id": "p/2/1", "x-producer-seq": base + 1},
    ]


def test_a_key_is_a_producer_of_one_message() -> None:
    rows = encode(
        options={"dedup": "column"},
        body=("binary", [b"", b""]),
        dedup_key=("string", ["a", "größe"]),
    )
    assert [decode_properties(row.properties).headers for row in rows] == [
        {"x-producer-id": "a", "x-producer-seq": 1},
        {"x-producer-id": "größe", "x-producer-seq": 1},
    ]


def test_without_dedup_a_producer_of_the_rows_own_is_kept() -> None:
    own = encode_table({"x-producer-id": "other", "x-producer-seq": 5})
    [row] = encode(body=("binary", [b""]), headers_raw=("binary", [own]))
    assert own in row.properties


# -------------------------------------------------------------------------------------- errors


@pytest.mark.parametrize(
    ("column", "text"),
    [
        ({"body": ("binary", [b"", None])}, "'body' is null"),
        ({"priority": ("smallint", [1, 256])}, "'priority' is 256; it must be 0 to 255"),
        ({"delivery_mode": ("bigint", [1, -1])}, "'delivery_mode' is -1"),
        ({"message_id": ("string", ["", "ü" * 128])}, "'message_id' has 256 octets"),
        ({"routing_key": ("string", ["", "ü" * 128])}, "'routing_key' has 256 octets"),
        ({"exchange": ("string", ["", "x" * 256])}, "'exchange' has 256 octets"),
        (
            {"app_timestamp": ("timestamp", [MOMENT, MOMENT.replace(year=1969)])},
            "'app_timestamp' is before 1970",
        ),
        ({"headers_raw": ("binary", [b"\0\0\0\0", b"\0\0\0\1"])}, "'headers_raw' is not an AMQP"),
        ({"headers_raw": ("binary", [b"\0\0\0\0", b""])}, "'headers_raw' is not an AMQP"),
        (
            {"headers": ("map<string,string>", [[("a", "")], [("x" * 256, "")]])},
            "'headers' has a name of more than 255 octets",
        ),
    ],
)
def test_a_value_that_no_message_has_is_named_with_its_row(
    column: dict[str, Any], text: str
) -> None:
    columns = {"body": ("binary", [b"", b""]), **column}
    with pytest.raises(InvalidRows) as error:
        encode(**columns)
    assert text in str(error.value)
    assert "(row 1 of partition 3)" in str(error.value)


@pytest.mark.parametrize("key", [None, "", "x" * 256])
def test_a_key_that_is_no_producer_is_refused(key: str | None) -> None:
    with pytest.raises(InvalidRows, match=r"'dedup_key' .*row 1 of"):
        encode(
            options={"dedup": "column"},
            body=("binary", [b"", b""]),
            dedup_key=("string", ["a", key]),
        )


def test_no_rows_are_no_messages() -> None:
    assert encode(body=("binary", []), headers=("map<string,string>", [])) == []
