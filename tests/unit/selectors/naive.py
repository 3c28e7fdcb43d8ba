"""A second opinion on selectors, for the property tests: slow, obvious, and not made of theirs.

A tree is nested tuples. ``verdict`` interprets one by the letter of the JMS specification;
``Printer`` writes it as a selector with as few brackets as the table of precedences allows, or with
more, and with keywords, blanks and comments as they come. The strategies generate trees that the
compiler must accept.

====================================  =================================================
("literal", value)                    ("name", name)
("sign", "-", value)                  ("arithmetic", "+", left, right)
("compare", "<", left, right)         ("between", value, low, high, is_negated)
("in", value, texts, is_negated)      ("like", value, pattern, escape, is_negated)
("null", value, is_negated)           ("not", part)
("and", left, right)                  ("or", left, right)
====================================  =================================================
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping
from decimal import Decimal
from itertools import pairwise
from random import Random
from typing import Any

from hypothesis import strategies as st

from hareline.wire.table import Array, Byte, Float, SignedInt, Table, Timestamp

Tree = tuple[Any, ...]

COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq,
    "<>": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


# --------------------------------------------------------------------------------- interpreting


def verdict(tree: Tree, values: Mapping[str, object]) -> bool | None:
    """What the condition is of a message with these values: True, False or None for unknown."""
    match tree:
        case ("literal" | "name", _):
            value = evaluate(tree, values)
            return value if isinstance(value, bool) else None
        case "not", part:
            return _not(verdict(part, values))
        case "and", left, right:
            return _and(verdict(left, values), verdict(right, values))
        case "or", left, right:
            return _not(_and(_not(verdict(left, values)), _not(verdict(right, values))))
        case "null", value, is_negated:
            return (evaluate(value, values) is None) is not is_negated
        case "compare", sign, left, right:
            return compare(sign, evaluate(left, values), evaluate(right, values))
        case "between", value, low, high, False:
            return verdict(
                ("and", ("compare", ">=", value, low), ("compare", "<=", value, high)), values
            )
        case "between", value, low, high, True:
            return verdict(
                ("or", ("compare", "<", value, low), ("compare", ">", value, high)), values
            )
        case "in", value, texts, False:
            found: Tree = ("literal", False)
            for text in texts:
                found = ("or", found, ("compare", "=", value, ("literal", text)))
            return verdict(found, values)
        case "in", value, texts, True:
            return _not(verdict(("in", value, texts, False), values))
        case "like", value, pattern, escape, is_negated:
            text = evaluate(value, values)
            if text is None:
                return None
            return isinstance(text, str) and like(text, pattern, escape) is not is_negated
    raise AssertionError(tree)


def evaluate(tree: Tree, values: Mapping[str, object]) -> Any:
    """The value of a part; None is NULL. A condition is the value that it comes to."""
    match tree:
        case "literal", value:
            return value
        case "name", name:
            return values.get(name)
        case "sign", "+", part:
            value = evaluate(part, values)
            return value if is_number(value) else None
        case "sign", "-", part:
            value = evaluate(part, values)
            return wrapped(-value) if is_number(value) else None
        case "arithmetic", sign, left, right:
            return calculate(sign, evaluate(left, values), evaluate(right, values))
    return verdict(tree, values)


def compare(sign: str, left: Any, right: Any) -> bool | None:
    if left is None or right is None:
        return None
    if is_number(left) and is_number(right):
        if isinstance(left, float) or isinstance(right, float):
            left, right = float(left), float(right)
        return COMPARE[sign](left, right)
    if sign in ("=", "<>"):
        for kind in (str, bool):
            if isinstance(left, kind) and isinstance(right, kind):
                return COMPARE[sign](left, right)
    return False


def calculate(sign: str, left: Any, right: Any) -> Any:
    """Java's arithmetic on long and double; None where it has no result or there is no number."""
    if not (is_number(left) and is_number(right)):
        return None
    is_approximate = isinstance(left, float) or isinstance(right, float)
    if is_approximate:
        left, right = float(left), float(right)
    match sign:
        case "+":
            return wrapped(left + right)
        case "-":
            return wrapped(left - right)
        case "*":
            return wrapped(left * right)
        case "/" if is_approximate and right == 0:
            if left == 0 or math.isnan(left):
                return math.nan
            return math.inf if (left > 0) is (math.copysign(1, right) > 0) else -math.inf
        case "/" if is_approximate:
            return left / right
        case "%" if is_approximate:
            try:
                return math.fmod(left, right)
            except ValueError:
                return math.nan
    if right == 0:
        return None
    quotient = abs(left) // abs(right)
    if (left < 0) != (right < 0):
        quotient = -quotient
    return wrapped(quotient if sign == "/" else left - quotient * right)


def wrapped(number: Any) -> Any:
    """An exact number as the 64 bits of Java's long hold it."""
    if isinstance(number, float):
        return number
    return int.from_bytes((number % 2**64).to_bytes(8, "big"), "big", signed=True)


def like(text: str, pattern: str, escape: str | None) -> bool:
    if not pattern:
        return not text
    first, rest = pattern[0], pattern[1:]
    if first == escape:
        return text[:1] == rest[0] and like(text[1:], rest[1:], escape)
    if first == "%":
        return any(like(text[start:], rest, escape) for start in range(len(text) + 1))
    return bool(text) and first in ("_", text[0]) and like(text[1:], rest, escape)


def is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def has_impossible_constant(tree: Tree) -> bool:
    """Some part computes from constants what is no finite number; the compiler refuses that."""
    if tree[0] in ("sign", "arithmetic") and not names(tree):
        value = evaluate(tree, {})
        if value is None or not math.isfinite(value):
            return True
    return any(has_impossible_constant(part) for part in tree if isinstance(part, tuple) and part)


def names(tree: Tree) -> set[str]:
    if tree[0] == "name":
        return {tree[1]}
    found: set[str] = set()
    for part in tree:
        if isinstance(part, tuple) and part:
            found |= names(part)
    return found


def _not(value: bool | None) -> bool | None:
    return None if value is None else not value


def _and(left: bool | None, right: bool | None) -> bool | None:
    if left is False or right is False:
        return False
    return None if left is None or right is None else True


# ------------------------------------------------------------------------------------- printing

OR, AND, NOT, TEST, SUM, PRODUCT, SIGN, BARE = range(8)
LEVELS = {"+": SUM, "-": SUM, "*": PRODUCT, "/": PRODUCT, "%": PRODUCT}
BLANKS = (" ", " ", " ", "  ", "\t", "\n", "\r\n", "\f", "/* so */", " -- until here\n", "/***/ ")


class Printer:
    """``random`` decides what may be written in several ways."""

    def __init__(self, random: Random) -> None:
        self.random = random

    def text(self, tree: Tree) -> str:
        pieces = self.pieces(tree, OR)
        text = pieces[0]
        for before, piece in pairwise(pieces):
            text += self.between(before, piece) + piece
        return text

    def between(self, before: str, piece: str) -> str:
        """A blank, and always one where two tokens would become another."""
        if self.random.random() < 0.7:
            return self.random.choice(BLANKS)
        are_words = is_word(before[-1]) and is_word(piece[0])
        is_comment = before == piece == "-" or (before == "/" and piece == "*")
        return " " if are_words or is_comment else ""

    def pieces(self, tree: Tree, level: int) -> list[str]:
        """The tokens, in brackets where the tree binds less tightly than its place asks for."""
        pieces, own_level = self.bare(tree)
        if own_level < level or self.random.random() < 0.1:
            return ["(", *pieces, ")"]
        return pieces

    def bare(self, tree: Tree) -> tuple[list[str], int]:
        match tree:
            case "literal", value:
                return self.literal(value)
            case "name", name:
                is_plain = name.isascii() and name.isidentifier() and name.upper() != "AND"
                if is_plain and self.random.random() < 0.8:
                    return [name], BARE
                return ['"' + name.replace('"', '""') + '"'], BARE
            case "sign", sign, part:
                return [sign, *self.pieces(part, SIGN)], SIGN
            case "arithmetic", sign, left, right:
                level = LEVELS[sign]
                return [*self.pieces(left, level), sign, *self.pieces(right, level + 1)], level
            case "compare", sign, left, right:
                return [*self.pieces(left, SUM), sign, *self.pieces(right, SUM)], TEST
            case "between", value, low, high, is_negated:
                ends = [*self.pieces(low, SUM), *self.words("AND"), *self.pieces(high, SUM)]
                return [*self.tested(value, is_negated, "BETWEEN"), *ends], TEST
            case "in", value, texts, is_negated:
                listed = [piece for text in texts for piece in (",", quoted(text))][1:]
                return [*self.tested(value, is_negated, "IN"), "(", *listed, ")"], TEST
            case "like", value, pattern, escape, is_negated:
                ending = [] if escape is None else [*self.words("ESCAPE"), quoted(escape)]
                return [*self.tested(value, is_negated, "LIKE"), quoted(pattern), *ending], TEST
            case "null", value, is_negated:
                words = self.words("IS NOT NULL" if is_negated else "IS NULL")
                return [*self.pieces(value, SUM), *words], TEST
            case "not", part:
                return [*self.words("NOT"), *self.pieces(part, NOT)], NOT
            case "and", left, right:
                return [*self.pieces(left, AND), *self.words("AND"), *self.pieces(right, AND)], AND
            case "or", left, right:
                return [*self.pieces(left, OR), *self.words("OR"), *self.pieces(right, OR)], OR
        raise AssertionError(tree)

    def tested(self, value: Tree, is_negated: bool, word: str) -> list[str]:
        return [*self.pieces(value, SUM), *self.words(f"NOT {word}" if is_negated else word)]

    def words(self, words: str) -> list[str]:
        """Keywords with capitals and small letters as they come."""
        return [self.random.choice((word, word.lower(), word.title())) for word in words.split()]

    def literal(self, value: object) -> tuple[list[str], int]:
        if isinstance(value, bool):
            return self.words("TRUE" if value else "FALSE"), BARE
        if isinstance(value, str):
            return [quoted(value)], BARE
        if isinstance(value, int):
            digits = self.random.choice((str, hex, "0{:o}".format))(abs(value))
            digits += self.random.choice(("", "L", "l"))
        else:
            assert isinstance(value, float)
            digits = repr(abs(value)) + self.random.choice(("", "D", "d"))
        is_negative = str(value).startswith("-")
        return (["-", digits], SIGN) if is_negative else ([digits], BARE)


def is_word(character: str) -> bool:
    return character.isalnum() or character in "_$.'\""


def quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


# ----------------------------------------------------------------------------------- strategies

# Few values, and those near each other, so that equality and limits are met often.
TEXTS = st.sampled_from(["", "a", "b", "ab", "a%", "a_b", "A", "it's", "1", "TRUE", "\n", "é😀"])
WHOLE = [0, 1, 2, 3, -1, -7, 255, 2**53, 2**53 + 1, 2**63 - 1, -(2**63)]
BROKEN = [0.0, -0.0, 1.0, 1.5, 2.0, -2.5, 1e300, 5e-324, 2.0**53, 2.0**63]
NUMBERS = st.sampled_from([*WHOLE, *BROKEN])

VALUES = st.one_of(
    TEXTS,
    NUMBERS,
    st.booleans(),
    st.sampled_from([math.nan, math.inf, -math.inf, Float(1.5), Float(0.0)]),
    st.sampled_from([Byte(1), SignedInt(2), SignedInt(-7), Timestamp(2**64 - 1), Timestamp(0)]),
    st.sampled_from([None, b"a", Array(["a"]), Table(a=1), Decimal("1.5"), Decimal(1)]),
)
HEADER_NAMES = ["a", "b", "c", "_d$", "AND", "e.f", 'g "h"', "größe"]
HEADERS = st.dictionaries(st.sampled_from(HEADER_NAMES), VALUES)

_headers = st.sampled_from([("name", name) for name in HEADER_NAMES])
_number_names = st.sampled_from([("name", "JMSPriority"), ("name", "JMSTimestamp")])
_text_names = st.sampled_from([("name", "JMSType"), ("name", "JMSDeliveryMode")])
_boolean_names = st.just(("name", "JMSRedelivered"))


def _literals(values: st.SearchStrategy[Any]) -> st.SearchStrategy[Tree]:
    return st.tuples(st.just("literal"), values)


def _larger_numbers(parts: st.SearchStrategy[Tree]) -> st.SearchStrategy[Tree]:
    return st.one_of(
        st.tuples(st.just("sign"), st.sampled_from("+-"), parts),
        st.tuples(st.just("arithmetic"), st.sampled_from("+-*/%"), parts, parts),
    )


_numbers = st.recursive(
    st.one_of(_headers, _number_names, _literals(NUMBERS)), _larger_numbers, max_leaves=4
)
_texts = st.one_of(_headers, _text_names, _literals(TEXTS))
_booleans = st.one_of(_headers, _boolean_names, _literals(st.booleans()))
_sides = st.one_of(
    st.tuples(_numbers, _numbers), st.tuples(_texts, _texts), st.tuples(_booleans, _booleans)
)
_patterns = st.one_of(
    st.tuples(st.text("ab%_", max_size=6), st.none()),
    st.tuples(
        st.lists(st.sampled_from(["a", "b", "%", "_", "!%", "!_", "!!"])).map("".join),
        st.just("!"),
    ),
)
_tests = st.one_of(
    _booleans,
    st.tuples(st.sampled_from(["=", "<>"]), _sides).map(
        lambda drawn: ("compare", drawn[0], *drawn[1])
    ),
    st.tuples(st.just("compare"), st.sampled_from(list(COMPARE)), _numbers, _numbers),
    st.tuples(st.just("between"), _numbers, _numbers, _numbers, st.booleans()),
    st.tuples(
        st.just("in"), _texts, st.lists(TEXTS, min_size=1, max_size=4).map(tuple), st.booleans()
    ),
    st.tuples(_texts, _patterns, st.booleans()).map(
        lambda drawn: ("like", drawn[0], *drawn[1], drawn[2])
    ),
    st.tuples(
        st.just("null"),
        st.one_of(_headers, _text_names, _numbers.filter(lambda tree: bool(names(tree)))),
        st.booleans(),
    ),
)


def _larger_conditions(parts: st.SearchStrategy[Tree]) -> st.SearchStrategy[Tree]:
    return st.one_of(
        st.tuples(st.just("not"), parts),
        st.tuples(st.sampled_from(["and", "or"]), parts, parts),
        st.tuples(st.just("compare"), st.sampled_from(["=", "<>"]), parts, parts),
    )


CONDITIONS = st.recursive(_tests, _larger_conditions, max_leaves=6)
