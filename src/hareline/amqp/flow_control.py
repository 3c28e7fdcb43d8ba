"""Publishers that must wait because a queue they publish to is full (overflow "flow-control").

A publisher is stopped at its own publish to the full queue, and goes on when all such queues have
room again. How it is stopped depends on the client:

==============================  ===================================================================
client                          what stops it
==============================  ===================================================================
Qpid's, RabbitMQ's for Java     channel.flow(active=false), at which they block their publishes;
                                whoever still publishes after ``ENFORCEMENT_S`` is stopped as below
any other                       its socket is not read from, and connection.blocked says why to
                                those that take it
any other, that also consumes   connection.blocked alone: its acknowledgements make the room that
                                it waits for, so they must be read
==============================  ===================================================================

``amqp.publishing`` calls ``ChannelFlow.stop``, the queue's ``Overflow`` calls ``on_underfull``.
``ConnectionFlow`` is also what tells a client of a resource alarm, since connection.blocked stands
for both: it is sent at the first reason and connection.unblocked after the last one.

Invariant: a connection that is gone waits at no queue.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from hareline.amqp.dialect import QPID, dialect_of
from hareline.broker.queues.policies.overflow import Overflow
from hareline.errors import within_short_string
from hareline.wire.methods import commands

if TYPE_CHECKING:
    from hareline.amqp.channel import Channel
    from hareline.amqp.connection import Connection

# Broker-J: channel.flowControlEnforcementTimeout; it closes the channel then, we stop reading.
ENFORCEMENT_S: Final = 5.0


class ChannelFlow:
    """One channel's publishes, and the full queues that they wait for."""

    __slots__ = ("_channel", "_full", "_told_s")

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._full: dict[Overflow, None] = {}
        self._told_s: float | None = None  # when channel.flow was sent, while it is in force

    def stop(self, overflow: Overflow) -> None:
        """A publish of this channel went into a queue that was full, or is so now."""
        if overflow not in self._full:
            self._full[overflow] = None
            overflow.stop_publisher(self)
        connection = self._channel.connection
        if connection.flow.takes_channel_flow:
            now_s = connection.context.clock.monotonic_s
            if self._told_s is None:
                self._told_s = now_s
                self._channel.reply(commands.Channel.Flow, active=False)
            if now_s - self._told_s < ENFORCEMENT_S:
                return
        connection.flow.stop(self, overflow.place)

    def on_underfull(self, overflow: Overflow) -> None:
        """This queue has room again; the last one of them lets the channel go on."""
        self._full.pop(overflow, None)
        if self._full:
            return
        if self._told_s is not None:
            self._told_s = None
            self._channel.reply(commands.Channel.Flow, active=True)
        self._channel.connection.flow.release(self)

    def close(self) -> None:
        """The channel ends."""
        full, self._full = self._full, {}
        for overflow in full:
            overflow.forget_publisher(self)
        self._channel.connection.flow.release(self)


class ConnectionFlow:
    """One connection's reasons not to be published on, other than channel.flow.

    ``is_pausing``: its socket is not read from for the sake of full queues.
    """

    __slots__ = ("_connection", "_is_told", "_stopped", "is_pausing", "takes_channel_flow")

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._stopped: dict[ChannelFlow, None] = {}
        self._is_told = False
        self.is_pausing = False
        self.takes_channel_flow = False

    def set_client_properties(self, properties: Mapping[str, object]) -> None:
        self.takes_channel_flow = blocks_on_channel_flow(properties)

    def stop(self, channel_flow: ChannelFlow, place: str) -> None:
        """A channel must wait for the queue at ``place``; may be said again and again."""
        self._stopped[channel_flow] = None
        if self.is_pausing:
            return
        self.tell_blocked(f"{place} is full")
        if not self._must_be_read():
            self.is_pausing = True
            self._connection.link.pause_reading()

    def _must_be_read(self) -> bool:
        """Whether what the client says may settle messages."""
        return any(
            channel.consumers or channel.settling.unacked.entries
            for channel in self._connection.channels.values()
        )

    def release(self, channel_flow: ChannelFlow) -> None:
        """The channel may publish again, or is gone."""
        if self._stopped.pop(channel_flow, self) is self or self._stopped:
            return
        if self.is_pausing:
            self.is_pausing = False
            self._connection.resume_reading()
        self.tell_unblocked()

    def tell_blocked(self, reason: str) -> None:
        """Send connection.blocked, if the client takes it and does not know yet."""
        if not self._is_told and self._connection.has_capability("connection.blocked"):
            self._is_told = True
            self._connection.send(
                0, commands.Connection.Blocked, reason=within_short_string(reason)
            )

    def tell_unblocked(self) -> None:
        """Send connection.unblocked, if nothing blocks the client that was told so."""
        if self._is_told and not self._stopped and not self._connection.is_blocked:
            self._is_told = False
            self._connection.send(0, commands.Connection.Unblocked)

    def close(self) -> None:
        """The connection ends: nothing more is said, and its close-ok must be read."""
        self._stopped.clear()
        self._is_told = False
        if self.is_pausing:
            self.is_pausing = False
            self._connection.resume_reading()


def blocks_on_channel_flow(properties: Mapping[str, object]) -> bool:
    """Whether this client is known to hold its publishes back at channel.flow(active=false).

    Others ignore it, or close the channel over it (amqplib), since RabbitMQ never sends it.
    """
    if properties.get("product") == "RabbitMQ":
        return properties.get("platform") == "Java"
    return dialect_of(properties) is QPID
