"""Published messages; every queue entry of a message shares one object.                     [hot]

The content stays as it came from the wire: a header frame and, unless the body is empty or in a
file (``hareline.message.large_body``), one body frame, framed for its channel. Deliveries on a
channel of that number send it as it is; properties and body are cut out on demand.
"""

from __future__ import annotations

from typing import ClassVar, Final

from hareline.message.address import Address
from hareline.message.large_body import LargeBody
from hareline.wire.encoder import body_frames, header_frame
from hareline.wire.properties import (
    Properties,
    decode_header,
    decode_headers,
    decode_priority,
    decode_properties,
    encode_properties,
    replace_headers,
    with_integer_header,
)
from hareline.wire.property_parts import PropertyParts, take_apart
from hareline.wire.table import Table, Timestamp

_FRAME_HEAD: Final = 7
PROPERTIES_START: Final = 19  # frame head 7, class 2, weight 2, body size 8
_NO_HEADERS: Final = Table()
# Broker-J counts a message's metadata as it stores it: the payload of the header frame (8 octets
# less than the frame), exchange and routing key as short strings, and 13 octets of other fields.
_METADATA_REST_BYTES: Final = 13 - 8

# What ``Message.position`` says of a message that is not written.
TRANSIENT: Final = 0
UNWRITTEN: Final = -1


class Extras:
    """Rare facts of a message, beyond the slots of every message.

    ``properties``: the decoded properties while they are of use. Most messages never have more; the
    facts are then these constants and cost no memory. Other messages have ``Facts``.

    ``expires_at_ms``: when the message expires, in epoch milliseconds; 0 = never.
    ``history_size``: how many octets at the end of the headers table the broker wrote, for the
    deaths of the message in its queues; 0 if it never died. What a client wrote into a header of
    such a name is not counted. ``is_from_default``: the message was published to the virtual host's
    default dead-letter exchange, where no message goes twice. ``large``: the body, if it is in a
    file.
    """

    __slots__ = ("properties",)

    properties: Properties | None
    expires_at_ms: int = 0
    history_size: int = 0
    is_from_default: bool = False
    large: LargeBody | None = None

    has_facts: ClassVar[bool] = False


class Facts(Extras):
    """Extras of a message that expires, has died, or has its body in a file.

    They belong to one message, and never change.
    """

    __slots__ = ("expires_at_ms", "history_size", "is_from_default", "large")

    has_facts = True

    def __init__(
        self,
        expires_at_ms: int = 0,
        history_size: int = 0,
        is_from_default: bool = False,
        large: LargeBody | None = None,
    ) -> None:
        self.properties = None
        self.expires_at_ms = expires_at_ms
        self.history_size = history_size
        self.is_from_default = is_from_default
        self.large = large


class Message:
    """One published message.

    ``content``: header frame, then (size > 0) one body frame with the whole body; the body frame
    may exceed any negotiated frame_max and is then cut by the encoder.
    ``header_size``: octets of the header frame. ``size``: octets of the body.
    ``channel``: the channel number written in both frames. It is 0, which no delivery has, if the
    body is in a file, so that the content is never sent as if it were the whole.
    ``arrival_ms``: epoch milliseconds.
    ``extras``: None for a plain message; a test of this is the cheap way to see that it has no time
    to live, no deaths and no body in a file.
    ``position``: where the journal has the message. A message has one position, in however many
    queues it is:

    =============  ================================================================================
    TRANSIENT, 0   not persistent: durable queues do not give it to the store, unless they keep all
    UNWRITTEN, -1  persistent, and not written: not yet, or no durable queue has it
    above 0        segment and offset of its record (``journal.format.positions``); it stays the
                   same when compaction moves the record
    =============  ================================================================================
    """

    __slots__ = (
        "address",
        "arrival_ms",
        "channel",
        "content",
        "extras",
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
        self.extras: Extras | None = None

    @property
    def property_octets(self) -> bytes:
        """The property flags and property list, verbatim."""
        return self.content[PROPERTIES_START : self.header_size - 1]

    @property
    def body(self) -> bytes:
        """The whole body; one in a file is read into memory, which it is there to avoid."""
        if self.size == 0:
            return b""
        large = self.large
        if large is not None:
            return large.open().read(self.size)
        start = self.header_size + _FRAME_HEAD
        return self.content[start : start + self.size]

    # ------------------------------------------------------- what only some have

    @property
    def expires_at_ms(self) -> int:
        """Time of expiry, in epoch milliseconds; 0 = never."""
        extras = self.extras
        return 0 if extras is None else extras.expires_at_ms

    @property
    def history_size(self) -> int:
        """See ``Extras``."""
        extras = self.extras
        return 0 if extras is None else extras.history_size

    @property
    def is_from_default(self) -> bool:
        """See ``Extras``."""
        extras = self.extras
        return extras is not None and extras.is_from_default

    @property
    def large(self) -> LargeBody | None:
        """The body if it is in a file, None if it is in ``content``."""
        extras = self.extras
        return None if extras is None else extras.large

    def facts(self) -> Facts | None:
        """A copy of the facts, for another message; None if there are none."""
        extras = self.extras
        if extras is None or not extras.has_facts:
            return None
        return Facts(
            extras.expires_at_ms, extras.history_size, extras.is_from_default, extras.large
        )

    # --------------------------------------------------- properties and headers

    @property
    def properties(self) -> Properties:
        """The decoded properties, kept until ``forget_properties``.

        Raises MalformedFrame for octets that are not valid properties.
        """
        extras = self.extras
        if extras is not None and extras.properties is not None:
            return extras.properties
        properties = decode_properties(self.property_octets)
        if extras is None:
            extras = self.extras = Extras()
        extras.properties = properties
        return properties

    def forget_properties(self) -> None:
        """Drop the decoded properties; they are decoded again when they are asked for."""
        extras = self.extras
        if extras is not None:
            if extras.has_facts:
                extras.properties = None
            else:
                self.extras = None

    @property
    def headers(self) -> Table:
        """The headers table, empty when the message has none; decoded alone, and not kept.

        Raises MalformedFrame if its octets, or those before it, are not valid in a table.
        """
        extras = self.extras
        if extras is not None and extras.properties is not None:
            headers = extras.properties.headers
            return _NO_HEADERS if headers is None else headers
        return decode_headers(self.content[PROPERTIES_START : self.header_size - 1])

    @property
    def parts(self) -> PropertyParts:
        """The property octets, cut for writing other headers. Raises MalformedFrame."""
        return take_apart(self.content[PROPERTIES_START : self.header_size - 1])

    @property
    def priority(self) -> int | None:
        """The priority, 0 to 255 or None, at a fraction of the cost of ``properties``.

        Raises MalformedFrame where the octets end before it.
        """
        return decode_priority(self.content[PROPERTIES_START : self.header_size - 1])

    def header(self, name: str) -> object:
        """One value of the headers table, None where there is none; the others are not decoded.

        Raises MalformedFrame if its octets, or those before it, are not valid in a table.
        """
        extras = self.extras
        if extras is not None and extras.properties is not None:
            headers = extras.properties.headers
            return None if headers is None else headers.get(name)
        return decode_header(self.content[PROPERTIES_START : self.header_size - 1], name)

    # ------------------------------------------------------------ other messages

    def replace(
        self, *, properties: bytes | None = None, address: Address | None = None
    ) -> Message:
        """A message with other property octets or another address, and all else as it is here.

        Body, arrival, time to live and history of deaths stay. The position does not: this is
        another message to the store.
        """
        content = self.content
        header_size = self.header_size
        if properties is not None:
            header = header_frame(self.channel, properties, self.size)
            content = header + content[header_size:]
            header_size = len(header)
        message = Message(
            address or self.address,
            content,
            header_size,
            self.size,
            self.channel,
            self.arrival_ms,
            UNWRITTEN if self.position else TRANSIENT,
        )
        message.extras = self.facts()
        return message

    def with_header(self, name: str, number: int) -> Message:
        """A message in which this header is ``number``: a boolean, or a 64-bit integer (``l``)."""
        if isinstance(number, bool):
            headers = Table(self.headers)
            headers[name] = number
            return self.with_headers(headers)
        octets = with_integer_header(self.property_octets, name.encode(), number)
        return self.replace(properties=octets)

    def without_header(self, name: str) -> Message:
        """A message without the header of this name; this one if it has none."""
        headers = Table(self.headers)
        if name not in headers:
            return self
        del headers[name]
        return self.with_headers(headers)

    def with_headers(self, headers: Table) -> Message:
        """A message with this headers table in the place of its own."""
        return self.replace(properties=replace_headers(self.property_octets, headers))

    def unwritten(self) -> Message:
        """A message that differs in its position only: it is to be stored once more."""
        message = Message(
            self.address,
            self.content,
            self.header_size,
            self.size,
            self.channel,
            self.arrival_ms,
            UNWRITTEN,
        )
        if self.extras is not None:
            message.extras = self.facts()
        return message

    def expiring_at(self, expires_at_ms: int) -> Message:
        """A message that differs in its time to live only; the position stays."""
        message = Message(
            self.address,
            self.content,
            self.header_size,
            self.size,
            self.channel,
            self.arrival_ms,
            self.position,
        )
        if self.extras is None:
            message.extras = Facts(expires_at_ms)
        else:
            facts = self.facts() or Facts()
            facts.expires_at_ms = expires_at_ms
            message.extras = facts
        return message

    def __repr__(self) -> str:
        return f"<Message to {self.address!r}, {self.size} octets>"


def large_message(
    address: Address, header: bytes, large: LargeBody, arrival_ms: int, position: int = TRANSIENT
) -> Message:
    """A message whose body is in a file. ``header``: the header frame, of any channel."""
    message = Message(address, header, len(header), large.size, 0, arrival_ms, position)
    message.extras = Facts(large=large)
    return message


def broker_message(
    address: Address,
    body: bytes,
    arrival_ms: int,
    *,
    content_type: str | None = None,
    headers: Table,
    timestamp: Timestamp | None = None,
) -> Message:
    """A persistent message of the broker's own."""
    properties = encode_properties(
        Properties(content_type=content_type, headers=headers, delivery_mode=2, timestamp=timestamp)
    )
    header = header_frame(0, properties, len(body))
    content = b"".join([header, *body_frames(body, 0, len(body))]) if body else header
    return Message(address, content, len(header), len(body), 0, arrival_ms, UNWRITTEN)


def made_message(
    address: Address, property_octets: bytes, body: bytes, arrival_ms: int, position: int
) -> Message:
    """A message that came by no channel: published or imported by an operator."""
    header = header_frame(0, property_octets, len(body))
    content = b"".join([header, *body_frames(body, 0, len(body))]) if body else header
    return Message(address, content, len(header), len(body), 0, arrival_ms, position)


def trace_copy(message: Message, headers: Table, address: Address, arrival_ms: int) -> Message:
    """A transient message with the body of another one, and no properties but these headers.

    Raises ValueError for headers that cannot be encoded, StoreError if the body cannot be read.
    """
    octets = encode_properties(Properties(headers=headers))
    header = header_frame(message.channel, octets, message.size)
    copy = Message(
        address,
        header + message.content[message.header_size :],
        len(header),
        message.size,
        message.channel,
        arrival_ms,
    )
    large = message.large
    if large is not None:
        copy.extras = Facts(large=large)
    return copy


def dead_letter(
    message: Message,
    property_octets: bytes,
    address: Address,
    arrival_ms: int,
    history_size: int,
    *,
    is_from_default: bool = False,
) -> Message:
    """The body of a message that died, with other properties, published to ``address`` just now.

    Its time to live is over, so it has none. The rest is as in ``Extras``.
    """
    header = header_frame(message.channel, property_octets, message.size)
    letter = Message(
        address,
        header + message.content[message.header_size :],
        len(header),
        message.size,
        message.channel,
        arrival_ms,
        UNWRITTEN if message.position else TRANSIENT,
    )
    letter.extras = Facts(0, history_size, is_from_default, message.large)
    return letter


def stored_bytes(message: Message) -> int:
    """Body and metadata of a message, as Broker-J counts them for its limits."""
    return message.size + message.header_size + len(message.address.octets) + _METADATA_REST_BYTES
