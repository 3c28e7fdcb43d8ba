"""The asyncio side of one connection: a Protocol that feeds ``amqp.Connection`` and drains it.

Back-pressure ends here. Out: the connection hears of the transport's high-water mark, and its
consumers stop. In: reading pauses for an alarm, for a dispatch or store that is behind, and while
the client does not read. From ``connection_lost`` on nothing is written or referred to.
"""

from __future__ import annotations

import asyncio
import socket
import sys
from collections.abc import Callable
from typing import Final, cast

from hareline.amqp.connection import Connection
from hareline.amqp.context import Context
from hareline.amqp.ports import SocketFacts, TlsSession, Transport
from hareline.auth.peer import Peer, is_loopback
from hareline.net.accepting import Accepting
from hareline.net.addresses import UNKNOWN_ADDRESS, Relayed, SocketAddress, address_text
from hareline.net.pacing import Paced, Pacing
from hareline.net.tls.stream import SESSION

# Replies, returns and confirms are not subject to credit. A client that asks for more of them than
# this without reading any is not read from until it does.
UNREAD_OUTPUT_MAX: Final = 16
# How long a client may take to close its end after the last frame.
LINGER_S: Final = 5.0
# A publisher that brings no more than this at a time is no flood, and need not wait for others.
LITTLE_BYTES: Final = 4096
# If more than this is missing of a frame, a large message is coming: use the large read buffer.
LARGE_FRAME_BYTES: Final = 32_768
_TCP_ESTABLISHED: Final = 1


class ConnectionShell(asyncio.BufferedProtocol, Transport, Paced):
    """``write_high_bytes``: octets that fill the transport. ``product``: see ``Transport``.

    ``relayed``: the addresses that a trusted proxy has given; None: those of the socket.
    """

    __slots__ = (
        "_accepting",
        "_buffer",
        "_connection",
        "_context",
        "_is_alarmed",
        "_is_behind",
        "_is_choked",
        "_is_early",
        "_is_own_tls",
        "_is_reading",
        "_is_relayed_tls",
        "_linger",
        "_local",
        "_loop",
        "_pacing",
        "_peer",
        "_product",
        "_reads",
        "_tls",
        "_transport",
        "_write_high_bytes",
        "_writes",
        "received_bytes",
        "sent_bytes",
    )

    def __init__(
        self,
        context: Context,
        pacing: Pacing,
        accepting: Accepting,
        write_high_bytes: int,
        product: str,
        relayed: Relayed | None = None,
    ) -> None:
        self._context = context
        self._pacing = pacing
        self._accepting = accepting
        self._write_high_bytes = write_high_bytes
        self._product = product
        self._connection: Connection | None = None  # from connection_made to connection_lost
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._peer: SocketAddress = UNKNOWN_ADDRESS
        self._local: SocketAddress = UNKNOWN_ADDRESS
        if relayed is not None:
            self._peer, self._local = relayed.peer, pacing.shared_address(relayed.local)
        self._is_own_tls = relayed is None or relayed.is_own_tls
        self._is_relayed_tls = relayed is not None and relayed.tls is not None
        self._tls: TlsSession | None = None
        self._buffer = pacing.read_buffer
        self._is_reading = True
        self._linger: asyncio.TimerHandle | None = None
        self._is_alarmed = False
        self._is_behind = False
        self._is_choked = False
        self._is_early = False  # it waits for its token of a connection rate
        self.received_bytes = 0
        self.sent_bytes = 0
        self._reads = 0
        self._writes = 0

    # ------------------------------------------------------------ from asyncio

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport = cast("asyncio.Transport", transport)
        self._tls = transport.get_extra_info(SESSION)
        if self._peer is UNKNOWN_ADDRESS:
            self._peer = (transport.get_extra_info("peername") or UNKNOWN_ADDRESS)[:2]
            self._local = self._pacing.shared_address(transport.get_extra_info("sockname"))
        wait_s = self._accepting.admit(self._peer[0], self.peer)
        if wait_s is None:
            transport.abort()
            return
        transport.set_write_buffer_limits(high=self._write_high_bytes)
        self._connection = Connection(self._context, self)
        if wait_s:
            self._is_early = True
            self._update_reading()
            self._loop.call_later(wait_s, self._begin)

    def _begin(self) -> None:
        """The connection rate has come to this socket: read what the client has sent."""
        self._is_early = False
        self._update_reading()

    def get_buffer(self, sizehint: int) -> memoryview:
        pacing, connection = self._pacing, self._connection
        if connection is not None and connection.missing_bytes > LARGE_FRAME_BYTES:
            self._buffer = pacing.large_buffer
        else:
            self._buffer = pacing.read_buffer
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        buffer, connection = self._buffer, self._connection
        self.received_bytes += nbytes
        self._reads += 1
        if connection is None:
            return
        try:
            connection.receive(bytes(buffer[:nbytes]))
        except Exception as error:
            connection.on_bug(error)
        turn = self._context.turn
        if nbytes == len(buffer) or (
            turn.is_behind
            and (nbytes > LITTLE_BYTES or turn.is_store_behind)
            and connection.has_published
        ):
            self._pacing.pause(self)

    def pause_writing(self) -> None:
        if self._connection is not None:
            self._connection.on_socket_full()

    def resume_writing(self) -> None:
        if self._is_choked:
            self._is_choked = False
            self._update_reading()
        if self._connection is not None:
            self._connection.on_socket_drained()

    def connection_lost(self, exc: Exception | None) -> None:
        self._pacing.forget(self)
        self._transport = None
        if self._linger is not None:
            self._linger.cancel()
        # the connection refers to us, and must be freed without the garbage collector
        connection, self._connection = self._connection, None
        if connection is not None:
            self._accepting.on_gone(self._peer[0])
            connection.on_transport_lost(getattr(exc, "strerror", None) or str(exc or ""))

    # --------------------------------------------------- from the protocol side

    @property
    def peer(self) -> str:
        return address_text(self._peer)

    @property
    def connection_name(self) -> str:
        return f"{address_text(self._peer)} -> {address_text(self._local)}"

    @property
    def tls(self) -> TlsSession | None:
        return self._tls

    def traffic_bytes(self) -> int:
        return self.received_bytes + self.sent_bytes

    def socket_facts(self) -> SocketFacts:
        transport = self._transport
        return SocketFacts(
            *self._local,
            *self._peer,
            self.received_bytes,
            self._reads,
            self.sent_bytes,
            self._writes,
            0 if transport is None else transport.get_write_buffer_size(),
        )

    @property
    def host(self) -> str:
        return self._peer[0]

    @property
    def product(self) -> str:
        return self._product

    @property
    def auth_peer(self) -> Peer:
        peer = super().auth_peer
        if not self._is_own_tls:  # what the proxy has shown says nothing of the client
            return peer._replace(is_tls=self._is_relayed_tls, certificate=None)
        return peer._replace(is_tls=peer.is_tls or self._is_relayed_tls)

    def has_left(self) -> bool:
        transport = self._transport
        if transport is None or transport.is_closing():
            return True
        if sys.platform != "linux":
            return False
        end: socket.socket = transport.get_extra_info("socket")
        try:  # asyncio sees it only while it reads
            return end.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 1)[0] != _TCP_ESTABLISHED
        except OSError:
            return True

    @property
    def is_loopback(self) -> bool:
        return is_loopback(self._peer[0])

    @property
    def is_reading(self) -> bool:
        return self._is_reading

    def write(self, octets: bytes) -> None:
        transport = self._transport
        if transport is None or transport.is_closing():
            return
        self.sent_bytes += len(octets)
        self._writes += 1
        transport.write(octets)
        if (
            not self._is_choked
            and transport.get_write_buffer_size() > UNREAD_OUTPUT_MAX * self._write_high_bytes
        ):
            self._is_choked = True
            self._update_reading()

    def close(self) -> None:
        """Send what is written and an end of stream, then wait for the client to close.

        Closing a socket that holds unread octets resets it, and the reset may overtake close-ok on
        its way to a client that had more to send. What still comes is read and dropped.
        """
        transport = self._transport
        if transport is None or transport.is_closing() or self._linger is not None:
            return
        self._linger = self._loop.call_later(LINGER_S, self.abort)
        self._is_alarmed = self._is_behind = self._is_choked = self._is_early = False
        self._update_reading()
        try:
            transport.write_eof()
        except OSError:  # the client is gone
            transport.abort()

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    def pause_reading(self) -> None:
        self._is_alarmed = True
        self._update_reading()

    def resume_reading(self) -> None:
        self._is_alarmed = False
        self._update_reading()

    def call_later(self, delay_s: float, callback: Callable[[], None]) -> asyncio.TimerHandle:
        return self._loop.call_later(delay_s, callback)

    # ----------------------------------------------------------------- pacing

    @property
    def publishes(self) -> bool:
        return self._connection is not None and self._connection.has_published

    def set_behind(self, is_behind: bool) -> None:
        """Stop reading while the broker's dispatch or its store is behind, or read again."""
        self._is_behind = is_behind
        self._update_reading()

    def _update_reading(self) -> None:
        transport = self._transport
        should_read = not (self._is_alarmed or self._is_behind or self._is_choked or self._is_early)
        if transport is None or transport.is_closing() or should_read == self._is_reading:
            return
        self._is_reading = should_read
        if should_read:
            transport.resume_reading()
        else:
            transport.pause_reading()
