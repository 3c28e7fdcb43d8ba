"""Memory per idle connection: growth of the broker's resident set over many connections."""

from __future__ import annotations

import contextlib
from typing import ClassVar, Final

from benchmarks.macro import machine
from benchmarks.macro.client import Client
from benchmarks.macro.errors import BenchmarkError
from benchmarks.macro.scenario import Bench, Better, Metric, Of, Outcome, Scenario, Target

SETTLE_S: Final = 10.0
SPARE_FILES: Final = 200


class IdleConnections(Scenario):
    """The bare connections are measured first; then each opens a channel, as clients do."""

    wants_fresh_broker: ClassVar[bool] = True
    needs_pid: ClassVar[bool] = True

    def __init__(self, connections: int) -> None:
        super().__init__(
            f"idle_connections_{connections}",
            f"{connections:,} connections that do nothing",
            (
                Metric("RSS per connection", "KB", Better.LOWER, Target(Of.VALUE, 40.0)),
                Metric("RSS per connection with a channel", "KB", Better.LOWER),
            ),
        )
        self._connections = connections

    def run(self, bench: Bench) -> Outcome:
        assert bench.pid is not None, "the runner gives the process to a scenario that needs it"
        if machine.raise_file_limit(self._connections + SPARE_FILES) < self._connections:
            raise BenchmarkError(f"may not open {self._connections} sockets: raise the file limit")
        with contextlib.ExitStack() as stack:
            # the first connection pays for what the broker sets up once
            stack.enter_context(Client(bench.url))
            base = machine.settled_rss_bytes(bench.pid, SETTLE_S)
            clients = [
                stack.enter_context(Client(bench.url, with_channel=False))
                for _ in range(self._connections)
            ]
            connected = machine.settled_rss_bytes(bench.pid, SETTLE_S)
            for client in clients:
                client.open_channel()
            with_channel = machine.settled_rss_bytes(bench.pid, SETTLE_S)
        return Outcome(
            {
                "RSS per connection": (connected - base) / self._connections / 1000,
                "RSS per connection with a channel": (with_channel - base)
                / self._connections
                / 1000,
            },
            {"base RSS in MB": base / 1e6},
        )
