"""Publishes whose properties ask for something: user-id, expiration, CC and BCC, direct reply-to.

So do the headers by which a producer numbers its messages. Properties are inspected that
``wire.plain_properties`` does not call plain.                                               [hot]
"""

from __future__ import annotations

import struct
from struct import Struct
from typing import Final

from hareline.amqp.client import Client
from hareline.amqp.reply_to import REPLY_TO_NAME, ReplyConsumer
from hareline.auth.users import UserRegistry
from hareline.broker.producers import PublishNumber
from hareline.clock import Clock
from hareline.errors import PreconditionFailed
from hareline.message import TRANSIENT, UNWRITTEN, BlindAddress, Message
from hareline.queues.policies.expiry import expires_at_ms
from hareline.wire.constants import (
    FLAG_CONTENT_ENCODING,
    FLAG_CONTENT_TYPE,
    FLAG_HEADERS,
    SHORTSTR_MAX_OCTETS,
)
from hareline.wire.plain_properties import COPIES, NUMBER, PRODUCER_MARK, plain_expiration, walk
from hareline.wire.properties import (
    decode_delivery_mode,
    decode_header,
    decode_headers,
    replace_headers,
    replace_reply_to,
)
from hareline.wire.table import Table, Timestamp, kind_of, type_name

PRODUCER_ID: Final = "x-producer-id"
PRODUCER_SEQUENCE: Final = "x-producer-seq"

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
# Properties that only set an expiration, remembered by a channel. Short ones: those with an id
# never come again.
EXPIRATIONS_MAX: Final = 256
REMEMBERED_OCTETS_MAX: Final = 256

HEADER_SIZE_BARE: Final = 22  # of a header frame with no properties at all

_PERSISTENT: Final = 2
_ASKS_FOR_MORE: Final = -1


#: The message to enqueue, the keys of CC and BCC, and its number if it has one.
Inspected = tuple[Message, list[str], PublishNumber | None]


def publish_number(octets: bytes) -> PublishNumber | None:
    """The number in these properties, None if they have neither header.

    Hardly two messages of such a publisher have the same table, so only the two headers are
    decoded; where they come first, as most clients send them, they are read by their places.

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
    if len(octets) > SHORTSTR_MAX_OCTETS:
        raise PreconditionFailed(
            f"header '{PRODUCER_ID}' has {len(octets)} octets, at most {SHORTSTR_MAX_OCTETS} "
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


class Inspection:
    """Looks at the publishes of one channel. ``user_id``: what needs no further look in them."""

    __slots__ = ("_client", "_clock", "_expirations", "_reply_to", "_user_id", "_users")

    def __init__(
        self,
        client: Client,
        users: UserRegistry,
        clock: Clock,
        user_id: bytes,
        reply_to: ReplyConsumer,
    ) -> None:
        self._client = client
        self._users = users
        self._clock = clock
        self._user_id = user_id
        self._reply_to = reply_to
        self._expirations: dict[bytes, int] = {}  # by properties that ask for nothing else

    def inspect(self, message: Message, flags: int) -> Inspected:
        """Check what the properties ask for; see ``Inspected`` for what is returned.

        Raises MalformedFrame for octets that are no properties, PreconditionFailed for values that
        are refused.
        """
        if not flags and message.header_size == HEADER_SIZE_BARE:
            return message, [], None
        octets = message.property_octets
        expiration_ms = self._expiration_ms(octets)
        if expiration_ms != _ASKS_FOR_MORE:
            now_ms = self._clock.now_ms
            return message.expiring_at(expires_at_ms(expiration_ms, now_ms)), [], None
        number = None
        if flags & FLAG_HEADERS:
            if PRODUCER_MARK in octets:
                number = publish_number(octets)
                if number is not None and walk(octets, self._user_id, NUMBER):
                    return message, [], number
            elif walk(octets, self._user_id, COPIES):
                headers = decode_headers(octets)
                if "BCC" not in headers:
                    return message, array_keys(headers, "CC"), None
        properties = message.properties
        is_plain = properties.user_id is None
        if properties.user_id is not None:
            user = self._client.user
            assert user is not None
            self._users.check_user_id(user, properties.user_id)
        if properties.expiration is not None:
            expiration_ms = parse_expiration(properties.expiration)
            is_plain = False
        address = message.address
        extra_keys: list[str] = []
        if properties.headers is not None:
            headers = properties.headers
            extra_keys, blind_keys = array_keys(headers, "CC"), array_keys(headers, "BCC")
            extra_keys += blind_keys
            if "BCC" in headers:
                headers = Table(headers)
                del headers["BCC"]
                octets = replace_headers(octets, headers)
                address = BlindAddress(address, tuple(blind_keys))
            is_plain = is_plain and not extra_keys and address is message.address
        if properties.reply_to == REPLY_TO_NAME:
            octets = replace_reply_to(octets, self._reply_to.address())
            is_plain = False
        if is_plain:
            return message, extra_keys, number
        changed = message.replace(properties=octets, address=address)
        if expiration_ms != _ASKS_FOR_MORE:
            changed = changed.expiring_at(expires_at_ms(expiration_ms, self._clock.now_ms))
        return changed, extra_keys, number

    def _expiration_ms(self, octets: bytes) -> int:
        """The expiration of properties that ask for nothing else, or _ASKS_FOR_MORE.

        Raises PreconditionFailed for one that is no number. Few are ever used, so they are
        remembered with the properties that they stand in.
        """
        known = self._expirations.get(octets)
        if known is not None:
            return known
        expiration = plain_expiration(octets, self._user_id)
        if expiration is None:
            return _ASKS_FOR_MORE
        expiration_ms = parse_expiration(expiration)
        if len(octets) <= REMEMBERED_OCTETS_MAX:
            if len(self._expirations) >= EXPIRATIONS_MAX:
                self._expirations.clear()
            self._expirations[octets] = expiration_ms
        return expiration_ms


def initial_position(octets: bytes) -> int:
    """UNWRITTEN for properties with delivery-mode 2 (persistent), TRANSIENT for all others.

    Raises MalformedFrame where the octets end before it.
    """
    return UNWRITTEN if decode_delivery_mode(octets) == _PERSISTENT else TRANSIENT


def parse_expiration(expiration: str) -> int:
    """Raise PreconditionFailed unless this is a whole number of milliseconds, 0 or more.

    Any size is legal, see ``expires_at_ms``.
    """
    digits = expiration[1:] if expiration[:1] in ("-", "+") else expiration
    length = len(digits) - len(digits.lstrip("0123456789"))
    if length == 0:
        problem = "no_integer"
    elif length < len(digits):
        problem = f'{{leftover_string,"{digits[length:]}"}}'
    elif expiration[0] == "-" and int(digits):
        problem = f"{{value_negative,-{int(digits)}}}"
    else:
        return int(digits)
    raise PreconditionFailed(f"invalid expiration '{expiration}': {problem}")


def array_keys(headers: Table, name: str) -> list[str]:
    """The strings in a header that must be an array. Raises PreconditionFailed for another type."""
    if name not in headers:
        return []
    value = headers[name]
    if not isinstance(value, list):
        raise _unacceptable(name, value)
    return [key for key in value if isinstance(key, str)]


def _unacceptable(name: str, value: object) -> PreconditionFailed:
    kind = type_name(kind_of(value))
    return PreconditionFailed(f'invalid message: {{unacceptable_type_in_header,"{name}",{kind}}}')
