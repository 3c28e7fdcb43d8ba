"""A FIFO queue in an environment where time is the test's, for what happens to entries in time."""

from __future__ import annotations

from typing import cast

from hareline.events import Event
from hareline.message import Message
from hareline.queues.core.entry import QueueEntry
from hareline.queues.dead_letters.dead_letters import DeadLetters
from hareline.queues.orders.fifo import FifoOrder
from hareline.queues.orders.order import EntryOrder
from hareline.queues.policies.expiry import Expiry
from hareline.queues.policies.hold import Hold
from hareline.queues.queue import Queue
from hareline.wire.table import Table
from tests.support.messages import make_message
from tests.support.timers import ManualTimers, queue_environment
from tests.support.turns import ManualTurn


class Deaths:
    """Stands where the dead letters go, and writes down what comes."""

    def __init__(self) -> None:
        self.bodies: list[bytes] = []
        self.reasons: list[str] = []
        self.batch_sizes: list[int] = []

    def publish(self, entries: list[QueueEntry], reason: str, ledger: object = None) -> None:
        self.bodies += [entry.message.body for entry in entries]
        self.reasons += [reason] * len(entries)
        self.batch_sizes.append(len(entries))

    def wants(self, reason: str) -> bool:
        """What a queue without an alternate binding says."""
        return reason != "deleted"


class TimedQueue:
    """``queue`` with ``deaths``; a message published here was routed to it in its own turn."""

    def __init__(self, order: EntryOrder | None = None) -> None:
        self.turn = ManualTurn()
        self.timers = ManualTimers(on_rung=self.turn.run)
        self.clock = self.timers.clock
        self.reports: list[Event] = []
        self.environment = queue_environment(
            self.timers, report=lambda event, **_: self.reports.append(event)
        )
        order = FifoOrder() if order is None else order  # an empty one is false
        self.queue = Queue("q", order, self.turn, environment=self.environment)
        self.deaths = Deaths()
        self.queue.dead_letters = cast("DeadLetters", self.deaths)

    def expire(
        self,
        *,
        message_ttl_ms: int | None = None,
        min_ttl_ms: int | None = None,
        max_ttl_ms: int | None = None,
        sweep_ms: int | None = None,
    ) -> Expiry:
        """Give the queue an expiry of its own."""
        expiry = Expiry(
            self.queue,
            self.environment,
            message_ttl_ms=message_ttl_ms,
            min_ttl_ms=min_ttl_ms,
            max_ttl_ms=max_ttl_ms,
            sweep_ms=sweep_ms,
        )
        self.queue.expiry = expiry
        self.queue.install()
        return expiry

    def hold(self) -> Hold:
        """Declare the queue with x-hold-on-publish."""
        hold = self.queue.hold = Hold(self.queue, self.environment)
        self.queue.install()
        return hold

    @property
    def now_ms(self) -> int:
        return self.clock.now_ms

    @property
    def expiry(self) -> Expiry:
        assert self.queue.expiry is not None, "nothing has expired here yet, nor can it"
        return self.queue.expiry

    def accept(
        self, body: bytes = b"", ttl_ms: int | None = None, headers: dict[str, object] | None = None
    ) -> None:
        """Route a message to the queue; the turn goes on."""
        message: Message = make_message(
            body, routing_key="q", headers=None if headers is None else Table(headers)
        )
        if ttl_ms is not None:
            message = message.expiring_at(self.now_ms + ttl_ms)
        assert self.queue.put(message)

    def publish(
        self, body: bytes = b"", ttl_ms: int | None = None, headers: dict[str, object] | None = None
    ) -> None:
        """Route a message to the queue and end the turn."""
        self.accept(body, ttl_ms, headers)
        self.turn.run()

    def pass_time(self, milliseconds: int) -> None:
        """Let time pass, with the turns that timers ask for on the way."""
        self.timers.advance(milliseconds)

    def set_clock(self, milliseconds: int) -> None:
        """Somebody sets the wall clock, by so much forward or (below 0) back."""
        self.clock.now_ms += milliseconds

    @property
    def ready(self) -> list[bytes]:
        return [entry.message.body for entry in self.queue.order]
