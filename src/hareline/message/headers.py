"""The wire format of message headers, for layers that know nothing else of the wire.

Dead-lettering and the store read and write a headers table, its octets, and the property octets cut
into parts by this module. Encoding keeps the type of every value that was decoded.
"""

from __future__ import annotations

from typing import Final

from hareline.wire.properties import decode_priority
from hareline.wire.property_parts import PropertyParts
from hareline.wire.table import (
    SignedInt,
    Table,
    Timestamp,
    decode_table_body,
    encode_table,
    kind_of,
    type_name,
)

__all__ = [
    "PropertyParts",
    "SignedInt",
    "Table",
    "Timestamp",
    "decode_fields",
    "decode_priority",
    "encode_fields",
    "kind_of",
    "type_name",
]

_LENGTH_SIZE: Final = 4  # a table begins with its length


def decode_fields(octets: bytes) -> Table:
    """A headers table from its octets without the length (``PropertyParts.fields``).

    Raises MalformedFrame.
    """
    return decode_table_body(octets)


def encode_fields(table: Table) -> bytes:
    """The octets of a headers table without the length.

    Raises ValueError for a value that its type cannot hold.
    """
    return encode_table(table)[_LENGTH_SIZE:]
