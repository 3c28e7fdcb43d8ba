"""The broker's end of the reader process: started when it is needed, and ended when it is not."""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
from array import array
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from hareline.events import RANGE_READER_LOST, Event
from hareline.management.range_answers import ClientGone, ReaderGone, ReaderProcess
from hareline.ranges.messages import Build
from tests.support.waiting import until

Reports = list[tuple[Event, dict[str, object]]]


@pytest.fixture
def reports() -> Reports:
    return []


@pytest.fixture
async def process(tmp_path: Path, reports: Reports) -> AsyncIterator[ReaderProcess]:
    def report(event: Event, **fields: object) -> None:
        reports.append((event, fields))

    made = ReaderProcess(str(tmp_path), str(tmp_path), report, idle_s=3600)
    yield made
    await made.stop()
    assert made.pid is None


def is_there(pid: int | None) -> bool:
    assert pid is not None
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


async def test_it_is_there_from_the_first_answer_until_it_is_idle(
    process: ReaderProcess, reports: Reports
) -> None:
    assert process.pid is None
    process._idle_s = 0.0
    client, ours = socket.socketpair()
    with client, ours:
        answer = await process.begin(ours.fileno())
        pid = process.pid
        assert is_there(pid)
        assert process.answers == 1
        await answer.end(b"abc")
        assert client.recv(100) == b"3\r\nabc\r\n"
    await until(lambda: process.pid is None, "the end of an idle process")
    await until(lambda: not is_there(pid), "that it was waited for")
    assert reports == []


async def test_many_answers_at_once_have_one_process(process: ReaderProcess) -> None:
    pairs = [socket.socketpair() for _ in range(20)]
    answers = await asyncio.gather(*(process.begin(ours.fileno()) for _, ours in pairs))
    pid = process.pid
    await asyncio.gather(*(answer.end(b"%d" % answer.number) for answer in answers))
    for answer, (client, ours) in zip(answers, pairs, strict=True):
        assert client.recv(100).split(b"\r\n")[1] == b"%d" % answer.number
        client.close()
        ours.close()
    assert process.pid == pid
    assert process.is_idle.is_set()


async def test_what_cannot_be_read_is_the_answers_business(process: ReaderProcess) -> None:
    client, ours = socket.socketpair()
    with client, ours:
        answer = await process.begin(ours.fileno())
        built = await answer.build(Build(0, 1000, array("Q", [1 << 32 | 64])))
        assert built.count == 0
        assert "No such file" in built.problem
        await answer.sent()
        answer.cancel()
        answer.cancel()
        assert process.answers == 0


async def test_a_client_that_is_gone_ends_its_answer(process: ReaderProcess) -> None:
    client, ours = socket.socketpair()
    with ours:
        answer = await process.begin(ours.fileno())
        client.close()
        with pytest.raises(ClientGone):
            await answer.end(b"abc")
    assert answer.is_over


async def test_a_process_that_dies_ends_all_answers_and_is_reported(
    process: ReaderProcess, reports: Reports
) -> None:
    client, ours = socket.socketpair()
    with client, ours:
        answer = await process.begin(ours.fileno())
        pid = process.pid
        assert pid is not None
        os.kill(pid, 9)
        with pytest.raises(ReaderGone):
            await answer.sent()
        assert [event for event, _ in reports] == [RANGE_READER_LOST]
        again = await process.begin(ours.fileno())
        assert process.pid != pid
        await again.end()


async def test_a_stop_ends_what_is_under_way(process: ReaderProcess) -> None:
    client, ours = socket.socketpair()
    with client, ours:
        answer = await process.begin(ours.fileno())
        waiting = asyncio.create_task(answer.sent())
        await asyncio.sleep(0)
        await process.stop()
        with pytest.raises(ReaderGone):
            await waiting
        with pytest.raises(OSError, match="the broker is stopping"):
            await process.begin(ours.fileno())


async def test_a_stop_while_it_is_started_leaves_no_process(process: ReaderProcess) -> None:
    client, ours = socket.socketpair()
    with client, ours:
        beginning = asyncio.create_task(process.begin(ours.fileno()))
        await asyncio.sleep(0)
        assert process._starting.locked()
        await process.stop()
        answer = await beginning
        with pytest.raises(ReaderGone):
            await answer.sent()
    assert process.pid is None


async def test_a_process_that_cannot_be_started_is_an_error(
    process: ReaderProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "executable", "/nonexistent/python")
    client, ours = socket.socketpair()
    with client, ours:
        with pytest.raises(FileNotFoundError):
            await process.begin(ours.fileno())
        monkeypatch.undo()
        await (await process.begin(ours.fileno())).end()


async def test_a_process_that_ends_late_after_it_was_killed_is_waited_for(
    process: ReaderProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on a busy machine. Who is given up too early stays a zombie."""
    late: list[str] = []
    wait, kill = subprocess.Popen.wait, subprocess.Popen.kill

    def wait_in_vain(popen: subprocess.Popen[bytes], timeout: float | None = None) -> int:
        if not late or (timeout is not None and timeout < 10):
            raise subprocess.TimeoutExpired("", timeout or 0)
        return wait(popen, timeout)

    def kill_late(popen: subprocess.Popen[bytes]) -> None:
        late.append("killed")
        kill(popen)

    client, ours = socket.socketpair()
    with client, ours:
        await process.begin(ours.fileno())
        pid = process.pid
        monkeypatch.setattr(subprocess.Popen, "wait", wait_in_vain)
        monkeypatch.setattr(subprocess.Popen, "kill", kill_late)
        await process.stop()
    assert late == ["killed"]
    assert not is_there(pid)
