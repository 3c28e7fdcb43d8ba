"""uvicorn inside the broker's own event loop, on sockets that ``server`` has bound.

``http_side`` makes one for each port of HTTP, and may put a front before its protocol, which learns
from a proxy who the client is. Invariant: each request has the transport it came by, and the
addresses that the front has found.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, Final

import uvicorn
from fastapi import FastAPI
from uvicorn.protocols.http.h11_impl import H11Protocol


class _EmbeddedServer(uvicorn.Server):
    """uvicorn without signal handlers: the broker decides when to stop."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


#: Where a request has its transport: ``request.scope["state"][TRANSPORT]``.
TRANSPORT: Final = "transport"


SocketAddress = tuple[str, int]
#: The client's address, and the one that it came to, as a proxy names them; None: the socket's.
Ends = tuple[SocketAddress, SocketAddress] | None
#: The first protocol of a connection, given what makes that of HTTP.
Front = Callable[[Callable[[Ends], asyncio.Protocol]], asyncio.BaseProtocol]


class _Protocol(H11Protocol):
    """uvicorn's protocol; each request has the transport it came by. ``ends``: see ``Ends``."""

    def __init__(self, ends: Ends, **uvicorns: Any) -> None:
        super().__init__(**uvicorns)
        self._ends = ends

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.app_state = {**self.app_state, TRANSPORT: transport}
        if self._ends is not None:
            self.client, self.server = self._ends


def _first_protocol(front: Front | None, **uvicorns: Any) -> asyncio.BaseProtocol:
    """The protocol that a new connection begins with."""
    if front is None:
        return _Protocol(None, **uvicorns)
    return front(lambda ends: _Protocol(ends, **uvicorns))


class ManagementListener:
    """One port of HTTP. ``front``: what a connection begins with; None: HTTP."""

    def __init__(self, app: FastAPI, front: Front | None = None) -> None:
        self._server = _EmbeddedServer(
            uvicorn.Config(
                app,
                http=partial(_first_protocol, front),  # type: ignore[arg-type]
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
