"""How often to send a heartbeat, and when to give the peer up.

``HeartbeatMonitor`` counts half intervals and has no clock; ``Heartbeat`` adds a timer of the
transport, and sends a heartbeat each time while the peer is alive, also where other octets were
sent meanwhile: left out after those, the next one could come a whole interval after them, and
RabbitMQ's Java client over Netty drops a connection on which nothing came for one interval.

Any octets count as a sign of life. A peer silent for more than two whole intervals is dead (AMQP
0-9-1 section 4.2.7: after two missed heartbeats; half-interval ticks make the real delay between 2
and 2.5 intervals).
"""

from __future__ import annotations

from typing import Final

from hareline import events
from hareline.amqp.ending import Ending
from hareline.amqp.ports import Transport
from hareline.errors import UnexpectedFrame
from hareline.wire.constants import FRAME_HEARTBEAT, HEARTBEAT_FRAME
from hareline.wire.decoder import frame_error, frame_text

_SILENT_TICKS_MAX: Final = 4  # half intervals


class HeartbeatMonitor:
    """``interval_s`` is the negotiated one, above 0.

    ``has_received``: the peer has sent something since the last tick.
    """

    __slots__ = ("_silent_ticks", "has_received", "interval_s")

    def __init__(self, interval_s: int) -> None:
        self.interval_s = interval_s
        self.has_received = False
        self._silent_ticks = 0

    @property
    def tick_s(self) -> float:
        return self.interval_s / 2

    def tick(self, is_reading: bool) -> bool:
        """Count half an interval; False when the peer is dead.

        ``is_reading`` False: the socket is not read, so the peer's silence means nothing.
        """
        if self.has_received or not is_reading:
            self._silent_ticks = 0
        else:
            self._silent_ticks += 1
        self.has_received = False
        return self._silent_ticks <= _SILENT_TICKS_MAX


class Heartbeat(HeartbeatMonitor):
    """The monitor of one connection, with its timer: drops the socket of a peer that is dead."""

    __slots__ = ("_ending", "_timer", "_transport")

    def __init__(self, interval_s: int, transport: Transport, ending: Ending) -> None:
        super().__init__(interval_s)
        self._transport = transport
        self._ending = ending
        self._timer = transport.call_later(self.tick_s, self._on_tick)

    def _on_tick(self) -> None:
        if self.tick(is_reading=self._transport.is_reading):
            self._transport.write(HEARTBEAT_FRAME)
            self._timer = self._transport.call_later(self.tick_s, self._on_tick)
        else:
            self._ending.report(events.HEARTBEAT_MISSED, interval_s=self.interval_s)
            self._transport.abort()

    def stop(self) -> None:
        """No more ticks."""
        self._timer.cancel()


def check_heartbeat_frame(number: int, payload: bytes) -> None:
    """Raise FrameError for a heartbeat with a payload, UnexpectedFrame for one on a channel."""
    if payload:
        raise frame_error(FRAME_HEARTBEAT, payload, "unknown_frame")
    if number != 0:
        raise UnexpectedFrame(frame_text(FRAME_HEARTBEAT, payload), class_id=0, method_id=0)
