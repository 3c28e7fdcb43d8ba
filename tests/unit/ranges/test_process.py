"""The reader process by itself: a broker's end and clients that are sockets of the test."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
from array import array
from collections.abc import Iterator
from pathlib import Path

import pytest

from hareline.ranges.messages import (
    BEGIN,
    CANCEL,
    END,
    GONE,
    SENT,
    Build,
    Envelope,
    Inbox,
    decode_built,
    encode,
    encode_build,
)

TIMEOUT_S = 60.0


class Reader:
    """A process, and what it has said."""

    def __init__(self, directory: Path) -> None:
        self.control, other = socket.socketpair()
        self.control.settimeout(TIMEOUT_S)
        command = [sys.executable, "-P", "-m", "hareline.ranges.process", str(other.fileno())]
        command += [str(directory / "journal"), str(directory / "large")]
        self.popen = subprocess.Popen(command, pass_fds=(other.fileno(),))
        other.close()
        self.clients: list[socket.socket] = []
        self._inbox = Inbox()
        self._heard: list[Envelope] = []

    def say(self, kind: int, number: int, payload: bytes = b"") -> None:
        self.control.sendall(encode(kind, number, payload))

    def begin(self, number: int) -> socket.socket:
        """An answer to a client, whose socket this is."""
        ours, theirs = socket.socketpair()
        socket.send_fds(self.control, [encode(BEGIN, number)], [theirs.fileno()])
        theirs.close()
        ours.settimeout(TIMEOUT_S)
        self.clients.append(ours)
        return ours

    def hear(self) -> Envelope:
        while not self._heard:
            octets = self.control.recv(1000)
            assert octets, "it has ended"
            self._heard += self._inbox.feed(octets)
        return self._heard.pop(0)


@pytest.fixture
def reader(tmp_path: Path) -> Iterator[Reader]:
    made = Reader(tmp_path)
    with contextlib.closing(made.control):
        yield made
    for client in made.clients:
        client.close()
    assert made.popen.wait(TIMEOUT_S) == 0


def test_it_writes_the_end_of_an_answer_and_lets_go_of_the_client(reader: Reader) -> None:
    client = reader.begin(7)
    reader.say(END, 7, b"octets")
    assert reader.hear() == Envelope(SENT, 7, b"")
    assert client.recv(100) == b"6\r\noctets\r\n"
    assert client.recv(100) == b""


def test_an_end_may_be_empty(reader: Reader) -> None:
    client = reader.begin(7)
    reader.say(END, 7)
    assert reader.hear().kind == SENT
    assert client.recv(100) == b""


def test_what_cannot_be_read_is_told_and_the_answer_goes_on(reader: Reader) -> None:
    client = reader.begin(1)
    reader.control.sendall(encode_build(1, Build(0, 1000, array("Q", [1 << 32 | 64]))))
    built = decode_built(reader.hear().payload)
    assert (built.count, built.size_bytes) == (0, 0)
    assert "0000000000000001.log: No such file" in built.problem
    assert reader.hear() == Envelope(SENT, 1, b"")
    reader.say(END, 1, b"x")
    assert reader.hear().kind == SENT
    assert client.recv(100) == b"1\r\nx\r\n"


def test_a_client_that_is_gone_is_told_and_others_are_served(reader: Reader) -> None:
    gone, client = reader.begin(1), reader.begin(2)
    gone.close()
    reader.say(END, 1, b"x")
    assert reader.hear()[:2] == (GONE, 1)
    reader.say(END, 2, b"y")
    assert reader.hear()[:2] == (SENT, 2)
    assert client.recv(100) == b"1\r\ny\r\n"


def test_a_cancelled_answer_lets_go_of_the_client_and_says_nothing(reader: Reader) -> None:
    cancelled, client = reader.begin(1), reader.begin(2)
    reader.say(CANCEL, 1)
    assert cancelled.recv(100) == b""
    reader.say(END, 1, b"x")  # said before the broker knew
    reader.say(END, 2, b"y")
    assert reader.hear()[:2] == (SENT, 2)
    assert client.recv(100) == b"1\r\ny\r\n"


def test_a_client_that_takes_nothing_makes_no_other_one_wait(reader: Reader) -> None:
    slow, client = reader.begin(1), reader.begin(2)
    reader.say(END, 1, bytes(5_000_000))
    reader.say(END, 2, b"y")
    assert reader.hear()[:2] == (SENT, 2)
    assert client.recv(100) == b"1\r\ny\r\n"
    size = 0
    while octets := slow.recv(1 << 20):
        size += len(octets)
    assert size == 5_000_000 + len(b"4c4b40\r\n\r\n")
    assert reader.hear()[:2] == (SENT, 1)


def test_it_gives_way_to_others_and_leaves_signals_to_the_broker(reader: Reader) -> None:
    client = reader.begin(1)
    reader.say(END, 1)
    assert reader.hear().kind == SENT  # it has begun
    assert client.recv(1) == b""
    assert os.sched_getscheduler(reader.popen.pid) == os.SCHED_IDLE
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        reader.popen.send_signal(number)
    client = reader.begin(2)
    reader.say(END, 2)
    assert reader.hear()[:2] == (SENT, 2)
    assert client.recv(1) == b""
