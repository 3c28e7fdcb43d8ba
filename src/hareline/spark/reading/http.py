"""HTTP to the management port: one kept connection per process, and how often to try again.

Called by ``reading.client``. Spark asks for the tail of a stream dozens of times a second and
sends tasks to processes that live on, so connections are kept for the next request, by process,
address and login. Invariant: a connection is kept only once its answer was read to its end.
"""

from __future__ import annotations

import os
import random
import time
from base64 import b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection, HTTPResponse, HTTPSConnection
from typing import Final
from urllib.parse import quote, urlsplit

from hareline.spark.errors import BrokerUnreachable
from hareline.spark.options import Connection

_PAUSE_MIN_S: Final = 0.1
_PAUSE_MAX_S: Final = 2.0

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


class Patience:
    """How long a request that fails is repeated: ``retries`` times ``timeout_s`` on end."""

    def __init__(self, url: str, timeout_s: float, retries: int) -> None:
        self._url = url
        self._limit_s = timeout_s * retries
        self._retries = retries
        self.reset()

    def reset(self) -> None:
        """Begin to count again, since something was answered."""
        self._failing_since: float | None = None
        self._failures = 0
        self._pause_s = _PAUSE_MIN_S

    def interrupted(self, problem: Exception) -> None:
        """Pause before the next attempt. Raises BrokerUnreachable if the time is over."""
        now = time.monotonic()
        if self._failing_since is None:
            self._failing_since = now
        self._failures += 1
        left_s = self._failing_since + self._limit_s - now
        if left_s <= 0:
            why = str(problem) or type(problem).__name__
            raise BrokerUnreachable(
                f"{self._url} did not answer in {self._failures} attempts: {why}; check that the "
                "broker runs and that url or httpUrl is right, or raise retries"
            ) from None
        time.sleep(min(left_s, self._pause_s * random.uniform(0.5, 1)))
        self._pause_s = min(_PAUSE_MAX_S, 2 * self._pause_s)

    def may_repeat(self) -> bool:
        """Count an answer that is of no use; False once there were more than ``retries``."""
        self._failures += 1
        return self._failures <= self._retries
