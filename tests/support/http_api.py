"""The HTTP API of a broker, asked as one of its users: the one HTTP client of the tests.

``BrokerProcess.management_url``, ``Broker.management_url`` and ``ManagedRabbitMQ.http_url`` say
where; ``ApiBroker`` has a broker beside it. Invariant: a connection ends with its answer, so that
brokers may restart between two requests and no client has to be closed.
"""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import quote

import httpx

DEADLINE_S = 60.0


class HttpApi:
    """Asks as one user, or without a login if ``user`` is None. Paths begin with ``/api``.

    ``ask`` returns httpx's response, ``call`` its status and JSON, ``get`` and ``done`` only the
    JSON of a success.
    """

    def __init__(self, url: str, user: str | None = "guest", password: str = "guest") -> None:
        self.url = url
        self._http = httpx.Client(
            base_url=url,
            auth=None if user is None else (user, password),
            timeout=DEADLINE_S,
            trust_env=False,
            verify=False,  # tests of TLS have clients of their own
            limits=httpx.Limits(max_keepalive_connections=0),
        )

    def ask(self, method: str, path: str, body: object = None, **more: Any) -> httpx.Response:
        """The answer, whatever its status. ``body`` goes as JSON unless it is octets."""
        if isinstance(body, bytes):
            more["content"] = body
        elif body is not None:  # httpx would refuse half a character
            more["content"] = json.dumps(body).encode()
            more["headers"] = {"Content-Type": "application/json", **(more.get("headers") or {})}
        return self._http.request(method, path, **more)

    def call(self, method: str, path: str, body: object = None, **more: Any) -> tuple[int, Any]:
        """The status, and the JSON of the body or None; fails if the body is no JSON."""
        answer = self.ask(method, path, body, **more)
        return answer.status_code, answer.json() if answer.content else None

    def done(self, method: str, path: str, body: object = None, **more: Any) -> Any:
        """The JSON of an answer that has to be a success."""
        status, answer = self.call(method, path, body, **more)
        assert status < 300, (method, path, status, answer)
        return answer

    def get(self, path: str, **more: Any) -> Any:
        """The JSON of an answer with status 200."""
        answer = self.ask("GET", path, **more)
        assert answer.status_code == 200, (path, answer.status_code, answer.text)
        return answer.json()


def segment(name: str) -> str:
    """A name as it stands in a path; the client would leave out "." and ".." in a literal one."""
    encoded = quote(name, safe="", errors="surrogateescape")
    return encoded.replace(".", "%2E") if name in {".", ".."} else encoded
