"""What waits for a client goes out as its socket takes it, in order, and ends with the client."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from hareline.ranges import answers
from hareline.ranges.answers import ClientAnswer
from hareline.ranges.chunks import BodyFile

Pair = tuple[ClientAnswer, socket.socket]


@pytest.fixture
def pair() -> Iterator[Pair]:
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    answer = ClientAnswer(1, ours)
    with theirs:
        yield answer, theirs
        answer.close()


def test_each_chunk_is_one_of_http(pair: Pair) -> None:
    answer, client = pair
    answer.add([b"abc", memoryview(b"defghijklmnop")], 16)
    answer.add([], 0)
    answer.add([b"q"], 1)
    waits = [answer.is_empty]
    answer.write()
    waits.append(answer.is_empty)
    assert waits == [False, True]
    assert client.recv(100) == b"10\r\nabcdefghijklmnop\r\n1\r\nq\r\n"


def test_a_slow_client_gets_all_of_it_bit_by_bit(pair: Pair, tmp_path: Path) -> None:
    answer, client = pair
    body = os.urandom(3_000_000)
    path = tmp_path / "body"
    path.write_bytes(body)
    pieces = [b"head", *[body[at : at + 10] for at in range(0, 2000, 10)]]
    size = 4 + 2000 + len(body)
    answer.add([*pieces, BodyFile(os.open(path, os.O_RDONLY), len(body))], size)
    received = b""
    while not answer.is_empty:
        answer.write()
        received += client.recv(100_000)
    client.setblocking(False)
    while len(received) < size + 10:
        received += client.recv(1 << 20)
    head = b"%x\r\n" % size
    assert received == head + b"head" + body[:2000] + body + b"\r\n"


def test_a_client_that_is_gone_is_an_error(pair: Pair) -> None:
    answer, client = pair
    client.close()
    answer.add([b"abc"], 3)
    with pytest.raises(OSError, match=r"Broken pipe|reset"):
        answer.write()


def test_a_client_that_takes_nothing_has_stalled(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer, client = pair
    monkeypatch.setattr(answers, "STALLED_S", -1.0)
    seen = [answer.is_stalled]  # nothing waits
    answer.add([bytes(10_000_000)], 10_000_000)
    answer.write()
    seen.append(answer.is_stalled)
    monkeypatch.setattr(answers, "STALLED_S", 3600.0)
    seen.append(answer.is_stalled)
    assert seen == [False, True, False]
    assert client.recv(1)
