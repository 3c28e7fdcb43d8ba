"""Reads Erlang terms from text, as clients of RabbitMQ's ``x-jms-topic`` exchange write them.

The grammar is the part of Erlang's that RabbitMQ accepts there: tuples, lists, binaries of one
text, strings, numbers, and the atoms in ``ATOMS``; blanks between them, and an optional dot at the
end.

The text of an argument is UTF-8 and already decoded, so a binary is a text of characters. The
reader does not recurse, so it reads any nesting.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Final

from hareline.selectors.error import SelectorError, excerpt
from hareline.selectors.lexer import EXACT_MAX

ATOMS: Final = frozenset(
    (
        *("ident", "true", "false", "not", "and", "or", "is_null", "not_null", "in", "not_in"),
        *("like", "not_like", "no_escape", "regex", "between", "not_between", "range"),
        *("=", "<>", "<", "<=", ">", ">=", "+", "-", "*", "/"),
    )
)


@dataclass(frozen=True, slots=True)
class Group:
    """A tuple or a list. ``position``: of its first character in the text, as in all classes."""

    items: tuple[Term, ...]
    is_tuple: bool
    position: int


@dataclass(frozen=True, slots=True)
class Binary:
    """``<<"text">>``"""

    text: str
    position: int


@dataclass(frozen=True, slots=True)
class CharacterList:
    """``"text"``, which is a list of numbers in Erlang."""

    text: str
    position: int


@dataclass(frozen=True, slots=True)
class Atom:
    """One of ``ATOMS``, without quotes."""

    name: str
    position: int


@dataclass(frozen=True, slots=True)
class Number:
    """An int of 64 bits with its sign, or a finite float."""

    value: int | float
    position: int


Term = Group | Binary | CharacterList | Atom | Number

_BLANK: Final = re.compile(r"[ \t\r\n]*+")
_STRING: Final = re.compile(r'"((?:[^"\\]|\\.)*+)"', re.DOTALL)
_QUOTED_ATOM: Final = re.compile(r"'((?:[^'\\]|\\.)*+)'", re.DOTALL)
_BARE_ATOM: Final = re.compile(r"[a-z][A-Za-z0-9_@]*+")
_NUMBER: Final = re.compile(r"([+-]?)[ \t\r\n]*([0-9]++)(\.[0-9]++(?:[eE][+-]?[0-9]++)?)?")
_ESCAPED: Final = re.compile(r"\\(.)", re.DOTALL)
_ESCAPES: Final = {"n": "\n", "r": "\r", "t": "\t"}
_CLOSING: Final = {"{": "}", "[": "]"}
_DIGITS_OF_64_BITS: Final = 19


def read_term(text: str) -> Term:
    """The single term in the text. Raises SelectorError."""
    return _Reader(text).whole()


class _Reader:
    def __init__(self, text: str) -> None:
        self._text = text
        self._position = 0

    def whole(self) -> Term:
        opened: list[tuple[int, list[Term]]] = []  # groups that are not closed yet
        while True:
            self._skip_blanks()
            start = self._position
            if self._text[start : start + 1] in ("{", "["):
                self._position += 1
                opened.append((start, []))
                closed = self._closed(opened)
                if closed is None:
                    continue
                term: Term = closed
            else:
                term = self._scalar()
            while opened:
                opened[-1][1].append(term)
                self._skip_blanks()
                if self._accept(","):
                    break
                closed = self._closed(opened)
                if closed is None:
                    raise self._expected(f", or {_CLOSING[self._text[opened[-1][0]]]}")
                term = closed
            else:
                self._finish()
                return term

    def _closed(self, opened: list[tuple[int, list[Term]]]) -> Group | None:
        """Close and return the innermost group if it ends here."""
        start, items = opened[-1]
        opening = self._text[start]
        self._skip_blanks()
        if not self._accept(_CLOSING[opening]):
            return None
        opened.pop()
        return Group(tuple(items), opening == "{", start)

    def _finish(self) -> None:
        self._skip_blanks()
        self._accept(".")
        self._skip_blanks()
        if self._position < len(self._text):
            raise self._expected("the end")

    def _scalar(self) -> Term:
        start = self._position
        if self._accept("<<"):
            return self._binary(start)
        found = _STRING.match(self._text, start)
        if found is not None:
            self._position = found.end()
            return CharacterList(_unescaped(found[1]), start)
        found = _NUMBER.match(self._text, start)
        if found is not None:
            self._position = found.end()
            return Number(self._number(found), start)
        found = _QUOTED_ATOM.match(self._text, start)
        if found is not None:
            return self._atom(_ESCAPED.sub(r"\1", found[1]), found)
        found = _BARE_ATOM.match(self._text, start)
        if found is not None:
            return self._atom(found[0], found)
        if self._text.startswith(('"', "'"), start):
            raise SelectorError("the quote is not closed", self._text, start)
        raise self._expected("a term")

    def _binary(self, start: int) -> Binary:
        self._skip_blanks()
        text = ""
        found = _STRING.match(self._text, self._position)
        if found is not None:
            self._position = found.end()
            text = _unescaped(found[1])
            self._skip_blanks()
        if not self._accept(">>"):
            raise self._expected(">>" if found else "a text in double quotes or >>")
        return Binary(text, start)

    def _atom(self, name: str, found: re.Match[str]) -> Atom:
        if name not in ATOMS:
            raise SelectorError(f"an unknown atom {excerpt(name)}", self._text, found.start())
        self._position = found.end()
        return Atom(name, found.start())

    def _number(self, found: re.Match[str]) -> int | float:
        sign, digits, fraction = found.groups()
        if fraction is not None:
            approximate = float(sign + digits + fraction)
            if math.isinf(approximate):
                raise SelectorError(
                    "a number beyond the range of a double", self._text, found.start()
                )
            return approximate
        significant = digits.lstrip("0") or "0"
        # converting thousands of digits takes long and may be refused
        number = int(significant) if len(significant) <= _DIGITS_OF_64_BITS else EXACT_MAX + 2
        if number > EXACT_MAX + (sign == "-"):
            raise SelectorError("a number beyond 64 bits", self._text, found.start())
        return -number if sign == "-" else number

    def _skip_blanks(self) -> None:
        found = _BLANK.match(self._text, self._position)
        assert found is not None  # because the pattern matches an empty text too
        self._position = found.end()

    def _accept(self, mark: str) -> bool:
        """Step over this text if it is next."""
        if not self._text.startswith(mark, self._position):
            return False
        self._position += len(mark)
        return True

    def _expected(self, what: str) -> SelectorError:
        return SelectorError(f"expected {what}", self._text, self._position)


def _unescaped(text: str) -> str:
    return _ESCAPED.sub(lambda found: _ESCAPES.get(found[1], found[1]), text)
