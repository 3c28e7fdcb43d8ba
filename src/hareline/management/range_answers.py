"""Answers to reads of a range: which messages come next, and the process that writes them.

Where messages stand in the journal, the reader process (``hareline.ranges.process``) builds the
chunks and writes them to the client; the loop looks up some thousand positions at a time and waits.
A broker that keeps nothing builds small chunks itself. Offsets go out without a gap.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import socket
import subprocess
import sys
from array import array
from bisect import bisect_left
from collections import deque
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from hareline import events
from hareline.broker.stream_queue import Stream
from hareline.errors import HarelineError
from hareline.events import Report
from hareline.message import Message
from hareline.ranges.messages import (
    BEGIN,
    BUILT,
    CANCEL,
    END,
    GONE,
    SENT,
    Build,
    Built,
    Envelope,
    Inbox,
    decode_built,
    encode,
    encode_build,
)
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
    """The rest to be sent: offsets ``offset`` to ``end - 1``, some ``left_bytes`` of chunks.

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
    """Count those of these ascending offsets that are ``first`` and follow without a gap."""
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
        """Return the places of the next chunk, as far as there is no gap; see ``pins``."""
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


# ------------------------------------------------------------------------------- the reader process


IDLE_S: Final = 60.0  # without an answer, after which the process is ended
STOP_S: Final = 2.0  # for the process to end by itself
KILLED_S: Final = 60.0  # for one that was killed; on a busy machine that takes some seconds
_RECEIVE_BYTES: Final = 65_536
_MODULE: Final = "hareline.ranges.process"
_SOURCE: Final = str(Path(__file__).resolve().parents[2])  # where the package is


class ClientGone(HarelineError):
    """The client of an answer takes nothing more."""


class ReaderGone(HarelineError):
    """The reader process has ended in the middle of an answer."""


class Answer:
    """One answer in the reader process, from ``begin`` of the process to ``end`` or ``cancel``."""

    def __init__(self, number: int, process: ReaderProcess) -> None:
        self.number = number
        self._process = process
        self._replies: deque[Envelope] = deque()
        self._has_reply = asyncio.Event()
        self.is_over = False

    async def build(self, build: Build) -> Built:
        """Have a chunk built and written; ``sent`` is to follow. Raises ClientGone, ReaderGone."""
        self._process.send(encode_build(self.number, build))
        return decode_built((await self._reply(BUILT)).payload)

    async def sent(self) -> None:
        """Wait until the client has taken the chunk. Raises ClientGone, ReaderGone."""
        await self._reply(SENT)

    async def end(self, octets: bytes = b"") -> None:
        """Write these, and let go of the client. Raises ClientGone, ReaderGone."""
        self._process.send(encode(END, self.number, octets))
        await self._reply(SENT)
        self._close()

    def cancel(self) -> None:
        """Let go of the client as it is; no effect on an answer that is over."""
        if not self.is_over:
            self._process.send(encode(CANCEL, self.number))
            self._close()

    async def _reply(self, kind: int) -> Envelope:
        while not self._replies:
            if self.is_over:
                raise ReaderGone("the reader process has ended")
            self._has_reply.clear()
            await self._has_reply.wait()
        reply = self._replies.popleft()
        if reply.kind == GONE:
            self._close()
            raise ClientGone(reply.payload.decode("utf-8", "replace"))
        assert reply.kind == kind, reply
        return reply

    def on_reply(self, reply: Envelope) -> None:
        """The process has said this."""
        self._replies.append(reply)
        self._has_reply.set()

    def on_process_gone(self) -> None:
        """No reply will come any more."""
        self.is_over = True
        self._has_reply.set()

    def _close(self) -> None:
        self.is_over = True
        self._process.forget(self)


class ReaderProcess:
    """At most one process, there while it is needed. ``is_idle``: set while it has no answer."""

    def __init__(
        self, directory: str, large_directory: str, report: Report, *, idle_s: float = IDLE_S
    ) -> None:
        """``directory``: of the journal; ``large_directory``: of bodies in files."""
        self._arguments = [str(Path(each).absolute()) for each in (directory, large_directory)]
        self._report = report
        self._idle_s = idle_s
        self._starting = asyncio.Lock()
        self._is_stopped = False
        self._popen: subprocess.Popen[bytes] | None = None
        self._control: socket.socket | None = None
        self._outbox: deque[tuple[bytes, int]] = deque()  # octets, and a descriptor or -1
        self._inbox = Inbox()
        self._answers: dict[int, Answer] = {}
        self._count = 0
        self.is_idle = asyncio.Event()
        self.is_idle.set()
        self._idle_timer: asyncio.TimerHandle | None = None
        self._ending: set[asyncio.Task[None]] = set()

    @property
    def answers(self) -> int:
        """The number of answers under way."""
        return len(self._answers)

    @property
    def pid(self) -> int | None:
        """The process, if there is one now."""
        return None if self._popen is None else self._popen.pid

    async def begin(self, descriptor: int) -> Answer:
        """A new answer, to the client at the other end of this socket. Raises OSError."""
        own = os.dup(descriptor)  # now: once this has waited, the number may be another client's
        try:
            async with self._starting:
                if self._is_stopped:
                    raise OSError(errno.ESHUTDOWN, "the broker is stopping")
                if self._control is None:
                    await self._start()
        except BaseException:
            os.close(own)
            raise
        if self._idle_timer is not None:
            self._idle_timer.cancel()
            self._idle_timer = None
        self.is_idle.clear()
        self._count += 1
        answer = self._answers[self._count] = Answer(self._count, self)
        self.send(encode(BEGIN, answer.number), own)
        return answer

    async def stop(self) -> None:
        """End the process for good; answers that are under way end with it."""
        self._is_stopped = True
        async with self._starting:  # one that is just being started must not be left
            self._end()
        while self._ending:
            await asyncio.wait(set(self._ending))

    # ------------------------------------------------------------------------- for answers

    def send(self, octets: bytes, descriptor: int = -1) -> None:
        """Send a message, now or when the process takes it, and close the descriptor then."""
        control = self._control
        if control is None:
            _close(descriptor)
            return
        if not self._outbox:
            asyncio.get_running_loop().add_writer(control, self._write)
        self._outbox.append((octets, descriptor))
        self._write()

    def forget(self, answer: Answer) -> None:
        """The answer is over."""
        self._answers.pop(answer.number, None)
        if self._answers:
            return
        self.is_idle.set()
        if self._control is not None:
            loop = asyncio.get_running_loop()
            self._idle_timer = loop.call_later(self._idle_s, self._end)

    # ---------------------------------------------------------------------------- below

    async def _start(self) -> None:
        control, other = socket.socketpair()
        try:
            self._popen = await asyncio.to_thread(self._spawn, other)
        except OSError:
            control.close()
            raise
        finally:
            other.close()
        control.setblocking(False)
        self._control = control
        self._inbox = Inbox()
        asyncio.get_running_loop().add_reader(control, self._read)

    def _spawn(self, control: socket.socket) -> subprocess.Popen[bytes]:
        """In a thread, since it takes some milliseconds."""
        environment = dict(os.environ)
        paths = [_SOURCE, *filter(None, [environment.get("PYTHONPATH")])]
        environment["PYTHONPATH"] = os.pathsep.join(paths)
        descriptor = control.fileno()
        return subprocess.Popen(
            [sys.executable, "-P", "-m", _MODULE, str(descriptor), *self._arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            env=environment,
            pass_fds=(descriptor,),
        )

    def _write(self) -> None:
        control = self._control
        if control is None:
            return
        try:
            while self._outbox:
                octets, descriptor = self._outbox[0]
                if descriptor >= 0:
                    written = socket.send_fds(control, [octets], [descriptor])
                    _close(descriptor)
                else:
                    written = control.send(octets)
                if written < len(octets):
                    self._outbox[0] = (octets[written:], -1)
                else:
                    self._outbox.popleft()
        except BlockingIOError:
            return
        except OSError as error:
            self._on_lost(str(error))
            return
        asyncio.get_running_loop().remove_writer(control)

    def _read(self) -> None:
        control = self._control
        if control is None:
            return
        try:
            octets = control.recv(_RECEIVE_BYTES)
        except BlockingIOError:
            return
        except OSError:
            octets = b""
        if not octets:
            self._on_lost("it has closed its socket")
            return
        for envelope in self._inbox.feed(octets):
            answer = self._answers.get(envelope.number)
            if answer is not None:  # else it was cancelled
                answer.on_reply(envelope)

    def _on_lost(self, reason: str) -> None:
        """The process has ended by itself, which it never should."""
        self._report(events.RANGE_READER_LOST, reason=reason)
        self._end()

    def _end(self) -> None:
        """Close the socket, at which the process ends, and see that it does."""
        if self._idle_timer is not None:
            self._idle_timer.cancel()
            self._idle_timer = None
        control, self._control = self._control, None
        popen, self._popen = self._popen, None
        if control is not None:
            loop = asyncio.get_running_loop()
            loop.remove_reader(control)
            loop.remove_writer(control)
            control.close()
        outbox, self._outbox = self._outbox, deque()
        for _, descriptor in outbox:
            _close(descriptor)
        answers, self._answers = self._answers, {}
        self.is_idle.set()
        for answer in answers.values():
            answer.on_process_gone()
        if popen is not None:
            task = asyncio.create_task(asyncio.to_thread(_wait_for, popen))
            self._ending.add(task)
            task.add_done_callback(self._ending.discard)


def _wait_for(popen: subprocess.Popen[bytes]) -> None:
    try:
        popen.wait(STOP_S)
    except subprocess.TimeoutExpired:
        popen.kill()
        with contextlib.suppress(subprocess.TimeoutExpired):  # it hangs in the disk
            popen.wait(KILLED_S)


def _close(descriptor: int) -> None:
    if descriptor >= 0:
        os.close(descriptor)
