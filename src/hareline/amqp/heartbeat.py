"""How often to send a heartbeat, and when to give the peer up.

``HeartbeatMonitor`` counts half intervals and has no clock; ``Heartbeat`` calls it by a timer of
the transport, and sends a heartbeat each time while the peer is alive, also where other octets were
sent meanwhile: left out after those, the next one could come a whole interval after them, and
RabbitMQ's Java client over Netty drops a connection on which nothing came for one interval.

Any octets count as a sign of life. A peer silent for more than two whole intervals is dead (AMQP
0-9-1 section 4.2.7: after two missed heartbeats; half-interval ticks make the real delay between 2
and 2.5 intervals).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from hareline.amqp.ports import Transport
from hareline.errors import UnexpectedFrame
from hareline.wire.constants import FRAME_HEARTBEAT, HEARTBEAT_FRAME
from hareline.wire.decoder import frame_error, frame_text

_SILENT_TICKS_MAX: Final = 4  # half intervals


class HeartbeatMonitor:
    """``interval_s`` is the negotiated one, above 0."""

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


class Heartbeat:
    """The monitor of one connection with its timer; ``on_dead`` is called when the peer is dead."""

    __slots__ = ("_monitor", "_on_dead", "_timer", "_transport")

    def __init__(
        self, interval_s: int, transport: Transport, on_dead: Callable[[int], None]
    ) -> None:
        self._monitor = HeartbeatMonitor(interval_s)
        self._transport = transport
        self._on_dead: Callable[[int], None] | None = on_dead  # until ``stop``
        self._timer = transport.call_later(self._monitor.tick_s, self._on_tick)

    def note_octets(self) -> None:
        """The peer has sent something."""
        self._monitor.has_received = True

    def _on_tick(self) -> None:
        on_dead = self._on_dead
        if on_dead is None:
            return
        if not self._monitor.tick(is_reading=self._transport.is_reading):
            on_dead(self._monitor.interval_s)
            return
        self._transport.write(HEARTBEAT_FRAME)
        self._timer = self._transport.call_later(self._monitor.tick_s, self._on_tick)

    def stop(self) -> None:
        """No more ticks."""
        self._on_dead = None
        self._timer.cancel()


def check_heartbeat_frame(number: int, payload: bytes) -> None:
    """Raise FrameError for a heartbeat with a payload, UnexpectedFrame for one on a channel."""
    if payload:
        raise frame_error(FRAME_HEARTBEAT, payload, "unknown_frame")
    if number != 0:
        raise UnexpectedFrame(frame_text(FRAME_HEARTBEAT, payload), class_id=0, method_id=0)
