"""A network that fails when a test says so: a TCP proxy between a client and a broker.

Octets go through a thread for each direction of each connection. ``stall`` lets nothing through any
more and closes nothing, which is what both ends see of a cable that was pulled or of a firewall
that forgot the connection. ``reset`` ends connections as a host does that has restarted.
``piece_bytes`` lets so few octets through at a time, as a path that loses packets does: the system
sends again what was lost, so that all of it comes, in small pieces and late.
"""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from .waiting import wait_for

#: How often the threads look whether the test is over.
LOOK_S: Final = 0.05
DEADLINE_S: Final = 60.0
_RESET: Final = struct.pack("ii", 1, 0)  # SO_LINGER: on, no time


class FaultyProxy:
    """Listens on loopback at ``address`` and connects to ``target`` for each client."""

    def __init__(self, target: tuple[str, int]) -> None:
        self._target = target
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._listener.settimeout(LOOK_S)
        self.address: tuple[str, int] = self._listener.getsockname()[:2]
        self.piece_bytes = 65_536
        self.passed_bytes = 0
        self._is_over = False
        self._may_pass = threading.Event()
        self._may_pass.set()
        self._pairs: list[tuple[socket.socket, socket.socket]] = []
        self._threads = [threading.Thread(target=self._accept, name="proxy")]
        self._threads[0].start()

    def stall(self) -> None:
        """Let nothing through from now on, until ``go_on``; new connections neither."""
        self._may_pass.clear()

    def go_on(self) -> None:
        self._may_pass.set()

    def reset(self) -> None:
        """End all connections by RST, to both sides."""
        for pair in self._pairs:
            for end in pair:
                with contextlib.suppress(OSError):
                    end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
                    end.close()

    def wait_for_bytes(self, count: int) -> None:
        """Wait until so many octets have gone through, in both directions together."""
        wait_for(lambda: self.passed_bytes >= count, DEADLINE_S, f"{count} octets")

    def close(self) -> None:
        self._is_over = True
        self._may_pass.set()
        for thread in self._threads:
            thread.join(DEADLINE_S)
            assert not thread.is_alive(), "a thread of the proxy hangs"
        for pair in self._pairs:
            for end in pair:
                end.close()
        self._listener.close()

    def _accept(self) -> None:
        while not self._is_over:
            try:
                client, _ = self._listener.accept()
            except TimeoutError:
                continue
            broker = socket.create_connection(self._target)
            self._pairs.append((client, broker))
            for source, sink in ((client, broker), (broker, client)):
                source.settimeout(LOOK_S)
                source.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                thread = threading.Thread(target=self._pass_on, args=(source, sink), name="proxy")
                self._threads.append(thread)
                thread.start()

    def _pass_on(self, source: socket.socket, sink: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while not self._is_over:
                try:
                    octets = source.recv(self.piece_bytes)
                except TimeoutError:
                    continue
                self._may_pass.wait()
                if not octets:
                    sink.shutdown(socket.SHUT_WR)
                    return
                self._send_all(sink, octets)
                self.passed_bytes += len(octets)

    def _send_all(self, sink: socket.socket, octets: bytes) -> None:
        while octets and not self._is_over:
            try:
                octets = octets[sink.send(octets) :]
            except TimeoutError:
                continue


@contextmanager
def faulty_proxy(target: tuple[str, int]) -> Iterator[FaultyProxy]:
    proxy = FaultyProxy(target)
    try:
        yield proxy
    finally:
        proxy.close()
