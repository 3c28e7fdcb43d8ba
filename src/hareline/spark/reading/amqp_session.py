"""A connection that consumes from streams in straight-line code, with one channel at a time.

Frames are decoded here, since pika does not keep the octets of properties. There are no threads
and no heartbeats: between two record batches Spark may compute for minutes. Invariant: deliveries
come out whole and in order; the broker's refusal is a `Refusal`, trouble of the network an OSError.
"""

from __future__ import annotations

import contextlib
import socket
import ssl
import time
from collections import deque
from struct import Struct
from struct import error as struct_error
from typing import Final, NamedTuple, NoReturn, Self, TypeVar

from hareline.errors import AmqpError, MalformedFrame
from hareline.spark.errors import BrokerRefused, MessageTooLarge
from hareline.spark.reading.access import MESSAGE_MAX, too_large_text
from hareline.spark.shared.headers import Field, MalformedField, fields_in
from hareline.spark.shared.options import KEEPALIVE, Connection
from hareline.wire.constants import (
    FLAG_CONTENT_ENCODING,
    FLAG_CONTENT_TYPE,
    FLAG_HEADERS,
    FRAME_BODY,
    FRAME_END,
    FRAME_HEADER,
    FRAME_HEARTBEAT,
    FRAME_METHOD,
)
from hareline.wire.encoder import ack_frame
from hareline.wire.methods import Frame, commands, decode_method, encode_method
from hareline.wire.table import Timestamp

#: Where a consumer begins: ``first``, ``last``, an offset, or a time in seconds.
Start = str | int | Timestamp

_HEADER: Final = b"AMQP\0\0\x09\x01"
_FRAME_HEAD: Final = Struct(">BHI")
_TAG: Final = Struct(">Q")
_DELIVER: Final = commands.Basic.Deliver.index
_FRAME_MAX: Final = 131_072
_RECEIVE_OCTETS: Final = 262_144
_CHANNEL: Final = 1
_CLOSE_S: Final = 5.0
_CONNECTION_FORCED: Final = 320
_SUCCESS: Final = 200
_CONSUMER: Final = "spark"
_CAPABILITIES: Final = ("authentication_failure_close", "consumer_cancel_notify")

#: Taken out of deliveries: the broker puts it into what consumers get.
_OFFSET_HEADER: Final = b"x-stream-offset"
_INTEGERS: Final = frozenset(map(ord, "lLIi"))
_SIZE: Final = Struct(">I")

Reply = TypeVar("Reply", bound=Frame)


class Delivery(NamedTuple):
    """A message with its place; ``meta``: as in ``wire.stream_chunks``. All are octets."""

    tag: int
    #: None if the broker did not say: the queue is not a stream.
    offset: int | None
    meta: bytes
    size: int
    #: Empty if the consumer does not ask for bodies.
    body: bytes


class Refusal(Exception):
    """The broker closed the channel or the connection; ``text`` is what it said.

    ``is_at_login``: it did so before the connection was open.
    """

    def __init__(self, code: int, text: str, *, is_at_login: bool) -> None:
        super().__init__(f"{code} {text}")
        self.code = code
        self.text = text
        self.is_at_login = is_at_login


class ConsumerCancelled(Exception):
    """The broker ended the consumer: its queue is gone, or it has come to its end."""


class AmqpSession:
    """Opens its connection at once; as a context manager closes it at the end."""

    def __init__(self, connection: Connection, timeout_s: float) -> None:
        """``timeout_s``: how long the broker may send nothing. Raises OSError, Refusal."""
        self._where = f"{connection.host}:{connection.port}"
        self._timeout_s = timeout_s
        self._octets = b""
        self._at = 0
        self._arrived: deque[Delivery] = deque()
        self._queue = ""
        self._keeps_bodies = True
        self._is_open = False
        self._has_channel = False
        #: True if the broker is a Hareline, which tells a consumer when it has come to the end.
        self.is_hareline = False
        #: True if the broker puts records of its own between the messages of a stream.
        self.has_gaps = False
        self._socket = socket.create_connection((connection.host, connection.port), timeout_s)
        try:
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            for name, value in KEEPALIVE.items():
                if hasattr(socket, name):
                    self._socket.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
            if connection.is_tls:
                context = ssl.create_default_context()
                self._socket = context.wrap_socket(self._socket, server_hostname=connection.host)
            self._open(connection)
        except BaseException:
            self._socket.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # ---------------------------------------------------------------------------- consuming

    def consume(
        self,
        queue: str,
        start: Start,
        prefetch: int,
        *,
        keeps_bodies: bool = True,
        until_end: bool = False,
    ) -> None:
        """Begin a consumer on a new channel, which ends the one before. Raises Refusal, OSError.

        ``until_end``: a Hareline ends the consumer where there is nothing more.
        """
        self.end_channel()
        self._call(commands.Channel.Open, commands.Channel.OpenOk)
        self._has_channel = True
        self._queue, self._keeps_bodies = queue, keeps_bodies
        self._call(commands.Basic.Qos, commands.Basic.QosOk, prefetch_count=prefetch)
        arguments: dict[str, object] = {"x-stream-offset": start}
        if until_end and self.is_hareline:
            arguments["x-filter-auto-close"] = True
        self._call(
            commands.Basic.Consume,
            commands.Basic.ConsumeOk,
            queue=queue,
            consumer_tag=_CONSUMER,
            arguments=arguments,
        )

    def next_delivery(self, wait_s: float) -> Delivery | None:
        """The next delivery; None if none comes for so long.

        Raises ConsumerCancelled, Refusal, MessageTooLarge, OSError.
        """
        deadline = time.monotonic() + wait_s
        while not self._arrived:
            try:
                frame = self._frame(deadline)
            except TimeoutError:
                return None
            self._take(*frame)
        return self._arrived.popleft()

    def deliveries_before_reply(self) -> list[Delivery]:
        """Deliveries that the broker sends before its reply to another method."""
        self.count()
        arrived = list(self._arrived)
        self._arrived.clear()
        return arrived

    def count(self) -> int:
        """Messages that the broker counts in the queue; RabbitMQ counts seconds late."""
        declared = self._call(
            commands.Queue.Declare, commands.Queue.DeclareOk, queue=self._queue, passive=True
        )
        return declared.message_count or 0

    def acknowledge(self, tag: int) -> None:
        """Give the credit of all deliveries up to this tag back."""
        self._send(ack_frame(_CHANNEL, tag, True))

    def end_channel(self) -> None:
        """Close the channel with its consumer, if there is one; what was on its way is dropped."""
        if not self._has_channel:
            return
        self._has_channel = False
        self._send(
            encode_method(_CHANNEL, commands.Channel.Close, reply_code=_SUCCESS, reply_text="done")
        )
        self._await_end(commands.Channel.CloseOk, self._timeout_s)
        self._arrived.clear()

    def close(self) -> None:
        """Close the connection, in order if that is possible."""
        if self._is_open:
            self._is_open = False
            with contextlib.suppress(OSError, AmqpError, BrokerRefused, Refusal):
                goodbye = encode_method(
                    0, commands.Connection.Close, reply_code=_SUCCESS, reply_text="done"
                )
                self._send(goodbye)
                self._await_end(commands.Connection.CloseOk, _CLOSE_S)
        self._socket.close()

    # ------------------------------------------------------------------------------ methods

    def _greet(self) -> dict[str, object]:
        """Send the protocol header; returns the server properties."""
        self._send(_HEADER)
        return dict(self._await(commands.Connection.Start).server_properties or {})

    def _open(self, connection: Connection) -> None:
        server = self._greet()
        self.is_hareline = str(server.get("brand", "")).startswith("Hareline")
        self.has_gaps = server.get("product") == "RabbitMQ" and not self.is_hareline
        self._send(
            encode_method(
                0,
                commands.Connection.StartOk,
                client_properties={
                    "product": "Hareline",
                    "connection_name": "hareline spark source",
                    "capabilities": dict.fromkeys(_CAPABILITIES, True),
                },
                mechanism="PLAIN",
                response=f"\0{connection.user}\0{connection.password}",
                locale="en_US",
            )
        )
        tune = self._await(commands.Connection.Tune)
        frame_max = min(_FRAME_MAX, tune.frame_max or _FRAME_MAX)
        self._send(
            encode_method(
                0,
                commands.Connection.TuneOk,
                channel_max=tune.channel_max,
                frame_max=frame_max,
                heartbeat=0,
            )
        )
        self._send(encode_method(0, commands.Connection.Open, virtual_host=connection.vhost))
        self._await(commands.Connection.OpenOk)
        self._is_open = True

    def _call(self, method: type[Frame], reply: type[Reply], **fields: object) -> Reply:
        """Send a method on the channel and wait for its reply; deliveries before it are kept."""
        self._send(encode_method(_CHANNEL, method, **fields))
        return self._await(reply)

    def _await(self, reply: type[Reply]) -> Reply:
        while True:
            answer = self._take(*self._frame(time.monotonic() + self._timeout_s))
            if isinstance(answer, reply):
                return answer
            if answer is not None:
                self._raise_strange(f"it sends {answer.name}")

    def _await_end(self, reply: type[Frame], seconds: float) -> None:
        """Drop what comes until the broker agrees to the end."""
        deadline = time.monotonic() + seconds
        while True:
            kind, _, payload = self._frame(deadline)
            if kind == FRAME_METHOD and int.from_bytes(payload[:4], "big") == reply.index:
                return

    def _take(self, kind: int, channel: int, payload: bytes) -> Frame | None:
        """The method in a frame; None if it was a delivery, which is kept, or a heartbeat."""
        if kind == FRAME_HEARTBEAT:
            return None
        if kind != FRAME_METHOD:
            self._raise_strange(f"a frame of type {kind} is out of place")
        if int.from_bytes(payload[:4], "big") == _DELIVER:
            self._arrived.append(self._delivery(payload))
            return None
        try:
            method = decode_method(payload)
        except AmqpError as problem:
            self._raise_strange(str(problem))
        if isinstance(method, commands.Basic.Cancel):
            raise ConsumerCancelled
        if isinstance(method, commands.Channel.Close):
            self._has_channel = False
            self._send(encode_method(channel, commands.Channel.CloseOk))
            self._refuse(method)
        if isinstance(method, commands.Connection.Close):
            was_open, self._is_open = self._is_open, False
            with contextlib.suppress(OSError):
                self._send(encode_method(0, commands.Connection.CloseOk))
            if method.reply_code == _CONNECTION_FORCED:
                raise ConnectionError(f"the broker closed the connection: {method.reply_text}")
            self._refuse(method, is_at_login=not was_open)
        return method

    def _refuse(
        self, method: commands.Channel.Close | commands.Connection.Close, is_at_login: bool = False
    ) -> NoReturn:
        raise Refusal(method.reply_code or 0, method.reply_text or "", is_at_login=is_at_login)

    def _raise_strange(self, what: str) -> NoReturn:
        self._is_open = False
        raise BrokerRefused(
            f"{self._where} does not answer as an AMQP broker does: {what}; "
            "is url the address of its AMQP port?"
        )

    # --------------------------------------------------------------------------- deliveries

    def _delivery(self, method: bytes) -> Delivery:
        """The delivery that begins with this method; the rest of it is read from the socket."""
        tag_at = 5 + method[4]  # behind the consumer tag
        (tag,) = _TAG.unpack_from(method, tag_at)
        kind, _, header = self._frame(time.monotonic() + self._timeout_s)
        if kind != FRAME_HEADER:
            self._raise_strange(f"a frame of type {kind} follows a delivery")
        size = int.from_bytes(header[4:12], "big")
        try:
            offset, properties = take_offset(header[12:])
        except MalformedFrame as problem:
            self._raise_strange(str(problem))
        if self._keeps_bodies and size > MESSAGE_MAX:
            raise MessageTooLarge(too_large_text(self._queue, offset or 0, size, MESSAGE_MAX))
        body = self._body(size)
        return Delivery(tag, offset, method[tag_at + 9 :] + properties, size, body)

    def _body(self, size: int) -> bytes:
        parts = []
        left = size
        while left > 0:
            kind, _, part = self._frame(time.monotonic() + self._timeout_s)
            if kind != FRAME_BODY or not 0 < len(part) <= left:
                self._raise_strange("a body does not have the octets that were announced")
            left -= len(part)
            if self._keeps_bodies:
                parts.append(part)
        return parts[0] if len(parts) == 1 else b"".join(parts)

    # ------------------------------------------------------------------------------- octets

    def _frame(self, deadline: float) -> tuple[int, int, bytes]:
        """Type, channel and payload of the next frame. Raises TimeoutError, OSError."""
        while True:
            octets, at = self._octets, self._at
            if len(octets) >= at + _FRAME_HEAD.size:
                kind, channel, size = _FRAME_HEAD.unpack_from(octets, at)
                if size > _FRAME_MAX:
                    self._raise_strange(f"its octets begin with {octets[at : at + 8]!r}")
                start = at + _FRAME_HEAD.size
                end = start + size
                if len(octets) > end:
                    if octets[end] != FRAME_END:
                        self._raise_strange("a frame does not end where it should")
                    self._at = end + 1
                    return kind, channel, octets[start:end]
            self._receive(deadline)

    def _receive(self, deadline: float) -> None:
        left_s = deadline - time.monotonic()
        if left_s <= 0:
            raise TimeoutError(f"the broker sent nothing for {self._timeout_s:g} s")
        self._socket.settimeout(left_s)
        received = self._socket.recv(_RECEIVE_OCTETS)
        if not received:
            raise ConnectionError("the broker closed the connection")
        self._octets = self._octets[self._at :] + received
        self._at = 0

    def _send(self, octets: bytes) -> None:
        self._socket.settimeout(self._timeout_s)
        self._socket.sendall(octets)


class _Greeting(AmqpSession):
    """Hears what the broker says of itself, and does not log in."""

    def _open(self, connection: Connection) -> None:
        self.broker_id = str(self._greet().get("broker_id", ""))


def broker_id_at(connection: Connection, timeout_s: float) -> str:
    """The id of the broker at the AMQP port; empty if it tells none.

    Raises OSError, Refusal, BrokerRefused.
    """
    with _Greeting(connection, timeout_s) as greeting:
        return greeting.broker_id


def take_offset(properties: bytes) -> tuple[int | None, bytes]:
    """The offset in these property octets, and the octets without it, as in a range of a stream.

    A headers table that is empty then goes as a whole. Raises MalformedFrame.
    """
    try:
        flags = properties[0] << 8 | properties[1]
        if not flags & FLAG_HEADERS:
            return None, properties
        size_at = 2
        if flags & FLAG_CONTENT_TYPE:
            size_at += 1 + properties[size_at]
        if flags & FLAG_CONTENT_ENCODING:
            size_at += 1 + properties[size_at]
        table_end = size_at + 4 + _SIZE.unpack_from(properties, size_at)[0]
        properties[table_end - 1]  # is there
        fields, behind = properties[size_at + 4 : table_end], properties[table_end:]
        found = next((each for each in fields_in(fields) if _is_offset(fields, each)), None)
    except (IndexError, struct_error, MalformedField):
        raise MalformedFrame("the headers of a delivery are not a table") from None
    if found is None:
        return None, properties
    offset = int.from_bytes(fields[found.kind_at + 1 : found.end], "big", signed=True)
    left = fields[: found.start] + fields[found.end :]
    if left:
        return offset, properties[:size_at] + _SIZE.pack(len(left)) + left + behind
    return offset, (flags & ~FLAG_HEADERS).to_bytes(2, "big") + properties[2:size_at] + behind


def _is_offset(fields: bytes, field: Field) -> bool:
    start, kind_at, _ = field
    return fields[kind_at] in _INTEGERS and fields[start + 1 : kind_at] == _OFFSET_HEADER
