"""Reasons that keep a connection's or a channel's publishes waiting, and since when.

A resource alarm and a full queue have the time at which they stopped the publisher; reasons that
last for parts of a second (``amqp.input_gate``) have none. Everything is only read.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, Literal, NamedTuple

from hareline.amqp.alarms import Alarms
from hareline.amqp.channel import Channel
from hareline.amqp.connection import Connection
from hareline.amqp.input_gate import BACKLOG, OUTPUT, RATE, SHARE
from hareline.queues.policies.overflow import Overflow

Reason = Literal["memory", "disk", "queue", "behind", "commit", "output", "client", "rate"]

_TEXTS: Final = {
    "behind": "the broker has more to do than it can, so publishers are read one after the other",
    "commit": "too much waits behind a transaction that is being committed",
    "output": "the client does not read what it has asked for",
    "client": "the client has stopped deliveries with channel.flow",
    "rate": "its user publishes faster than it may",
}


class Blocked(NamedTuple):
    """One reason. ``text``: a sentence without its full stop. ``since_ms`` None: not known.

    Of a full queue: its place, its argument ``limit`` with that limit's value, how far the queue
    is, and the number of the channel that waits.
    """

    reason: Reason
    text: str
    since_ms: int | None = None
    vhost: str | None = None
    queue: str | None = None
    limit: str | None = None
    limit_value: int | None = None
    value: int | None = None
    channel: int | None = None


def why_connection_waits(connection: Connection) -> list[Blocked]:
    """Reasons that keep a connection from publishing; [] without any."""
    inner = connection.inner_state
    if inner.handshake or connection.state != "running":
        return []
    found = list(_alarms(connection.context.alarms, inner.blocked_ms))
    for channel in list(connection.channels.by_number.values()):
        found += _full_queues(channel)
    if inner.reasons & BACKLOG:
        found.append(_plain("commit"))
    if inner.reasons & RATE:
        found.append(_plain("rate"))
    is_read = connection.transport.is_reading
    if inner.reasons & OUTPUT or (not is_read and connection.output.is_socket_full):
        found.append(_plain("output"))
    elif not is_read and not found and not inner.reasons & ~SHARE:
        found.append(_plain("behind"))
    return found


def why_channel_waits(channel: Channel) -> list[Blocked]:
    """Reasons that keep a channel from publishing or delivering; [] without any."""
    blocked_ms, _ = channel.parts.flow.waits
    found = [*_alarms(channel.parts.context.alarms, blocked_ms), *_full_queues(channel)]
    if channel.port.is_stopped:
        found.append(_plain("client")._replace(channel=channel.number))
    return found


def _alarms(alarms: Alarms, blocked_ms: int) -> Iterator[Blocked]:
    """``blocked_ms``: since when an alarm blocks the connection, 0 if none does yet."""
    for resource, short_ms in sorted(alarms.since_ms.items()):
        text = f"the broker is low on {resource}"
        if resource in alarms.why:
            text += f" ({alarms.why[resource]})"
        if not blocked_ms:
            text += ": the next publish blocks it"
        yield Blocked(resource, text, max(short_ms, blocked_ms))


def _full_queues(channel: Channel) -> Iterator[Blocked]:
    flow = channel.publishing.flow
    if flow is not None:
        for overflow, since_ms in list(flow.full_queues.items()):
            yield _full_queue(overflow, since_ms, channel)


def _full_queue(overflow: Overflow, since_ms: int, channel: Channel) -> Blocked:
    """The limit that the queue is further up to is the one that is told."""
    limits = [
        ("x-max-length", "messages", overflow.max_length, overflow.depth_count),
        ("x-max-length-bytes", "bytes", overflow.max_length_bytes, overflow.depth_bytes),
    ]
    parts = [
        (value / limit if limit else float(value), name, unit, limit, value)
        for name, unit, limit, value in limits
        if limit is not None
    ]
    if not parts:  # its limits have been lifted in this moment
        text = f"{overflow.place} was full"
        return Blocked("queue", text, since_ms, channel.vhost.name, overflow.queue_name)
    _, name, unit, limit, value = max(parts)
    text = (
        f"{overflow.place} is full, and its overflow is flow-control: {value} of {limit} {unit} "
        f"({name})"
    )
    return Blocked(
        "queue",
        text,
        since_ms,
        channel.vhost.name,
        overflow.queue_name,
        name,
        limit,
        value,
        channel.number,
    )


def _plain(reason: Literal["behind", "commit", "output", "client", "rate"]) -> Blocked:
    return Blocked(reason, _TEXTS[reason])
