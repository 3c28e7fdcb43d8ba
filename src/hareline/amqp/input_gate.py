"""Reasons not to read or handle a connection's input, all in one place.

===============  ========================================  =====================================
reason           set by                                    ended by
===============  ========================================  =====================================
OUTPUT           a basic.get above this turn's output, or  ``Connection.finish_turn`` and
                 a long outbox: the client does not read   ``on_socket_drained``, when there is
                 what it asked for                         room and no outbox is long
SHARE            ``count_work`` when the connection's      ``Connection.go_on``, called by the
                 share of the turn is used up, and after   turn when those that waited longer
                 an alarm                                  had their share
ALARM            ``amqp.flow_control``, at a publish       ``amqp.flow_control``, when no
                 while a resource alarm is on              resource is short; then SHARE
BACKLOG          ``amqp.backlog``, when too much waits     as OUTPUT, when the backlogs have
                 behind a commit                           shrunk
QUEUE            ``amqp.flow_control``, at a publish to a  ``amqp.flow_control``, when there is
                 full queue with overflow flow-control     room in all such queues
LOGIN            ``amqp.handshake``, while the backends    ``amqp.handshake``, when they have;
                 decide who may log in                     then SHARE
RATE             ``amqp.flow_control``, at a publish or a  ``amqp.flow_control``, when the user's
                 read above the rate of its user           bucket is level again; then SHARE
-- in ``net``, beside this gate --
store or queues  ``net.listener`` (``Pacing``): the turn   ``Pacing``, one connection after the
behind           or its store is behind, and this          other, when the turn has finished
                 connection publishes
socket           ``net.shell``: replies without credit     ``net.shell``, when the socket has
                 fill the socket far above its high-water  drained
                 mark
===============  ========================================  =====================================

All reasons stop reading the socket. All of the gate but QUEUE also stop the decoder, which keeps
what was read. While an alarm is on, no channel has a publish lane, so that the first publish is
noticed, and none has one while its user may only publish at a rate: each publish is counted.

The socket is read again when the last reason has ended.                        [hot: take_share]
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from hareline.amqp.alarms import Alarms
from hareline.amqp.ports import Transport
from hareline.turn import (
    WORK_PER_S,
    WORK_PER_SHARE,
    WORK_PER_TURN,
    WORK_WHEN_FULL,
    Receiving,
    Turn,
)
from hareline.wire.decoder import Decoder, PublishLane, SettleLane

OUTPUT: Final = 1
SHARE: Final = 2
ALARM: Final = 4
BACKLOG: Final = 8
QUEUE: Final = 16
LOGIN: Final = 32
RATE: Final = 64
#: What a connection brings in one read if it only asks something now and then.
LITTLE_BYTES: Final = 1_024
_STOPS_DECODER: Final = OUTPUT | SHARE | ALARM | BACKLOG | LOGIN | RATE


class InputGate:
    """``reasons`` is the set of reasons that hold now, as bits.

    ``share_end``: of the turn's work, where this connection's share of it ends. ``on_octets`` is
    called with how many were read, where the user may only publish at a rate.
    ``awaits_definitions``: publishes wait for what was declared before them.
    """

    __slots__ = (
        "_alarms",
        "_connection",
        "_decoder",
        "_transport",
        "_turn",
        "awaits_definitions",
        "on_octets",
        "reasons",
        "share_end",
    )

    def __init__(
        self,
        decoder: Decoder,
        transport: Transport,
        turn: Turn,
        alarms: Alarms,
        connection: Receiving,
    ) -> None:
        self._decoder = decoder
        self._transport = transport
        self._turn = turn
        self._alarms = alarms
        self._connection: Receiving | None = connection  # until ``close``
        self.awaits_definitions = False
        self.reasons = 0
        self.on_octets: Callable[[int], None] | None = None
        self.share_end = WORK_PER_SHARE

    # ---------------------------------------------------------- shares of a turn

    def take_share(self, data: bytes) -> None:
        """Handle what was held back and ``data`` after it, up to a share of the turn."""
        turn = self._turn
        start_work, start_s = turn.work, turn.now()
        if data:
            share = WORK_PER_SHARE if start_work <= WORK_PER_TURN else WORK_WHEN_FULL
            self.share_end = start_work + share
            self._decoder.feed(data)
            if self.on_octets is not None:
                self.on_octets(len(data))
        else:
            self.share_end = start_work + turn.line_share
            self._decoder.resume()
        turn.work = max(turn.work, start_work + int((turn.now() - start_s) * WORK_PER_S))

    @property
    def is_turn_full(self) -> bool:
        """True if this turn has done all the work that it should."""
        return self._turn.work > WORK_PER_TURN

    def begin_share(self) -> None:
        self.share_end = self._turn.work + WORK_PER_SHARE

    def count_work(self, entries: int, start_s: float) -> None:
        """Count work of this turn; the rest of what was read may have to wait for the next.

        ``entries``: how many were added to queues. ``start_s``: when that began, by the turn's
        clock.
        """
        turn = self._turn
        turn.work += max(entries, int((turn.now() - start_s) * WORK_PER_S))
        if turn.work > self.share_end:
            self.wait_for_turn()

    def wait_for_turn(self) -> None:
        """Handle no more before all connections that wait already had their share of a turn."""
        if not self.reasons & SHARE and self._connection is not None:
            self.hold(SHARE)
            self._turn.wait_in_line(self._connection)

    # ------------------------------------------------------------------- reasons

    def hold(self, reason: int) -> None:
        """Read no more; but for QUEUE, handle no more of what was read either."""
        self.reasons |= reason
        if reason & _STOPS_DECODER:
            self._decoder.hold()
        self._transport.pause_reading()

    def end(self, reasons: int) -> bool:
        """Drop these reasons; True if what was read may be handled now."""
        self.reasons &= ~reasons
        if not self.reasons:
            self._transport.resume_reading()
        return not self.reasons & _STOPS_DECODER

    def wait_for_close_ok(self) -> None:
        """Keep no reason but SHARE: close-ok stands behind what was read, which is ignored now."""
        if self.reasons:
            self.wait_for_turn()
            self.reasons = SHARE

    # --------------------------------------------------------------------- lanes

    def open_publish_lane(self, number: int, lane: PublishLane) -> None:
        """Let publishes of this channel take the decoder's short cut, unless each is looked at."""
        is_looked_at = self._alarms.is_on or self.on_octets is not None
        if not is_looked_at and not self.awaits_definitions:
            self._decoder.publish_lanes[number] = lane

    def open_settle_lane(self, number: int, lane: SettleLane) -> None:
        """Let acknowledgements of this channel take the decoder's short cut."""
        self._decoder.settle_lanes[number] = lane

    def close_publish_lane(self, number: int) -> None:
        """Send publishes of this channel to ``on_frame``."""
        self._decoder.publish_lanes.pop(number, None)

    def close_lanes(self, number: int) -> None:
        """Send all frames of this channel to ``on_frame``."""
        self._decoder.publish_lanes.pop(number, None)
        self._decoder.settle_lanes.pop(number, None)

    def close_all_publish_lanes(self) -> None:
        self._decoder.publish_lanes.clear()

    def close(self) -> None:
        """The socket is gone: nothing waits in line any more."""
        self.reasons = 0
        self.on_octets = None
        self._connection = None
