"""A delivery gives its offset and, without it, the octets that were published."""

from __future__ import annotations

import pytest

from hareline.errors import MalformedFrame
from hareline.spark.reading import deliveries
from hareline.spark.reading.deliveries import ChunkRows, Delivery, take_offset
from hareline.wire.properties import Properties, encode_properties, with_integer_header
from hareline.wire.table import Array, Byte, LongLong, Short, Table

NAME = "x-stream-offset"
OTHERS = Table(
    a=1, b="x", c=None, d=True, e=Table(f=[1]), g=Array([b"x"]), h=2.5, i=Byte(1), j=Short(2)
)


def encoded(**more: object) -> bytes:
    """With properties on both sides of the headers."""
    headers = more.pop("headers", None)
    assert headers is None or isinstance(headers, Table)
    return encode_properties(
        Properties(content_type="a/b", content_encoding="c", headers=headers, message_id="m")
    )


def test_an_offset_behind_other_headers_is_taken_out() -> None:
    published = encoded(headers=OTHERS)
    assert take_offset(with_integer_header(published, NAME.encode(), 7)) == (7, published)


@pytest.mark.parametrize("value", [1 << 40, LongLong(1 << 40)])
def test_an_offset_among_other_headers_is_taken_out(value: int) -> None:
    names = [*OTHERS]
    for at in range(len(names) + 1):
        fields = [(name, OTHERS[name]) for name in names]
        fields.insert(at, (NAME, value))
        assert take_offset(encoded(headers=Table(fields))) == (1 << 40, encoded(headers=OTHERS))


def test_the_only_header_takes_the_table_with_it() -> None:
    assert take_offset(encoded(headers=Table({NAME: 0}))) == (0, encoded())
    bare = encode_properties(Properties(headers=Table({NAME: 5})))
    assert take_offset(bare) == (5, b"\0\0")


def test_what_is_no_offset_stays() -> None:
    text = Table({NAME: "7", "nested": Table({NAME: 8}), "value": NAME})
    for published in (encoded(), encoded(headers=text), encoded(headers=Table()), b"\0\0"):
        assert take_offset(published) == (None, published)


def test_octets_that_are_no_table_are_refused() -> None:
    whole = encoded(headers=OTHERS)
    end = whole.index(b"\x01m")
    for size in (1, 3, 9, 14, 20, end - 3):
        with pytest.raises(MalformedFrame, match="headers of a delivery are not a table"):
            take_offset(whole[:size])
    with pytest.raises(MalformedFrame):
        take_offset(whole.replace(b"\x01bS", b"\x01b?"))


def test_chunks_are_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deliveries, "ROWS_MAX", 2)
    rows = ChunkRows(5)
    assert len(rows) == 0
    rows.add(Delivery(1, 5, b"meta", 3, b"one"))
    was_full = rows.is_full
    rows.add(Delivery(2, 6, b"m", 0, b""))
    assert (was_full, rows.is_full) == (False, True)
    header, columns = rows.take(9)
    assert (header.first_offset, header.count) == (5, 2)
    assert (header.metas_size, header.bodies_size) == (5, 3)
    assert len(columns) == header.columns_size
    sizes = b"\4\0\0\0\1\0\0\0" + b"\3\0\0\0\0\0\0\0"
    assert bytes(columns) == bytes(16) + sizes + b"metam" + b"one"
    assert len(rows) == 0
    rows.add(Delivery(3, 9, b"", 1, b"x"))
    assert rows.take(10).header.first_offset == 9


def test_a_chunk_is_full_by_octets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deliveries, "OCTETS_MAX", 10)
    rows = ChunkRows(0)
    rows.add(Delivery(1, 0, b"meta", 5, b"12345"))
    was_full = rows.is_full
    rows.add(Delivery(2, 1, b"", 1, b"1"))
    assert (was_full, rows.is_full) == (False, True)
