"""Fields of a headers table in octets: taken out and added without decoding the others.

``rows`` takes out what the broker would take for another producer's; the replay takes out what
belonged to the first publish. Fields here are the octets of a table without its length.
Invariant: fields that stay are the same octets in the same order.
"""

from __future__ import annotations

from collections.abc import Collection
from struct import Struct
from struct import error as struct_error
from typing import Final

from hareline.spark.errors import InvalidRows
from hareline.wire.table import FIXED_SIZES

_SIZED: Final = frozenset(map(ord, "SxFA"))  # four octets of size in front
_SIZE: Final = Struct(">I")


def without_fields(fields: bytes, names: Collection[bytes]) -> bytes:
    """The fields but those of these names. Raises InvalidRows if they are not a table's."""
    kept: list[bytes] = []
    start = 0
    try:
        while start < len(fields):
            kind_at = start + 1 + fields[start]
            kind = fields[kind_at]
            if kind in _SIZED:
                end = kind_at + 5 + _SIZE.unpack_from(fields, kind_at + 1)[0]
            else:
                end = kind_at + 1 + FIXED_SIZES[kind]
            if end > len(fields):
                raise IndexError
            if fields[start + 1 : kind_at] not in names:
                kept.append(fields[start:end])
            start = end
    except (IndexError, KeyError, struct_error):
        raise InvalidRows(
            f"column 'headers_raw' is not an AMQP table: octet {start} does not begin a field"
        ) from None
    return b"".join(kept)


def text_field(name: str, text: str) -> bytes:
    """A field of type ``S``. The name is at most 255 octets."""
    octets = text.encode()
    return b"%c%bS%b%b" % (len(name), name.encode(), _SIZE.pack(len(octets)), octets)
