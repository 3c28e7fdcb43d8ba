"""A published message and the address it was published to.

Made by ``amqp.publishing`` once per publish and shared by every queue entry that refers to it.
The content stays as it came from the wire: one header frame and, if there is a body, one body
frame, framed for the channel it arrived on. A delivery on a channel of the same number sends these
octets as they are; everything else (properties, headers, body) is cut out of them on demand. The
body of a large message is in a file of its own, and its content is the header frame alone.

Invariant: ``content`` never changes after construction.                                     [hot]
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from copy import copy
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
    "PROPERTIES_START",
    "Address",
    "BlindAddress",
    "BodyReader",
    "ContentSource",
    "DeadLetter",
    "ExpiringMessage",
    "LargeBody",
    "LargeMessage",
    "Message",
    "PropertyParts",
    "SpooledMessage",
    "StoredMessage",
    "Table",
    "Timestamp",
    "dead_letter",
    "decode_fields",
    "decode_priority",
    "encode_fields",
]

_FRAME_HEAD: Final = 7
PROPERTIES_START: Final = 19  # frame head 7, class 2, weight 2, body size 8
_TABLE_LENGTH_SIZE: Final = 4
_NO_HEADERS: Final = Table()

# ``Message.position`` of a message that is not in a store; above 0 it is where it stands there.
TRANSIENT: Final = 0
UNWRITTEN: Final = -1  # persistent, and not written yet


class Publisher:
    """A connection, as the messages show it that it published; it may be gone.

    ``client_id``: the JMS client id, "" for none.
    """

    __slots__ = ("client_id",)

    def __init__(self, client_id: str = "") -> None:
        self.client_id = client_id

    def __repr__(self) -> str:
        return f"<Publisher {self.client_id!r} {id(self):#x}>"


class Address:
    """Exchange and routing key of a publish, with their octets as deliver and return carry them.

    ``octets`` is shortstr(exchange) + shortstr(routing key). Addresses are interned per virtual
    host, so encoders may use identity as a cache key. ``blind_keys``: see ``BlindAddress``.
    ``publisher``: see ``PublisherAddress``; None where nobody asks who published.
    """

    blind_keys: tuple[str, ...] = ()
    publisher: Publisher | None = None

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


class PublisherAddress(Address):
    """An address as one connection publishes to it, for consumers that do not want their own.

    Not interned; a message that comes back from disk has the interned one.
    """

    __slots__ = ("publisher",)

    def __init__(self, address: Address, publisher: Publisher | None) -> None:
        super().__init__(address.exchange, address.routing_key, address.octets)
        self.publisher = publisher


class BlindAddress(PublisherAddress):
    """An address that also had BCC keys.

    Nobody is shown them and the header is gone from the message, but as a dead letter the message
    is routed by them again. Not interned.
    """

    __slots__ = ("blind_keys",)

    def __init__(self, address: Address, blind_keys: tuple[str, ...]) -> None:
        super().__init__(address, address.publisher)
        self.blind_keys = blind_keys


class BodyReader(ABC):
    """One reading of a large body, from its beginning on."""

    __slots__ = ()

    @abstractmethod
    def read(self, size: int) -> bytes:
        """The next ``size`` octets, at the end those that are left.

        Raises StoreError; with the last octets also when they are not what was written.
        """


class LargeBody(ABC):
    """A body that is in a file. It is shared by all messages that have it, and is gone when none
    of them and nothing in the store refers to it any more.

    ``large_id``: what records call it by, above 0. ``size``: its octets.
    """

    __slots__ = ("__weakref__", "large_id", "size")

    def __init__(self, large_id: int, size: int) -> None:
        self.large_id = large_id
        self.size = size

    @abstractmethod
    def open(self) -> BodyReader:
        """Begin to read; the body must be referred to until the reading ends."""

    @abstractmethod
    def sync(self) -> None:
        """Make it durable, in the thread that syncs; nothing if it is. Raises OSError."""


class Message:
    """One published message.

    ``content``: header frame, then (size > 0) one body frame with the whole body; the body frame
    may exceed any negotiated frame_max and is then cut by the encoder.
    ``header_size``: octets of the header frame. ``size``: octets of the body.
    ``channel``: the channel number written in both frames. ``arrival_ms``: epoch milliseconds.
    ``expires_at_ms``: what its expiration comes to in epoch milliseconds, 0 = none; constant here,
    see ``ExpiringMessage``. ``history_size`` and ``is_from_default``: see ``DeadLetter``.
    ``large``: see ``LargeMessage``.
    ``position``: where the store has it; TRANSIENT and UNWRITTEN are none. One message has one
    position, in however many queues it is.
    """

    expires_at_ms: int = 0
    history_size: int = 0
    is_from_default: bool = False
    large: LargeBody | None = None

    __slots__ = (
        "_properties",
        "address",
        "arrival_ms",
        "channel",
        "content",
        "header_size",
        "position",
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
        position: int = TRANSIENT,
    ) -> None:
        self.address = address
        self.content = content
        self.header_size = header_size
        self.size = size
        self.channel = channel
        self.arrival_ms = arrival_ms
        self.position = position
        self._properties: Properties | None = None

    @property
    def property_octets(self) -> bytes:
        """The property flags and property list, verbatim."""
        return self.content[PROPERTIES_START : self.header_size - 1]

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
        return take_apart(self.content[PROPERTIES_START : self.header_size - 1])

    @property
    def priority(self) -> int | None:
        """The priority alone, 0 to 255 or None, at a fraction of the cost of ``properties``.

        Raises MalformedFrame where the octets end before it.
        """
        return decode_priority(self.content[PROPERTIES_START : self.header_size - 1])

    def header(self, name: str) -> object:
        """One value of the headers table, None where there is none; the others are not decoded.

        Raises MalformedFrame where the octets before it, or its own, are none of a table.
        """
        properties = self._properties
        if properties is not None:
            return None if properties.headers is None else properties.headers.get(name)
        return decode_header(self.content[PROPERTIES_START : self.header_size - 1], name)

    def with_properties(self, property_octets: bytes, address: Address | None = None) -> Message:
        """The same body with other properties, and for another address if one is given.

        Arrival stays; an expiration does not (who keeps one makes an ``ExpiringMessage``), nor does
        a position: this is another message to the store.
        """
        header = header_frame(self.channel, property_octets, self.size)
        return Message(
            address or self.address,
            header + self.content[self.header_size :],
            len(header),
            self.size,
            self.channel,
            self.arrival_ms,
            UNWRITTEN if self.position else TRANSIENT,
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

    def unwritten(self) -> Message:
        """The same message, to be stored once more, whatever its position is."""
        if type(self) is Message:  # copy takes some microseconds
            return Message(
                self.address,
                self.content,
                self.header_size,
                self.size,
                self.channel,
                self.arrival_ms,
                UNWRITTEN,
            )
        twin = copy(self)
        twin.position = UNWRITTEN
        return twin

    def expiring_at(self, expires_at_ms: int) -> Message:
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
            message.position,
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
        self.position = UNWRITTEN if message.position else TRANSIENT
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


class LargeMessage(Message):
    """A message whose body is not in memory; copies with other properties have the same body.

    ``content`` is the header frame alone, and ``channel`` 0, the number of no channel that messages
    are delivered on, so that nobody takes the content for the whole. The other fields are those of
    an ``ExpiringMessage`` and of a ``DeadLetter``, for a large message may be any of these.
    """

    large: LargeBody

    __slots__ = ("expires_at_ms", "history_size", "is_from_default", "large")

    def __init__(
        self,
        address: Address,
        header: bytes,
        large: LargeBody,
        arrival_ms: int,
        position: int = TRANSIENT,
        *,
        history_size: int = 0,
        is_from_default: bool = False,
    ) -> None:
        """``header``: the header frame, of whatever channel."""
        super().__init__(address, header, len(header), large.size, 0, arrival_ms, position)
        self.expires_at_ms = 0
        self.history_size = history_size
        self.is_from_default = is_from_default
        self.large = large

    @property
    def body(self) -> bytes:
        """All of it in memory, which is what a large message is there to avoid."""
        return self.large.open().read(self.size)

    def with_properties(
        self, property_octets: bytes, address: Address | None = None
    ) -> LargeMessage:
        return LargeMessage(
            address or self.address,
            header_frame(0, property_octets, self.size),
            self.large,
            self.arrival_ms,
            UNWRITTEN if self.position else TRANSIENT,
            history_size=self.history_size,
            is_from_default=self.is_from_default,
        )

    def expiring_at(self, expires_at_ms: int) -> LargeMessage:
        twin = copy(self)
        twin.expires_at_ms = expires_at_ms
        return twin


class ContentSource(ABC):
    """Where contents are that have left memory, by position."""

    __slots__ = ()

    @abstractmethod
    def content(self, position: int) -> bytes:
        """``Message.content`` of what is there. Raises StoreError."""

    @abstractmethod
    def read(self, position: int) -> Message:
        """The whole message. Raises StoreError."""

    @abstractmethod
    def drop_spooled(self, position: int) -> None:
        """It is needed no more."""


class StoredMessage(Message):
    """A message whose content is not in memory; who asks for it, or a part of it, reads the disk.

    ``stored_at``: where it is read, a position as ``source`` knows them. It is the same as
    ``position`` for what the store keeps anyway; ``position`` says what it always does. All else is
    as in the message it stands for, which was of any class.
    """

    __slots__ = ("_source", "expires_at_ms", "history_size", "is_from_default", "stored_at")

    def __init__(self, message: Message, source: ContentSource, stored_at: int) -> None:
        self.address = message.address
        self.header_size = message.header_size
        self.size = message.size
        self.channel = message.channel
        self.arrival_ms = message.arrival_ms
        self.position = message.position
        self.expires_at_ms = message.expires_at_ms
        self.history_size = message.history_size
        self.is_from_default = message.is_from_default
        self.stored_at = stored_at
        self._source = source
        self._properties = None

    @property
    def content(self) -> bytes:  # type: ignore[override] # read-only: it never changes
        return self._source.content(self.stored_at)

    def with_properties(self, property_octets: bytes, address: Address | None = None) -> Message:
        """Of the class that it was."""
        whole = self._source.read(self.stored_at)
        return whole.with_properties(property_octets, address)

    def __copy__(self) -> Message:
        """Whole, since what it is copied for may outlive what is stored."""
        return self._source.read(self.stored_at)


class SpooledMessage(StoredMessage):
    """A stored message that is on disk for its own sake; gone from there when this object is."""

    __slots__ = ()

    def __del__(self) -> None:
        self._source.drop_spooled(self.stored_at)


def dead_letter(
    message: Message,
    property_octets: bytes,
    address: Address,
    arrival_ms: int,
    history_size: int,
    *,
    is_from_default: bool = False,
) -> DeadLetter | LargeMessage:
    """The body of ``message`` as one that has died; the rest is as in ``DeadLetter``."""
    if message.large is None:
        return DeadLetter(
            message,
            property_octets,
            address,
            arrival_ms,
            history_size,
            is_from_default=is_from_default,
        )
    return LargeMessage(
        address,
        header_frame(0, property_octets, message.size),
        message.large,
        arrival_ms,
        UNWRITTEN if message.position else TRANSIENT,
        history_size=history_size,
        is_from_default=is_from_default,
    )


def decode_fields(octets: bytes) -> Table:
    """A headers table from its octets without the length (``PropertyParts.fields``).

    Raises MalformedFrame.
    """
    return decode_table_body(octets)


def encode_fields(table: Table) -> bytes:
    """The reverse of ``decode_fields``. Raises ValueError for a value its type cannot hold."""
    return encode_table(table)[_TABLE_LENGTH_SIZE:]
