"""The event exchange: what happens to the broker's objects, as messages without a body.

``server`` makes one where the option ``events.vhost`` names a virtual host, and hands it to what
has something to tell: the registry and the binder of each virtual host, connections, channels and
alarms, and the administration. Without the option none of them has one. Routing keys and headers
are those of RabbitMQ's event exchange, ``amq.rabbitmq.event``. Events are gathered, and published
in shares of later turns, never from within what they tell of; while nothing is bound to the
exchange, none is made.

Invariant: publishing an event causes no event; an event is published, or counted as lost and
reported.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from hareline import events
from hareline.clock import Clock, Timers
from hareline.events import Report
from hareline.later import ITEMS_MAX, Later, Loss
from hareline.message import Address, Table, Timestamp, broker_message
from hareline.queues.core.enqueueing import archive_message
from hareline.queues.core.kinds import KEEPS_NONE, TAKEN
from hareline.storage.interface import MessageStore
from hareline.turn import Turn

if TYPE_CHECKING:
    from hareline.broker.exchanges.bindings import Binding, BindingTable
    from hareline.broker.exchanges.exchange import Exchange
    from hareline.broker.routing import Routing
    from hareline.queues.queue import Queue

EVENT_EXCHANGE: Final = "amq.rabbitmq.event"
#: Who acts where no user does.
BROKER_ITSELF: Final = "rmq-internal"


class EventExchange:
    """``actor``: the user for whom the broker works now. ``node``: the name of the broker.

    ``published_count``, ``lost``: events.
    """

    __slots__ = (
        "_addresses",
        "_bindings",
        "_clock",
        "_later",
        "_report",
        "_routing",
        "_store",
        "actor",
        "lost",
        "node",
        "published_count",
    )

    def __init__(
        self, turn: Turn, clock: Clock, timers: Timers, report: Report, *, node: str
    ) -> None:
        self._clock = clock
        self._report = report
        self.node = node
        self.actor = BROKER_ITSELF
        self._routing: Routing | None = None
        self._bindings: BindingTable | None = None
        self._store: MessageStore | None = None
        self._later = Later(turn, self._publish, slows_publishers=True)
        self._addresses: dict[str, Address] = {}
        self.lost = Loss(timers, self._report_loss)
        self.published_count = 0

    def open(self, routing: Routing, bindings: BindingTable, store: MessageStore) -> None:
        """Publish in this virtual host, which has the exchange; until then nothing is wanted."""
        self._routing = routing
        self._bindings = bindings
        self._store = store

    @property
    def is_wanted(self) -> bool:
        """True if anything is bound to the exchange."""
        return self._bindings is not None and self._bindings.has_source(EVENT_EXCHANGE)

    @contextmanager
    def acting(self, user: str) -> Iterator[None]:
        """Name the user who does what happens meanwhile."""
        before, self.actor = self.actor, user
        try:
            yield
        finally:
            self.actor = before

    # -------------------------------------------------------------------------- events

    def emit(self, key: str, fields: Mapping[str, object]) -> None:
        """Publish an event soon, if any is wanted. ``fields``: its headers; None: left out."""
        if not self.is_wanted:
            return
        if len(self._later.waiting) >= ITEMS_MAX:
            self.lost.add("too many at once")
            return
        headers = Table({name: value for name, value in fields.items() if value is not None})
        headers["timestamp_in_ms"] = self._clock.now_ms
        self._later.add((key, headers))

    def on_queue(self, key: str, vhost_name: str, queue: Queue) -> None:
        """``queue.created`` or ``queue.deleted``."""
        if self.is_wanted:
            fields: dict[str, object] = {"name": queue.name, "vhost": vhost_name}
            if key == "queue.created":
                fields |= {
                    "durable": queue.is_durable,
                    "auto_delete": queue.is_auto_delete,
                    "exclusive": queue.owner is not None,
                    "arguments": dict(queue.arguments),
                }
            self.emit(key, fields | {"user_who_performed_action": self.actor})

    def on_exchange(self, key: str, vhost_name: str, exchange: Exchange) -> None:
        """``exchange.created`` or ``exchange.deleted``."""
        if self.is_wanted:
            fields: dict[str, object] = {"name": exchange.name, "vhost": vhost_name}
            if key == "exchange.created":
                fields |= {
                    "type": exchange.type_name,
                    "durable": exchange.is_durable,
                    "auto_delete": exchange.is_auto_delete,
                    "internal": exchange.is_internal,
                    "arguments": dict(exchange.arguments),
                    "policy": "",
                }
            self.emit(key, fields | {"user_who_performed_action": self.actor})

    def on_binding(self, key: str, vhost_name: str, binding: Binding) -> None:
        """``binding.created`` or ``binding.deleted``."""
        if self.is_wanted:
            self.emit(
                key,
                {
                    "source_name": binding.source,
                    "source_kind": "exchange",
                    "destination_name": binding.destination,
                    "destination_kind": binding.kind,
                    "routing_key": binding.routing_key,
                    "arguments": dict(binding.arguments),
                    "vhost": vhost_name,
                    "user_who_performed_action": self.actor,
                },
            )

    def on_alarm(self, resource: str, is_on: bool) -> None:
        """``alarm.set`` or ``alarm.cleared``."""
        key = "alarm.set" if is_on else "alarm.cleared"
        self.emit(key, {"source": resource, "node": self.node})

    # ---------------------------------------------------------------------- publishing

    def _publish(self, event: tuple[str, Table]) -> None:
        key, headers = event
        routing, store = self._routing, self._store
        assert routing is not None
        assert store is not None
        now_ms = self._clock.now_ms
        try:
            message = broker_message(
                self._address(key),
                b"",
                now_ms,
                headers=headers,
                timestamp=Timestamp(now_ms // 1000),
            )
        except ValueError as problem:  # an argument that was never on the wire
            self.lost.add(str(problem))
            return
        queues, archives = routing.route_by_name(EVENT_EXCHANGE, [key], message)
        if store.refusal:
            takers = tuple([queue for queue in queues if queue.keeps == KEEPS_NONE])
            if len(takers) < len(queues) or archives:
                self.lost.add(store.refusal)
            queues, archives = takers, ()
        takers = tuple([queue for queue in queues if queue.put(message) == TAKEN])
        archive_message(message, takers, archives)
        self.published_count += 1

    def _address(self, key: str) -> Address:
        address = self._addresses.get(key)
        if address is None:  # there are as many as kinds of events
            address = self._addresses[key] = Address.of(EVENT_EXCHANGE, key)
        return address

    def _report_loss(self, count: int, reason: str) -> None:
        self._report(events.EVENTS_LOST, count=count, reason=reason)
