"""Property octets, cut where those of a dead letter differ from the message that died.

Called by ``message`` for each message that is dead-lettered; the octets were validated when it
was published. Invariant: the octets put together again differ only in the headers and the
expiration.                                                                                [hot]
"""

from __future__ import annotations

from typing import Final, NamedTuple

from hareline.errors import MalformedFrame
from hareline.wire import constants

_LONG: Final = ord("l")
_INTEGER_SIZE: Final = 9  # the letter of its type, and 64 bits
# of the first of the two octets of flags
_CONTENT_TYPE: Final = constants.FLAG_CONTENT_TYPE >> 8
_CONTENT_ENCODING: Final = constants.FLAG_CONTENT_ENCODING >> 8
_HEADERS: Final = constants.FLAG_HEADERS >> 8


class PropertyParts(NamedTuple):
    """Property octets, cut where those of a dead letter differ.

    ``flags`` are without those of headers and expiration. ``before`` and ``behind`` are the octets
    around the headers table, the latter without the expiration; ``fields`` is that table without
    its length, empty if it is absent.
    """

    flags: int
    before: bytes
    fields: bytes
    behind: bytes
    delivery_mode: int | None
    expiration: str | None

    def with_fields(self, fields: bytes) -> bytes:
        """Property octets with this headers table and without an expiration."""
        return b"%c%c%b%b%b%b" % (
            (self.flags | constants.FLAG_HEADERS) >> 8,
            self.flags & 0xFF,
            self.before,
            len(fields).to_bytes(4, "big"),
            fields,
            self.behind,
        )


def without_last_header(octets: bytes, name: bytes) -> bytes:
    """The properties without a 64-bit integer of this name that is the last header.

    Takes back what ``wire.properties.with_integer_header`` appended; other headers of the name
    stay. A table that has no other header goes as a whole.                                [hot]
    """
    end = octets.rfind(name) + len(name) + _INTEGER_SIZE
    if end < len(name) + _INTEGER_SIZE or octets[1:2] == b"":
        return octets
    first = octets[0]
    size_at = 2
    if first & _CONTENT_TYPE:
        size_at += 1 + octets[size_at]
    if first & _CONTENT_ENCODING:
        size_at += 1 + octets[size_at]
    fields = size_at + 4
    size = int.from_bytes(octets[size_at:fields], "big")
    start = end - _INTEGER_SIZE - len(name) - 1  # of the field: its name's length comes first
    if (
        not first & _HEADERS
        or end != fields + size
        or start < fields
        or octets[start] != len(name)
        or octets[end - _INTEGER_SIZE] != _LONG
    ):
        return octets
    if start == fields:
        return bytes((first & ~_HEADERS,)) + octets[1:size_at] + octets[end:]
    return (
        octets[:size_at] + (start - fields).to_bytes(4, "big") + octets[fields:start] + octets[end:]
    )


def take_apart(octets: bytes) -> PropertyParts:
    """Cut the octets of properties; only headers and expiration are read.                  [hot]

    Raises MalformedFrame if the octets end before one of the two does.
    """
    try:
        flags = octets[0] << 8 | octets[1]
        position = 2
        if flags & constants.FLAG_CONTENT_TYPE:
            position += 1 + octets[position]
        if flags & constants.FLAG_CONTENT_ENCODING:
            position += 1 + octets[position]
        before = octets[2:position]
        fields = b""
        if flags & constants.FLAG_HEADERS:
            start = position + 4
            position = start + int.from_bytes(octets[position:start], "big")
            fields = octets[start:position]
        octets[position - 1]  # is there
        behind = octets[position:]
        delivery_mode = behind[0] if flags & constants.FLAG_DELIVERY_MODE else None
        expiration = None
        if flags & constants.FLAG_EXPIRATION:
            position = 0 if delivery_mode is None else 1
            if flags & constants.FLAG_PRIORITY:
                position += 1
            if flags & constants.FLAG_CORRELATION_ID:
                position += 1 + behind[position]
            if flags & constants.FLAG_REPLY_TO:
                position += 1 + behind[position]
            end = position + 1 + behind[position]
            behind[end - 1]  # is there
            expiration = str(behind[position + 1 : end], "utf-8", "surrogateescape")
            behind = behind[:position] + behind[end:]
    except IndexError:
        raise MalformedFrame(
            "cannot decode basic properties: one runs past the end of the header"
        ) from None
    flags &= ~(constants.FLAG_HEADERS | constants.FLAG_EXPIRATION)
    return PropertyParts(flags, before, fields, behind, delivery_mode, expiration)
