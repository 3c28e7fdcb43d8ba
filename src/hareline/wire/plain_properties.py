"""Finds out without decoding whether a publish must act upon something in these properties.

Most messages have a different id or timestamp, so no two sets of properties are alike, and
decoding each one only to find nothing in it costs ten times as much as the rest of the publish
(benchmarks/micro, plain properties). This module steps over the lengths instead. Called by
``amqp.inspection`` for octets it has not seen before.

Invariant: ``wire.properties`` decodes properties that are called plain here without an error. [hot]
"""

from __future__ import annotations

from struct import Struct
from typing import Final

from hareline.wire.constants import (
    FLAG_DELIVERY_MODE,
    FLAG_EXPIRATION,
    FLAG_HEADERS,
    FLAG_PRIORITY,
    FLAG_REPLY_TO,
    FLAG_TIMESTAMP,
    FLAG_USER_ID,
)

_ACTED_UPON: Final = FLAG_USER_ID | FLAG_EXPIRATION
_EXPIRATION_BIT: Final = FLAG_EXPIRATION >> 8  # in the first octet of the flags
_FLAGS_UP_TO_EXPIRATION: Final = FLAG_EXPIRATION.bit_length()
_CC: Final = b"\x02CC"
_BCC: Final = b"\x03BCC"
#: In the names of both headers by which a producer numbers its messages.
PRODUCER_MARK: Final = b"x-producer-"

_SHORT_STRING: Final = -1
_FIELD_TABLE: Final = -2
_NOT_PLAIN: Final = -3
# flag -> size of its value; all others are short strings
_VALUE_SIZES: Final = {
    FLAG_HEADERS: _FIELD_TABLE,
    FLAG_DELIVERY_MODE: 1,
    FLAG_PRIORITY: 1,
    FLAG_TIMESTAMP: 8,
}
_LOWEST_FLAG: Final = 0x0004

_STEPS: Final[dict[int, tuple[int, ...]]] = {}  # flags -> sizes in order; at most 2 ** 14 of them
_SIZE: Final = Struct(">I")
_FIXED_SIZES: Final = {
    ord("t"): 1,
    ord("b"): 1,
    ord("B"): 1,
    ord("s"): 2,
    ord("u"): 2,
    ord("I"): 4,
    ord("i"): 4,
    ord("l"): 8,
    ord("L"): 8,
    ord("f"): 4,
    ord("d"): 8,
    ord("D"): 5,
    ord("T"): 8,
    ord("V"): 0,
}
_TABLE: Final = ord("F")
_OPAQUE: Final = frozenset((ord("S"), ord("x")))  # a size, then octets of any kind
_NESTED: Final = frozenset((_TABLE, ord("A")))
DEPTH_MAX: Final = 8  # nested tables; deeper ones are left to the decoder and its limits
TABLE_MAX_BYTES: Final = 65_536  # so that no table can hold more values than the decoder takes


def are_plain(
    octets: bytes,
    reply_to_asked_for: bytes,
    acted_upon: int = _ACTED_UPON,
    *,
    may_be_numbered: bool = False,
) -> bool:
    """True for valid properties without user-id, expiration, CC, BCC and producer headers.

    ``octets`` start with the flags. ``reply_to_asked_for`` may not occur in them either, if they
    have a reply-to. False means "decode it and see", also for invalid octets.
    ``acted_upon``: the flags that are asked about, where it is not both of those above.
    ``may_be_numbered``: producer headers are plain too.
    """
    if len(octets) < 2:
        return False
    flags = octets[0] << 8 | octets[1]
    if flags & acted_upon:
        return False
    if flags & FLAG_REPLY_TO and reply_to_asked_for in octets:
        return False
    if flags & FLAG_HEADERS and (
        _CC in octets or _BCC in octets or (PRODUCER_MARK in octets and not may_be_numbered)
    ):
        return False
    steps = _STEPS.get(flags)
    if steps is None:
        steps = _STEPS[flags] = _steps_of(flags)
    end = len(octets)
    position = 2
    for step in steps:
        if position >= end:
            return False
        if step == _SHORT_STRING:
            position += octets[position] + 1
        elif step == _FIELD_TABLE:
            position = _table_end(octets, position, end)
            if position == _NOT_PLAIN:
                return False
        else:
            position += step
    return position == end


def plain_expiration(octets: bytes, reply_to_asked_for: bytes) -> str | None:
    """The expiration of valid properties that ask for nothing else, verbatim.

    None means "decode it and see", as with ``are_plain``, or that there is no expiration.
    """
    if len(octets) < 2 or not octets[0] & _EXPIRATION_BIT:
        return None
    if not are_plain(octets, reply_to_asked_for, FLAG_USER_ID):
        return None
    flags = octets[0] << 8 | octets[1]
    position = 2
    for step in _STEPS[flags][: (flags >> _FLAGS_UP_TO_EXPIRATION).bit_count()]:
        if step == _SHORT_STRING:
            position += octets[position] + 1
        elif step == _FIELD_TABLE:
            position += _SIZE.unpack_from(octets, position)[0] + 4
        else:
            position += step
    end = position + 1 + octets[position]
    return str(octets[position + 1 : end], "utf-8", "surrogateescape")


def _steps_of(flags: int) -> tuple[int, ...]:
    steps = []
    flag = 0x8000
    while flag >= _LOWEST_FLAG:
        if flags & flag:
            steps.append(_VALUE_SIZES.get(flag, _SHORT_STRING))
        flag >>= 1
    return tuple(steps)


def _table_end(octets: bytes, position: int, limit: int) -> int:
    """Where the table (its size first) ends, or _NOT_PLAIN."""
    if position + 4 > limit:
        return _NOT_PLAIN
    size = _SIZE.unpack_from(octets, position)[0]
    if size > TABLE_MAX_BYTES or position + 4 + size > limit:
        return _NOT_PLAIN
    return _fields_end(octets, position + 4, position + 4 + size, True, DEPTH_MAX)


def _fields_end(octets: bytes, position: int, end: int, has_names: bool, depth_left: int) -> int:
    """``end`` if the fields of a table (or items of an array) fill it exactly, or _NOT_PLAIN."""
    if depth_left == 0:
        return _NOT_PLAIN
    while position < end:
        if has_names:
            position += octets[position] + 1
            if position >= end:
                return _NOT_PLAIN
        kind = octets[position]
        position += 1
        fixed = _FIXED_SIZES.get(kind)
        if fixed is not None:
            position += fixed
            continue
        if position + 4 > end:
            return _NOT_PLAIN
        size = _SIZE.unpack_from(octets, position)[0]
        position += 4 + size
        if kind in _OPAQUE:
            continue
        if kind not in _NESTED or position > end:
            return _NOT_PLAIN
        start = position - size
        if _fields_end(octets, start, position, kind == _TABLE, depth_left - 1) != position:
            return _NOT_PLAIN
    return position if position == end else _NOT_PLAIN
