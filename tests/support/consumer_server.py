"""A broker of scripted streams over AMQP, for tests of the source without a broker.

It speaks as much AMQP as a consumer of streams needs, with the habits of the three kinds of broker:
Hareline (ends consumers at the end), RabbitMQ (delivers whole chunks, counts late, has gaps) and
others. Tests choose what each stream has, and what goes wrong.
"""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from hareline.spark.shared.options import CONNECTION_OPTIONS, Connection, OptionReader
from hareline.wire.encoder import body_frames, header_frame
from hareline.wire.methods import Frame, commands, decode_method, encode_method
from hareline.wire.properties import with_integer_header
from hareline.wire.stream_chunks import ChunkHeader
from hareline.wire.table import Timestamp

BRANDS = {
    "hareline": {"product": "RabbitMQ", "brand": "Hareline 0.1.0"},
    "rabbitmq": {"product": "RabbitMQ"},
    "other": {"product": "Other"},
}
_NO_PROPERTIES = b"\0\0"
_HEARTBEAT = b"\x08\0\0\0\0\0\0\xce"


@dataclass
class Scripted:
    """A stream: its messages by offset, in order."""

    messages: dict[int, bytes] = field(default_factory=dict)
    #: Offsets at which chunks begin; a consumer gets the whole chunk of its first message.
    chunks: list[int] = field(default_factory=list)
    properties: bytes = _NO_PROPERTIES
    #: What a consumer at a time begins with.
    by_time: dict[int, int] = field(default_factory=dict)
    #: Deliveries have no offset.
    is_plain: bool = False
    #: Consumers get nothing.
    is_mute: bool = False

    def fill(self, start: int, end: int, size: int = 10) -> Scripted:
        """Add messages whose bodies begin with their offset."""
        for at in range(start, end):
            self.messages[at] = b"%d;" % at + b"." * size
        return self

    def begin(self, start: object) -> int:
        """The first offset that a consumer gets which asks for this."""
        if isinstance(start, Timestamp):
            return self.by_time.get(int(start), max(self.messages, default=-1) + 1)
        if start == "first":
            return min(self.messages, default=0)
        if start == "last":
            last = max(self.messages, default=0)
            return max((at for at in self.chunks if at <= last), default=last)
        assert isinstance(start, int)
        return max((at for at in self.chunks if at <= start), default=start)


class ConsumerServer:
    """Use it by ``consumer_server``."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.broker_id = ""
        self.streams: dict[str, Scripted] = {}
        #: Answers of consumes, by queue: code and text.
        self.refusals: dict[str, tuple[int, str]] = {}
        #: The vhost is refused with these words.
        self.vhost_refusal = ""
        #: So many connections end after the delivery of a message of this offset.
        self.drop_at: int | None = None
        self.drops = 0
        self.when_dropped: Callable[[], object] = int
        #: The consumer is cancelled after the message of this offset.
        self.cancel_at: int | None = None
        self.body_frame_max = 131_072
        self.connections = 0
        self.open_connections = 0
        self.consumes: list[object] = []
        self.counts_late = kind == "rabbitmq"
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._listener.settimeout(0.01)
        self._is_over = False
        self._threads: list[threading.Thread] = []
        self._acceptor = threading.Thread(target=self._accept)
        self._acceptor.start()

    @property
    def port(self) -> int:
        """Where it listens."""
        port: int = self._listener.getsockname()[1]
        return port

    @property
    def options(self) -> dict[str, str]:
        """How a user of Spark says where it is."""
        return {"url": f"amqp://127.0.0.1:{self.port}", "user": "guest"}

    def connection(self, password: str = "guest") -> Connection:
        """How the source finds it."""
        given = {**self.options, "password": password}
        return OptionReader(given, CONNECTION_OPTIONS, {}).connection()

    def close(self) -> None:
        """End it with all connections."""
        self._is_over = True
        self._acceptor.join()
        self._listener.close()
        for thread in self._threads:
            thread.join()

    def _accept(self) -> None:
        while not self._is_over:
            with contextlib.suppress(TimeoutError):
                accepted, _ = self._listener.accept()
                self.connections += 1
                self.open_connections += 1
                thread = threading.Thread(target=self._serve, args=(accepted,))
                self._threads.append(thread)
                thread.start()

    def _serve(self, accepted: socket.socket) -> None:
        try:
            with accepted, contextlib.suppress(ConnectionError):
                accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                accepted.settimeout(0.005)
                _Served(self, accepted).run(lambda: self._is_over)
        finally:
            self.open_connections -= 1


class _Served:
    """One connection."""

    def __init__(self, server: ConsumerServer, accepted: socket.socket) -> None:
        self._server = server
        self._socket = accepted
        self._octets = b""
        self._stream: Scripted | None = None
        self._queue = ""
        self._at = 0
        self._credit = self._prefetch = 0
        self._tag = self._acked = 0
        self._until_end = False
        self._is_over = False

    def run(self, is_over: Callable[[], bool]) -> None:
        while not (self._is_over or is_over()):
            try:
                received = self._socket.recv(65_536)
            except TimeoutError:
                self._deliver()
                continue
            if not received:
                return
            self._octets += received
            if self._octets.startswith(b"AMQP"):
                self._octets = self._octets[8:]
                start = {"version_major": 0, "version_minor": 9, "mechanisms": "PLAIN"}
                properties = {**BRANDS[self._server.kind], "broker_id": self._server.broker_id}
                self._send(commands.Connection.Start, 0, server_properties=properties, **start)
            while len(self._octets) >= 8 and not self._is_over:
                end = 8 + int.from_bytes(self._octets[3:7], "big")
                if len(self._octets) < end:
                    break
                payload, self._octets = self._octets[7 : end - 1], self._octets[end:]
                self._answer(decode_method(payload))
            self._deliver()

    def _answer(self, method: Frame) -> None:
        server = self._server
        match method:
            case commands.Connection.StartOk():
                if method.response != "\0guest\0guest":
                    self._close(403, "ACCESS_REFUSED - Login was refused")
                    return
                self._send(commands.Connection.Tune, 0, channel_max=5, frame_max=131_072)
            case commands.Connection.Open():
                if server.vhost_refusal:
                    self._close(530, server.vhost_refusal)
                    return
                self._send(commands.Connection.OpenOk, 0)
            case commands.Connection.Close():
                self._send(commands.Connection.CloseOk, 0)
                self._is_over = True
            case commands.Channel.Open():
                self._send(commands.Channel.OpenOk)
            case commands.Channel.Close():
                self._stream = None
                self._send(commands.Channel.CloseOk)
            case commands.Basic.Qos():
                self._prefetch = self._credit = method.prefetch_count or 0
                self._tag = self._acked = 0
                self._socket.sendall(_HEARTBEAT)
                self._send(commands.Basic.QosOk)
            case commands.Queue.Declare():
                self._deliver()
                stream = server.streams.get(str(method.queue), Scripted())
                count = 0 if server.counts_late else len(stream.messages)
                self._send(commands.Queue.DeclareOk, queue=method.queue, message_count=count)
            case commands.Basic.Ack():
                self._credit += (method.delivery_tag or 0) - self._acked
                self._acked = method.delivery_tag or 0
            case commands.Basic.Consume():
                self._consume(method)

    def _consume(self, method: commands.Basic.Consume) -> None:
        server, queue = self._server, str(method.queue)
        arguments = dict(method.arguments or {})
        server.consumes.append(arguments["x-stream-offset"])
        refusal = server.refusals.get(queue)
        if refusal is None and queue not in server.streams:
            refusal = (404, f"NOT_FOUND - no queue '{queue}' in vhost '/'")
        if refusal is not None:
            code, text = refusal
            self._send(commands.Channel.Close, reply_code=code, reply_text=text)
            return
        self._queue, self._stream = queue, server.streams[queue]
        self._at = self._stream.begin(arguments["x-stream-offset"])
        self._until_end = bool(arguments.get("x-filter-auto-close"))
        self._send(commands.Basic.ConsumeOk, consumer_tag=method.consumer_tag)

    def _deliver(self) -> None:
        """What there is credit for. A chunk that was begun is delivered whole."""
        server, stream = self._server, self._stream
        if stream is None:
            return
        if self._queue not in server.streams:
            self._cancel()
            return
        if stream.is_mute:
            return
        for at, body in sorted(stream.messages.items()):
            if at < self._at:
                continue
            is_in_chunk = bool(stream.chunks) and at not in stream.chunks
            if self._credit <= 0 and not (is_in_chunk and self._tag):
                return
            self._tag += 1
            self._credit -= 1
            self._at = at + 1
            self._send_delivery(stream, at, body)
            if server.cancel_at == at:
                self._cancel()
                return
            if server.drops and server.drop_at == at:
                server.drops -= 1
                server.when_dropped()
                self._is_over = True
                self._stream = None
                return
        if self._until_end:
            self._cancel()

    def _send_delivery(self, stream: Scripted, at: int, body: bytes) -> None:
        properties = stream.properties
        if not stream.is_plain:
            properties = with_integer_header(properties, b"x-stream-offset", at)
        frame_max = self._server.body_frame_max
        parts = [body[start : start + frame_max] for start in range(0, len(body), frame_max)]
        self._send(
            commands.Basic.Deliver,
            consumer_tag="spark",
            delivery_tag=self._tag,
            exchange="ex",
            routing_key=f"key.{at % 3}",
        )
        self._socket.sendall(header_frame(1, properties, len(body)))
        for part in parts:
            self._socket.sendall(b"".join(body_frames(part, 1, 131_072)))

    def _cancel(self) -> None:
        self._stream = None
        self._send(commands.Basic.Cancel, consumer_tag="spark", nowait=True)

    def _close(self, code: int, text: str) -> None:
        self._send(commands.Connection.Close, 0, reply_code=code, reply_text=text)
        self._is_over = True

    def _send(self, method: type[Frame], channel: int = 1, **fields: object) -> None:
        self._socket.sendall(encode_method(channel, method, **fields))


@contextmanager
def consumer_server(kind: str) -> Iterator[ConsumerServer]:
    """A server that ends with the block; ``kind``: whose habits it has."""
    server = ConsumerServer(kind)
    try:
        yield server
    finally:
        server.close()


def offsets_in(header: ChunkHeader, columns: bytearray) -> list[int]:
    """The offsets of a chunk of `Scripted.fill`, after a look at the bodies."""
    offsets = list(range(header.first_offset, header.first_offset + header.count))
    bodies = bytes(columns[len(columns) - header.bodies_size :])
    found = [int(each) for each in bodies.replace(b".", b"").split(b";")[:-1]]
    assert found == offsets
    assert len(columns) == header.columns_size
    return offsets


def wait_until_closed(server: ConsumerServer, seconds: float = 60) -> None:
    """Until no connection is open; fails after ``seconds``."""
    end = time.monotonic() + seconds
    while server.open_connections:
        assert time.monotonic() < end
        time.sleep(0.005)
