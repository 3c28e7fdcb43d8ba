"""The number that a producer gives a message, read from its headers, and what answers a duplicate.

Called by ``amqp.inspection`` for publishes in whose properties ``PRODUCER_MARK`` occurs. Hardly two
messages of such a publisher have the same table, so nothing is decoded but the two headers; where
they come first in the table, as most clients send them, they are read by their places.        [hot]
"""

from __future__ import annotations

import struct
from struct import Struct
from typing import Final

from hareline.amqp.confirms import Confirms
from hareline.amqp.delivery_port import DeliveryPort
from hareline.broker.producers import Producers, PublishNumber
from hareline.errors import PreconditionFailed
from hareline.wire.constants import FLAG_CONTENT_ENCODING, FLAG_CONTENT_TYPE, FLAG_HEADERS
from hareline.wire.properties import decode_header, decode_headers
from hareline.wire.table import Timestamp, kind_of, type_name

PRODUCER_ID: Final = "x-producer-id"
PRODUCER_SEQUENCE: Final = "x-producer-seq"
PRODUCER_ID_MAX_OCTETS: Final = 255

_CONTENT_TYPE: Final = FLAG_CONTENT_TYPE >> 8  # in the first octet of the flags
_HEADERS: Final = FLAG_HEADERS >> 8
_CONTENT_ENCODING: Final = FLAG_CONTENT_ENCODING >> 8
# What a table begins with in which the two headers come first: up to the last octet of the id's
# size, and the second name.
_ID_FIELD: Final = b"\x0dx-producer-idS\0\0\0"
_SEQUENCE_NAME: Final = b"\x0ex-producer-seq"
_HEADERS_AT: Final = 6  # behind flags and size, if nothing stands in front of the headers
_INTEGERS: Final = {
    ord(kind): Struct(f">{code}").unpack_from
    for kind, code in zip("bBsuIilL", "bBhHiIqq", strict=True)
}


def publish_number(octets: bytes) -> PublishNumber | None:
    """The number in these properties, None if they have neither header.

    Raises PreconditionFailed for one header without the other and for invalid values,
    MalformedFrame for octets that are no table.
    """
    try:
        start = _HEADERS_AT
        if octets[0] & _CONTENT_TYPE:
            start += 1 + octets[start - 4]
        if octets[0] & _CONTENT_ENCODING:
            start += 1 + octets[start - 4]
        if octets[0] & _HEADERS and octets.startswith(_ID_FIELD, start):
            id_start = start + len(_ID_FIELD) + 1
            id_end = id_start + octets[id_start - 1]
            if id_end > id_start and octets.startswith(_SEQUENCE_NAME, id_end):
                kind_at = id_end + len(_SEQUENCE_NAME)
                (sequence,) = _INTEGERS[octets[kind_at]](octets, kind_at + 1)
                if sequence >= 0:
                    return PublishNumber(octets[id_start:id_end], sequence)
    except (IndexError, KeyError, struct.error):  # something is wrong: say what, below
        pass
    producer_id = decode_header(octets, PRODUCER_ID)
    number = decode_header(octets, PRODUCER_SEQUENCE)
    if producer_id is None or number is None:
        headers = decode_headers(octets)
        if PRODUCER_ID not in headers and PRODUCER_SEQUENCE not in headers:
            return None
        for name, other in ((PRODUCER_ID, PRODUCER_SEQUENCE), (PRODUCER_SEQUENCE, PRODUCER_ID)):
            if name not in headers:
                raise PreconditionFailed(f"header '{other}' needs '{name}' beside it")
    return PublishNumber(_checked_id(producer_id), _checked_sequence(number))


def _checked_id(value: object) -> bytes:
    if not isinstance(value, str):
        raise PreconditionFailed(
            f"header '{PRODUCER_ID}' must be text, not of type {type_name(kind_of(value))}"
        )
    octets = value.encode("utf-8", "surrogateescape")
    if not octets:
        raise PreconditionFailed(f"header '{PRODUCER_ID}' must not be empty")
    if len(octets) > PRODUCER_ID_MAX_OCTETS:
        raise PreconditionFailed(
            f"header '{PRODUCER_ID}' has {len(octets)} octets, at most {PRODUCER_ID_MAX_OCTETS} "
            "are allowed"
        )
    return octets


def _checked_sequence(value: object) -> int:
    if isinstance(value, bool | Timestamp) or not isinstance(value, int):
        raise PreconditionFailed(
            f"header '{PRODUCER_SEQUENCE}' must be an integer, not of type "
            f"{type_name(kind_of(value))}"
        )
    if value < 0:
        raise PreconditionFailed(f"header '{PRODUCER_SEQUENCE}' must be 0 or more, not {value}")
    return int(value)


def answer_duplicate(
    number: PublishNumber, producers: Producers, port: DeliveryPort, confirms: Confirms | None
) -> bool | None:
    """Confirm or refuse a duplicate, and return which; None for a message that is new.

    It is confirmed when its original is durable, and refused where that is not known.
    """
    original = producers.find(number)
    if original is None:
        return None
    is_safe = producers.is_safe(original)
    port.counting().publish += 1
    if confirms is not None:
        confirms.sequence += 1
        if not is_safe:
            confirms.refuse()
        elif original.ticket > confirms.ticket:
            confirms.ticket = original.ticket
        if not confirms.is_marked:
            confirms.mark()
    return is_safe
