"""A web server for the broker under test to ask: an identity provider's keys, or a login service.

It runs in threads of the test, speaks HTTP/1.1 on loopback, and notes what it was asked. Invariant:
it has ended when the block ends.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple
from urllib.parse import parse_qsl, urlsplit


class Asked(NamedTuple):
    """One request. ``fields``: of its query, or of the form in its body."""

    method: str
    path: str
    fields: Mapping[str, str]


#: Status and text for what was asked.
Answering = Callable[[Asked], tuple[int, str]]


class WebService:
    """``answer`` may be replaced while it runs. While ``gate`` is not set, answers wait."""

    def __init__(self, answer: Answering, headers: Mapping[str, str] | None = None) -> None:
        self.answer = answer
        self.asked: list[Asked] = []
        self.gate = threading.Event()
        self.gate.set()
        service = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                self._answer(urlsplit(self.path).query)

            def do_POST(self) -> None:
                length = int(self.headers.get("Content-Length", "0"))
                self._answer(self.rfile.read(length).decode())

            def _answer(self, text: str) -> None:
                fields = dict(parse_qsl(text, keep_blank_values=True))
                asked = Asked(self.command, urlsplit(self.path).path, fields)
                service.asked.append(asked)
                assert service.gate.wait(60)
                status, body = service.answer(asked)
                octets = body.encode()
                self.send_response(status)
                for name, value in (headers or {}).items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(octets)))
                self.end_headers()
                self.wfile.write(octets)

            def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
                """Nothing: ``asked`` has what came."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,))

    @property
    def url(self) -> str:
        """Where it is, without a path."""
        host, port = self._server.server_address[:2]
        return f"http://{host!s}:{port}"

    def asked_for(self, path: str) -> list[Mapping[str, str]]:
        """The fields of each request for a path."""
        return [each.fields for each in list(self.asked) if each.path == path]

    def start(self) -> None:
        """Serve until ``stop``."""
        self._thread.start()

    def stop(self) -> None:
        """Answer what waits, and end."""
        self.gate.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


@contextmanager
def web_service(
    answer: Answering, headers: Mapping[str, str] | None = None
) -> Iterator[WebService]:
    """A server that runs while the block does."""
    service = WebService(answer, headers)
    service.start()
    try:
        yield service
    finally:
        service.stop()


def key_server(*keys: Mapping[str, Any]) -> Answering:
    """What answers with a JSON Web Key Set."""
    text = json.dumps({"keys": list(keys)})
    return lambda asked: (200, text) if asked.path == "/jwks" else (404, "nothing here")
