"""Listening sockets, and the pacing of publishers over all connections of a broker."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Sequence
from typing import Final, NamedTuple

from hareline.amqp.context import Context
from hareline.net.binding import Address, listen_error
from hareline.net.shell import ConnectionShell

# About 0.5 ms of publishes, and small enough for what it turns into to stay in the cache.
READ_BUFFER_BYTES: Final = 65_536
LARGE_BUFFER_BYTES: Final = 524_288  # for bodies of many frames, whose cost is copying


class Pacing:
    """How much one connection may bring in at a time, so that nobody waits for a flood.

    A connection that fills the read buffer is not read again before the turn is over; the event
    loop would otherwise go on reading it as long as it has more. While the dispatch of a turn is
    unfinished, connections that publish are read one after the other, one piece a turn: fast
    publishers would fill a queue whose consumers could take everything, because each turn would
    read more than it delivers; and while a deep queue drains for seconds, nobody waits that long.
    While the store is behind they are not read at all: it catches up as fast as the disk is.

    The read buffers are shared by all connections: one is filled and emptied in one call each.
    """

    def __init__(self, context: Context) -> None:
        self._context = context
        self._publishers: dict[ConnectionShell, None] = {}  # who waits, in the order of coming
        self._others: dict[ConnectionShell, None] = {}
        self.read_buffer = memoryview(bytearray(READ_BUFFER_BYTES))
        self.large_buffer = memoryview(bytearray(LARGE_BUFFER_BYTES))

    def pause(self, shell: ConnectionShell) -> None:
        """Not read before the end of the turn, or, while dispatch is behind, before its turn."""
        if shell not in self._publishers and shell not in self._others:
            (self._publishers if shell.publishes else self._others)[shell] = None
            shell.set_behind(True)
            self._context.turn.arm()

    def forget(self, shell: ConnectionShell) -> None:
        self._publishers.pop(shell, None)
        self._others.pop(shell, None)

    def on_turn_finished(self) -> None:
        publishers = self._publishers
        turn = self._context.turn
        if publishers and turn.is_behind:
            if not turn.is_store_behind:
                first = next(iter(publishers))
                del publishers[first]
                first.set_behind(False)
        elif publishers:
            self._publishers = {}
            for shell in publishers:
                shell.set_behind(False)
        if self._others:
            others, self._others = self._others, {}
            for shell in others:
                shell.set_behind(False)


class Endpoint(NamedTuple):
    """Where to listen: sockets that are bound to it. ``backlog``: connections that the system may
    hold ready. ``product``: what clients of this port are told, empty if ``amqp.product`` decides.
    """

    address: Address
    sockets: Sequence[socket.socket]
    backlog: int
    product: str = ""


class Listeners:
    """The TCP ports of a broker, which have one pacing.

    ``write_high_bytes``: of connections that come from now on; set by ``start``.
    """

    def __init__(self, context: Context) -> None:
        self._context = context
        self.write_high_bytes = 0
        self._pacing = Pacing(context)
        self._servers: list[asyncio.Server] = []

    async def start(
        self, endpoints: Sequence[Endpoint], *, write_high_bytes: int
    ) -> list[tuple[str, int]]:
        """Listen; returns host and port of each. After ListenError none is listened on."""
        self.write_high_bytes = write_high_bytes
        self._context.turn.on_finished = self._pacing.on_turn_finished
        try:
            return [await self._listen(endpoint) for endpoint in endpoints]
        except BaseException:
            await self.stop()
            raise

    async def _listen(self, endpoint: Endpoint) -> tuple[str, int]:
        for each in endpoint.sockets:
            try:
                server = await asyncio.get_running_loop().create_server(
                    lambda: ConnectionShell(
                        self._context, self._pacing, self.write_high_bytes, endpoint.product
                    ),
                    sock=each,
                    backlog=endpoint.backlog,
                )
            except OSError as error:  # bound by two, and the other one was quicker
                raise listen_error(endpoint.address, error) from error
            self._servers.append(server)
        host, port = endpoint.sockets[0].getsockname()[:2]
        return host, port

    async def stop(self) -> None:
        """Accept nobody new; connections that exist go on."""
        servers, self._servers = self._servers, []
        for server in servers:
            server.close()
