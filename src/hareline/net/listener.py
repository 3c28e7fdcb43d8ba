"""Listening sockets, and the pacing of publishers over all connections of a broker."""

from __future__ import annotations

import asyncio

from hareline.amqp.context import Context
from hareline.net.shell import ConnectionShell


class Pacing:
    """Connections that publish wait while the dispatch of the last turn is unfinished.

    Without this a fast publisher fills a queue whose consumers could take everything, because each
    turn reads more than it delivers.
    """

    def __init__(self, context: Context) -> None:
        self._context = context
        self._paused: dict[ConnectionShell, None] = {}

    def pause(self, shell: ConnectionShell) -> None:
        if shell not in self._paused:
            self._paused[shell] = None
            shell.set_behind(True)

    def forget(self, shell: ConnectionShell) -> None:
        self._paused.pop(shell, None)

    def on_caught_up(self) -> None:
        """Dispatch is level with the input again."""
        paused, self._paused = self._paused, {}
        for shell in paused:
            shell.set_behind(False)


class Listener:
    """One TCP port."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self.write_high_bytes = 0  # of connections that come from now on; set by start
        self._pacing = Pacing(context)
        self._server: asyncio.Server | None = None

    async def start(
        self, host: str, port: int, *, backlog: int, write_high_bytes: int
    ) -> tuple[str, int]:
        """Bind and listen; returns host and port, which the system chose if ``port`` was 0.

        Raises OSError when the address cannot be bound.
        """
        self.write_high_bytes = write_high_bytes
        loop = asyncio.get_running_loop()
        self._context.turn.on_caught_up = self._pacing.on_caught_up
        self._server = await loop.create_server(
            lambda: ConnectionShell(self._context, self._pacing, self.write_high_bytes),
            host,
            port,
            backlog=backlog,
        )
        address = self._server.sockets[0].getsockname()
        return address[0], address[1]

    async def stop(self) -> None:
        """Accept nobody new; connections that exist go on."""
        if self._server is not None:
            self._server.close()
            self._server = None
