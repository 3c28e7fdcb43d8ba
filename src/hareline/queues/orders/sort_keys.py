"""Keys that a sorted queue compares: from the value of a header to a place that Python can sort by.

Called by ``sorted`` once for each set of properties that it does not remember. A place is a tuple:
``(0,)`` for a message without a key, which is before all others, and ``(1, key)``. Invariant: the
keys of one queue are all texts, all octets or all numbers, so any two can be compared.

=========  ====================================================================================
sort type  key
=========  ====================================================================================
string     the text of the value, compared by UTF-16 code units as Broker-J's Java does. That is
           the order of code points but for those above U+FFFF, which come before U+E000
number     the value, compared exactly whatever its type; a decimal text counts as its number
=========  ====================================================================================

Values of other types are never a key: tables, arrays and voids, and for the sort type number also
booleans, octets, NaN, and texts that are no decimal number.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from decimal import Decimal
from functools import partial
from struct import pack
from typing import Any, Final

from hareline.message import Message

Place = tuple[int, Any] | tuple[int]

MISSING: Final[Place] = (0,)
NUMBER_MAX_CHARACTERS: Final = 100
_NUMBER: Final = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]{1,4})?")
_COMPLEMENT: Final = bytes(range(255, -1, -1))


def place_reader(key: str, *, descending: bool, numeric: bool) -> Callable[[Message], Place]:
    """The function that gives a message's place by its header ``key``."""
    if numeric:
        return partial(_number_place, key, descending)
    return partial(_text_place, key, descending)


def _text_place(header: str, is_descending: bool, message: Message) -> Place:
    text = text_of(message.header(header))
    if text is None:
        return MISSING
    units = utf16_ordered(text)
    return (1, _falling(units) if is_descending else units)


def _number_place(header: str, is_descending: bool, message: Message) -> Place:
    number = number_of(message.header(header))
    if number is None:
        return MISSING
    if not is_descending:
        return (1, number)
    # the minus sign would round a Decimal
    return (1, number.copy_negate() if isinstance(number, Decimal) else -number)


def text_of(value: object) -> str | None:
    """A header's value as text; None for types without one.

    true and false, whole numbers in decimals, floats as short as they stay what they are (at least
    one digit behind the point), decimals with all their digits, octets read as UTF-8.
    """
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return int.__repr__(value)
    if isinstance(value, float):
        return _float_text(value)
    if isinstance(value, Decimal):
        return format(value, "f")
    if isinstance(value, bytes):
        return str(value, "utf-8", "surrogateescape")
    return None


def _float_text(value: float) -> str:
    if getattr(value, "kind", "d") == "f" and value - value == 0:
        octets = pack(">f", value)
        for digits in (6, 7, 8, 9):  # as a double, 0.1 in four octets would have 17 of them
            short = float(f"{value:.{digits}g}")
            if pack(">f", short) == octets:
                return repr(short)
    return float.__repr__(value)


def number_of(value: object) -> int | float | Decimal | None:
    """The number that a header's value is or spells; None if there is no such number."""
    if isinstance(value, bool):
        return None
    if isinstance(value, int | Decimal):
        return value
    if isinstance(value, float):
        return value if value == value else None  # noqa: PLR0124 -- NaN has no place
    if isinstance(value, str) and len(value) <= NUMBER_MAX_CHARACTERS:
        text = value.strip(" ")
        if _NUMBER.fullmatch(text):
            return Decimal(text)
    return None


def utf16_ordered(text: str) -> str:
    """The text with two surrogates for each code point above U+FFFF, which makes Java's order."""
    if text.isascii() or max(text) <= "\uffff":
        return text
    octets = text.encode("utf-16-be", "surrogatepass")
    return "".join(chr(octets[at] << 8 | octets[at + 1]) for at in range(0, len(octets), 2))


def _falling(text: str) -> bytes:
    """Octets in the opposite order: the higher the text, the lower they are.

    An end mark of two zeros, and a zero in the text as 00 FF, make no text the beginning of
    another, which is what the complement of the octets needs to turn the order around.
    """
    octets = text.encode("utf-8", "surrogatepass")
    return (octets.replace(b"\0", b"\0\xff") + b"\0\0").translate(_COMPLEMENT)
