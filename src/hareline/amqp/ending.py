"""Why a connection ends, for the log: reported once, however many errors follow from it.

Called by ``amqp.connection``, ``amqp.handshake`` and ``amqp.heartbeat``. Invariant: one connection,
one such message.
"""

from __future__ import annotations

from hareline import events
from hareline.amqp.ports import Transport
from hareline.amqp.product import ProductNames, is_probe
from hareline.events import Report


class Ending:
    """``is_reported``: the log says already why this connection ends."""

    __slots__ = ("_report", "_transport", "is_reported")

    def __init__(self, report: Report, transport: Transport) -> None:
        self._report = report
        self._transport = transport
        self.is_reported = False

    def report(self, event: events.Event, **fields: object) -> None:
        """Report why this connection ends, unless something before it was the reason."""
        if not self.is_reported:
            self.is_reported = True
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
