"""A virtual host with a manual turn and clock, and short calls of it, for tests of the model."""

from __future__ import annotations

from collections.abc import Mapping

from hareline.broker.capacity import BrokerCapacity
from hareline.broker.exchanges.bindings import DestinationKind
from hareline.broker.exchanges.exchange import Exchange
from hareline.broker.vhost import VirtualHost
from hareline.events import Event, Report
from hareline.queues.core.audit_recorder import AuditRecorder
from hareline.queues.queue import Queue
from hareline.storage.interface import DefinitionStore, MessageStore
from hareline.storage.memory import MemoryDefinitions, MemoryStore
from hareline.turn import Turn
from tests.support.messages import make_message
from tests.support.timers import ManualTimers

ME, OTHER = "my connection", "another connection"  # who declares queues: compared by identity
NO_ARGUMENTS: dict[str, object] = {}
MESSAGE = make_message(b"x")


def forget_report(event: Event, **fields: object) -> None:
    """Nobody reads the log of this virtual host."""


def make_vhost(
    turn: Turn,
    name: str = "/",
    timers: ManualTimers | None = None,
    *,
    store: MessageStore | None = None,
    definitions: DefinitionStore | None = None,
    report: Report = forget_report,
    audit: AuditRecorder | None = None,
    whole: BrokerCapacity | None = None,
) -> VirtualHost:
    """``timers`` moves its clock; None: a clock that stands still."""
    timers = timers or ManualTimers()
    return VirtualHost(
        name,
        turn,
        clock=timers.clock,
        timers=timers,
        report=report,
        store=store or MemoryStore(),
        definitions=definitions or MemoryDefinitions(),
        audit=audit,
        whole=whole,
    )


def declare(
    vhost: VirtualHost,
    name: str = "q",
    *,
    is_durable: bool = False,
    is_auto_delete: bool = False,
    is_exclusive: bool = False,
    requester: object = ME,
    is_server_named: bool = False,
    arguments: Mapping[str, object] = NO_ARGUMENTS,
) -> Queue:
    return vhost.declare_queue(
        name,
        is_server_named=is_server_named,
        is_durable=is_durable,
        is_auto_delete=is_auto_delete,
        owner=requester if is_exclusive else None,
        arguments=arguments,
    )


def declare_exchange(
    vhost: VirtualHost,
    name: str = "x",
    type_name: str = "direct",
    *,
    is_durable: bool = False,
    is_auto_delete: bool = False,
    is_internal: bool = False,
    arguments: Mapping[str, object] = NO_ARGUMENTS,
    is_lenient: bool = False,
) -> Exchange:
    return vhost.declare_exchange(
        name,
        type_name,
        is_durable=is_durable,
        is_auto_delete=is_auto_delete,
        is_internal=is_internal,
        arguments=arguments,
        is_lenient=is_lenient,
    )


def bind(
    vhost: VirtualHost,
    source: str,
    destination: Queue | Exchange,
    routing_key: str = "k",
    arguments: Mapping[str, object] = NO_ARGUMENTS,
) -> None:
    vhost.bind(source, kind_of(destination), destination, routing_key, arguments)


def unbind(
    vhost: VirtualHost,
    source: str,
    destination: Queue | Exchange,
    routing_key: str = "k",
    arguments: Mapping[str, object] = NO_ARGUMENTS,
) -> None:
    vhost.unbind(source, kind_of(destination), destination, routing_key, arguments)


def kind_of(destination: Queue | Exchange) -> DestinationKind:
    return "queue" if isinstance(destination, Queue) else "exchange"


def routed(vhost: VirtualHost, exchange: str, *routing_keys: str) -> list[str]:
    """Names of the queues that a publish reaches, in order."""
    keys = list(routing_keys or ("k",))
    queues, _, _ = vhost.routing.route(vhost.exchange(exchange), keys, MESSAGE)
    return [queue.name for queue in queues]
