"""basic.* but publish: consume, cancel, get and qos; ack, nack, reject and recover.

basic.publish is a content and has a way of its own (``amqp.content``, ``amqp.publishing``). Rights
and arguments are checked before anything changes.
"""

from __future__ import annotations

from collections.abc import Mapping

from hareline.amqp.auto_creation import find_queue
from hareline.amqp.channel import Channel
from hareline.amqp.consumer_arguments import (
    ConsumerArguments,
    check_not_stream,
    check_stream_consumer,
    read_consumer_arguments,
)
from hareline.amqp.consuming import (
    AuditedConsumer,
    ChannelConsumer,
    has_rules,
    prefetch_for_consumer,
)
from hareline.amqp.internal_events import on_consumer
from hareline.amqp.reply_to import REPLY_TO_NAME
from hareline.broker.audit.queue import AuditedQueue
from hareline.broker.making import is_non_destructive
from hareline.broker.vhost import generated_name
from hareline.errors import (
    AccessRefused,
    NotAllowed,
    NotImplementedMethod,
    PreconditionFailed,
    ResourceLocked,
)
from hareline.queues.core.kinds import REJECTED, RETURNED
from hareline.queues.core.rate_window import RateWindow
from hareline.queues.declare.table import QueueArguments
from hareline.queues.queue import Queue
from hareline.wire.encoder import get_ok_frame
from hareline.wire.methods import commands


def consume(channel: Channel, method: commands.Basic.Consume) -> None:
    """Start a consumer; consume-ok goes out before its first delivery."""
    queue_name = channel.queue_name(method.queue)
    tag = method.consumer_tag or generated_name("amq.ctag-")
    if tag in channel.consumers.by_tag or channel.reply_to.has_tag(tag):
        raise NotAllowed(f"attempt to reuse consumer tag '{tag}'")
    if queue_name == REPLY_TO_NAME:
        _consume_replies(channel, method, tag)
        return
    channel.access.require("read", "queue", queue_name)
    queue = find_queue(channel, queue_name)
    arguments: Mapping[str, object] = method.arguments or {}
    channel.vhost.capacity.check_arguments(f"consumer '{tag}'", arguments)
    queue_arguments = channel.vhost.queue_arguments[queue_name]
    options = read_consumer_arguments(
        arguments,
        queue_arguments,
        queue=queue_name,
        vhost=channel.vhost.name,
        now_ms=channel.vhost.environment.clock.now_ms,
        dialect=channel.dialect,
    )
    channel.vhost.capacity.check_consumer(queue_name)
    limit = channel.parts.context.limits.max_consumers_per_channel
    if limit and len(channel.consumers.by_tag) >= limit:
        raise NotAllowed(f"reached maximum ({limit}) of consumers per channel")
    _check_room(queue, queue_arguments, channel.vhost.name, is_exclusive=bool(method.exclusive))
    consumer = _new_consumer(channel, tag, queue, method, options)
    if consumer.is_selective:
        _check_selector_room(channel, queue, consumer)
    channel.consumers.add(consumer)
    channel.answer(method, commands.Basic.ConsumeOk, consumer_tag=tag)
    queue.add_consumer(consumer)
    if has_rules(consumer, channel.vhost):
        channel.parts.context.ruled_consumers.append(consumer)
    further = {"prefetch_count": consumer.prefetch_count, "arguments": arguments}
    on_consumer("consumer.created", channel.parts, channel.number, consumer, further)


def _new_consumer(
    channel: Channel,
    tag: str,
    queue: Queue,
    method: commands.Basic.Consume,
    options: ConsumerArguments,
) -> ChannelConsumer:
    queue_arguments = channel.vhost.queue_arguments[queue.name]
    is_exclusive = bool(method.exclusive)
    prefetch_count = prefetch_for_consumer(
        channel.prefetch,
        channel.vhost,
        queue,
        options.prefetch_count,
        is_exclusive=is_exclusive,
        is_browser=options.is_browser or is_non_destructive(queue_arguments),
    )
    windows = channel.prefetch.windows_for_consumer(acknowledges=not method.no_ack)
    check_stream_consumer(
        queue_arguments,
        queue=queue.name,
        vhost=channel.vhost.name,
        acknowledges=not method.no_ack,
        is_limited=bool(prefetch_count or windows),
    )
    if options.max_rate:
        environment = channel.vhost.environment
        windows += (RateWindow(options.max_rate, environment.clock, environment.timers),)
    consumer_class = AuditedConsumer if isinstance(queue, AuditedQueue) else ChannelConsumer
    consumer = consumer_class(
        channel.consumers,
        tag,
        queue,
        acknowledges=not method.no_ack,
        is_exclusive=is_exclusive,
        options=options,
        prefetch_count=prefetch_count,
        windows=windows,
        arguments=method.arguments or {},
    )
    is_no_local = options.is_no_local or queue_arguments.no_local
    if is_no_local or (method.no_local and channel.dialect.has_no_local):
        consumer.no_local_of = consumer.publisher
        channel.vhost.routing.mark_publishers()
    return consumer


def _check_room(queue: Queue, arguments: QueueArguments, vhost: str, *, is_exclusive: bool) -> None:
    """Raise AccessRefused if the queue takes no more consumers.

    With a single active consumer, an exclusive one is refused (RabbitMQ:
    ``exclusive_consume_unavailable``). No consumer keeps others from a stream.
    """
    place = f"queue '{queue.name}' in vhost '{vhost}'"
    if arguments.queue_type == "stream":
        is_taken = False
    elif arguments.single_active_consumer:
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
    """Raise PreconditionFailed if the queue takes no more kinds of consumers."""
    limit = channel.parts.context.limits.max_selectors_per_queue
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
    channel.reply_to.open(tag)
    channel.answer(method, commands.Basic.ConsumeOk, consumer_tag=tag)


def cancel(channel: Channel, method: commands.Basic.Cancel) -> None:
    """An unknown tag is no error. Deliveries stay unacked; none follow cancel-ok."""
    tag = method.consumer_tag or ""
    consumer = channel.consumers.forget(tag)
    if consumer is not None:
        consumer.queue.deliver_due()
        consumer.queue.remove_consumer(consumer)
    elif channel.reply_to.has_tag(tag):
        channel.reply_to.close()
    channel.answer(method, commands.Basic.CancelOk, consumer_tag=tag)


def get(channel: Channel, method: commands.Basic.Get) -> None:
    """Answer with the next message of a queue, or get-empty."""
    queue_name = channel.queue_name(method.queue)
    channel.access.require("read", "queue", queue_name)
    queue = find_queue(channel, queue_name)
    arguments = channel.vhost.queue_arguments[queue_name]
    if arguments.single_active_consumer and arguments.queue_type == "quorum":
        raise ResourceLocked(
            f"cannot obtain access to locked queue '{queue_name}' in vhost '{channel.vhost.name}'. "
            "basic.get operations are not supported by quorum queues with single active consumer"
        )
    check_not_stream(arguments, "basic.get", queue=queue_name, vhost=channel.vhost.name)
    entry = queue.get()
    queue.redelivering = 0  # counted here
    queue.tally.count_get(entry, acknowledges=not method.no_ack)
    tally = channel.port.counting()
    if entry is None:
        tally.get_empty += 1
        channel.reply(commands.Basic.GetEmpty)
        return
    port = channel.port
    tag = port.take_tag()
    if port.tap is not None:
        port.tap.on_delivered([entry], queue_name)
    if method.no_ack:
        entry.queue.settle(entry)
        tally.get_no_ack += 1
    else:
        port.unacked.entries[tag] = entry
        tally.get += 1
    tally.redeliver += entry.delivery_count > 0
    message = entry.message
    output = port.output
    head = get_ok_frame(
        channel.number,
        tag,
        entry.delivery_count > 0,
        message.address.octets,
        queue.ready_count,
    )
    port.write_content((head,), message)
    output.count_deliveries(len(message.content))
    if queue.ledger is not None and queue.ledger.deliver_ticket:
        output.hold(queue.ledger.deliver_ticket)
    if output.is_full:  # one read may hold thousands of these
        output.hold_input()


def qos(channel: Channel, method: commands.Basic.Qos) -> None:
    """AMQP 0-9-1 basic.qos with RabbitMQ's meaning of ``global``.

    global = false: for consumers started later on this channel, each on its own. global = true:
    one limit shared by all consumers of the channel, in force at once, until a limit for each is
    set (rabbit_channel lifts it then). Octets are limited too, which RabbitMQ refuses (540).
    0 is "no limit", also where the virtual host has a default. In the qpid dialect it is the second
    meaning that holds, whatever ``global`` says: that of the AMQP 0-9-1 text.
    """
    prefetch = channel.prefetch
    prefetch.is_set = True
    if method.global_ or channel.dialect.has_live_qos:
        consumers = channel.consumers.by_tag.values()
        prefetch.limit_all(
            method.prefetch_count, method.prefetch_size, consumers, channel.outstanding
        )
    else:
        prefetch.limit_each(method.prefetch_count, method.prefetch_size)
    channel.reply(commands.Basic.QosOk)


def ack(channel: Channel, method: commands.Basic.Ack) -> None:
    """Accept deliveries; most acks come by the decoder's lane, see ``amqp.settling``."""
    channel.settling.settle(method.delivery_tag or 0, bool(method.multiple))


def nack(channel: Channel, method: commands.Basic.Nack) -> None:
    tag, is_multiple = method.delivery_tag or 0, bool(method.multiple)
    if method.requeue:
        channel.settling.requeue(tag, is_multiple)
    else:
        channel.settling.reject(tag, is_multiple)


def reject(channel: Channel, method: commands.Basic.Reject) -> None:
    """Requeue one delivery, or reject it."""
    tag = method.delivery_tag or 0
    if method.requeue:
        channel.settling.requeue(tag, is_multiple=False, cause=REJECTED)
    elif channel.dialect.counts_rejects_only:
        channel.settling.requeue(tag, is_multiple=False, is_rejected=True, cause=REJECTED)
    else:
        channel.settling.reject(tag, is_multiple=False)


def recover(channel: Channel, method: commands.Basic.Recover | commands.Basic.RecoverAsync) -> None:
    """Release what is unacked, or with requeue=0 send it again to the same consumers.

    The latter is refused as in RabbitMQ (540), except in the qpid dialect, whose clients know no
    other recover.
    """
    if not (method.requeue or channel.dialect.recovers_without_requeue):
        raise NotImplementedMethod("requeue=false")
    if method.requeue:
        channel.release_all(RETURNED)
        channel.port.update_flow()
    if isinstance(method, commands.Basic.Recover):
        channel.reply(commands.Basic.RecoverOk)
    if not method.requeue:
        channel.redeliver()
