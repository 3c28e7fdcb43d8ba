"""Direct reply-to: replies without a reply queue (RabbitMQ's ``amq.rabbitmq.reply-to``).

A requester consumes from the pseudo-queue, and publishes with its name as reply-to; the broker
rewrites it to ``amq.rabbitmq.reply-to.<opaque>``. A publish to that key is written straight to the
requester's channel. At most once: replies to a channel that is gone are dropped.
"""

from __future__ import annotations

import secrets
from collections import deque
from typing import Final

from hareline import events
from hareline.amqp.delivery_port import DeliveryPort
from hareline.amqp.ports import Transport
from hareline.broker.vhost import VirtualHost
from hareline.errors import PreconditionFailed
from hareline.events import Report
from hareline.message import Message
from hareline.queues.core.enqueueing import Enqueueing
from hareline.queues.core.kinds import KEEPS_NONE
from hareline.wire.constants import DIRECT_REPLY_TO
from hareline.wire.encoder import (
    TAG_AND_FLAG,
    deliver_prefix,
    deliver_suffix,
    short_string,
)

REPLY_TO_NAME: Final = DIRECT_REPLY_TO.decode("ascii")
REPLY_TO_PREFIX: Final = f"{REPLY_TO_NAME}."
# Octets of replies kept for a requester whose socket is full; what comes beyond is dropped.
WAITING_MAX_BYTES: Final = 1_048_576


class ReplyQueue(Enqueueing):
    """Destination of the replies to one channel; lives as long as its consumer.

    ``name`` is the opaque routing key, ``tag`` the consumer tag.
    """

    def __init__(self, port: DeliveryPort, tag: str, report: Report, transport: Transport) -> None:
        self.name = REPLY_TO_PREFIX + secrets.token_urlsafe(24)
        self.tag = tag
        self.archive = None
        self.is_deleted = False
        self.needs_admission = False
        self.keeps = KEEPS_NONE
        self._tag_octets = short_string(tag)
        self._port: DeliveryPort | None = port
        self._report = report
        self._transport = transport
        self._waiting: deque[Message] = deque()
        self._waiting_bytes = 0
        self._has_dropped = False

    def enqueue(self, message: Message) -> None:
        """Deliver a reply, now or when the socket has room; above a limit drop it."""
        port = self._port
        if port is None:
            return
        output = port.output
        is_free = not output.is_full and port.number not in output.outboxes
        if is_free and not self._waiting:
            self._deliver(port, message)
            return
        if not self._waiting and (output.is_full or not port.when_free(self._deliver_waiting)):
            output.when_writable(self._deliver_waiting)
        size = len(message.content)
        if self._waiting and self._waiting_bytes + size > WAITING_MAX_BYTES:
            self._drop(port)
            return
        self._waiting.append(message)
        self._waiting_bytes += size

    def put(self, message: Message) -> bool:
        """A reply with a time to live is like any other: it does not wait here."""
        self.enqueue(message)
        return True

    def _drop(self, port: DeliveryPort) -> None:
        """At most once is all that is promised; the log says so once until the socket drains."""
        if not self._has_dropped:
            self._has_dropped = True
            self._report(events.REPLIES_DROPPED, peer=self._transport.peer, channel=port.number)

    def close(self) -> None:
        self._port = None
        self.is_deleted = True
        self._waiting.clear()

    def _deliver_waiting(self) -> None:
        waiting, self._waiting = self._waiting, deque()
        self._waiting_bytes = 0
        self._has_dropped = False
        for message in waiting:
            self.enqueue(message)

    def _deliver(self, port: DeliveryPort, message: Message) -> None:
        octets = message.address.octets
        head = (
            deliver_prefix(port.number, self._tag_octets, octets),
            TAG_AND_FLAG.pack(port.take_tag(), False),
            deliver_suffix(octets),
        )
        port.counting().automatic += 1
        port.write_content(head, message)
        port.output.count_deliveries(len(message.content))


class ReplyConsumer:
    """The one consumer of replies that a channel may have; ``queue`` is None while it has none."""

    __slots__ = ("_port", "_report", "_transport", "_vhost", "queue")

    def __init__(
        self, port: DeliveryPort, vhost: VirtualHost, report: Report, transport: Transport
    ) -> None:
        self._port = port
        self._vhost = vhost
        self._report = report
        self._transport = transport
        self.queue: ReplyQueue | None = None

    def has_tag(self, tag: str) -> bool:
        return self.queue is not None and self.queue.tag == tag

    def open(self, tag: str) -> None:
        """Begin to take replies. Raises PreconditionFailed if there is a consumer already."""
        if self.queue is not None:
            raise PreconditionFailed("reply consumer already set")
        self.queue = ReplyQueue(self._port, tag, self._report, self._transport)
        self._vhost.reply_queues[self.queue.name] = self.queue

    def address(self) -> str:
        """Address that ``amq.rabbitmq.reply-to`` stands for in a publish on this channel.

        Raises PreconditionFailed while there is no consumer.
        """
        if self.queue is None:
            raise PreconditionFailed("fast reply consumer does not exist")
        return self.queue.name

    def close(self) -> None:
        if self.queue is not None:
            self.queue.close()
            self._vhost.reply_queues.pop(self.queue.name, None)
            self.queue = None
