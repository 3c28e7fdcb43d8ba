"""Channels of one connection by number; a number is free when both sides have closed its channel.

A method that needs a right which has to be asked for is done again, from its beginning, when the
answer is there; the channel waits meanwhile (``amqp.backlog``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Final

from hareline import events
from hareline.amqp import method_dispatch as dispatch
from hareline.amqp.channel import Channel
from hareline.amqp.consuming import ChannelConsumer
from hareline.amqp.context import ConnectionParts
from hareline.amqp.internal_events import on_channel
from hareline.amqp.ports import ConnectionPort
from hareline.auth.permissions import RightsPending
from hareline.errors import AccessRefused, ChannelError, CommandInvalid, NotAllowed
from hareline.later import Job
from hareline.wire.constants import BASIC_PUBLISH, FRAME_METHOD
from hareline.wire.methods import commands, decode_method

_OPEN: Final = commands.Channel.Open.index
_CLOSE_OK: Final = commands.Channel.CloseOk.index
_CONNECTION_CLASS: Final = commands.Connection.frame_id
_CONSUME: Final = commands.Basic.Consume.index


class Channels:
    """``by_number`` has the open and the closing ones. ``channel_max``: how many there may be.

    ``parts``: what they share.
    """

    __slots__ = ("_backlogs", "_client", "_routing_version", "by_number", "channel_max", "parts")

    def __init__(self, parts: ConnectionParts) -> None:
        self.parts = parts
        self._backlogs = parts.backlogs
        self._client = parts.client
        self._routing_version = -1
        self.by_number: dict[int, Channel] = {}
        self.channel_max = parts.context.limits.channel_max

    def on_frame(
        self, connection: ConnectionPort, kind: int, number: int, payload: bytes, method: int
    ) -> None:
        """A frame of a channel; ``method`` is its class and method, of a content basic.publish."""
        backlogs = self._backlogs
        if backlogs.by_channel and backlogs.keep(number, kind, payload):
            if method == BASIC_PUBLISH:
                self.parts.flow.block_if_alarmed()
            return
        channel = self.by_number.get(number)
        if channel is not None:
            try:
                dispatch.on_frame(channel, kind, payload)
            except RightsPending as pending:
                again = pending.again or partial(connection.on_frame, kind, number, payload)
                self._wait(number, pending, again)
        elif kind == FRAME_METHOD and method == _OPEN:
            decode_method(payload)
            self._open(connection, number)
        elif method >> 16 == _CONNECTION_CLASS:
            raise CommandInvalid("unimplemented method")
        elif method != _CLOSE_OK:
            raise ChannelError("expected 'channel.open'")

    def _wait(self, number: int, pending: RightsPending, again: Callable[[], None]) -> None:
        """Do it ``again`` when the right is decided, before anything else on this channel."""
        self._backlogs.hold_for(number, partial(self._do_again, number, again))
        pending.when_decided(partial(self._backlogs.release, number))

    def _do_again(self, number: int, again: Callable[[], None]) -> None:
        channel = self.by_number.get(number)
        if channel is None or channel.is_closing:
            return
        try:
            again()
        except RightsPending as pending:
            self._wait(number, pending, again)

    def _open(self, connection: ConnectionPort, number: int) -> None:
        self.parts.context.check_channel(self._client.user)
        count = len(self.by_number)
        if count >= self.channel_max:  # RabbitMQ too counts them, whatever the number
            raise NotAllowed(
                f"number of channels opened ({count}) has reached the negotiated "
                f"channel_max ({self.channel_max})",
                class_id=0,
                method_id=0,
            )
        channel = self.by_number[number] = Channel(connection, self.parts, number)
        self._count(1)
        channel.vhost.counts.broker.churn.channel_created += 1
        channel.open_lanes()
        channel.reply(commands.Channel.OpenOk)
        on_channel("channel.created", self.parts, number)

    def forget(self, number: int) -> None:
        """Both sides have closed this channel: its number is free again."""
        channel = self.by_number.pop(number, None)
        if channel is not None:
            self._end(channel)

    def end_all(self) -> None:
        channels = list(self.by_number.values())
        self.by_number.clear()
        for channel in channels:
            channel.terminate()
            self._end(channel)

    def _end(self, channel: Channel) -> None:
        channel.detach()
        self._count(-1)
        on_channel("channel.closed", self.parts, channel.number)

    def _count(self, by: int) -> None:
        """A channel is open (1), or both sides have closed it (-1)."""
        user = self._client.user
        if user is not None:
            self.parts.context.open_counts.count_channel(by, user.identity)

    # ----------------------------------------------------------------- lanes, routes

    def reopen_lanes(self, number: int) -> None:
        """Open the lanes that this channel may have now, if there is such a channel."""
        channel = self.by_number.get(number)
        if channel is not None and number not in self._backlogs.by_channel:
            channel.reopen_lanes()

    def reopen_all_lanes(self) -> None:
        for number in self.by_number:
            self.reopen_lanes(number)

    def forget_stale_routes(self) -> None:
        """Forget all routes if the virtual host routes otherwise since the last call."""
        version = self._client.vhost.routing.version
        if version != self._routing_version:
            self._routing_version = version
            self.forget_routes()

    def forget_routes(self) -> None:
        for channel in self.by_number.values():
            channel.publishing.forget_routes()

    def renew_rights(self) -> None:
        """The client may do something else than before: forget routes, end consumers."""
        self.forget_routes()
        if any(channel.consumers.by_tag for channel in self.by_number.values()):
            self.parts.context.shares.start(Revocation(self.by_number.values()))

    def have_deliveries(self) -> bool:
        """True if one of them has a consumer or an unacked delivery."""
        return any(channel.has_deliveries for channel in self.by_number.values())


class Revocation(Job):
    """Ends consumers of these channels whose user may not read their queues any more.

    Methods are checked when they come, but a consumer was checked when it was started, and would go
    on for as long as its connection lasts. It gets nothing more also where its client cannot be
    told that it was cancelled.
    """

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
