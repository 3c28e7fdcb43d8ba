"""JSON of whatever clients put into names, arguments and headers: a strict reader takes it."""

from __future__ import annotations

import json
import math
from decimal import Decimal

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hareline.management.answers import Refusal, encoded
from hareline.wire.table import (
    Array,
    Byte,
    Float,
    Table,
    Timestamp,
    decode_table,
    encode_table,
)

NAMES = st.binary(min_size=1, max_size=20).map(lambda name: name.decode("utf-8", "surrogateescape"))
TEXTS = st.binary(max_size=120).map(lambda text: text.decode("utf-8", "surrogateescape"))
NUMBERS = st.integers(-(1 << 63), (1 << 63) - 1) | st.floats() | st.floats(width=32).map(Float)
LEAVES = TEXTS | st.binary(max_size=20) | NUMBERS | st.booleans() | st.none()
VALUES = st.recursive(
    LEAVES,
    lambda inner: (
        st.lists(inner, max_size=4).map(Array)
        | st.dictionaries(NAMES, inner, max_size=4).map(Table)
    ),
    max_leaves=20,
)


@given(st.dictionaries(NAMES, VALUES, max_size=6))
def test_any_table_of_headers_is_read_by_a_strict_reader_and_written_again(
    headers: dict[str, object],
) -> None:
    table, _ = decode_table(encode_table(Table(headers)), 0)
    found = orjson.loads(encoded({"headers": table}))["headers"]
    assert json.loads(json.dumps(found, ensure_ascii=False).encode()) == found
    assert len(found) == len(table)


def test_values_of_a_field_table_are_json() -> None:
    table = Table(
        {
            "text": "ü\udcff",
            "\udcfe": "name",
            "octets": b"text",
            "binary": b"\xff\x00",
            "decimal": Decimal("1.25"),
            "byte": Byte(-1),
            "float": Float(0.5),
            "instant": Timestamp(1_700_000_000),
            "nested": Table({"array": Array([1, None, True, "\udcff"])}),
        }
    )
    assert orjson.loads(encoded(table)) == {
        "text": "Not UTF-8, base64 is: w7z/",
        "Not UTF-8, base64 is: /g==": "name",
        "octets": "text",
        "binary": "Not UTF-8, base64 is: /wA=",
        "decimal": "1.25",
        "byte": -1,
        "float": 0.5,
        "instant": 1_700_000_000,
        "nested": {"array": [1, None, True, "Not UTF-8, base64 is: /w=="]},
    }


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("text", ["text", "\udcff"])
def test_numbers_that_json_does_not_have_are_null(number: float, text: str) -> None:
    row = {"arguments": {"x": [number, Float(number), b"octets"], "n": 1 << 70}, text: 1.5}
    found = json.loads(encoded(row))
    assert found["arguments"] == {"x": [None, None, "octets"], "n": 1 << 70}
    assert list(found.values())[1] == 1.5


def test_text_in_names_is_utf_8() -> None:
    assert encoded({"ü": "ö"}) == '{"ü":"ö"}'.encode()


@pytest.mark.parametrize("text", ["\ud800", "\ud800\udcff"])
def test_half_a_character_is_written_too(text: str) -> None:
    assert orjson.loads(encoded([text]))[0].startswith("Not UTF-8, base64 is: 7aCA")


def test_a_refusal_that_quotes_such_a_name_stays_a_sentence() -> None:
    answer = Refusal(404, "not_found", "no queue 'a\udcff'", details={"name": "a\udcff"}).answer()
    assert orjson.loads(answer.body) == {
        "error": "not_found",
        "reason": "no queue 'a?'",
        "name": "Not UTF-8, base64 is: Yf8=",
    }
