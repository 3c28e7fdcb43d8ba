"""A virtual host with a manual turn and clock, and short calls of it, for tests of the model.

``VhostStand`` is one with all that a test moves by hand; ``StoredVhost`` has a store too, and
``QueueStand`` is about one queue of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from hareline.broker.capacity import BrokerCapacity
from hareline.broker.exchanges.bindings import DestinationKind
from hareline.broker.exchanges.exchange import Exchange
from hareline.broker.vhost import VirtualHost
from hareline.events import Event, Report
from hareline.message import UNWRITTEN, Message, Table
from hareline.queues.core.audit_recorder import AuditRecorder
from hareline.queues.core.start_position import FIRST, StartPosition
from hareline.queues.queue import Queue
from hareline.selectors.selector import compile_selector
from hareline.storage.interface import DefinitionStore, MessageStore
from hareline.storage.memory import MemoryStore
from hareline.turn import Turn
from tests.support.consumers import RecordingConsumer
from tests.support.messages import make_message
from tests.support.stores import FakeDefinitions, FakeLedger, FakeStore
from tests.support.timers import ManualTimers
from tests.support.turns import ManualTurn

ME, OTHER = "my connection", "another connection"  # who declares queues: compared by identity
NO_ARGUMENTS: dict[str, object] = {}
NON_DESTRUCTIVE: dict[str, object] = {"x-non-destructive": True}
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
        definitions=definitions or DefinitionStore(),
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


def bodies(queue: Queue) -> list[bytes]:
    """What is ready, in order."""
    return [entry.message.body for entry in queue.lane.ready_entries()]


class VhostStand:
    """``vhost`` with its ``turn`` and ``timers``; ``reports`` is what its log would say."""

    #: Of a consumer, beside the options of its class.
    ATTRIBUTES: ClassVar = (
        *("room", "channel", "is_browser", "closes_at_end", "stream_filter", "since_ms"),
    )

    def __init__(
        self, store: MessageStore | None = None, definitions: DefinitionStore | None = None
    ) -> None:
        self.turn = ManualTurn()
        self.timers = ManualTimers(on_rung=self.turn.run)
        self.reports: list[tuple[Event, dict[str, object]]] = []
        if store is not None:
            self.turn.write_pending = store.write_pending
        self.vhost = make_vhost(
            self.turn, timers=self.timers, store=store, definitions=definitions, report=self.report
        )
        self._consumer_count = 0

    def report(self, event: Event, **fields: object) -> None:
        self.reports.append((event, fields))

    @property
    def now_ms(self) -> int:
        return self.timers.clock.now_ms

    def declare(
        self,
        name: str = "q",
        arguments: Mapping[str, object] = NO_ARGUMENTS,
        *,
        is_durable: bool = True,
        is_auto_delete: bool = False,
        owner: object = None,
    ) -> Queue:
        return self.vhost.declare_queue(
            name,
            is_durable=is_durable,
            is_auto_delete=is_auto_delete,
            owner=owner,
            arguments=arguments,
        )

    def message(
        self,
        body: bytes = b"x",
        *,
        ttl_ms: int = 0,
        headers: Mapping[str, object] | None = None,
        **properties: Any,
    ) -> Message:
        """One that arrives now; with delivery mode 2 the store is to keep it."""
        table = None if headers is None else Table(headers)
        message = make_message(body, headers=table, **properties)
        message.arrival_ms = self.now_ms
        if properties.get("delivery_mode") == 2:
            message.position = UNWRITTEN
        return message.expiring_at(self.now_ms + ttl_ms) if ttl_ms else message

    def accept(self, queue: Queue, body: bytes = b"x", **properties: Any) -> bool:
        """Whether the queue takes a message like that of ``message``; the turn goes on."""
        return offer(queue, self.message(body, **properties))

    def publish(self, queue: Queue, *bodies: bytes, **properties: Any) -> list[bool]:
        """Messages that come in one turn, and its end; which of them were taken."""
        taken = [self.accept(queue, body, **properties) for body in bodies]
        self.turn.run()
        return taken

    def consume(
        self,
        queue: Queue,
        prefetch_count: int = 0,
        *,
        selector: str | None = None,
        start: StartPosition = FIRST,
        **options: Any,
    ) -> RecordingConsumer:
        """A new consumer, and the end of the turn; ``options``: attributes, or of the class."""
        self._consumer_count += 1
        attributes = {name: options.pop(name) for name in self.ATTRIBUTES if name in options}
        consumer = RecordingConsumer(
            queue,
            f"c{self._consumer_count}",
            prefetch_count=prefetch_count,
            selector=None if selector is None else compile_selector(selector),
            **options,
        )
        consumer.start_position = start
        for name, value in attributes.items():
            setattr(consumer, name, value)
        queue.add_consumer(consumer)
        self.turn.run()
        return consumer


def offer(queue: Queue, message: Message) -> bool:
    """Whether the queue takes it, by the way that a publish goes."""
    if queue.needs_admission or message.expires_at_ms:
        return bool(queue.put(message))
    queue.enqueue(message)
    return True


class StoredVhost(VhostStand):
    """One whose store and definitions the test steps."""

    def __init__(self) -> None:
        self.store = FakeStore()
        self.definitions = FakeDefinitions()
        super().__init__(self.store, self.definitions)

    def ledger(self, name: str = "q") -> FakeLedger:
        return self.store.ledgers[name]


class QueueStand:
    """``queue`` of a virtual host of its own, made of arguments as clients make it."""

    def __init__(self, arguments: Mapping[str, object], *, is_auto_delete: bool = False) -> None:
        self.host = VhostStand()
        self.turn, self.timers, self.vhost = self.host.turn, self.host.timers, self.host.vhost
        self.queue = self.host.declare("q", arguments, is_auto_delete=is_auto_delete)

    def accept(self, *bodies: bytes, **properties: Any) -> None:
        """Messages that arrive now; the turn goes on."""
        for body in bodies:
            assert self.host.accept(self.queue, body, **properties)

    def publish(self, *bodies: bytes, **properties: Any) -> None:
        """Messages that arrive now, and the end of the turn."""
        self.accept(*bodies, **properties)
        self.turn.run()

    def consume(self, prefetch_count: int = 0, **options: Any) -> RecordingConsumer:
        """A new consumer, and the end of the turn; ``options`` as those of ``VhostStand``."""
        return self.host.consume(self.queue, prefetch_count, **options)

    def browse(self, prefetch_count: int = 0, **options: Any) -> RecordingConsumer:
        return self.consume(prefetch_count, is_browser=True, **options)

    @property
    def bodies(self) -> list[bytes]:
        return bodies(self.queue)


def numbers(start: int, stop: int) -> list[bytes]:
    return [b"%03d" % number for number in range(start, stop)]
