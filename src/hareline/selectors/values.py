"""Comparisons and calculations of selectors on the values of a message, as in JMS.           [hot]

Called by the code that ``selectors.compiler`` generates, and by its parser to compute
constants. A value is a text, a boolean, a number (exact: any int but bool; approximate: float),
NULL (None), or of a type that selectors do not know (octets, tables, arrays, decimals): such a
value is not NULL and equals nothing, not even itself.

The rules are those of the JMS specification, sections 3.8.1.1 and 3.8.1.2. Comparisons return True,
False or None, "unknown": None if a side is NULL, False if the sides have different types.
Arithmetic is Java's on long and double, as the specification says ("numeric promotion in Java"):
exact results wrap around at 64 bits, exact division cuts towards zero, approximate division by zero
is infinite or NaN. A calculation that Java refuses (exact division by zero, a text) is NULL.
"""

from __future__ import annotations

import math
from typing import Any, Final

Number = int | float
Verdict = bool | None

_LONG_MIN: Final = -(2**63)
_LONG_MAX: Final = 2**63 - 1


class _NumberTypes(dict[type, bool]):
    """True for types that are numbers; computed once per type, because bool is an int.

    A look-up is quicker than isinstance and ``is not bool`` (benchmarks.micro.bench_selectors).
    """

    def __missing__(self, kind: type) -> bool:
        answer = issubclass(kind, (int, float)) and not issubclass(kind, bool)
        self[kind] = answer
        return answer


IS_NUMBER: Final = _NumberTypes()


# ---------------------------------------------------------------------------------------- logic


def boolean(value: Any) -> Verdict:
    """A value as a condition: unknown if it is not a boolean."""
    return value if value is True or value is False else None


def opposite(verdict: Verdict) -> Verdict:
    return None if verdict is None else not verdict


def all_of(verdicts: tuple[Verdict, ...]) -> Verdict:
    """AND"""
    if False in verdicts:
        return False
    return None if None in verdicts else True


def any_of(verdicts: tuple[Verdict, ...]) -> Verdict:
    """OR"""
    if True in verdicts:
        return True
    return None if None in verdicts else False


# ------------------------------------------------------------------------------------ comparing


def equal(left: Any, right: Any) -> Verdict:
    if left is None or right is None:
        return None
    if IS_NUMBER[left.__class__] and IS_NUMBER[right.__class__]:
        left, right = _promoted(left, right)
        return bool(left == right)
    return _are_alike(left, right) and bool(left == right)


def unequal(left: Any, right: Any) -> Verdict:
    """Not the opposite of ``equal``: values of different types are neither."""
    if left is None or right is None:
        return None
    if IS_NUMBER[left.__class__] and IS_NUMBER[right.__class__]:
        left, right = _promoted(left, right)
        return bool(left != right)
    return _are_alike(left, right) and bool(left != right)


def less(left: Any, right: Any) -> Verdict:
    """Numbers only: texts and booleans have no order (section 3.8.1.1)."""
    if left is None or right is None:
        return None
    if IS_NUMBER[left.__class__] and IS_NUMBER[right.__class__]:
        left, right = _promoted(left, right)
        return bool(left < right)
    return False


def at_most(left: Any, right: Any) -> Verdict:
    if left is None or right is None:
        return None
    if IS_NUMBER[left.__class__] and IS_NUMBER[right.__class__]:
        left, right = _promoted(left, right)
        return bool(left <= right)
    return False


def between(value: Any, low: Any, high: Any) -> Verdict:
    """``value >= low AND value <= high``"""
    lower = at_most(low, value)
    if lower is False:
        return False
    upper = at_most(value, high)
    if upper is False:
        return False
    return None if lower is None or upper is None else True


def not_between(value: Any, low: Any, high: Any) -> Verdict:
    """``value < low OR value > high``"""
    lower = less(value, low)
    if lower is True:
        return True
    upper = less(high, value)
    if upper is True:
        return True
    return None if lower is None or upper is None else False


def _promoted(left: Any, right: Any) -> tuple[Any, Any]:
    """Both numbers as doubles if one is; an exact one loses digits from 2**53 on.

    Python would compare the two exactly.
    """
    if isinstance(left, float) is not isinstance(right, float):
        return float(left), float(right)
    return left, right


def _are_alike(left: Any, right: Any) -> bool:
    kind = left.__class__
    return (kind is str or kind is bool) and kind is right.__class__


# ----------------------------------------------------------------------------------- arithmetic


def add(left: Any, right: Any) -> Number | None:
    if IS_NUMBER[left.__class__] and IS_NUMBER[right.__class__]:
        return _long(left + right)
    return None


def subtract(left: Any, right: Any) -> Number | None:
    if IS_NUMBER[left.__class__] and IS_NUMBER[right.__class__]:
        return _long(left - right)
    return None


def multiply(left: Any, right: Any) -> Number | None:
    if IS_NUMBER[left.__class__] and IS_NUMBER[right.__class__]:
        return _long(left * right)
    return None


def divide(left: Any, right: Any) -> Number | None:
    if not (IS_NUMBER[left.__class__] and IS_NUMBER[right.__class__]):
        return None
    if isinstance(left, float) or isinstance(right, float):
        if right:
            return float(left) / float(right)
        if not left or left != left:  # noqa: PLR0124 -- NaN is what differs from itself
            return math.nan
        return math.copysign(math.inf, left) * math.copysign(1.0, right)
    if not right:
        return None
    quotient = abs(left) // abs(right)
    return _long(quotient if (left < 0) is (right < 0) else -quotient)


def remainder(left: Any, right: Any) -> Number | None:
    """The remainder with the sign of the left side, as in Java and C; Python's has the right's."""
    if not (IS_NUMBER[left.__class__] and IS_NUMBER[right.__class__]):
        return None
    if isinstance(left, float) or isinstance(right, float):
        if not right or math.isinf(left):
            return math.nan
        return math.fmod(left, right)
    if not right:
        return None
    rest: int = abs(left) % abs(right)
    return _long(-rest if left < 0 else rest)


def negate(value: Any) -> Number | None:
    return _long(-value) if IS_NUMBER[value.__class__] else None


def number(value: Any) -> Number | None:
    """Unary plus: a value that is not a number becomes unknown."""
    if IS_NUMBER[value.__class__]:
        result: Number = value
        return result
    return None


def _long(result: Any) -> Number:
    """An exact result wrapped to 64 bits, like Java's long; an approximate one unchanged."""
    if _LONG_MIN <= result <= _LONG_MAX or isinstance(result, float):
        kept: Number = result
        return kept
    return int((result - _LONG_MIN) % 2**64 + _LONG_MIN)
