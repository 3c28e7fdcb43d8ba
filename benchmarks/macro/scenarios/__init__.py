"""All scenarios, in the order of the report.

`full` is what `make bench` runs; `quick` is the same with smaller numbers where a scenario's size,
not its duration, makes it slow. The names carry the numbers, so that the two never mix.
"""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.macro.scenario import Scenario
from benchmarks.macro.scenarios import (
    curves,
    deep_queue,
    deep_stream,
    durable_store,
    fanout_flood,
    idle_connections,
    latency,
    persistent,
    polling,
    queue_backlog,
    queue_types,
    rpc,
    throughput,
)


def full(durable_depth: int | None = None, *, with_deepest: bool = False) -> list[Scenario]:
    """`durable_depth` is how many messages the deep durable queue gets; None: as many as due.

    `with_deepest` adds the point of ten million to the curve of the backlog.
    """
    return _all(
        connections=2_000,
        depth=1_000_000,
        recovered=1_000_000,
        durable_depth=durable_depth or 10_000_000,
        segments=16,
        flood_s=8.0,
        most=10_000,
        widest=1_000,
        backlogs=(1_000, 100_000, *((10_000_000,) if with_deepest else ())),
    )


def quick(durable_depth: int | None = None, *, with_deepest: bool = False) -> list[Scenario]:
    return _all(
        connections=200,
        depth=100_000,
        recovered=100_000,
        durable_depth=durable_depth or 200_000,
        segments=4,
        flood_s=2.0,
        most=100,
        widest=100,
        backlogs=(1_000, 10_000, *((1_000_000,) if with_deepest else ())),
    )


def _all(
    connections: int,
    depth: int,
    recovered: int,
    durable_depth: int,
    segments: int,
    flood_s: float,
    most: int,
    widest: int,
    backlogs: Sequence[int],
) -> list[Scenario]:
    return [
        *throughput.scenarios(),
        *polling.scenarios(),
        *rpc.scenarios(),
        *latency.scenarios(),
        idle_connections.IdleConnections(connections),
        deep_queue.DeepQueue(depth),
        *curves.scenarios(most, widest, backlogs),
        fanout_flood.FanoutFlood(publishers=20, queues=1_000, seconds=flood_s),
        *queue_types.scenarios(),
        *queue_backlog.scenarios(depth),
        *persistent.scenarios(),
        *durable_store.scenarios(recovered, durable_depth, segments),
        deep_stream.DeepStream(durable_depth),
    ]
