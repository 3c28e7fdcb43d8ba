"""A mini AMQP 0-9-1 client for the load generator: the handshake, the declarations, one channel.

Used by every scenario for what happens before and after the clock runs; while it runs, `traffic`
and the scenarios use `Client.sock` directly. Blocking, one outstanding call at a time.
"""

from __future__ import annotations

import contextlib
import socket
import ssl
import struct
from dataclasses import dataclass
from typing import Final, TypeVar
from urllib.parse import unquote, urlsplit

from pamqp import base, commands, common, frame, header

from benchmarks.macro.errors import BenchmarkError
from benchmarks.macro.frames import (
    BASIC_DELIVER,
    BASIC_GET_OK,
    FRAME_END,
    FRAME_HEAD_SIZE,
    FRAME_OVERHEAD,
    DeliveryShape,
)

FRAME_MAX: Final = 131_072
CALL_TIMEOUT_S: Final = 60.0
CHANNEL: Final = 1

_RECEIVE_OCTETS: Final = 262_144

Reply = TypeVar("Reply", bound=base.Frame)


@dataclass(frozen=True)
class BrokerUrl:
    """``amqp://user:password@host:port/vhost`` taken apart; an absent vhost is ``/``."""

    host: str
    port: int
    user: str
    password: str
    vhost: str

    @classmethod
    def parse(cls, url: str) -> BrokerUrl:
        parts = urlsplit(url)
        if parts.scheme != "amqp" or not parts.hostname:
            raise ValueError(f"not an amqp:// URL: {url!r}")
        return cls(
            host=parts.hostname,
            port=parts.port or 5672,
            user=unquote(parts.username or "guest"),
            password=unquote(parts.password or "guest"),
            vhost=unquote(parts.path[1:]) or "/",
        )


@dataclass(frozen=True)
class Content:
    """One delivery or get-ok, parsed frame by frame."""

    method: commands.Basic.Deliver | commands.Basic.GetOk
    properties: commands.Basic.Properties
    body: bytes
    shape: DeliveryShape


class Client:
    """One connection, with one open channel unless asked not to.

    Heartbeats are off and no capability is announced, so that a broker sends nothing unasked but
    deliveries, and octets can be counted. With a ``context`` it speaks TLS.
    """

    def __init__(
        self, url: str, *, with_channel: bool = True, context: ssl.SSLContext | None = None
    ) -> None:
        self._target = BrokerUrl.parse(url)
        self.frame_max = FRAME_MAX
        self.server_properties: dict[str, object] = {}
        self._buffer = bytearray()
        self.sock = socket.create_connection(
            (self._target.host, self._target.port), timeout=CALL_TIMEOUT_S
        )
        try:
            self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if context is not None:
                self.sock = context.wrap_socket(self.sock, server_hostname=self._target.host)
            self._open_connection()
            if with_channel:
                self.open_channel()
        except BaseException:
            self.sock.close()
            raise

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # the control plane

    def call(self, method: base.Frame, reply: type[Reply], channel: int = CHANNEL) -> Reply:
        """Send a method and wait for its reply.

        :raises BenchmarkError: the broker answers something else, closes, or is silent too long.
        """
        self.send(method, channel)
        answer = self.read_method()
        if not isinstance(answer, reply):
            raise BenchmarkError(f"{method.name} was answered by {_describe(answer)}")
        return answer

    def send(self, method: base.Frame, channel: int = CHANNEL) -> None:
        self.sock.sendall(frame.marshal(method, channel))

    def open_channel(self) -> None:
        self.call(commands.Channel.Open(), commands.Channel.OpenOk)

    def declare_queue(
        self, name: str, arguments: common.FieldTable | None = None, *, is_durable: bool = False
    ) -> int:
        """Declare a queue; the number of ready messages in it."""
        declared = self.call(
            commands.Queue.Declare(queue=name, durable=is_durable, arguments=arguments),
            commands.Queue.DeclareOk,
        )
        return declared.message_count or 0

    def ready_count(self, queue: str) -> int:
        declared = self.call(
            commands.Queue.Declare(queue=queue, passive=True), commands.Queue.DeclareOk
        )
        return declared.message_count or 0

    def delete_queue(self, name: str) -> None:
        self.call(commands.Queue.Delete(queue=name), commands.Queue.DeleteOk)

    def declare_exchange(self, name: str, kind: str, *, is_durable: bool = False) -> None:
        self.call(
            commands.Exchange.Declare(exchange=name, exchange_type=kind, durable=is_durable),
            commands.Exchange.DeclareOk,
        )

    def delete_exchange(self, name: str) -> None:
        self.call(commands.Exchange.Delete(exchange=name), commands.Exchange.DeleteOk)

    def bind(
        self,
        queue: str,
        exchange: str,
        routing_key: str = "",
        arguments: common.FieldTable | None = None,
        *,
        nowait: bool = False,
    ) -> None:
        """Bind a queue; without waiting, a later call on the channel reports a failure."""
        method = commands.Queue.Bind(
            queue=queue,
            exchange=exchange,
            routing_key=routing_key,
            arguments=arguments,
            nowait=nowait,
        )
        if nowait:
            self.send(method)
        else:
            self.call(method, commands.Queue.BindOk)

    def consume(
        self,
        queue: str,
        *,
        prefetch: int = 0,
        no_ack: bool = True,
        arguments: common.FieldTable | None = None,
        tag: str = "bench",
    ) -> None:
        """Start a consumer; prefetch 0 means no limit. Deliveries to tags of one size have one."""
        if prefetch:
            self.call(commands.Basic.Qos(prefetch_count=prefetch), commands.Basic.QosOk)
        self.call(
            commands.Basic.Consume(
                queue=queue, consumer_tag=tag, no_ack=no_ack, arguments=arguments
            ),
            commands.Basic.ConsumeOk,
        )

    def select_confirms(self) -> None:
        self.call(commands.Confirm.Select(), commands.Confirm.SelectOk)

    # reading frame by frame

    def read_method(self) -> base.Frame:
        """The next method frame.

        :raises BenchmarkError: another kind of frame, or an exception of the channel or connection.
        """
        return self._read_method_frame()[0]

    def read_content(self) -> Content:
        """The next delivery or get-ok, whole, with the shape the ones like it will have.

        :raises BenchmarkError: anything else arrives.
        """
        method, method_octets = self._read_method_frame()
        if isinstance(method, commands.Basic.Deliver):
            kind_octets, tag_offset = BASIC_DELIVER, 12 + len(method.consumer_tag or "")
        elif isinstance(method, commands.Basic.GetOk):
            kind_octets, tag_offset = BASIC_GET_OK, 11
        else:
            raise BenchmarkError(f"expected a delivery, got {_describe(method)}")
        _, header_octets = self._read_frame()
        content = frame.unmarshal(header_octets)[2]
        if not isinstance(content, header.ContentHeader):
            raise BenchmarkError(f"expected a content header, got {header_octets[:80]!r}")
        size = len(method_octets) + len(header_octets)
        body_offset = size + FRAME_HEAD_SIZE
        body = b""
        while len(body) < content.body_size:
            kind, octets = self._read_frame()
            if kind != 3:
                raise BenchmarkError(f"expected a body frame, got {octets[:80]!r}")
            body += octets[FRAME_HEAD_SIZE:-1]
            size += len(octets)
        shape = DeliveryShape(kind_octets, size, tag_offset, body_offset)
        return Content(method, content.properties, body, shape)

    def take_unread(self) -> bytes:
        """What has been received beyond the last frame read."""
        octets = bytes(self._buffer)
        self._buffer.clear()
        return octets

    def close(self) -> None:
        """Say goodbye and wait for the answer, through deliveries still on their way."""
        with contextlib.suppress(OSError, BenchmarkError):
            self.sock.settimeout(CALL_TIMEOUT_S)
            goodbye = commands.Connection.Close(
                reply_code=200, reply_text="bye", class_id=0, method_id=0
            )
            self.sock.sendall(frame.marshal(goodbye, 0))
            self._buffer.clear()
            end = frame.marshal(commands.Connection.CloseOk(), 0)
            tail = b""
            while not tail.endswith(end):
                octets = self.sock.recv(_RECEIVE_OCTETS)
                if not octets:
                    break
                tail = (tail + octets)[-len(end) :]
        self.sock.close()

    def _open_connection(self) -> None:
        self.sock.sendall(header.ProtocolHeader().marshal())
        start = self.read_method()
        if not isinstance(start, commands.Connection.Start):
            raise BenchmarkError(f"expected connection.start, got {_describe(start)}")
        self.server_properties = dict(start.server_properties or {})
        credentials = f"\0{self._target.user}\0{self._target.password}"
        tune = self.call(
            commands.Connection.StartOk(
                client_properties={"product": "hareline macro benchmark"}, response=credentials
            ),
            commands.Connection.Tune,
            channel=0,
        )
        self.frame_max = min(FRAME_MAX, tune.frame_max or FRAME_MAX)
        self.send(
            commands.Connection.TuneOk(
                channel_max=tune.channel_max, frame_max=self.frame_max, heartbeat=0
            ),
            channel=0,
        )
        self.call(
            commands.Connection.Open(virtual_host=self._target.vhost),
            commands.Connection.OpenOk,
            channel=0,
        )

    def _read_method_frame(self) -> tuple[base.Frame, bytes]:
        _, octets = self._read_frame()
        method = frame.unmarshal(octets)[2]
        if not isinstance(method, base.Frame):
            raise BenchmarkError(f"expected a method frame, got {octets[:80]!r}")
        if isinstance(method, commands.Channel.Close | commands.Connection.Close):
            raise BenchmarkError(f"the broker refused: {_describe(method)}")
        return method, octets

    def _read_frame(self) -> tuple[int, bytes]:
        """The type of the next frame and all its octets."""
        self._fill(FRAME_OVERHEAD)
        kind, _, payload_size = struct.unpack_from(">BHI", self._buffer)
        size = payload_size + FRAME_OVERHEAD
        self._fill(size)
        octets = bytes(self._buffer[:size])
        del self._buffer[:size]
        if octets[-1] != FRAME_END:
            raise BenchmarkError(f"a frame does not end in 0xCE: {octets[:80]!r}")
        return kind, octets

    def _fill(self, size: int) -> None:
        while len(self._buffer) < size:
            try:
                octets = self.sock.recv(_RECEIVE_OCTETS)
            except TimeoutError as error:
                raise BenchmarkError(f"no answer within {CALL_TIMEOUT_S:.0f} s") from error
            except ConnectionResetError:  # closed before it has read all that was sent
                octets = b""
            if not octets:
                raise BenchmarkError("the broker closed the connection")
            self._buffer += octets


def _describe(method: base.Frame) -> str:
    if isinstance(method, commands.Channel.Close | commands.Connection.Close):
        return f"{method.name} {method.reply_code} {method.reply_text}"
    return method.name
