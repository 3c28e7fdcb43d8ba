"""An HTTP server that answers as a test tells it to, and remembers what it was asked."""

from __future__ import annotations

import base64
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit


@dataclass
class Asked:
    """A request. ``path``: without the query, still percent-encoded."""

    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: Any

    @property
    def login(self) -> str:
        scheme, _, encoded = self.headers.get("Authorization", "").partition(" ")
        return f"{scheme} {base64.b64decode(encoded).decode()}"


class ScriptedApi(ThreadingHTTPServer):
    """``answers``: (method, path) -> (status, JSON or octets), or a list of them, one each time.
    ``headers``: of all answers.
    """

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.answers: dict[tuple[str, str], Any] = {}
        self.asked: list[Asked] = []
        self.headers: dict[str, str] = {}

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def will(self, method: str, path: str, answer: Any = None, status: int = 200) -> None:
        """Answer requests to a path below /api."""
        self.answers[method, f"/api{path}"] = (status, answer)

    @property
    def last(self) -> Asked:
        return self.asked[-1]

    def of(self, method: str) -> list[Asked]:
        return [each for each in self.asked if each.method == method]


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: ScriptedApi

    def _answer(self) -> None:
        parts = urlsplit(self.path)
        length = int(self.headers.get("Content-Length") or 0)
        octets = self.rfile.read(length)
        query = {name: values[-1] for name, values in parse_qs(parts.query).items()}
        body = json.loads(octets) if octets else None
        self.server.asked.append(
            Asked(self.command, parts.path, query, dict(self.headers.items()), body)
        )
        missing = (404, {"error": "Object Not Found", "reason": "Not Found"})
        status, answer = self.server.answers.get((self.command, parts.path), missing)
        sent = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
        if answer is None:
            sent = b""
        self.send_response(status)
        self.send_header("Content-Length", str(len(sent)))
        for name, value in self.server.headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(sent)

    do_GET = do_PUT = do_POST = do_DELETE = _answer  # noqa: N815 - the names are the library's

    def log_message(self, *_: object) -> None:
        """Nothing is printed."""


@contextmanager
def scripted_api() -> Iterator[ScriptedApi]:
    """A server on a free port of loopback while the block runs."""
    server = ScriptedApi()
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
