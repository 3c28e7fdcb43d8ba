"""The broker's end of the reader process: starting it, answers in it, and its end.

Started with the first answer, ended some time after the last one, and by ``stop``. What it does is
in ``hareline.ranges.process``; the messages are those of ``hareline.ranges.messages``. Nothing here
waits for the process but the coroutines of answers.

Invariant: a process that was started here is ended and waited for here, and every answer in it
comes to an end with it.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import socket
import subprocess
import sys
from collections import deque
from pathlib import Path
from typing import Final

from hareline import events
from hareline.errors import HarelineError
from hareline.events import Report
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
        """How many answers are under way."""
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
