from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Decimal
from itertools import product
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hareline.selectors import values
from hareline.wire.table import Array, Byte, Float, SignedInt, Table, Timestamp

from . import naive

MOST, LEAST = 2**63 - 1, -(2**63)


@pytest.mark.parametrize("kind", [int, float, Byte, SignedInt, Timestamp, Float])
def test_these_types_are_numbers(kind: type) -> None:
    assert values.IS_NUMBER[kind] is True


@pytest.mark.parametrize("kind", [bool, str, bytes, type(None), Decimal, Table, Array])
def test_these_types_are_not(kind: type) -> None:
    assert values.IS_NUMBER[kind] is False


SAMPLES: list[Any] = [
    *[None, True, False, "", "a", "b", 0, 1, -1, 2**53, 2**53 + 1, MOST, LEAST],
    *[0.0, -0.0, 1.0, 1.5, 2.0**53, math.inf, math.nan],
    *[SignedInt(1), Timestamp(2**64 - 1), Float(1.5), b"a", Table(), Array(), Decimal(1)],
]


@pytest.mark.parametrize(
    ("function", "sign"),
    [
        (values.equal, "="),
        (values.unequal, "<>"),
        (values.less, "<"),
        (values.at_most, "<="),
    ],
)
def test_every_two_values_compare_as_the_naive_interpreter_says(
    function: Callable[[Any, Any], bool | None], sign: str
) -> None:
    for left, right in product(SAMPLES, repeat=2):
        assert function(left, right) is naive.compare(sign, left, right), (left, sign, right)


def test_every_three_values_are_between_as_the_naive_interpreter_says() -> None:
    for value, low, high in product(SAMPLES, repeat=3):
        tree = [("literal", each) for each in (value, low, high)]
        inside = naive.verdict(("between", *tree, False), {})
        outside = naive.verdict(("between", *tree, True), {})
        assert values.between(value, low, high) is inside, (value, low, high)
        assert values.not_between(value, low, high) is outside, (value, low, high)


COMPUTE: dict[str, Callable[[Any, Any], Any]] = {
    "+": values.add,
    "-": values.subtract,
    "*": values.multiply,
    "/": values.divide,
    "%": values.remainder,
}


@pytest.mark.parametrize("sign", COMPUTE)
def test_every_two_values_compute_as_the_naive_interpreter_says(sign: str) -> None:
    for left, right in product(SAMPLES, repeat=2):
        result = COMPUTE[sign](left, right)
        expected = naive.calculate(sign, left, right)
        assert repr(result) == repr(expected), (left, sign, right)  # tells -0.0 and NaN


@pytest.mark.parametrize(
    ("left", "sign", "right", "result"),
    [
        (7, "/", 2, 3),
        (-7, "/", 2, -3),
        (7, "/", -2, -3),
        (-7, "/", -2, 3),
        (7, "%", 3, 1),
        (-7, "%", 3, -1),
        (7, "%", -3, 1),
        (-7, "%", -3, -1),
        (7, "/", 2.0, 3.5),
        (5.5, "%", 2, 1.5),
        (-5.5, "%", 2, -1.5),
        (MOST, "+", 1, LEAST),
        (LEAST, "-", 1, MOST),
        (MOST, "*", MOST, 1),
        (LEAST, "/", -1, LEAST),
        (LEAST, "%", -1, 0),
        (MOST, "+", 1.0, 2.0**63),
        (1, "/", 0, None),
        (1, "%", 0, None),
        (1, "/", 0.0, math.inf),
        (-1, "/", 0.0, -math.inf),
        (1, "/", -0.0, -math.inf),
        (1.0, "/", 0, math.inf),
        (True, "+", 1, None),
        ("a", "+", "b", None),
        (None, "*", 0, None),
        (Decimal(1), "+", 1, None),
    ],
)
def test_arithmetic_is_javas(left: Any, sign: str, right: Any, result: Any) -> None:
    computed = COMPUTE[sign](left, right)
    assert computed == result
    assert type(computed) is type(result)


@pytest.mark.parametrize(
    ("left", "sign"), [(0.0, "/"), (math.nan, "/"), (1.0, "%"), (math.inf, "%")]
)
def test_what_java_calls_not_a_number(left: float, sign: str) -> None:
    assert math.isnan(COMPUTE[sign](left, 0.0))


@pytest.mark.parametrize("value", SAMPLES)
def test_signs_are_for_numbers(value: Any) -> None:
    if naive.is_number(value):
        assert repr(values.number(value)) == repr(value)
        assert repr(values.negate(value)) == repr(naive.wrapped(-value))
    else:
        assert values.number(value) is None
        assert values.negate(value) is None


@given(st.integers(LEAST, MOST), st.integers(LEAST, MOST), st.sampled_from(list(COMPUTE)))
def test_exact_results_stay_within_64_bits(left: int, right: int, sign: str) -> None:
    result = COMPUTE[sign](left, right)
    assert result == naive.calculate(sign, left, right)
    assert result is None or LEAST <= result <= MOST


@given(st.integers(LEAST, MOST), st.integers(LEAST, MOST))
def test_quotient_and_remainder_fit_together(left: int, right: int) -> None:
    if right == 0:
        assert values.divide(left, right) is None
        return
    quotient, rest = values.divide(left, right), values.remainder(left, right)
    assert quotient is not None
    assert rest is not None
    assert values.add(values.multiply(quotient, right), rest) == left
    assert abs(rest) < abs(right)
