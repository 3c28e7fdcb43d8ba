"""A published message and the address it was published to.

Made by ``amqp.publishing`` once per publish and shared by every queue entry that refers to it.
The content stays as it came from the wire: one header frame and, if there is a body, one body
frame, framed for the channel it arrived on. A delivery on a channel of the same number sends these
octets as they are; everything else (properties, headers, body) is cut out of them on demand.

Invariant: ``content`` never changes after construction.                                     [hot]
"""

from __future__ import annotations

from typing import Final

from hareline.wire.properties import Properties, decode_properties
from hareline.wire.table import Table

_FRAME_HEAD: Final = 7
_PROPERTIES_START: Final = 19  # frame head 7, class 2, weight 2, body size 8
_NO_HEADERS: Final = Table()


class Address:
    """Exchange and routing key of a publish, with their octets as deliver and return carry them.

    ``octets`` is shortstr(exchange) + shortstr(routing key). Addresses are interned per virtual
    host, so encoders may use identity as a cache key.
    """

    __slots__ = ("exchange", "octets", "routing_key")

    def __init__(self, exchange: str, routing_key: str, octets: bytes) -> None:
        self.exchange = exchange
        self.routing_key = routing_key
        self.octets = octets

    def __repr__(self) -> str:
        return f"Address({self.exchange!r}, {self.routing_key!r})"


class Message:
    """One published message.

    ``content``: header frame, then (size > 0) one body frame with the whole body; the body frame
    may exceed any negotiated frame_max and is then cut by the encoder.
    ``header_size``: octets of the header frame. ``size``: octets of the body.
    ``channel``: the channel number written in both frames. ``arrival_ms``: epoch milliseconds.
    """

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

    def __repr__(self) -> str:
        return f"<Message to {self.address!r}, {self.size} octets>"
