"""One field of a table, without decoding the others.

Called by ``wire.properties`` for every message of a queue that is ordered, grouped or filtered by a
header. Invariant: it finds what ``wire.table`` would decode under that name, the first field if
there are several.                                                                           [hot]
"""

from __future__ import annotations

from functools import lru_cache
from struct import Struct
from typing import Final

from hareline.errors import MalformedFrame
from hareline.wire.constants import SHORTSTR_MAX_OCTETS
from hareline.wire.table import FIXED_SIZES, decode_value, text_octets

NO_VALUE: Final = "field table: a field needs a name, a type and a value"

_LONG_STRING: Final = ord("S")
_SIZED: Final = frozenset(map(ord, "SxFA"))  # four octets of size in front
_size_at: Final = Struct(">I").unpack_from
_NAMES_KEPT: Final = 1024
_NOWHERE: Final = b""  # of a name that no field can have


def decode_field(octets: bytes, position: int, name: str) -> object:
    """The value of the first field of this name, None if there is none.

    The table's four length octets begin at ``position``. A search for the octets of the name comes
    first, because it costs next to nothing. Only if it finds them does the function step over the
    fields before them, because the octets may be part of a value. Raises MalformedFrame for an
    error on that way or in the value; the rest of the table is not read.
    """
    left = len(octets) - position - 4
    if left < 0:
        raise MalformedFrame("field table: its length needs 4 octets")
    size = _size_at(octets, position)[0]
    if size > left:
        raise MalformedFrame(f"field table: {size} octets announced, {left} are left")
    position += 4
    end = position + size
    wanted = _field_name(name)
    if not wanted:
        return None
    found = octets.find(wanted, position, end)
    while found >= 0:
        while position < found:  # over one field, written out because the look-up consists of this
            kind_at = position + 1 + octets[position]
            if kind_at >= end:
                raise MalformedFrame(NO_VALUE)
            kind = octets[kind_at]
            if kind in _SIZED:
                if kind_at + 5 > end:
                    raise MalformedFrame(NO_VALUE)
                position = kind_at + 5 + _size_at(octets, kind_at + 1)[0]
            elif kind in FIXED_SIZES:
                position = kind_at + 1 + FIXED_SIZES[kind]
            else:
                raise MalformedFrame(f"field table: unknown type octet 0x{kind:02x}")
        if position == found:
            return _value(octets, position + len(wanted), end)
        found = octets.find(wanted, position, end)
    return None


@lru_cache(_NAMES_KEPT)
def _field_name(name: str) -> bytes:
    """The octets at the beginning of a field of this name."""
    octets = text_octets(name)
    return bytes((len(octets),)) + octets if len(octets) <= SHORTSTR_MAX_OCTETS else _NOWHERE


def _value(octets: bytes, position: int, end: int) -> object:
    """The value whose type octet stands here; most are texts."""
    start = position + 5
    if start <= end and octets[position] == _LONG_STRING:
        stop = start + _size_at(octets, position + 1)[0]
        if stop <= end:
            return str(octets[start:stop], "utf-8", "surrogateescape")
    if position >= end:
        raise MalformedFrame(NO_VALUE)
    return decode_value(octets, position, end)
