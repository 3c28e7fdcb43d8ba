"""uvicorn inside the broker's own event loop, on sockets that ``server`` has bound."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Iterator, Sequence
from typing import Final

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


class _Protocol(H11Protocol):
    """uvicorn's protocol; each request has the transport it came by."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.app_state = {**self.app_state, TRANSPORT: transport}


class ManagementListener:
    def __init__(self, app: FastAPI) -> None:
        self._server = _EmbeddedServer(
            uvicorn.Config(
                app,
                http=_Protocol,
                log_config=None,
                access_log=False,
                server_header=False,
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
