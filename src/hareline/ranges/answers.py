"""One client of the reader process: what is still to be written to its socket.

Made by ``ranges.process`` for each ``BEGIN``. The socket is the broker's own, handed over for the
body of one answer, which is written as chunks of HTTP/1.1 (RFC 9112, 7.1); the broker has written
the head and will write the end. The socket does not block.

Invariant: what was begun with a chunk is written to its end, or nothing more is written.
"""

from __future__ import annotations

import socket
import time
from collections import deque
from itertools import islice
from typing import Final

from hareline.ranges.chunks import BodyFile, Piece

PARTS_MAX: Final = 64  # in one call of the system
STALLED_S: Final = 60.0  # without one octet taken, after which a client is given up


class ClientAnswer:
    """``number``: as the broker names it. ``is_ending``: nothing comes behind what waits."""

    def __init__(self, number: int, client: socket.socket) -> None:
        self.number = number
        self.client = client
        self.is_ending = False
        self._pieces: deque[Piece] = deque()
        self._moved_s = time.monotonic()

    @property
    def is_empty(self) -> bool:
        """True if the socket has taken everything."""
        return not self._pieces

    @property
    def is_stalled(self) -> bool:
        """True if the client has taken nothing for long though there was something."""
        return bool(self._pieces) and time.monotonic() - self._moved_s > STALLED_S

    def add(self, pieces: list[Piece], size_bytes: int) -> None:
        """Write these next, as one chunk; nothing if they are empty."""
        if size_bytes:
            self._moved_s = time.monotonic()
            self._pieces += [b"%x\r\n" % size_bytes, *pieces, b"\r\n"]

    def write(self) -> None:
        """Write what the socket takes now. Raises OSError: the client or the file is gone."""
        pieces = self._pieces
        while pieces:
            self._read_file()
            parts: list[bytes | memoryview] = []
            for piece in islice(pieces, PARTS_MAX):
                if isinstance(piece, BodyFile):
                    break  # it is read when it comes first
                parts.append(piece)
            try:
                written = self.client.sendmsg(parts)
            except BlockingIOError:
                return
            self._moved_s = time.monotonic()
            while written:
                first = pieces.popleft()
                assert not isinstance(first, BodyFile), "octets of what was not read"
                if written < len(first):
                    pieces.appendleft(memoryview(first)[written:])
                    break
                written -= len(first)

    def _read_file(self) -> None:
        """If a file comes next, read a piece of it, or close it at its end."""
        first = self._pieces[0]
        if isinstance(first, BodyFile):
            octets = first.read()
            if octets:
                self._pieces.appendleft(octets)
            else:
                first.close()
                self._pieces.popleft()

    def close(self) -> None:
        """Let go of the socket and of files."""
        self.client.close()
        for piece in self._pieces:
            if isinstance(piece, BodyFile):
                piece.close()
        self._pieces.clear()
