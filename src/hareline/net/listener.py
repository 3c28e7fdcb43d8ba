"""The TCP ports of a broker: each accepted socket becomes a ``ConnectionShell``.

``server`` starts and stops it, with sockets that ``net.binding`` has bound. Invariant: after an
error none of the ports is listened on.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Sequence
from typing import NamedTuple

from hareline.amqp.context import Context
from hareline.auth.peer import Networks
from hareline.net.accepting import Accepting
from hareline.net.addresses import Relayed
from hareline.net.binding import Address, listen_error
from hareline.net.pacing import Pacing
from hareline.net.proxy_front import ProxyDoor
from hareline.net.shell import ConnectionShell
from hareline.net.tls.service import TlsService


class Endpoint(NamedTuple):
    """One port: its address, and the sockets bound to it.

    ``backlog``: connections that the system may hold ready. ``tls`` None: clients speak AMQP at
    once. ``proxies`` begin with a PROXY header, before TLS too.
    """

    address: Address
    sockets: Sequence[socket.socket]
    backlog: int
    tls: TlsService | None = None
    proxies: Networks = Networks()


class Listeners:
    """The ports of one broker; all connections share one pacing and the rates of accepting.

    ``write_high_bytes``: octets waiting for a socket above which it counts as full. It is set by
    ``start`` and may be changed; a change holds for connections accepted afterwards.
    """

    def __init__(self, context: Context) -> None:
        self._context = context
        self.write_high_bytes = 0
        self._pacing = Pacing(context.turn)
        self._accepting = Accepting(context)
        self._servers: list[asyncio.Server] = []
        self._doors: list[ProxyDoor] = []

    async def start(self, endpoints: Sequence[Endpoint], *, write_high_bytes: int) -> list[Address]:
        """Listen; returns each address with the port that it has. Raises ListenError."""
        self.write_high_bytes = write_high_bytes
        self._context.turn.on_finished = self._pacing.on_turn_finished
        try:
            return [await self._listen(endpoint) for endpoint in endpoints]
        except BaseException:
            await self.stop()
            raise

    @property
    def is_open(self) -> bool:
        """True while clients can connect."""
        return bool(self._servers)

    def make_shell(self, product: str = "", relayed: Relayed | None = None) -> ConnectionShell:
        """A connection that has no transport yet."""
        return ConnectionShell(
            self._context,
            self._pacing,
            self._accepting,
            self.write_high_bytes,
            product,
            relayed,
        )

    def _maker(self, endpoint: Endpoint) -> Callable[[], asyncio.BaseProtocol]:
        """Factory of the first protocol of a connection to this port."""
        tls, product = endpoint.tls, endpoint.address.product

        def behind(relayed: Relayed | None) -> asyncio.BaseProtocol:
            if tls is None:
                return self.make_shell(product, relayed)
            return tls.for_amqp(lambda: self.make_shell(product, relayed))

        if not endpoint.proxies:
            return lambda: behind(None)
        door = ProxyDoor(
            endpoint.proxies,
            lambda: self._context.limits.handshake_timeout_s,
            self._context.report,
        )
        self._doors.append(door)
        return lambda: door.front(behind)

    async def _listen(self, endpoint: Endpoint) -> Address:
        make = self._maker(endpoint)
        for each in endpoint.sockets:
            try:
                server = await asyncio.get_running_loop().create_server(
                    make, sock=each, backlog=endpoint.backlog
                )
            except OSError as error:  # another program bound it too, and was quicker
                raise listen_error(endpoint.address, error) from error
            self._servers.append(server)
        host, port = endpoint.sockets[0].getsockname()[:2]
        return endpoint.address._replace(host=host, port=port)

    async def stop(self) -> None:
        """Accept no more connections; those that exist go on."""
        servers, self._servers = self._servers, []
        for server in servers:
            server.close()
        doors, self._doors = self._doors, []
        for door in doors:
            door.close()
