"""A request whose route waits for the body until the test sends it.

The client asks for "100 Continue", which a server sends when the route begins to read: so a test
knows that the user has been looked at, and that the body is still to come.
"""

from __future__ import annotations

import json
import socket
from base64 import b64encode
from http.client import HTTPResponse
from typing import Any

DEADLINE_S = 60.0


class SlowRequest:
    """Begun when made. ``port``: the management port; ``size``: octets that the body will have."""

    def __init__(
        self, port: int, method: str, path: str, size: int, user: str, password: str
    ) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), DEADLINE_S)
        login = b64encode(f"{user}:{password}".encode()).decode()
        head = (
            f"{method} /api{path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Basic {login}\r\n"
            f"Content-Length: {size}\r\nExpect: 100-continue\r\nConnection: close\r\n\r\n"
        )
        self._socket.sendall(head.encode())
        begun = b""
        while not begun.endswith(b"\r\n\r\n"):
            octets = self._socket.recv(1)
            if not octets:
                break
            begun += octets
        if not begun.startswith(b"HTTP/1.1 100 "):
            self.leave()
            raise AssertionError(f"the route has not begun to read: {begun!r}")

    def send(self, octets: bytes) -> None:
        """Send a part of the body."""
        self._socket.sendall(octets)

    def leave(self) -> None:
        """Close the connection in the middle of the body."""
        self._socket.close()

    def answer(self) -> tuple[int, Any]:
        """Status and JSON of the answer, when all of the body has been sent."""
        response = HTTPResponse(self._socket)
        try:
            response.begin()
            octets = response.read()
        finally:
            response.close()
            self._socket.close()
        return response.status, json.loads(octets) if octets else None
