"""A broker whose loop is watched, a bystander that asks it small questions, and what a load costs.

A load prepares what it needs, and then does its worst while the bystander asks on (``loads``).

``Waits`` are in seconds. ``loop`` is the most processor time that the loop has used at one go,
``asked`` the most that it has used between a question of the bystander and the answer: what others
have to wait for a client, whatever else runs on the machine. ``clock`` is the same by the wall
clock, on a machine that may do other things as well.
"""

from __future__ import annotations

import mmap
import os
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

from pamqp import frame
from pamqp.base import Frame

from tests.support.broker_process import BrokerProcess
from tests.support.http_api import HttpApi
from tests.support.neighbour import busy_s
from tests.support.raw_client import RawClient
from tests.support.waiting import wait_for

PROGRAM: Final = Path(__file__).with_name("watched_broker.py")
ROOT: Final = Path(__file__).parents[2]
#: nanoseconds of the longest step and of the longest garbage collection, ticks, nanoseconds used
COUNTS: Final = struct.Struct("=QQQQ")
NUMBER: Final = b"00000000"  # what `numbered` counts up
QUIET_S: Final = 0.1
#: Of processor time: what it uses meanwhile if all that it has to do is to answer the bystander.
IDLE_S: Final = 0.02
DEADLINE_S: Final = 120.0
LARGE: Final = '[limits]\nmax_message_bytes = "128MiB"\n'
SENT_AT_ONCE: Final = 4 << 20


class Waits(NamedTuple):
    """What a load has cost others; see the module."""

    loop: float
    asked: float
    clock: float
    collection: float
    questions: int


@dataclass
class Stand:
    """``scale``: of how many a load has, of what it would have in full."""

    daemon: BrokerProcess
    scale: float
    _counts: mmap.mmap
    _bystander: subprocess.Popen[str]
    _clients: list[RawClient]

    def count(self, full: int) -> int:
        """How many of something a load is to have: ``full``, or a share of it."""
        return max(20, round(full * self.scale))

    def client(self, *channels: int, user: str = "guest") -> RawClient:
        """A client of this load, with these channels; ends with it."""
        client = RawClient((self.daemon.host, self.daemon.port))
        client.open(user, channels=channels or (1,))
        self._clients.append(client)
        return client

    def clients(self, count: int) -> list[RawClient]:
        """So many clients with a channel each."""
        return [self.client() for _ in range(count)]

    @property
    def api(self) -> HttpApi:
        """The HTTP API, as an administrator."""
        api = HttpApi(self.daemon.management_url)
        api.get("/api/whoami")  # what the first request of all takes is none of a load's
        return api

    def measure(self, load: Iterator[None]) -> Waits:
        """Let the load prepare itself, and take what it costs others from there to its end."""
        next(load)
        self._wait_until_idle()
        self._say("begin")
        self._counts[:] = bytes(COUNTS.size)
        for _ in load:
            raise AssertionError("a load is prepared once")
        self._wait_until_idle()
        longest, collection, _, _ = COUNTS.unpack(self._counts[:])
        clock, asked, questions = map(int, self._say("end").split())
        return Waits(longest / 1e9, asked / 1e9, clock / 1e9, collection / 1e9, questions)

    def _say(self, word: str) -> str:
        bystander = self._bystander
        assert bystander.stdin is not None
        assert bystander.stdout is not None
        bystander.stdin.write(word + "\n")
        bystander.stdin.flush()
        answer = bystander.stdout.readline()
        assert answer, "the bystander got no answer"
        return answer

    def _wait_until_idle(self) -> None:
        """Return when nothing of what was asked for is left to be done."""
        wait_for(self._is_idle, DEADLINE_S, "the broker to have nothing to do")

    def _is_idle(self) -> bool:
        before = busy_s(self.daemon)
        time.sleep(QUIET_S)
        return busy_s(self.daemon) - before < IDLE_S


@contextmanager
def standing(directory: Path, store: str, scale: float) -> Iterator[Stand]:
    """A broker with this ``storage.kind``, and its bystander."""
    counts = directory / "counts"
    counts.write_bytes(bytes(COUNTS.size))
    with ExitStack() as stack:
        opened = stack.enter_context(counts.open("r+b"))
        mapped = mmap.mmap(opened.fileno(), COUNTS.size)
        daemon = BrokerProcess(directory, f'[storage]\nkind = "{store}"\n{LARGE}')
        daemon.launcher = [sys.executable, "-P", str(PROGRAM), str(counts)]
        stack.callback(daemon.kill)
        daemon.start()
        assert daemon.process is not None
        command = [sys.executable, "-m", "tests.fairness.bystander"]
        command += [daemon.host, str(daemon.port), str(daemon.process.pid)]
        bystander = subprocess.Popen(
            command,
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        stack.callback(_end, bystander)
        assert bystander.stdout is not None
        assert bystander.stdout.readline() == "ready\n"
        clients: list[RawClient] = []
        try:
            yield Stand(daemon, scale, mapped, bystander, clients)
        finally:
            for client in clients:
                client.drop()
            mapped.close()
        _end(bystander)
        daemon.stop()


def _end(bystander: subprocess.Popen[str]) -> None:
    if bystander.stdin is not None and not bystander.stdin.closed:
        bystander.stdin.close()
    bystander.wait(DEADLINE_S)
    if bystander.stdout is not None:
        bystander.stdout.close()


def numbered(method: Frame, count: int, channel: int = 1, start: int = 0) -> bytes:
    """The method so many times, with `NUMBER` in its texts counted up."""
    octets = frame.marshal(method, channel)
    assert NUMBER in octets
    return b"".join(
        [octets.replace(NUMBER, b"%08d" % number) for number in range(start, start + count)]
    )


def send(client: RawClient, octets: bytes, sync: Callable[[], object] | None = None) -> None:
    """Send it in pieces; ``sync`` is called behind it, so that the broker has handled all."""
    for start in range(0, len(octets), SENT_AT_ONCE):
        client.send_octets(octets[start : start + SENT_AT_ONCE])
    if sync is not None:
        sync()
