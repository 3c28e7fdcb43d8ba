"""The walk from an exchange to queues, and what publishers remember of it.

``amqp.publishing`` calls ``route`` for the first publish of a kind, and for each publish whose
route depends on the message. Messages that the broker itself publishes are routed here as well:
dead letters, and delayed messages whose time has come. The tables are those of
``broker.registry``, which alone changes them.

Invariant: ``version`` changes whenever the result of any ``route`` could have changed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from hareline.broker.exchanges.exchange import Exchange
from hareline.broker.filtered_exchange import FilteredDestination
from hareline.errors import StoreError
from hareline.message import Address, Message
from hareline.queues.core.enqueueing import Enqueueing
from hareline.queues.queue import Queue

# Interned addresses, about 300 octets each; dropping them costs only their reuse. They outlive the
# connections that used them, so this bounds what names that never come again take for good.
ADDRESSES_MAX: Final = 8_192

Streams = tuple[Enqueueing, ...]  # each once


class Routing:
    """The routes of one virtual host.

    ``version`` is compared once per read by each connection, which forgets its cached routes when
    it differs. ``marks_publishers``: a consumer or binding refuses messages of its own connection,
    so addresses say who publishes to them. ``has_archives``: some queue or exchange has one.
    ``closed_queue``: the queue that only the broker writes to, whatever leads to it, or None.
    ``hidden``: queues whose definitions are not durable so far; nothing is routed to them, since a
    crash would take it along.
    """

    __slots__ = (
        "_addresses",
        "_exchanges",
        "_queues",
        "closed_queue",
        "has_archives",
        "hidden",
        "marks_publishers",
        "version",
    )

    def __init__(self, exchanges: Mapping[str, Exchange], queues: Mapping[str, Queue]) -> None:
        self._exchanges = exchanges
        self._queues = queues
        self._addresses: dict[bytes, Address] = {}
        self.version = 0
        self.marks_publishers = False
        self.has_archives = False
        self.closed_queue: str | None = None
        self.hidden: set[Queue] = set()

    def hide(self, queue: Queue) -> None:
        """Route nothing to a queue until ``show``."""
        self.hidden.add(queue)

    def show(self, queue: Queue, _error: StoreError | None) -> None:
        """The definition of a queue is durable, or the queue is gone with it."""
        self.hidden.discard(queue)
        self.mark_changed()

    def route(
        self, exchange: Exchange, routing_keys: list[str], message: Message
    ) -> tuple[tuple[Queue, ...], bool, Streams]:
        """Queues for a publish to ``exchange``, each once, and whether that may be cached.

        Follows exchange-to-exchange bindings, and an alternate exchange where an exchange matched
        nothing; an exchange is visited once, so cycles end. In addition the archives of the
        exchanges on the way; those of the queues are for whoever gives the message to the queues.
        """
        archives: dict[Enqueueing, None] | None = None
        found: dict[Queue, None] = {}
        visited = {exchange.name}
        pending = [exchange]
        is_static = True
        for current in pending:
            is_static = is_static and current.is_static
            is_matched = False
            if current.archive is not None:
                archives = archives or {}
                archives[current.archive] = None
            if current.retained is not None and current.retained not in self.hidden:
                archives = archives or {}
                archives[current.retained] = None
            keys = routing_keys if current.matches_every_key else routing_keys[:1]
            for routing_key in keys:
                for bound in current.match(routing_key, message):
                    destination = bound
                    if isinstance(destination, FilteredDestination):
                        is_static = False
                        if not destination.takes(message):
                            continue
                        destination = destination.destination
                    if isinstance(destination, Queue):
                        # a deleted one is still to be unbound
                        if not destination.is_deleted and destination not in self.hidden:
                            is_matched = True
                            found[destination] = None
                    elif isinstance(destination, Exchange):
                        name = destination.name
                        if self._exchanges.get(name) is not destination:  # likewise
                            continue
                        is_matched = True
                        if name not in visited:
                            visited.add(name)
                            pending.append(destination)
            if not is_matched and current.alternate_exchange is not None:
                alternate = self._exchanges.get(current.alternate_exchange)
                if alternate is None:
                    queue = self.queue_by_name(current.alternate_queue or "")
                    if queue is not None:
                        found[queue] = None
                elif alternate.name not in visited:
                    visited.add(alternate.name)
                    pending.append(alternate)
        return tuple(found), is_static, () if archives is None else tuple(archives)

    def route_by_name(
        self, exchange_name: str, routing_keys: list[str], message: Message
    ) -> tuple[tuple[Queue, ...], Streams]:
        """Queues and archives for a message of the broker itself; none without that exchange."""
        exchange = self._exchanges.get(exchange_name)
        if exchange is None:
            return (), ()
        queues, _, archives = self.route(exchange, routing_keys, message)
        return queues, archives

    def route_delayed(
        self, exchange: Exchange, routing_keys: list[str], message: Message
    ) -> tuple[tuple[Queue, ...], Streams]:
        """Queues and archives for a delayed message; none if its exchange is deleted by now.

        The exchange's own archive has had the message since it was published.
        """
        if self._exchanges.get(exchange.name) is not exchange:
            return (), ()
        queues, _, archives = self.route(exchange, routing_keys, message)
        return queues, tuple([stream for stream in archives if stream is not exchange.archive])

    def has(self, exchange: Exchange) -> bool:
        """True until the exchange is deleted."""
        return self._exchanges.get(exchange.name) is exchange

    def queue_by_name(self, name: str) -> Queue | None:
        """The queue that the default exchange leads to; never one that only the broker writes to,
        as the queue of a delayed exchange."""
        queue = self._queues.get(name)
        if queue is None or isinstance(queue.owner, Exchange) or name == self.closed_queue:
            return None
        return None if queue in self.hidden else queue

    def address(self, exchange: str, routing_key: str, octets: bytes) -> Address:
        """The one Address for these octets (short string exchange, short string routing key)."""
        address = self._addresses.get(octets)
        if address is None:
            if len(self._addresses) >= ADDRESSES_MAX:
                self._addresses.clear()
            address = self._addresses[octets] = Address(exchange, routing_key, octets)
        return address

    @property
    def address_count(self) -> int:
        """Number of addresses interned now, at most ``ADDRESSES_MAX``."""
        return len(self._addresses)

    def mark_changed(self) -> None:
        """Drop all cached routes: an exchange, a queue, a binding or a queue's lane has changed."""
        self.version += 1

    def mark_publishers(self) -> None:
        """Note in addresses from now on who publishes to them, because no-local asks for it."""
        if not self.marks_publishers:
            self.marks_publishers = True
            self.version += 1
