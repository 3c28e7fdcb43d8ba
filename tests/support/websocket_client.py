"""A WebSocket for tests over a plain blocking socket, and a tunnel by which pika comes through one.

wsproto makes the frames on this side too, but as a client, so what is masked here is unmasked by
other code there. Invariant: a tunnel listens on loopback, and its threads end with the block.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from functools import partial

from wsproto import WSConnection
from wsproto.connection import ConnectionState, ConnectionType
from wsproto.events import (
    AcceptConnection,
    BytesMessage,
    CloseConnection,
    Event,
    Ping,
    RejectConnection,
    Request,
)

from .relay import Forwarder

PATH = "/ws/amqp"
TIMEOUT_S = 60.0
_READ_OCTETS = 65_536

Headers = Sequence[tuple[bytes, bytes]]


class Refused(AssertionError):
    """The broker answered with this status."""

    def __init__(self, status: int) -> None:
        super().__init__(f"refused with {status}")
        self.status = status


class WebSocketClient:
    """Connects and upgrades; raises `Refused` unless the broker agrees.

    ``greeting`` is sent before the request. ``subprotocol`` is what the broker has chosen.
    """

    def __init__(
        self,
        address: tuple[str, int],
        headers: Headers = (),
        subprotocols: Sequence[str] = ("amqp",),
        greeting: bytes = b"",
    ) -> None:
        self.frames = WSConnection(ConnectionType.CLIENT)
        self.socket = socket.create_connection(address, TIMEOUT_S)
        self._events: list[Event] = []
        request = Request(
            host=f"{address[0]}:{address[1]}",
            target=PATH,
            extra_headers=list(headers),
            subprotocols=list(subprotocols),
        )
        try:
            self.socket.sendall(greeting + self.frames.send(request))
            answer = self.next_event()
            if isinstance(answer, RejectConnection):
                raise Refused(answer.status_code)
            assert isinstance(answer, AcceptConnection)
        except BaseException:
            self.socket.close()
            raise
        self.subprotocol = answer.subprotocol

    def __enter__(self) -> WebSocketClient:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def send(self, event: Event) -> None:
        self.socket.sendall(self.frames.send(event))

    def send_octets(self, octets: bytes) -> None:
        """One binary message."""
        self.send(BytesMessage(data=octets))

    def next_event(self) -> Event:
        """The next event; a socket that ends gives CloseConnection 1006."""
        while not self._events:
            self.frames.receive_data(self.socket.recv(_READ_OCTETS) or None)
            self._events += self.frames.events()
        return self._events.pop(0)

    def receive(self, count: int) -> bytes:
        """So many octets, or more, of binary messages; answers pings."""
        received = b""
        while len(received) < count:
            event = self.next_event()
            if isinstance(event, Ping):
                self.send(event.response())
            elif isinstance(event, CloseConnection):
                raise AssertionError(f"closed: {event.code} {event.reason}")
            elif isinstance(event, BytesMessage):
                received += event.data
        return received

    def expect_close(self) -> CloseConnection:
        """How the broker closes; what it sends before is dropped, and its close is answered."""
        while not isinstance(event := self.next_event(), CloseConnection):
            pass
        if self.frames.state is ConnectionState.REMOTE_CLOSING:
            with suppress(OSError):
                self.send(event.response())
        return event


class _Tunnel(Forwarder):
    """Accepts TCP, and puts what comes into messages of ``piece`` octets at most."""

    def __init__(self, address: tuple[str, int], headers: Headers, piece: int) -> None:
        self._target = address
        self._headers = headers
        self._piece = piece
        super().__init__()

    def go_on(self, near: socket.socket) -> tuple[socket.socket, Sequence[Callable[[], None]]]:
        far = WebSocketClient(self._target, self._headers)
        far.socket.settimeout(None)
        lock = threading.Lock()
        return far.socket, [
            partial(pump, near, far, lock) for pump in (self._go_out, self._come_back)
        ]

    def _go_out(self, near: socket.socket, far: WebSocketClient, lock: threading.Lock) -> None:
        with suppress(OSError):
            while octets := near.recv(_READ_OCTETS):
                for at in range(0, len(octets), self._piece):
                    with lock:
                        frame = far.frames.send(BytesMessage(data=octets[at : at + self._piece]))
                    far.socket.sendall(frame)

    def _come_back(self, near: socket.socket, far: WebSocketClient, lock: threading.Lock) -> None:
        with suppress(OSError):
            while True:
                event = far.next_event()
                if isinstance(event, BytesMessage):
                    near.sendall(event.data)
                elif isinstance(event, CloseConnection):
                    if far.frames.state is ConnectionState.REMOTE_CLOSING:
                        far.socket.sendall(far.frames.send(event.response()))
                    break
        with suppress(OSError):
            near.shutdown(socket.SHUT_WR)


@contextmanager
def tunnel(
    address: tuple[str, int], headers: Headers = (), piece: int = _READ_OCTETS
) -> Iterator[tuple[str, int]]:
    """A TCP address whose connections go on to the broker by WebSocket."""
    with closing(_Tunnel(address, headers, piece)) as made:
        yield made.address
