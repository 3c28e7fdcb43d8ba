"""Exchanges and queues of a virtual host, and the end of one of them.

``broker.vhost`` looks them up and deletes them here, ``broker.declarations`` adds them. What ends
by itself (auto-delete, a lease) ends here too. A vanished end of a binding takes the binding along,
and an auto-delete exchange goes with its last binding.

A deletion is handed to the definitions before the tables change. When it cannot be written, what is
deleted goes all the same, is reported, and is back if the broker ends before anything can be.

Invariant: what is in a table is not deleted, and every change of a table changes
``routing.version``.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final

from hareline import events
from hareline.broker.archives import Archives
from hareline.broker.binder import Binder
from hareline.broker.capacity import BrokerCapacity, VhostCapacity
from hareline.broker.change_recorder import ChangeRecorder
from hareline.broker.delayed_exchange import DelayedExchange
from hareline.broker.delayed_queues import delay_queue_name
from hareline.broker.event_exchange import EventExchange
from hareline.broker.exchange_types import create_exchange
from hareline.broker.exchanges.bindings import Binding, DestinationKind, End
from hareline.broker.exchanges.default import DefaultExchange
from hareline.broker.exchanges.exchange import Exchange
from hareline.broker.retaining import HandOvers, retained_queue_name, retention_of
from hareline.broker.routing import Routing
from hareline.broker.stream_readers import StreamReaders
from hareline.broker.unbinding import Unbinding
from hareline.clock import Clock, Timers
from hareline.counts import VhostCounts
from hareline.errors import AccessRefused, NotFound, ResourceLocked, StoreError
from hareline.events import Report
from hareline.queues.core.consumer import Consumer
from hareline.queues.core.ownership import may_use
from hareline.queues.declare.table import QueueArguments
from hareline.queues.queue import Queue
from hareline.storage.interface import DefinitionStore
from hareline.turn import Turn

RESERVED_PREFIX: Final = "amq."
DEFAULT_EXCHANGE_REFUSED: Final = "operation not permitted on the default exchange"

PREDECLARED: Final = (
    ("amq.direct", "direct", False),
    ("amq.fanout", "fanout", False),
    ("amq.topic", "topic", False),
    ("amq.headers", "headers", False),
    ("amq.match", "headers", False),
    ("amq.rabbitmq.trace", "topic", True),
)


class Registry:
    """The tables of one virtual host: for others to read, and changed by the methods below.

    ``queue_ids`` are those of the queues in ``definitions``, ``queue_arguments`` what each queue
    goes by (``broker.live_arguments``). ``archives`` says which streams others archive to,
    ``readers`` how far readers of streams have come. ``hand_overs``: bindings that are to come.
    ``counts``: what is gone of the virtual host. ``events`` and ``recorder``: told of what comes
    and goes; None: not wanted. ``capacity``: how much there may be.
    """

    def __init__(
        self,
        vhost_name: str,
        definitions: DefinitionStore,
        report: Report,
        clock: Clock,
        timers: Timers,
        turn: Turn,
        counts: VhostCounts,
        whole: BrokerCapacity,
    ) -> None:
        """``whole``: what holds for all virtual hosts together."""
        self.counts = counts
        self.vhost_name = vhost_name
        self._is_cut = False
        self.events: EventExchange | None = None
        self.recorder: ChangeRecorder | None = None
        self._definitions = definitions
        self._report = report
        self.exchanges: dict[str, Exchange] = {}
        self.queues: dict[str, Queue] = {}
        self.queue_arguments: dict[str, QueueArguments] = {}
        self.queue_ids: dict[str, int] = {}
        self._owned: dict[object, dict[Queue, None]] = {}  # exclusive queues by owner
        self.routing = Routing(self.exchanges, self.queues)
        self.archives = Archives(vhost_name, self.queues, self.queue_arguments, self.routing)
        self.on_queue_removed: Callable[[Queue], None] | None = None
        self.on_queue_added: Callable[[Queue], None] | None = None
        self.on_exchange_added: Callable[[Exchange], None] | None = None
        self.readers = StreamReaders(
            vhost_name, self.queue_ids, clock, timers, report, definitions.reader_store
        )
        self.binder = Binder(
            vhost_name,
            definitions,
            self.routing.mark_changed,
            self.routing.mark_publishers,
            self._exists,
            Unbinding(turn),
            self._check_new_binding,
        )
        self.capacity = VhostCapacity(
            vhost_name, whole, self.queues, self.exchanges, self.binder.table
        )
        self.hand_overs = HandOvers(vhost_name, turn, self.routing, self._check_new_binding, report)
        self.exchanges[""] = DefaultExchange(self.routing.queue_by_name)
        for name, type_name, is_internal in PREDECLARED:
            self.exchanges[name] = create_exchange(type_name, name, is_internal=is_internal)

    # ------------------------------------------------------------ look-ups

    def exchange(self, name: str) -> Exchange:
        """Raises NotFound."""
        exchange = self.exchanges.get(name)
        if exchange is None:
            raise NotFound(f"no exchange '{name}' in vhost '{self.vhost_name}'")
        return exchange

    def bindable(self, source: str, destination: Queue | Exchange) -> Exchange:
        """The source of a binding to ``destination``; raises AccessRefused and NotFound."""
        if source == "" or destination.name == "":
            raise AccessRefused(DEFAULT_EXCHANGE_REFUSED)
        return self.exchange(source)

    def queue(self, name: str, requester: object) -> Queue:
        """Raises NotFound, or ResourceLocked if another connection has it exclusively."""
        queue = self.queues.get(name)
        if queue is None:
            raise NotFound(f"no queue '{name}' in vhost '{self.vhost_name}'")
        if queue.owner is not None and not may_use(queue.owner, requester):
            raise self.locked(name)
        return queue

    def locked(self, name: str) -> ResourceLocked:
        """The error for a queue that is another's exclusively."""
        return ResourceLocked(
            f"cannot obtain exclusive access to locked queue '{name}' in vhost "
            f"'{self.vhost_name}'. "
            "It could be originally declared on another connection or the exclusive property "
            "value does not match that of the original declaration."
        )

    def queues_of(self, owner: object) -> list[Queue]:
        """The exclusive queues of this owner."""
        return list(self._owned.get(owner, ()))

    def is_kept(self, exchange: Exchange, destination: Queue | Exchange) -> bool:
        """True if a binding between them survives a restart: both of its ends do."""
        if isinstance(destination, Exchange):
            return exchange.is_durable and destination.is_durable
        return exchange.is_durable and destination.name in self.queue_ids

    def _check_new_binding(self, binding: Binding) -> None:
        self.capacity.check_binding(binding)

    def _exists(self, end: Queue | Exchange) -> bool:
        if isinstance(end, Queue):
            return not end.is_deleted
        return self.exchanges.get(end.name) is end

    # ----------------------------------------------------------- exchanges

    def add_exchange(self, exchange: Exchange) -> None:
        """The exchange exists from now on."""
        self.exchanges[exchange.name] = exchange
        self.archives.on_exchange_added(exchange)
        if self.on_exchange_added is not None:
            self.on_exchange_added(exchange)
        self.routing.mark_changed()
        if self.events is not None:
            self.events.on_exchange("exchange.created", self.vhost_name, exchange)
        if self.recorder is not None:
            self.recorder.on_exchange("exchange.created", self.vhost_name, exchange)

    def remove_exchange(self, name: str) -> None:
        """Delete an exchange that exists, in the definitions first. Raises StoreError."""
        exchange = self.exchanges[name]
        if exchange.is_durable:
            own = name_of_own_queue(exchange)
            self._definitions.delete_exchange(
                self.vhost_name,
                name,
                queue=own,
                queue_id=0 if own is None else self.queue_ids.get(own, 0),
            )
            self._definitions.undo_if_lost(partial(self._report_not_deleted, f"exchange '{name}'"))
        self._forget_exchange(name)

    def undo_exchange(self, exchange: Exchange, _error: StoreError) -> None:
        """Its definition is lost, so it has never existed."""
        if self.exchanges.get(exchange.name) is exchange:
            self._forget_exchange(exchange.name)

    def delete_if_unused(self, exchange: Exchange) -> None:
        """Auto-delete: an exchange goes with the last binding of which it is the source."""
        if (
            exchange.is_auto_delete
            and exchange.name in self.exchanges
            and not self.binder.table.has_source(exchange.name)
        ):
            try:
                self.remove_exchange(exchange.name)
            except StoreError as error:  # as in ``end_queue``: no client asked for it
                self._report_not_deleted(f"exchange '{exchange.name}'", error)
                self._forget_exchange(exchange.name)

    def _forget_exchange(self, name: str) -> None:
        exchange = self.exchanges.pop(name)
        self.counts.on_exchange_ended(self.vhost_name, name)
        self.archives.on_exchange_removed(exchange)
        self.routing.mark_changed()
        self.binder.forget_source(exchange, self._destination_of)
        self._drop_bindings_to("exchange", exchange)
        own = self.queues.get(name_of_own_queue(exchange) or "")
        if own is not None:
            self._forget_queue(own)
        if self.events is not None:
            self.events.on_exchange("exchange.deleted", self.vhost_name, exchange)
        if self.recorder is not None:
            self.recorder.on_exchange("exchange.deleted", self.vhost_name, exchange)

    # -------------------------------------------------------------- queues

    def add_queue(self, queue: Queue, arguments: QueueArguments) -> None:
        """The queue exists from now on."""
        self.queues[queue.name] = queue
        self.queue_arguments[queue.name] = arguments
        self.archives.on_queue_added(queue)
        if queue.owner is not None:
            self._owned.setdefault(queue.owner, {})[queue] = None
        if self.on_queue_added is not None:
            self.on_queue_added(queue)
        self.routing.mark_changed()
        if self.events is not None:
            self.events.on_queue("queue.created", self.vhost_name, queue)
        if self.recorder is not None:
            self.recorder.on_queue("queue.created", self.vhost_name, queue, {})

    def remove_queue(self, queue: Queue) -> None:
        """Delete a queue that exists, in the definitions first. Raises StoreError."""
        queue_id = self.queue_ids.get(queue.name)
        if queue_id is not None:
            self._definitions.delete_queue(self.vhost_name, queue.name, queue_id=queue_id)
            self._definitions.undo_if_lost(
                partial(self._report_not_deleted, f"queue '{queue.name}'")
            )
        self._forget_queue(queue)

    def undo_queue(self, queue: Queue, _error: StoreError) -> None:
        """Its definition is lost, so it has never existed."""
        if self.queues.get(queue.name) is queue:
            self._forget_queue(queue)

    def end_queue(self, queue: Queue) -> None:
        """Delete a queue that ends by itself: no client asked, so none could be told of an error.

        What cannot be deleted on disk is back after the next start.
        """
        try:
            self.remove_queue(queue)
        except StoreError as error:
            self._report_not_deleted(f"queue '{queue.name}'", error)
            self._forget_queue(queue)

    def cut_from_definitions(self) -> None:
        """The virtual host is deleted: the definitions have nothing of it, and hear of nothing."""
        self._is_cut = True
        self.capacity.close()
        self.queue_ids.clear()
        self.exchanges.clear()  # so that none ends by itself with its last binding
        self.routing.mark_changed()

    def check_not_removed(self) -> None:
        """Raise NotFound if the virtual host is deleted, so that nothing new comes into it."""
        if self._is_cut:
            raise NotFound(f"vhost '{self.vhost_name}' is deleted")

    def forget_a_queue(self) -> bool:
        """Drop one queue of a virtual host that is deleted; False when none is left."""
        for queue in self.queues.values():
            self._forget_queue(queue)
            return True
        return False

    def end_unused_queue(self, queue: Queue) -> None:
        """Auto-delete: a queue goes with its last consumer."""
        if queue.is_auto_delete and not queue.is_deleted:
            self.end_queue(queue)

    def _forget_queue(self, queue: Queue) -> None:
        queue_id = self.queue_ids.pop(queue.name, 0)
        self.readers.on_queue_removed(queue, queue_id)
        del self.queues[queue.name]
        self.archives.on_queue_removed(queue, self.queue_arguments.pop(queue.name))
        if self.on_queue_removed is not None:
            self.on_queue_removed(queue)
        if queue.owner is not None:
            owned = self._owned[queue.owner]
            del owned[queue]
            if not owned:
                del self._owned[queue.owner]
        self.routing.mark_changed()
        self._drop_bindings_to("queue", queue)
        if not isinstance(queue.owner, Exchange):
            self.counts.broker.churn.queue_deleted += 1
        self.counts.on_queue_ended(self.vhost_name, queue.name, queue.counts)
        consumers: list[Consumer] = queue.delete()
        for consumer in consumers:
            consumer.on_queue_deleted()
        if self.events is not None:
            self.events.on_queue("queue.deleted", self.vhost_name, queue)
        if self.recorder is not None:
            self.recorder.on_queue("queue.deleted", self.vhost_name, queue, {})

    def _destination_of(self, end: End) -> Queue | Exchange:
        kind, name = end
        return self.queues[name] if kind == "queue" else self.exchanges[name]

    def _drop_bindings_to(self, kind: DestinationKind, destination: Queue | Exchange) -> None:
        for source in self.binder.forget_destination(kind, destination, self.exchanges):
            self.delete_if_unused(source)

    def _report_not_deleted(self, what: str, error: StoreError) -> None:
        self._report(
            events.DEFINITION_NOT_DELETED,
            what=what,
            problem=error.explanation,
            vhost=self.vhost_name,
        )


def name_of_own_queue(exchange: Exchange) -> str | None:
    """The queue that comes and goes with this exchange; None for most types."""
    if isinstance(exchange, DelayedExchange):
        return delay_queue_name(exchange.name)
    if retention_of(exchange.type_name, exchange.arguments) is not None:
        return retained_queue_name(exchange.name)
    return None
