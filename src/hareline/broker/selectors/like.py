"""Patterns of LIKE: ``_`` is any one character, ``%`` any text, also none.

Called by ``broker.selectors.parser`` to check a pattern and by ``broker.selectors.compiler`` to
compile it. What is usual (a beginning, an end, something in between) becomes a method of str, the
rest a regular expression that never goes back over what it has found: time grows with the length of
the text times that of the pattern, whatever the two contain.
"""

from __future__ import annotations

import re
from enum import Enum
from typing import NamedTuple


class PatternProblem(ValueError):
    """An escape character in front of something that needs none (SQL-92 section 8.5)."""


class _Wildcard(Enum):
    ANY_CHARACTER = "_"
    ANY_TEXT = "%"


class PatternTest(NamedTuple):
    """``code``: a Python expression over the text ``v`` and the constant ``{c}``."""

    code: str
    constant: object


def check_pattern(pattern: str, escape: str | None) -> None:
    """Raises PatternProblem."""
    _items_of(pattern, escape)


def pattern_test(pattern: str, escape: str | None) -> PatternTest:
    """How to test a text for the pattern."""
    segments: list[list[str | _Wildcard]] = [[]]
    for item in _items_of(pattern, escape):
        if item is _Wildcard.ANY_TEXT:
            segments.append([])
        else:
            segments[-1].append(item)
    first, last = segments[0], segments[-1]
    middle = [segment for segment in segments[1:-1] if segment]
    if any(_Wildcard.ANY_CHARACTER in segment for segment in segments):
        return _by_expression(segments)
    match len(segments), first, middle, last:
        case 1, _, _, _:
            return PatternTest("v == {c}", _text(first))
        case _, _, [], []:
            return PatternTest("v.startswith({c})", _text(first))
        case _, [], [], _:
            return PatternTest("v.endswith({c})", _text(last))
        case _, [], [only], []:
            return PatternTest("{c} in v", _text(only))
    return _by_expression(segments)


def _by_expression(segments: list[list[str | _Wildcard]]) -> PatternTest:
    """A regular expression. The leftmost place of a segment leaves most room for the others, so
    none of these choices is ever taken back: that is what ``(?>`` says."""
    parts = [_expression(segments[0])]
    if len(segments) > 1:
        parts.extend(f"(?>.*?{_expression(segment)})" for segment in segments[1:-1] if segment)
        parts.append(f".*{_expression(segments[-1])}")
    return PatternTest("{c}(v) is not None", re.compile("".join(parts), re.DOTALL).fullmatch)


def _items_of(pattern: str, escape: str | None) -> list[str | _Wildcard]:
    """The pattern's characters, those that stand for others as wildcards."""
    items: list[str | _Wildcard] = []
    is_escaped = False
    for character in pattern:
        if is_escaped:
            if character not in ("_", "%", escape):
                raise PatternProblem("the escape character stands before _, % or itself")
            items.append(character)
            is_escaped = False
        elif character == escape:
            is_escaped = True
        elif character in ("_", "%"):
            items.append(_Wildcard(character))
        else:
            items.append(character)
    if is_escaped:
        raise PatternProblem("the escape character stands before _, % or itself")
    return items


def _text(segment: list[str | _Wildcard]) -> str:
    return "".join([item for item in segment if isinstance(item, str)])


def _expression(segment: list[str | _Wildcard]) -> str:
    return "".join(
        ["." if item is _Wildcard.ANY_CHARACTER else re.escape(str(item)) for item in segment]
    )
