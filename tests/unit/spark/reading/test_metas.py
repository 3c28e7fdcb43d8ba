"""Metas are read as deep as the columns need, and say what the wire's own decoder says."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hareline.errors import MalformedFrame
from hareline.spark.reading.metas import IN_METAS, decode_metas, header_texts
from hareline.wire.properties import NO_PROPERTIES, Properties, decode_properties, encode_properties
from hareline.wire.table import Array, Float, Table, Timestamp, encode_shortstr, encode_table

texts = st.none() | st.text(max_size=20)
octets = st.none() | st.integers(0, 255)
properties = st.builds(
    Properties,
    content_type=texts,
    content_encoding=texts,
    headers=st.none() | st.dictionaries(st.text(max_size=9), st.text(max_size=9)).map(Table),
    delivery_mode=octets,
    priority=octets,
    correlation_id=texts,
    reply_to=texts,
    expiration=texts,
    message_id=texts,
    timestamp=st.none() | st.integers(0, 2**64 - 1).map(Timestamp),
    type=texts,
    user_id=texts,
    app_id=texts,
    cluster_id=texts,
)


def meta(exchange: str = "ex", key: str = "k", there: bytes = NO_PROPERTIES) -> bytes:
    return encode_shortstr(exchange) + encode_shortstr(key) + there


@given(there=st.lists(st.tuples(st.text(max_size=9), st.text(max_size=9), properties), max_size=6))
def test_every_property_is_read(there: list[tuple[str, str, Properties]]) -> None:
    decoded = decode_metas(
        [meta(exchange, key, encode_properties(each)) for exchange, key, each in there], IN_METAS
    )
    exchanges, keys = decoded.address_texts()
    tables = [*decoded.tables]
    for number, (exchange, key, expected) in enumerate(there):
        address = decoded.address_of[number]
        assert (exchanges[address], keys[address]) == (exchange, key)
        index = decoded.table_of[number]
        table = None if index is None else header_texts(tables[index])
        assert table == expected.headers
        for name, values in decoded.properties.items():
            wanted: Any = getattr(expected, {"app_timestamp": "timestamp"}.get(name, name))
            if name == "app_timestamp" and wanted is not None:
                wanted = wanted * 1_000_000 if wanted < 9_223_372_036_854 else None
            assert values[number] == wanted


def test_only_what_columns_need_is_read() -> None:
    broken = meta(there=b"\xff\xff\xff")
    decoded = decode_metas([broken, broken], ["routing_key", "body"])
    assert decoded.address_of == [0, 0]
    assert decoded.address_texts() == (["ex"], ["k"])
    assert not decoded.properties
    assert not decoded.table_of
    with_headers = encode_properties(Properties(headers=Table(a="1"), message_id="m"))
    cut = meta(there=with_headers[:-1])
    assert [*decode_metas([cut], ["headers"]).tables] == [encode_table(Table(a="1"))]
    with pytest.raises(MalformedFrame):
        decode_metas([cut], ["app_id"])


@given(there=properties, data=st.data())
def test_octets_that_end_early_are_noticed(there: Properties, data: st.DataObject) -> None:
    whole = meta(there=encode_properties(there))
    known = decode_properties(encode_properties(there))
    known.cluster_id = None  # not a column
    end = data.draw(st.integers(0, len(meta(there=encode_properties(known))) - 1))
    with pytest.raises(MalformedFrame):
        decode_metas([whole[:end]], IN_METAS)


def test_addresses_and_tables_stand_once_each() -> None:
    one = encode_properties(Properties(headers=Table(a="1"), message_id="m"))
    two = encode_properties(Properties(headers=Table(a="1"), message_id="n"))
    decoded = decode_metas([meta(there=one), meta(there=two), meta(key="l")], IN_METAS)
    assert decoded.address_of == [0, 0, 1]
    assert decoded.table_of == [0, 0, None]
    assert len(decoded.tables) == 1


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("grüße", "grüße"),
        (True, "true"),
        (-5, "-5"),
        (1.5, "1.5"),
        (Float(0.5), "0.5"),
        (float("inf"), "inf"),
        (float("nan"), "nan"),
        (Decimal("12.50"), "12.50"),
        (Timestamp(7), "7"),
        (b"\x00\xff", "AP8="),
        (None, None),
        (Array([1, "ü", None, [True]]), '[1,"ü",null,[true]]'),
        (Table(a=Table(b=Decimal("1.0"), c=b"x")), '{"a":{"b":"1.0","c":"eA=="}}'),
        ("\udcff", "\ufffd"),
        (Array(["\udcff"]), '["\ufffd"]'),
    ],
)
def test_headers_are_texts(value: object, text: str | None) -> None:
    assert header_texts(encode_table({"h": value})) == {"h": text}


def test_octets_that_are_not_utf_8_are_replaced() -> None:
    there = encode_properties(Properties(message_id="\udcff"))
    decoded = decode_metas([meta("\udcff", "k", there)], IN_METAS)
    assert decoded.address_texts()[0] == ["\ufffd"]
    assert decoded.properties["message_id"] == ["\ufffd"]
