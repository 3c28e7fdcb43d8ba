"""A server-side connection: octets in, octets out, channels in between; no socket, no asyncio.

The decoder calls a channel's lanes for messages, ``on_frame`` for other frames. Only this module
turns an AmqpError into a close frame.

=========  =======================================  ==============================================
state      meaning                                  leaves it by
=========  =======================================  ==============================================
header     the 8 octets of the protocol header      the right ones -> handshake; others -> closed
handshake  see ``amqp.handshake``                   connection.open -> running
running    channels work                            close from either side -> closing or closed
closing    connection.close was sent                close-ok or a timeout -> closed
closed     nothing is read or written any more
=========  =======================================  ==============================================

When the socket is gone the parts no longer refer to the connection, so that it is freed at once,
and not by the garbage collector.                                    [hot: receive, finish_turn]
"""

from __future__ import annotations

from typing import Final

from hareline import events
from hareline.amqp.backlog import Backlogs
from hareline.amqp.channels import Channels
from hareline.amqp.client import Client, Dialect
from hareline.amqp.context import ConnectionParts, Context
from hareline.amqp.ending import Ending, Heartbeat, check_heartbeat_frame
from hareline.amqp.flow_control import ConnectionFlow
from hareline.amqp.handshake import WAIT_START_OK, Handshake, WrongHeader, on_end
from hareline.amqp.input_gate import ALARM, BACKLOG, LITTLE_BYTES, OUTPUT, SHARE, InputGate
from hareline.amqp.internal_events import ending
from hareline.amqp.kept_login import KeptLogin
from hareline.amqp.output import Output
from hareline.amqp.ports import ConnectionPort, InnerState, LiveConnection, Transport
from hareline.clock import Timer
from hareline.errors import (
    AccessRefused,
    AmqpError,
    ChannelError,
    ConnectionForced,
    InternalError,
    StoreError,
    UnexpectedFrame,
)
from hareline.turn import Draining, Receiving
from hareline.wire.constants import (
    BASIC_PUBLISH,
    FRAME_HEARTBEAT,
    FRAME_METHOD,
    PROTOCOL_HEADER,
)
from hareline.wire.decoder import Decoder, frame_text
from hareline.wire.methods import commands, decode_method

CLOSE_OK_TIMEOUT_S: Final = 10.0
_CONSUME: Final = divmod(commands.Basic.Consume.index, 1 << 16)
_CLOSE: Final = commands.Connection.Close.index
_WANTS_ROOM: Final = OUTPUT | BACKLOG
_CLOSE_OK: Final = commands.Connection.CloseOk.index


class Connection(ConnectionPort, LiveConnection, Receiving, Draining):
    """``connected_ms``: when it was accepted, in epoch milliseconds."""

    __slots__ = (
        "_backlogs",
        "_close_timer",
        "_decoder",
        "_ending",
        "_flow",
        "_gate",
        "_handshake",
        "_heartbeat",
        "_is_close_due",
        "_login",
        "_turn",
        "channels",
        "client",
        "connected_ms",
        "context",
        "output",
        "state",
        "transport",
    )

    def __init__(self, context: Context, transport: Transport) -> None:
        self.context = context
        self.transport = transport
        self.state = "header"
        self.client = client = Client()
        self.connected_ms = context.clock.now_ms
        self._turn = turn = context.turn
        self._decoder = decoder = Decoder(self)
        self._gate = gate = InputGate(decoder, transport, turn, context.alarms, self)
        self.output = output = Output(transport, turn, gate, self)
        self._flow = flow = ConnectionFlow(
            client, gate, output, context.alarms, context.rates, context.report, transport, self
        )
        self._backlogs = Backlogs(gate, output, context.clock, self)
        parts = ConnectionParts(context, transport, client, gate, output, flow, self._backlogs)
        self.channels = Channels(parts)
        self._ending = ending = Ending(context.report, transport)
        self._handshake: Handshake | None = Handshake(parts, ending, self)
        # the client's connection.close waits for the backlogs, or for definitions
        self._is_close_due = False
        context.connections[self] = None
        self._heartbeat: Heartbeat | None = None
        self._login: KeptLogin | None = None  # of one that expires, or was renewed
        self._close_timer: Timer | None = None  # for close-ok

    @property
    def missing_bytes(self) -> int:
        """Octets that a half received frame still lacks."""
        return self._decoder.missing_bytes

    @property
    def channel_count(self) -> int:
        return len(self.channels.by_number)

    @property
    def is_running(self) -> bool:
        return self.state == "running"

    @property
    def has_published(self) -> bool:
        """True if the client has published, so that it waits while the broker is behind."""
        return self._flow.has_published

    @property
    def is_blocked(self) -> bool:
        return self._flow.is_blocked

    @property
    def inner_state(self) -> InnerState:
        """State of its parts, for operators."""
        handshake = "" if self._handshake is None else self._handshake.state
        heartbeat_s = 0 if self._heartbeat is None else self._heartbeat.interval_s
        return InnerState(handshake, heartbeat_s, self._gate.reasons, *self._flow.waits)

    # ------------------------------------------------------------------- octets in

    def receive(self, data: bytes) -> None:
        """Handle octets of the socket, in pieces of any size."""
        if self._heartbeat is not None:
            self._heartbeat.has_received = True
        if self.state == "header":
            self._receive_header(data)
            return
        if self.state == "closed":
            return
        self.context.clock.refresh()
        gate = self._gate
        if self.state == "running":
            self.channels.forget_stale_routes()
            if gate.is_turn_full and (len(data) > LITTLE_BYTES or self._flow.has_published):
                gate.wait_for_turn()
        gate.take_share(data)

    def go_on(self) -> None:
        """The turn's call: the others had their share of it."""
        if self._gate.reasons & SHARE:
            self.context.clock.refresh()
            self._stop_holding(SHARE)

    def on_bug(self, error: Exception) -> None:
        """Close for an exception of ours, which must not take others along; drop for the second."""
        self.context.report(events.BROKER_FAILED, where=self.transport.peer, exc_info=error)
        if self.close(InternalError("internal error", class_id=0, method_id=0)):
            self.transport.abort()

    def _receive_header(self, data: bytes) -> None:
        handshake = self._handshake
        assert handshake is not None
        self.context.clock.refresh()
        try:
            rest = handshake.on_header(data)
        except WrongHeader:
            # AMQP 0-9-1 section 2.2.4: answer with the version that is spoken here, and close
            self.output.write(PROTOCOL_HEADER)
            self._close_now()
            return
        if rest is not None:
            self.state = "handshake"
            if rest:
                self._decoder.feed(rest)

    def _stop_holding(self, reasons: int) -> None:
        """End these reasons, and go on with what was read unless there are others."""
        gate = self._gate
        may_go_on = gate.end(reasons)
        if (
            self._backlogs.by_channel
            and not gate.reasons & (ALARM | SHARE)
            and not self.output.is_marked
        ):
            self.output.mark()  # one that is long may be why output holds the rest
        if not may_go_on:
            return
        if self.state == "running":
            self.channels.forget_stale_routes()
        try:
            gate.take_share(b"")
        except Exception as error:
            self.on_bug(error)

    # ------------------------------------------------------------- frames in

    def on_frame(self, kind: int, number: int, payload: bytes) -> None:
        if kind == FRAME_HEARTBEAT:
            check_heartbeat_frame(number, payload)
            return
        method = int.from_bytes(payload[:4], "big") if kind == FRAME_METHOD else BASIC_PUBLISH
        start_s = self._turn.now()
        try:
            if number == 0:
                self._on_connection_frame(kind, payload, method)
            elif self.state == "running":
                self.channels.on_frame(self, kind, number, payload, method)
            elif self.state == "handshake":
                raise UnexpectedFrame(frame_text(kind, payload), class_id=0, method_id=0)
        except AmqpError as error:
            if error.class_id is None:
                error.class_id = method >> 16
                error.method_id = method & 0xFFFF
            raise
        if self.state == "running":
            self.channels.forget_stale_routes()
            self._gate.count_work(0, start_s)

    def _on_connection_frame(self, kind: int, payload: bytes, index: int) -> None:
        if kind != FRAME_METHOD:
            raise UnexpectedFrame(frame_text(kind, payload), class_id=0, method_id=0)
        if index == _CLOSE:
            if self._backlogs.by_channel or self.output.definitions_awaited:
                # what was asked for before is answered before
                self._is_close_due = True
                self._flow.on_client_closing()
                self._decoder.discard()
                return
            self._on_close()
        elif self.state == "closing":
            if index == _CLOSE_OK:
                self._close_now()
        elif self._handshake is not None:
            self._on_handshake_method(self._handshake, payload)
        elif self.state == "running":
            method = decode_method(payload)
            if isinstance(method, commands.Connection.UpdateSecret):
                self._keep_login().update_secret(str(method.new_secret))
            elif isinstance(method, commands.Connection.Blocked | commands.Connection.Unblocked):
                return  # a client's own state; nothing here depends on it
            else:
                raise ChannelError("unexpected method in connection state running")

    # --------------------------------------------------------------- the handshake

    def _on_handshake_method(self, handshake: Handshake, payload: bytes) -> None:
        outcome = handshake.on_method(payload)
        if outcome == "tuned":
            self._on_tuned(handshake)
        elif outcome == "open":
            self._end_handshake()
            self.state = "running"
            self.output.set_store(self.client.vhost.environment.store)
            if self.client.expires:
                self._keep_login()

    def _end_handshake(self) -> None:
        """Stop its timer, and free it: an idle connection has nothing that it does not need."""
        handshake, self._handshake = self._handshake, None
        if handshake is not None:
            handshake.stop()

    def _on_tuned(self, handshake: Handshake) -> None:
        decoder = self._decoder
        self.channels.channel_max = handshake.channel_max
        self.output.frame_max = decoder.frame_max = handshake.frame_max
        decoder.lane_body_max = self.context.lane_body_max(handshake.frame_max)
        if handshake.heartbeat_s:
            self._heartbeat = Heartbeat(handshake.heartbeat_s, self.transport, self._ending)

    def update_taps(self) -> None:
        for channel in self.channels.by_number.values():
            channel.update_tap()

    # ----------------------------------------------------------------------- rights

    def _keep_login(self) -> KeptLogin:
        """The login's end and renewal."""
        if self._login is None:
            self._login = KeptLogin(self.channels.parts, self.channels, self)
        return self._login

    def renew_access(self) -> None:
        """Take over what the user may do now, or close (530) if that is nothing here."""
        if self.state == "running":
            self._keep_login().look_up_rights()

    # --------------------------------------------------- called by parts and channels

    def forget_channel(self, number: int) -> None:
        self.channels.forget(number)

    def reopen_lanes(self, number: int) -> None:
        self.channels.reopen_lanes(number)

    def has_deliveries(self) -> bool:
        return self.channels.have_deliveries()

    def await_definitions(self, *names: str) -> None:
        if self.client.vhost.when_settled(self._on_definitions_settled, *names):
            self.output.definitions_awaited += 1
            self._gate.awaits_definitions = True  # no route leads to a new queue so far
            self._gate.close_all_publish_lanes()
            if self.client.vhost.has_bindings_to_come:
                self.output.hold_input()  # what comes behind may concern them

    def _on_definitions_settled(self, error: StoreError | None) -> None:
        output = self.output
        output.definitions_awaited -= 1
        if error is not None:
            self._on_definitions_lost(error)
        elif not output.definitions_awaited:
            self._gate.awaits_definitions = False
            self.channels.reopen_all_lanes()
            output.mark()

    def _on_definitions_lost(self, error: StoreError) -> None:
        """Drop the output that was held, which says what is not so, and close."""
        self.output.frames.clear()
        if self._is_close_due:  # close-ok alone would say that all went well
            self._release_everything()
            self._close_now()
        elif self.state == "running":
            self.close(error)
        elif self.state == "closing":
            self.output.send_close(0, error, error.reply_code)

    # ------------------------------------------------------------------------- alarms

    def on_alarm(self) -> None:
        self._gate.close_all_publish_lanes()

    def on_alarm_cleared(self) -> None:
        self.channels.reopen_all_lanes()
        self._flow.on_alarm_cleared()

    # -------------------------------------------------------------- the turn's end

    def finish_turn(self) -> None:
        """The turn's call: write what has gathered, and go on with what waited for room."""
        output = self.output
        try:
            if not output.write_turn():
                if output.definitions_awaited:
                    output.hold_input()  # or replies would gather as long as the disk hangs
                return
        except StoreError as error:  # half a content is sent: the connection has to end
            self.close(error)
            output.write_turn()
        if output.is_socket_full:
            return
        if output.is_full:
            self._resume_output()
        elif self._gate.reasons & _WANTS_ROOM:
            self._resume_input()
        if self._backlogs.by_channel:
            try:
                self._handle_backlogs()
            except Exception as error:
                self.on_bug(error)
        elif self._is_close_due:
            self._close_if_due()
        if output.outboxes and not output.is_marked:
            output.mark()

    def on_socket_full(self) -> None:
        self.output.is_socket_full = self.output.is_full = True

    def on_socket_drained(self) -> None:
        output = self.output
        output.is_socket_full = False
        self._resume_output()
        has_more = output.outboxes or self._backlogs.by_channel or self._is_close_due
        if has_more and not output.is_marked:
            output.mark()

    def _resume_output(self) -> None:
        self.output.resume()
        if self._gate.reasons & _WANTS_ROOM:
            self._resume_input()

    def _resume_input(self) -> None:
        """There is room for what the client asks for, unless too much waits on a channel."""
        reasons = 0
        if not self.output.has_long_outbox:
            reasons |= OUTPUT
        if not self._backlogs.is_long:
            reasons |= BACKLOG
        if self._gate.reasons & reasons:
            self._stop_holding(reasons)

    def _handle_backlogs(self) -> None:
        if not self._backlogs.handle():
            return
        if not self._close_if_due() and not self.output.is_marked:
            self.output.mark()  # there may be more, or input to go on with

    def _close_if_due(self) -> bool:
        """Answer the client's connection.close if all that came before it is answered."""
        is_due = self._is_close_due and not self._backlogs.by_channel
        if is_due and not self.output.definitions_awaited:
            self._on_close()
            return True
        return False

    # -------------------------------------------------------------------- closing

    def on_error(self, number: int, error: AmqpError) -> bool:
        if error.class_id is None:  # out of a lane, where only publishes raise without ids
            error.class_id = BASIC_PUBLISH >> 16
            error.method_id = BASIC_PUBLISH & 0xFFFF
        if self.state == "running" and closes_channel(error, self.client.dialect):
            channel = self.channels.by_number.get(number)
            if channel is not None:
                channel.refuse(error)
                return True
        if self.close(error):
            return True
        self._decoder.discard()  # for a frame that comes out of a backlog too
        return False

    def close(self, error: AmqpError) -> bool:
        """Send connection.close for ``error`` and wait for close-ok; False when out of step.

        A peer that may not speak AMQP at all is not sent anything.
        """
        if self.state in ("closing", "closed"):
            return self.state == "closing"
        self._ending.report(
            events.CONNECTION_ERROR, reply_code=error.reply_code, reply_text=error.reply_text
        )
        if self._is_close_due:  # the client has closed: nothing but close-ok is left to say
            if not self.output.definitions_awaited:
                self._on_close()
            return False
        self._release_everything()
        if self._handshake is not None and not self._handshake.takes_close(error):
            self._close_now()
            return False
        self._end_handshake()
        self.state = "closing"
        self._gate.wait_for_close_ok()
        self.output.send_close(0, error, error.reply_code)
        self._close_timer = self.transport.call_later(CLOSE_OK_TIMEOUT_S, self._on_close_timeout)
        return not isinstance(error, InternalError)

    def _on_close(self) -> None:
        """The client closes: exclusive queues must be gone before it reads close-ok."""
        self._release_everything()
        self.output.send(0, commands.Connection.CloseOk)
        self._close_now()

    def force_close(self, explanation: str) -> None:
        """Send connection.close 320, or drop a connection that never got that far."""
        if self.state in ("running", "closing"):
            self.close(ConnectionForced(explanation, class_id=0, method_id=0))
        else:
            self._ending.report(events.CONNECTION_CLOSED)
            self.transport.abort()

    def _on_close_timeout(self) -> None:
        if self.state == "closing":
            self.transport.abort()

    def _close_now(self) -> None:
        """Everything is said: write it and close the socket."""
        self.state = "closed"
        self._decoder.discard()
        self._end_handshake()
        if self._heartbeat is not None:
            self._heartbeat.stop()
        self.output.stop_holding()  # the client looks at no delivery any more
        self.finish_turn()
        self.output.frames.clear()  # what waits for definitions comes too late
        self.transport.close()

    def on_transport_lost(self, reason: str) -> None:
        """The socket is gone; called exactly once. ``reason`` is empty for an orderly end."""
        handshake = self._handshake
        has_begun = handshake is None or handshake.state != WAIT_START_OK
        self._ending.report_loss(self.state, reason, has_begun=has_begun)
        self._release_everything()
        self.state = "closed"
        if self._close_timer is not None:
            self._close_timer.cancel()
        if self._heartbeat is not None:
            self._heartbeat.stop()
        self.context.forget(self)
        self._decoder.close()
        self._end_handshake()
        self._gate.close()
        self.output.close()
        self._flow.close()
        self._backlogs.close()

    def _release_everything(self) -> None:
        """End all channels, delete the exclusive queues, note that the client is going."""
        with ending(self.context, self.transport, self.client, is_open=self.state == "running"):
            if self._login is not None:
                self._login.stop()
            self._flow.stop_telling()
            self.channels.end_all()
            self.output.drop_waiting()
            self._backlogs.clear()
            self._is_close_due = False
            if self.state == "running":
                self.client.vhost.delete_queues_of(self.client)
                on_end(self.context, self.client, self.transport)

    def __repr__(self) -> str:
        return f"<Connection {self.transport.peer}, {self.state}>"


def closes_channel(error: AmqpError, dialect: Dialect) -> bool:
    """True if ``error`` closes its channel, not the connection; its ids must be set."""
    return error.scope == "channel" and not (
        dialect.refuses_consume_by_connection
        and isinstance(error, AccessRefused)
        and (error.class_id, error.method_id) == _CONSUME
    )
