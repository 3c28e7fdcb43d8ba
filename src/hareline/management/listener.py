"""uvicorn inside the broker's own event loop, on a socket that is bound here."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Iterator

import uvicorn
from fastapi import FastAPI


class _EmbeddedServer(uvicorn.Server):
    """uvicorn without signal handlers: the broker decides when to stop."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


class ManagementListener:
    def __init__(self, app: FastAPI) -> None:
        self._server = _EmbeddedServer(
            uvicorn.Config(
                app, log_config=None, access_log=False, lifespan="off", timeout_graceful_shutdown=1
            )
        )
        self._task: asyncio.Task[None] | None = None

    async def start(self, host: str, port: int) -> tuple[str, int]:
        """Bind and serve; returns host and port. Raises OSError when it cannot be bound."""
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        listening = socket.socket(family)
        try:
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listening.bind((host, port))
            listening.listen()  # uvicorn does it again, but later: the port is printed before that
        except OSError as error:
            listening.close()
            problem = f"cannot listen on {host}:{port} for HTTP (management.port): {error.strerror}"
            raise OSError(error.errno, problem) from error
        address = listening.getsockname()
        self._task = asyncio.create_task(self._server.serve(sockets=[listening]))
        return address[0], address[1]

    async def stop(self) -> None:
        if self._task is not None:
            self._server.should_exit = True
            await self._task
            self._task = None
