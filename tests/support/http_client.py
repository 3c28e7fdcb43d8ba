"""The management API of a broker in a process of its own, asked over real HTTP.

For tests that restart or kill the broker; `api_broker` is for those that look into it.
"""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from base64 import b64encode
from collections.abc import Mapping
from typing import Any, NamedTuple
from urllib.parse import quote

from .broker_process import BrokerProcess

DEADLINE_S = 60.0


class Answer(NamedTuple):
    """``body``: of JSON what it says, else the octets; None if it is empty."""

    status: int
    body: Any
    headers: Mapping[str, str]


class HttpClient:
    """Asks as one user; paths are below ``/api``, with names percent-encoded by ``segment``."""

    def __init__(self, broker: BrokerProcess, user: str = "guest", password: str = "guest") -> None:
        self._broker = broker
        self._login = b64encode(f"{user}:{password}".encode()).decode()

    def ask(self, method: str, path: str, body: object = None) -> Answer:
        """The answer, whatever its status; ``body`` is sent as JSON unless it is octets."""
        octets = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
        url = f"http://127.0.0.1:{self._broker.management_port}/api{path}"
        request = urllib.request.Request(url, octets, method=method)
        request.add_header("Authorization", f"Basic {self._login}")
        try:
            with urllib.request.urlopen(request, timeout=DEADLINE_S) as answer:
                return _answer(answer.status, answer.read(), dict(answer.headers))
        except urllib.error.HTTPError as error:
            with error:
                return _answer(error.code, error.read(), dict(error.headers))

    def done(self, method: str, path: str, body: object = None) -> Any:
        """The body of an answer that has to be a success."""
        answer = self.ask(method, path, body)
        assert answer.status < 300, (method, path, answer)
        return answer.body


def _answer(status: int, octets: bytes, headers: Mapping[str, str]) -> Answer:
    try:
        return Answer(status, json.loads(octets) if octets else None, headers)
    except ValueError:
        return Answer(status, octets, headers)


def segment(name: str) -> str:
    """A name as it stands in a path."""
    return quote(name, safe="", errors="surrogateescape")
