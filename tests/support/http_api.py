"""Requests to the HTTP API of a broker, as a user of it.

Invariant: an answer that is not JSON where a body is fails the test.
"""

from __future__ import annotations

import base64
import json
import urllib.error
import urllib.request
from typing import Any

DEADLINE_S = 60.0


class HttpApi:
    """``url`` of the management port. ``call`` returns the status and the decoded body, or None."""

    def __init__(self, url: str, user: str = "guest", password: str = "guest") -> None:
        self._url = url
        self._login = base64.b64encode(f"{user}:{password}".encode()).decode()

    def call(
        self,
        method: str,
        path: str,
        body: object = None,
        *,
        octets: bytes | None = None,
        headers: dict[str, str] | None = None,
    ) -> tuple[int, Any]:
        """``body`` is sent as JSON, ``octets`` as they are."""
        data = octets if octets is not None else None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"{self._url}{path}", data, method=method)
        request.add_header("Authorization", f"Basic {self._login}")
        for name, value in {"Content-Type": "application/json", **(headers or {})}.items():
            request.add_header(name, value)
        try:
            with urllib.request.urlopen(request, timeout=DEADLINE_S) as answer:
                return answer.status, _decoded(answer.read())
        except urllib.error.HTTPError as error:
            with error:
                return error.code, _decoded(error.read())

    def get(self, path: str) -> Any:
        """The body of an answer with status 200."""
        status, body = self.call("GET", path)
        assert status == 200, (status, body)
        return body


def _decoded(octets: bytes) -> Any:
    return json.loads(octets) if octets else None
