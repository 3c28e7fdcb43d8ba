"""Direct reply-to: replies without a reply queue (RabbitMQ's ``amq.rabbitmq.reply-to``).

A requester consumes from the pseudo-queue ``amq.rabbitmq.reply-to`` (no-ack) and publishes requests
with that name as reply-to; the broker rewrites it to ``amq.rabbitmq.reply-to.<opaque>``. A publish
to the default exchange with that routing key is written straight to the requester's channel. The
guarantee is at most once: replies to a channel that is gone are dropped.
"""

from __future__ import annotations

import secrets
from collections import deque
from typing import TYPE_CHECKING, Final

from hareline import events
from hareline.broker.queues.kinds import KEEPS_NONE
from hareline.message import Message
from hareline.wire.encoder import (
    TAG_AND_FLAG,
    deliver_prefix,
    deliver_suffix,
    short_string,
)

if TYPE_CHECKING:
    from hareline.amqp.channel import Channel

REPLY_TO_NAME: Final = "amq.rabbitmq.reply-to"
REPLY_TO_PREFIX: Final = "amq.rabbitmq.reply-to."
# Octets of replies kept for a requester whose socket is full; what comes beyond is dropped.
WAITING_MAX_BYTES: Final = 1_048_576


class ReplyQueue:
    """Where the replies to one channel go; lives as long as its consumer.

    ``name`` is the opaque routing key, ``tag`` the consumer tag.
    """

    needs_admission: Final = False
    keeps: Final = KEEPS_NONE

    def __init__(self, channel: Channel, tag: str) -> None:
        self.name = REPLY_TO_PREFIX + secrets.token_urlsafe(24)
        self.tag = tag
        self._tag_octets = short_string(tag)
        self._channel: Channel | None = channel
        self._waiting: deque[Message] = deque()
        self._waiting_bytes = 0
        self._has_dropped = False

    @property
    def is_deleted(self) -> bool:
        return self._channel is None

    def enqueue(self, message: Message) -> None:
        channel = self._channel
        if channel is None:
            return
        connection = channel.connection
        is_free = not connection.is_full and channel.number not in connection.outboxes
        if is_free and not self._waiting:
            self._deliver(channel, message)
            return
        if not self._waiting and (
            connection.is_full or not channel.when_free(self._deliver_waiting)
        ):
            connection.when_writable(self._deliver_waiting)
        size = len(message.content)
        if self._waiting and self._waiting_bytes + size > WAITING_MAX_BYTES:
            self._drop(channel)
            return
        self._waiting.append(message)
        self._waiting_bytes += size

    def put(self, message: Message) -> bool:
        """A reply with a time to live is like any other: it does not wait here."""
        self.enqueue(message)
        return True

    def _drop(self, channel: Channel) -> None:
        """At most once is all that is promised; the log says so once until the socket drains."""
        if not self._has_dropped:
            self._has_dropped = True
            channel.connection.context.report(
                events.REPLIES_DROPPED,
                peer=channel.connection.link.peer,
                channel=channel.number,
            )

    def close(self) -> None:
        self._channel = None
        self._waiting.clear()

    def _deliver_waiting(self) -> None:
        waiting, self._waiting = self._waiting, deque()
        self._waiting_bytes = 0
        self._has_dropped = False
        for message in waiting:
            self.enqueue(message)

    def _deliver(self, channel: Channel, message: Message) -> None:
        octets = message.address.octets
        head = (
            deliver_prefix(channel.number, self._tag_octets, octets),
            TAG_AND_FLAG.pack(channel.take_tag(), False),
            deliver_suffix(octets),
        )
        channel.write_content(head, message)
        channel.connection.mark_output(len(message.content))
