"""Reasons for the end of a connection: one log message each, and heartbeats that are missed."""

from __future__ import annotations

from typing import Final

from hareline import events
from hareline.amqp.ports import Transport
from hareline.amqp.product import ProductNames, is_probe
from hareline.errors import UnexpectedFrame
from hareline.events import Report
from hareline.wire.constants import FRAME_HEARTBEAT, HEARTBEAT_FRAME
from hareline.wire.decoder import frame_error, frame_text

_SILENT_TICKS_MAX: Final = 4  # half intervals


class Ending:
    """Reports why one connection ends, once, however many errors follow from it."""

    __slots__ = ("_is_reported", "_report", "_transport")

    def __init__(self, report: Report, transport: Transport) -> None:
        self._report = report
        self._transport = transport
        self._is_reported = False

    def report(self, event: events.Event, **fields: object) -> None:
        """Report why this connection ends, unless something before it was the reason."""
        if not self._is_reported:
            self._is_reported = True
            self._report(event, peer=self._transport.peer, **fields)

    def report_header(self, header: bytes, products: ProductNames) -> None:
        """Report a protocol header that is not that of AMQP 0-9-1."""
        protocol = protocol_of(header)
        if is_probe(header):
            products.on_probe(self._transport.host)
            self.report(events.PEER_REDIRECTED, protocol=protocol)
        else:
            self.report(events.PEER_SPEAKS_OTHERWISE, protocol=protocol)

    def report_loss(self, state: str, reason: str, *, has_begun: bool) -> None:
        """Report that the socket is gone, in this state of the connection; no reason: empty.

        ``has_begun``: the client has sent start-ok. One that leaves in order before has only asked
        who the broker is, as the Spark source does.
        """
        if state == "header" or not (has_begun or reason):
            self.report(events.CONNECTION_UNUSED)
        elif state == "handshake":
            reason = f"during the handshake: {reason or 'the client closed the socket'}"
            self.report(events.CONNECTION_LOST, reason=reason)
        elif state == "running":
            reason = reason or "the client closed the socket without connection.close"
            self.report(events.CONNECTION_LOST, reason=reason)
        else:
            self.report(events.CONNECTION_CLOSED)


def protocol_of(header: bytes) -> str:
    """The protocol that a peer seems to speak whose header is not that of AMQP 0-9-1."""
    if header[:2] == b"\x16\x03":
        return "TLS"
    if header[:4] in (b"GET ", b"POST", b"HEAD", b"PUT "):
        return "HTTP"
    if header[:4] == b"AMQP" and len(header) >= 8:
        return f"AMQP version {header[4]}-{header[5]}-{header[6]}-{header[7]}"
    return repr(header[:8])


class Heartbeat:
    """Sends a heartbeat each half interval, and drops the socket of a peer that is dead.

    A heartbeat is sent also where other octets were sent meanwhile: left out after those, the next
    one could come a whole interval after them, and RabbitMQ's Java client over Netty drops a
    connection on which nothing came for one interval. Any octets count as a sign of life; a peer
    silent for more than two whole intervals is dead (AMQP 0-9-1 section 4.2.7). A peer whose socket
    is not read cannot be late.

    ``interval_s`` is the negotiated one, above 0. ``has_received``: since the last tick.
    """

    __slots__ = ("_ending", "_silent_ticks", "_timer", "_transport", "has_received", "interval_s")

    def __init__(self, interval_s: int, transport: Transport, ending: Ending) -> None:
        self.interval_s = interval_s
        self.has_received = False
        self._silent_ticks = 0
        self._transport = transport
        self._ending = ending
        self._timer = transport.call_later(interval_s / 2, self._on_tick)

    def _on_tick(self) -> None:
        is_silent = self._transport.is_reading and not self.has_received
        self._silent_ticks = self._silent_ticks + 1 if is_silent else 0
        self.has_received = False
        if self._silent_ticks <= _SILENT_TICKS_MAX:
            self._transport.write(HEARTBEAT_FRAME)
            self._timer = self._transport.call_later(self.interval_s / 2, self._on_tick)
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
