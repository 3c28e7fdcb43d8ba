"""Positions in the journal, and the names of segment files.

A position is one integer: the number of a segment and the offset in its file. Positions only grow,
since segment numbers do. All of ``storage`` takes positions apart here.                       [hot]
"""

from __future__ import annotations

from typing import Final

OFFSET_BITS: Final = 32
OFFSET_MASK: Final = (1 << OFFSET_BITS) - 1

# Bit 62 of a position says "not in the journal" (``storage.interface.SPOOLED``).
SEGMENT_NUMBER_MAX: Final = (1 << (62 - OFFSET_BITS)) - 1
SEGMENT_BYTES_MAX: Final = OFFSET_MASK


def position_of(number: int, offset: int) -> int:
    """Return the position of an offset in segment ``number``."""
    return number << OFFSET_BITS | offset


def segment_of(position: int) -> int:
    """Return the number of the segment."""
    return position >> OFFSET_BITS


def offset_of(position: int) -> int:
    """Return the offset in the segment's file."""
    return position & OFFSET_MASK


def segment_name(number: int) -> str:
    """Return the name of the segment's file."""
    return f"{number:016x}.log"


def number_of_name(name: str) -> int | None:
    """Return the number of the segment with this file name; None for another name."""
    stem, dot, extension = name.partition(".")
    if extension != "log" or len(stem) != 16 or not dot:
        return None
    if any(digit not in "0123456789abcdef" for digit in stem):
        return None
    return int(stem, 16)
