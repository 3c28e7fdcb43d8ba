"""A virtual host: what clients declare, bind, look up and delete, by name.

Called by ``amqp`` (declare, delete, bind ...), by ``amqp.publishing`` (its ``routing``),
by the recovery and by ``management``. It puts the parts together: ``broker.registry`` has the
exchanges and queues, ``broker.declarations`` the rules of what may be declared, ``broker.routing``
the walk from a publish to queues, ``broker.binder`` the bindings. Permissions are the caller's
business.

Invariant: what a connection holds exclusively goes with it and is never kept.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping
from functools import partial

from hareline.broker.auto_creation import AutoCreation
from hareline.broker.capacity import BrokerCapacity
from hareline.broker.change_recorder import ChangeRecorder
from hareline.broker.declarations import Declarations, ExchangeDeclaration, QueueDeclaration
from hareline.broker.event_exchange import EVENT_EXCHANGE, EventExchange
from hareline.broker.exchange_types import create_exchange
from hareline.broker.exchanges.bindings import Binding, DestinationKind
from hareline.broker.exchanges.exchange import Exchange
from hareline.broker.live_arguments import LiveArguments
from hareline.broker.making import QueueDefaults
from hareline.broker.producers import Producers
from hareline.broker.registry import DEFAULT_EXCHANGE_REFUSED, RESERVED_PREFIX, Registry
from hareline.broker.tracing import Firehose
from hareline.clock import Clock, Timers
from hareline.counts import BrokerCounts, VhostCounts
from hareline.errors import AccessRefused, NotFound, PreconditionFailed, StoreError
from hareline.events import Report
from hareline.queues.core.audit_recorder import AUDIT_STREAM, AuditRecorder
from hareline.queues.core.enqueueing import Enqueueing
from hareline.queues.core.environment import QueueEnvironment
from hareline.queues.declare.arguments import with_queue_type
from hareline.queues.declare.table import QueueArguments
from hareline.queues.queue import Queue
from hareline.storage.interface import DefinitionStore, MessageStore
from hareline.turn import Turn


def generated_name(prefix: str) -> str:
    """``prefix`` and 22 characters of the URL-safe base64 alphabet, as RabbitMQ's names have."""
    return prefix + secrets.token_urlsafe(16)


def audit_only(name: str, vhost_name: str) -> str:
    """Reason why clients may not write to this queue."""
    return (
        f"only the broker publishes to queue '{name}' in vhost '{vhost_name}', its audit stream, "
        "while the virtual host's option 'audit' is on"
    )


class VirtualHost:
    """``store`` keeps the messages of durable queues, ``definitions`` what is durable itself.

    The ``restore_`` methods are for what ``definitions`` kept: they check less, and write nothing.
    If ``definitions`` lose changes, what was declared, bound or unbound with them is undone; what
    was deleted stays deleted, unless the broker ends before anything else can be written.
    ``exchanges``, ``queues``, ``queue_arguments``, ``queue_ids`` (of the queues in ``definitions``)
    and ``bindings`` are for reading. ``readers``: the positions in its streams. ``counts``: what is
    gone of it.
    ``live_arguments``: what its queues go by, and which of them are paused.
    ``firehose``: what traces messages while it is on (``amqp.context``).
    ``capacity``: how much may be declared here. ``auto_creation``: which queues clients need not
    declare.
    """

    def __init__(
        self,
        name: str,
        turn: Turn,
        *,
        clock: Clock,
        timers: Timers,
        report: Report,
        store: MessageStore,
        definitions: DefinitionStore,
        max_queues: int | None = None,
        audit: AuditRecorder | None = None,
        counts: BrokerCounts | None = None,
        whole: BrokerCapacity | None = None,
    ) -> None:
        """``audit``: what is told of messages; its stream is opened by ``open_audit``.

        ``counts``, ``whole``: the broker's; None: its own.
        """
        self.name = name
        self.counts = VhostCounts(counts)
        self._definitions = definitions
        whole = BrokerCapacity(self.counts.broker.limits_reached) if whole is None else whole
        registry = self._registry = Registry(
            name, definitions, report, clock, timers, turn, self.counts, whole
        )
        self.capacity = registry.capacity
        self.exchanges = registry.exchanges
        self.queues = registry.queues
        self.queue_arguments = registry.queue_arguments
        self.queue_ids = registry.queue_ids
        self.bindings = registry.binder.table
        self.readers = registry.readers
        routing = self.routing = registry.routing
        # For consumers whose client says nothing: ``amqp.consuming``.
        self.default_prefetch = 0
        self.prefetch_profile = "none"
        self.prefetch_max = 0
        self.consumer_timeout_ms = 0  # how long they may hold a delivery: ``amqp.consumer_watch``
        self.reply_queues: dict[str, Enqueueing] = {}
        self.auto_creation = AutoCreation()
        self.default_queue_type = ""  # of queues declared without a type; empty: classic
        self.producers = Producers(name, store, clock, report)
        self.environment = QueueEnvironment(
            clock=clock,
            timers=timers,
            report=report,
            route=routing.route_by_name,
            on_admission_changed=routing.mark_changed,
            vhost_name=name,
            store=store,
            audit=audit,
        )
        if audit is not None:
            routing.closed_queue = AUDIT_STREAM
        self.environment.dead_letter_scheduler.turn = turn
        self.firehose = Firehose(name, routing, self.bindings, turn, clock, timers, store, report)
        store.on_refusal_changed.append(routing.mark_changed)  # routes know who keeps messages
        self._declarations = Declarations(registry, turn, self.environment, definitions)
        self.live_arguments = LiveArguments(
            registry, definitions, lambda: self._declarations.queue_defaults, report
        )
        registry.on_queue_removed = self.live_arguments.on_queue_removed
        self.capacity.max_queues = max_queues

    @property
    def max_queues(self) -> int | None:
        """Limit on the number of queues; None: no limit."""
        return self.capacity.max_queues

    @max_queues.setter
    def max_queues(self, count: int | None) -> None:
        self.capacity.max_queues = count

    def set_default_dead_letter_exchange(
        self, name: str | None, *, has_copies: bool = False
    ) -> None:
        """Set where dead letters go of queues that name no place for them; made if missing.

        It concerns queues declared from now on; None: such dead letters are dropped.
        ``has_copies``: those of all other queues go there as well.
        """
        if name is not None and name not in self.exchanges:
            self._registry.add_exchange(create_exchange("topic", name, is_durable=True))
        self._declarations.queue_defaults = QueueDefaults(name, has_copies)

    def open_events(self, events: EventExchange) -> None:
        """Have events published in this virtual host; their exchange is made if missing."""
        if EVENT_EXCHANGE not in self.exchanges:
            self._registry.add_exchange(create_exchange("topic", EVENT_EXCHANGE, is_internal=True))
        events.open(self.routing, self.bindings, self.environment.store)

    def tell_events(
        self, events: EventExchange | None, recorder: ChangeRecorder | None = None
    ) -> None:
        """Report what comes and goes here from now on."""
        registry = self._registry
        registry.events = registry.binder.events = events
        registry.recorder = registry.binder.recorder = recorder

    def when_settled(self, callback: Callable[[StoreError | None], None], *names: str) -> bool:
        """Call back when what was declared, deleted or bound is durable, or lost.

        See ``DefinitionStore.when_settled``.
        """
        wait = partial(self._settle_behind, callback, names)
        if self._registry.hand_overs.when_over(names, wait):
            return True
        return self._definitions.when_settled(callback, self.name, *names)

    def _settle_behind(
        self,
        callback: Callable[[StoreError | None], None],
        names: tuple[str, ...],
        error: StoreError | None,
    ) -> None:
        """A binding is made by now, but perhaps not durable."""
        if error is not None or not self.when_settled(callback, *names):
            callback(error)

    @property
    def has_bindings_to_come(self) -> bool:
        """True while some wait for what exchanges retain; ``when_settled`` tells of them."""
        return len(self._registry.hand_overs) > 0

    def follow(
        self, on_queue_added: Callable[[Queue], None], on_exchange_added: Callable[[Exchange], None]
    ) -> None:
        """Call these for each queue and each exchange that is added from now on."""
        self._registry.on_queue_added = on_queue_added
        self._registry.on_exchange_added = on_exchange_added

    def begin_removal(self) -> None:
        """The virtual host is deleted, in the definitions too, and no client can reach it.

        Its queues are still there: ``forget_a_queue`` drops them one by one.
        """
        self._registry.cut_from_definitions()
        self.producers.forget_all()
        refusals = self.environment.store.on_refusal_changed
        refusals.remove(self.routing.mark_changed)

    def forget_a_queue(self) -> bool:
        """Drop a queue, with what is in it; False when none is left."""
        return self._registry.forget_a_queue()

    def open_audit(self) -> None:
        """Begin to write the audit stream, which is made if missing; nothing without audit.

        Called when all queues have got back what was in them. Raises StoreError.
        """
        audit = self.environment.audit
        if audit is not None:
            audit.open(self._declarations.audit_stream(audit.stream_arguments))

    def close_audit(self) -> None:
        """Write the last audit events, before the store is closed."""
        if self.environment.audit is not None:
            self.environment.audit.dispatch()

    # ----------------------------------------------------------- exchanges

    def exchange(self, name: str) -> Exchange:
        """Raises NotFound."""
        return self._registry.exchange(name)

    def declare_exchange(
        self,
        name: str,
        type_name: str,
        *,
        is_durable: bool,
        is_auto_delete: bool,
        is_internal: bool,
        arguments: Mapping[str, object],
        is_lenient: bool = False,
    ) -> Exchange:
        """The new exchange, or the existing one if it is equivalent; see ``ExchangeDeclaration``.

        Raises AccessRefused for reserved names, and PreconditionFailed for an unknown type, invalid
        arguments or an inequivalent redeclaration.
        """
        return self._declarations.declare_exchange(
            ExchangeDeclaration(
                name,
                type_name,
                is_durable=is_durable,
                is_auto_delete=is_auto_delete,
                is_internal=is_internal,
                arguments=arguments,
                is_lenient=is_lenient,
            )
        )

    def restore_exchange(
        self,
        name: str,
        type_name: str,
        *,
        is_auto_delete: bool,
        is_internal: bool,
        arguments: Mapping[str, object],
    ) -> None:
        """Raises PreconditionFailed for a type that this broker does not know."""
        self._declarations.restore_exchange(
            name,
            type_name,
            is_auto_delete=is_auto_delete,
            is_internal=is_internal,
            arguments=arguments,
        )

    def delete_exchange(self, name: str, *, if_unused: bool) -> None:
        """Delete the exchange and its bindings; a missing one counts as deleted.

        Raises AccessRefused for the predeclared ones, PreconditionFailed when it is in use.
        """
        if name == "":
            raise AccessRefused(DEFAULT_EXCHANGE_REFUSED)
        if name.startswith(RESERVED_PREFIX):  # also a missing one, as in RabbitMQ
            raise AccessRefused(
                f"deletion of system exchange '{name}' in vhost '{self.name}' not allowed"
            )
        if name not in self.exchanges:
            return
        if if_unused and self.bindings.has_source(name):
            raise PreconditionFailed(f"exchange '{name}' in vhost '{self.name}' in use")
        self._registry.remove_exchange(name)

    # -------------------------------------------------------------- queues

    def queue(self, name: str, requester: object) -> Queue:
        """Raises NotFound, or ResourceLocked if another connection has it exclusively."""
        return self._registry.queue(name, requester)

    def declare_queue(
        self,
        name: str,
        *,
        is_server_named: bool = False,
        is_durable: bool,
        is_auto_delete: bool,
        owner: object | None,
        arguments: Mapping[str, object],
        lenient_to: object | None = None,
        check_rights: Callable[[QueueArguments], None] | None = None,
    ) -> Queue:
        """The new queue, or the existing one if it is equivalent; see ``QueueDeclaration``.

        Raises AccessRefused (reserved name), ResourceLocked (another owner) and PreconditionFailed
        (invalid or inequivalent arguments).
        """
        if self.default_queue_type and is_durable and owner is None and not is_auto_delete:
            arguments = with_queue_type(arguments, self.default_queue_type)
        return self._declarations.declare_queue(
            QueueDeclaration(
                name,
                is_durable=is_durable,
                is_auto_delete=is_auto_delete,
                owner=owner,
                arguments=arguments,
                is_server_named=is_server_named,
                lenient_to=lenient_to,
                check_rights=check_rights,
            )
        )

    def restore_queue(
        self,
        queue_id: int,
        name: str,
        *,
        is_auto_delete: bool,
        arguments: Mapping[str, object],
        owner: str | None = None,
        incarnation: str = "",
    ) -> Queue:
        """``owner``: the client id whose queue it is; None if all may use it.

        Raises PreconditionFailed for arguments that this broker no longer takes.
        """
        return self._declarations.restore_queue(
            queue_id,
            name,
            is_auto_delete=is_auto_delete,
            arguments=arguments,
            owner=owner,
            incarnation=incarnation,
        )

    def delete_queue(
        self, name: str, requester: object, *, if_unused: bool = False, if_empty: bool = False
    ) -> int:
        """Delete the queue; returns how many messages went with it, 0 for a missing queue.

        Those are the ready ones and the ones that are not valid yet.

        Raises ResourceLocked, or PreconditionFailed when a condition is not met, and for the
        archive of another queue or an exchange.
        """
        if name not in self.queues:
            return 0
        if name == self.routing.closed_queue:
            raise PreconditionFailed(
                f"cannot delete queue '{name}' in vhost '{self.name}': the broker writes its audit "
                "there; switch the virtual host's option 'audit' off first"
            )
        queue = self.queue(name, requester)
        queue.deliver_due()
        if if_unused and queue.consumer_count:
            raise PreconditionFailed(f"queue '{name}' in vhost '{self.name}' in use")
        count = queue.ready_count + queue.held_count
        if if_empty and count:
            raise PreconditionFailed(f"queue '{name}' in vhost '{self.name}' not empty")
        self._registry.archives.check_removable(queue)
        self._registry.remove_queue(queue)
        return count

    def delete_queues_of(self, owner: object) -> None:
        """Delete the exclusive queues of a connection that goes away."""
        for queue in self._registry.queues_of(owner):
            self._registry.remove_queue(queue)

    # ------------------------------------------------------------ bindings

    def bind(
        self,
        source: str,
        kind: DestinationKind,
        destination: Queue | Exchange,
        routing_key: str,
        arguments: Mapping[str, object],
        is_by_key: bool = False,
    ) -> None:
        """Bind; a repetition is no error. Raises NotFound, AccessRefused, PreconditionFailed.

        ``is_by_key``: bindings of the same ends and key make room for this one (Broker-J, topic
        exchanges); otherwise another set of arguments is a binding of its own. Where much is
        retained the binding comes in a later turn: ``when_settled`` tells.
        """
        registry = self._registry
        if kind == "queue" and destination.name == self.routing.closed_queue:
            raise AccessRefused(audit_only(destination.name, self.name))
        exchange = registry.bindable(source, destination)
        binding = Binding.of(source, kind, destination.name, routing_key, arguments)
        bind = partial(
            registry.binder.bind,
            exchange,
            destination,
            binding,
            is_kept=registry.is_kept(exchange, destination),
            is_by_key=is_by_key,
        )
        retained = exchange.retained
        if (
            isinstance(retained, Queue)
            and isinstance(destination, Queue)
            and binding not in registry.binder.table
        ):
            registry.hand_overs.bind(exchange, retained, destination, binding, bind)
        else:
            bind()

    def restore_binding(
        self,
        source: str,
        kind: DestinationKind,
        destination: str,
        routing_key: str,
        arguments: Mapping[str, object],
    ) -> None:
        """Raises NotFound, PreconditionFailed for arguments that are no longer taken, and
        AccessRefused for a binding to the audit stream."""
        if kind == "queue" and destination == self.routing.closed_queue:
            raise AccessRefused(audit_only(destination, self.name))
        found = self.queues.get(destination) if kind == "queue" else self.exchange(destination)
        if found is None:
            raise NotFound(f"no queue '{destination}' in vhost '{self.name}'")
        binding = Binding.of(source, kind, destination, routing_key, arguments)
        self._registry.binder.add(self.exchange(source), found, binding)

    def unbind(
        self,
        source: str,
        kind: DestinationKind,
        destination: Queue | Exchange,
        routing_key: str,
        arguments: Mapping[str, object],
        is_by_key: bool = False,
    ) -> None:
        """Remove the binding if it exists. ``is_by_key``: whatever its arguments.

        Raises NotFound, AccessRefused.
        """
        registry = self._registry
        exchange = registry.bindable(source, destination)
        was_bound = registry.binder.unbind(
            exchange,
            destination,
            Binding.of(source, kind, destination.name, routing_key, arguments),
            is_kept=registry.is_kept(exchange, destination),
            is_by_key=is_by_key,
        )
        if was_bound:
            registry.delete_if_unused(exchange)

    def __repr__(self) -> str:
        return f"<VirtualHost {self.name!r}>"
