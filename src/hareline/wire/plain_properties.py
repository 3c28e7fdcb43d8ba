"""Finds out without decoding whether a publish must act upon something in these properties.

Most messages have a different id or timestamp, so no two sets of properties are alike, and
decoding each one only to find nothing in it costs ten times as much as the rest of the publish
(benchmarks/micro, publishing). This module steps over the lengths instead, once, and says on the
way whether the message is persistent. Called by ``amqp.publishing`` for what no stencil matches,
and by ``wire.stencil`` to learn where the values are.

Invariant: ``wire.properties`` decodes properties that are called plain here without an error, and
whatever the octets of their values are. [hot]
"""

from __future__ import annotations

from typing import Final

from hareline.wire.constants import (
    DIRECT_REPLY_TO,
    FLAG_DELIVERY_MODE,
    FLAG_EXPIRATION,
    FLAG_HEADERS,
    FLAG_PRIORITY,
    FLAG_REPLY_TO,
    FLAG_TIMESTAMP,
    FLAG_USER_ID,
    PERSISTENT_MODE,
)
from hareline.wire.property_parts import take_apart

# What properties may ask for and be plain all the same, where ``walk`` is told so.
EXPIRATION: Final = 1
NUMBER: Final = 2  # of a message of its producer
COPIES: Final = 4  # CC and BCC

# What ``walk`` says of properties.
NOT_PLAIN: Final = 0
PLAIN: Final = 1
PERSISTENT: Final = 2  # plain, and the message is persistent

_EXPIRATION_BIT: Final = FLAG_EXPIRATION >> 8  # in the first octet of the flags

#: How the names of both headers begin by which a producer numbers its messages.
PRODUCER_MARK: Final = b"x-producer-"
_FIRST_LETTERS: Final = b"CBx"  # of the names below
_COPIES: Final = (b"CC", b"BCC")

# How to step over a property: by its size, or as one of these.
_SHORT_STRING: Final = -1
_FIELD_TABLE: Final = -2
_MODE: Final = -3
_REPLY_TO: Final = -4
_USER_ID: Final = -5
_STEP_OF: Final = {  # all others are short strings
    FLAG_HEADERS: _FIELD_TABLE,
    FLAG_DELIVERY_MODE: _MODE,
    FLAG_PRIORITY: 1,
    FLAG_REPLY_TO: _REPLY_TO,
    FLAG_TIMESTAMP: 8,
    FLAG_USER_ID: _USER_ID,
}
_LOWEST_FLAG: Final = 0x0004
_STEPS: Final[dict[int, tuple[int, ...]]] = {}  # flags -> steps in order; at most 2 ** 16 of them

# What follows the letter of a field's type: so many octets, or one of these.
_UNKNOWN: Final = 255
_OPAQUE: Final = 254  # a size, then octets of any kind
_NESTED: Final = 253  # a size, then a table or an array
_TABLE: Final = ord("F")
_FIXED_SIZES: Final = {
    "t": 1,
    "b": 1,
    "B": 1,
    "s": 2,
    "u": 2,
    "I": 4,
    "i": 4,
    "l": 8,
    "L": 8,
    "f": 4,
    "d": 8,
    "D": 5,
    "T": 8,
    "V": 0,
    "S": _OPAQUE,
    "x": _OPAQUE,
    "F": _NESTED,
    "A": _NESTED,
}
_SIZE_OF: Final = bytes([_FIXED_SIZES.get(chr(kind), _UNKNOWN) for kind in range(256)])

DEPTH_MAX: Final = 8  # nested tables; deeper ones are left to the decoder and its limits
TABLE_MAX_BYTES: Final = 65_536  # so that no table can hold more values than the decoder takes


def walk(
    octets: bytes,
    user_id: bytes | None,
    allowed: int = 0,
    cuts: list[int] | None = None,
) -> int:
    """PLAIN or PERSISTENT for valid properties that ask for nothing, NOT_PLAIN for all others.

    They ask for something by expiration, CC, BCC, a direct reply-to, a user-id other than
    ``user_id``, and the headers that number a producer's messages. ``octets`` start with the flags.
    NOT_PLAIN means "decode it and see", also for invalid octets.

    ``user_id``: None if any is plain. ``allowed``: what else is plain, of the constants above.
    ``cuts`` gets where each value begins and ends that may have any octets without a change to what
    is returned.
    """
    try:
        flags = octets[0] << 8 | octets[1]
        if flags & FLAG_EXPIRATION and not allowed & EXPIRATION:
            return NOT_PLAIN
        steps = _STEPS.get(flags)
        if steps is None:
            steps = _STEPS[flags] = _steps_of(flags)
        plain = PLAIN
        position = 2
        for step in steps:
            start = position
            if step == _SHORT_STRING:
                start += 1
                position = start + octets[position]
            elif step > 0:
                position += step
            elif step == _FIELD_TABLE:
                start += 4
                size = octets[position] << 24 | octets[position + 1] << 16
                size |= octets[position + 2] << 8 | octets[position + 3]
                position = start + size
                if (
                    size > TABLE_MAX_BYTES
                    or position > len(octets)
                    or not _are_fields(octets, start, position, True, DEPTH_MAX, allowed, cuts)
                ):
                    return NOT_PLAIN
                continue
            elif step == _MODE:
                if octets[position] == PERSISTENT_MODE:
                    plain = PERSISTENT
                position += 1
                continue
            else:
                position += 1 + octets[position]
                value = octets[start + 1 : position]
                if step == _REPLY_TO:
                    if value == DIRECT_REPLY_TO:
                        return NOT_PLAIN
                elif user_id is not None and value != user_id:
                    return NOT_PLAIN
                continue
            if cuts is not None:
                cuts.append(start)
                cuts.append(position)
        return plain if position == len(octets) else NOT_PLAIN
    except IndexError:
        return NOT_PLAIN


def plain_expiration(octets: bytes, user_id: bytes) -> str | None:
    """The expiration of valid properties that ask for nothing else, verbatim.

    None means "decode it and see", as with ``walk``, or that there is no expiration.
    """
    if not octets or not octets[0] & _EXPIRATION_BIT:
        return None
    if not walk(octets, user_id, EXPIRATION):
        return None
    return take_apart(octets).expiration


def _steps_of(flags: int) -> tuple[int, ...]:
    steps = []
    flag = 0x8000
    while flag >= _LOWEST_FLAG:
        if flags & flag:
            steps.append(_STEP_OF.get(flag, _SHORT_STRING))
        flag >>= 1
    return tuple(steps)


def _are_fields(
    octets: bytes,
    position: int,
    end: int,
    has_names: bool,
    depth_left: int,
    allowed: int,
    cuts: list[int] | None,
) -> bool:
    """True if the fields of a table, or items of an array, are plain and fill it exactly."""
    if depth_left == 0:
        return False
    while position < end:
        if has_names:
            start = position + 1
            position = start + octets[position]
            if position >= end:
                return False
            if (
                octets[start] in _FIRST_LETTERS
                and depth_left == DEPTH_MAX  # in nested tables they ask for nothing
                and _asks(octets[start:position], allowed)
            ):
                return False
        kind = octets[position]
        position += 1
        size = _SIZE_OF[kind]
        start = position
        if size < _NESTED:
            position += size
        elif size == _UNKNOWN or octets[position] or octets[position + 1]:
            return False  # no size is above TABLE_MAX_BYTES
        else:
            start += 4
            position = start + (octets[position + 2] << 8 | octets[position + 3])
            if size == _NESTED:
                is_table = kind == _TABLE
                if position > end or not _are_fields(
                    octets, start, position, is_table, depth_left - 1, allowed, cuts
                ):
                    return False
                continue
        if cuts is not None:
            cuts.append(start)
            cuts.append(position)
    return position == end


def _asks(name: bytes, allowed: int) -> bool:
    """True if a header of this name asks for something that is not allowed."""
    if name in _COPIES:
        return not allowed & COPIES
    return name.startswith(PRODUCER_MARK) and not allowed & NUMBER
