"""A very deep queue: what a waiting message costs in memory, and whether depth slows the drain.

The drain is measured from basic.consume to the last delivery. The shallow queue it is held against
is filled and drained in the same way many times.
"""

from __future__ import annotations

import selectors
import time
from typing import ClassVar, Final

from pamqp import commands

from benchmarks.macro import machine
from benchmarks.macro.client import Client
from benchmarks.macro.errors import BenchmarkError
from benchmarks.macro.frames import Address, Tape
from benchmarks.macro.scenario import (
    Bench,
    Better,
    Metric,
    Of,
    Outcome,
    Scenario,
    Stopwatch,
    Target,
    collector_off,
    temporary_queue,
)
from benchmarks.macro.traffic import AckMode, Consumer, Publisher

SHALLOW_DEPTH: Final = 10_000
SHALLOW_REPEATS: Final = 20
FILL_TIMEOUT_S: Final = 300.0
DRAIN_TIMEOUT_S: Final = 300.0
SETTLE_S: Final = 10.0
BODY_SIZE: Final = 100


class DeepQueue(Scenario):
    """`depth` messages of 100 bytes in one transient queue."""

    wants_fresh_broker: ClassVar[bool] = True
    needs_pid: ClassVar[bool] = True
    rounds_max: ClassVar[int | None] = 1

    def __init__(self, depth: int) -> None:
        super().__init__(
            f"deep_queue_{depth}_100B",
            f"{depth:,} waiting messages, then drained by an auto-ack consumer",
            (
                Metric("RSS per queued message", "bytes", Better.LOWER, Target(Of.VALUE, 700.0)),
                Metric("drain of the deep queue", "msg/s", Better.HIGHER),
                Metric("drain of a shallow queue", "msg/s", Better.HIGHER),
                Metric("shallow drain / deep drain", "x", Better.LOWER, Target(Of.VALUE, 1.3)),
            ),
        )
        self._depth = depth

    def run(self, bench: Bench) -> Outcome:
        assert bench.pid is not None, "the runner gives the process to a scenario that needs it"
        with (
            bench.control() as control,
            temporary_queue(control, "deep") as deep,
            temporary_queue(control, "shallow") as shallow,
        ):
            for _ in range(2):  # what the broker sets up once is paid before the base is read
                _fill_and_drain(bench, control, shallow, SHALLOW_DEPTH)
            base = machine.settled_rss_bytes(bench.pid, SETTLE_S)
            fill_s = _fill(bench, control, deep, self._depth)
            full = machine.settled_rss_bytes(bench.pid, SETTLE_S)
            watch = Stopwatch(bench.pid)
            deep_s = _drain(bench, deep, self._depth)
            watch.stop()
            shallow_s = sum(
                _fill_and_drain(bench, control, shallow, SHALLOW_DEPTH)
                for _ in range(SHALLOW_REPEATS)
            )
            deep_rate = self._depth / deep_s
            shallow_rate = SHALLOW_DEPTH * SHALLOW_REPEATS / shallow_s
            return watch.outcome(
                {
                    "RSS per queued message": (full - base) / self._depth,
                    "drain of the deep queue": deep_rate,
                    "drain of a shallow queue": shallow_rate,
                    "shallow drain / deep drain": shallow_rate / deep_rate,
                },
                {"fill in msg/s": self._depth / fill_s},
            )


def _fill_and_drain(bench: Bench, control: Client, queue: str, depth: int) -> float:
    """Seconds of the drain."""
    _fill(bench, control, queue, depth)
    return _drain(bench, queue, depth)


def _fill(bench: Bench, control: Client, queue: str, depth: int) -> float:
    """Publish `depth` messages and wait until all are ready; the seconds it took."""
    with Client(bench.url) as publishing:
        tape = Tape([Address(queue)], BODY_SIZE, publishing.frame_max)
        publisher = Publisher(publishing, tape, (), confirms=False)
        publishing.sock.settimeout(FILL_TIMEOUT_S)
        started = time.monotonic()
        with collector_off():
            publisher.publish_up_to(depth)
        while (ready := control.ready_count(queue)) != depth:
            if ready > depth or time.monotonic() - started > FILL_TIMEOUT_S:
                raise BenchmarkError(f"{depth} published, {ready} in the queue")
            time.sleep(0.005)
        return time.monotonic() - started


def _drain(bench: Bench, queue: str, depth: int) -> float:
    """Consume `depth` messages; seconds from basic.consume to the last of them."""
    with Client(bench.url) as consuming, collector_off(), selectors.DefaultSelector() as selector:
        tape = Tape([Address(queue)], BODY_SIZE, consuming.frame_max)
        selector.register(consuming.sock, selectors.EVENT_READ)
        started = time.monotonic()
        consuming.consume(queue)
        first = consuming.read_content()
        meter = tape.meter(first.shape, first_tag=1)
        meter.skip(1)
        consumer = Consumer(consuming, meter, AckMode.AUTO)
        while consumer.received < depth:
            if not selector.select(DRAIN_TIMEOUT_S):
                raise BenchmarkError(f"{depth} queued, {consumer.received} delivered")
            consumer.receive()
        elapsed_s = time.monotonic() - started
        if selector.select(0.02) or consumer.meter.octets != depth * first.shape.size:
            raise BenchmarkError(f"more came than the {depth} messages queued")
        consuming.sock.setblocking(True)
        consuming.call(commands.Basic.Cancel(consumer_tag="bench"), commands.Basic.CancelOk)
        return elapsed_s
