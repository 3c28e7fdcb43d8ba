"""What another process writes for a client whose octets are encrypted here.

The reader process (``management.reader_process``) writes to a client's own socket, which must not
happen where the client speaks TLS. There it gets one end of a pair of sockets instead, and the loop
sends on what comes out of the other one. ``management.range_answers`` makes a ``Relay`` for such an
answer.

Invariant: no more is read than the client takes, but for ``HIGH_BYTES``.
"""

from __future__ import annotations

import asyncio
import socket
from typing import Final

READ_BYTES: Final = 65_536
HIGH_BYTES: Final = 262_144
_FLUSH_S: Final = 0.001
_FLUSH_MAX_S: Final = 0.1


async def flushed(transport: asyncio.Transport, size_bytes: int = 0) -> None:
    """Return when no more than this waits for the client's socket, or when it is gone."""
    pause_s = _FLUSH_S
    while transport.get_write_buffer_size() > size_bytes:  # no event tells of it
        await asyncio.sleep(pause_s)
        pause_s = min(2 * pause_s, _FLUSH_MAX_S)


class Relay:
    """``far``: the end for the other process."""

    def __init__(self, transport: asyncio.Transport) -> None:
        self._transport = transport
        self._near, self.far = socket.socketpair()
        self._near.setblocking(False)

    async def run(self) -> None:
        """Send everything on until the other process has closed its end."""
        loop = asyncio.get_running_loop()
        self.far.close()  # or there would be no end
        while octets := await loop.sock_recv(self._near, READ_BYTES):
            self._transport.write(octets)
            await flushed(self._transport, HIGH_BYTES)

    def close(self) -> None:
        """Close both ends; it may be called twice."""
        self.far.close()
        self._near.close()


def speaks_tls(transport: asyncio.Transport) -> bool:
    """True if what is written to this transport is encrypted by it."""
    return transport.get_extra_info("sslcontext") is not None
