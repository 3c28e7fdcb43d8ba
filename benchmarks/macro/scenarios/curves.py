"""What a message costs while one thing grows: the backlog, queues, connections, consumers, fan-out.

The cost is the processor time of the broker's process, which other programs on the machine disturb
less than they disturb rates. The messages are those that differ. Each point of a curve has queues,
connections and consumers of its own, and everything else is the same at each of its points.
"""

from __future__ import annotations

import contextlib
import itertools
from abc import abstractmethod
from collections.abc import Sequence
from typing import ClassVar, Final

from benchmarks.macro import machine
from benchmarks.macro.client import Client
from benchmarks.macro.errors import BenchmarkError
from benchmarks.macro.frames import Address
from benchmarks.macro.scenario import (
    CURVES_SECTION,
    Bench,
    Better,
    Metric,
    Outcome,
    Scenario,
    Stopwatch,
    collector_off,
    unique_name,
)
from benchmarks.macro.scenarios import queue_loads
from benchmarks.macro.scenarios.queue_backlog import HeldBacklog
from benchmarks.macro.scenarios.queue_loads import QueueLoad
from benchmarks.macro.shapes import MESSAGES, Shape, ShapedTape, make_tape, properties_of
from benchmarks.macro.traffic import (
    NO_LIMIT,
    AckMode,
    Consumer,
    Limits,
    Publisher,
    Reach,
    TrafficLoop,
)

BODY_SIZE: Final = 100
IN_FLIGHT_MAX: Final = 10_000
#: deliveries; a message of a wide fan-out is many
IN_FLIGHT_DELIVERIES_MAX: Final = 20_000
#: messages that one connection sends before the next one does: about what one read gives
BURST: Final = 100
#: how often each queue and connection is used before the clock runs: what is paid once is no cost
LAPS: Final = 2
SPARE_FILES: Final = 200
GROWTH: Final = "largest / smallest"

Cost = tuple[float, Stopwatch]
"""Processor seconds of the broker for a message, and the watch that saw them."""


class Curve(Scenario):
    """Microseconds a message at each of some points, and how much that grows over them all."""

    section: ClassVar[str] = CURVES_SECTION
    needs_pid: ClassVar[bool] = True
    is_for_subject_only: ClassVar[bool] = True
    rounds_max: ClassVar[int | None] = 1
    unit: ClassVar[str] = "us/msg"

    def __init__(self, name: str, points: Sequence[int], summary: str) -> None:
        super().__init__(
            f"curve_{name}",
            summary,
            (
                *(Metric(f"{point:,}", self.unit, Better.LOWER) for point in points),
                Metric(GROWTH, "x", Better.LOWER),
            ),
        )
        self.points = points

    def run(self, bench: Bench) -> Outcome:
        costs = [self.cost(bench, point) for point in self.points]
        values = [seconds * 1e6 for seconds, _ in costs]
        values.append(values[-1] / values[0])
        _, watch = costs[-1]
        names = [metric.name for metric in self.metrics]
        return watch.outcome(dict(zip(names, values, strict=True)))

    @abstractmethod
    def cost(self, bench: Bench, point: int) -> Cost:
        """Measure at one point."""


class BacklogCurve(Curve):
    """A queue that holds so many messages while others go through it, with confirms and acks."""

    def cost(self, bench: Bench, point: int) -> Cost:
        properties = [properties_of(Shape.DIFFERING, number) for number in range(MESSAGES)]
        load = QueueLoad("fifo", {}, properties)
        watch = Stopwatch(bench.pid)
        with bench.control() as control:
            shape = queue_loads.learn_shape(bench, control, load)
            held = HeldBacklog(load, point, "")
            seconds, _ = held.measure(bench, control, shape, point, watch)
        return seconds, watch


class FlowCurve(Curve):
    """Messages go through as fast as they can, to auto-ack consumers on one channel.

    A point says how many queues there are, how many consumers each has, and so on.
    """

    def queues(self, point: int) -> int:
        return 1

    def consumers(self, point: int) -> int:
        """How many consumers each queue has."""
        return 1

    def connections(self, point: int) -> int:
        """How many connections publish, one after the other."""
        return 1

    def copies(self, point: int) -> int:
        """How many queues get each message."""
        return 1

    def cost(self, bench: Bench, point: int) -> Cost:
        files = self.connections(point) + SPARE_FILES
        if machine.raise_file_limit(files) < files:
            raise BenchmarkError(f"may not open {files} files: raise the file limit")
        with bench.control() as control, contextlib.ExitStack() as stack:
            publisher = self._connect(bench, control, point, stack)
            in_flight = min(IN_FLIGHT_MAX, IN_FLIGHT_DELIVERIES_MAX // publisher.copies)
            loop = TrafficLoop([publisher], publisher.consumers, Limits(in_flight, NO_LIMIT))
            stack.callback(loop.close)
            watch = Stopwatch(bench.pid)
            with collector_off():
                loop.warm_up(max(self.queues(point), self.connections(point)) * LAPS)
                if isinstance(publisher, RotatingPublisher):
                    publisher.burst = BURST
                delivered, _ = loop.measure(bench.warm_up_s, bench.seconds, watch)
        if not delivered:
            raise BenchmarkError("no message was delivered while the clock ran")
        return watch.cores["broker"] / delivered, watch

    def _connect(
        self, bench: Bench, control: Client, point: int, stack: contextlib.ExitStack
    ) -> Publisher:
        copies = self.copies(point)
        queues = self._declare(control, max(copies, self.queues(point)), stack)
        if copies > 1:
            addresses = [Address("", self._bind_all(control, queues, stack))]
        else:
            addresses = [Address(queue) for queue in queues]
        consuming = stack.enter_context(Client(bench.url))
        tags = itertools.count()
        for queue in queues:
            for _ in range(self.consumers(point)):
                consuming.consume(queue, tag=f"bench{next(tags):06d}")
        publishing = [
            stack.enter_context(Client(bench.url)) for _ in range(self.connections(point))
        ]
        tape = make_tape(Shape.DIFFERING, addresses, BODY_SIZE, publishing[0].frame_max)
        assert isinstance(tape, ShapedTape)
        publishing[0].sock.sendall(tape.piece(0, 1))
        shape, *_ = [consuming.read_content().shape for _ in range(copies)]
        meter = tape.meter(shape, first_tag=copies + 1, is_ordered=False)
        consumer = Consumer(consuming, meter, AckMode.AUTO)
        if len(publishing) > 1:
            return RotatingPublisher(publishing, tape, consumer)
        return Publisher(
            publishing[0], tape, [consumer], confirms=False, reach=Reach.ONE, copies=copies
        )

    def _declare(self, control: Client, count: int, stack: contextlib.ExitStack) -> list[str]:
        stem = unique_name("curve")
        queues = [f"{stem}.{number:05d}" for number in range(count)]
        for queue in queues:
            control.declare_queue(queue)
            stack.callback(_delete, control, queue)
        return queues

    def _bind_all(self, control: Client, queues: Sequence[str], stack: contextlib.ExitStack) -> str:
        """A fanout exchange to all of these queues."""
        exchange = unique_name("curve")
        control.declare_exchange(exchange, "fanout")
        stack.callback(control.delete_exchange, exchange)
        for queue in queues:
            control.bind(queue, exchange)
        return exchange


class QueuesCurve(FlowCurve):
    """So many queues with a consumer each; messages go to them in turn."""

    def queues(self, point: int) -> int:
        return point


class ConsumersCurve(FlowCurve):
    """So many consumers of one queue."""

    def consumers(self, point: int) -> int:
        return point


class ConnectionsCurve(FlowCurve):
    """So many connections that publish to one queue, a hundred messages each in turn."""

    def connections(self, point: int) -> int:
        return point


class FanoutCurve(FlowCurve):
    """So many queues that get each message, with a consumer each."""

    unit: ClassVar[str] = "us/delivery"

    def copies(self, point: int) -> int:
        return point


class RotatingPublisher(Publisher):
    """Sends each burst of its tape over the next of its connections.

    A burst is one message until another number is asked for. Its sockets block; the window keeps
    far less on its way than they take.
    """

    __slots__ = ("_socks", "burst")

    def __init__(self, clients: Sequence[Client], tape: ShapedTape, consumer: Consumer) -> None:
        super().__init__(clients[0], tape, [consumer], confirms=False, reach=Reach.ONE)
        self.burst = 1
        for client in clients:
            client.sock.setblocking(True)
        self._socks = itertools.cycle([client.sock for client in clients])

    def publish_up_to(self, count: int) -> None:
        published = self.published
        while published + self.burst <= count:
            size = min(self.burst, self.tape.count - published % self.tape.count)
            octets = self.tape.piece(published, size)
            next(self._socks).sendall(octets)
            self.octets += len(octets)
            published += size


def _delete(control: Client, queue: str) -> None:
    """A broker that is gone by then must not hide why it went."""
    with contextlib.suppress(BenchmarkError, OSError):
        control.delete_queue(queue)


def scenarios(most: int, widest: int, backlogs: Sequence[int]) -> list[Scenario]:
    """Curves up to `most` of each and a fan-out to `widest` queues, at these backlogs."""
    points = (1, 100, most) if most > 100 else (1, 10, most)
    return [
        BacklogCurve("backlog", backlogs, "confirms, an ack each 100, while so many wait"),
        QueuesCurve("queues", points, "queues in turn, with a consumer each"),
        ConnectionsCurve("connections", points, "connections that publish a hundred in turn"),
        ConsumersCurve("consumers", points, "consumers of one queue"),
        FanoutCurve("fanout", (1, 10, widest), "a fanout exchange, a consumer each"),
    ]
