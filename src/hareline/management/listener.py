"""uvicorn inside the broker's own event loop, on sockets that ``server`` has bound.

``http_side`` makes one for each port of HTTP, and may put a front before its protocol, which learns
from a proxy who the client is. An upgrade to WebSocket that ``management.websocket`` accepts leaves
HTTP, with its transport. Invariant: each request has the transport it came by, and the addresses
that the front has found; a connection without the whole head of a request ends after some time.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, Final, NamedTuple, cast

import h11
import uvicorn
from fastapi import FastAPI
from starlette.types import Scope
from uvicorn.protocols.http.h11_impl import H11Protocol

from hareline.management.websocket import WebSocketDoor


class _EmbeddedServer(uvicorn.Server):
    """uvicorn without signal handlers: the broker decides when to stop."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


#: Where a request has its transport: ``request.scope["state"][TRANSPORT]``.
TRANSPORT: Final = "transport"


SocketAddress = tuple[str, int]


class Ends(NamedTuple):
    """As a proxy names them: the client's address, the one it came to, and whether by TLS."""

    client: SocketAddress
    local: SocketAddress
    is_tls: bool


#: The first protocol of a connection, given what makes that of HTTP; None: the socket's own ends.
Front = Callable[[Callable[[Ends | None], asyncio.BaseProtocol]], asyncio.BaseProtocol]


class _Port(NamedTuple):
    """What the connections of a port share; see ``ManagementListener``."""

    door: WebSocketDoor | None
    head_timeout_s: Callable[[], float]


_REQUEST_TIMEOUT: Final = (
    b"HTTP/1.1 408 Request Timeout\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"
)
#: Makes the protocol of a socket: one that speaks TLS before the one that it is given.
Wrap = Callable[[Callable[[], asyncio.BaseProtocol]], asyncio.BaseProtocol]


class _Protocol(H11Protocol):
    """uvicorn's protocol; each request has the transport it came by. ``ends``: see ``Ends``.

    ``port``: what all connections of it share.
    """

    def __init__(self, ends: Ends | None, port: _Port, **uvicorns: Any) -> None:
        super().__init__(**uvicorns)
        self._ends = ends
        self._door = port.door
        self._head_timeout_s = port.head_timeout_s
        self._deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.app_state = {**self.app_state, TRANSPORT: transport}
        if self._ends is not None:
            self.client, self.server = self._ends.client, self._ends.local
            self.scheme = "https" if self._ends.is_tls else self.scheme
        self._watch_head()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._watch_head()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_watching()
        super().connection_lost(exc)

    def _watch_head(self) -> None:
        """Have a timer while the head of a request is missing, or a part of it."""
        if self.conn.their_state is not h11.IDLE:
            self._stop_watching()
        elif self._deadline is None:
            self._deadline = self.loop.call_later(self._head_timeout_s(), self._on_late_head)

    def _stop_watching(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _on_late_head(self) -> None:
        """End the connection, with an answer if a request has begun."""
        self._deadline = None
        if self.conn.their_state is not h11.IDLE:
            return
        if self.conn.trailing_data[0]:
            self.transport.write(_REQUEST_TIMEOUT)
        self.transport.close()

    def _should_upgrade(self) -> bool:
        """True if the request that has just come is to leave HTTP; uvicorn's hook."""
        return (
            self._door is not None
            and self._get_upgrade() == b"websocket"
            and self._door.accepts(cast("Scope", self.scope))
        )

    def handle_websocket_upgrade(self, event: h11.Request) -> None:
        """Hand the transport over; uvicorn calls it if ``_should_upgrade``."""
        assert self._door is not None
        self.connections.discard(self)
        self._door.upgrade(self.transport, cast("Scope", self.scope), event.target)


def _first_protocol(
    front: Front | None, wrap: Wrap | None, port: _Port, **uvicorns: Any
) -> asyncio.BaseProtocol:
    """The protocol that a new connection begins with."""

    def behind(ends: Ends | None) -> asyncio.BaseProtocol:
        if wrap is None:
            return _Protocol(ends, port, **uvicorns)
        return wrap(lambda: _Protocol(ends, port, **uvicorns))

    return behind(None) if front is None else front(behind)


class ManagementListener:
    """One port of HTTP; with ``wrap`` its clients speak TLS.

    ``front``: what a connection begins with, before TLS too; None: nothing else. ``door``: where
    upgrades to WebSocket go; None: nowhere. ``head_timeout_s``: how long the head of a request may
    take, in seconds; a reload may change it.
    """

    def __init__(
        self,
        app: FastAPI,
        head_timeout_s: Callable[[], float],
        *,
        wrap: Wrap | None = None,
        front: Front | None = None,
        door: WebSocketDoor | None = None,
    ) -> None:
        make = partial(_first_protocol, front, wrap, _Port(door, head_timeout_s))
        self._server = _EmbeddedServer(
            uvicorn.Config(
                app,
                http=make,  # type: ignore[arg-type]
                log_config=None,
                access_log=False,
                server_header=False,
                proxy_headers=False,  # management.forwarded does it
                lifespan="off",
                timeout_graceful_shutdown=1,
            )
        )
        self._task: asyncio.Task[None] | None = None

    def start(self, sockets: Sequence[socket.socket]) -> tuple[str, int]:
        """Serve on bound sockets; returns host and port. Raises OSError when it cannot listen."""
        for each in sockets:
            each.listen()  # uvicorn does it again, but later: the port is printed before that
        host, port = sockets[0].getsockname()[:2]
        self._task = asyncio.create_task(self._server.serve(sockets=list(sockets)))
        return host, port

    async def stop(self) -> None:
        if self._task is not None:
            self._server.should_exit = True
            await self._task
            self._task = None
