"""TLS between a socket's transport and the protocol behind it: an AMQP connection, or HTTP.

asyncio's own TLS would do handshakes in the event loop and report no failures. A ``TlsStream`` is
the protocol of the socket and the transport of the protocol behind it, which is made after the
handshake. While a step is computed in a thread, nothing touches the buffers of OpenSSL.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import ssl
from collections.abc import Callable
from typing import Any, Final, cast

from hareline.amqp.ports import TlsSession
from hareline.net.tls.handshakes import Handshakes, why_refused

#: Name of the ``TlsSession`` in ``get_extra_info``.
SESSION: Final = "tls_session"

_HANDSHAKE: Final = "handshake"
_OPEN: Final = "open"
_CLOSING: Final = "closing"  # our end of stream was sent; what still comes is dropped
_CLOSED: Final = "closed"


class TlsStream(asyncio.BufferedProtocol, asyncio.Transport):
    """``context``: asked when a client comes. ``make_protocol``: what is behind it."""

    __slots__ = (
        "_buffer",
        "_context",
        "_deadline",
        "_error",
        "_first",
        "_handshakes",
        "_held",
        "_incoming",
        "_is_paused",
        "_loop",
        "_make_protocol",
        "_outgoing",
        "_protocol",
        "_raw",
        "_session",
        "_state",
        "_step",
        "_stream",
    )

    def __init__(
        self,
        handshakes: Handshakes,
        context: Callable[[], ssl.SSLContext],
        make_protocol: Callable[[], asyncio.BaseProtocol],
    ) -> None:
        super().__init__()
        self._handshakes = handshakes
        self._context = context
        self._make_protocol = make_protocol
        self._loop = asyncio.get_running_loop()
        self._raw: asyncio.Transport | None = None
        self._protocol: asyncio.BaseProtocol | None = None  # while the connection is open
        self._incoming = ssl.MemoryBIO()
        self._outgoing = ssl.MemoryBIO()
        self._stream: ssl.SSLObject
        self._buffer = handshakes.read_buffer
        self._first = b""  # of what the client sends: octets that name another protocol
        self._held = b""  # came while a step was under way
        self._state = _HANDSHAKE
        self._is_paused = False
        self._session: TlsSession | None = None
        self._step: asyncio.Future[TlsSession] | None = None
        self._deadline: asyncio.TimerHandle | None = None
        self._error: OSError | None = None

    # ------------------------------------------------------------ from the socket

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The socket is there: wait for the client's first octets."""
        self._raw = cast("asyncio.Transport", transport)
        self._stream = self._context().wrap_bio(self._incoming, self._outgoing, server_side=True)
        self._deadline = self._loop.call_later(self._handshakes.timeout_s(), self._on_timeout)

    def get_buffer(self, sizehint: int) -> memoryview:
        """Buffer for the socket's octets; it is emptied in ``buffer_updated``."""
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        """So many octets have come."""
        self.feed(self._buffer[:nbytes])
        raw = self._raw
        if nbytes == len(self._buffer) and raw is not None and self._state == _OPEN:
            # asyncio would go on reading this socket as long as there is more
            raw.pause_reading()
            self._loop.call_soon(self._read_on)

    def feed(self, octets: bytes | memoryview) -> None:
        """Take encrypted octets of the client."""
        if self._step is not None:
            self._held += octets
        elif self._state == _OPEN:
            self._incoming.write(octets)
            self._decrypt()
        elif self._state == _HANDSHAKE:
            self._first = self._first or bytes(octets[:4])
            self._incoming.write(octets)
            self._begin_step()

    def eof_received(self) -> None:
        """The client sends nothing more; the transport closes itself."""
        if self._state == _OPEN:
            self._decrypt()

    def pause_writing(self) -> None:
        if self._protocol is not None:
            self._protocol.pause_writing()

    def resume_writing(self) -> None:
        if self._protocol is not None:
            self._protocol.resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        """The socket is gone."""
        if self._state == _HANDSHAKE:
            if self._first:
                self._handshakes.refuse(self._peer, "the client has closed the socket")
            else:
                self._handshakes.pass_over(self._peer)
        self._end_handshake()
        self._state = _CLOSED
        self._raw = None
        protocol, self._protocol = self._protocol, None
        if protocol is not None:
            protocol.connection_lost(self._error or exc)

    # ------------------------------------------------------------------ handshake

    def _begin_step(self) -> None:
        assert self._raw is not None
        self._raw.pause_reading()
        step = self._step = self._handshakes.begin_step(self._stream)
        step.add_done_callback(self._on_step)

    def _on_step(self, step: asyncio.Future[TlsSession]) -> None:
        self._step = None
        error = None if step.cancelled() else step.exception()
        raw = self._raw
        if raw is None or self._state != _HANDSHAKE:  # the client has gone meanwhile
            return
        if step.cancelled():  # the broker stops
            raw.abort()
            return
        if self._outgoing.pending:
            raw.write(self._outgoing.read())
        held, self._held = self._held, b""
        if error is None:
            raw.resume_reading()
            self._incoming.write(held)
            self._open(step.result())
        elif isinstance(error, ssl.SSLWantReadError):
            raw.resume_reading()
            if held:
                self.feed(held)
        else:
            self._refuse(error)

    def _open(self, session: TlsSession) -> None:
        """The handshake is done: from here on the protocol behind it speaks."""
        self._end_handshake()
        self._handshakes.done_count += 1
        self._session = session
        self._state = _OPEN
        protocol = self._protocol = self._make_protocol()
        protocol.connection_made(self)
        self._decrypt()

    def _refuse(self, error: BaseException) -> None:
        """End a handshake that has failed; the client is told why by the alert that was sent."""
        is_amqp = self._first == b"AMQP"
        reason = "the client speaks AMQP without TLS" if is_amqp else why_refused(error)
        self._handshakes.refuse(self._peer, reason)
        self._end_handshake()
        self._state = _CLOSED
        if self._raw is not None:
            self._raw.close()

    def _on_timeout(self) -> None:
        reason = f"not done within {self._handshakes.timeout_s():g} s"
        self._handshakes.refuse(self._peer, reason)
        self._state = _CLOSED
        self.abort()

    def _end_handshake(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None
        if self._step is not None:  # one that has not begun need not begin
            self._step.cancel()

    @property
    def _peer(self) -> str:
        host, port = (self.get_extra_info("peername") or ("unknown", 0))[:2]
        return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"

    # -------------------------------------------------------------------- reading

    def _decrypt(self) -> None:
        """Hand on what has come, until nothing is left or the protocol wants no more."""
        try:
            while self._state == _OPEN and not self._is_paused and self._has_input:
                protocol = self._protocol
                if isinstance(protocol, asyncio.BufferedProtocol):
                    count = self._fill(protocol.get_buffer(-1))
                    if count:
                        protocol.buffer_updated(count)
                else:
                    assert isinstance(protocol, asyncio.Protocol)
                    if octets := self._read(len(self._buffer)):
                        protocol.data_received(octets)
        except ssl.SSLError as error:
            self._fail(error)

    @property
    def _has_input(self) -> bool:
        return self._incoming.pending > 0 or self._stream.pending() > 0

    def _fill(self, buffer: Any) -> int:
        """Decrypt as much as there is room for; returns the number of octets.

        OpenSSL hands out one record at a time, of at most 16 KiB.
        """
        incoming = self._incoming
        read: Any = self._stream.read  # typeshed knows only the variant that returns octets
        view = memoryview(buffer)
        room, filled = len(view), 0
        while filled < room and (incoming.pending or self._stream.pending()):
            try:
                count = read(room - filled, view[filled:])
            except ssl.SSLWantReadError:  # the rest of a record is missing
                break
            except ssl.SSLZeroReturnError:
                count = 0
            if not count:
                self._on_end()
                break
            filled += count
        if self._outgoing.pending:  # an answer to a key update
            self._send()
        return filled

    def _read(self, size: int) -> bytes:
        try:
            octets = self._stream.read(size)
        except ssl.SSLWantReadError:
            octets = None
        except ssl.SSLZeroReturnError:
            octets = b""
        if self._outgoing.pending:
            self._send()
        if octets == b"":
            self._on_end()
        return octets or b""

    def _on_end(self) -> None:
        """The client has said that nothing more comes: answer, and close."""
        self._loop.call_soon(self.close)

    def _read_on(self) -> None:
        raw = self._raw
        if raw is not None and not self._is_paused and not raw.is_closing():
            raw.resume_reading()

    # -------------------------------------------------- the transport of what is behind

    def write(self, data: bytes | bytearray | memoryview) -> None:
        if self._state != _OPEN:
            return
        try:
            rest = memoryview(data)
            while rest:  # OpenSSL takes a record at a time
                rest = rest[self._stream.write(rest) :]
        except ssl.SSLError as error:
            self._fail(error)
            return
        self._send()

    def _send(self) -> None:
        if self._raw is not None:
            self._raw.write(self._outgoing.read())

    def can_write_eof(self) -> bool:
        return True

    def write_eof(self) -> None:
        """Send an end of stream; what still comes is read and dropped."""
        self._say_goodbye()
        if self._raw is not None and not self._raw.is_closing():
            self._raw.write_eof()

    def close(self) -> None:
        """Send what was written and an end of stream, then close the socket."""
        self._say_goodbye()
        if self._raw is not None:
            self._raw.close()

    def abort(self) -> None:
        if self._raw is not None:
            self._raw.abort()

    def is_closing(self) -> bool:
        return self._raw is None or self._raw.is_closing()

    def pause_reading(self) -> None:
        self._is_paused = True
        if self._raw is not None and not self._raw.is_closing():
            self._raw.pause_reading()

    def resume_reading(self) -> None:
        self._is_paused = False
        if self._raw is not None and not self._raw.is_closing():
            self._raw.resume_reading()
            if self._state == _OPEN and self._has_input:
                self._loop.call_soon(self._decrypt)

    def is_reading(self) -> bool:
        return not self._is_paused and not self.is_closing()

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        if self._raw is not None:
            self._raw.set_write_buffer_limits(high, low)

    def get_write_buffer_size(self) -> int:
        return 0 if self._raw is None else self._raw.get_write_buffer_size()

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        """Have another protocol behind this from now on, as an upgrade of HTTP does."""
        self._protocol = protocol

    def get_protocol(self) -> asyncio.BaseProtocol:
        return self if self._protocol is None else self._protocol

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        if name == SESSION:
            return self._session
        if name == "sslcontext":  # by which HTTP servers see that this is https
            return self._stream.context
        if name == "ssl_object":
            return self._stream
        return default if self._raw is None else self._raw.get_extra_info(name, default)

    def _say_goodbye(self) -> None:
        if self._state != _OPEN:
            return
        self._state = _CLOSING
        with contextlib.suppress(ssl.SSLError):  # the client's own end of stream is not awaited
            self._stream.unwrap()
        self._send()

    def _fail(self, error: ssl.SSLError) -> None:
        """Drop a connection whose octets are no valid TLS; OpenSSL has made an alert of it."""
        self._state = _CLOSING
        self._error = OSError(errno.EPROTO, f"TLS: {why_refused(error)}")
        if self._raw is not None:
            self._send()
            self._raw.close()
