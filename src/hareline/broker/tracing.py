"""The firehose of a virtual host: a copy of each message published, and of each delivery.

``amqp.context`` switches it on and off while the broker runs, and gives each channel a ``Tap`` for
as long as it is on. A copy goes to the exchange ``amq.rabbitmq.trace`` with the key
``publish.<exchange>`` or ``deliver.<queue>``; body and headers are those of RabbitMQ's firehose,
and the copy is transient. What a turn has seen is gathered and published in shares of later turns,
never from within a publish or a dispatch: while some of it waits, the turn is behind, and
publishers are read more slowly. Without a binding of the exchange nothing is gathered.

Invariant: what has gone by the exchange itself, and what the broker publishes, is not traced; a
sighting is published, or counted as lost and reported.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from typing import Final, NamedTuple

from hareline import events
from hareline.broker.exchanges.bindings import BindingTable
from hareline.broker.routing import Routing
from hareline.clock import Clock, Timers
from hareline.errors import MalformedFrame, StoreError
from hareline.events import Report
from hareline.later import ITEMS_MAX, Later, Loss
from hareline.message import (
    Address,
    Message,
    SignedInt,
    StoredMessage,
    Table,
    trace_copy,
)
from hareline.queues.core.enqueueing import Enqueueing, archive_message
from hareline.queues.core.entry import QueueEntry
from hareline.queues.core.kinds import KEEPS_ALL, TAKEN
from hareline.queues.queue import Queue
from hareline.storage.interface import MessageStore
from hareline.turn import Turn
from hareline.wire.constants import SHORTSTR_MAX_OCTETS

TRACE_EXCHANGE: Final = "amq.rabbitmq.trace"
WAITING_BYTES_MAX: Final = 67_108_864
ADDRESSES_MAX: Final = 8_192
_INT32_MAX: Final = (1 << 31) - 1


class Origin(NamedTuple):
    """Client that a message came from or goes to: connection, channel number and user."""

    connection: str
    channel: int
    user: str


class Sighting(NamedTuple):
    """One message at one place. ``redelivered``: 0 or 1 for a delivery, -1 for a publish."""

    key: str
    message: Message
    origin: Origin
    queues: tuple[str, ...]
    redelivered: int


class Firehose:
    """``is_on``: channels have taps. ``node``: the name that copies say they come from.

    ``published_count``, ``lost``: copies that were published, and sightings that were not.
    """

    __slots__ = (
        "_addresses",
        "_bindings",
        "_clock",
        "_later",
        "_report",
        "_routing",
        "_store",
        "_vhost_name",
        "_waiting_bytes",
        "is_on",
        "lost",
        "node",
        "published_count",
    )

    def __init__(
        self,
        vhost_name: str,
        routing: Routing,
        bindings: BindingTable,
        turn: Turn,
        clock: Clock,
        timers: Timers,
        store: MessageStore,
        report: Report,
    ) -> None:
        self._vhost_name = vhost_name
        self._routing = routing
        self._bindings = bindings
        self._clock = clock
        self._store = store
        self._report = report
        self._later = Later(turn, self._publish, slows_publishers=True)
        self._waiting_bytes = 0
        self._addresses: dict[str, Address] = {}
        self.is_on = False
        self.node = ""
        self.lost = Loss(timers, self._report_loss)
        self.published_count = 0

    # ---------------------------------------------------------------------- switching

    def switch(self, is_on: bool) -> bool:
        """Trace from now on, or no more; True if that is a change. The caller sees to the taps."""
        if is_on == self.is_on:
            return False
        self.is_on = is_on
        self._routing.mark_changed()  # routes know whether publishes by them are traced
        if not is_on:
            self._later.waiting.clear()
            self._waiting_bytes = 0
        return True

    # ---------------------------------------------------------------------- sightings

    def on_published(self, message: Message, queues: Sequence[Enqueueing], origin: Origin) -> None:
        """A client's message goes to these queues."""
        exchange = message.address.exchange
        if exchange != TRACE_EXCHANGE and self._bindings.has_source(TRACE_EXCHANGE):
            names = tuple([queue.name for queue in queues if isinstance(queue, Queue)])
            self._gather(Sighting(f"publish.{exchange}", message, origin, names, -1))

    def on_delivered(self, entries: Sequence[QueueEntry], queue_name: str, origin: Origin) -> None:
        """These entries of a queue go out to a client."""
        if not self._bindings.has_source(TRACE_EXCHANGE):
            return
        key = f"deliver.{queue_name}"
        for entry in entries:
            message = entry.message
            if message.address.exchange == TRACE_EXCHANGE:
                continue
            if isinstance(message, StoredMessage):
                try:
                    message = message.unwritten()  # whole: its entry may be gone before its turn
                except StoreError:
                    self.lost.add("")
                    continue
            redelivered = int(entry.delivery_count > 0)
            self._gather(Sighting(key, message, origin, (), redelivered))

    def _gather(self, sighting: Sighting) -> None:
        if len(self._later.waiting) >= ITEMS_MAX or self._waiting_bytes >= WAITING_BYTES_MAX:
            self.lost.add("")
            return
        self._waiting_bytes += sighting.message.size
        self._later.add(sighting)

    def _report_loss(self, count: int, _reason: str) -> None:
        self._report(events.TRACES_LOST, vhost=self._vhost_name, count=count)

    # ---------------------------------------------------------------------- publishing

    def _publish(self, sighting: Sighting) -> None:
        self._waiting_bytes -= sighting.message.size
        address = self._address(sighting.key)
        try:
            headers = self._headers(sighting)
            copy = trace_copy(sighting.message, headers, address, self._clock.now_ms)
            queues, archives = self._routing.route_by_name(
                TRACE_EXCHANGE, [address.routing_key], copy
            )
        except (MalformedFrame, StoreError, ValueError):
            self.lost.add("")  # headers that cannot be read, or not be written once more
            return
        copy.forget_properties()
        if self._store.refusal:
            takers = tuple([queue for queue in queues if queue.keeps != KEEPS_ALL])
            if len(takers) < len(queues) or archives:
                self.lost.add("")
            queues, archives = takers, ()
        takers = tuple([queue for queue in queues if queue.put(copy) == TAKEN])
        archive_message(copy, takers, archives)
        self.published_count += 1

    def _address(self, key: str) -> Address:
        address = self._addresses.get(key)
        if address is None:
            if len(self._addresses) >= ADDRESSES_MAX:
                self._addresses.clear()
            address = self._addresses[key] = Address.of(TRACE_EXCHANGE, _short(key))
        return address

    def _headers(self, sighting: Sighting) -> Table:
        """The headers of a copy, of RabbitMQ's names and types."""
        message, origin = sighting.message, sighting.origin
        address = message.address
        properties = message.properties
        message.forget_properties()
        headers = properties.headers or Table()
        copies = headers.get("CC")
        keys = [address.routing_key]
        if isinstance(copies, list):
            keys += [key for key in copies if isinstance(key, str)]
        keys += address.blind_keys
        shown = Table()
        for each in fields(properties):
            value = getattr(properties, each.name)
            if isinstance(value, int):
                shown[each.name] = SignedInt(value) if value <= _INT32_MAX else int(value)
            elif value is not None:
                shown[each.name] = value
        traced = Table(
            exchange_name=address.exchange,
            routing_keys=keys,
            properties=shown,
            node=self.node,
            vhost=self._vhost_name,
            connection=origin.connection,
            channel=SignedInt(origin.channel),
            user=origin.user,
        )
        if sighting.redelivered < 0:
            traced["routed_queues"] = list(sighting.queues)
        else:
            traced["redelivered"] = SignedInt(sighting.redelivered)
        return traced


def _short(key: str) -> str:
    """The key, or as much of it as a short string can have."""
    octets = key.encode("utf-8", "surrogateescape")[:SHORTSTR_MAX_OCTETS]
    return octets.decode("utf-8", "surrogateescape")


class Tap:
    """Reports of one channel to the firehose; it is there while the firehose is on."""

    __slots__ = ("_firehose", "_origin")

    def __init__(self, firehose: Firehose, origin: Origin) -> None:
        self._firehose = firehose
        self._origin = origin

    def on_published(self, message: Message, queues: Sequence[Enqueueing]) -> None:
        """A publish of this channel goes to these queues."""
        self._firehose.on_published(message, queues, self._origin)

    def on_delivered(self, entries: Sequence[QueueEntry], queue_name: str) -> None:
        """These entries of a queue go out on this channel."""
        self._firehose.on_delivered(entries, queue_name, self._origin)
