"""From a header to what is compared: texts of anything, numbers of anything, either way round."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hareline.queues.orders.sort_keys import (
    MISSING,
    Place,
    number_of,
    place_reader,
    text_of,
    utf16_ordered,
)
from hareline.wire.table import Array, Byte, Float, Table, Timestamp
from tests.support.messages import make_message

# What can come from the wire: octets that are no UTF-8 are read as lone low surrogates.
TEXTS = st.text(
    st.characters(exclude_categories=["Cs"])
    | st.characters(min_codepoint=0xDC80, max_codepoint=0xDCFF),
    max_size=4,
)


def reader(*, descending: bool = False, numeric: bool = False) -> Callable[[object], Place]:
    place_of = place_reader("k", descending=descending, numeric=numeric)
    return lambda value: place_of(make_message(headers=Table({"k": value})))


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("text", "text"),
        ("", ""),
        (True, "true"),
        (False, "false"),
        (12, "12"),
        (Byte(-1), "-1"),
        (Timestamp(1_700_000_000), "1700000000"),
        (1.0, "1.0"),
        (0.1, "0.1"),
        (Float(0.10000000149011612), "0.1"),
        (Float(3.4028234663852886e38), "3.4028235e+38"),
        (Float(16777216.0), "16777216.0"),
        (Float("inf"), "inf"),
        (Float("nan"), "nan"),
        (float("-inf"), "-inf"),
        (Decimal("12.50"), "12.50"),
        (Decimal("1E-20"), "0.00000000000000000001"),
        (b"octets", "octets"),
        (b"\xff", "\udcff"),
        (None, None),
        (Array([1]), None),
        (Table({"a": 1}), None),
    ],
)
def test_the_text_of_a_value_is_what_one_would_write(value: object, text: str | None) -> None:
    assert text_of(value) == text


@given(st.floats(width=32, allow_nan=False))
def test_the_text_of_a_small_float_says_which_it_is(value: float) -> None:
    text = text_of(Float(value))
    assert text is not None
    assert make_message(headers=Table({"k": Float(float(text))})).content == (
        make_message(headers=Table({"k": Float(value)})).content
    )


@pytest.mark.parametrize(
    ("value", "number"),
    [
        (12, 12),
        (-0.5, -0.5),
        (Decimal("12.50"), Decimal("12.5")),
        (Timestamp(5), 5),
        (float("inf"), float("inf")),
        ("12", 12),
        (" -12.50 ", Decimal("-12.5")),
        ("+.5", 0.5),
        ("5.", 5),
        ("1e3", 1000),
        ("1E-2", Decimal("0.01")),
        ("9" * 100, 10**100 - 1),
    ],
)
def test_a_number_is_one_whatever_its_type(value: object, number: object) -> None:
    assert number_of(value) == number


@pytest.mark.parametrize(
    "value",
    [
        None,
        True,
        float("nan"),
        "",
        "twelve",
        "12 apples",
        "0x10",
        "1_000",
        "1e99999",
        "inf",
        "nan",
        "\u0661",
        "9" * 101,
        b"12",
        Array([1]),
        Table(),
    ],
)
def test_what_is_no_number_counts_as_missing(value: object) -> None:
    assert number_of(value) is None
    assert reader(numeric=True)(value) == MISSING
    assert reader(numeric=True, descending=True)(value) == MISSING


def test_a_message_without_the_header_has_no_key() -> None:
    for numeric in (False, True):
        place_of = place_reader("k", descending=False, numeric=numeric)
        assert place_of(make_message()) == MISSING
        assert place_of(make_message(headers=Table({"other": 1}))) == MISSING


@given(TEXTS, TEXTS)
def test_texts_are_compared_by_utf_16_code_units(one: str, other: str) -> None:
    expected = one.encode("utf-16-be", "surrogatepass") < other.encode("utf-16-be", "surrogatepass")
    assert (utf16_ordered(one) < utf16_ordered(other)) is expected


def test_code_points_above_the_basic_plane_come_before_the_end_of_it() -> None:
    assert sorted(["\uffee", "\U0001f407", "z"], key=utf16_ordered) == ["z", "\U0001f407", "\uffee"]


NUMBERS: Any = (
    st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False)
    | st.integers(-(2**31), 2**31 - 1).map(lambda number: Decimal(number).scaleb(-3))
)


@given(NUMBERS, NUMBERS)
def test_numbers_of_all_types_are_compared_exactly(one: Any, other: Any) -> None:
    place = reader(numeric=True)
    assert (place(one) < place(other)) is (one < other)
    assert (place(one) == place(other)) is (one == other)


@given(st.none() | TEXTS, st.none() | TEXTS)
def test_descending_turns_texts_around_and_leaves_the_missing_first(
    one: str | None, other: str | None
) -> None:
    up, down = reader(), reader(descending=True)
    if one is None or other is None:
        assert (down(one) < down(other)) is (up(one) < up(other))
    else:
        assert (down(one) < down(other)) is (up(one) > up(other))
        assert (down(one) == down(other)) is (up(one) == up(other))


@given(st.none() | NUMBERS, st.none() | NUMBERS)
def test_descending_turns_numbers_around_and_leaves_the_missing_first(one: Any, other: Any) -> None:
    up, down = reader(numeric=True), reader(numeric=True, descending=True)
    if one is None or other is None:
        assert (down(one) < down(other)) is (up(one) < up(other))
    else:
        assert (down(one) < down(other)) is (up(one) > up(other))


def test_descending_keeps_all_digits_of_a_decimal() -> None:
    down = reader(numeric=True, descending=True)
    one, other = "0." + "1" * 40, "0." + "1" * 39 + "2"
    assert down(other) < down(one)
