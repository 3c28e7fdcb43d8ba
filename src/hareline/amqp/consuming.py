"""Consumers of a channel: entries of a queue become deliveries.

The frames of a delivery are joined from parts that are constant for a consumer and an address, and
the content as it was received; only content for another channel number or above frame_max is built
again. A delivery's tag is in ``unacked`` before its frames are in the output.               [hot]
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from hareline.amqp.client import Client
from hareline.amqp.consumer_arguments import ConsumerArguments
from hareline.amqp.context import ConnectionParts
from hareline.amqp.delivery_port import DeliveryPort
from hareline.amqp.internal_events import on_consumer
from hareline.broker.audit.queue import AuditedQueue
from hareline.message import Address
from hareline.queues.core.consumer import Consumer
from hareline.queues.core.credit import CreditWindow
from hareline.queues.core.entry import QueueEntry
from hareline.queues.queue import Queue
from hareline.wire.constants import FRAME_OVERHEAD
from hareline.wire.encoder import (
    TAG_AND_FLAG,
    content_frames,
    deliver_prefix,
    deliver_suffix,
    short_string,
)
from hareline.wire.methods import commands

ENVELOPES_MAX: Final = 1024  # addresses whose frame parts a consumer keeps


class ChannelConsumer(Consumer):
    """A consumer of a channel; ``_envelopes`` keeps prefix and suffix by address."""

    __slots__ = ("_consumers", "_envelopes", "_port", "_tag_octets", "arguments")

    def __init__(
        self,
        consumers: ChannelConsumers,
        tag: str,
        queue: Queue,
        *,
        acknowledges: bool,
        is_exclusive: bool,
        options: ConsumerArguments,
        prefetch_count: int,
        windows: tuple[CreditWindow, ...],
        arguments: Mapping[str, object],
    ) -> None:
        super().__init__(
            tag,
            queue,
            acknowledges=acknowledges,
            is_exclusive=is_exclusive,
            priority=options.priority,
            prefetch_count=prefetch_count,
            refill_percent=options.refill_percent,
            windows=windows,
            selector=options.selector,
        )
        self._consumers = consumers
        self._port = consumers.port
        self.publisher = consumers.client.publisher
        self._tag_octets = short_string(tag)
        self._envelopes: dict[Address, tuple[bytes, bytes]] = {}
        self.arguments = arguments

    def deliver(self, entries: list[QueueEntry]) -> int:
        port = self._port
        output = port.output
        number = port.number
        unacked = port.unacked.entries if self.acknowledges else None
        body_max = output.frame_max - FRAME_OVERHEAD
        envelopes = self._envelopes
        pack = TAG_AND_FLAG.pack
        frames = output.frames_of(number) if output.outboxes else output.frames
        tag = port.next_tag
        first_tag = tag
        room = output.room
        size = 0
        last_address = None
        prefix = suffix = b""
        for entry in entries:
            message = entry.message
            address = message.address
            if address is not last_address:
                last_address = address
                envelope = envelopes.get(address)
                if envelope is None:
                    envelope = self._envelope(address)
                prefix, suffix = envelope
            if unacked is not None:
                unacked[tag] = entry
                entry.consumer = self
            if message.channel == number and message.size <= body_max:
                content = message.content
                size += len(content)
                frames += (prefix, pack(tag, entry.delivery_count > 0), suffix, content)
            else:
                head = (prefix, pack(tag, entry.delivery_count > 0), suffix)
                if message.extras is not None and message.large is not None:
                    frames = output.begin_large(number, head, message)
                else:
                    frames += head
                    frames += content_frames(message, number, output.frame_max)
                size += len(message.content)
            tag += 1
            if size > room:
                break
        port.next_tag = tag
        output.count_deliveries(size)
        queue = self.queue
        if unacked is None:
            tally = port.tally
            if tally is None:
                tally = port.counting()
            tally.automatic += tag - first_tag
        if queue.redelivering:
            self._count_redelivered(entries, tag - first_tag)
        ledger = queue.ledger
        if ledger is not None and ledger.deliver_ticket:
            output.hold(ledger.deliver_ticket)
        if port.tap is not None:
            port.tap.on_delivered(entries[: tag - first_tag], queue.name)
        return tag - first_tag

    def _count_redelivered(self, entries: list[QueueEntry], taken: int) -> None:
        """Count those of the first ``taken`` entries that the queue has found to be redelivered."""
        count = sum([entry.delivery_count > 0 for entry in entries[:taken]])
        queue = self.queue
        if isinstance(queue, Queue):
            queue.redelivering = max(0, queue.redelivering - count)
        self._port.counting().redeliver += count

    def _envelope(self, address: Address) -> tuple[bytes, bytes]:
        if len(self._envelopes) >= ENVELOPES_MAX:
            self._envelopes.clear()
        envelope = (
            deliver_prefix(self._port.number, self._tag_octets, address.octets),
            deliver_suffix(address.octets),
        )
        self._envelopes[address] = envelope
        return envelope

    @property
    def port(self) -> DeliveryPort:
        """Its channel's way out."""
        return self._port

    @property
    def room_bytes(self) -> int:
        return self._port.output.room

    @property
    def delivery_port(self) -> object:
        """AMQP 0-9-1 section 4.7: the order of a queue is kept on one outgoing channel."""
        return self._port

    def suspend_if_full(self) -> bool:
        return self._port.waits(self._resume)

    @property
    def is_writable(self) -> bool:
        return self._port.is_writable

    def _resume(self) -> None:
        self.queue.activate(self)

    def on_queue_deleted(self) -> None:
        self._consumers.on_cancelled(self)

    def on_finished(self) -> None:
        self._consumers.on_finished(self)


class AuditedConsumer(ChannelConsumer):
    """Consumer that records what it was handed; only of an ``AuditedQueue``."""

    __slots__ = ()

    def deliver(self, entries: list[QueueEntry]) -> int:
        count = super().deliver(entries)
        queue = self.queue
        assert isinstance(queue, AuditedQueue), queue
        handed_over = entries if count == len(entries) else entries[:count]
        queue.trace.happened("delivered", handed_over, tag=self.tag)
        return count


class ChannelConsumers:
    """The consumers of one channel; ``by_tag`` has them in the order in which they came."""

    __slots__ = ("_parts", "by_tag", "client", "port")

    def __init__(self, port: DeliveryPort, client: Client, parts: ConnectionParts) -> None:
        self._parts = parts
        self.port = port
        self.client = client
        self.by_tag: dict[str, ChannelConsumer] = {}

    def add(self, consumer: ChannelConsumer) -> None:
        """A consumer that has this tag from now on."""
        self.by_tag[consumer.tag] = consumer
        self.client.vhost.counts.broker.consumers_created += 1

    def forget(self, tag: str) -> ChannelConsumer | None:
        """The consumer with this tag, which it has no longer; None if there is none."""
        consumer = self.by_tag.pop(tag, None)
        if consumer is not None:
            self.client.vhost.counts.broker.consumers_closed += 1
            self._tell_ended(consumer)
        return consumer

    def _tell_ended(self, consumer: ChannelConsumer) -> None:
        on_consumer("consumer.deleted", self._parts, self.port.number, consumer)

    def on_cancelled(self, consumer: ChannelConsumer) -> None:
        """The queue of this consumer was deleted: tell the client, if it takes that."""
        self.forget(consumer.tag)
        if self.client.takes_consumer_cancel and not self.port.is_closing:
            self.port.reply(commands.Basic.Cancel, consumer_tag=consumer.tag, nowait=True)

    def on_finished(self, consumer: ChannelConsumer) -> None:
        """This consumer was let go at the end of its queue: tell the client."""
        if self.client.dialect.is_end_reported:  # Broker-J: a cancel-ok without a request
            self.forget(consumer.tag)
            if not self.port.is_closing:
                self.port.reply(commands.Basic.CancelOk, consumer_tag=consumer.tag)
        else:
            self.on_cancelled(consumer)

    def remove_all(self) -> None:
        """Take all of them from their queues: the channel ends."""
        consumers = list(self.by_tag.values())
        self.by_tag.clear()
        self.client.vhost.counts.broker.consumers_closed += len(consumers)
        for consumer in consumers:
            consumer.queue.remove_consumer(consumer)
            self._tell_ended(consumer)
