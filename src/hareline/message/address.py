"""Address of a message: exchange, routing key, and the connection that published it.         [hot]

``amqp.publishing`` makes one for each route, the reader of records one for what comes back from
disk; every message to the same place shares it. Encoders cache by its identity; it never changes.
"""

from __future__ import annotations

from hareline.wire.encoder import short_string


class Publisher:
    """Stands for the connection that published a message; the connection itself may be gone.

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
    ``publisher``: see ``PublisherAddress``; None where no consumer asks who published.
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
        """An address that is not interned; the caller keeps it while it is of use.

        Both names have at most 255 octets.
        """
        octets = short_string(exchange) + short_string(routing_key)
        return Address(exchange, routing_key, octets)

    def __repr__(self) -> str:
        return f"Address({self.exchange!r}, {self.routing_key!r})"


class PublisherAddress(Address):
    """An address as one connection publishes to it, for consumers that do not want their own.

    Not interned; a message that comes back from disk has the interned address, without publisher.
    """

    __slots__ = ("publisher",)

    def __init__(self, address: Address, publisher: Publisher | None) -> None:
        super().__init__(address.exchange, address.routing_key, address.octets)
        self.publisher = publisher


class BlindAddress(PublisherAddress):
    """An address of a message that had BCC keys.

    The BCC header is removed from the message, so no consumer sees the keys; as a dead letter the
    message is routed by them again. Not interned.
    """

    __slots__ = ("blind_keys",)

    def __init__(self, address: Address, blind_keys: tuple[str, ...]) -> None:
        super().__init__(address, address.publisher)
        self.blind_keys = blind_keys
