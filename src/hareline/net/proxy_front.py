"""Protocols that read the PROXY header of a trusted proxy before any other protocol.

``net.listener`` and the management port put a ``ProxyFront`` before the protocol of a port whose
settings name proxies. The protocol behind takes over at the first octet after the header. A peer
that is not trusted is never believed; a trusted one without a valid header in time is dropped.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import cast

from hareline import events
from hareline.auth.peer import Networks, is_loopback
from hareline.events import Report
from hareline.net.addresses import UNKNOWN_ADDRESS, Relayed, address_text
from hareline.net.proxy_header import InvalidProxyHeader, ProxyHeader, ProxyHeaderReader

#: Makes the protocol behind; it is given None for a client that came without a proxy.
MakeProtocol = Callable[[Relayed | None], asyncio.BaseProtocol]


@dataclass(frozen=True, slots=True)
class ProxyDoor:
    """State that all fronts of one port share.

    ``timeout_s`` is called for each connection, because a reload may change it.
    """

    proxies: Networks
    timeout_s: Callable[[], float]
    report: Report
    waiting: set[ProxyFront] = field(default_factory=set)

    def front(self, make: MakeProtocol) -> ProxyFront:
        """The first protocol of a new connection; ``make`` makes the one behind."""
        return ProxyFront(self, make)

    def close(self) -> None:
        """Drop the connections whose header has not come yet."""
        for front in list(self.waiting):
            front.abort()


class ProxyFront(asyncio.BufferedProtocol):
    """Reads the header of one connection, octet-exactly, and hands the transport on."""

    __slots__ = (
        "_buffer",
        "_deadline",
        "_door",
        "_local",
        "_make",
        "_peer",
        "_reader",
        "_transport",
    )

    def __init__(self, door: ProxyDoor, make: MakeProtocol) -> None:
        self._door = door
        self._make = make
        self._reader = ProxyHeaderReader()
        self._buffer = bytearray()
        self._transport: asyncio.Transport | None = None
        self._deadline: asyncio.TimerHandle | None = None
        self._peer = self._local = UNKNOWN_ADDRESS

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Hand a client of its own on at once, or wait for the header."""
        self._transport = transport = cast("asyncio.Transport", transport)
        self._peer = (transport.get_extra_info("peername") or UNKNOWN_ADDRESS)[:2]
        self._local = (transport.get_extra_info("sockname") or UNKNOWN_ADDRESS)[:2]
        door = self._door
        if self._peer[0] not in door.proxies:
            self._hand_on(None)
            return
        door.waiting.add(self)
        self._deadline = asyncio.get_running_loop().call_later(door.timeout_s(), self._on_timeout)

    def get_buffer(self, sizehint: int) -> bytearray:
        self._buffer = bytearray(self._reader.wanted_bytes)
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        reader, transport = self._reader, self._transport
        if transport is None:
            return
        try:
            reader.feed(bytes(self._buffer[:nbytes]))
        except InvalidProxyHeader as invalid:
            self._door.report(
                events.PROXY_HEADER_INVALID, peer=self._peer_text, reason=str(invalid)
            )
            self.abort()
            return
        if reader.header is not None:
            # the event loop chooses how it reads by the protocol that is there when reading begins
            transport.pause_reading()
            self._hand_on(self._relayed(reader.header), is_paused=True)

    def connection_lost(self, exc: Exception | None) -> None:
        if self._transport is not None:  # the other side has closed
            self._door.report(events.CONNECTION_UNUSED, peer=self._peer_text)
        self._leave()

    def abort(self) -> None:
        """Drop the connection at once."""
        transport = self._transport
        self._leave()
        if transport is not None:
            transport.abort()

    def _on_timeout(self) -> None:
        self._door.report(events.HANDSHAKE_TIMED_OUT, peer=self._peer_text)
        self.abort()

    def _hand_on(self, relayed: Relayed | None, *, is_paused: bool = False) -> None:
        """Let the protocol behind have the transport, which it may pause at once."""
        transport = self._transport
        assert transport is not None
        self._leave()
        protocol = self._make(relayed)
        transport.set_protocol(protocol)
        if is_paused:  # nothing is read before this callback has returned
            transport.resume_reading()
        protocol.connection_made(transport)

    def _relayed(self, header: ProxyHeader) -> Relayed | None:
        """The connection as the header has it; None if its own addresses count.

        A client on the loopback of the proxy's machine is not on ours, so it counts as the proxy.
        """
        source = header.source
        if source is None:
            return None
        if is_loopback(source[0]) and not is_loopback(self._peer[0]):
            source = self._peer
        # with TLS between client and proxy, TLS on this socket is the proxy's own
        is_own_tls = header.tls is None
        return Relayed(source, header.destination or self._local, header.tls, is_own_tls)

    def _leave(self) -> None:
        """Stop waiting for the header."""
        self._transport = None
        self._door.waiting.discard(self)
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    @property
    def _peer_text(self) -> str:
        return address_text(self._peer)
