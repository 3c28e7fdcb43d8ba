"""The reader process: builds chunks of streams beside the broker and writes them to its clients.

The broker starts it with the first read of a range (``management.range_answers``), as ``python -m
hareline.ranges.process SOCKET JOURNAL LARGE``, and tells it by ``SOCKET`` what to do
(``ranges.messages``). It opens files to read only, has a lower priority than the broker, and ends
as soon as the socket is closed, so it outlives no broker that is killed.

Requests for chunks are served in the order in which they come, and each answer has one at a time,
so that all get their share. Signals to the process group are for the broker, which will say so.

Invariant: one chunk is built at a time, and an answer's next one only when its client has taken the
one before: what is in memory is one chunk for each answer.
"""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import socket
import sys
import time
from collections import deque
from typing import Final

from hareline.ranges.answers import ClientAnswer
from hareline.ranges.chunks import ChunkBuilder
from hareline.ranges.messages import (
    BEGIN,
    BUILD,
    CANCEL,
    END,
    GONE,
    SENT,
    Build,
    Envelope,
    Inbox,
    decode_build,
    encode,
    encode_built,
)

NICENESS: Final = 19  # where the system knows no idle processes
TICK_S: Final = 1.0  # between looks at clients that have stalled
_RECEIVE_BYTES: Final = 262_144
_DESCRIPTORS_MAX: Final = 16


class RangeReader:
    """``control``: the socket to the broker, which is closed by ``run``."""

    def __init__(self, control: socket.socket, directory: str, large_directory: str) -> None:
        self._control = control
        self._builder = ChunkBuilder(directory, large_directory)
        self._selector = selectors.DefaultSelector()
        self._inbox = Inbox()
        self._clients: deque[int] = deque()  # descriptors whose BEGIN is still to come
        self._answers: dict[int, ClientAnswer] = {}
        self._builds: deque[tuple[int, Build]] = deque()
        self._look_at_s = time.monotonic() + TICK_S

    def run(self) -> None:
        """Serve until the broker closes its end."""
        self._selector.register(self._control, selectors.EVENT_READ)
        try:
            while self._step():
                continue
        except (BrokenPipeError, ConnectionResetError):
            pass  # the broker is gone
        finally:
            for answer in self._answers.values():
                answer.close()
            self._builder.close()
            self._selector.close()
            self._control.close()

    def _step(self) -> bool:
        """Do what can be done now, and one chunk; False if the broker has closed."""
        events = self._selector.select(0 if self._builds else TICK_S)
        for key, _ in events:
            if key.data is None:
                if not self._receive():
                    return False
            elif key.data in self._answers:
                self._write(self._answers[key.data])
        if self._builds:
            self._build(*self._builds.popleft())
        if time.monotonic() >= self._look_at_s:
            self._look_at_s = time.monotonic() + TICK_S
            self._give_up_stalled()
        return True

    def _receive(self) -> bool:
        octets, descriptors, _, _ = socket.recv_fds(self._control, _RECEIVE_BYTES, _DESCRIPTORS_MAX)
        self._clients += descriptors
        if not octets:
            return False
        for envelope in self._inbox.feed(octets):
            self._obey(envelope)
        return True

    def _obey(self, envelope: Envelope) -> None:
        kind, number, payload = envelope
        if kind == BEGIN:
            client = socket.socket(fileno=self._clients.popleft())
            client.setblocking(False)
            self._answers[number] = ClientAnswer(number, client)
            return
        answer = self._answers.get(number)
        if answer is None:  # it has gone, which the broker did not know yet
            return
        if kind == BUILD:
            self._builds.append((number, decode_build(payload)))
        elif kind == END:
            answer.is_ending = True
            answer.add([payload], len(payload))
            self._write(answer)
        elif kind == CANCEL:
            self._forget(answer)

    def _build(self, number: int, build: Build) -> None:
        answer = self._answers.get(number)
        if answer is None:
            return
        built, pieces = self._builder.build(build)
        answer.add(pieces, built.size_bytes)
        self._control.sendall(encode_built(number, built))
        self._write(answer)

    def _write(self, answer: ClientAnswer) -> None:
        """Write what the client takes; once that is everything, tell the broker."""
        try:
            answer.write()
        except OSError as error:
            self._end(answer, encode(GONE, answer.number, str(error).encode()))
            return
        is_waiting = answer.client.fileno() in self._selector.get_map()
        if answer.is_empty:
            if is_waiting:
                self._selector.unregister(answer.client)
            self._control.sendall(encode(SENT, answer.number))
            if answer.is_ending:
                self._forget(answer)
        elif not is_waiting:
            self._selector.register(answer.client, selectors.EVENT_WRITE, answer.number)

    def _give_up_stalled(self) -> None:
        for answer in [each for each in self._answers.values() if each.is_stalled]:
            self._end(answer, encode(GONE, answer.number, b"it takes nothing any more"))

    def _end(self, answer: ClientAnswer, farewell: bytes) -> None:
        self._forget(answer)
        self._control.sendall(farewell)

    def _forget(self, answer: ClientAnswer) -> None:
        with contextlib.suppress(KeyError):
            self._selector.unregister(answer.client)
        del self._answers[answer.number]
        answer.close()
        if not self._answers:
            self._builder.close()  # files that are freed meanwhile take room until then


def give_way() -> None:
    """Let this process run where nobody else wants the processor, as far as the system can do it.

    With a lower niceness alone it takes turns of some milliseconds away from those who publish.
    """
    with contextlib.suppress(OSError):
        if hasattr(os, "SCHED_IDLE"):
            os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
        else:
            os.nice(NICENESS)


def main(arguments: list[str]) -> None:
    """``arguments``: descriptor of the socket, directory of the journal, and of large bodies."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    give_way()
    descriptor, directory, large_directory = arguments
    control = socket.socket(fileno=int(descriptor))
    control.setblocking(True)
    RangeReader(control, directory, large_directory).run()


if __name__ == "__main__":
    main(sys.argv[1:])
