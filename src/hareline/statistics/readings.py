"""Readings of live objects: makes the records of ``statistics.facts``.

Everything is read, nothing is changed, and no number is worked out while messages pass. The cost of
a call does not grow with the depth of a queue.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from typing import Final

from hareline.amqp.channel import Channel
from hareline.amqp.connection import Connection
from hareline.amqp.consumer_watch import slow_reason
from hareline.amqp.consuming import ChannelConsumer
from hareline.amqp.context import Context
from hareline.amqp.handshake import WAIT_OPEN, WAIT_TUNE_OK
from hareline.amqp.input_gate import ALARM, SHARE
from hareline.amqp.ports import LiveConnection
from hareline.message import StoredMessage
from hareline.queues.core.consumer import Consumer
from hareline.queues.dispatch.reading import ReadingLane
from hareline.queues.queue import Queue
from hareline.statistics.facts import ChannelFacts, ConnectionFacts, ConsumerFacts, QueueFacts
from hareline.statistics.unacked import LOOKS_MAX, Deliveries

#: Octets of memory for a message and its entry beside its content, and for a number in a page
#: (docs/data-model.md).
MESSAGE_BYTES: Final = 280
PAGED_BYTES: Final = 16
#: Of a queue without messages, and of each consumer.
QUEUE_BYTES: Final = 4_096
CONSUMER_BYTES: Final = 1_024

_HANDSHAKE_STATES: Final = {WAIT_TUNE_OK: "tuning", WAIT_OPEN: "opening"}


# ---------------------------------------------------------------------------- connections


def provided_name(connection: Connection) -> str:
    """The name that the client gives its connection, empty if it gives none."""
    provided = connection.client.properties.get("connection_name")
    return provided if isinstance(provided, str) else ""


def connection_facts(connection: LiveConnection) -> ConnectionFacts:
    """Facts about a connection."""
    assert isinstance(connection, Connection), connection
    client, transport = connection.client, connection.transport
    socket = transport.socket_facts()
    properties = client.properties
    return ConnectionFacts(
        name=transport.connection_name,
        user_provided_name=provided_name(connection),
        peer_host=socket.peer_host,
        peer_port=socket.peer_port,
        host=socket.host,
        port=socket.port,
        user="" if client.user is None else client.user.name,
        vhost=client.vhost.name if client.is_open else "",
        state=connection_state(connection),
        auth_mechanism=client.mechanism,
        client_properties=properties,
        connected_ms=connection.connected_ms,
        frame_max=connection.output.frame_max,
        channel_max=connection.channels.channel_max,
        heartbeat_s=connection.inner_state.heartbeat_s,
        channel_count=len(connection.channels.by_number),
        send_pend=socket.unsent_bytes,
        is_slow=connection.output.is_socket_full,
        counts=connection.counts,
    )


def connection_state(connection: LiveConnection) -> str:
    """RabbitMQ's word for what a connection does; see ``ConnectionFacts``."""
    assert isinstance(connection, Connection), connection
    inner = connection.inner_state
    if inner.handshake:
        return _HANDSHAKE_STATES.get(inner.handshake, "starting")
    if connection.state != "running":
        return connection.state
    if connection.is_blocked:
        return "blocked"
    if connection.context.alarms.is_on:
        return "blocking"
    if inner.is_stopped or inner.reasons & ~(ALARM | SHARE) or not connection.transport.is_reading:
        return "flow"
    return "running"


# ------------------------------------------------------------------------------- channels


def channels_of(context: Context) -> Iterable[Channel]:
    """All channels of all open connections, those of a connection one after the other."""
    for connection in list(context.connections):
        if connection.client.is_open and isinstance(connection, Connection):
            yield from list(connection.channels.by_number.values())


def channel_facts(channel: Channel) -> ChannelFacts:
    """Facts about a channel."""
    client, port, publishing = channel.client, channel.port, channel.publishing
    confirms, transaction = publishing.confirms, publishing.transaction
    return ChannelFacts(
        name=port.channel_name,
        number=channel.number,
        connection_name=channel.parts.transport.connection_name,
        user="" if client.user is None else client.user.name,
        vhost=channel.vhost.name,
        state=channel_state(channel),
        is_confirming=confirms is not None,
        is_transactional=transaction is not None,
        is_stopped=port.is_stopped,
        consumer_count=len(channel.consumers.by_tag) + (channel.reply_to.queue is not None),
        prefetch_count=channel.prefetch.count,
        global_prefetch_count=channel.prefetch.window.limit_count,
        unacked=len(port.unacked),
        unconfirmed=0 if confirms is None else confirms.unconfirmed_count,
        uncommitted=0 if transaction is None else transaction.publish_count,
        acks_uncommitted=0 if transaction is None else transaction.kept_count,
        counts=channel.counts,
    )


def channel_state(channel: Channel) -> str:
    """``closing``; ``flow`` while a full queue or its client stops it; else ``running``."""
    if channel.is_closing:
        return "closing"
    flow = channel.publishing.flow
    if channel.port.is_stopped or (flow is not None and flow.is_stopped):
        return "flow"
    return "running"


# ------------------------------------------------------------------------------ consumers


def consumer_facts(
    consumer: Consumer, vhost: str, deliveries: Deliveries | None = None
) -> ConsumerFacts:
    """Facts about a consumer; ``deliveries``: those of a list that shows more of them."""
    channel_name, unacked, oldest = "", 0, 0
    if isinstance(consumer, ChannelConsumer):
        channel_name = consumer.port.channel_name
        oldest, unacked = (Deliveries() if deliveries is None else deliveries).of_consumer(consumer)
    is_limited = _live_limit(consumer.queue)
    status = "up"
    if is_limited:
        status = "single_active" if consumer.is_live else "waiting"
    return ConsumerFacts(
        tag=consumer.tag,
        vhost=vhost,
        queue=consumer.queue.name,
        channel_name=channel_name,
        ack_required=consumer.acknowledges,
        exclusive=consumer.is_exclusive,
        active=consumer.is_live and not consumer.is_cancelled,
        status=status,
        priority=consumer.priority,
        prefetch_count=consumer.prefetch_count,
        credit=consumer.open_credit,
        unacked=unacked,
        oldest_tag=oldest,
        slow_reason=slow_reason(consumer),
        arguments=consumer.arguments if isinstance(consumer, ChannelConsumer) else {},
    )


def _live_limit(queue: object) -> bool:
    return isinstance(queue, Queue) and queue.lane.consumers.live is not None


# --------------------------------------------------------------------------------- queues


def queue_facts(
    queue: Queue, capacity: float | None = None, deliveries: Deliveries | None = None
) -> QueueFacts:
    """Facts about a queue. ``capacity`` None: it is not sampled, and that of now;
    ``deliveries``: those of a list that shows more of them."""
    ready, unacked = queue.ready_count, queue.unacked_count
    ready_bytes = queue.ready_bytes
    unacked_bytes = (Deliveries() if deliveries is None else deliveries).unacked_bytes(queue)
    paged = 0 if queue.paging is None else queue.paging.paged_count
    paged_bytes = ready_bytes * paged // ready if ready else 0
    messages = ready + unacked
    total_bytes = ready_bytes + unacked_bytes
    persistent = 0 if queue.ledger is None else min(queue.ledger.counts()[1], messages)
    in_memory, in_memory_bytes = messages - paged, total_bytes - paged_bytes
    return QueueFacts(
        messages=messages,
        ready=ready,
        unacked=unacked,
        held=queue.held_count,
        ready_bytes=ready_bytes,
        unacked_bytes=unacked_bytes,
        persistent=persistent,
        persistent_bytes=total_bytes * persistent // messages if messages else 0,
        in_memory=in_memory,
        in_memory_bytes=in_memory_bytes,
        paged_out=paged,
        paged_out_bytes=paged_bytes,
        memory=QUEUE_BYTES
        + queue.consumer_count * CONSUMER_BYTES
        + (in_memory + queue.held_count) * MESSAGE_BYTES
        + paged * PAGED_BYTES
        + in_memory_bytes,
        consumers=queue.consumer_count,
        capacity=float(queue.consumer_count > 0 and can_deliver(queue))
        if capacity is None
        else capacity,
        head_timestamp=head_timestamp(queue),
        declared_ms=queue.declared_ms,
        counts=queue.counts,
    )


def can_deliver(queue: Queue) -> bool:
    """False if ready messages wait for consumers that can take none now."""
    if not queue.ready_count:
        return True
    return any(consumer.is_active for consumer in islice(queue.lane.consumers, LOOKS_MAX))


def head_timestamp(queue: Queue) -> int | None:
    """Seconds in the timestamp property of the next message, None without one.

    Not of streams, and not where the message's content is on disk alone, as in RabbitMQ.
    """
    if isinstance(queue.lane, ReadingLane) or not len(queue.order):
        return None
    entry = queue.order.peek()
    if entry is None or isinstance(entry.message, StoredMessage):
        return None
    timestamp = entry.message.properties.timestamp
    entry.message.forget_properties()
    return None if timestamp is None else int(timestamp)
