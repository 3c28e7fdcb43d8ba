"""One answer to a read of a range: which messages come next, and how the answer ends.

Made by ``management.streams``. Where messages stand in the journal, the reader process builds the
chunks and writes them to the client (``management.reader_process``); the loop looks up some
thousand positions at a time and waits. A broker that keeps nothing builds small chunks itself.

Invariant: offsets go out without a gap; an answer that cannot go on ends with an error that names
the offset, and no segment is pinned longer than it is read.
"""

from __future__ import annotations

import asyncio
import socket
from array import array
from bisect import bisect_left
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Final

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from hareline.broker.stream_queue import Stream
from hareline.management.reader_process import Answer, ClientGone, ReaderGone
from hareline.message import Message
from hareline.ranges.messages import Build
from hareline.storage.store.pinned import Pinned, PinnedPlaces
from hareline.wire.property_parts import without_last_header
from hareline.wire.stream_chunks import CONTENT_TYPE, encode_chunk, encode_error

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
    """Octets of the reader process for a client that speaks TLS, whose socket it must not write to.

    ``far``: the end for that process. No more is read than the client takes, but for
    ``HIGH_BYTES``.
    """

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


COUNT_MAX: Final = 4_096  # messages of one chunk
COUNT_MIN: Final = 64
#: Messages whose positions are looked up at one go, in some 0.1 ms.
LOOKUP_COUNT: Final = 512
#: Of a chunk that the loop builds itself.
MEMORY_COUNT: Final = 256
_OFFSET_HEADER: Final = b"x-stream-offset"
_US_PER_MS: Final = 1000


@dataclass(slots=True)
class Span:
    """What is still to be sent: offsets ``offset`` to ``end - 1``, some ``left_bytes`` of chunks.

    ``is_stopping``: called before each chunk.
    """

    stream: Stream
    offset: int
    end: int
    left_bytes: int
    is_stopping: Callable[[], bool]

    @property
    def is_over(self) -> bool:
        """True if all has been sent that was asked for."""
        return self.offset >= self.end or self.left_bytes <= 0

    def went(self, count: int, size_bytes: int) -> None:
        """So many messages more are in a chunk of this size."""
        self.offset += count
        self.left_bytes -= size_bytes

    def obstacle(self) -> bytes | None:
        """The error that ends the answer here; None if it can go on."""
        stream, offset = self.stream, self.offset
        if self.is_stopping():
            return encode_error("stopping", "the broker is stopping; ask again", offset)
        if stream.queue.is_deleted:
            return encode_error("truncated", "the stream was deleted", offset)
        if stream.first > offset:
            return encode_error("truncated", f"the stream begins at {stream.first} now", offset)
        return None

    def missing(self, problem: str) -> bytes:
        """The error for the message that comes next."""
        return encode_error("missing", problem, self.offset)


def contiguous(offsets: array[int], first: int) -> int:
    """How many of these ascending offsets are ``first`` and those that follow without a gap."""
    if not offsets or offsets[0] != first:
        return 0
    if offsets[-1] - first + 1 == len(offsets):
        return len(offsets)
    indices = range(len(offsets))
    return bisect_left(indices, 1, key=lambda index: offsets[index] - first > index)


class JournalRead:
    """A read from the journal. ``limit_bytes``: called for each chunk, how long it may be."""

    def __init__(
        self, span: Span, places: PinnedPlaces, answer: Answer, limit_bytes: Callable[[], int]
    ) -> None:
        self._span = span
        self._places = places
        self._answer = answer
        self._limit_bytes = limit_bytes
        self._count = COUNT_MAX

    async def run(self) -> None:
        """Write all chunks, and an error if need be. Raises ClientGone and ReaderGone."""
        span, error = self._span, b""
        while not span.is_over and not error:
            error = span.obstacle() or await self._send_chunk()
        await self._answer.end(error)

    async def _send_chunk(self) -> bytes:
        """Write the next chunk; returns the error that ends the answer behind it, or nothing."""
        span = self._span
        pins: list[Pinned] = []
        try:
            places = await self._pin_chunk(pins)
            if not places:
                return span.missing(f"there is no message {span.offset} in the journal")
            built = await self._answer.build(Build(span.offset, self._limit_bytes(), places))
        finally:
            for pinned in pins:
                self._places.release(pinned)
        span.went(built.count, built.size_bytes)
        self._count = min(max(2 * built.count, COUNT_MIN), COUNT_MAX)
        await self._answer.sent()
        return span.missing(built.problem) if built.problem else b""

    async def _pin_chunk(self, pins: list[Pinned]) -> array[int]:
        """Where the messages of the next chunk stand, as far as there is no gap; see ``pins``."""
        span = self._span
        places = array("Q")
        offset = span.offset
        end = min(span.end, offset + self._count)
        while offset < end:
            if pins:
                await asyncio.sleep(0)  # others have their turn
            asked = min(end, offset + LOOKUP_COUNT)
            offsets, positions = span.stream.positions(offset, asked)
            count = contiguous(offsets, offset)
            if count and not min(positions):
                count = min(count, positions.index(0))
            if count:
                pins.append(self._places.pin(positions[:count]))
                places += pins[-1].places
            if offset + count < asked:
                break
            offset = asked
        return places

    def cancel(self) -> None:
        """Stop where it is."""
        self._answer.cancel()


class RangeResponse(Response):
    """Hands the client's socket to the reader process for the body.

    The server writes the head and the end of the answer, so the connection can be used again. One
    that cannot be ended well is closed, at which the client sees that the answer is not whole.
    ``relay``: between the process and a client that speaks TLS.
    """

    media_type = CONTENT_TYPE

    def __init__(
        self, read: JournalRead, transport: asyncio.Transport, relay: Relay | None = None
    ) -> None:
        super().__init__()
        self._read = read
        self._transport = transport
        self._relay = relay

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer; returns when the answer has ended, or the client has gone."""
        headers = [
            (b"content-type", CONTENT_TYPE.encode()),
            (b"transfer-encoding", b"chunked"),
        ]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        gone = asyncio.create_task(disconnected(receive))
        work = asyncio.create_task(self._work())
        try:
            await asyncio.wait((gone, work), return_when=asyncio.FIRST_COMPLETED)
            if not work.done():
                return
            try:
                work.result()
            except (ClientGone, ReaderGone):
                self._transport.abort()
                await gone
                return
            await send({"type": "http.response.body", "body": b"", "more_body": False})
        finally:
            for task in (gone, work):
                task.cancel()
            await asyncio.wait((gone, work))
            self._read.cancel()
            if self._relay is not None:
                self._relay.close()

    async def _work(self) -> None:
        await flushed(self._transport)  # the head goes first, if its client ever takes it
        if self._relay is None:
            await self._read.run()
            return
        sending = asyncio.create_task(self._relay.run())
        try:
            await self._read.run()
            await sending
        finally:
            sending.cancel()
            await asyncio.wait((sending,))


async def disconnected(receive: Receive) -> None:
    """Return when the client of a request has gone."""
    while (await receive())["type"] != "http.disconnect":
        continue


async def memory_chunks(span: Span) -> AsyncIterator[bytes]:
    """Yield chunks of messages that are in memory only, and an error if need be."""
    while not span.is_over:
        error = span.obstacle()
        if error is not None:
            yield error
            return
        entries = span.stream.entries(span.offset, min(span.end, span.offset + MEMORY_COUNT))
        count = contiguous(array("Q", [entry.offset for entry in entries]), span.offset)
        if not count:
            yield span.missing(f"there is no message {span.offset}")
            return
        chunk = _memory_chunk(span.offset, [entry.message for entry in entries[:count]])
        span.went(count, len(chunk))
        yield chunk
        await asyncio.sleep(0)  # others have their turn


def _memory_chunk(offset: int, messages: list[Message]) -> bytes:
    arrivals = array("Q", [message.arrival_ms * _US_PER_MS for message in messages])
    metas = [
        message.address.octets + without_last_header(message.property_octets, _OFFSET_HEADER)
        for message in messages
    ]
    return b"".join(encode_chunk(offset, arrivals, metas, [each.body for each in messages]))
