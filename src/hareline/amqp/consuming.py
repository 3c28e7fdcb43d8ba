"""Consumers of a channel: their prefetch, and how entries of a queue become deliveries.

The frames of a delivery are joined from parts that are constant for a consumer and an address, and
the content as it was received; only content for another channel number or above frame_max is built
again. A delivery's tag is in ``unacked`` before its frames are in the output.               [hot]
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final

from hareline.amqp.client import Client
from hareline.amqp.consumer_arguments import ConsumerArguments
from hareline.amqp.context import ConnectionParts
from hareline.amqp.delivery_port import DeliveryPort
from hareline.amqp.internal_events import on_consumer
from hareline.amqp.ports import Transport
from hareline.broker.audit.queue import AuditedQueue
from hareline.broker.vhost import VirtualHost, generated_name
from hareline.message import Address
from hareline.queues.core.consumer import Consumer
from hareline.queues.core.credit import CreditWindow
from hareline.queues.core.entry import QueueEntry
from hareline.queues.declare.arguments import server_named_prefix
from hareline.queues.declare.table import QueueArguments
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
# ActiveMQ Classic, ActiveMQPrefetchPolicy: queue, durable topic, topic and queue browser. The
# numbers are those of its documentation; its code has had 32767 for the third since.
QUEUE_PREFETCH: Final = 1000
DURABLE_SUBSCRIPTION_PREFETCH: Final = 100
SUBSCRIPTION_PREFETCH: Final = 32_766
BROWSER_PREFETCH: Final = 500


class ChannelConsumer(Consumer):
    """A consumer of a channel; ``_envelopes`` keeps prefix and suffix by address.

    ``timeout_ms``: how long it may hold a delivery, 0 for ever; None: it did not say.
    ``delivered_count``: deliveries that it has got.
    """

    __slots__ = (
        "_envelopes",
        "_port",
        "_tag_octets",
        "arguments",
        "channel_consumers",
        "delivered_count",
        "timeout_ms",
    )

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
        self.start_position = options.start
        self.is_browser = options.is_browser
        self.closes_at_end = options.closes_at_end
        self.since_ms = options.since_ms
        self.stream_filter = options.stream_filter
        self.timeout_ms = options.timeout_ms
        self.delivered_count = 0
        self.channel_consumers = consumers
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
        self.delivered_count += tag - first_tag
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
        self.channel_consumers.on_cancelled(self)

    def on_finished(self) -> None:
        self.channel_consumers.on_finished(self)


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
        self.tell("consumer.deleted", consumer)

    def tell(
        self, key: str, consumer: ChannelConsumer, further: Mapping[str, object] | None = None
    ) -> None:
        """Publish an event of a consumer, with ``further`` fields."""
        on_consumer(key, self._parts, self.port.number, consumer, further)

    @property
    def may_cancel(self) -> bool:
        """True if the client takes basic.cancel."""
        return self.client.takes_consumer_cancel

    @property
    def transport(self) -> Transport:
        return self._parts.transport

    def on_cancelled(self, consumer: ChannelConsumer) -> None:
        """The broker has ended this consumer: tell the client, if it takes that."""
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


class ChannelPrefetch:
    """Limits that basic.qos has set on a channel. ``is_set``: the client has sent it.

    ``count`` and ``size`` (octets) are limits of each consumer that comes, ``window`` is shared by
    all consumers of the channel (global=true).
    """

    __slots__ = ("count", "is_set", "size", "window")

    def __init__(self) -> None:
        self.is_set = False
        self.count = 0
        self.size = 0
        self.window = CreditWindow()

    def windows_for_consumer(self, *, acknowledges: bool) -> tuple[CreditWindow, ...]:
        """Limits of a new consumer beyond its count: its octets, and the channel's window."""
        windows: list[CreditWindow] = []
        if self.size and acknowledges:
            windows.append(CreditWindow(0, self.size))
        if self.window.is_limited:
            windows.append(self.window)
        return tuple(windows)

    def limit_each(self, count: int, size: int) -> None:
        """basic.qos global=false: limits of each consumer that comes, and none over all of them."""
        self.window.resize(0, 0)
        self.count = count
        self.size = size

    def limit_all(
        self,
        limit_count: int,
        limit_bytes: int,
        consumers: Iterable[ChannelConsumer],
        outstanding: Callable[[], Iterable[QueueEntry]],
    ) -> None:
        """basic.qos global=true: one limit over all consumers, in force at once.

        Deliveries made before it count, so the window is filled from what is ``outstanding``.
        """
        window = self.window
        if not window.is_limited and (limit_count or limit_bytes):
            window.used_count = window.used_bytes = 0
            members = set(consumers)
            for entry in outstanding():
                if isinstance(entry.consumer, ChannelConsumer):
                    members.add(entry.consumer)
                    window.count(entry.message.size)
            for consumer in members:
                if window not in consumer.windows:
                    consumer.windows = (*consumer.windows, window)
        window.resize(limit_count, limit_bytes)


def prefetch_for_consumer(
    prefetch: ChannelPrefetch,
    vhost: VirtualHost,
    queue: Queue,
    asked: int | None,
    *,
    is_exclusive: bool,
    is_browser: bool,
) -> int:
    """Prefetch of a new consumer, 0 for no limit; ``asked`` is its x-prefetch-count.

    The first that is set counts: x-prefetch-count, basic.qos on its channel, x-default-prefetch or
    x-prefetch-profile of its queue (with policies), the settings of the virtual host. The smaller
    ``prefetch_max`` of both bounds all. ``is_exclusive``: it consumes exclusively. ``is_browser``:
    what it gets stays in the queue.
    """
    arguments = vhost.queue_arguments[queue.name]
    if asked is not None:
        count = asked
    elif prefetch.is_set:
        count = prefetch.count
    elif arguments.default_prefetch is not None:
        count = arguments.default_prefetch
    elif (arguments.prefetch_profile or vhost.prefetch_profile) == "activemq":
        count = activemq_prefetch(
            queue, arguments, is_exclusive=is_exclusive, is_browser=is_browser
        )
    else:
        count = vhost.default_prefetch
    bounds = (count, vhost.prefetch_max, arguments.prefetch_max)
    return min((each for each in bounds if each), default=0)


def timeout_ms_of(consumer: ChannelConsumer, vhost: VirtualHost) -> int:
    """Time in milliseconds for which a consumer may hold a delivery; 0 for no limit.

    The first that is set counts: its own argument, its queue's (with policies), the setting of the
    virtual host. Streams have none, as in RabbitMQ.
    """
    if consumer.timeout_ms is not None:
        return consumer.timeout_ms
    arguments = vhost.queue_arguments.get(consumer.queue.name)
    if arguments is None or arguments.queue_type == "stream":
        return 0
    timeout_ms = arguments.consumer_timeout_ms
    return vhost.consumer_timeout_ms if timeout_ms is None else timeout_ms


def has_rules(consumer: Consumer, vhost: VirtualHost) -> bool:
    """True if the consumer may hold a delivery for too long, or be too slow for its queue."""
    if not consumer.acknowledges or not isinstance(consumer, ChannelConsumer):
        return False
    arguments = vhost.queue_arguments.get(consumer.queue.name)
    is_ruled = arguments is not None and arguments.slow_consumer_rule is not None
    return is_ruled or timeout_ms_of(consumer, vhost) > 0


def activemq_prefetch(
    queue: Queue, arguments: QueueArguments, *, is_exclusive: bool, is_browser: bool
) -> int:
    """ActiveMQ's default for what comes nearest to this queue there.

    A topic's subscription is a queue here: a durable one outlives its client and has one consumer
    at a time, any other has a name made by the server and goes with its consumer.
    """
    if is_browser:
        return BROWSER_PREFETCH
    if queue.is_durable:
        return DURABLE_SUBSCRIPTION_PREFETCH if is_exclusive else QUEUE_PREFETCH
    if queue.is_auto_delete and _is_server_named(queue.name, arguments):
        return SUBSCRIPTION_PREFETCH
    return QUEUE_PREFETCH


def _is_server_named(name: str, arguments: QueueArguments) -> bool:
    """True by its form: ``amq.`` is reserved, and x-name-prefix lets the server name the queue."""
    prefix = f"{server_named_prefix(arguments.raw)}-"
    return name.startswith(prefix) and len(name) == len(generated_name(prefix))
