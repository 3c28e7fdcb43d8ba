"""A proxy before a port: it says something first, and then hands octets on in both directions.

So that clients come as through HAProxy with ``send-proxy``. Invariant: it listens on loopback, and
all its threads end with the block.
"""

from __future__ import annotations

import socket
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from functools import partial

_READ_OCTETS = 65_536
JOIN_DEADLINE_S = 60.0


class Forwarder(ABC):
    """Listens on ``address``; each connection goes on through another one of its own."""

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        host, port = self._listener.getsockname()
        self.address: tuple[str, int] = (host, port)
        self._sockets: list[socket.socket] = []
        self._threads = [threading.Thread(target=self._accept)]
        self._threads[0].start()

    @abstractmethod
    def go_on(self, near: socket.socket) -> tuple[socket.socket, Sequence[Callable[[], None]]]:
        """The socket behind, and what is to run, in threads, until the connection is over."""

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._listener.accept()
            except OSError:  # closed
                return
            far, pumps = self.go_on(near)
            self._sockets += [near, far]
            for pump in pumps:
                self._threads.append(threading.Thread(target=pump))
                self._threads[-1].start()

    def close(self) -> None:
        """End all connections and threads."""
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._threads[0].join(JOIN_DEADLINE_S)
        for each in self._sockets:
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join(JOIN_DEADLINE_S)
        for each in self._sockets:
            each.close()


class Relay(Forwarder):
    """Connections go on from ``source`` to ``target``, after a greeting."""

    def __init__(self, target: tuple[str, int], greeting: bytes, source: str) -> None:
        self._target = target
        self._greeting = greeting
        self._source = source
        super().__init__()

    def go_on(self, near: socket.socket) -> tuple[socket.socket, Sequence[Callable[[], None]]]:
        far = socket.create_connection(self._target, source_address=(self._source, 0))
        far.sendall(self._greeting)
        return far, (partial(_pump, near, far), partial(_pump, far, near))


def _pump(source: socket.socket, sink: socket.socket) -> None:
    with suppress(OSError):  # either side is gone
        while octets := source.recv(_READ_OCTETS):
            sink.sendall(octets)
    with suppress(OSError):
        sink.shutdown(socket.SHUT_WR)


@contextmanager
def relay(
    target: tuple[str, int], greeting: bytes, source: str = "127.0.0.1"
) -> Iterator[tuple[str, int]]:
    """The address of a proxy before ``target``, whose own address is ``source``."""
    with closing(Relay(target, greeting, source)) as made:
        yield made.address
