"""A process that asks the HTTP API as a browser does, and knows how long each answer took.

Used by ``scenarios``. It is a process of its own, so that the generator of messages and the
requests do not wait for each other; each request that is repeated has a thread and a connection.
"""

from __future__ import annotations

import base64
import http.client
import multiprocessing
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from types import TracebackType
from typing import Final, Self
from urllib.parse import urlsplit

from benchmarks.macro.errors import BenchmarkError

TIMEOUT_S: Final = 60.0
#: between an answer and the next request where nothing else is said
PAUSE_S: Final = 0.02

_HEADERS: Final = {
    "Authorization": "Basic " + base64.b64encode(b"guest:guest").decode(),
    "Content-Type": "application/json",
}


@dataclass(frozen=True)
class Ask:
    """A request; with a `body` it is a POST. `every_s`: from an answer to the next request."""

    path: str
    every_s: float = PAUSE_S
    body: str = ""


class Asker:
    """The process; use it in a ``with`` statement."""

    def __init__(self, url: str) -> None:
        self._pipe, theirs = multiprocessing.Pipe()
        context = multiprocessing.get_context("spawn")
        self._process = context.Process(target=_serve, args=(url, theirs), daemon=True)
        self._process.start()
        theirs.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._pipe.close()  # which ends it
        self._process.join(TIMEOUT_S)

    def begin(self, asks: Sequence[Ask], seconds: float) -> None:
        """Ask all of them again and again for so long."""
        self._pipe.send((tuple(asks), seconds))

    def end(self) -> list[list[float]]:
        """How many seconds each answer took, by request; waits for the last.

        :raises BenchmarkError: an answer was no success, or did not come.
        """
        found = self._pipe.recv()
        if isinstance(found, str):
            raise BenchmarkError(found)
        assert isinstance(found, list)
        return found

    def times(self, asks: Sequence[Ask], seconds: float) -> list[list[float]]:
        """Ask for so long; how many seconds each answer took. :raises BenchmarkError: as `end`."""
        self.begin(asks, seconds)
        return self.end()


def _serve(url: str, pipe: Connection) -> None:
    """Ask what comes over the pipe until it is closed."""
    while True:
        try:
            asks, seconds = pipe.recv()
        except EOFError:
            return
        pipe.send(_ask_all(url, asks, seconds))


def _ask_all(url: str, asks: Sequence[Ask], seconds: float) -> list[list[float]] | str:
    """How long the answers took, or why one of them does not count."""
    end_s = time.monotonic() + seconds
    found: list[list[float]] = [[] for _ in asks]
    problems: list[str] = []

    def go(ask: Ask, times: list[float]) -> None:
        try:
            _ask_until(url, ask, end_s, times)
        except (OSError, http.client.HTTPException, BenchmarkError) as error:
            problems.append(f"{ask.path}: {error!r}")

    threads = [threading.Thread(target=go, args=pair) for pair in zip(asks, found, strict=True)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return problems[0] if problems else found


def _ask_until(url: str, ask: Ask, end_s: float, times: list[float]) -> None:
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=TIMEOUT_S)
    while True:
        started_s = time.monotonic()
        octets = request(connection, ask)
        now_s = time.monotonic()
        if not octets:
            raise BenchmarkError("an answer without a body")
        times.append(now_s - started_s)
        if now_s + ask.every_s >= end_s:
            return
        if ask.every_s > 4:  # as long as a server keeps a connection that is not used
            connection.close()
        time.sleep(ask.every_s)


def request(connection: http.client.HTTPConnection, ask: Ask) -> bytes:
    """The body of an answer. :raises BenchmarkError: it is no success."""
    method = "POST" if ask.body else "GET"
    connection.request(method, ask.path, ask.body or None, _HEADERS)
    with connection.getresponse() as answer:
        octets = answer.read()
        if answer.status != 200:
            raise BenchmarkError(f"answered with {answer.status}: {octets[:200]!r}")
        return octets
