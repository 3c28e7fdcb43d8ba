"""A server-side connection: octets in, octets out, channels in between; no socket, no asyncio.

``net.shell`` calls ``receive`` with what it read and is written to through a ``Transport``. Frames
come back from the decoder as calls: the per-message ones straight to a channel's lanes, the others
to ``on_frame``. This is the ONE place that turns an AmqpError into channel.close or
connection.close.

=========  =======================================  ==============================================
state      meaning                                  leaves it by
=========  =======================================  ==============================================
header     the 8 octets of the protocol header      the right ones -> handshake; others -> closed
handshake  see ``amqp.handshake``                   connection.open -> running
running    channels work                            close from either side -> closing or closed
closing    we sent connection.close                 close-ok or a timeout -> closed
closed     nothing is read or written any more
=========  =======================================  ==============================================

Output gathers in ``output`` during a turn and is written once by ``finish_turn``. While the socket
is full, or a turn's output has reached its limit, ``is_full`` is set and consumers stay suspended
until ``when_writable`` calls them back. Deliveries that the store must know of first hold all
output back until it does (``hold_output``). Channels on which a large message goes out write to an
outbox of their own meanwhile (``outboxes``). What a channel receives while it waits for its
tx.commit-ok is kept in a backlog of its own (``hold_channel``).

Input that was read is kept in the decoder while there is a reason to hold it (``_holds``): the
client does not read what it asked for, the connection has had its share of the turn, or an alarm is
on and the next thing is a publish.                                            [hot: finish_turn]
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from hareline import events
from hareline.amqp.backlog import BACKLOG_MAX_BYTES, Backlog
from hareline.amqp.channel import Channel
from hareline.amqp.confirms import Confirms
from hareline.amqp.context import Context, Transport
from hareline.amqp.dialect import QPID, RABBITMQ, Dialect, dialect_of
from hareline.amqp.flow_control import ConnectionFlow
from hareline.amqp.handshake import Handshake
from hareline.amqp.heartbeat import HeartbeatMonitor
from hareline.amqp.large_delivery import Outbox
from hareline.amqp.product import is_probe
from hareline.amqp.publishing import Publishing
from hareline.amqp.settling import Settling
from hareline.auth.permissions import AccessChecker
from hareline.broker.vhost import VirtualHost
from hareline.clock import Timer
from hareline.errors import (
    AccessRefused,
    AmqpError,
    ChannelError,
    CommandInvalid,
    ConnectionForced,
    InternalError,
    InvalidSelector,
    NotAllowed,
    StoreError,
    UnexpectedFrame,
    UnknownFrameType,
)
from hareline.message import Message, Publisher
from hareline.turn import WORK_PER_S, WORK_PER_SHARE, WORK_PER_TURN
from hareline.wire.constants import (
    BASIC_PUBLISH,
    FRAME_HEARTBEAT,
    FRAME_MAX_BEFORE_TUNE,
    FRAME_METHOD,
    FRAME_OVERHEAD,
    HEARTBEAT_FRAME,
    PROTOCOL_HEADER,
    PROTOCOL_HEADER_0_9,
)
from hareline.wire.decoder import Decoder, FrameSink, frame_error, frame_text
from hareline.wire.methods import Frame, commands, decode_method, encode_method
from hareline.wire.table import Table

if TYPE_CHECKING:
    from hareline.auth.users import User

OUTPUT_TURN_MAX_BYTES: Final = 1_048_576  # a connection's deliveries in one turn, about 1 ms
CLOSE_OK_TIMEOUT_S: Final = 10.0
BACKLOG_SHARE_S: Final = 0.003  # of a turn, for what came behind a commit that is answered now
INVALID_ARGUMENT: Final = 409  # no code of AMQP 0-9-1; Qpid's clients make JMS's exception of it

_CLOSE: Final = commands.Connection.Close.index
_CLOSE_OK: Final = commands.Connection.CloseOk.index
# Reasons to hold the input.
_OUTPUT: Final = 1
_SHARE: Final = 2
_ALARM: Final = 4

_CONSUME: Final = divmod(commands.Basic.Consume.index, 1 << 16)


class Connection(FrameSink):
    """``user``, ``vhost`` and ``access`` are set by the handshake and valid from then on.

    ``dialect`` and ``publisher``, which stands for this connection in its messages, are those of
    the client that start-ok names.
    """

    __slots__ = (
        "_backlog_bytes",
        "_backlogs",
        "_confirms",
        "_current_method",
        "_deadline",
        "_decoder",
        "_handshake",
        "_has_defined",
        "_header",
        "_heartbeat_timer",
        "_holds",
        "_is_close_due",
        "_is_end_told",
        "_is_marked",
        "_is_socket_full",
        "_output_size",
        "_output_ticket",
        "_routing_version",
        "_waiters",
        "_was_opened",
        "access",
        "channel_max",
        "channels",
        "client_properties",
        "connected_ms",
        "context",
        "dialect",
        "flow",
        "frame_max",
        "has_published",
        "heartbeat",
        "is_blocked",
        "is_full",
        "link",
        "outboxes",
        "output",
        "publisher",
        "share_end",
        "state",
        "takes_consumer_cancel",
        "user",
        "vhost",
    )

    def __init__(self, context: Context, link: Transport) -> None:
        self.context = context
        self.link = link
        self.state = "header"
        self.user: User
        self.vhost: VirtualHost
        self.access: AccessChecker
        self.client_properties = Table()
        self.dialect: Dialect = RABBITMQ
        self.publisher = Publisher()
        self.takes_consumer_cancel = False
        self.channels: dict[int, Channel] = {}
        self.channel_max = context.limits.channel_max
        self.frame_max = FRAME_MAX_BEFORE_TUNE
        self.heartbeat: HeartbeatMonitor | None = None
        self.connected_ms = context.clock.now_ms
        self.has_published = False
        self.is_blocked = False
        self.flow = ConnectionFlow(self)
        self.is_full = False
        self.output: list[bytes] = []
        self.outboxes: dict[int, Outbox] = {}  # by channel number; hardly ever any
        self._backlogs: dict[int, Backlog] = {}  # likewise
        self._backlog_bytes = 0  # of all of them
        self._is_close_due = False  # the client's connection.close waits for the backlogs
        self._output_size = 0
        self._output_ticket = 0  # nothing is written before it is durable
        self._is_socket_full = False
        self._holds = 0
        self.share_end = WORK_PER_SHARE  # of the turn's work, for what is being handled
        self._is_marked = False
        self._has_defined = False
        self._waiters: list[Callable[[], None]] = []
        self._confirms: list[Confirms] = []
        self._header = b""
        self._decoder = Decoder(self)
        self._handshake = Handshake(self)
        self._routing_version = -1
        self._was_opened = False
        self._is_end_told = False
        self._current_method = 0
        context.connections[self] = None
        self._heartbeat_timer: Timer | None = None
        self._deadline: Timer | None = None
        self._set_deadline(context.limits.handshake_timeout_s, self._on_handshake_timeout)

    @property
    def missing_bytes(self) -> int:
        """What the frame that is half received still lacks; 0 when none is."""
        return self._decoder.missing_bytes

    @property
    def is_running(self) -> bool:
        return self.state == "running"

    # ------------------------------------------------------------------- octets in

    def receive(self, data: bytes) -> None:
        """What the socket gave, in pieces of any size."""
        heartbeat = self.heartbeat
        if heartbeat is not None:
            heartbeat.has_received = True
        if self.state == "header":
            self._receive_header(data)
            return
        if self.state == "closed":
            return
        self.context.clock.refresh()
        if self.state == "running":
            self._drop_stale_routes()
            if self.has_published and self.context.turn.work > WORK_PER_TURN:
                self.wait_for_turn()
        self._take_share(data)

    def _take_share(self, data: bytes) -> None:
        """Handle ``data`` and what was held back before it, unless it is held back too."""
        turn = self.context.turn
        start_work, start_s = turn.work, turn.now()
        self.share_end = start_work + WORK_PER_SHARE
        if data:
            self._decoder.feed(data)
        else:
            self._decoder.resume()
        turn.work = max(turn.work, start_work + int((turn.now() - start_s) * WORK_PER_S))

    def go_on(self) -> None:
        """The turn's call: the others had their share of it."""
        if self._holds & _SHARE:
            self.context.clock.refresh()
            self._stop_holding(_SHARE)

    def on_bug(self, error: Exception) -> None:
        """An exception of ours, which must not take other connections along."""
        self.context.report(events.BROKER_FAILED, where=self.link.peer, exc_info=error)
        self.close(InternalError("internal error", class_id=0, method_id=0))

    def _receive_header(self, data: bytes) -> None:
        self.context.clock.refresh()
        header = self._header + data
        length = len(PROTOCOL_HEADER)
        if header[:length] in (PROTOCOL_HEADER, PROTOCOL_HEADER_0_9):
            self.state = "handshake"
            self._header = b""
            self._handshake.start()
            if len(header) > length:
                self._decoder.feed(header[length:])
        elif len(header) < length and PROTOCOL_HEADER.startswith(header[:4]):
            self._header = header
        else:
            # AMQP 0-9-1 section 2.2.4: answer with the version that is spoken here, and close
            self._report_header(header)
            self.write(PROTOCOL_HEADER)
            self._close_now()

    def _report_header(self, header: bytes) -> None:
        peer, protocol = self.link.peer, protocol_of(header)
        if is_probe(header):
            self.context.products.on_probe(self.link.host)
            self.tell_end(events.PEER_REDIRECTED, peer=peer, protocol=protocol)
        else:
            self.tell_end(events.PEER_SPEAKS_OTHERWISE, peer=peer, protocol=protocol)

    def on_frame(self, kind: int, number: int, payload: bytes) -> None:
        if kind == FRAME_HEARTBEAT:
            if payload:
                raise frame_error(kind, payload, "unknown_frame")
            if number != 0:
                raise UnexpectedFrame(frame_text(kind, payload), class_id=0, method_id=0)
            return
        if kind == FRAME_METHOD:
            self._current_method = int.from_bytes(payload[:4], "big")
        else:
            self._current_method = BASIC_PUBLISH
        start_s = self.context.turn.now()
        try:
            if number == 0:
                self._on_connection_frame(kind, payload)
            elif self.state == "running":
                self._on_channel_frame(kind, number, payload)
            elif self.state == "handshake":
                raise UnexpectedFrame(frame_text(kind, payload), class_id=0, method_id=0)
        except AmqpError as error:
            if error.class_id is None:
                error.class_id = self._current_method >> 16
                error.method_id = self._current_method & 0xFFFF
            raise
        finally:
            self._current_method = 0
        if self.state == "running":
            self._drop_stale_routes()
            self.count_work(0, start_s)

    def _on_channel_frame(self, kind: int, number: int, payload: bytes) -> None:
        if self._backlogs:
            backlog = self._backlogs.get(number)
            if backlog is not None:
                self._backlog_bytes += backlog.add(kind, payload)
                if self._backlog_bytes > BACKLOG_MAX_BYTES:
                    self.hold_input()
                if self._current_method == BASIC_PUBLISH:
                    self.before_publish()
                return
        channel = self.channels.get(number)
        if channel is not None:
            channel.on_frame(kind, payload)
        elif kind == FRAME_METHOD and self._current_method == commands.Channel.Open.index:
            decode_method(payload)
            self._open_channel(number)
        elif self._current_method >> 16 == commands.Connection.frame_id:
            raise CommandInvalid("unimplemented method")
        elif self._current_method != commands.Channel.CloseOk.index:
            raise ChannelError("expected 'channel.open'")

    def _open_channel(self, number: int) -> None:
        if len(self.channels) >= self.channel_max:  # RabbitMQ too counts them, whatever the number
            raise NotAllowed(
                f"number of channels opened ({len(self.channels)}) has reached the negotiated "
                f"channel_max ({self.channel_max})",
                class_id=0,
                method_id=0,
            )
        channel = Channel(self, number)
        self.channels[number] = channel
        channel.open_lanes()
        channel.reply(commands.Channel.OpenOk)

    def _on_connection_frame(self, kind: int, payload: bytes) -> None:
        if kind != FRAME_METHOD:
            raise UnexpectedFrame(frame_text(kind, payload), class_id=0, method_id=0)
        index = self._current_method
        if index == _CLOSE:
            if self._backlogs:  # what was asked for before is answered before
                self._is_close_due = True
                self._decoder.discard()
                return
            self._on_close()
        elif self.state == "closing":
            if index == _CLOSE_OK:
                self._close_now()
        elif self.state == "handshake":
            self._handshake.on_method(payload)
        elif self.state == "running":
            method = decode_method(payload)
            if isinstance(method, commands.Connection.UpdateSecret):
                self._on_update_secret()
            elif isinstance(method, commands.Connection.Blocked | commands.Connection.Unblocked):
                return  # a client's own state; nothing here depends on it
            else:
                raise ChannelError("unexpected method in connection state running")

    def _on_close(self) -> None:
        """The client closes: exclusive queues must be gone before it reads close-ok."""
        self._release_everything()
        self.send(0, commands.Connection.CloseOk)
        self._close_now()

    def _on_update_secret(self) -> None:
        """Internal users have no expiring secret; rights are looked up anew, as in RabbitMQ."""
        user = self.context.users.lookup(self.user.name)
        if user is None:
            raise NotAllowed("New secret was refused by one of the backends")
        self._take_over(user)
        self.send(0, commands.Connection.UpdateSecretOk)

    def _take_over(self, user: User) -> None:
        self.user = user
        self.access = AccessChecker(user, self.vhost.name)
        for channel in self.channels.values():
            channel.access = self.access
            channel.publishing.forget_routes()

    def renew_access(self) -> None:
        """The users were read again: what this one may do from now on, or the end of it (530)."""
        if self.state != "running":
            return
        user = self.context.users.lookup(self.user.name)
        if user is None or user == self.user:
            return
        try:
            self._take_over(user)
        except NotAllowed as error:
            error.class_id = error.method_id = 0
            self.close(error)

    # ------------------------------------------------------- called by the handshake

    def set_client_properties(self, properties: Table) -> None:
        self.client_properties = properties
        self.takes_consumer_cancel = self.has_capability("consumer_cancel_notify")
        self.flow.set_client_properties(properties)
        self.dialect = dialect_of(properties)
        if self.dialect.keeps_durable_exclusive:
            client_id = properties.get("instance")
            self.publisher = Publisher(client_id if isinstance(client_id, str) else "")

    def has_capability(self, name: str) -> bool:
        capabilities = self.client_properties.get("capabilities")
        return isinstance(capabilities, dict) and capabilities.get(name) is True

    def on_tuned(self, frame_max: int, channel_max: int, heartbeat_s: int) -> None:
        self.frame_max = frame_max
        self.channel_max = channel_max
        self._decoder.frame_max = frame_max
        limits = self.context.limits
        lane_body_max = min(frame_max - FRAME_OVERHEAD, limits.max_message_bytes)
        if self.context.large_bodies is not None:
            lane_body_max = min(lane_body_max, limits.large_message_bytes)
        self._decoder.lane_body_max = lane_body_max
        if heartbeat_s:
            self.heartbeat = HeartbeatMonitor(heartbeat_s)
            self._arm_heartbeat(self.heartbeat)

    def on_open(self) -> None:
        self.state = "running"
        self._was_opened = True
        self._clear_deadline()
        self.context.report(
            events.CONNECTION_OPENED,
            peer=self.link.peer,
            user=self.user.name,
            vhost=self.vhost.name,
            client=self.client_properties.get("product"),
            name=self.client_properties.get("connection_name"),
        )
        self._note_product()

    def _note_product(self) -> None:
        """Where Qpid clients come from is remembered as long as they do."""
        if self.dialect is QPID:
            self.context.products.on_client(self.link.host)

    def drop_after_delay(self) -> None:
        """A refused login: RabbitMQ's clients tell it from a network fault by the delay."""
        self._set_deadline(self.context.limits.authentication_failure_delay_s, self.link.abort)

    def _on_handshake_timeout(self) -> None:
        if self.state in ("header", "handshake"):
            self.tell_end(events.HANDSHAKE_TIMED_OUT, peer=self.link.peer)
            self.link.abort()

    def _set_deadline(self, delay_s: float, callback: Callable[[], None]) -> None:
        """What the connection waits for now may take this long; there is one deadline at a time."""
        self._clear_deadline()
        self._deadline = self.link.call_later(delay_s, callback)

    def _clear_deadline(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    # --------------------------------------------------------- called by channels

    def open_publish_lane(self, number: int, lane: Publishing) -> None:
        if not self.context.alarms.is_on:
            self._decoder.publish_lanes[number] = lane

    def open_settle_lane(self, number: int, lane: Settling) -> None:
        self._decoder.settle_lanes[number] = lane

    def close_publish_lane(self, number: int) -> None:
        self._decoder.publish_lanes.pop(number, None)

    def close_lanes(self, number: int) -> None:
        self._decoder.publish_lanes.pop(number, None)
        self._decoder.settle_lanes.pop(number, None)

    def _open_lanes(self, number: int) -> None:
        """Those that this channel may have now."""
        channel = self.channels.get(number)
        if channel is None or number in self._backlogs:
            return
        if not channel.is_closing and not channel.content.is_open:
            channel.open_lanes()

    def forget_channel(self, channel: Channel) -> None:
        """Its number is free again."""
        self.channels.pop(channel.number, None)
        channel.detach()

    def before_publish(self) -> None:
        """A publish method arrived outside the lane; while an alarm is on they all do."""
        self.has_published = True
        if self.context.alarms.is_on and not self.is_blocked and not self._is_close_due:
            self._block()

    def _drop_stale_routes(self) -> None:
        version = self.vhost.routing.version
        if version != self._routing_version:
            self._routing_version = version
            for channel in self.channels.values():
                channel.publishing.forget_routes()

    # ---------------------------------------------------------------------- alarms

    def on_alarm(self) -> None:
        """No lanes while an alarm is on, so that ``before_publish`` sees the first publish."""
        self._decoder.publish_lanes.clear()

    def on_alarm_cleared(self) -> None:
        for channel in self.channels.values():
            self._open_lanes(channel.number)
        if self.is_blocked:
            self.is_blocked = False
            self.context.report(events.CONNECTION_UNBLOCKED, peer=self.link.peer)
            self.flow.tell_unblocked()
            self.wait_for_turn()  # all that were blocked go on, one after the other
            self._holds &= ~_ALARM

    def _block(self) -> None:
        self.is_blocked = True
        reason = self.context.alarms.reason
        self.context.report(events.CONNECTION_BLOCKED, peer=self.link.peer, reason=reason)
        self.flow.tell_blocked(reason)
        self._hold(_ALARM)

    def resume_reading(self) -> None:
        """One reason not to read the socket is gone; there may be others."""
        if not (self._holds or self.flow.is_pausing):
            self.link.resume_reading()

    # ------------------------------------------------------------------ heartbeats

    def _on_heartbeat_tick(self) -> None:
        heartbeat = self.heartbeat
        if heartbeat is None or self.state == "closed":
            return
        if not heartbeat.tick(is_reading=self.link.is_reading and not self.is_blocked):
            self.tell_end(
                events.HEARTBEAT_MISSED, peer=self.link.peer, interval_s=heartbeat.interval_s
            )
            self.link.abort()
            return
        self.link.write(HEARTBEAT_FRAME)
        self._arm_heartbeat(heartbeat)

    def _arm_heartbeat(self, heartbeat: HeartbeatMonitor) -> None:
        self._heartbeat_timer = self.link.call_later(heartbeat.tick_s, self._on_heartbeat_tick)

    # ------------------------------------------------------------------ octets out

    def send(self, number: int, method_class: type[Frame], **fields: object) -> None:
        self.write_on(number, encode_method(number, method_class, **fields))

    def write_on(self, number: int, *parts: bytes) -> None:
        """Frames of a channel, behind the large content that may be going out on it."""
        outbox = self.outboxes.get(number)
        if outbox is None:
            self.write(*parts)
            return
        outbox.add(parts)
        if outbox.is_long:
            self.hold_input()

    def output_of(self, number: int) -> list[bytes]:
        """Where frames of this channel belong that are subject to credit."""
        outbox = self.outboxes.get(number)
        return self.output if outbox is None else outbox.tail

    def begin_large(self, number: int, head: tuple[bytes, ...], message: Message) -> list[bytes]:
        """A method frame and the large content it carries; returns what ``output_of`` does now."""
        outbox = self.outboxes.get(number)
        if outbox is None:
            outbox = self.outboxes[number] = Outbox(number, self.frame_max)
        if not self._is_marked:
            self._mark()
        return outbox.begin(head, message)

    def write(self, *parts: bytes) -> None:
        """Frames that are not subject to credit; they go out at the end of the turn."""
        self.output += parts
        if not self._is_marked:
            self._mark()

    @property
    def output_room(self) -> int:
        """Octets of deliveries that this turn may still write."""
        return OUTPUT_TURN_MAX_BYTES - self._output_size

    def mark_output(self, size: int) -> None:
        """``size`` octets of deliveries were added to ``output``."""
        self._output_size += size
        if self._output_size > OUTPUT_TURN_MAX_BYTES:
            self.is_full = True
        if not self._is_marked:
            self._mark()

    def end_output_share(self) -> None:
        """Take no more deliveries in this turn, whatever their octets."""
        self.is_full = True
        if not self._is_marked:
            self._mark()

    def mark_confirms(self, confirms: Confirms) -> None:
        self._confirms.append(confirms)
        if not self._is_marked:
            self._mark()

    def hold_input(self) -> None:
        """Handle nothing more of what was read, and read no more, until output has room again."""
        self._hold(_OUTPUT)

    def count_work(self, entries: int, start_s: float) -> None:
        """What came has added so many entries, and was begun at ``start_s``, by the turn's clock.

        The rest of what was read may have to wait for its turn.
        """
        turn = self.context.turn
        turn.work += max(entries, int((turn.now() - start_s) * WORK_PER_S))
        if turn.work > self.share_end:
            self.wait_for_turn()

    def wait_for_turn(self) -> None:
        """Handle no more before all the others that wait had their share of a turn."""
        if not self._holds & _SHARE:
            self._hold(_SHARE)
            self.context.turn.wait_in_line(self)

    def _hold(self, reason: int) -> None:
        self._holds |= reason
        self._decoder.hold()
        self.link.pause_reading()

    def _stop_holding(self, reason: int) -> None:
        """Go on with what was read, unless there are other reasons not to."""
        self._holds &= ~reason
        if self._backlogs and not self._holds & (_ALARM | _SHARE) and not self._is_marked:
            self._mark()  # one that is long may be why output holds the rest
        if self._holds:
            return
        self.resume_reading()
        if self.state == "running":
            self._drop_stale_routes()
        try:
            self._take_share(b"")
        except Exception as error:
            self.on_bug(error)

    def hold_channel(self, number: int) -> None:
        """Keep what this channel receives from now on, until ``release_channel``."""
        self.close_lanes(number)
        self._backlogs.setdefault(number, Backlog()).is_waiting = True

    def release_channel(self, number: int) -> None:
        """Handle what was kept for this channel, at the end of the turn."""
        backlog = self._backlogs.get(number)
        if backlog is not None:
            backlog.is_waiting = False
            if not self._is_marked:
                self._mark()

    def _handle_backlogs(self) -> None:
        """Go on with the channels whose commit is answered, for a share of this turn."""
        if self._holds & (_ALARM | _SHARE):
            return
        clock = self.context.clock
        until_s = clock.running_s() + BACKLOG_SHARE_S
        self.share_end = self.context.turn.work + WORK_PER_SHARE
        has_begun = False
        for number, backlog in list(self._backlogs.items()):
            if backlog.is_waiting:
                continue
            if has_begun and (self._holds & (_ALARM | _SHARE) or clock.running_s() >= until_s):
                break
            has_begun = True
            if not self._handle_backlog(number, backlog, until_s):
                return
        if self._is_close_due and not self._backlogs:
            self._on_close()
        elif has_begun and not self._is_marked:  # there may be more, or input to go on with
            self._mark()

    def _handle_backlog(self, number: int, backlog: Backlog, until_s: float) -> bool:
        """False if this connection has come to its end by it."""
        clock = self.context.clock
        del self._backlogs[number]  # so that its frames are handled, and not kept
        while backlog:
            kind, payload, size = backlog.take()
            self._backlog_bytes -= size
            try:
                self.on_frame(kind, number, payload)
            except AmqpError as error:
                if not self.on_error(number, error):
                    self._decoder.discard()
                    return False
            if self.state != "running":
                return False
            again = self._backlogs.get(number)
            if again is not None:  # another commit: the rest waits for that one
                backlog.is_waiting = again.is_waiting
                self._backlogs[number] = backlog
                return True
            if (
                self._has_unread_output
                or self._holds & (_ALARM | _SHARE)
                or clock.running_s() >= until_s
            ):
                self.close_lanes(number)
                self._backlogs[number] = backlog
                return True
        self._open_lanes(number)
        return True

    @property
    def _has_unread_output(self) -> bool:
        """Whether the client should read some of what it asked for before it gets more."""
        if self.is_full:
            return True
        return any(outbox.is_long for outbox in self.outboxes.values())

    def hold_output(self, ticket: int) -> None:
        """Write nothing before this ticket of the store is durable.

        While there is no room on disk, or for good, that would stop consumers, which are the ones
        who make room: rather is a redelivery not marked as one, should the broker be killed now.
        """
        store = self.vhost.environment.store
        if ticket > max(store.durable_ticket, self._output_ticket) and not store.refusal:
            if not self._output_ticket:
                store.on_refusal_changed.append(self._on_output_durable)
            self._output_ticket = ticket
            store.when_durable(ticket, self._on_output_durable)

    def await_definitions(self) -> None:
        """The client was promised something that is durable when the turn ends, or is lost then."""
        self._has_defined = True
        self.vhost.tell_if_lost(self._on_definitions_lost)

    def _on_definitions_lost(self, error: StoreError) -> None:
        """Nothing of this turn's output was written yet, and some of it is not so."""
        self.output.clear()
        if self.state == "running":
            self.close(error)
        elif self.state == "closing":
            self._send_close(error)

    def _on_output_durable(self) -> None:
        if self._output_ticket and not self._is_marked:
            self._mark()

    def _let_output_go(self) -> None:
        if self._output_ticket:
            self._output_ticket = 0
            self.vhost.environment.store.on_refusal_changed.remove(self._on_output_durable)

    def when_writable(self, callback: Callable[[], None]) -> None:
        """Call once when there is room for output again."""
        self._waiters.append(callback)

    def _mark(self) -> None:
        self._is_marked = True
        self.context.turn.mark_connection(self)

    def finish_turn(self) -> None:
        self._is_marked = False
        if self._confirms:
            confirms, self._confirms = self._confirms, []
            for channel_confirms in confirms:
                if channel_confirms.is_marked:
                    frames = channel_confirms.release()
                    if frames:  # they may all wait for the store
                        self.output_of(channel_confirms.channel_number).append(frames)
        if self._output_ticket:
            store = self.vhost.environment.store
            if self._output_ticket > store.durable_ticket and not store.refusal:
                return
            self._let_output_go()
        if self.outboxes and not self._is_socket_full:
            self._empty_outboxes()
        output, self.output = self.output, []
        self._output_size = 0
        if output:
            self.link.write(b"".join(output))
        if not self._is_socket_full:
            if self.is_full:
                self._resume_output()
            elif self._holds & _OUTPUT:
                self._resume_input()
            if self._backlogs:
                try:
                    self._handle_backlogs()
                except Exception as error:
                    self.on_bug(error)
            if self.outboxes and not self._is_marked:
                self._mark()

    def _empty_outboxes(self) -> None:
        """The next piece of each large content, as long as this turn has room."""
        room = self.output_room
        for number, outbox in list(self.outboxes.items()):
            if room <= 0:
                break
            try:
                room -= outbox.write_piece(self.output)
            except StoreError as error:  # half a content is sent: the client can only be left
                self.close(error)
                return
            del self.outboxes[number]
            if outbox.is_empty:
                for callback in outbox.waiters:
                    callback()
            else:  # the others first, next time
                self.outboxes[number] = outbox

    def on_socket_full(self) -> None:
        """The transport's buffer is above its high-water mark."""
        self._is_socket_full = True
        self.is_full = True

    def on_socket_drained(self) -> None:
        self._is_socket_full = False
        self._resume_output()
        if (self.outboxes or self._backlogs) and not self._is_marked:
            self._mark()

    def _resume_output(self) -> None:
        self.is_full = False
        waiters, self._waiters = self._waiters, []
        for callback in waiters:
            callback()
        if self._holds & _OUTPUT:
            self._resume_input()

    def _resume_input(self) -> None:
        """There is room for what the client asks for, unless too much waits on a channel."""
        for outbox in self.outboxes.values():
            if outbox.is_long:
                return
        if self._backlog_bytes <= BACKLOG_MAX_BYTES:
            self._stop_holding(_OUTPUT)

    # -------------------------------------------------------------------- closing

    def on_error(self, number: int, error: AmqpError) -> bool:
        """The decoder's news of a failed call; False when nothing more is to be read."""
        if error.class_id is None:  # out of a lane, where only publishes raise without ids
            error.class_id = BASIC_PUBLISH >> 16
            error.method_id = BASIC_PUBLISH & 0xFFFF
        channel = self.channels.get(number)
        is_for_channel = error.scope == "channel" and not (
            self.dialect.refuses_consume_by_connection
            and isinstance(error, AccessRefused)
            and (error.class_id, error.method_id) == _CONSUME
        )
        if is_for_channel and channel is not None and self.state == "running":
            self._close_channel(channel, error)
            return True
        return self.close(error)

    def _close_channel(self, channel: Channel, error: AmqpError) -> None:
        self.context.report(
            events.CHANNEL_ERROR,
            peer=self.link.peer,
            channel=channel.number,
            reply_code=error.reply_code,
            reply_text=error.reply_text,
        )
        channel.terminate()
        reply_code = error.reply_code
        if isinstance(error, InvalidSelector) and self.dialect.is_invalid_selector_argument:
            reply_code = INVALID_ARGUMENT
        channel.reply(
            commands.Channel.Close,
            reply_code=reply_code,
            reply_text=error.reply_text,
            class_id=error.class_id or 0,
            method_id=error.method_id or 0,
        )

    def close(self, error: AmqpError) -> bool:
        """Send connection.close for ``error`` and wait for close-ok; False when out of step.

        A peer that may not speak AMQP at all is not sent anything (RabbitMQ, up to tune-ok).
        """
        if self.state in ("closing", "closed"):
            return self.state == "closing"
        self.tell_end(
            events.CONNECTION_ERROR,
            peer=self.link.peer,
            reply_code=error.reply_code,
            reply_text=error.reply_text,
        )
        if self._is_close_due:  # the client has closed: nothing but close-ok is left to say
            self._on_close()
            return False
        self._release_everything()
        if self.state == "header" or (
            self.state == "handshake"
            and isinstance(error, UnknownFrameType)
            and not self._handshake.is_tuned
        ):
            self._close_now()
            return False
        self.state = "closing"
        self.is_blocked = False
        if self._holds:  # close-ok is behind what was read and is ignored now
            self.wait_for_turn()
            self._holds = _SHARE
        self._send_close(error)
        self._set_deadline(CLOSE_OK_TIMEOUT_S, self._on_close_timeout)
        return not isinstance(error, InternalError)

    def _send_close(self, error: AmqpError) -> None:
        self.send(
            0,
            commands.Connection.Close,
            reply_code=error.reply_code,
            reply_text=error.reply_text,
            class_id=error.class_id or 0,
            method_id=error.method_id or 0,
        )

    def force_close(self, explanation: str) -> None:
        """connection.close 320, for an operator or a shutdown; drops what never got that far."""
        if self.state in ("running", "closing"):
            self.close(ConnectionForced(explanation, class_id=0, method_id=0))
        else:
            self.tell_end(events.CONNECTION_CLOSED, peer=self.link.peer)
            self.link.abort()

    def _on_close_timeout(self) -> None:
        if self.state == "closing":
            self.link.abort()

    def _close_now(self) -> None:
        """Everything is said: write it and close the socket."""
        self.state = "closed"
        self._decoder.discard()
        self._let_output_go()  # the client is past looking at deliveries
        if self._has_defined:
            self.context.commit_definitions()
        self.finish_turn()
        self.link.close()

    def tell_end(self, event: events.Event, **fields: object) -> None:
        """Report why this connection ends, once: what follows from that is no news."""
        if not self._is_end_told:
            self._is_end_told = True
            self.context.report(event, **fields)

    def _tell_loss(self, reason: str) -> None:
        peer = self.link.peer
        if self.state == "header":
            self.tell_end(events.CONNECTION_UNUSED, peer=peer)
        elif self.state == "handshake":
            reason = f"during the handshake: {reason or 'the client closed the socket'}"
            self.tell_end(events.CONNECTION_LOST, peer=peer, reason=reason)
        elif self.state == "running":
            reason = reason or "the client closed the socket without connection.close"
            self.tell_end(events.CONNECTION_LOST, peer=peer, reason=reason)
        else:
            self.tell_end(events.CONNECTION_CLOSED, peer=peer)

    def on_link_lost(self, reason: str) -> None:
        """The socket is gone; called exactly once. ``reason`` is empty for an orderly end."""
        self._tell_loss(reason)
        self._release_everything()
        self.state = "closed"
        self._clear_deadline()
        if self._heartbeat_timer is not None:
            self._heartbeat_timer.cancel()
            self._heartbeat_timer = None
        self._decoder.discard()
        self.context.forget(self)
        if self._was_opened:
            self._note_product()
        self._holds = 0
        self._let_output_go()
        self.output.clear()
        # they refer to us; without them this object is freed now, and not by the garbage collector
        del self._decoder, self._handshake, self.flow

    def _release_everything(self) -> None:
        """End all channels and delete the exclusive queues."""
        self.flow.close()
        channels = list(self.channels.values())
        self.channels.clear()
        for channel in channels:
            channel.terminate()
            channel.detach()
        self._waiters.clear()
        self.outboxes.clear()
        self._backlogs.clear()
        self._backlog_bytes = 0
        self._is_close_due = False
        if self.state == "running":
            self.vhost.delete_queues_of(self)

    def __repr__(self) -> str:
        return f"<Connection {self.link.peer}, {self.state}>"


def protocol_of(header: bytes) -> str:
    """What a peer that does not speak AMQP 0-9-1 seems to speak, for the log."""
    if header[:2] == b"\x16\x03":
        return "TLS"
    if header[:4] in (b"GET ", b"POST", b"HEAD", b"PUT "):
        return "HTTP"
    if header[:4] == b"AMQP" and len(header) >= 8:
        return f"AMQP version {header[4]}-{header[5]}-{header[6]}-{header[7]}"
    return repr(header[:8])
