"""basic.consume, cancel, get and qos, and the deliveries of a consumer.

``ChannelConsumer.deliver`` is called by the queue's dispatcher with a run of entries. The frames of
a delivery are joined from parts that are constant for a consumer and an address, and the content as
it was received; only content for another channel number or above frame_max is built anew.   [hot]
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

from hareline.amqp.consumer_arguments import ConsumerArguments, read_consumer_arguments
from hareline.amqp.prefetch import prefetch_for_consumer
from hareline.amqp.reading_arguments import (
    ReadingArguments,
    check_not_stream,
    check_stream_consumer,
    read_reading_arguments,
)
from hareline.amqp.reply_to import REPLY_TO_NAME, ReplyQueue
from hareline.broker.queues.declare.arguments import QueueArguments
from hareline.broker.queues.declare.build import is_non_destructive
from hareline.broker.queues.dispatch.consumer import Consumer
from hareline.broker.queues.dispatch.credit import CreditWindow
from hareline.broker.queues.entry import QueueEntry
from hareline.broker.queues.queue import Queue
from hareline.broker.vhost import generated_name
from hareline.errors import AccessRefused, NotAllowed, PreconditionFailed, ResourceLocked
from hareline.message import Address
from hareline.wire.constants import FRAME_OVERHEAD
from hareline.wire.encoder import (
    TAG_AND_FLAG,
    content_frames,
    deliver_prefix,
    deliver_suffix,
    get_ok_frame,
    short_string,
)
from hareline.wire.methods import Frame, commands

if TYPE_CHECKING:
    from hareline.amqp.channel import Channel

ENVELOPES_MAX: Final = 1024  # addresses whose frame parts a consumer keeps


class ChannelConsumer(Consumer):
    """A consumer of a channel; ``_envelopes`` keeps prefix and suffix by address."""

    __slots__ = ("_channel", "_envelopes", "_tag_octets", "arguments")

    def __init__(
        self,
        channel: Channel,
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
        self._channel = channel
        self.publisher = channel.connection.publisher
        self._tag_octets = short_string(tag)
        self._envelopes: dict[Address, tuple[bytes, bytes]] = {}
        self.arguments = arguments

    def deliver(self, entries: list[QueueEntry]) -> int:
        channel = self._channel
        connection = channel.connection
        number = channel.number
        unacked = channel.settling.unacked.entries if self.acknowledges else None
        body_max = connection.frame_max - FRAME_OVERHEAD
        envelopes = self._envelopes
        pack = TAG_AND_FLAG.pack
        output = connection.output_of(number) if connection.outboxes else connection.output
        tag = channel.next_tag
        first_tag = tag
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
                output += (prefix, pack(tag, entry.delivery_count > 0), suffix, content)
            else:
                head = (prefix, pack(tag, entry.delivery_count > 0), suffix)
                if message.extras is not None and message.large is not None:
                    output = connection.begin_large(number, head, message)
                else:
                    output += head
                    output += content_frames(message, number, connection.frame_max)
                size += len(message.content)
            tag += 1
            if size > connection.output_room:
                break
        channel.next_tag = tag
        connection.mark_output(size)
        ledger = self.queue.ledger
        if ledger is not None and ledger.deliver_ticket:
            connection.hold_output(ledger.deliver_ticket)
        return tag - first_tag

    def _envelope(self, address: Address) -> tuple[bytes, bytes]:
        if len(self._envelopes) >= ENVELOPES_MAX:
            self._envelopes.clear()
        envelope = (
            deliver_prefix(self._channel.number, self._tag_octets, address.octets),
            deliver_suffix(address.octets),
        )
        self._envelopes[address] = envelope
        return envelope

    @property
    def room_bytes(self) -> int:
        return self._channel.connection.output_room

    @property
    def outlet(self) -> object:
        """AMQP 0-9-1 section 4.7: the order of a queue is kept on one outgoing channel."""
        return self._channel

    def suspend_if_full(self) -> bool:
        connection = self._channel.connection
        if connection.is_full:
            connection.when_writable(self._resume)
            return True
        if not self._channel.is_flowing:
            self._channel.when_flowing(self._resume)
            return True
        return bool(connection.outboxes) and self._channel.when_free(self._resume)

    @property
    def is_writable(self) -> bool:
        channel = self._channel
        connection = channel.connection
        is_busy = channel.number in connection.outboxes
        return channel.is_flowing and not connection.is_full and not is_busy

    def _resume(self) -> None:
        self.queue.activate(self)

    def on_queue_deleted(self) -> None:
        self._channel.on_consumer_cancelled(self)

    def on_finished(self) -> None:
        self._channel.on_consumer_finished(self)


# --------------------------------------------------------------------------- methods


def consume(channel: Channel, method: commands.Basic.Consume) -> None:
    queue_name = channel.queue_name(method.queue)
    tag = method.consumer_tag or generated_name("amq.ctag-")
    if tag in channel.consumers or (channel.reply_queue and channel.reply_queue.tag == tag):
        raise NotAllowed(f"attempt to reuse consumer tag '{tag}'")
    if queue_name == REPLY_TO_NAME:
        _consume_replies(channel, method, tag)
        return
    channel.access.require("read", "queue", queue_name)
    queue = channel.vhost.queue(queue_name, channel.connection)
    arguments: Mapping[str, object] = method.arguments or {}
    queue_arguments = channel.vhost.queue_arguments[queue_name]
    options = read_consumer_arguments(
        arguments,
        queue_arguments,
        queue=queue_name,
        vhost=channel.vhost.name,
        dialect=channel.dialect,
    )
    reading = read_reading_arguments(
        arguments,
        queue_arguments,
        queue=queue_name,
        vhost=channel.vhost.name,
        now_ms=channel.vhost.environment.clock.now_ms,
    )
    limit = channel.connection.context.limits.max_consumers_per_channel
    if limit and len(channel.consumers) >= limit:
        raise NotAllowed(f"reached maximum ({limit}) of consumers per channel")
    _check_room(queue, queue_arguments, channel.vhost.name, is_exclusive=bool(method.exclusive))
    consumer = _new_consumer(channel, tag, queue, method, options, reading)
    if consumer.is_selective:
        _check_selector_room(channel, queue, consumer)
    channel.consumers[tag] = consumer
    if not method.nowait:
        channel.reply(commands.Basic.ConsumeOk, consumer_tag=tag)
    queue.add_consumer(consumer)


def _new_consumer(
    channel: Channel,
    tag: str,
    queue: Queue,
    method: commands.Basic.Consume,
    options: ConsumerArguments,
    reading: ReadingArguments,
) -> ChannelConsumer:
    queue_arguments = channel.vhost.queue_arguments[queue.name]
    is_exclusive = bool(method.exclusive)
    prefetch_count = prefetch_for_consumer(
        channel,
        queue,
        options.prefetch_count,
        is_exclusive=is_exclusive,
        is_browser=reading.is_browser or is_non_destructive(queue_arguments),
    )
    windows = channel.windows_for_consumer(acknowledges=not method.no_ack)
    check_stream_consumer(
        queue_arguments,
        queue=queue.name,
        vhost=channel.vhost.name,
        acknowledges=not method.no_ack,
        is_limited=bool(prefetch_count or windows),
    )
    consumer = ChannelConsumer(
        channel,
        tag,
        queue,
        acknowledges=not method.no_ack,
        is_exclusive=is_exclusive,
        options=options,
        prefetch_count=prefetch_count,
        windows=windows,
        arguments=method.arguments or {},
    )
    reading.apply(consumer)
    is_no_local = options.is_no_local or queue_arguments.no_local
    if is_no_local or (method.no_local and channel.dialect.has_no_local):
        consumer.no_local_of = consumer.publisher
        channel.vhost.routing.mark_publishers()
    return consumer


def _check_room(queue: Queue, arguments: QueueArguments, vhost: str, *, is_exclusive: bool) -> None:
    """Whether the queue takes one more consumer; raises AccessRefused.

    Where one consumer is active and the others wait for it, none may ask to be alone (RabbitMQ:
    ``exclusive_consume_unavailable``).
    """
    place = f"queue '{queue.name}' in vhost '{vhost}'"
    if arguments.single_active_consumer:
        is_taken = is_exclusive
    else:
        is_taken = queue.exclusive_count > 0 or (is_exclusive and queue.consumer_count > 0)
    if is_taken:
        raise AccessRefused(f"{place} in exclusive use")
    if arguments.max_consumers is not None and queue.consumer_count >= arguments.max_consumers:
        raise AccessRefused(
            f"{place} has reached its maximum of {arguments.max_consumers} consumers"
        )


def _check_selector_room(channel: Channel, queue: Queue, consumer: ChannelConsumer) -> None:
    """Whether the queue takes one more kind of consumer; raises PreconditionFailed."""
    limit = channel.connection.context.limits.max_selectors_per_queue
    cost = queue.lane.selector_cost_with(consumer) if limit else 0
    if cost > limit:
        raise PreconditionFailed(
            f"queue '{queue.name}' in vhost '{channel.vhost.name}' has reached its maximum of "
            f"{limit} different selectors (max_selectors_per_queue): with this one they count as "
            f"{cost}"
        )


def _consume_replies(channel: Channel, method: commands.Basic.Consume, tag: str) -> None:
    if not method.no_ack:
        raise PreconditionFailed("reply consumer cannot acknowledge")
    if channel.reply_queue is not None:
        raise PreconditionFailed("reply consumer already set")
    reply_queue = ReplyQueue(channel, tag)
    channel.reply_queue = reply_queue
    channel.vhost.reply_queues[reply_queue.name] = reply_queue
    if not method.nowait:
        channel.reply(commands.Basic.ConsumeOk, consumer_tag=tag)


def cancel(channel: Channel, method: commands.Basic.Cancel) -> None:
    """An unknown tag is no error. Deliveries stay unacked; none follow cancel-ok."""
    tag = method.consumer_tag or ""
    consumer = channel.consumers.pop(tag, None)
    if consumer is not None:
        consumer.queue.deliver_due()
        consumer.queue.remove_consumer(consumer)
    elif channel.reply_queue is not None and channel.reply_queue.tag == tag:
        channel.close_reply_queue()
    if not method.nowait:
        channel.reply(commands.Basic.CancelOk, consumer_tag=tag)


def get(channel: Channel, method: commands.Basic.Get) -> None:
    queue_name = channel.queue_name(method.queue)
    channel.access.require("read", "queue", queue_name)
    queue = channel.vhost.queue(queue_name, channel.connection)
    arguments = channel.vhost.queue_arguments[queue_name]
    if arguments.single_active_consumer and arguments.queue_type == "quorum":
        raise ResourceLocked(
            f"cannot obtain access to locked queue '{queue_name}' in vhost '{channel.vhost.name}'. "
            "basic.get operations are not supported by quorum queues with single active consumer"
        )
    check_not_stream(arguments, "basic.get", queue=queue_name, vhost=channel.vhost.name)
    entry = queue.get()
    if entry is None:
        channel.reply(commands.Basic.GetEmpty)
        return
    tag = channel.take_tag()
    if method.no_ack:
        entry.queue.settle(entry)
    else:
        channel.settling.unacked.entries[tag] = entry
    message = entry.message
    connection = channel.connection
    head = get_ok_frame(
        channel.number,
        tag,
        entry.delivery_count > 0,
        message.address.octets,
        queue.ready_count,
    )
    channel.write_content((head,), message)
    connection.mark_output(len(message.content))
    if queue.ledger is not None and queue.ledger.deliver_ticket:
        connection.hold_output(queue.ledger.deliver_ticket)
    if connection.is_full:  # one read may hold thousands of these
        connection.hold_input()


def qos(channel: Channel, method: commands.Basic.Qos) -> None:
    """AMQP 0-9-1 basic.qos with RabbitMQ's meaning of ``global``.

    global = false: for consumers started later on this channel, each on its own. global = true:
    one limit shared by all consumers of the channel, in force at once, until a limit for each is
    set (rabbit_channel lifts it then). Octets are limited too, which RabbitMQ refuses (540).
    0 is "no limit", also where the virtual host has a default. In the qpid dialect it is the second
    meaning that holds, whatever ``global`` says: that of the AMQP 0-9-1 text.
    """
    channel.is_prefetch_set = True
    if method.global_ or channel.dialect.has_live_qos:
        channel.limit_all(method.prefetch_count, method.prefetch_size)
    else:
        channel.limit_all(0, 0)
        channel.prefetch_count = method.prefetch_count
        channel.prefetch_size = method.prefetch_size
    channel.reply(commands.Basic.QosOk)


HANDLERS: Final[Mapping[type[Frame], Callable[[Channel, Any], None]]] = {
    commands.Basic.Consume: consume,
    commands.Basic.Cancel: cancel,
    commands.Basic.Get: get,
    commands.Basic.Qos: qos,
}
