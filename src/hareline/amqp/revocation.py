"""Consumers end when their user may not read the queue any more.

``amqp.channels`` starts a ``Revocation`` when the rights of a connection have changed and it has
deliveries. Methods are checked when they come, but a consumer was checked when it was started, and
would go on for as long as its connection lasts.

Invariant: a consumer that may stay is not touched; one that may not gets nothing more, also where
its client cannot be told that it was cancelled.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from typing import Final

from hareline import events
from hareline.amqp.channel import Channel
from hareline.amqp.consuming import ChannelConsumer
from hareline.auth.grants import RightsPending
from hareline.errors import AccessRefused
from hareline.later import Job
from hareline.wire.methods import commands

_CONSUME: Final = commands.Basic.Consume.index


class Revocation(Job):
    """Looks at the consumers of these channels once, by what the client may do then."""

    __slots__ = ("_steps",)

    def __init__(self, channels: Iterable[Channel]) -> None:
        self._steps = _consumers(list(channels))

    def run(self, until_s: float) -> bool:
        for channel, consumer in self._steps:
            _end_if_refused(channel, consumer)
            if channel.parts.context.clock.running_s() >= until_s:
                return False
        return True


def _consumers(channels: list[Channel]) -> Iterator[tuple[Channel, ChannelConsumer]]:
    for channel in channels:
        for consumer in list(channel.consumers.by_tag.values()):
            yield channel, consumer


def _end_if_refused(channel: Channel, consumer: ChannelConsumer) -> None:
    tag, queue = consumer.tag, consumer.queue
    if channel.is_closing or channel.consumers.by_tag.get(tag) is not consumer:
        return
    try:
        channel.access.require("read", "queue", queue.name)
    except RightsPending as pending:
        pending.when_decided(partial(_end_if_refused, channel, consumer))
    except AccessRefused as error:
        if not channel.client.takes_consumer_cancel:
            error.class_id, error.method_id = _CONSUME >> 16, _CONSUME & 0xFFFF
            channel.connection.on_error(channel.number, error)
            return
        queue.remove_consumer(consumer)
        channel.consumers.on_cancelled(consumer)
        channel.parts.context.report(
            events.CONSUMER_REVOKED,
            peer=channel.parts.transport.peer,
            channel=channel.number,
            tag=tag,
            reason=error.explanation,
        )
