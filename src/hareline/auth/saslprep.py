"""SASLprep (RFC 4013): the form of names and passwords with which both sides of SCRAM compute.

``auth.scram`` calls it, for each login and when keys are made from a password; a password that is
compared by its hash is never prepared. It is a profile of stringprep (RFC 3454), whose tables the
standard library has; text of printable ASCII is its own preparation.
"""

from __future__ import annotations

import stringprep
from collections.abc import Callable
from typing import Final
from unicodedata import ucd_3_2_0  # the version that RFC 3454 fixed

# RFC 4013 section 2.3, in its order
_PROHIBITED: Final[tuple[Callable[[str], bool], ...]] = (
    stringprep.in_table_c12,
    stringprep.in_table_c21_c22,
    stringprep.in_table_c3,
    stringprep.in_table_c4,
    stringprep.in_table_c5,
    stringprep.in_table_c6,
    stringprep.in_table_c7,
    stringprep.in_table_c8,
    stringprep.in_table_c9,
)


def saslprep(text: str, *, is_query: bool = False) -> str:
    """The prepared form; it may be empty.

    A query may hold code points that Unicode 3.2 did not have, what is stored may not (RFC 3454
    section 7). Raises ValueError naming the code point, or the rule, that forbids the text.
    """
    if text.isascii() and text.isprintable():
        return text
    mapped = "".join(
        " " if stringprep.in_table_c12(character) else character
        for character in text
        if not stringprep.in_table_b1(character)
    )
    prepared = ucd_3_2_0.normalize("NFKC", mapped)
    for character in prepared:
        if any(is_prohibited(character) for is_prohibited in _PROHIBITED):
            raise ValueError(f"U+{ord(character):04X} is prohibited by SASLprep")
        if not is_query and stringprep.in_table_a1(character):
            raise ValueError(f"U+{ord(character):04X} is not assigned in Unicode 3.2")
    _check_directions(prepared)
    return prepared


def _check_directions(prepared: str) -> None:
    """RFC 3454 section 6: right-to-left text begins and ends with right-to-left characters."""
    if not any(map(stringprep.in_table_d1, prepared)):
        return
    if any(map(stringprep.in_table_d2, prepared)):
        raise ValueError("SASLprep prohibits text of both directions")
    if not (stringprep.in_table_d1(prepared[0]) and stringprep.in_table_d1(prepared[-1])):
        raise ValueError("SASLprep requires right-to-left text to begin and end so")
