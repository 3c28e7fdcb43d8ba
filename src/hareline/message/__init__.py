"""Messages, their addresses, and where their contents are.

``message`` has the message itself, ``address`` where it was published to, ``stored`` a message
whose content is on disk, ``large_body`` bodies in files, ``headers`` the octets of header tables.
Other packages import these names from here; the modules of this package import one another.
"""

from hareline.message.address import Address, BlindAddress, Publisher, PublisherAddress
from hareline.message.headers import (
    PropertyParts,
    SignedInt,
    Table,
    Timestamp,
    decode_fields,
    decode_priority,
    encode_fields,
    kind_of,
    type_name,
)
from hareline.message.large_body import BodyReader, LargeBody
from hareline.message.message import (
    PROPERTIES_START,
    TRANSIENT,
    UNWRITTEN,
    Extras,
    Facts,
    Message,
    broker_message,
    dead_letter,
    large_message,
    made_message,
    stored_bytes,
    trace_copy,
)
from hareline.message.stored import ContentSource, StoredMessage

__all__ = [
    "PROPERTIES_START",
    "TRANSIENT",
    "UNWRITTEN",
    "Address",
    "BlindAddress",
    "BodyReader",
    "ContentSource",
    "Extras",
    "Facts",
    "LargeBody",
    "Message",
    "PropertyParts",
    "Publisher",
    "PublisherAddress",
    "SignedInt",
    "StoredMessage",
    "Table",
    "Timestamp",
    "broker_message",
    "dead_letter",
    "decode_fields",
    "decode_priority",
    "encode_fields",
    "kind_of",
    "large_message",
    "made_message",
    "stored_bytes",
    "trace_copy",
    "type_name",
]
