"""Comparisons and calculations of ``x-jms-topic`` conditions, as in RabbitMQ.                 [hot]

Called by the code that ``selectors.compiler`` generates under the rules for Erlang terms,
and by ``erlang_condition`` to compute constants. It has the same functions as ``values``, which
follows JMS. A value is a number, a boolean, a text, or unknown
(None): ``IS_SCALAR`` tells which values of a header are one of the first three, as RabbitMQ's
``sjx_evaluator`` reads headers; all others are unknown.

Comparisons are Erlang's: values of different types are unequal, any number comes before any boolean
and that before any text; texts are compared octet by octet, whole and broken numbers exactly. Whole
numbers grow without bounds, here up to ``MAGNITUDE_MAX``; division makes a broken number of any
two. A calculation that Erlang refuses, or answers with an atom (a division by zero), is unknown.
"""

from __future__ import annotations

import sys
from typing import Any, Final

from hareline.selectors.values import IS_NUMBER

Number = int | float
Verdict = bool | None

MAGNITUDE_MAX: Final = int(sys.float_info.max)  # so that any number can become a float

_TIMESTAMP_KIND: Final = "T"


class _ScalarTypes(dict[type, bool]):
    """True for types that conditions know. RabbitMQ leaves out timestamps."""

    def __missing__(self, kind: type) -> bool:
        is_timestamp = getattr(kind, "kind", None) == _TIMESTAMP_KIND
        answer = issubclass(kind, (int, float, str)) and not is_timestamp
        self[kind] = answer
        return answer


class _Ranks(dict[type, int]):
    """The place of a type in Erlang's order of terms, of which three are used here."""

    def __missing__(self, kind: type) -> int:
        rank = 2 if issubclass(kind, str) else 0 if IS_NUMBER[kind] else 1
        self[kind] = rank
        return rank


IS_SCALAR: Final = _ScalarTypes()
_RANK: Final = _Ranks()


# ------------------------------------------------------------------------------------ comparing


def equal(left: Any, right: Any) -> Verdict:
    if left is None or right is None:
        return None
    return _RANK[left.__class__] == _RANK[right.__class__] and bool(left == right)


def unequal(left: Any, right: Any) -> Verdict:
    if left is None or right is None:
        return None
    return _RANK[left.__class__] != _RANK[right.__class__] or bool(left != right)


def less(left: Any, right: Any) -> Verdict:
    if left is None or right is None:
        return None
    before, behind = _RANK[left.__class__], _RANK[right.__class__]
    return bool(left < right) if before == behind else before < behind


def at_most(left: Any, right: Any) -> Verdict:
    if left is None or right is None:
        return None
    before, behind = _RANK[left.__class__], _RANK[right.__class__]
    return bool(left <= right) if before == behind else before < behind


def between(value: Any, low: Any, high: Any) -> Verdict:
    if value is None or low is None or high is None:
        return None
    return at_most(low, value) is True and at_most(value, high) is True


def not_between(value: Any, low: Any, high: Any) -> Verdict:
    if value is None or low is None or high is None:
        return None
    return not (at_most(low, value) and at_most(value, high))


# ----------------------------------------------------------------------------------- arithmetic


def add(left: Any, right: Any) -> Number | None:
    if IS_NUMBER[left.__class__] and IS_NUMBER[right.__class__]:
        return _bounded(left + right)
    return None


def subtract(left: Any, right: Any) -> Number | None:
    if IS_NUMBER[left.__class__] and IS_NUMBER[right.__class__]:
        return _bounded(left - right)
    return None


def multiply(left: Any, right: Any) -> Number | None:
    if IS_NUMBER[left.__class__] and IS_NUMBER[right.__class__]:
        return _bounded(left * right)
    return None


def divide(left: Any, right: Any) -> Number | None:
    if IS_NUMBER[left.__class__] and IS_NUMBER[right.__class__] and right:
        return _bounded(left / right)
    return None


def negate(value: Any) -> Number | None:
    return -value if IS_NUMBER[value.__class__] else None


def number(value: Any) -> Number | None:
    if IS_NUMBER[value.__class__]:
        result: Number = value
        return result
    return None


def _bounded(result: Any) -> Number | None:
    """The number if the next operation can use it, else None: too large, NaN or infinite."""
    if -MAGNITUDE_MAX <= result <= MAGNITUDE_MAX:
        kept: Number = result
        return kept
    return None
