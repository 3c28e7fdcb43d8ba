"""A connection's output: what gathers in a turn, what has to wait, and when it is written.

Frames gather in ``frames`` during a turn and are written at once by ``write_turn``. Replies,
returns and confirms are always taken; deliveries stop when the socket or the turn is full
(``is_full``), until ``when_writable`` calls their consumers back. Channels on which a large content
goes out write to an outbox of their own meanwhile (``amqp.large_delivery``). Deliveries that the
store must know of first hold back the whole output until it does (``hold``), as declarations do
until they are durable (``definitions_awaited``).

Called by channels and their parts, and by ``amqp.connection`` at the end of a turn. Invariant:
frames of one channel leave in the order in which they were written.                       [hot]
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from hareline.amqp import input_gate
from hareline.amqp.input_gate import InputGate
from hareline.amqp.large_delivery import Outbox
from hareline.amqp.ports import LateFrames, Transport
from hareline.message import Message
from hareline.storage.interface import MessageStore
from hareline.turn import Draining, Turn
from hareline.wire.constants import FRAME_MAX_BEFORE_TUNE
from hareline.wire.methods import Frame, encode_method

OUTPUT_TURN_MAX_BYTES: Final = 1_048_576  # a connection's deliveries in one turn, about 1 ms


class Output:
    """``frames``: of this turn. ``outboxes``: by channel number; hardly ever any.

    ``definitions_awaited``: transactions of definitions that must settle before more is written.

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
        """RabbitMQ's name of the connection."""
        return self._transport.connection_name

    # --------------------------------------------------------------- frames in

    def write(self, *parts: bytes) -> None:
        """Frames that are not subject to credit."""
        self.frames += parts
        if not self.is_marked:
            self.mark()

    def send(self, number: int, method_class: type[Frame], **fields: object) -> None:
        """A method on this channel."""
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

    def frames_of(self, number: int) -> list[bytes]:
        """Where frames of this channel belong that are subject to credit."""
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
        """Whether too much waits behind a large content that the client does not read."""
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
        """Whatever is durable, write at the end of the next turn."""
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
        """The socket is gone."""
        self.stop_holding()
        self.frames.clear()
        self._late.clear()
        self._connection = None
