"""HTTP to the management port, on one kept connection per process.

Called by ``reading.client``. Spark asks for the tail of a stream dozens of times a second and
sends tasks to processes that live on, so connections are kept for the next request, by process,
address and login. Invariant: a connection is kept only once its answer was read to its end.
"""

from __future__ import annotations

import os
from base64 import b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection, HTTPResponse, HTTPSConnection
from urllib.parse import quote, urlsplit

from hareline.spark.shared.options import Connection

_Key = tuple[int, str, str]
_kept: dict[_Key, HTTPConnection] = {}


class Http:
    """Requests to ``/api/stream/{vhost}`` of one broker as one user; holds no socket itself."""

    def __init__(self, connection: Connection) -> None:
        self._url = connection.http_url
        self._login = connection.token or f"{connection.user}:{connection.password}"
        self._is_token = connection.token is not None
        prefix = urlsplit(connection.http_url).path.rstrip("/")
        self._base = f"{prefix}/api/stream/{quote(connection.vhost, safe='')}"

    @contextmanager
    def request(
        self, method: str, path: str, body: bytes | None, timeout_s: float
    ) -> Iterator[HTTPResponse]:
        """The answer, of any status. Raises OSError or HTTPException.

        ``timeout_s``: how long the broker may send nothing. The connection is closed unless the
        answer is read to its end.
        """
        key = (os.getpid(), self._url, self._login)
        connection = _kept.pop(key, None)
        response = None
        try:
            if connection is not None:
                response = self._ask_again(connection, method, path, body, timeout_s)
            if connection is None or response is None:
                connection = self._connect(timeout_s)
                response = self._ask(connection, method, path, body)
            yield response
        finally:
            if connection is not None:
                # An answer is closed once it is read to its end.
                is_whole = response is not None and response.isclosed() and not response.will_close
                # One is kept; another thread may have made a second one meanwhile.
                if not is_whole or _kept.setdefault(key, connection) is not connection:
                    connection.close()

    def _ask_again(
        self,
        connection: HTTPConnection,
        method: str,
        path: str,
        body: bytes | None,
        timeout_s: float,
    ) -> HTTPResponse | None:
        """The answer on a kept connection; None if the broker closed it meanwhile."""
        connection.timeout = timeout_s
        if connection.sock is not None:
            connection.sock.settimeout(timeout_s)
        try:
            return self._ask(connection, method, path, body)
        except ConnectionError:  # http.client's RemoteDisconnected is one too
            connection.close()
            return None

    def _ask(
        self, connection: HTTPConnection, method: str, path: str, body: bytes | None
    ) -> HTTPResponse:
        headers = {"Authorization": self._authorization()}
        if body is not None:
            headers["Content-Type"] = "application/json"
        connection.request(method, self._base + path, body, headers)
        return connection.getresponse()

    def _connect(self, timeout_s: float) -> HTTPConnection:
        parts = urlsplit(self._url)
        kind = HTTPSConnection if parts.scheme == "https" else HTTPConnection
        return kind(parts.hostname or "", parts.port, timeout=timeout_s)

    def _authorization(self) -> str:
        if self._is_token:
            return f"Bearer {self._login}"
        return f"Basic {b64encode(self._login.encode()).decode()}"
