"""Publishers that must wait: for a full queue, for a resource alarm, or for their user's rate.

With overflow "flow-control" a publisher is stopped at its own publish to the full queue, and goes
on when all such queues have room again. How it is stopped depends on the client:

==============================  ===================================================================
client                          what stops it
==============================  ===================================================================
Qpid's, RabbitMQ's for Java     channel.flow(active=false), at which they block their publishes; one
                                that still publishes after ``ENFORCEMENT_S`` is stopped as below
any other                       its socket is not read from, and connection.blocked says why to
                                those that take it
any other, that also consumes   connection.blocked alone: its acknowledgements make the room that
                                it waits for, so they must be read
==============================  ===================================================================

connection.blocked also stands for resource alarms: it is sent at the first reason and
connection.unblocked after the last one. A user that publishes above its rate is told nothing: the
socket is not read for as long as that takes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from hareline import events
from hareline.amqp.alarms import Alarms
from hareline.amqp.client import Client
from hareline.amqp.delivery_port import DeliveryPort
from hareline.amqp.input_gate import ALARM, QUEUE, RATE, InputGate
from hareline.amqp.limits import PublishRates
from hareline.amqp.output import Output
from hareline.amqp.ports import ConnectionPort, Transport
from hareline.clock import Clock, Timer
from hareline.errors import within_short_string
from hareline.events import Report
from hareline.queues.policies.overflow import Overflow, StoppedPublisher
from hareline.wire.methods import commands

# Broker-J: channel.flowControlEnforcementTimeout; it closes the channel then, this broker stops
# reading.
ENFORCEMENT_S: Final = 5.0


class ChannelFlow(StoppedPublisher):
    """One channel's publishes, and the full queues that they wait for."""

    __slots__ = ("_client", "_clock", "_connection_flow", "_full", "_port", "_stopped_s")

    def __init__(
        self, port: DeliveryPort, client: Client, clock: Clock, connection_flow: ConnectionFlow
    ) -> None:
        self._port = port
        self._client = client
        self._clock = clock
        self._connection_flow = connection_flow
        self._full: dict[Overflow, int] = {}  # since when, in epoch milliseconds
        self._stopped_s: float | None = None  # when channel.flow was sent, while it is in force

    @property
    def is_stopped(self) -> bool:
        """True if a full queue stops the publishes."""
        return bool(self._full)

    @property
    def full_queues(self) -> Mapping[Overflow, int]:
        """The full queues that it waits for, and since when (epoch milliseconds)."""
        return self._full

    def stop(self, overflow: Overflow) -> None:
        """Wait for this queue: a publish went into it that found it full, or made it so."""
        if overflow not in self._full:
            self._full[overflow] = self._clock.now_ms
            overflow.stop_publisher(self)
        if self._client.takes_channel_flow:
            now_s = self._clock.monotonic_s
            if self._stopped_s is None:
                self._stopped_s = now_s
                self._port.reply(commands.Channel.Flow, active=False)
            if now_s - self._stopped_s < ENFORCEMENT_S:
                return
        self._connection_flow.stop(self, overflow.place)

    def on_underfull(self, overflow: Overflow) -> None:
        """This queue has room again; the last one of them lets the channel go on."""
        self._full.pop(overflow, None)
        if self._full:
            return
        if self._stopped_s is not None:
            self._stopped_s = None
            self._port.reply(commands.Channel.Flow, active=True)
        self._connection_flow.release(self)

    def close(self) -> None:
        full, self._full = self._full, {}
        for overflow in full:
            overflow.forget_publisher(self)
        self._connection_flow.release(self)


class ConnectionFlow:
    """One connection's reasons not to be published on, other than channel.flow.

    ``has_published``: a publish method has come, outside the lane at first.
    """

    __slots__ = (
        "_alarms",
        "_blocked_ms",
        "_client",
        "_connection",
        "_gate",
        "_is_closing",
        "_is_reported",
        "_output",
        "_rate_end_s",
        "_rate_timer",
        "_rates",
        "_report",
        "_stopped",
        "_transport",
        "has_published",
    )

    def __init__(
        self,
        client: Client,
        gate: InputGate,
        output: Output,
        alarms: Alarms,
        rates: PublishRates,
        report: Report,
        transport: Transport,
        connection: ConnectionPort,
    ) -> None:
        self._client = client
        self._gate = gate
        self._output = output
        self._alarms = alarms
        self._rates = rates
        self._rate_timer: Timer | None = None  # while it waits for the rate, until ``_rate_end_s``
        self._rate_end_s = 0.0
        self._report = report
        self._transport = transport
        self._connection: ConnectionPort | None = connection  # until ``close``
        self._stopped: dict[ChannelFlow, None] = {}
        self._is_reported = False  # by connection.blocked
        self._is_closing = False
        self._blocked_ms = 0  # when an alarm blocked it last, in epoch milliseconds
        self.has_published = False

    # ------------------------------------------------------------- resource alarms

    @property
    def is_blocked(self) -> bool:
        """True if a resource alarm blocks this connection."""
        return bool(self._gate.reasons & ALARM)

    def before_publish(self) -> None:
        """A publish method arrived outside the lane; while an alarm is on they all do.

        It waits for what was declared before it, which no route leads to so far.
        """
        self.block_if_alarmed()
        rate, gate = self._rates.of(self._client.user), self._gate
        if gate.awaits_definitions:
            self._output.hold_input()
        if rate is None:
            gate.on_octets = None  # the lanes open behind this publish
            return
        if gate.on_octets is None:
            gate.on_octets = self._on_octets
            gate.close_all_publish_lanes()
        if rate.messages is not None:
            wait_s = rate.messages.take(1, self._alarms.clock.monotonic_s)
            self._wait_for_rate(wait_s, "user.max-publish-rate")

    def block_if_alarmed(self) -> None:
        """A frame of a publish has come: while a resource is short the connection is blocked."""
        self.has_published = True
        if self._alarms.is_on and not self.is_blocked and not self._is_closing:
            reason = self._alarms.reason
            self._report(events.CONNECTION_BLOCKED, peer=self._transport.peer, reason=reason)
            self._send_blocked(reason)
            self._blocked_ms = self._alarms.clock.now_ms
            self._gate.hold(ALARM)

    def on_alarm_cleared(self) -> None:
        """No resource is short any more: all that were blocked go on, one after the other."""
        if self.is_blocked:
            self._gate.wait_for_turn()
            self._gate.end(ALARM)
            self._report(events.CONNECTION_UNBLOCKED, peer=self._transport.peer)
            self._send_unblocked()

    def on_client_closing(self) -> None:
        """The client has sent connection.close: no alarm blocks what came before it."""
        self._is_closing = True

    @property
    def waits(self) -> tuple[int, bool]:
        """Since when an alarm blocks it, 0 if none does; and whether it waits for full queues."""
        return self._blocked_ms if self.is_blocked else 0, bool(self._stopped)

    # -------------------------------------------------------------- the user's rate

    def _on_octets(self, count: int) -> None:
        """Count octets of a user that publishes at a rate."""
        rate = self._rates.of(self._client.user)
        if rate is not None and rate.octets is not None:
            wait_s = rate.octets.take(count, self._alarms.clock.monotonic_s)
            self._wait_for_rate(wait_s, "user.max-publish-bytes-rate")

    def _wait_for_rate(self, wait_s: float, limit: str) -> None:
        """Pause reading for ``wait_s``; extends a shorter pause."""
        end_s = self._alarms.clock.monotonic_s + wait_s
        if not wait_s or (self._rate_timer is not None and end_s <= self._rate_end_s):
            return
        if self._rate_timer is not None:
            self._rate_timer.cancel()
        else:
            self._rates.reached.count(limit)
            self._gate.hold(RATE)
        self._rate_end_s = end_s
        self._rate_timer = self._transport.call_later(wait_s, self._end_wait_for_rate)

    def _end_wait_for_rate(self) -> None:
        self._rate_timer = None
        if self._gate.reasons & RATE:  # otherwise the connection closes
            self._gate.wait_for_turn()
            self._gate.end(RATE)

    # ----------------------------------------------------------------- full queues

    def stop(self, channel_flow: ChannelFlow, place: str) -> None:
        """A channel must wait for the queue at ``place``; may be called repeatedly."""
        self._stopped[channel_flow] = None
        if self._gate.reasons & QUEUE:
            return
        self._send_blocked(f"{place} is full")
        connection = self._connection
        if connection is not None and not connection.has_deliveries():
            self._gate.hold(QUEUE)

    def release(self, channel_flow: ChannelFlow) -> None:
        """The channel may publish again, or is gone."""
        if self._stopped.pop(channel_flow, self) is self or self._stopped:
            return
        self._end_pause()
        self._send_unblocked()

    def _end_pause(self) -> None:
        if self._gate.reasons & QUEUE:
            self._gate.end(QUEUE)

    # ------------------------------------------------------------ telling the client

    def _send_blocked(self, reason: str) -> None:
        """Send connection.blocked, if the client takes it and has not been sent it."""
        if not self._is_reported and self._client.has_capability("connection.blocked"):
            self._is_reported = True
            self._output.send(0, commands.Connection.Blocked, reason=within_short_string(reason))

    def _send_unblocked(self) -> None:
        """Send connection.unblocked after connection.blocked, if no reason is left."""
        if self._is_reported and not self._stopped and not self.is_blocked:
            self._is_reported = False
            self._output.send(0, commands.Connection.Unblocked)

    # ---------------------------------------------------------------------- the end

    def stop_telling(self) -> None:
        """The connection ends: nothing more is sent, and its close-ok must be read."""
        self._stopped.clear()
        self._is_reported = False
        self._end_pause()

    def close(self) -> None:
        self._connection = None
        if self._rate_timer is not None:
            self._rate_timer.cancel()
            self._rate_timer = None
