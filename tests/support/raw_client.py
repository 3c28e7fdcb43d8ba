"""A client of a few frames over a plain blocking socket, for what client libraries hide.

It can stop half-way through a handshake, read nothing, answer nothing, and tell exactly when the
broker said what. pamqp encodes and decodes, so that nothing of the broker's own is trusted here.
"""

from __future__ import annotations

import contextlib
import socket
import struct
import time
from collections.abc import Sequence
from types import TracebackType
from typing import Final, TypeVar

from pamqp import commands, common, frame, header, heartbeat
from pamqp.base import Frame
from pamqp.body import ContentBody

Method = TypeVar("Method", bound=Frame)
Incoming = Frame | header.ContentHeader | ContentBody | heartbeat.Heartbeat | header.ProtocolHeader

PROTOCOL_HEADER: Final = b"AMQP\x00\x00\x09\x01"
TIMEOUT_S: Final = 120.0
#: A peer that takes nothing for so long does not read; more than two socket buffers hold.
NOBODY_READS_S: Final = 0.5
NOBODY_READS_BYTES: Final = 64 * 1024 * 1024
ALL_CAPABILITIES: Final[common.FieldTable] = {
    "authentication_failure_close": True,
    "connection.blocked": True,
    "consumer_cancel_notify": True,
}

_FRAME_HEAD_SIZE: Final = 7
_FRAME_OVERHEAD: Final = 8
_HEADER_FRAME: Final = 2
_BODY_FRAME: Final = 3
_FRAME_END: Final = b"\xce"
_FRAME_HEAD: Final = struct.Struct(">BHI")
#: Class, weight, and size of the body; flags and properties follow.
_CONTENT_HEAD: Final = struct.Struct(">HHQ")
_CLASS_BASIC: Final = 60


class RawClient:
    """Connects at once, says nothing. ``receive_buffer`` makes the socket's buffer small.

    Every wait ends after ``TIMEOUT_S`` with TimeoutError.
    """

    def __init__(self, address: tuple[str, int], *, receive_buffer: int = 0) -> None:
        self.socket = socket.socket(socket.AF_INET6 if ":" in address[0] else socket.AF_INET)
        if receive_buffer:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        self.socket.settimeout(TIMEOUT_S)
        try:
            self.socket.connect(address)
        except OSError:
            self.socket.close()
            raise
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.frame_max = 131_072
        self._buffer = b""
        self._unsent = b""

    def __enter__(self) -> RawClient:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.drop()

    # ------------------------------------------------------------------------ out

    def send_octets(self, octets: bytes) -> None:
        self.socket.sendall(octets)

    def send(self, method: Frame, channel: int = 1) -> None:
        self.send_octets(frame.marshal(method, channel))

    def send_until_nobody_reads(
        self,
        octets: bytes,
        most_bytes: int = NOBODY_READS_BYTES,
        *,
        patience_s: float = NOBODY_READS_S,
    ) -> int:
        """Send this again and again until the socket takes no more; returns how often it went out.

        A broker that reads may be so slow that it seems not to: where that matters, have patience.
        The one that the socket took a part of is not counted; ``send_the_rest`` completes it. Fails
        if the broker has read ``most_bytes`` by then.
        """
        self.socket.settimeout(patience_s)
        count = 0
        while count * len(octets) < most_bytes:
            unsent = memoryview(octets)
            try:
                while unsent:
                    unsent = unsent[self.socket.send(unsent) :]
            except TimeoutError:
                self._unsent = bytes(unsent)
                return count
            finally:
                self.socket.settimeout(TIMEOUT_S)
            self.socket.settimeout(patience_s)
            count += 1
        raise AssertionError(f"the broker has read {most_bytes} octets")

    def send_the_rest(self) -> None:
        self.send_octets(self._unsent)

    def publish(self, routing_key: str, *bodies: bytes, **options: object) -> None:
        """Publish the bodies on channel 1; ``options`` are exchange and mandatory."""
        octets = [self.publish_octets(routing_key, body, **options) for body in bodies]
        self.send_octets(b"".join(octets))

    def publish_octets(
        self, routing_key: str, body: bytes, properties: bytes = b"\0\0", /, **options: object
    ) -> bytes:
        """The frames of a publish; ``properties`` are octets, so that any can be sent."""
        publish = commands.Basic.Publish(routing_key=routing_key)
        for name, value in options.items():
            setattr(publish, name, value)
        parts = [
            frame.marshal(publish, 1),
            _FRAME_HEAD.pack(_HEADER_FRAME, 1, _CONTENT_HEAD.size + len(properties))
            + _CONTENT_HEAD.pack(_CLASS_BASIC, 0, len(body))
            + properties
            + _FRAME_END,
        ]
        chunk = self.frame_max - _FRAME_OVERHEAD
        parts += [
            frame.marshal(ContentBody(body[start : start + chunk]), 1)
            for start in range(0, len(body), chunk)
        ]
        return b"".join(parts)

    # ------------------------------------------------------------------------- in

    def read(self) -> tuple[int, Incoming]:
        """The next frame and its channel; EOFError when the broker has closed the socket."""
        self._fill(_FRAME_OVERHEAD)
        size = int.from_bytes(self._buffer[3:_FRAME_HEAD_SIZE], "big") + _FRAME_OVERHEAD
        self._fill(size)
        octets, self._buffer = self._buffer[:size], self._buffer[size:]
        _, channel, incoming = frame.unmarshal(octets)
        return channel, incoming

    def expect(self, method_class: type[Method]) -> Method:
        """The next frame but heartbeats, which must be this method."""
        while True:
            _, incoming = self.read()
            if isinstance(incoming, heartbeat.Heartbeat):
                continue
            assert isinstance(incoming, method_class), _describe(incoming)
            return incoming

    def call(self, method: Frame, reply: type[Method], channel: int = 1) -> Method:
        self.send(method, channel)
        return self.expect(reply)

    def read_content(self) -> tuple[Frame, bytes]:
        """The next method, which must carry a content, and the body of that."""
        method = self.expect(Frame)
        _, head = self.read()
        assert isinstance(head, header.ContentHeader), (method, head)
        body = b""
        while len(body) < head.body_size:
            _, part = self.read()
            assert isinstance(part, ContentBody), part
            body += part.value
        return method, body

    def read_bodies(self, count: int) -> list[bytes]:
        return [self.read_content()[1] for _ in range(count)]

    def skip_bodies(self, count: int) -> None:
        """Read past so many contents of one body frame each, without decoding anything."""
        octets, at = self._buffer, 0
        while count:
            while count and len(octets) - at >= _FRAME_OVERHEAD:
                size = int.from_bytes(octets[at + 3 : at + _FRAME_HEAD_SIZE], "big")
                end = at + size + _FRAME_OVERHEAD
                if end > len(octets):
                    break
                count -= octets[at] == _BODY_FRAME
                at = end
            if count:
                octets, at = octets[at:] + self.socket.recv(1 << 20), 0
        self._buffer = octets[at:]

    def read_until_closed(self) -> bytes:
        """Everything that still comes, until the broker closes or drops the socket."""
        with contextlib.suppress(ConnectionResetError):
            while octets := self.socket.recv(65_536):
                self._buffer += octets
        rest, self._buffer = self._buffer, b""
        return rest

    def seconds_until_closed(self) -> float:
        started = time.monotonic()
        self.read_until_closed()
        return time.monotonic() - started

    def _fill(self, size: int) -> None:
        while len(self._buffer) < size:
            octets = self.socket.recv(65_536)
            if not octets:
                raise EOFError("the broker has closed the socket")
            self._buffer += octets

    # -------------------------------------------------------------- short stories

    def log_in(
        self,
        user: str = "guest",
        password: str | None = None,
        *,
        capabilities: common.FieldTable | None = None,
    ) -> commands.Connection.Tune:
        """Protocol header and start-ok; the credentials must be right."""
        self.send_octets(PROTOCOL_HEADER)
        self.expect(commands.Connection.Start)
        secret = user if password is None else password
        start_ok = commands.Connection.StartOk(
            client_properties={
                "product": "raw client",
                "capabilities": ALL_CAPABILITIES if capabilities is None else capabilities,
            },
            response=f"\0{user}\0{secret}",
        )
        return self.call(start_ok, commands.Connection.Tune, 0)

    def open(
        self,
        user: str = "guest",
        password: str | None = None,
        *,
        vhost: str = "/",
        heartbeat_s: int = 0,
        capabilities: common.FieldTable | None = None,
        channels: Sequence[int] = (1,),
    ) -> RawClient:
        """The whole handshake, and these channels; returns the client itself."""
        tune = self.log_in(user, password, capabilities=capabilities)
        self.frame_max = tune.frame_max or self.frame_max
        tune_ok = commands.Connection.TuneOk(
            channel_max=tune.channel_max, frame_max=self.frame_max, heartbeat=heartbeat_s
        )
        self.send(tune_ok, 0)
        self.call(commands.Connection.Open(virtual_host=vhost), commands.Connection.OpenOk, 0)
        for number in channels:
            self.call(commands.Channel.Open(), commands.Channel.OpenOk, number)
        return self

    def declare(self, queue: str = "", **options: object) -> str:
        """The name of the queue; ``options`` are those of queue.declare."""
        declare = commands.Queue.Declare(queue=queue)
        for name, value in options.items():
            setattr(declare, name, value)
        return self.call(declare, commands.Queue.DeclareOk).queue or ""

    def ready_count(self, queue: str) -> int:
        declare = commands.Queue.Declare(queue=queue, passive=True)
        return self.call(declare, commands.Queue.DeclareOk).message_count or 0

    def consume(self, queue: str, *, tag: str = "raw", no_ack: bool = True) -> None:
        self.call(
            commands.Basic.Consume(queue=queue, consumer_tag=tag, no_ack=no_ack),
            commands.Basic.ConsumeOk,
        )

    def select_confirms(self) -> None:
        self.call(commands.Confirm.Select(), commands.Confirm.SelectOk)

    def read_confirms(self, sequence: int) -> None:
        """Read until everything up to this publish is confirmed."""
        confirmed = 0
        while confirmed < sequence:
            ack = self.expect(commands.Basic.Ack)
            assert ack.delivery_tag is not None
            confirmed = ack.delivery_tag

    def close(self) -> None:
        """The orderly end: close, close-ok, and the broker closes the socket."""
        goodbye = commands.Connection.Close(
            reply_code=200, reply_text="bye", class_id=0, method_id=0
        )
        self.call(goodbye, commands.Connection.CloseOk, 0)
        assert self.read_until_closed() == b""
        self.drop()

    def agree_to_close(self) -> None:
        """The answer to connection.close, and the end of both directions."""
        self.send(commands.Connection.CloseOk(), 0)
        assert self.read_until_closed() == b""
        self.drop()

    def drop(self) -> None:
        """Close the socket and say nothing."""
        self.socket.close()


def _describe(incoming: Incoming) -> str:
    if isinstance(incoming, commands.Connection.Close | commands.Channel.Close):
        return f"{incoming.name}: {incoming.reply_code} {incoming.reply_text}"
    return repr(incoming)
