"""Another client of the same broker, in a process of its own: asks a small question all the time.

    python -m tests.fairness.bystander HOST PORT PID

Of each question it takes how long the answer was in coming, and how much processor time the
broker's main thread (PID) has used meanwhile. ``begin`` on its standard input forgets what was,
``end`` has it print the longest of both, in nanoseconds, and how many questions there were.
"""

from __future__ import annotations

import contextlib
import os
import select
import sys
import time
from pathlib import Path
from typing import Final

from pamqp import commands, frame

from tests.support.raw_client import RawClient

PAUSE_S: Final = 0.001


class Bystander:
    """One connection, with a queue of its own."""

    def __init__(self, host: str, port: int, pid: int) -> None:
        self._client = RawClient((host, port)).open()
        queue = self._client.declare(exclusive=True)
        self._question = frame.marshal(commands.Queue.Declare(queue=queue, passive=True), 1)
        self._used = os.open(Path(f"/proc/{pid}/schedstat"), os.O_RDONLY)
        self.forget()

    def forget(self) -> None:
        """Begin a new measurement."""
        self._longest_ns = self._longest_used_ns = self._count = 0

    def ask(self) -> None:
        """Ask once, and wait for the answer."""
        before_ns, used_ns = time.monotonic_ns(), self._used_ns()
        self._client.send_octets(self._question)
        self._client.expect(commands.Queue.DeclareOk)
        self._longest_used_ns = max(self._longest_used_ns, self._used_ns() - used_ns)
        self._longest_ns = max(self._longest_ns, time.monotonic_ns() - before_ns)
        self._count += 1

    def report(self) -> str:
        """What was measured."""
        return f"{self._longest_ns} {self._longest_used_ns} {self._count}"

    def _used_ns(self) -> int:
        return int(os.pread(self._used, 64, 0).split()[0])


def main(host: str, port: int, pid: int) -> None:
    """Ask until the standard input ends."""
    with contextlib.suppress(OSError):  # where it may: so that it is not what others wait for
        os.setpriority(os.PRIO_PROCESS, 0, -10)
    bystander = Bystander(host, port, pid)
    print("ready", flush=True)
    while True:
        bystander.ask()
        if select.select([sys.stdin], [], [], PAUSE_S)[0]:
            word = sys.stdin.readline().strip()
            if word == "begin":
                bystander.forget()
                print("begun", flush=True)
            elif word == "end":
                print(bystander.report(), flush=True)
            else:
                return


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
