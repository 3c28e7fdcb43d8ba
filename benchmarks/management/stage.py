"""What is in the broker while its API is measured: queues, consumers, dead letters, a full load."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Sequence
from typing import Final

from benchmarks.macro.client import Client
from benchmarks.macro.errors import BenchmarkError
from benchmarks.macro.frames import Address, publish_octets
from benchmarks.macro.scenario import Bench, Stopwatch, collector_off, temporary_queue, unique_name
from benchmarks.macro.shapes import Shape, make_tape
from benchmarks.macro.traffic import NO_LIMIT, AckMode, Consumer, Limits, Publisher, TrafficLoop

BODY_SIZE: Final = 100
IN_FLIGHT_MAX: Final = 10_000
LOAD_WARM_UP_S: Final = 0.5
#: of each queue: one that its consumer holds, and one that waits
MESSAGES: Final = 2
CONSUMERS_OF_A_CONNECTION: Final = 1_000
DEAD_QUEUES: Final = 100
DEAD_MESSAGES: Final = 500
ARRIVAL_S: Final = 60.0


@contextlib.contextmanager
def queues(bench: Bench, count: int) -> Iterator[list[str]]:
    """Queues with a consumer, a delivery that is not acknowledged, and a message each."""
    with bench.control() as control, contextlib.ExitStack() as stack:
        stem = unique_name("listed")
        names = [f"{stem}.{number:05d}" for number in range(count)]
        stack.callback(_delete, control, names)
        for name in names:
            control.declare_queue(name)
        publish(control, names, MESSAGES)
        for start in range(0, count, CONSUMERS_OF_A_CONNECTION):
            consuming = stack.enter_context(Client(bench.url))
            for number, name in enumerate(names[start : start + CONSUMERS_OF_A_CONNECTION]):
                consuming.consume(name, prefetch=1, no_ack=False, tag=f"c{number:04d}")
                consuming.read_content()
        yield names


@contextlib.contextmanager
def connections(bench: Bench, count: int) -> Iterator[None]:
    """Connections with a channel each."""
    with contextlib.ExitStack() as stack:
        for _ in range(count):
            stack.enter_context(Client(bench.url))
        yield


@contextlib.contextmanager
def dead_letters(bench: Bench) -> Iterator[None]:
    """Queues with dead letters, each from a queue of its own where every message expires."""
    with bench.control() as control:
        stem = unique_name("dead")
        graves = [f"{stem}.grave.{number:03d}" for number in range(DEAD_QUEUES)]
        sources = [f"{stem}.source.{number:03d}" for number in range(DEAD_QUEUES)]
        try:
            for grave, source in zip(graves, sources, strict=True):
                control.declare_queue(grave)
                control.declare_queue(
                    source,
                    {
                        "x-message-ttl": 0,
                        "x-dead-letter-exchange": "",
                        "x-dead-letter-routing-key": grave,
                    },
                )
            publish(control, sources, DEAD_MESSAGES)
            deadline = time.monotonic() + ARRIVAL_S
            while any(control.ready_count(grave) < DEAD_MESSAGES for grave in graves):
                if time.monotonic() > deadline:
                    raise BenchmarkError("not all dead letters have arrived")
                time.sleep(0.1)
            yield
        finally:
            _delete(control, [*sources, *graves])


@contextlib.contextmanager
def deep_queue(bench: Bench, depth: int) -> Iterator[str]:
    """A queue with so many messages."""
    with bench.control() as control, temporary_queue(control, "deep") as name:
        publish(control, [name], depth)
        if control.ready_count(name) != depth:
            raise BenchmarkError(f"not all of {depth} messages are in the queue")
        yield name


def publish(client: Client, names: Sequence[str], count: int) -> None:
    """So many messages to each of the queues."""
    for name in names:
        octets = publish_octets(Address(name), bytes(BODY_SIZE), client.frame_max)
        for start in range(0, count, 1_000):
            client.sock.sendall(octets * min(1_000, count - start))


def _delete(control: Client, names: Sequence[str]) -> None:
    """A broker that is gone by then must not hide why it went."""
    with contextlib.suppress(BenchmarkError, OSError):
        for name in names:
            control.delete_queue(name)


class FullLoad:
    """Messages that differ go through one queue, as fast as they can."""

    def __init__(self, loop: TrafficLoop, pid: int | None) -> None:
        self._loop = loop
        self._pid = pid

    def run(self, seconds: float) -> tuple[float, Stopwatch]:
        """Deliveries a second, and the processor time meanwhile."""
        watch = Stopwatch(self._pid)
        with collector_off():
            delivered, _ = self._loop.measure(LOAD_WARM_UP_S, seconds, watch)
        return delivered, watch


@contextlib.contextmanager
def full_load(bench: Bench) -> Iterator[FullLoad]:
    """A publisher, a queue and an auto-ack consumer."""
    with (
        bench.control() as control,
        temporary_queue(control, "load") as queue,
        Client(bench.url) as publishing,
        Client(bench.url) as consuming,
        contextlib.ExitStack() as stack,
    ):
        consuming.consume(queue)
        tape = make_tape(Shape.DIFFERING, [Address(queue)], BODY_SIZE, publishing.frame_max)
        publishing.sock.sendall(tape.piece(0, 1))  # to learn what deliveries look like
        meter = tape.meter(consuming.read_content().shape, first_tag=2)
        consumer = Consumer(consuming, meter, AckMode.AUTO)
        publisher = Publisher(publishing, tape, [consumer], confirms=False)
        loop = TrafficLoop([publisher], [consumer], Limits(IN_FLIGHT_MAX, NO_LIMIT))
        stack.callback(loop.close)
        yield FullLoad(loop, bench.pid)
