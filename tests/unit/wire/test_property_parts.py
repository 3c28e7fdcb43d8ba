"""Properties cut open and put together again: only headers and expiration may differ."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hareline.errors import MalformedFrame
from hareline.wire.properties import (
    Properties,
    decode_properties,
    encode_properties,
    with_integer_header,
)
from hareline.wire.property_parts import take_apart, without_last_header
from hareline.wire.table import Table, Timestamp, decode_table_body, encode_table

TEXTS = st.none() | st.text(st.characters(exclude_categories=["Cs"]), max_size=40)
OCTETS = st.none() | st.integers(0, 255)
HEADERS = st.dictionaries(st.text(max_size=8), st.integers(0, 9) | st.text(max_size=8), max_size=4)
PROPERTIES = st.builds(
    Properties,
    content_type=TEXTS,
    content_encoding=TEXTS,
    headers=st.none() | HEADERS.map(Table),
    delivery_mode=OCTETS,
    priority=OCTETS,
    correlation_id=TEXTS,
    reply_to=TEXTS,
    expiration=TEXTS,
    message_id=TEXTS,
    timestamp=st.none() | st.integers(0, 2**64 - 1).map(Timestamp),
    type=TEXTS,
    user_id=TEXTS,
    app_id=TEXTS,
    cluster_id=TEXTS,
)


@given(PROPERTIES, HEADERS.map(Table))
def test_other_headers_and_no_expiration_and_nothing_else_changes(
    properties: Properties, headers: Table
) -> None:
    parts = take_apart(encode_properties(properties))
    assert parts.expiration == properties.expiration
    assert parts.delivery_mode == properties.delivery_mode
    assert decode_table_body(parts.fields) == (properties.headers or {})
    changed = parts.with_fields(encode_table(headers)[4:])
    assert changed == encode_properties(replace(properties, headers=headers, expiration=None))


@given(PROPERTIES, st.data())
def test_what_is_cut_off_is_malformed_or_was_not_needed(
    properties: Properties, data: st.DataObject
) -> None:
    octets = encode_properties(properties)
    cut = octets[: data.draw(st.integers(0, len(octets)))]
    try:
        parts = take_apart(cut)
    except MalformedFrame:
        assert cut != octets
    else:
        assert parts.expiration == properties.expiration
        assert decode_table_body(parts.fields) == (properties.headers or {})


@given(st.binary(max_size=80))
def test_garbage_is_taken_apart_or_malformed_and_nothing_else(octets: bytes) -> None:
    try:
        parts = take_apart(octets)
    except MalformedFrame:
        with pytest.raises(MalformedFrame):
            decode_properties(octets)
    else:
        take_apart(parts.with_fields(b""))


@pytest.mark.parametrize(
    "octets",
    [
        b"",
        b"\x20",
        b"\x80\x00",
        b"\x20\x00\x00\x00\x00",
        b"\x20\x00\x00\x00\x00\x02\x01",
        b"\x20\x00\xff\xff\xff\xff\x01",
        b"\x10\x00",
        b"\x01\x00",
        b"\x01\x00\x021",
        b"\x05\x00",
    ],
)
def test_octets_that_end_too_early_are_refused(octets: bytes) -> None:
    with pytest.raises(MalformedFrame, match="cannot decode basic properties: "):
        take_apart(octets)


def test_surrogates_and_octets_beyond_utf_8_stay() -> None:
    any_text: Any = "\udcff"
    parts = take_apart(encode_properties(Properties(expiration=any_text, app_id=any_text)))
    assert parts.expiration == any_text
    assert parts.with_fields(b"") == encode_properties(Properties(headers=Table(), app_id=any_text))


# ------------------------------------------------------- what the broker appended to the headers


@given(PROPERTIES)
def test_an_appended_header_is_taken_out_again(properties: Properties) -> None:
    octets = encode_properties(properties)
    found = without_last_header(with_integer_header(octets, b"x-number", 7), b"x-number")
    if properties.headers == {}:  # a table without fields is none
        octets = encode_properties(replace(properties, headers=None))
    assert found == octets


@pytest.mark.parametrize(
    "headers",
    [
        None,
        {},
        {"a": 1},
        {"x-number": "text"},
        {"x-number": 7, "a": 1},
        {"a": "x-number"},
        {"t": Table({"x-number": "text"})},
        {"xx-number": 2**40},
    ],
)
@pytest.mark.parametrize("content_type", [None, "x-number"])
def test_what_is_no_appended_header_stays(
    headers: dict[str, object] | None, content_type: str | None
) -> None:
    table = None if headers is None else Table(headers)
    octets = encode_properties(
        Properties(headers=table, content_type=content_type, message_id="x-number-l1234567")
    )
    assert without_last_header(octets, b"x-number") == octets


def test_only_the_last_of_two_headers_is_taken_out() -> None:
    nested = Table({"a": Table({"x-number": 2**40})})
    octets = encode_properties(Properties(headers=nested))
    longer = encode_properties(Properties(headers=Table({**nested, "x-number": 2**40})))
    assert without_last_header(longer, b"x-number") == octets
