"""A client that asks a small question again and again, and how long the broker kept it waiting.

The wait is taken in processor time of the broker's main thread, where its event loop is: what other
processes on the machine do does not count.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from .broker_process import BrokerProcess
from .raw_client import RawClient
from .waiting import wait_for

PAUSE_S: Final = 0.002
STOP_DEADLINE_S: Final = 60.0


def busy_s(daemon: BrokerProcess) -> float:
    """Seconds of processor time that the daemon's main thread has used."""
    assert daemon.process is not None
    nanoseconds = Path(f"/proc/{daemon.process.pid}/schedstat").read_text().split()[0]
    return int(nanoseconds) / 1e9


class Neighbour:
    """``longest_wait_s``: the most that the broker worked between a question and its answer."""

    def __init__(self, daemon: BrokerProcess) -> None:
        self._daemon = daemon
        self._client = RawClient((daemon.host, daemon.port)).open()
        self._queue = self._client.declare(exclusive=True)
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._ask, name="neighbour", daemon=True)
        self.longest_wait_s = 0.0
        self.question_count = 0

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._is_over.set()
        self._thread.join(STOP_DEADLINE_S)
        assert not self._thread.is_alive(), "the broker does not answer"
        self._client.drop()

    def _ask(self) -> None:
        while not self._is_over.wait(PAUSE_S):
            before = busy_s(self._daemon)
            self._client.ready_count(self._queue)
            self.longest_wait_s = max(self.longest_wait_s, busy_s(self._daemon) - before)
            self.question_count += 1


@contextmanager
def neighbour_of(daemon: BrokerProcess) -> Iterator[Neighbour]:
    """Somebody else who uses the broker while the block runs."""
    neighbour = Neighbour(daemon)
    neighbour.start()
    try:
        wait_for(lambda: neighbour.question_count, STOP_DEADLINE_S, "a neighbour's first answer")
        yield neighbour
    finally:
        neighbour.stop()
