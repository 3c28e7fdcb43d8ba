"""Output of a connection: frames gather in a turn, or wait, and are written at its end.

Replies, returns and confirms are always taken; deliveries stop when the socket or the turn is full,
until ``when_writable`` calls their consumers back. A large message, whose body is in a file, goes
out in pieces. Frames of one channel leave in the order in which they were written.          [hot]
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Final

from hareline.amqp import input_gate
from hareline.amqp.input_gate import InputGate
from hareline.amqp.ports import LateFrames, Transport
from hareline.errors import AmqpError
from hareline.message import BodyReader, Message
from hareline.storage.interface import MessageStore
from hareline.turn import Draining, Turn
from hareline.wire.constants import FRAME_MAX_BEFORE_TUNE, FRAME_OVERHEAD
from hareline.wire.encoder import body_frames, header_parts
from hareline.wire.methods import Frame, commands, encode_method

#: Of one content at a time: enough that a turn's fixed cost (some 30 us) counts for nothing, and
#: little enough that a thousand slow clients are a few hundred megabytes in their sockets' buffers.
PIECE_BYTES: Final = 262_144

#: With more of this in an outbox its connection is not listened to, so that a client which asks and
#: never reads costs no more than this, and the disk space of so many messages.
WAITING_MAX_CONTENTS: Final = 16
WAITING_MAX_BYTES: Final = 1_048_576
OUTPUT_TURN_MAX_BYTES: Final = 1_048_576  # a connection's deliveries in one turn, about 1 ms


class _Content:
    """A method frame and the content that belongs to it. ``is_begun``: the client has seen it."""

    __slots__ = ("_body", "_head", "_left_bytes", "_payload_max", "_reader", "is_begun")

    def __init__(
        self, head: tuple[bytes, ...], message: Message, number: int, frame_max: int
    ) -> None:
        assert message.large is not None, message
        self._head = (*head, *header_parts(message, number))
        self._body = message.large
        self._payload_max = min(frame_max - FRAME_OVERHEAD, PIECE_BYTES)
        self._left_bytes = message.size
        self._reader: BodyReader | None = None
        self.is_begun = False

    @property
    def is_done(self) -> bool:
        return self._left_bytes == 0

    def write_piece(self, number: int, output: list[bytes]) -> int:
        """Add the next piece of the body to ``output``; returns its octets. Raises StoreError."""
        if self._reader is None:
            self._reader = self._body.open()
        payload_max = self._payload_max
        octets = self._reader.read(PIECE_BYTES // payload_max * payload_max)
        if not self.is_begun:
            self.is_begun = True
            output += self._head
        output += body_frames(octets, number, payload_max)
        self._left_bytes -= len(octets)
        return len(octets)


class Outbox:
    """Frames that one channel writes while a large content goes out, in pieces.

    They may not be mixed with those of the content (AMQP 0-9-1, 2.3.5.2), so they wait behind it,
    in order; other channels go on, and consumers of this one count as full. No more than one piece
    of a content is in memory, apart from octets that the socket has not taken yet.

    ``tail`` takes frames behind the content.

    ``waiters`` are called once, when the channel is free again.
    """

    __slots__ = (
        "_contents",
        "_frame_max",
        "_items",
        "_number",
        "_waiting_bytes",
        "tail",
        "waiters",
    )

    def __init__(self, number: int, frame_max: int) -> None:
        self._number = number
        self._frame_max = frame_max
        self._items: deque[_Content | list[bytes]] = deque()  # a content, frames, a content ...
        self._contents = 0
        self._waiting_bytes = 0  # of the frames that ``add`` brought, or less
        self.tail: list[bytes] = []
        self.waiters: list[Callable[[], None]] = []

    def begin(self, head: tuple[bytes, ...], message: Message) -> list[bytes]:
        """A method frame and a large content; returns the new ``tail``."""
        self._items.append(_Content(head, message, self._number, self._frame_max))
        self._contents += 1
        self.tail = []
        self._items.append(self.tail)
        return self.tail

    def add(self, parts: tuple[bytes, ...]) -> None:
        self.tail += parts
        self._waiting_bytes += sum(map(len, parts))

    @property
    def is_long(self) -> bool:
        """True if the client should have no say until it has read some of this."""
        return self._contents > WAITING_MAX_CONTENTS or self._waiting_bytes > WAITING_MAX_BYTES

    @property
    def is_empty(self) -> bool:
        return not self._items

    def write_piece(self, output: list[bytes]) -> int:
        """Move what comes next to ``output``: a piece of a content, and what follows its end.

        Returns the octets of the piece. Raises StoreError if the body cannot be read; the content
        then stays as it is, and the channel with it.
        """
        items = self._items
        size = 0
        if items and isinstance(items[0], _Content):
            size = items[0].write_piece(self._number, output)
            if not items[0].is_done:
                return size
            items.popleft()
            self._contents -= 1
        while items:
            frames = items[0]
            if isinstance(frames, _Content):
                break
            output += frames
            self._waiting_bytes = max(0, self._waiting_bytes - sum(map(len, frames)))
            items.popleft()
        return size

    def drop_contents(self) -> None:
        """The channel ends: contents that the client has seen nothing of are not sent."""
        frames = [item for item in self._items if isinstance(item, list) or item.is_begun]
        self._items = deque(frames)
        self._contents = len([item for item in frames if isinstance(item, _Content)])


class Output:
    """``frames``: of this turn. ``outboxes``: by channel number; hardly ever any.

    ``definitions_awaited``: transactions of definitions that must settle before more is written;
    ``hold``: deliveries that the store must know of hold the whole output back until it does.

    ``is_full``: no more deliveries now, because of the socket (``is_socket_full``) or because this
    turn's output has reached its limit. ``room``: octets of deliveries that this turn may still
    write. ``is_marked``: ``write_turn`` comes at the end of the turn.
    """

    __slots__ = (
        "_connection",
        "_gate",
        "_late",
        "_store",
        "_ticket",
        "_transport",
        "_turn",
        "_waiters",
        "definitions_awaited",
        "frame_max",
        "frames",
        "is_full",
        "is_marked",
        "is_socket_full",
        "outboxes",
        "room",
    )

    def __init__(
        self, transport: Transport, turn: Turn, gate: InputGate, connection: Draining
    ) -> None:
        self._transport = transport
        self._turn = turn
        self._gate = gate
        self._connection: Draining | None = connection  # until ``close``
        self._store: MessageStore | None = None
        self.frame_max = FRAME_MAX_BEFORE_TUNE
        self.definitions_awaited = 0
        self.frames: list[bytes] = []
        self.outboxes: dict[int, Outbox] = {}
        self.is_full = False
        self.is_socket_full = False
        self.is_marked = False
        self.room = OUTPUT_TURN_MAX_BYTES
        self._ticket = 0  # nothing is written before it is durable
        self._waiters: list[Callable[[], None]] = []
        self._late: list[LateFrames] = []

    def set_store(self, store: MessageStore) -> None:
        """The virtual host is open; ``hold`` takes tickets of its store."""
        self._store = store

    @property
    def connection_name(self) -> str:
        return self._transport.connection_name

    # --------------------------------------------------------------- frames in

    def write(self, *parts: bytes) -> None:
        """Frames that are not subject to credit."""
        self.frames += parts
        if not self.is_marked:
            self.mark()

    def send(self, number: int, method_class: type[Frame], **fields: object) -> None:
        self.write_on(number, encode_method(number, method_class, **fields))

    def send_close(self, number: int, error: AmqpError, reply_code: int) -> None:
        """channel.close for ``error``, or connection.close on channel 0."""
        self.send(
            number,
            commands.Channel.Close if number else commands.Connection.Close,
            reply_code=reply_code,
            reply_text=error.reply_text,
            class_id=error.class_id or 0,
            method_id=error.method_id or 0,
        )

    def write_on(self, number: int, *parts: bytes) -> None:
        """Frames of a channel, behind the large content that may be going out on it."""
        outbox = self.outboxes.get(number)
        if outbox is None:
            self.write(*parts)
            return
        outbox.add(parts)
        if outbox.is_long:
            self.hold_input()

    def frames_of(self, number: int) -> list[bytes]:
        """List for frames of this channel that are subject to credit."""
        outbox = self.outboxes.get(number)
        return self.frames if outbox is None else outbox.tail

    def begin_large(self, number: int, head: tuple[bytes, ...], message: Message) -> list[bytes]:
        """A method frame and the large content it carries; returns the new ``frames_of``."""
        outbox = self.outboxes.get(number)
        if outbox is None:
            outbox = self.outboxes[number] = Outbox(number, self.frame_max)
        if not self.is_marked:
            self.mark()
        return outbox.begin(head, message)

    def add_late(self, late: LateFrames) -> None:
        """``late`` has frames to release at the end of this turn."""
        self._late.append(late)
        if not self.is_marked:
            self.mark()

    def hold_input(self) -> None:
        """Handle no more of what the client asks for until it has read what it asked for."""
        self._gate.hold(input_gate.OUTPUT)

    # -------------------------------------------------------------- deliveries

    def count_deliveries(self, size: int) -> None:
        """``size`` octets of deliveries were added to ``frames``."""
        self.room -= size
        if self.room < 0:
            self.is_full = True
        if not self.is_marked:
            self.mark()

    def end_share(self) -> None:
        """Take no more deliveries in this turn, whatever their octets."""
        self.is_full = True
        if not self.is_marked:
            self.mark()

    def when_writable(self, callback: Callable[[], None]) -> None:
        """Call once when there is room for deliveries again."""
        self._waiters.append(callback)

    def resume(self) -> None:
        """There is room again: call those that wait for it."""
        self.is_full = False
        waiters, self._waiters = self._waiters, []
        for callback in waiters:
            callback()

    @property
    def has_long_outbox(self) -> bool:
        """True if too much waits behind a large content that the client does not read."""
        return any(outbox.is_long for outbox in self.outboxes.values())

    # ----------------------------------------------------- held until durable

    def hold(self, ticket: int) -> None:
        """Write nothing before this ticket of the store is durable.

        Not while the disk has no room, or has failed: that would stop the consumers, which make the
        room. A redelivery is then not marked as one if the broker is killed now.
        """
        store = self._store
        assert store is not None
        if ticket > max(store.durable_ticket, self._ticket) and not store.refusal:
            if not self._ticket:
                store.on_refusal_changed.append(self._on_durable)
            self._ticket = ticket
            store.when_durable(ticket, self._on_durable)

    def _on_durable(self) -> None:
        if self._ticket and not self.is_marked:
            self.mark()

    def stop_holding(self) -> None:
        """Write at the end of the next turn, whatever is durable."""
        if self._ticket:
            assert self._store is not None
            self._ticket = 0
            self._store.on_refusal_changed.remove(self._on_durable)

    # --------------------------------------------------------- the turn's end

    def mark(self) -> None:
        """Have the connection's ``finish_turn`` called at the end of this turn."""
        if self._connection is not None:
            self.is_marked = True
            self._turn.mark_connection(self._connection)

    def write_turn(self) -> bool:
        """Write what this turn has gathered; False while it is held until something is durable.

        Raises StoreError if the body of a large content cannot be read; nothing is written then.
        """
        self.is_marked = False
        if self._late:
            self._add_late_frames()
        if self.definitions_awaited:
            return False
        if self._ticket:
            store = self._store
            assert store is not None
            if self._ticket > store.durable_ticket and not store.refusal:
                return False
            self.stop_holding()
        if self.outboxes and not self.is_socket_full:
            self._take_pieces()
        frames, self.frames = self.frames, []
        self.room = OUTPUT_TURN_MAX_BYTES
        if frames:
            self._transport.write(b"".join(frames))
        return True

    def _add_late_frames(self) -> None:
        late, self._late = self._late, []
        for each in late:
            if each.is_marked:
                frames = each.release()
                if frames:  # they may all wait for the store
                    self.frames_of(each.channel_number).append(frames)

    def _take_pieces(self) -> None:
        """Add the next piece of each large content, as long as this turn has room."""
        room = self.room
        for number, outbox in list(self.outboxes.items()):
            if room <= 0:
                break
            room -= outbox.write_piece(self.frames)
            del self.outboxes[number]
            if outbox.is_empty:
                for callback in outbox.waiters:
                    callback()
            else:  # the others first, next time
                self.outboxes[number] = outbox

    # ----------------------------------------------------------------- the end

    def drop_waiting(self) -> None:
        """Forget what is not written and who waits: all channels have ended."""
        self._waiters.clear()
        self.outboxes.clear()

    def close(self) -> None:
        self.stop_holding()
        self.frames.clear()
        self._late.clear()
        self._connection = None
