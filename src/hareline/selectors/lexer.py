"""Splits the text of a selector into its tokens.

The alphabet is that of the JMS specification (section
3.8.1.1) with what Apache Qpid adds to it: comments, ``"quoted names"``, ``%``. Two rules are easily
missed. ``--`` begins a comment only if another line follows: in the last line it is two
minus signs, as in ``a = 3 --2``, which JMS (it has no comments) and Qpid's grammar agree on.
Keywords are recognised in any case, names keep theirs.
"""

from __future__ import annotations

import math
import re
import struct
from typing import Final, Literal, NamedTuple
from unicodedata import category

from hareline.selectors.error import SelectorError, excerpt

KEYWORDS: Final = frozenset(
    ("AND", "BETWEEN", "ESCAPE", "FALSE", "IN", "IS", "LIKE", "NOT", "NULL", "OR", "TRUE")
)
EXACT_MAX: Final = 2**63 - 1  # Java's long; one more is allowed after a minus sign

TokenKind = Literal["name", "keyword", "operator", "text", "exact", "approximate", "end"]


class Token(NamedTuple):
    """``text``: keywords in upper case, texts and quoted names without quotes, no numbers.

    ``position`` to ``end``: the characters it was read from.
    """

    kind: TokenKind
    text: str
    position: int
    end: int
    number: int | float = 0


_BLANK: Final = re.compile(r"[ \t\n\r\f]+")
_LINE_END: Final = re.compile(r"[\n\r]")
_TEXT: Final = re.compile(r"'((?:[^']++|'')*+)'")
_QUOTED_NAME: Final = re.compile(r'"((?:[^"]++|"")*+)"')
_OPERATOR: Final = re.compile(r"<>|<=|>=|[=<>+\-*/%(),]")
_APPROXIMATE: Final = re.compile(
    r"""( (?: [0-9]+\.[0-9]* | \.[0-9]+ ) (?: [eE][+-]?[0-9]+ )?
        | [0-9]+ [eE][+-]?[0-9]+
        | [0-9]+ (?= [dDfF] )
        ) ([dDfF]?)""",
    re.VERBOSE,
)
_EXACT: Final = re.compile(r"(?:0[xX]([0-9a-fA-F]+)|([0-9]+))[lL]?")

_ASCII_NAME_PARTS: Final = re.compile(r"[A-Za-z0-9_$]*")
_NAME_START: Final = frozenset(("Lu", "Ll", "Lt", "Lm", "Lo", "Nl", "Sc", "Pc"))
_NAME_PART: Final = _NAME_START | {"Nd", "Mn", "Mc"}

_HINTS: Final = {
    ".": "a name with dots needs double quotes",
    "!": "'not equal' is written <>",
    ";": "a selector is one condition without a semicolon",
    '"': "the double quote is not closed",
    "'": "the quote is not closed",
    "&": "join conditions with AND",
    "|": "join conditions with OR",
}


def tokens_of(text: str) -> list[Token]:
    """All tokens, and one of kind "end" after them. Raises SelectorError."""
    tokens = []
    last_line = 1 + max(text.rfind("\n"), text.rfind("\r"))
    position = _skip_blanks(text, 0, last_line)
    while position < len(text):
        token = _token_at(text, position)
        tokens.append(token)
        position = _skip_blanks(text, token.end, last_line)
    tokens.append(Token("end", "", position, position))
    return tokens


def is_name(text: str) -> bool:
    """True if the text can be a name without quotes in a selector."""
    return (
        bool(text)
        and category(text[0]) in _NAME_START
        and _name_end(text, 0) == len(text)
        and not _is_keyword(text)
    )


def _skip_blanks(text: str, position: int, last_line: int) -> int:
    """The position after white space and comments; ``last_line``: start of the last line."""
    while True:
        blank = _BLANK.match(text, position)
        if blank is not None:
            position = blank.end()
        if text.startswith("--", position) and position < last_line:
            line_end = _LINE_END.search(text, position)
            assert line_end is not None  # because another line follows
            position = line_end.end()
        elif text.startswith("/*", position):
            end = text.find("*/", position + 2)
            if end < 0:
                raise SelectorError("the comment is not closed", text, position)
            position = end + 2
        else:
            return position


def _token_at(text: str, position: int) -> Token:
    character = text[position]
    if category(character) in _NAME_START:
        return _name_token(text, position)
    if character in ".0123456789":
        token = _number_token(text, position)
        if token is not None:
            return token
    found = _OPERATOR.match(text, position)
    if found is not None:
        return Token("operator", found[0], position, found.end())
    found = _TEXT.match(text, position)
    if found is not None:
        return Token("text", found[1].replace("''", "'"), position, found.end())
    found = _QUOTED_NAME.match(text, position)
    if found is not None:
        if not found[1]:
            raise SelectorError("a name has at least one character", text, position)
        return Token("name", found[1].replace('""', '"'), position, found.end())
    hint = _HINTS.get(character, "a character that is allowed only in quotes")
    raise SelectorError(hint, text, position)


def _name_token(text: str, position: int) -> Token:
    end = _name_end(text, position)
    if text.startswith(".", end):
        raise SelectorError(_HINTS["."], text, position)
    name = text[position:end]
    if _is_keyword(name):
        return Token("keyword", name.upper(), position, end)
    return Token("name", name, position, end)


def _name_end(text: str, position: int) -> int:
    """The position after the letters and digits from here on."""
    while True:
        ascii_parts = _ASCII_NAME_PARTS.match(text, position)
        assert ascii_parts is not None  # because the pattern matches an empty text too
        position = ascii_parts.end()
        if position == len(text) or category(text[position]) not in _NAME_PART:
            return position
        position += 1


def _is_keyword(name: str) -> bool:
    # upper() also makes ASCII of some other letters, of the dotless i for one
    return name.isascii() and name.upper() in KEYWORDS


def _number_token(text: str, position: int) -> Token | None:
    """The number that begins here; None for a dot that begins none."""
    number: int | float
    kind: TokenKind = "approximate"
    found = _APPROXIMATE.match(text, position)
    if found is not None:
        number = _approximate(found[1], found[2], text, position)
    else:
        found = _EXACT.match(text, position)
        if found is None:
            return None
        kind = "exact"
        number = _exact(found, text)
    end = found.end()
    if end < len(text) and category(text[end]) in _NAME_PART:
        raise SelectorError(f"a number followed by {excerpt(text[end])}", text, position)
    return Token(kind, "", position, end, number)


def _approximate(digits: str, suffix: str, text: str, position: int) -> float:
    number = float(digits)
    if suffix in ("f", "F"):
        # a float header has 4 octets, and so has Java's 1.1F
        try:
            number = float(struct.unpack(">f", struct.pack(">f", number))[0])
        except OverflowError:
            number = math.inf
    if math.isinf(number):
        raise SelectorError("a number beyond the range of its type", text, position)
    return number


def _exact(found: re.Match[str], text: str) -> int:
    hexadecimal, digits = found.groups()
    if hexadecimal is not None:
        significant, base = hexadecimal.lstrip("0"), 16
    elif digits[0] == "0":
        significant, base = digits.lstrip("0"), 8
        if not set(digits) <= set("01234567"):
            raise SelectorError(
                "a number that begins with 0 is octal and has no 8 or 9", text, found.start()
            )
    else:
        significant, base = digits, 10
    # at most 22 octal digits fit; converting thousands of them takes long and may be refused
    number = int(significant or "0", base) if len(significant) <= 22 else EXACT_MAX + 2
    if number > EXACT_MAX + 1:
        raise SelectorError("a number beyond 64 bits", text, found.start())
    return number
