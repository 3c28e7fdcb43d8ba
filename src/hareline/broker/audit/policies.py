"""Dead letters of a queue with audit, and the way on for messages of a delayed exchange.

``broker.making`` takes them in place of those that record nothing.

Invariant: what is recorded here has happened; whether it happens is decided by the base classes.
                                                                                             [hot]
"""

from __future__ import annotations

from collections import deque
from random import random
from typing import TYPE_CHECKING

from hareline.broker.audit.trace import QueueTrace
from hareline.queues.dead_letters.dead_letters import DeadLetters

if TYPE_CHECKING:
    from hareline.broker.exchanges.exchange import Exchange, Route
    from hareline.message import Message
    from hareline.queues.core.audit_recorder import AuditRecorder
    from hareline.queues.core.enqueueing import Enqueueing
    from hareline.queues.core.entry import QueueEntry
    from hareline.queues.core.environment import QueueEnvironment
    from hareline.queues.core.kinds import DeathReason
    from hareline.queues.core.ports import QueuePort
    from hareline.queues.dead_letters.targets import Targets


class AuditedDeadLetters(DeadLetters):
    """Records what became of each dead letter.

    ``_waiting``: of each message that waits to be sent, in this order, what identified it in the
    queue: offset, None if it never was in there, and returns.
    """

    __slots__ = ("_trace", "_waiting")

    def __init__(
        self,
        queue_name: str,
        environment: QueueEnvironment,
        targets: Targets,
        *,
        takes_transient: bool = True,
    ) -> None:
        super().__init__(queue_name, environment, targets, takes_transient=takes_transient)
        assert environment.audit is not None
        self._trace = QueueTrace(environment.audit, queue_name)
        self._waiting: deque[tuple[int | None, int]] = deque()

    def _messages_of(self, entries: list[QueueEntry]) -> list[Message]:
        messages = super()._messages_of(entries)
        self._waiting += [(entry.offset, entry.returns) for entry in entries]
        return messages

    def _message_of(self, entry: QueueEntry) -> Message:
        message = super()._message_of(entry)
        self._waiting.append((entry.offset, entry.returns))
        return message

    def publish_message(self, message: Message, reason: DeathReason) -> None:
        if self.wants(reason):
            self._waiting.append((None, 0))
        super().publish_message(message, reason)

    def send(self, message: Message, reason: DeathReason) -> None:
        offset, returns = self._waiting.popleft()
        published_count, unroutable_count = self.published_count, self.unroutable_count
        cycle_count = self.cycle_count
        super().send(message, reason)
        event, why = "dead-lettered", str(reason)
        if self.published_count == published_count:
            if self.unroutable_count > unroutable_count:
                event = "unroutable"
            elif self.cycle_count > cycle_count:
                event, why = "dropped", "cycle"
            else:
                return  # not wanted, as it is transient, or its only queue is being deleted
        self._trace.happened_without_entry(event, message, why, offset=offset, returns=returns)


class WatchedRoute:
    """The way on for the messages of a delayed exchange; records those that reach no queue."""

    __slots__ = ("_audit", "_route")

    def __init__(self, audit: AuditRecorder, route: Route) -> None:
        self._audit = audit
        self._route = route

    def __call__(
        self, exchange: Exchange, routing_keys: list[str], message: Message
    ) -> tuple[tuple[QueuePort, ...], tuple[Enqueueing, ...]]:
        queues, archives = self._route(exchange, routing_keys, message)
        if not queues and random() < self._audit.share:
            self._audit.on_unroutable(message)
        return queues, archives
