"""A virtual host: its exchanges, queues and bindings, and the walk from a publish to queues.

Called by ``amqp.topology`` (declare, delete, bind ...), by ``amqp.publishing`` (route) and by
``management``. It checks what the protocol asks of names, flags and arguments; permissions are the
caller's business.

Invariant: ``routing_version`` changes whenever the result of any ``route`` could have.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from typing import Final, Protocol

from hareline import events
from hareline.broker.binder import Binder
from hareline.broker.bindings import Binding, DestinationKind
from hareline.broker.delayed_queues import PREFIX as DELAYED_PREFIX
from hareline.broker.delayed_queues import delay_queue_name, make_delay_queue
from hareline.broker.exchanges import erlang_terms
from hareline.broker.exchanges.alternate import ALTERNATE_EXCHANGE, with_alternate
from hareline.broker.exchanges.default import DefaultExchange
from hareline.broker.exchanges.delayed import DelayedExchange
from hareline.broker.exchanges.exchange import Exchange
from hareline.broker.exchanges.filtered import FilteredDestination
from hareline.broker.exchanges.registry import create_exchange
from hareline.broker.ownership import ClientOwner, may_use
from hareline.broker.queues.dead_letters.dead_letters import alternate_of
from hareline.broker.queues.declare.arguments import (
    QueueArguments,
    check_equivalent,
    check_queue_type_properties,
    parse_queue_arguments,
)
from hareline.broker.queues.declare.build import QueueDefaults, make_queue
from hareline.broker.queues.declare.table import DEFAULT_QUEUE_TYPE
from hareline.broker.queues.dispatch.consumer import Consumer
from hareline.broker.queues.environment import QueueEnvironment
from hareline.broker.queues.kinds import KEEPS_ALL, KEEPS_NONE, KEEPS_PERSISTENT
from hareline.broker.queues.queue import Queue
from hareline.clock import Clock, Timers
from hareline.errors import (
    AccessRefused,
    AmqpError,
    NotFound,
    PreconditionFailed,
    ResourceLocked,
    StoreError,
)
from hareline.events import Report
from hareline.message import Address, Message
from hareline.storage.interface import DefinitionStore, MessageStore
from hareline.turn import Turn

RESERVED_PREFIX: Final = "amq."
# Interned addresses, about 300 octets each; dropping them costs only their reuse. They outlive the
# connections that used them, so this is what names that never come again take for good.
ADDRESSES_MAX: Final = 8_192
_DEFAULT_EXCHANGE_REFUSED: Final = "operation not permitted on the default exchange"

PREDECLARED: Final = (
    ("amq.direct", "direct", False),
    ("amq.fanout", "fanout", False),
    ("amq.topic", "topic", False),
    ("amq.headers", "headers", False),
    ("amq.match", "headers", False),
    ("amq.rabbitmq.trace", "topic", True),
)

# x-message-durability: which messages a durable queue keeps (Broker-J's messageDurability).
_KEEPS: Final = {"default": KEEPS_PERSISTENT, "always": KEEPS_ALL, "never": KEEPS_NONE}


class Enqueueing(Protocol):
    """Where a routed message ends: a queue, or a requester waiting for a direct reply."""

    @property
    def is_deleted(self) -> bool: ...

    @property
    def needs_admission(self) -> bool:
        """Whether messages must come by ``put``."""

    @property
    def keeps(self) -> int:
        """Which messages go to the store: KEEPS_NONE, KEEPS_PERSISTENT or KEEPS_ALL."""

    def enqueue(self, message: Message) -> None: ...

    def put(self, message: Message) -> bool:
        """Take the message in; False: it is refused."""


def generated_name(prefix: str) -> str:
    """``prefix`` and 22 characters of the URL-safe base64 alphabet, as RabbitMQ's names have."""
    return prefix + secrets.token_urlsafe(16)


class VirtualHost:
    """``store`` keeps the messages of durable queues, ``definitions`` what is durable itself.

    What a connection holds exclusively goes with it and is never kept. The ``restore_`` methods are
    for what ``definitions`` kept: they check less, and write nothing. If ``definitions`` lose the
    changes of a turn, what was declared, bound or unbound in it is undone; what was deleted stays
    so, unless the broker ends before anything else can be written.
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
        max_queues: int = 0,
    ) -> None:
        self.name = name
        self._store = store
        self._definitions = definitions
        self._report = report
        self.queue_ids: dict[str, int] = {}  # of the queues in ``definitions``
        self.max_queues = max_queues
        self._queue_defaults = QueueDefaults()
        # What consumers get of whom the client says nothing: ``amqp.prefetch``.
        self.default_prefetch = 0
        self.prefetch_profile = "none"
        self.prefetch_max = 0
        self.routing_version = 0
        self.marks_publishers = False  # somebody here does not want messages of his own
        self._turn = turn
        self.queues: dict[str, Queue] = {}
        self.queue_arguments: dict[str, QueueArguments] = {}
        self._owned: dict[object, dict[Queue, None]] = {}  # exclusive queues by owner
        self.reply_queues: dict[str, Enqueueing] = {}
        self._binder = Binder(
            name, definitions, self._on_bindings_changed, self.mark_publishers, self._is_there
        )
        self.bindings = self._binder.table
        self._addresses: dict[bytes, Address] = {}
        self.environment = QueueEnvironment(
            clock=clock,
            timers=timers,
            report=report,
            route=self._route_by_name,
            on_admission_changed=self._on_guard_changed,
            vhost_name=name,
            store=store,
        )
        self.environment.dead_letter_post.turn = turn
        store.on_refusal_changed.append(self._on_guard_changed)  # routes know who keeps messages
        self.exchanges: dict[str, Exchange] = {"": DefaultExchange(self._queue_by_name)}
        for exchange_name, type_name, is_internal in PREDECLARED:
            self.exchanges[exchange_name] = create_exchange(
                type_name, exchange_name, is_internal=is_internal
            )

    # ------------------------------------------------------------ routing

    def route(
        self, exchange: Exchange, routing_keys: list[str], message: Message
    ) -> tuple[tuple[Queue, ...], bool]:
        """Queues for a publish to ``exchange``, each once, and whether that may be cached.

        Follows exchange-to-exchange bindings, and an alternate exchange where an exchange matched
        nothing; an exchange is visited once, so cycles end.
        """
        found: dict[Queue, None] = {}
        visited = {exchange.name}
        pending = [exchange]
        is_static = True
        for current in pending:
            is_static = is_static and current.is_static
            is_matched = False
            keys = routing_keys if current.matches_every_key else routing_keys[:1]
            for routing_key in keys:
                for bound in current.match(routing_key, message):
                    destination = bound
                    if isinstance(destination, FilteredDestination):
                        is_static = False
                        if not destination.takes(message):
                            continue
                        destination = destination.destination
                    is_matched = True
                    if isinstance(destination, Queue):
                        found[destination] = None
                    elif isinstance(destination, Exchange) and destination.name not in visited:
                        visited.add(destination.name)
                        pending.append(destination)
            if not is_matched and current.alternate_exchange is not None:
                alternate = self.exchanges.get(current.alternate_exchange)
                if alternate is None:
                    queue = self._queue_by_name(current.alternate_queue or "")
                    if queue is not None:
                        found[queue] = None
                elif alternate.name not in visited:
                    visited.add(alternate.name)
                    pending.append(alternate)
        return tuple(found), is_static

    def _queue_by_name(self, name: str) -> Queue | None:
        """What the default exchange leads to; the queue of an exchange is nobody else's."""
        queue = self.queues.get(name)
        return None if queue is None or isinstance(queue.owner, Exchange) else queue

    def _route_delayed(
        self, exchange: Exchange, routing_keys: list[str], message: Message
    ) -> tuple[Queue, ...]:
        """For what was delayed; nowhere, if the exchange was deleted meanwhile."""
        if self.exchanges.get(exchange.name) is not exchange:
            return ()
        return self.route(exchange, routing_keys, message)[0]

    def _route_by_name(
        self, exchange_name: str, routing_keys: list[str], message: Message
    ) -> tuple[Queue, ...]:
        """For messages that the broker itself publishes; nowhere, if there is no such exchange."""
        exchange = self.exchanges.get(exchange_name)
        return () if exchange is None else self.route(exchange, routing_keys, message)[0]

    def _on_guard_changed(self) -> None:
        """Publishers remember which lane a queue takes."""
        self.routing_version += 1

    def _on_bindings_changed(self) -> None:
        self.routing_version += 1

    def _is_there(self, end: Queue | Exchange) -> bool:
        if isinstance(end, Queue):
            return not end.is_deleted
        return self.exchanges.get(end.name) is end

    def tell_if_lost(self, callback: Callable[[StoreError], None]) -> None:
        """Call once if what was declared, deleted or bound in this turn does not become durable."""
        self._definitions.tell_if_lost(callback)

    def mark_publishers(self) -> None:
        """Somebody asks for no-local: from now on addresses say who publishes to them."""
        if not self.marks_publishers:
            self.marks_publishers = True
            self.routing_version += 1

    def set_default_dead_letter_exchange(self, name: str | None) -> None:
        """Where the dead letters of queues go that have no place for them; made if missing.

        It concerns queues declared from now on; None: nowhere.
        """
        if name is not None and name not in self.exchanges:
            self.exchanges[name] = create_exchange("topic", name, is_durable=True)
            self.routing_version += 1
        self._queue_defaults = QueueDefaults(dead_letter_exchange=name)

    def address(self, exchange: str, routing_key: str, octets: bytes) -> Address:
        """The one Address for these octets (short string exchange, short string routing key)."""
        address = self._addresses.get(octets)
        if address is None:
            if len(self._addresses) >= ADDRESSES_MAX:
                self._addresses.clear()
            address = self._addresses[octets] = Address(exchange, routing_key, octets)
        return address

    # ----------------------------------------------------------- exchanges

    def exchange(self, name: str) -> Exchange:
        """Raises NotFound."""
        exchange = self.exchanges.get(name)
        if exchange is None:
            raise NotFound(f"no exchange '{name}' in vhost '{self.name}'")
        return exchange

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
        """Create the exchange, or check that the existing one is equivalent.

        ``is_lenient``: an existing one only needs to be of the same type (Broker-J). Raises
        AccessRefused for reserved names and PreconditionFailed for an unknown type, bad arguments
        or an inequivalent redeclaration.
        """
        if name == "":
            raise AccessRefused(_DEFAULT_EXCHANGE_REFUSED)
        existing = self.exchanges.get(name)
        if existing is not None and is_lenient and existing.type_name == type_name:
            return existing
        arguments = with_alternate(arguments, exchange=name, vhost=self.name)
        if existing is not None:
            self._check_exchange_equivalent(
                existing, type_name, is_durable, is_auto_delete, is_internal, arguments
            )
            return existing
        if name.startswith(RESERVED_PREFIX):
            raise AccessRefused(
                f"exchange name '{name}' contains reserved prefix '{RESERVED_PREFIX}*'"
            )
        self._check_alternate_exchange(name, arguments)
        exchange = create_exchange(
            type_name,
            name,
            is_durable=is_durable,
            is_auto_delete=is_auto_delete,
            is_internal=is_internal,
            arguments=arguments,
        )
        queue_id = 0
        if is_durable:
            queue_id = self._definitions.add_exchange(
                self.name,
                name,
                type_name,
                is_auto_delete=is_auto_delete,
                is_internal=is_internal,
                arguments=arguments,
                queue=_name_of_own_queue(exchange),
            )
        self.exchanges[name] = exchange
        self.routing_version += 1
        if isinstance(exchange, DelayedExchange):
            self._add_delay_queue(exchange, queue_id)
        if is_durable:
            self._definitions.undo_if_lost(partial(self._undo_exchange, exchange))
        return exchange

    def _undo_exchange(self, exchange: Exchange, _error: StoreError) -> None:
        """Its definition is lost, so it has never been."""
        if self.exchanges.get(exchange.name) is exchange:
            self._forget_exchange(exchange.name)

    def _add_delay_queue(self, exchange: DelayedExchange, queue_id: int) -> Queue:
        """``queue_id`` 0: it is not in the definitions."""
        queue = make_delay_queue(exchange, self._turn, self.environment, self._route_delayed)
        arguments = parse_queue_arguments({}, queue=queue.name, vhost=self.name)
        if queue_id:
            self._keep_queue(queue, arguments, queue_id)
        self._add_queue(queue, arguments)
        return queue

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
        if name not in self.exchanges:
            with suppress(PreconditionFailed):  # of a version that did not look at Qpid's names
                arguments = with_alternate(arguments, exchange=name, vhost=self.name)
            self.exchanges[name] = create_exchange(
                type_name,
                name,
                is_durable=True,
                is_auto_delete=is_auto_delete,
                is_internal=is_internal,
                arguments=arguments,
            )
            self.routing_version += 1

    def _check_alternate_exchange(self, name: str, arguments: Mapping[str, object]) -> None:
        alternate = arguments.get(ALTERNATE_EXCHANGE)
        if alternate is not None and not isinstance(alternate, str):
            raise PreconditionFailed(
                f"invalid type '{erlang_terms.type_name(alternate)}' for arg "
                f"'alternate-exchange' in exchange '{name}' in vhost '{self.name}'"
            )

    def _check_exchange_equivalent(
        self,
        exchange: Exchange,
        type_name: str,
        is_durable: bool,
        is_auto_delete: bool,
        is_internal: bool,
        arguments: Mapping[str, object],
    ) -> None:
        before, now = exchange.arguments, arguments
        alternate = ALTERNATE_EXCHANGE
        for label, received, current in (
            ("type", _shown(type_name), _shown(exchange.type_name)),
            ("durable", _shown(is_durable), _shown(exchange.is_durable)),
            ("auto_delete", _shown(is_auto_delete), _shown(exchange.is_auto_delete)),
            ("internal", _shown(is_internal), _shown(exchange.is_internal)),
            (alternate, _compared(alternate, now, before), _compared(alternate, before, now)),
        ):
            if received != current:
                raise PreconditionFailed(
                    f"inequivalent arg '{label}' for exchange '{exchange.name}' in vhost "
                    f"'{self.name}': received {received} but current is {current}"
                )

    def delete_exchange(self, name: str, *, if_unused: bool) -> None:
        """Delete the exchange and its bindings; a missing one counts as deleted.

        Raises AccessRefused for the predeclared ones, PreconditionFailed when it is in use.
        """
        if name == "":
            raise AccessRefused(_DEFAULT_EXCHANGE_REFUSED)
        if name.startswith(RESERVED_PREFIX):  # also one that does not exist, as in RabbitMQ
            raise AccessRefused(
                f"deletion of system exchange '{name}' in vhost '{self.name}' not allowed"
            )
        if name not in self.exchanges:
            return
        if if_unused and self.bindings.has_source(name):
            raise PreconditionFailed(f"exchange '{name}' in vhost '{self.name}' in use")
        self._remove_exchange(name)

    def _remove_exchange(self, name: str) -> None:
        exchange = self.exchanges[name]
        if exchange.is_durable:
            self._definitions.delete_exchange(self.name, name, queue=_name_of_own_queue(exchange))
            self._definitions.undo_if_lost(partial(self._report_not_deleted, f"exchange '{name}'"))
        self._forget_exchange(name)

    def _forget_exchange(self, name: str) -> None:
        exchange = self.exchanges.pop(name)
        self.routing_version += 1
        self._binder.forget_source(name)
        self._drop_bindings_to("exchange", exchange)
        if isinstance(exchange, DelayedExchange):
            self._forget_queue(self.queues[delay_queue_name(name)])

    # -------------------------------------------------------------- queues

    def queue(self, name: str, requester: object) -> Queue:
        """Raises NotFound, or ResourceLocked when it is another's exclusively."""
        queue = self.queues.get(name)
        if queue is None:
            raise NotFound(f"no queue '{name}' in vhost '{self.name}'")
        if queue.owner is not None and not may_use(queue.owner, requester):
            raise self._locked(name)
        return queue

    def _locked(self, name: str) -> ResourceLocked:
        return ResourceLocked(
            f"cannot obtain exclusive access to locked queue '{name}' in vhost '{self.name}'. "
            "It could be originally declared on another connection or the exclusive property "
            "value does not match that of the original declaration."
        )

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
        """Create the queue, or check that the existing one is equivalent.

        ``is_server_named``: the name was made by ``generated_name``, so it may be a reserved one.
        ``owner`` of an exclusive queue is the declaring connection, or the ``ClientOwner`` that
        stands for it and those to come; else it is None. ``lenient_to``: for this connection an
        existing queue only needs to be as exclusive and as temporary as asked (Broker-J).
        ``check_rights`` is called with the arguments of a new queue before anything they name is
        looked for, and raises if the declarer may not have it. Raises AccessRefused (reserved
        name), ResourceLocked (the owner is not the same) and PreconditionFailed (bad or
        inequivalent arguments).
        """
        existing = self.queues.get(name)
        if existing is not None:
            if lenient_to is not None:
                self._check_queue_alike(existing, is_auto_delete, owner, lenient_to)
            else:
                self._check_queue_equivalent(existing, is_durable, is_auto_delete, owner, arguments)
            if existing.lease is not None:
                existing.lease.touch()
            return existing
        if name.startswith(RESERVED_PREFIX) and not is_server_named:
            raise AccessRefused(
                f"queue name '{name}' contains reserved prefix '{RESERVED_PREFIX}*'"
            )
        parsed = parse_queue_arguments(arguments, queue=name, vhost=self.name)
        if check_rights is not None:
            check_rights(parsed)
        check_queue_type_properties(
            parsed,
            queue=name,
            vhost=self.name,
            is_durable=is_durable,
            is_exclusive=owner is not None,
            is_auto_delete=is_auto_delete,
            is_server_named=is_server_named,
        )
        if self.max_queues and len(self.queues) >= self.max_queues:
            raise PreconditionFailed(
                f"cannot declare queue '{name}': queue limit in vhost '{self.name}' "
                f"({self.max_queues}) is reached"
            )
        self._check_alternate(name, parsed)
        queue = self._make_queue(name, parsed, is_durable, is_auto_delete, owner)
        if is_durable and (owner is None or isinstance(owner, ClientOwner)):
            try:
                queue_id = self._definitions.add_queue(
                    self.name,
                    name,
                    is_auto_delete=is_auto_delete,
                    arguments=arguments,
                    owner=None if owner is None else owner.client_id,
                )
            except StoreError:
                queue.delete()
                raise
            self._keep_queue(queue, parsed, queue_id)
        self._add_queue(queue, parsed)
        if name in self.queue_ids:
            self._definitions.undo_if_lost(partial(self._undo_queue, queue))
        if parsed.dlq_auto and parsed.alternate_binding is None:
            try:
                self._make_dead_letter_queue(queue, parsed, is_server_named)
            except AmqpError:  # both or none
                self._end_queue(queue)
                raise
        return queue

    def _undo_queue(self, queue: Queue, _error: StoreError) -> None:
        """Its definition is lost, so it has never been."""
        if self.queues.get(queue.name) is queue:
            self._forget_queue(queue)

    def restore_queue(
        self,
        queue_id: int,
        name: str,
        *,
        is_auto_delete: bool,
        arguments: Mapping[str, object],
        owner: str | None = None,
    ) -> Queue:
        """``owner``: the client id whose queue it is, None if it is everybody's.

        Raises PreconditionFailed for arguments that this broker does not take any more.
        """
        exchange = self._exchange_of_queue(name)
        if exchange is not None:
            return self._add_delay_queue(exchange, queue_id)
        parsed = parse_queue_arguments(arguments, queue=name, vhost=self.name)
        of = None if owner is None else ClientOwner(owner)
        queue = self._make_queue(name, parsed, True, is_auto_delete, of)
        self._keep_queue(queue, parsed, queue_id)
        self._add_queue(queue, parsed)
        return queue

    def _exchange_of_queue(self, name: str) -> DelayedExchange | None:
        """Whose own queue this is, going by its name, which is reserved."""
        exchange = self.exchanges.get(name.removeprefix(DELAYED_PREFIX))
        if name.startswith(DELAYED_PREFIX) and isinstance(exchange, DelayedExchange):
            return exchange
        return None

    def _make_queue(
        self,
        name: str,
        arguments: QueueArguments,
        is_durable: bool,
        is_auto_delete: bool,
        owner: object | None,
    ) -> Queue:
        return make_queue(
            name,
            arguments,
            self._turn,
            self.environment,
            self._queue_defaults,
            is_durable=is_durable,
            is_auto_delete=is_auto_delete,
            owner=owner,
            on_unused=self._on_unused if is_auto_delete else None,
            on_expired=self._end_queue,
        )

    def _keep_queue(self, queue: Queue, arguments: QueueArguments, queue_id: int) -> None:
        """The queue is in the definitions; what is in it goes to the store, if it is to be kept."""
        self.queue_ids[queue.name] = queue_id
        keeps = _KEEPS[arguments.message_durability or "default"]
        if (arguments.queue_type or DEFAULT_QUEUE_TYPE) != "classic":
            keeps = KEEPS_ALL  # RabbitMQ's quorum queues and streams, whatever the delivery mode
        ledger = self._store.open_queue(queue_id, queue.name)
        if ledger is not None and keeps != KEEPS_NONE:
            queue.install(ledger=ledger, keeps=keeps)

    def _add_queue(self, queue: Queue, arguments: QueueArguments) -> None:
        self.queues[queue.name] = queue
        self.queue_arguments[queue.name] = arguments
        if queue.owner is not None:
            self._owned.setdefault(queue.owner, {})[queue] = None
        self.routing_version += 1

    def _check_alternate(self, name: str, arguments: QueueArguments) -> None:
        """A named alternate must be there, and be another one (Broker-J)."""
        alternate = arguments.alternate_binding
        if alternate is None:
            return
        if alternate == name:
            raise PreconditionFailed(
                f"invalid arg 'alternateBinding' for queue '{name}' in vhost '{self.name}': "
                "a queue cannot be its own alternate"
            )
        if alternate not in self.exchanges and alternate not in self.queues:
            raise NotFound(f"no exchange or queue '{alternate}' in vhost '{self.name}'")

    def _make_dead_letter_queue(
        self, queue: Queue, arguments: QueueArguments, is_server_named: bool
    ) -> None:
        """x-dlq-auto: a plain queue beside it, of the same durability and owner."""
        name = alternate_of(arguments, queue.name)
        assert name is not None
        if name not in self.queues:
            self.declare_queue(
                name,
                is_server_named=is_server_named,
                is_durable=queue.is_durable,
                is_auto_delete=False,
                owner=queue.owner,
                arguments={},
            )

    def _check_queue_alike(
        self, queue: Queue, is_auto_delete: bool, owner: object | None, requester: object
    ) -> None:
        """What ends with its connection counts as temporary, whatever its flag was (Broker-J)."""
        if (owner is None) != (queue.owner is None) or not may_use(queue.owner, requester):
            raise self._locked(queue.name)
        ends_with_connection = queue.owner is requester
        if is_auto_delete != queue.is_auto_delete and not ends_with_connection:
            raise self._inequivalent(queue.name, "auto_delete", is_auto_delete)

    def _inequivalent(self, name: str, label: str, received: bool) -> PreconditionFailed:
        return PreconditionFailed(
            f"inequivalent arg '{label}' for queue '{name}' in vhost '{self.name}': "
            f"received {_shown(received)} but current is {_shown(not received)}"
        )

    def _check_queue_equivalent(
        self,
        queue: Queue,
        is_durable: bool,
        is_auto_delete: bool,
        owner: object | None,
        arguments: Mapping[str, object],
    ) -> None:
        if queue.owner != owner:
            raise self._locked(queue.name)
        for label, received, current in (
            ("durable", is_durable, queue.is_durable),
            ("auto_delete", is_auto_delete, queue.is_auto_delete),
        ):
            if received != current:
                raise self._inequivalent(queue.name, label, received)
        check_equivalent(
            self.queue_arguments[queue.name], arguments, queue=queue.name, vhost=self.name
        )

    def delete_queue(
        self, name: str, requester: object, *, if_unused: bool = False, if_empty: bool = False
    ) -> int:
        """Delete the queue; returns how many messages went with it, 0 for a missing queue.

        Those are the ready ones and the ones that are not valid yet.

        Raises ResourceLocked, or PreconditionFailed when a condition is not met.
        """
        if name not in self.queues:
            return 0
        queue = self.queue(name, requester)
        queue.deliver_due()
        if if_unused and queue.consumer_count:
            raise PreconditionFailed(f"queue '{name}' in vhost '{self.name}' in use")
        count = queue.ready_count + queue.held_count
        if if_empty and count:
            raise PreconditionFailed(f"queue '{name}' in vhost '{self.name}' not empty")
        self._remove_queue(queue)
        return count

    def delete_queues_of(self, owner: object) -> None:
        """Delete the exclusive queues of a connection that goes away."""
        for queue in list(self._owned.get(owner, ())):
            self._remove_queue(queue)

    def _on_unused(self, queue: Queue) -> None:
        if queue.is_auto_delete and not queue.is_deleted:
            self._end_queue(queue)

    def _remove_queue(self, queue: Queue) -> None:
        if queue.name in self.queue_ids:
            self._definitions.delete_queue(self.name, queue.name)
            self._definitions.undo_if_lost(
                partial(self._report_not_deleted, f"queue '{queue.name}'")
            )
        self._forget_queue(queue)

    def _end_queue(self, queue: Queue) -> None:
        """Its time has come, and nobody asked for it who could be told of an error.

        What cannot be deleted on disk is back after the next start.
        """
        try:
            self._remove_queue(queue)
        except StoreError as error:
            self._report_not_deleted(f"queue '{queue.name}'", error)
            self._forget_queue(queue)

    def _report_not_deleted(self, what: str, error: StoreError) -> None:
        self._report(
            events.DEFINITION_NOT_DELETED, what=what, problem=error.explanation, vhost=self.name
        )

    def _forget_queue(self, queue: Queue) -> None:
        self.queue_ids.pop(queue.name, None)
        del self.queues[queue.name]
        del self.queue_arguments[queue.name]
        if queue.owner is not None:
            owned = self._owned[queue.owner]
            del owned[queue]
            if not owned:
                del self._owned[queue.owner]
        self.routing_version += 1
        self._drop_bindings_to("queue", queue)
        consumers: list[Consumer] = queue.delete()
        for consumer in consumers:
            consumer.on_queue_deleted()

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
        exchanges); otherwise another set of arguments is a binding of its own.
        """
        exchange = self._bindable(source, destination)
        self._binder.bind(
            exchange,
            destination,
            Binding.of(source, kind, destination.name, routing_key, arguments),
            is_kept=self._is_kept(exchange, destination),
            is_by_key=is_by_key,
        )

    def restore_binding(
        self,
        source: str,
        kind: DestinationKind,
        destination: str,
        routing_key: str,
        arguments: Mapping[str, object],
    ) -> None:
        """Raises NotFound, and PreconditionFailed for arguments that are not taken any more."""
        found = self.queues.get(destination) if kind == "queue" else self.exchange(destination)
        if found is None:
            raise NotFound(f"no queue '{destination}' in vhost '{self.name}'")
        binding = Binding.of(source, kind, destination, routing_key, arguments)
        self._binder.add(self.exchange(source), found, binding)

    def _is_kept(self, exchange: Exchange, destination: Queue | Exchange) -> bool:
        """Whether a binding survives: where both of its ends do."""
        if isinstance(destination, Exchange):
            return exchange.is_durable and destination.is_durable
        return exchange.is_durable and destination.name in self.queue_ids

    def unbind(
        self,
        source: str,
        kind: DestinationKind,
        destination: Queue | Exchange,
        routing_key: str,
        arguments: Mapping[str, object],
        is_by_key: bool = False,
    ) -> None:
        """Remove the binding if it is there, ``is_by_key``: whatever its arguments.

        Raises NotFound, AccessRefused.
        """
        exchange = self._bindable(source, destination)
        was_bound = self._binder.unbind(
            exchange,
            destination,
            Binding.of(source, kind, destination.name, routing_key, arguments),
            is_kept=self._is_kept(exchange, destination),
            is_by_key=is_by_key,
        )
        if was_bound:
            self._delete_if_unused(exchange)

    def _bindable(self, source: str, destination: Queue | Exchange) -> Exchange:
        if source == "" or destination.name == "":
            raise AccessRefused(_DEFAULT_EXCHANGE_REFUSED)
        return self.exchange(source)

    def _drop_bindings_to(self, kind: DestinationKind, destination: Queue | Exchange) -> None:
        for source in self._binder.forget_destination(kind, destination, self.exchanges):
            self._delete_if_unused(source)

    def _delete_if_unused(self, exchange: Exchange) -> None:
        """auto-delete: when the last binding goes of which this exchange is the source."""
        if (
            exchange.is_auto_delete
            and exchange.name in self.exchanges
            and not self.bindings.has_source(exchange.name)
        ):
            try:
                self._remove_exchange(exchange.name)
            except StoreError as error:  # as for a queue that nobody asked to delete
                self._report_not_deleted(f"exchange '{exchange.name}'", error)
                self._forget_exchange(exchange.name)

    def __repr__(self) -> str:
        return f"<VirtualHost {self.name!r}>"


def _name_of_own_queue(exchange: Exchange) -> str | None:
    return delay_queue_name(exchange.name) if isinstance(exchange, DelayedExchange) else None


def _shown(value: object) -> str:
    if value is None:
        return "'undefined'"
    if isinstance(value, bool):
        return "'true'" if value else "'false'"
    return f"'{value.decode('utf-8', 'replace') if isinstance(value, bytes) else value}'"


def _compared(name: str, mine: Mapping[str, object], other: Mapping[str, object]) -> str:
    """One side of an argument in an inequivalence: its type is told if the other side has none."""
    if name not in mine:
        return "none"
    shown = _shown(mine[name])
    if name in other:
        return shown
    return f"the value {shown} of type '{erlang_terms.type_name(mine[name])}'"
