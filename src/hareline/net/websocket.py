"""AMQP over WebSocket: payloads of binary messages go to a shell, its writes become messages.

``http_side`` hands over the socket of an upgrade that ``management.websocket`` has let through.
Message boundaries carry no meaning; payload is passed on as it arrives. At most one read of the
socket waits for a shell that does not read, and frames are taken in shares.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, Final

import h11
from wsproto import WSConnection
from wsproto.connection import ConnectionState, ConnectionType
from wsproto.events import (
    AcceptConnection,
    BytesMessage,
    CloseConnection,
    Event,
    Ping,
    Request,
    TextMessage,
)
from wsproto.frame_protocol import CloseReason
from wsproto.utilities import RemoteProtocolError

from hareline import events
from hareline.events import Report
from hareline.net.shell import ConnectionShell

SUBPROTOCOL: Final = "amqp"
#: Frames of one peer that are taken before others have their turn; some 5 ms.
FRAMES_PER_SHARE: Final = 1_024
#: No pong is put behind more than this that the peer has not read.
UNREAD_BEFORE_PONG_MAX: Final = 65_536


_BAD_REQUEST: Final = b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"


class WebSocketFront(asyncio.Protocol):
    """One connection from its upgrade on; ``shell`` is the AMQP side of it.

    ``upgrade`` answers the request and begins.
    """

    def __init__(self, shell: ConnectionShell, report: Report) -> None:
        self._shell = shell
        self._report = report
        self._socket = WSConnection(ConnectionType.SERVER)
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._rest = memoryview(b"")  # of a message, which the shell has not taken yet
        self._is_paused = False  # by the shell
        self._is_due = False  # ``_go_on`` will be called

    def upgrade(
        self, transport: asyncio.Transport, headers: Sequence[tuple[bytes, bytes]], target: bytes
    ) -> None:
        """Answer the request with 101 and take the transport over; 400 if it is not valid."""
        try:
            self._socket.initiate_upgrade_connection(list(headers), target)
        except (h11.ProtocolError, RemoteProtocolError, UnicodeError):  # such as an invalid Host
            transport.write(_BAD_REQUEST)
            transport.close()
            return
        (request,) = self._socket.events()
        assert isinstance(request, Request)
        offered = SUBPROTOCOL if SUBPROTOCOL in request.subprotocols else None
        transport.write(self._socket.send(AcceptConnection(subprotocol=offered)))
        self._transport = transport
        transport.set_protocol(self)
        self._shell.connection_made(FramedTransport(self, transport))

    # ------------------------------------------------------------ from asyncio

    def data_received(self, data: bytes) -> None:
        if self._is_open or self._socket.state is ConnectionState.LOCAL_CLOSING:
            self._socket.receive_data(data)
            if not self._is_due:
                self._take()

    def pause_writing(self) -> None:
        self._shell.pause_writing()

    def resume_writing(self) -> None:
        self._shell.resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        self._rest = memoryview(b"")
        self._shell.connection_lost(exc)

    # ---------------------------------------------------- from the shell's transport

    def send(self, octets: bytes) -> None:
        """Send octets as one binary message."""
        if self._transport is not None and self._is_open:
            self._transport.write(self._socket.send(BytesMessage(data=octets)))

    @property
    def is_ending(self) -> bool:
        """True once either side has said that it closes."""
        return not self._is_open

    def end(self, code: int = CloseReason.NORMAL_CLOSURE, reason: str = "") -> None:
        """Say that this side closes; the other side is to say so too, and then the socket goes."""
        if self._transport is not None and self._is_open:
            self._transport.write(self._socket.send(CloseConnection(code=code, reason=reason)))

    def pause_reading(self) -> None:
        """Keep what comes until ``resume_reading``."""
        self._is_paused = True
        if self._transport is not None and not self._is_gone:
            self._transport.pause_reading()

    def resume_reading(self) -> None:
        """Hand on what was kept, from the next round of the loop on, and then read again."""
        self._is_paused = False
        self._go_on_soon()

    # ------------------------------------------------------------------- frames

    @property
    def _is_open(self) -> bool:
        return self._socket.state is ConnectionState.OPEN

    @property
    def _is_gone(self) -> bool:
        return self._transport is None or self._transport.is_closing()

    def _go_on_soon(self) -> None:
        if not self._is_due:
            self._is_due = True
            self._loop.call_soon(self._go_on)

    def _go_on(self) -> None:
        self._is_due = False
        self._take()
        if self._transport is not None and not (self._is_due or self._is_paused or self._is_gone):
            self._transport.resume_reading()

    def _take(self) -> None:
        """Hand on what has come, as much as the shell wants and a share allows."""
        self._feed_shell()
        connection = self._socket.connection
        assert connection is not None
        frames = connection.events()
        for _ in range(FRAMES_PER_SHARE):
            if self._is_paused or self._is_gone:
                return
            event = next(frames, None)
            if event is None:
                return
            self._on_event(event)
        if self._transport is not None and not self._is_gone:
            self._transport.pause_reading()
            self._go_on_soon()

    def _feed_shell(self) -> None:
        """Hand on the rest of a message, until the shell wants no more."""
        rest = self._rest
        while rest and not self._is_paused:
            buffer = self._shell.get_buffer(len(rest))
            size = min(len(buffer), len(rest))
            buffer[:size] = rest[:size]
            rest = rest[size:]
            self._shell.buffer_updated(size)
        self._rest = rest

    def _on_event(self, event: Event) -> None:
        if isinstance(event, BytesMessage):
            self._rest = memoryview(event.data)
            self._feed_shell()
        elif isinstance(event, Ping):
            self._answer(event)
        elif isinstance(event, CloseConnection):
            self._on_close(event)
        elif isinstance(event, TextMessage):
            self._fail(CloseReason.UNSUPPORTED_DATA, "AMQP comes in binary messages, not in text")

    def _answer(self, ping: Ping) -> None:
        transport = self._transport
        assert transport is not None
        if self._is_open and transport.get_write_buffer_size() <= UNREAD_BEFORE_PONG_MAX:
            transport.write(self._socket.send(ping.response()))

    def _on_close(self, close: CloseConnection) -> None:
        """The peer closes, has agreed to, or sent what is no frame of WebSocket."""
        transport, state = self._transport, self._socket.state
        assert transport is not None
        if state is ConnectionState.OPEN:
            self._fail(close.code, close.reason or "")
            return
        if state is ConnectionState.REMOTE_CLOSING:
            transport.write(self._socket.send(close.response()))
        transport.close()

    def _fail(self, code: int, reason: str) -> None:
        """Close, saying why to the peer and in the log."""
        assert self._transport is not None
        self._report(events.WEBSOCKET_FAILED, peer=self._shell.peer, reason=reason)
        self.end(code, reason)
        self._transport.close()


class FramedTransport(asyncio.Transport):
    """Transport of the shell: each write becomes a binary message of the socket behind."""

    def __init__(self, front: WebSocketFront, transport: asyncio.Transport) -> None:
        super().__init__()
        self._front = front
        self._transport = transport

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return self._transport.get_extra_info(name, default)

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self._transport.set_write_buffer_limits(high, low)

    def get_write_buffer_size(self) -> int:
        return self._transport.get_write_buffer_size()

    def is_closing(self) -> bool:
        return self._front.is_ending or self._transport.is_closing()

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self._front.send(bytes(data))

    def write_eof(self) -> None:
        self._front.end()

    def can_write_eof(self) -> bool:
        return True

    def abort(self) -> None:
        self._transport.abort()

    def close(self) -> None:
        self._front.end()

    def pause_reading(self) -> None:
        self._front.pause_reading()

    def resume_reading(self) -> None:
        self._front.resume_reading()
