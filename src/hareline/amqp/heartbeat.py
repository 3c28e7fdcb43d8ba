"""How often to send a heartbeat, and when to give the peer up; a clockwork without a clock.

``amqp.connection`` calls ``tick`` every half interval, by a timer of its link, and sends a
heartbeat each time while the peer is alive, also where other octets were sent meanwhile: left out
after those, the next one could come a whole interval after them, and RabbitMQ's Java client over
Netty drops a connection on which nothing came for one interval.

Any octets count as a sign of life. A peer silent for more than two whole intervals is dead (AMQP
0-9-1 section 4.2.7: after two missed heartbeats; half-interval ticks make the real delay between 2
and 2.5 intervals).
"""

from __future__ import annotations

from typing import Final

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

        ``is_reading`` False: the broker does not listen to the peer, so its silence means nothing.
        """
        if self.has_received or not is_reading:
            self._silent_ticks = 0
        else:
            self._silent_ticks += 1
        self.has_received = False
        return self._silent_ticks <= _SILENT_TICKS_MAX
