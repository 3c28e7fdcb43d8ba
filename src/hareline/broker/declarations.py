"""Declarations: checks, redeclaration, and the order in which a declaration takes effect.

``broker.vhost`` hands every declaration of a client to ``Declarations``, and the recovery's
restorations of what the definitions kept. Permissions are the caller's business, but for
``QueueDeclaration.check_rights``.

A new exchange or queue is checked first, then made, then written to the definitions, and added to
the registry last. So an error leaves nothing behind. No route leads to a new durable queue before
its definition is durable; if the definitions lose it, it is undone. A restoration checks less, and
writes nothing.

Invariant: a durable queue that belongs to no single connection is in the definitions and has an id.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

from hareline.broker.archives import ARCHIVE_TO
from hareline.broker.delayed_exchange import DelayedExchange
from hareline.broker.delayed_queues import PREFIX as DELAYED_PREFIX
from hareline.broker.exchange_types import create_exchange
from hareline.broker.exchanges.alternate import ALTERNATE_EXCHANGE, with_alternate
from hareline.broker.exchanges.exchange import Exchange
from hareline.broker.making import (
    QueueDefaults,
    make_delay_queue,
    make_queue,
    make_retained_queue,
)
from hareline.broker.registry import (
    DEFAULT_EXCHANGE_REFUSED,
    RESERVED_PREFIX,
    Registry,
    name_of_own_queue,
)
from hareline.broker.retaining import PREFIX as RETAINED_PREFIX
from hareline.broker.retaining import RETAIN, check_retention, retention_of
from hareline.errors import AccessRefused, AmqpError, NotFound, PreconditionFailed, StoreError
from hareline.queues.core.audit_recorder import AUDIT_STREAM, kept_stream_arguments
from hareline.queues.core.environment import QueueEnvironment
from hareline.queues.core.kinds import KEEPS_ALL, KEEPS_NONE, KEEPS_PERSISTENT
from hareline.queues.core.ownership import ClientOwner, may_use
from hareline.queues.dead_letters.targets import alternate_of
from hareline.queues.declare import readers
from hareline.queues.declare.arguments import (
    check_auto_delete,
    check_equivalent,
    check_queue_type_properties,
    parse_queue_arguments,
)
from hareline.queues.declare.table import DEFAULT_QUEUE_TYPE, QueueArguments
from hareline.queues.queue import Queue
from hareline.storage.interface import DefinitionStore, new_incarnation
from hareline.turn import Turn

# x-message-durability: which messages a durable queue keeps (Broker-J's messageDurability).
_KEEPS: Final = {"default": KEEPS_PERSISTENT, "always": KEEPS_ALL, "never": KEEPS_NONE}


@dataclass(frozen=True, slots=True)
class ExchangeDeclaration:
    """Request of a client by exchange.declare.

    ``is_lenient``: an existing exchange only needs to be of the same type (Broker-J).
    """

    name: str
    type_name: str
    is_durable: bool
    is_auto_delete: bool
    is_internal: bool
    arguments: Mapping[str, object]
    is_lenient: bool = False


@dataclass(frozen=True, slots=True)
class QueueDeclaration:
    """Request of a client by queue.declare.

    ``owner`` of an exclusive queue: the declaring connection, or the ``ClientOwner`` that stands
    for it and those to come; otherwise None. ``is_server_named``: the broker made the name, so it
    may be a reserved one. ``lenient_to``: for this connection an existing queue only needs to be as
    exclusive and as temporary as asked (Broker-J). ``check_rights`` is called with the arguments of
    a new queue before anything they name is looked for; it raises if the declarer may not have it.
    """

    name: str
    is_durable: bool
    is_auto_delete: bool
    owner: object | None
    arguments: Mapping[str, object]
    is_server_named: bool = False
    lenient_to: object | None = None
    check_rights: Callable[[QueueArguments], None] | None = None


class Declarations:
    """Declares and restores the exchanges and queues of one virtual host.

    ``queue_defaults`` concern queues declared from now on.
    """

    def __init__(
        self,
        registry: Registry,
        turn: Turn,
        environment: QueueEnvironment,
        definitions: DefinitionStore,
    ) -> None:
        self._registry = registry
        self._turn = turn
        self._environment = environment
        self._definitions = definitions
        self._vhost_name = registry.vhost_name
        self.queue_defaults = QueueDefaults()

    # ----------------------------------------------------------- exchanges

    def declare_exchange(self, asked: ExchangeDeclaration) -> Exchange:
        """The new exchange, or the existing one if it is equivalent.

        Raises AccessRefused for reserved names, PreconditionFailed for an unknown type, invalid
        arguments or an inequivalent redeclaration, and NotFound if the virtual host is deleted.
        """
        self._registry.check_not_removed()
        name, vhost_name = asked.name, self._vhost_name
        if name == "":
            raise AccessRefused(DEFAULT_EXCHANGE_REFUSED)
        existing = self._registry.exchanges.get(name)
        if existing is not None and asked.is_lenient and existing.type_name == asked.type_name:
            return existing
        arguments = with_alternate(asked.arguments, exchange=name, vhost=vhost_name)
        asked = replace(asked, arguments=arguments)
        if existing is not None:
            _check_exchange_equivalent(existing, asked, vhost_name)
            return existing
        if name.startswith(RESERVED_PREFIX):
            raise AccessRefused(
                f"exchange name '{name}' contains reserved prefix '{RESERVED_PREFIX}*'"
            )
        self._registry.capacity.check_exchange(name, arguments)
        _check_alternate_exchange(asked, vhost_name)
        self._check_archive_of_exchange(asked)
        check_retention(asked.type_name, arguments, name, vhost_name)
        exchange = create_exchange(
            asked.type_name,
            name,
            is_durable=asked.is_durable,
            is_auto_delete=asked.is_auto_delete,
            is_internal=asked.is_internal,
            arguments=arguments,
        )
        queue_id = 0
        own = name_of_own_queue(exchange)
        if asked.is_durable:
            queue_id = self._definitions.add_exchange(
                vhost_name,
                name,
                asked.type_name,
                is_auto_delete=asked.is_auto_delete,
                is_internal=asked.is_internal,
                arguments=arguments,
                queue=own,
            )
        self._registry.add_exchange(exchange)
        if own is not None:
            self._hide_until_durable(self._add_own_queue(exchange, own, queue_id))
        if asked.is_durable or exchange.archive is not None:
            self._definitions.undo_if_lost(partial(self._registry.undo_exchange, exchange))
        return exchange

    def restore_exchange(
        self,
        name: str,
        type_name: str,
        *,
        is_auto_delete: bool,
        is_internal: bool,
        arguments: Mapping[str, object],
    ) -> None:
        """Add an exchange of the definitions, unless there is one of this name.

        Raises PreconditionFailed for a type that this broker does not know.
        """
        if name in self._registry.exchanges:
            return
        # an older version may have kept values of Qpid's names that this one refuses
        with suppress(PreconditionFailed):
            arguments = with_alternate(arguments, exchange=name, vhost=self._vhost_name)
        self._registry.add_exchange(
            create_exchange(
                type_name,
                name,
                is_durable=True,
                is_auto_delete=is_auto_delete,
                is_internal=is_internal,
                arguments=arguments,
            )
        )

    def _add_own_queue(self, exchange: Exchange, name: str, queue_id: int) -> Queue:
        """``name`` is the queue's; ``queue_id`` 0: it is not in the definitions."""
        turn, environment = self._turn, self._environment
        retention = retention_of(exchange.type_name, exchange.arguments) or {}
        arguments = parse_queue_arguments(retention, queue=name, vhost=self._vhost_name)
        if isinstance(exchange, DelayedExchange):
            route = self._registry.routing.route_delayed
            queue = make_delay_queue(exchange, turn, environment, route)
        else:
            queue = make_retained_queue(exchange, arguments, turn, environment)
        if queue_id:
            self._keep_queue(queue, arguments, queue_id)
        self._registry.add_queue(queue, arguments)
        return queue

    # -------------------------------------------------------------- queues

    def declare_queue(self, asked: QueueDeclaration) -> Queue:
        """The new queue, or the existing one if it is equivalent.

        Raises AccessRefused (reserved name), ResourceLocked (another owner), PreconditionFailed
        (invalid or inequivalent arguments) and NotFound (the virtual host is deleted).
        """
        self._registry.check_not_removed()
        churn = self._registry.counts.broker.churn
        existing = self._registry.queues.get(asked.name)
        if existing is not None:
            if asked.lenient_to is not None:
                self._check_queue_alike(existing, asked)
            else:
                self._check_queue_equivalent(existing, asked)
            if existing.lease is not None:
                existing.lease.touch()
            churn.queue_declared += 1
            return existing
        parsed = self._check_new_queue(asked)
        queue = self._make_queue(
            asked.name, parsed, asked.is_durable, asked.is_auto_delete, asked.owner
        )
        if asked.is_durable and (asked.owner is None or isinstance(asked.owner, ClientOwner)):
            queue.incarnation = new_incarnation()
            try:
                queue_id = self._definitions.add_queue(
                    self._vhost_name,
                    asked.name,
                    is_auto_delete=asked.is_auto_delete,
                    arguments=asked.arguments,
                    owner=None if asked.owner is None else asked.owner.client_id,
                    incarnation=queue.incarnation,
                )
            except StoreError:
                queue.delete()
                raise
            self._keep_queue(queue, parsed, queue_id)
        self._registry.add_queue(queue, parsed)
        if asked.name in self._registry.queue_ids or parsed.archive_to is not None:
            # a transient queue cannot stay either if the stream that it archives to is lost
            self._definitions.undo_if_lost(partial(self._registry.undo_queue, queue))
            self._hide_until_durable(queue)
        if parsed.dlq_auto and parsed.alternate_binding is None:
            try:
                self._make_dead_letter_queue(queue, parsed, asked.is_server_named)
            except AmqpError:  # both queues or none
                self._registry.end_queue(queue)
                raise
        churn.queue_declared += 1
        churn.queue_created += 1
        return queue

    def restore_queue(
        self,
        queue_id: int,
        name: str,
        *,
        is_auto_delete: bool,
        arguments: Mapping[str, object],
        owner: str | None,
        incarnation: str,
    ) -> Queue:
        """A queue of the definitions, added. ``owner``: its client id; None if all may use it.

        Raises PreconditionFailed for arguments that this broker no longer takes.
        """
        exchange = self._exchange_of_queue(name)
        if exchange is not None:
            return self._add_own_queue(exchange, name, queue_id)
        audit = self._environment.audit
        if audit is not None and name == AUDIT_STREAM:
            arguments = kept_stream_arguments(arguments, audit.stream_arguments, owner)
        parsed = parse_queue_arguments(arguments, queue=name, vhost=self._vhost_name)
        queue_owner = None if owner is None else ClientOwner(owner)
        queue = self._make_queue(name, parsed, True, is_auto_delete, queue_owner)
        queue.incarnation = incarnation
        self._keep_queue(queue, parsed, queue_id)
        if audit is not None and parsed.queue_type != "stream":
            # offsets of messages that were never on disk must not come again in the audit; in
            # microseconds, since no queue takes a million messages a second
            queue.count_revived(audit.now_us() - 1)
        self._registry.add_queue(queue, parsed)
        return queue

    def audit_stream(self, arguments: Mapping[str, object]) -> Queue:
        """The stream that audit is written to; made if missing, whatever the limit of queues."""
        name, vhost_name = AUDIT_STREAM, self._vhost_name
        queue = self._registry.queues.get(name)
        if queue is None:
            parsed = parse_queue_arguments(arguments, queue=name, vhost=vhost_name)
            incarnation = new_incarnation()
            queue_id = self._definitions.add_queue(
                vhost_name,
                name,
                is_auto_delete=False,
                arguments=arguments,
                incarnation=incarnation,
            )
            queue = self._make_queue(name, parsed, True, False, None)
            queue.incarnation = incarnation
            self._keep_queue(queue, parsed, queue_id)
            self._registry.add_queue(queue, parsed)
            self._definitions.undo_if_lost(partial(self._registry.undo_queue, queue))
        return queue

    def _exchange_of_queue(self, name: str) -> Exchange | None:
        """The exchange whose own queue has this name, which is reserved; None for other names."""
        for prefix in (DELAYED_PREFIX, RETAINED_PREFIX):
            exchange = self._registry.exchanges.get(name.removeprefix(prefix))
            if exchange is not None and name_of_own_queue(exchange) == name:
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
            self._environment,
            self.queue_defaults,
            is_durable=is_durable,
            is_auto_delete=is_auto_delete,
            owner=owner,
            on_unused=self._registry.end_unused_queue if is_auto_delete else None,
            on_expired=self._registry.end_queue,
        )

    def _keep_queue(self, queue: Queue, arguments: QueueArguments, queue_id: int) -> None:
        """The queue is in the definitions; give its messages to the store if they are kept."""
        self._registry.queue_ids[queue.name] = queue_id
        keeps = _KEEPS[arguments.message_durability or "default"]
        if (arguments.queue_type or DEFAULT_QUEUE_TYPE) != "classic":
            keeps = KEEPS_ALL  # RabbitMQ's quorum queues and streams, whatever the delivery mode
        ledger = self._environment.store.open_queue(queue_id, queue.name)
        if ledger is not None and keeps != KEEPS_NONE:
            ledger.writes_all = arguments.queue_type == "stream"
            queue.install(ledger=ledger, keeps=keeps)

    def _hide_until_durable(self, queue: Queue) -> None:
        """Have no route lead to a new queue before a crash would bring it back."""
        routing = self._registry.routing
        if self._definitions.when_settled(
            partial(routing.show, queue), self._vhost_name, queue.name
        ):
            routing.hide(queue)

    def _make_dead_letter_queue(
        self, queue: Queue, arguments: QueueArguments, is_server_named: bool
    ) -> None:
        """x-dlq-auto: add a plain queue of the same durability and owner, unless it exists."""
        name = alternate_of(arguments, queue.name)
        if name is not None and name not in self._registry.queues:
            self.declare_queue(
                QueueDeclaration(
                    name,
                    is_durable=queue.is_durable,
                    is_auto_delete=False,
                    owner=queue.owner,
                    arguments={},
                    is_server_named=is_server_named,
                )
            )

    # --------------------------------------------------------------- rules

    def _check_new_queue(self, asked: QueueDeclaration) -> QueueArguments:
        """The arguments, parsed; raises what forbids the queue."""
        name, vhost_name = asked.name, self._vhost_name
        if name.startswith(RESERVED_PREFIX) and not asked.is_server_named:
            raise AccessRefused(
                f"queue name '{name}' contains reserved prefix '{RESERVED_PREFIX}*'"
            )
        parsed = parse_queue_arguments(asked.arguments, queue=name, vhost=vhost_name)
        if asked.check_rights is not None:
            asked.check_rights(parsed)
        check_queue_type_properties(
            parsed,
            queue=name,
            vhost=vhost_name,
            is_durable=asked.is_durable,
            is_exclusive=asked.owner is not None,
            is_auto_delete=asked.is_auto_delete,
            is_server_named=asked.is_server_named,
        )
        check_auto_delete(
            asked.arguments, queue=name, vhost=vhost_name, is_auto_delete=asked.is_auto_delete
        )
        self._registry.capacity.check_queue(name, asked.arguments)
        self._check_alternate(name, parsed)
        if parsed.archive_to is not None:
            self._registry.archives.check(parsed.archive_to, f"queue '{name}'")
        return parsed

    def _check_alternate(self, name: str, arguments: QueueArguments) -> None:
        """A named alternate must exist, and be another queue or exchange (Broker-J)."""
        alternate = arguments.alternate_binding
        if alternate is None:
            return
        if alternate == name:
            raise PreconditionFailed(
                f"invalid arg 'alternateBinding' for queue '{name}' in vhost "
                f"'{self._vhost_name}': a queue cannot be its own alternate"
            )
        if alternate not in self._registry.exchanges and alternate not in self._registry.queues:
            raise NotFound(f"no exchange or queue '{alternate}' in vhost '{self._vhost_name}'")

    def _check_archive_of_exchange(self, asked: ExchangeDeclaration) -> None:
        name = asked.arguments.get(ARCHIVE_TO)
        if name is None and ARCHIVE_TO not in asked.arguments:
            return
        if not isinstance(name, str):
            raise PreconditionFailed(
                f"invalid type '{readers.type_name(name)}' for arg '{ARCHIVE_TO}' in exchange "
                f"'{asked.name}' in vhost '{self._vhost_name}'"
            )
        self._registry.archives.check(name, f"exchange '{asked.name}'")

    def _check_queue_alike(self, queue: Queue, asked: QueueDeclaration) -> None:
        """A queue that ends with its connection counts as temporary (Broker-J)."""
        requester = asked.lenient_to
        if (asked.owner is None) != (queue.owner is None) or not may_use(queue.owner, requester):
            raise self._registry.locked(queue.name)
        ends_with_connection = queue.owner is requester
        if asked.is_auto_delete != queue.is_auto_delete and not ends_with_connection:
            raise self._inequivalent(queue.name, "auto_delete", asked.is_auto_delete)

    def _check_queue_equivalent(self, queue: Queue, asked: QueueDeclaration) -> None:
        if queue.owner != asked.owner:
            raise self._registry.locked(queue.name)
        if asked.is_durable != queue.is_durable:
            raise self._inequivalent(queue.name, "durable", asked.is_durable)
        if asked.is_auto_delete != queue.is_auto_delete:
            raise self._inequivalent(queue.name, "auto_delete", asked.is_auto_delete)
        check_equivalent(queue.arguments, asked.arguments, queue=queue.name, vhost=self._vhost_name)

    def _inequivalent(self, name: str, label: str, received: bool) -> PreconditionFailed:
        return PreconditionFailed(
            f"inequivalent arg '{label}' for queue '{name}' in vhost '{self._vhost_name}': "
            f"received {_shown(received)} but current is {_shown(not received)}"
        )


def _check_alternate_exchange(asked: ExchangeDeclaration, vhost_name: str) -> None:
    alternate = asked.arguments.get(ALTERNATE_EXCHANGE)
    if alternate is not None and not isinstance(alternate, str):
        raise PreconditionFailed(
            f"invalid type '{readers.type_name(alternate)}' for arg "
            f"'alternate-exchange' in exchange '{asked.name}' in vhost '{vhost_name}'"
        )


def _check_exchange_equivalent(
    exchange: Exchange, asked: ExchangeDeclaration, vhost_name: str
) -> None:
    before, now = exchange.arguments, asked.arguments
    alternate, archive = ALTERNATE_EXCHANGE, ARCHIVE_TO
    for label, received, current in (
        ("type", _shown(asked.type_name), _shown(exchange.type_name)),
        ("durable", _shown(asked.is_durable), _shown(exchange.is_durable)),
        ("auto_delete", _shown(asked.is_auto_delete), _shown(exchange.is_auto_delete)),
        ("internal", _shown(asked.is_internal), _shown(exchange.is_internal)),
        (alternate, _compared(alternate, now, before), _compared(alternate, before, now)),
        (archive, _compared(archive, now, before), _compared(archive, before, now)),
        (RETAIN, _compared(RETAIN, now, before), _compared(RETAIN, before, now)),
    ):
        if received != current:
            raise PreconditionFailed(
                f"inequivalent arg '{label}' for exchange '{exchange.name}' in vhost "
                f"'{vhost_name}': received {received} but current is {current}"
            )


def _shown(value: object) -> str:
    if value is None:
        return "'undefined'"
    if isinstance(value, bool):
        return "'true'" if value else "'false'"
    return f"'{value.decode('utf-8', 'replace') if isinstance(value, bytes) else value}'"


def _compared(name: str, mine: Mapping[str, object], other: Mapping[str, object]) -> str:
    """One side of an argument in an inequivalence, with its type if the other side lacks it."""
    if name not in mine:
        return "none"
    shown = _shown(mine[name])
    if name in other:
        return shown
    return f"the value {shown} of type '{readers.type_name(mine[name])}'"
