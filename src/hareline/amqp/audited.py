"""Publishing and consuming in a virtual host with audit: as elsewhere, and it is recorded.

``amqp.channel`` and ``amqp.basic_methods`` choose these classes when a channel or a consumer is
made, so without audit no message pays for them.

Invariant: a publish is recorded when it is put into queues; in a transaction that is the commit.
                                                                                             [hot]
"""

from __future__ import annotations

from random import random

from hareline.amqp.consuming import ChannelConsumer
from hareline.amqp.context import ConnectionParts
from hareline.amqp.delivery_port import DeliveryPort
from hareline.amqp.publishing import Publishing
from hareline.amqp.reply_to import ReplyConsumer
from hareline.amqp.routes import Route
from hareline.broker.audit.queue import AuditedQueue
from hareline.message import Message
from hareline.queues.core.audit_recorder import AuditRecorder
from hareline.queues.core.enqueueing import Enqueueing
from hareline.queues.core.entry import QueueEntry


class AuditedPublishing(Publishing):
    """Records each publish, and those that no queue takes."""

    __slots__ = ("_audit", "_share")

    def __init__(
        self,
        parts: ConnectionParts,
        port: DeliveryPort,
        reply_to: ReplyConsumer,
        audit: AuditRecorder,
    ) -> None:
        super().__init__(parts, port, reply_to)
        self._audit = audit
        self._share = audit.share  # random() is below 1.0, so that is all

    def publish_plain(self, route: Route, content: bytes, header_size: int, size: int) -> None:
        if random() < self._share:
            self._audit.on_published(route.address, size, len(route.queues))
        Publishing.publish_plain(self, route, content, header_size, size)  # cheaper than super()

    def publish_run(
        self, route: Route, contents: list[bytes], header_size: int, framing: int
    ) -> None:
        self.publish_each(route, contents, header_size, framing)

    def _enqueue(
        self,
        message: Message,
        queues: tuple[Enqueueing, ...],
        archives: tuple[Enqueueing, ...],
        is_mandatory: bool,
    ) -> bool:
        if random() < self._share:
            self._audit.on_published(message.address, message.size, len(queues))
        return super()._enqueue(message, queues, archives, is_mandatory)


class AuditedConsumer(ChannelConsumer):
    """Records what it was handed; only of an ``AuditedQueue``."""

    __slots__ = ()

    def deliver(self, entries: list[QueueEntry]) -> int:
        count = super().deliver(entries)
        queue = self.queue
        assert isinstance(queue, AuditedQueue), queue
        handed_over = entries if count == len(entries) else entries[:count]
        queue.trace.happened("delivered", handed_over, tag=self.tag)
        return count
