"""The meaning that RabbitMQ gives to what conditions compare and compute."""

from __future__ import annotations

import math
import sys
from decimal import Decimal
from itertools import pairwise
from typing import Any

import pytest

from hareline.selectors import erlang_values
from hareline.selectors.erlang_values import (
    IS_SCALAR,
    MAGNITUDE_MAX,
    add,
    at_most,
    between,
    divide,
    equal,
    less,
    multiply,
    negate,
    not_between,
    number,
    subtract,
    unequal,
)
from hareline.wire.table import (
    Array,
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

# Each comes before the next: numbers, booleans, texts.
IN_ORDER: list[Any] = [-(2**63), -1.5, SignedInt(0), 0.5, 2**53, 2**53 + 1, False, True]
IN_ORDER += ["", "A", "a", "aa", "é", "😀"]


def test_values_of_all_types_have_one_order() -> None:
    for before, behind in pairwise(IN_ORDER):
        assert less(before, behind) is True
        assert less(behind, before) is False
        assert at_most(before, behind) is True
        assert at_most(behind, before) is False
        assert equal(before, behind) is False
        assert unequal(before, behind) is True


@pytest.mark.parametrize("value", [*IN_ORDER, Byte(1)])
def test_a_value_is_itself(value: Any) -> None:
    assert equal(value, value) is True
    assert unequal(value, value) is False
    assert less(value, value) is False
    assert at_most(value, value) is True
    assert between(value, value, value) is True
    assert not_between(value, value, value) is False


def test_whole_and_broken_numbers_are_compared_exactly() -> None:
    assert equal(1, 1.0) is True
    assert equal(2**53 + 1, float(2**53)) is False
    assert less(float(2**53), 2**53 + 1) is True


def test_a_boolean_is_no_number() -> None:
    assert equal(True, 1) is False
    assert unequal(False, 0) is True
    assert add(True, 1) is None
    assert negate(True) is None


@pytest.mark.parametrize("compare", [equal, unequal, less, at_most])
def test_with_something_unknown_a_comparison_is_unknown(compare: Any) -> None:
    for value in (None, 1, True, "a"):
        assert compare(None, value) is None
        assert compare(value, None) is None


@pytest.mark.parametrize("test", [between, not_between])
def test_between_is_unknown_as_soon_as_one_part_is(test: Any) -> None:
    # in JMS's language 5 BETWEEN 6 AND NULL is false
    assert test(5, 6, None) is None
    assert test(5, None, 4) is None
    assert test(None, 1, 2) is None


def test_not_between_is_the_opposite_for_values_of_any_type() -> None:
    assert between("a", 1, "b") is True
    assert between("a", 1, 2) is False
    assert not_between("a", 1, 2) is True
    assert not_between(math.nan, 1, 2) is True


def test_whole_numbers_grow_and_division_breaks_them() -> None:
    assert add(2**63 - 1, 1) == 2**63
    assert multiply(-(2**63), 2**63) == -(2**126)
    assert subtract(1, 2.5) == -1.5
    assert divide(7, 2) == 3.5
    assert divide(-7, 2) == -3.5
    assert isinstance(divide(4, 2), float)
    assert negate(-(2**63)) == 2**63
    assert number(Byte(3)) == 3


@pytest.mark.parametrize(("left", "right"), [(1, 0), (-1, 0), (0, 0), (1.5, 0.0), (1, -0.0)])
def test_a_division_by_zero_is_unknown(left: Any, right: Any) -> None:
    # differs: jms-division
    assert divide(left, right) is None


def test_what_is_no_finite_number_any_more_is_unknown() -> None:
    largest = MAGNITUDE_MAX
    assert add(largest, 0) == largest
    assert add(largest, 1) is None
    assert multiply(largest, largest) is None
    assert subtract(-largest, 1) is None
    assert multiply(sys.float_info.max, 2) is None
    assert add(math.inf, 1) is None
    assert subtract(math.nan, 1) is None
    # and so no result is one that the next operation fails on
    assert add(largest, 1.5) == multiply(largest, 1.0) == sys.float_info.max
    assert divide(largest, 5e-324) is None
    assert divide(largest, largest) == 1.0


@pytest.mark.parametrize("compute", [add, subtract, multiply, divide])
def test_texts_booleans_and_unknowns_are_not_computed_with(compute: Any) -> None:
    for other in ("1", True, None):
        assert compute(other, 1) is None
        assert compute(1, other) is None
    # differs: jms-evaluation
    assert number("1") is None
    assert negate(None) is None


@pytest.mark.parametrize(
    "value",
    [
        *(Byte(1), UnsignedByte(1), Short(1), UnsignedShort(1), SignedInt(1), UnsignedInt(1)),
        *(1, LongLong(1), Float(1.0), 1.0, True, "text"),
    ],
)
def test_these_headers_have_a_value(value: object) -> None:
    assert IS_SCALAR[value.__class__]


@pytest.mark.parametrize(
    "value", [None, b"octets", Array([1]), Table(a=1), Decimal(1), Timestamp(1)]
)
def test_headers_of_other_types_have_none(value: object) -> None:
    assert not IS_SCALAR[value.__class__]


def test_there_is_no_remainder() -> None:
    assert not hasattr(erlang_values, "remainder")
