"""Headers tables in octets: fields taken out and added without decoding the others.

Beside them the order of the other properties, which source and sink read and write. Fields here
are the octets of a table without its length.
Invariant: fields that stay are the same octets in the same order.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from struct import Struct
from struct import error as struct_error
from typing import Final, NamedTuple

from hareline.spark.errors import InvalidRows
from hareline.wire import constants
from hareline.wire.table import FIXED_SIZES

#: Properties behind the headers, in the order of the wire, and their columns.
BEHIND_HEADERS: Final = (
    (constants.FLAG_DELIVERY_MODE, "delivery_mode"),
    (constants.FLAG_PRIORITY, "priority"),
    (constants.FLAG_CORRELATION_ID, "correlation_id"),
    (constants.FLAG_REPLY_TO, "reply_to"),
    (constants.FLAG_EXPIRATION, "expiration"),
    (constants.FLAG_MESSAGE_ID, "message_id"),
    (constants.FLAG_TIMESTAMP, "app_timestamp"),
    (constants.FLAG_TYPE, "type"),
    (constants.FLAG_USER_ID, "user_id"),
    (constants.FLAG_APP_ID, "app_id"),
)
#: Those of one octet; ``app_timestamp`` has eight, the others are short strings.
NUMBERS: Final = frozenset(("delivery_mode", "priority"))

_SIZED: Final = frozenset(map(ord, "SxFA"))  # four octets of size in front
_SIZE: Final = Struct(">I")


class Field(NamedTuple):
    """Places of a field: its start, the octet of its type, and its end."""

    start: int
    kind_at: int
    end: int


class MalformedField(Exception):
    """Octets from ``start`` on are not a field."""

    def __init__(self, start: int) -> None:
        super().__init__(f"octet {start} does not begin a field")


def fields_in(fields: bytes) -> Iterator[Field]:
    """Each field in its order. Raises MalformedField."""
    start = 0
    while start < len(fields):
        try:
            kind_at = start + 1 + fields[start]
            kind = fields[kind_at]
            if kind in _SIZED:
                end = kind_at + 5 + _SIZE.unpack_from(fields, kind_at + 1)[0]
            else:
                end = kind_at + 1 + FIXED_SIZES[kind]
        except (IndexError, KeyError, struct_error):
            raise MalformedField(start) from None
        if end > len(fields):
            raise MalformedField(start)
        yield Field(start, kind_at, end)
        start = end


def without_fields(fields: bytes, names: Collection[bytes]) -> bytes:
    """The fields but those of these names. Raises InvalidRows if they are not a table's."""
    try:
        return b"".join(
            fields[start:end]
            for start, kind_at, end in fields_in(fields)
            if fields[start + 1 : kind_at] not in names
        )
    except MalformedField as problem:
        raise InvalidRows(f"column 'headers_raw' is not an AMQP table: {problem}") from None


def text_field(name: str, text: str) -> bytes:
    """A field of type ``S``. The name is at most 255 octets."""
    octets = text.encode()
    return b"%c%bS%b%b" % (len(name), name.encode(), _SIZE.pack(len(octets)), octets)
