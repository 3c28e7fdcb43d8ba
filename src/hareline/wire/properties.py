"""Message properties: the flags word of a content header and the values behind it.

The octets of a message's properties travel unchanged from publish to deliver; this module reads
them when a value is needed, and edits one value without changing any other octet.
``message``, ``amqp.publishing``, ``amqp.consuming`` and dead-lettering call it. The octets always
begin with the two octets of flags (AMQP 0-9-1 section 4.2.6.1); class id, weight and body size are
not part of them.

RabbitMQ's reading is followed: the two lowest flag bits (one of them announces a second flags word,
which class basic does not have) are ignored, octets behind the last value are an error, and
short strings need not be UTF-8 (they decode to surrogates and encode to what they were).
"""

from __future__ import annotations

from dataclasses import dataclass
from struct import Struct
from typing import Final, Literal

from hareline.errors import MalformedFrame
from hareline.wire import constants
from hareline.wire.table import (
    Table,
    Timestamp,
    decode_table,
    encode_shortstr,
    encode_table,
)
from hareline.wire.table_lookup import decode_field

NO_PROPERTIES: Final = b"\0\0"

_CONTENT_TYPE: Final = constants.FLAG_CONTENT_TYPE >> 8
_CONTENT_ENCODING: Final = constants.FLAG_CONTENT_ENCODING >> 8
_HEADERS: Final = constants.FLAG_HEADERS >> 8
_TABLE_SIZE: Final = Struct(">I")
_INTEGER: Final = Struct(">cq")
_LONG: Final = b"l"
_LENGTH: Final = [bytes((length,)) for length in range(256)]  # of a short string


@dataclass(slots=True)
class Properties:
    """The properties of class basic; None means absent. ``timestamp`` is in seconds."""

    content_type: str | None = None
    content_encoding: str | None = None
    headers: Table | None = None
    delivery_mode: int | None = None
    priority: int | None = None
    correlation_id: str | None = None
    reply_to: str | None = None
    expiration: str | None = None
    message_id: str | None = None
    timestamp: Timestamp | None = None
    type: str | None = None
    user_id: str | None = None
    app_id: str | None = None
    cluster_id: str | None = None


Domain = Literal["shortstr", "octet", "table", "timestamp"]

_FIELDS: Final[tuple[tuple[int, str, Domain], ...]] = (
    (constants.FLAG_CONTENT_TYPE, "content_type", "shortstr"),
    (constants.FLAG_CONTENT_ENCODING, "content_encoding", "shortstr"),
    (constants.FLAG_HEADERS, "headers", "table"),
    (constants.FLAG_DELIVERY_MODE, "delivery_mode", "octet"),
    (constants.FLAG_PRIORITY, "priority", "octet"),
    (constants.FLAG_CORRELATION_ID, "correlation_id", "shortstr"),
    (constants.FLAG_REPLY_TO, "reply_to", "shortstr"),
    (constants.FLAG_EXPIRATION, "expiration", "shortstr"),
    (constants.FLAG_MESSAGE_ID, "message_id", "shortstr"),
    (constants.FLAG_TIMESTAMP, "timestamp", "timestamp"),
    (constants.FLAG_TYPE, "type", "shortstr"),
    (constants.FLAG_USER_ID, "user_id", "shortstr"),
    (constants.FLAG_APP_ID, "app_id", "shortstr"),
    (constants.FLAG_CLUSTER_ID, "cluster_id", "shortstr"),
)


def decode_properties(octets: bytes) -> Properties:
    """All properties. Raises MalformedFrame naming the one that cannot be read."""
    flags = _flags_of(octets)
    properties = Properties()
    position = 2
    for flag, name, domain in _FIELDS:
        if not flags & flag:
            continue
        end = _value_end(octets, position, name, domain)
        value: object
        if domain == "shortstr":
            value = str(octets[position + 1 : end], "utf-8", "surrogateescape")
        elif domain == "octet":
            value = octets[position]
        elif domain == "timestamp":
            value = Timestamp.from_bytes(octets[position:end], "big")
        else:
            value = _decode_headers_at(octets, position)
        setattr(properties, name, value)
        position = end
    if position != len(octets):
        raise MalformedFrame(
            f"cannot decode basic properties: {len(octets) - position} octets too many"
        )
    return properties


def decode_headers(octets: bytes) -> Table:
    """Only the headers table, empty if absent; the octets behind it are not read.        [hot]

    Raises MalformedFrame if the octets up to its end are not a valid table.
    """
    try:
        flags = octets[0] << 8 | octets[1]
        if not flags & constants.FLAG_HEADERS:
            return Table()
        position = 2
        if flags & constants.FLAG_CONTENT_TYPE:
            position += 1 + octets[position]
        if flags & constants.FLAG_CONTENT_ENCODING:
            position += 1 + octets[position]
    except IndexError:
        raise MalformedFrame(
            "cannot decode basic properties: headers runs past the end of the header"
        ) from None
    return _decode_headers_at(octets, position)


def decode_delivery_mode(octets: bytes) -> int | None:
    """Only the delivery mode, like ``decode_priority``.                                    [hot]"""
    try:
        flags = octets[0] << 8 | octets[1]
        if not flags & constants.FLAG_DELIVERY_MODE:
            return None
        return octets[_behind_headers(octets, flags)]
    except IndexError:
        raise MalformedFrame(
            "cannot decode basic properties: delivery_mode runs past the end of the header"
        ) from None


def decode_priority(octets: bytes) -> int | None:
    """Only the priority, None if absent; found by the lengths of the values before it.     [hot]

    Nothing else is checked. Raises MalformedFrame if the octets end before it.
    """
    try:
        flags = octets[0] << 8 | octets[1]
        if not flags & constants.FLAG_PRIORITY:
            return None
        position = _behind_headers(octets, flags)
        if flags & constants.FLAG_DELIVERY_MODE:
            position += 1
        return octets[position]
    except IndexError:
        raise MalformedFrame(
            "cannot decode basic properties: priority runs past the end of the header"
        ) from None


def _behind_headers(octets: bytes, flags: int) -> int:
    """The position behind the headers. Raises IndexError if the octets end before it.

    [hot]
    """
    position = 2
    if flags & constants.FLAG_CONTENT_TYPE:
        position += 1 + octets[position]
    if flags & constants.FLAG_CONTENT_ENCODING:
        position += 1 + octets[position]
    if flags & constants.FLAG_HEADERS:
        position += 4 + int.from_bytes(octets[position : position + 4], "big")
    return position


def decode_header(octets: bytes, name: str) -> object:
    """One value of the headers table, None if it or the table is absent.                [hot]

    Skips the fields before it by their lengths, and does not read those behind it. Raises
    MalformedFrame if the octets up to its end are not a valid table.
    """
    try:
        flags = octets[0] << 8 | octets[1]
        if not flags & constants.FLAG_HEADERS:
            return None
        position = 2
        if flags & constants.FLAG_CONTENT_TYPE:
            position += 1 + octets[position]
        if flags & constants.FLAG_CONTENT_ENCODING:
            position += 1 + octets[position]
        return decode_field(octets, position, name)
    except IndexError:
        raise MalformedFrame(
            "cannot decode basic properties: headers runs past the end of the header"
        ) from None
    except MalformedFrame as problem:
        raise MalformedFrame(
            f"cannot decode basic properties: headers: {problem.explanation}"
        ) from None


def encode_properties(properties: Properties) -> bytes:
    """Flags word and values. Raises ValueError for a value its field cannot hold."""
    flags = 0
    parts = [b""]
    for flag, name, domain in _FIELDS:
        value = getattr(properties, name)
        if value is None:
            continue
        flags |= flag
        try:
            if domain == "shortstr":
                parts.append(encode_shortstr(value))
            elif domain == "octet":
                parts.append(value.to_bytes(1, "big"))
            elif domain == "timestamp":
                parts.append(value.to_bytes(8, "big"))
            else:
                parts.append(encode_table(value))
        except (ValueError, OverflowError) as problem:
            raise ValueError(f"property {name}: {problem}") from None
    parts[0] = flags.to_bytes(2, "big")
    return b"".join(parts)


def replace_headers(octets: bytes, headers: Table | None) -> bytes:
    """The same properties with this headers table, or without one if it is None."""
    value = None if headers is None else encode_table(headers)
    return _replace(octets, constants.FLAG_HEADERS, value)


def with_integer_header(octets: bytes, name: bytes, number: int) -> bytes:
    """The same properties with a header of this name, a 64-bit integer (type ``l``).

    Appends the field to the table without decoding its other fields. Only if the table seems to
    have one of that name already is it decoded, and the number replaces that field.
    """
    first = octets[0]  # of the two octets of flags; flags of the first three properties are set
    start = 2
    if first & _CONTENT_TYPE:
        start += 1 + octets[start]
    if first & _CONTENT_ENCODING:
        start += 1 + octets[start]
    field = name + _INTEGER.pack(_LONG, number)
    if not first & _HEADERS:
        flags = bytes((first | _HEADERS, octets[1]))
        size = _TABLE_SIZE.pack(1 + len(field))
        return flags + octets[2:start] + size + _LENGTH[len(name)] + field + octets[start:]
    (size_before,) = _TABLE_SIZE.unpack_from(octets, start)
    end = start + 4 + size_before
    if octets.find(name, start, end) >= 0:
        headers = decode_headers(octets)
        headers[name.decode()] = number
        return replace_headers(octets, headers)
    size = _TABLE_SIZE.pack(size_before + 1 + len(field))
    fields = octets[start + 4 : end]
    return octets[:start] + size + fields + _LENGTH[len(name)] + field + octets[end:]


def replace_reply_to(octets: bytes, reply_to: str) -> bytes:
    """The same properties with this reply-to (direct reply-to rewrites it on publish)."""
    return _replace(octets, constants.FLAG_REPLY_TO, encode_shortstr(reply_to))


def _replace(octets: bytes, flag: int, value: bytes | None) -> bytes:
    flags = _flags_of(octets)
    start = _position_of(octets, flags, flag)
    end = start
    if flags & flag:
        for candidate, name, domain in _FIELDS:
            if candidate == flag:
                end = _value_end(octets, start, name, domain)
    flags = flags & ~flag if value is None else flags | flag
    return b"".join((flags.to_bytes(2, "big"), octets[2:start], value or b"", octets[end:]))


def _position_of(octets: bytes, flags: int, flag: int) -> int:
    """The position of a property's value, or the one it would have."""
    position = 2
    for candidate, name, domain in _FIELDS:
        if candidate == flag:
            break
        if flags & candidate:
            position = _value_end(octets, position, name, domain)
    return position


def _flags_of(octets: bytes) -> int:
    if len(octets) < 2:
        raise MalformedFrame("cannot decode basic properties: the flags need 2 octets")
    return octets[0] << 8 | octets[1]


def _value_end(octets: bytes, position: int, name: str, domain: Domain) -> int:
    """The position behind the value that starts at ``position``."""
    if domain == "shortstr":
        end = position + 1
        if end <= len(octets):
            end += octets[position]
    elif domain == "octet":
        end = position + 1
    elif domain == "timestamp":
        end = position + 8
    else:
        end = position + 4
        if end <= len(octets):
            end += int.from_bytes(octets[position:end], "big")
    if end > len(octets):
        raise MalformedFrame(
            f"cannot decode basic properties: {name} runs past the end of the header"
        )
    return end


def _decode_headers_at(octets: bytes, position: int) -> Table:
    try:
        return decode_table(octets, position)[0]
    except MalformedFrame as problem:
        raise MalformedFrame(
            f"cannot decode basic properties: headers: {problem.explanation}"
        ) from None
