"""A published message and the address it was published to.

Made by ``amqp.publishing`` once per publish and shared by every queue entry that refers to it.
The content stays as it came from the wire: one header frame and, if there is a body, one body
frame, framed for the channel it arrived on. A delivery on a channel of the same number sends these
octets as they are; everything else (properties, headers, body) is cut out of them on demand.

Invariant: ``content`` never changes after construction.                                     [hot]
"""

from __future__ import annotations

from typing import Final

from hareline.wire.encoder import header_frame, short_string
from hareline.wire.properties import (
    Properties,
    decode_header,
    decode_priority,
    decode_properties,
    replace_headers,
    with_integer_header,
)
from hareline.wire.property_parts import PropertyParts, take_apart
from hareline.wire.table import Table, Timestamp, decode_table_body, encode_table

__all__ = [  # with what the broker, who does not know the wire, needs to write headers
    "Address",
    "BlindAddress",
    "DeadLetter",
    "ExpiringMessage",
    "Message",
    "PropertyParts",
    "Table",
    "Timestamp",
    "decode_fields",
    "encode_fields",
]

_FRAME_HEAD: Final = 7
_PROPERTIES_START: Final = 19  # frame head 7, class 2, weight 2, body size 8
_TABLE_LENGTH_SIZE: Final = 4
_NO_HEADERS: Final = Table()


class Address:
    """Exchange and routing key of a publish, with their octets as deliver and return carry them.

    ``octets`` is shortstr(exchange) + shortstr(routing key). Addresses are interned per virtual
    host, so encoders may use identity as a cache key. ``blind_keys``: see ``BlindAddress``.
    """

    blind_keys: tuple[str, ...] = ()

    __slots__ = ("exchange", "octets", "routing_key")

    def __init__(self, exchange: str, routing_key: str, octets: bytes) -> None:
        self.exchange = exchange
        self.routing_key = routing_key
        self.octets = octets

    @classmethod
    def of(cls, exchange: str, routing_key: str) -> Address:
        """Both of at most 255 octets. Not interned: who makes one keeps it while it is of use."""
        octets = short_string(exchange) + short_string(routing_key)
        return Address(exchange, routing_key, octets)

    def __repr__(self) -> str:
        return f"Address({self.exchange!r}, {self.routing_key!r})"


class BlindAddress(Address):
    """An address that also had BCC keys.

    Nobody is shown them and the header is gone from the message, but as a dead letter the message
    is routed by them again. Not interned.
    """

    __slots__ = ("blind_keys",)

    def __init__(self, address: Address, blind_keys: tuple[str, ...]) -> None:
        super().__init__(address.exchange, address.routing_key, address.octets)
        self.blind_keys = blind_keys


class Message:
    """One published message.

    ``content``: header frame, then (size > 0) one body frame with the whole body; the body frame
    may exceed any negotiated frame_max and is then cut by the encoder.
    ``header_size``: octets of the header frame. ``size``: octets of the body.
    ``channel``: the channel number written in both frames. ``arrival_ms``: epoch milliseconds.
    ``expires_at_ms``: what its expiration comes to in epoch milliseconds, 0 = none; constant here,
    see ``ExpiringMessage``. ``history_size`` and ``is_from_default``: see ``DeadLetter``.
    """

    expires_at_ms: int = 0
    history_size: int = 0
    is_from_default: bool = False

    __slots__ = (
        "_properties",
        "address",
        "arrival_ms",
        "channel",
        "content",
        "header_size",
        "size",
    )

    def __init__(
        self,
        address: Address,
        content: bytes,
        header_size: int,
        size: int,
        channel: int,
        arrival_ms: int,
    ) -> None:
        self.address = address
        self.content = content
        self.header_size = header_size
        self.size = size
        self.channel = channel
        self.arrival_ms = arrival_ms
        self._properties: Properties | None = None

    @property
    def property_octets(self) -> bytes:
        """The property flags and property list, verbatim."""
        return self.content[_PROPERTIES_START : self.header_size - 1]

    @property
    def body(self) -> bytes:
        if self.size == 0:
            return b""
        start = self.header_size + _FRAME_HEAD
        return self.content[start : start + self.size]

    @property
    def properties(self) -> Properties:
        """Decoded on first use, then kept. Raises MalformedFrame for octets that are none."""
        properties = self._properties
        if properties is None:
            properties = self._properties = decode_properties(self.property_octets)
        return properties

    def forget_properties(self) -> None:
        """Drop the decoded form; it comes back when it is asked for."""
        self._properties = None

    @property
    def headers(self) -> Table:
        """The headers table, empty when the message has none."""
        headers = self.properties.headers
        return _NO_HEADERS if headers is None else headers

    @property
    def parts(self) -> PropertyParts:
        """The property octets, cut for whoever writes other headers. Raises MalformedFrame."""
        return take_apart(self.content[_PROPERTIES_START : self.header_size - 1])

    @property
    def priority(self) -> int | None:
        """The priority alone, 0 to 255 or None, at a fraction of the cost of ``properties``.

        Raises MalformedFrame where the octets end before it.
        """
        return decode_priority(self.content[_PROPERTIES_START : self.header_size - 1])

    def header(self, name: str) -> object:
        """One value of the headers table, None where there is none; the others are not decoded.

        Raises MalformedFrame where the octets before it, or its own, are none of a table.
        """
        properties = self._properties
        if properties is not None:
            return None if properties.headers is None else properties.headers.get(name)
        return decode_header(self.content[_PROPERTIES_START : self.header_size - 1], name)

    def with_properties(self, property_octets: bytes, address: Address | None = None) -> Message:
        """The same body with other properties, and for another address if one is given.

        Arrival stays; an expiration does not (who keeps one makes an ``ExpiringMessage``).
        """
        header = header_frame(self.channel, property_octets, self.size)
        return Message(
            address or self.address,
            header + self.content[self.header_size :],
            len(header),
            self.size,
            self.channel,
            self.arrival_ms,
        )

    def with_header(self, name: str, number: int) -> Message:
        """The same message with this header, a 64-bit integer (``l``), in place of its namesake."""
        octets = with_integer_header(self.property_octets, name.encode(), number)
        changed = self.with_properties(octets)
        return changed.expiring_at(self.expires_at_ms) if self.expires_at_ms else changed

    def without_header(self, name: str) -> Message:
        """The same message without the header of this name."""
        headers = Table(self.headers)
        self.forget_properties()
        if name not in headers:
            return self
        del headers[name]
        changed = self.with_properties(replace_headers(self.property_octets, headers))
        return changed.expiring_at(self.expires_at_ms) if self.expires_at_ms else changed

    def expiring_at(self, expires_at_ms: int) -> ExpiringMessage:
        """The same message with a time to live."""
        return ExpiringMessage(self, expires_at_ms)

    def __repr__(self) -> str:
        return f"<Message to {self.address!r}, {self.size} octets>"


class ExpiringMessage(Message):
    """A message with an expiration; the others have no room for one."""

    __slots__ = ("expires_at_ms",)

    def __init__(self, message: Message, expires_at_ms: int) -> None:
        super().__init__(
            message.address,
            message.content,
            message.header_size,
            message.size,
            message.channel,
            message.arrival_ms,
        )
        self.expires_at_ms = expires_at_ms


class DeadLetter(Message):
    """A message that has died in a queue of this broker.

    ``history_size``: how many octets at the end of its headers table the broker wrote, its deaths;
    those that a client wrote into any other message count for nothing. ``is_from_default``: it was
    published to the virtual host's default dead-letter exchange, where nothing goes twice.
    """

    __slots__ = ("history_size", "is_from_default")

    def __init__(
        self,
        message: Message,
        property_octets: bytes,
        address: Address,
        arrival_ms: int,
        history_size: int,
        *,
        is_from_default: bool = False,
    ) -> None:
        """The body of ``message`` with other properties, published to ``address`` just now."""
        header = header_frame(message.channel, property_octets, message.size)
        self.address = address
        self.content = header + message.content[message.header_size :]
        self.header_size = len(header)
        self.size = message.size
        self.channel = message.channel
        self.arrival_ms = arrival_ms
        self._properties = None
        self.history_size = history_size
        self.is_from_default = is_from_default

    def with_properties(self, property_octets: bytes, address: Address | None = None) -> DeadLetter:
        return DeadLetter(
            self,
            property_octets,
            address or self.address,
            self.arrival_ms,
            self.history_size,
            is_from_default=self.is_from_default,
        )


def decode_fields(octets: bytes) -> Table:
    """A headers table from its octets without the length (``PropertyParts.fields``).

    Raises MalformedFrame.
    """
    return decode_table_body(octets)


def encode_fields(table: Table) -> bytes:
    """The reverse of ``decode_fields``. Raises ValueError for a value its type cannot hold."""
    return encode_table(table)[_TABLE_LENGTH_SIZE:]
