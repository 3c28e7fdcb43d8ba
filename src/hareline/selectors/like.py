"""Patterns of LIKE: ``_`` is any one character, ``%`` any text, also an empty one.

Called by ``selectors.parser`` to check a pattern and by ``selectors.compiler`` to
compile it. The part between two ``%`` is a *segment*. The leftmost place of a segment leaves most
room for the others, so a match reads the text once and never goes back. Usual patterns
(a beginning, an end, something in between) become a method of str.

Beginning and end cost time by the pattern's length. Only a segment between two ``%`` needs a
search, in time that grows with the text: with its length for a segment of plain
characters (``re`` finds those without going back, which ``str.find`` does not promise), and with
that times the segment's length if it has a ``_``. ``longest_text`` bounds the time for a whole
selector.
"""

from __future__ import annotations

import re
from enum import Enum
from typing import Final, NamedTuple

# Limits of the searches of one LIKE in one text and of all LIKEs of a selector, in steps of 2 ns.
TEXT_MAX: Final = 8_192
STEPS_MAX: Final = 1_048_576

# str searches plain segments up to this length: it may compare a text this many times.
SHORT_SEGMENT: Final = 16


class PatternProblem(ValueError):
    """An escape character before a character that needs none (SQL-92 section 8.5)."""


class _Wildcard(Enum):
    ANY_CHARACTER = "_"
    ANY_TEXT = "%"


_Segment = list[str | _Wildcard]


class PatternTest(NamedTuple):
    """``code``: a Python expression over the text ``v`` and the constant ``{c}``.

    ``steps``: the most that it costs for each character of the text; 0: it does not search.
    """

    code: str
    constant: object
    steps: int = 0


def check_pattern(pattern: str, escape: str | None) -> None:
    """Raises PatternProblem."""
    _items_of(pattern, escape)


def longest_text(steps: int) -> int:
    """The longest text that a selector may search if its LIKEs take ``steps`` together."""
    return min(TEXT_MAX, STEPS_MAX // max(1, steps))


def search_steps(pattern: str, escape: str | None) -> int:
    """``PatternTest.steps`` of this pattern."""
    return _steps(_segments(pattern, escape)[1:-1])


def pattern_test(pattern: str, escape: str | None) -> PatternTest:
    """Test of a text for the pattern."""
    segments = _segments(pattern, escape)
    first, last = segments[0], segments[-1]
    middle = [segment for segment in segments[1:-1] if segment]
    steps = _steps(middle)
    match len(segments), first, middle, last:
        case 1, _, _, _ if _is_plain(first):
            return PatternTest("v == {c}", _text(first))
        case 1, _, _, _:
            return PatternTest("{c}(v) is not None", _compiled(_expression(first)).fullmatch)
        case _, _, [], [] if _is_plain(first):
            return PatternTest("v.startswith({c})", _text(first))
        case _, [], [], _ if _is_plain(last):
            return PatternTest("v.endswith({c})", _text(last))
        case _, [], [only], [] if _is_plain(only) and len(only) <= SHORT_SEGMENT:
            return PatternTest("{c} in v", _text(only), steps)
        case _, [], [only], []:
            return PatternTest("{c}(v) is not None", _compiled(_expression(only)).search, steps)
        case _, _, [], _:
            return PatternTest("{c}(v) is not None", _both_ends(first, last).match)
    return PatternTest("{c}(v)", _Segments(first, middle, last).matches, steps)


class _Segments:
    """A pattern of three or more segments, of which the first and the last are anchored."""

    __slots__ = ("_first", "_last", "_last_size", "_searches")

    def __init__(self, first: _Segment, middle: list[_Segment], last: _Segment) -> None:
        self._first = _compiled(_expression(first)).match
        self._searches = [_compiled(_expression(segment)).search for segment in middle]
        self._last = _compiled(_expression(last)).match
        self._last_size = len(last)

    def matches(self, text: str) -> bool:
        found = self._first(text)
        if found is None:
            return False
        position = found.end()
        end = len(text) - self._last_size
        for search in self._searches:
            found = search(text, position, end)
            if found is None:
                return False
            position = found.end()
        return position <= end and self._last(text, end) is not None


def _segments(pattern: str, escape: str | None) -> list[_Segment]:
    """The parts before, between and after the ``%`` of a pattern."""
    segments: list[_Segment] = [[]]
    for item in _items_of(pattern, escape):
        if item is _Wildcard.ANY_TEXT:
            segments.append([])
        else:
            segments[-1].append(item)
    return segments


def _steps(middle: list[_Segment]) -> int:
    """The steps of a search for segments: each character is compared with one at a time."""
    steps = [1 if _is_plain(segment) else len(segment) for segment in middle if segment]
    return max(steps, default=0)


def _is_plain(segment: _Segment) -> bool:
    return _Wildcard.ANY_CHARACTER not in segment


def _items_of(pattern: str, escape: str | None) -> list[str | _Wildcard]:
    """The pattern's characters, with ``_`` and ``%`` as wildcards unless escaped."""
    items: list[str | _Wildcard] = []
    is_escaped = False
    for character in pattern:
        if is_escaped:
            if character not in ("_", "%", escape):
                raise PatternProblem("the escape character may precede only _, % or itself")
            items.append(character)
            is_escaped = False
        elif character == escape:
            is_escaped = True
        elif character in ("_", "%"):
            items.append(_Wildcard(character))
        else:
            items.append(character)
    if is_escaped:
        raise PatternProblem("the escape character may precede only _, % or itself")
    return items


def _text(segment: _Segment) -> str:
    return "".join([item for item in segment if isinstance(item, str)])


def _both_ends(first: _Segment, last: _Segment) -> re.Pattern[str]:
    """Matches a text with this beginning and end, which do not overlap; the rest is ignored."""
    ending = f"(?<={_expression(last)})" if last else ""
    return _compiled(f"(?=.{{{len(first) + len(last)}}}){_expression(first)}.*+{ending}")


def _expression(segment: _Segment) -> str:
    return "".join(
        ["." if item is _Wildcard.ANY_CHARACTER else re.escape(str(item)) for item in segment]
    )


def _compiled(expression: str) -> re.Pattern[str]:
    return re.compile(expression, re.DOTALL)
