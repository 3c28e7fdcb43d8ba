"""All scenarios, in the order of the report.

`full` is what `make bench` runs; `quick` is the same with smaller numbers where a scenario's size,
not its duration, makes it slow. The names carry the numbers, so that the two never mix.
"""

from __future__ import annotations

from benchmarks.macro.scenario import Scenario
from benchmarks.macro.scenarios import (
    deep_queue,
    idle_connections,
    latency,
    polling,
    queue_backlog,
    queue_types,
    rpc,
    throughput,
)


def full() -> list[Scenario]:
    return _all(connections=2_000, depth=1_000_000)


def quick() -> list[Scenario]:
    return _all(connections=200, depth=100_000)


def _all(connections: int, depth: int) -> list[Scenario]:
    return [
        *throughput.scenarios(),
        *polling.scenarios(),
        *rpc.scenarios(),
        latency.Latency(rate_per_s=5_000),
        idle_connections.IdleConnections(connections),
        deep_queue.DeepQueue(depth),
        *queue_types.scenarios(),
        *queue_backlog.scenarios(depth),
    ]
