"""A server of ``/api/stream``: streams in memory, over real HTTP, with each failure on demand.

``StreamServer`` listens on a port that the system chooses, on a thread of its own. It answers as
the broker's management port does, and misbehaves where `Faults` say so. For tests of the Spark
source: they change streams while a query is stopped, or runs.
"""

from __future__ import annotations

import json
import threading
import time
from array import array
from base64 import b64encode
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, unquote, urlsplit

from hareline.wire.properties import NO_PROPERTIES
from hareline.wire.stream_chunks import BROKER_HEADER, CONTENT_TYPE, encode_chunk, encode_error
from hareline.wire.table import encode_shortstr

CLASSIC_REASON = (
    "queue 'classic' in vhost '/' is not a stream; declare it with x-archive-to, which names a "
    "stream that gets a copy of each message"
)


@dataclass(frozen=True)
class Stored:
    """A message of a stream."""

    body: bytes
    arrival_us: int
    exchange: str = ""
    routing_key: str = ""
    properties: bytes = NO_PROPERTIES

    @property
    def meta(self) -> bytes:
        """As it is in a chunk."""
        return encode_shortstr(self.exchange) + encode_shortstr(self.routing_key) + self.properties


class Stream:
    """Messages by offset. Tests truncate, redeclare and regress it."""

    def __init__(self, incarnation: str) -> None:
        self.incarnation = incarnation
        self.first = 0
        self.messages: list[Stored] = []

    @property
    def next(self) -> int:
        """One past the last message."""
        return self.first + len(self.messages)

    def publish(self, *messages: Stored) -> None:
        """Append messages."""
        self.messages += messages

    def truncate(self, first: int) -> None:
        """Let retention drop what is before ``first``."""
        del self.messages[: first - self.first]
        self.first = first

    def regress(self, end: int) -> None:
        """Lose the messages from ``end`` on, as a crash of a broken disk does."""
        del self.messages[end - self.first :]

    def state(self, queue: str) -> dict[str, object]:
        """As the broker describes it."""
        return {
            "queue": queue,
            "incarnation": self.incarnation,
            "first": self.first,
            "next": self.next,
            "bytes": sum(len(each.body) for each in self.messages),
            "first_timestamp_ms": self.messages[0].arrival_us // 1000 if self.messages else None,
        }


@dataclass
class Faults:
    """What goes wrong; a number says how often, or at which offset."""

    #: So many answers of ranges are 503.
    unavailable: int = 0
    #: So many ranges end their connection in the middle of a chunk.
    drops: int = 0
    #: So many ranges have a wrong octet.
    damaged: int = 0
    #: So many ranges are answered with nothing.
    empty: int = 0
    #: So many ranges end with the error "stopping", after a chunk.
    stopping: int = 0
    #: The answer goes from the message before this to the one after it.
    hole_at: int | None = None
    #: The answer ends with the error "missing" at this message.
    missing_at: int | None = None
    #: So many requests of any kind close the connection without an answer.
    hang_ups: int = 0
    #: So many requests of any kind are not answered for `slow_s`.
    slow: int = 0
    slow_s: float = 0.0
    #: Positions of readers are refused.
    no_readers: bool = False


@dataclass
class Seen:
    """What was asked."""

    paths: list[str] = field(default_factory=list)
    connections: int = 0
    #: Positions of readers, by queue and name.
    readers: dict[tuple[str, str], dict[str, object]] = field(default_factory=dict)


class StreamServer:
    """Use it by ``stream_server``."""

    def __init__(self, user: str = "guest", password: str = "guest") -> None:
        self.streams: dict[str, Stream] = {}
        self.classic: set[str] = {"classic"}
        self.forbidden: set[str] = set()
        self.faults = Faults()
        self.seen = Seen()
        #: Called when a stream is asked for that is not there, before the answer that says so.
        self.when_gone: Callable[[], object] = int
        #: Goes with each answer, if it is not empty.
        self.broker_id = ""
        self.chunk_rows = 100
        self.max_octets = 64 << 20
        self.authorization = "Basic " + b64encode(f"{user}:{password}".encode()).decode()
        self.changed = threading.Condition()
        self._incarnations = 0
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._server.daemon_threads = True
        self._thread = threading.Thread(
            target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True
        )
        self._thread.start()

    @property
    def url(self) -> str:
        """Of the management port."""
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    @property
    def options(self) -> dict[str, str]:
        """What the source needs to find it, and short times."""
        return {
            "url": "amqp://127.0.0.1",
            "httpUrl": self.url,
            "user": "guest",
            "password": "guest",
            "requestTimeoutMs": "5000",
        }

    def declare(self, queue: str) -> Stream:
        """A new stream of that name; the one before it is gone."""
        self._incarnations += 1
        stream = self.streams[queue] = Stream(f"{self._incarnations:016x}")
        return stream

    def fill(self, queue: str, count: int, size: int = 20) -> Stream:
        """Publish messages whose bodies begin with their offset; declare the stream if needed."""
        stream = self.streams.get(queue) or self.declare(queue)
        with self.changed:
            for number in range(stream.next, stream.next + count):
                body = f"{queue}:{number};".encode().ljust(size, b".")
                stream.publish(Stored(body, 1_000_000 * (1 + number), "ex", f"key.{number % 3}"))
            self.changed.notify_all()
        return stream

    def close(self) -> None:
        """End it."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


@contextmanager
def stream_server() -> Iterator[StreamServer]:
    """A server that ends with the block."""
    server = StreamServer()
    try:
        yield server
    finally:
        server.close()


class _Refusal(Exception):
    def __init__(self, status: int, error: str, reason: str, **more: object) -> None:
        super().__init__(reason)
        self.status = status
        self.fields = {"error": error, "reason": reason, **more}


def _handler(server: StreamServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def setup(self) -> None:
            super().setup()
            server.seen.connections += 1

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            """Nothing: tests look at `Seen`."""

        def do_GET(self) -> None:
            self._answer()

        def do_PUT(self) -> None:
            self._answer()

        def _answer(self) -> None:
            size = int(self.headers.get("Content-Length") or 0)
            body = self.rfile.read(size)
            server.seen.paths.append(f"{self.command} {self.path}")
            try:
                if server.faults.hang_ups > 0:
                    server.faults.hang_ups -= 1
                    self.close_connection = True
                    return
                if server.faults.slow > 0:
                    server.faults.slow -= 1
                    time.sleep(server.faults.slow_s)
                self._route(body)
            except _Refusal as refusal:
                self._json(refusal.status, refusal.fields)
            except (BrokenPipeError, ConnectionResetError):
                self.close_connection = True

        def _route(self, body: bytes) -> None:
            if self.headers.get("Authorization") != server.authorization:
                raise _Refusal(401, "not_authorized", "user or password is wrong")
            parts = urlsplit(self.path)
            names = [unquote(each) for each in parts.path.split("/")[3:]]
            query = {name: values[0] for name, values in parse_qs(parts.query).items()}
            if names[0] != "/":
                raise _Refusal(404, "not_found", f"no virtual host {names[0]!r}")
            if len(names) == 1:
                known = {
                    queue: each
                    for queue, each in sorted(server.streams.items())
                    if queue not in server.forbidden
                }
                self._json(200, [each.state(queue) for queue, each in known.items()])
                return
            queue, what = names[1], names[2]
            if queue in server.classic:
                raise _Refusal(409, "not_a_stream", CLASSIC_REASON)
            if queue in server.forbidden:
                raise _Refusal(403, "access_refused", f"no read right on {queue!r}")
            if queue not in server.streams:
                server.when_gone()
                raise _Refusal(404, "not_found", f"no queue {queue!r} in vhost '/'")
            stream = server.streams[queue]
            if what == "tail":
                after = int(query.get("after", -1))
                with server.changed:
                    server.changed.wait_for(
                        lambda: stream.next > after, int(query.get("wait_ms", 0)) / 1000
                    )
                self._json(200, stream.state(queue))
            elif what == "offset-for-timestamp":
                at_us = int(query["timestamp_ms"]) * 1000
                numbers = range(stream.first, stream.next)
                offset = next(
                    (
                        at
                        for at in numbers
                        if stream.messages[at - stream.first].arrival_us >= at_us
                    ),
                    stream.next,
                )
                self._json(200, {"offset": offset, "incarnation": stream.incarnation})
            elif what == "readers":
                if server.faults.no_readers:
                    raise _Refusal(403, "access_refused", "no readers today")
                server.seen.readers[queue, names[3]] = json.loads(body)
                self._json(200, {"name": names[3]})
            else:
                self._range(queue, stream, query)

        def _range(self, queue: str, stream: Stream, query: dict[str, str]) -> None:
            start, end = int(query["start"]), int(query["end"])
            faults = server.faults
            if faults.unavailable > 0:
                faults.unavailable -= 1
                raise _Refusal(503, "stopping", "the broker is starting")
            if query.get("incarnation", stream.incarnation) != stream.incarnation:
                raise _Refusal(
                    409, "incarnation_changed", "declared again", incarnation=stream.incarnation
                )
            if start < stream.first:
                raise _Refusal(410, "truncated", "dropped by retention", first=stream.first)
            if end > stream.next:
                raise _Refusal(416, "beyond_tail", "not there yet", next=stream.next)
            self.send_response(200)
            self.send_header("Content-Type", CONTENT_TYPE)
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            for octets in self._chunks(stream, start, end):
                if faults.drops > 0:
                    faults.drops -= 1
                    self.wfile.write(b"%x\r\n%b" % (len(octets), octets[: len(octets) // 2]))
                    self.close_connection = True
                    return
                self.wfile.write(b"%x\r\n%b\r\n" % (len(octets), octets))
            self.wfile.write(b"0\r\n\r\n")

        def _chunks(self, stream: Stream, start: int, end: int) -> Iterator[bytes]:
            faults = server.faults
            if faults.empty > 0:
                faults.empty -= 1
                return
            at, sent = start, 0
            while at < end and sent < server.max_octets:
                if at == faults.missing_at:
                    yield encode_error("missing", "its record cannot be read", at)
                    return
                if at == faults.hole_at:
                    at += 1
                stop = min(at + server.chunk_rows, end)
                stop = min(
                    [stop, *(b for b in (faults.hole_at, faults.missing_at) if b and b > at)]
                )
                rows = stream.messages[at - stream.first : stop - stream.first]
                pieces = encode_chunk(
                    at,
                    array("Q", [each.arrival_us for each in rows]),
                    [each.meta for each in rows],
                    [each.body for each in rows],
                )
                octets = bytearray(b"".join(pieces))
                if faults.damaged > 0:
                    faults.damaged -= 1
                    octets[-1] ^= 1
                yield bytes(octets)
                sent += len(octets)
                at = stop
                if faults.stopping > 0:
                    faults.stopping -= 1
                    yield encode_error("stopping", "the broker stops")
                    return

        def _json(self, status: int, fields: object) -> None:
            octets = json.dumps(fields).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            if server.broker_id:
                self.send_header(BROKER_HEADER, server.broker_id)
            self.send_header("Content-Length", str(len(octets)))
            self.end_headers()
            self.wfile.write(octets)

    return Handler
