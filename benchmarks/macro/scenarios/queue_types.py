"""Throughput of each queue type, held against a FIFO queue under the same load in the same run.

The FIFO figure beside each number is that of a plain queue that gets the same messages from the
same number of publishers and gives them to as many consumers, measured just before: what the queue
type costs, and not what its headers cost on their way.
"""

from __future__ import annotations

import contextlib
from typing import ClassVar, Final

from pamqp import common

from benchmarks.macro.client import Client
from benchmarks.macro.errors import BenchmarkError
from benchmarks.macro.frames import DeliveryShape
from benchmarks.macro.scenario import (
    QUEUE_TYPES_SECTION,
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
from benchmarks.macro.scenarios import queue_loads
from benchmarks.macro.scenarios.queue_loads import QueueLoad
from benchmarks.macro.scenarios.throughput import Throughput, fanout
from benchmarks.macro.shapes import Shape
from benchmarks.macro.traffic import NO_LIMIT, Limits, Publisher, Reach, TrafficLoop

IN_FLIGHT_MAX: Final = 10_000
CONFIRM_WINDOW: Final = 5_000
# readers are at most IN_FLIGHT_MAX behind, so none misses any; it is full when the warm-up ends
KEPT_MAX: Final = 2 * IN_FLIGHT_MAX

OF_FIFO: Final = "by FIFO's"
_HALF_OF_FIFO: Final = Target(Of.VALUE, 0.5)


class QueueType(Scenario):
    """Deliveries of one queue type to all its consumers, and those of a FIFO queue."""

    is_long: ClassVar[bool] = True
    section: ClassVar[str] = QUEUE_TYPES_SECTION
    reach: ClassVar[Reach] = Reach.ONE

    def __init__(
        self, name: str, summary: str, load: QueueLoad, *, peer_target: float | None = None
    ) -> None:
        bound = None if peer_target is None else Target(Of.RATIO, peer_target)
        super().__init__(
            name,
            summary,
            (
                Metric("deliveries", "msg/s", Better.HIGHER, bound),
                Metric("FIFO deliveries", "msg/s", Better.HIGHER),
                Metric(f"deliveries {OF_FIFO}", "x", Better.HIGHER, _HALF_OF_FIFO),
            ),
        )
        self.load = load

    def run(self, bench: Bench) -> Outcome:
        with bench.control() as control:
            shape = queue_loads.learn_shape(bench, control, self.load)
            fifo = self.fifo_rate(bench, control, shape)
            watch = Stopwatch(bench.pid)
            rate = self._rate(bench, control, shape, self.load.arguments, watch)
        return watch.outcome(
            {"deliveries": rate, "FIFO deliveries": fifo, f"deliveries {OF_FIFO}": rate / fifo}
        )

    def fifo_rate(self, bench: Bench, control: Client, shape: DeliveryShape) -> float:
        return self._rate(bench, control, shape, None, Stopwatch(bench.pid))

    def _rate(
        self,
        bench: Bench,
        control: Client,
        shape: DeliveryShape,
        arguments: common.FieldTable | None,
        watch: Stopwatch,
    ) -> float:
        """Deliveries per second; a queue without arguments gets consumers without any."""
        with (
            temporary_queue(control, self.load.stem, arguments) as queue,
            contextlib.ExitStack() as stack,
        ):
            publisher = queue_loads.connect(
                bench,
                self.load,
                queue,
                shape,
                stack,
                reach=self.reach,
                is_filtered=arguments is not None,
            )
            return _measure(bench, publisher, stack, watch)[0]


class NonDestructive(QueueType):
    """Each of the readers gets each message; a FIFO queue does that by a fanout exchange."""

    is_for_subject_only: ClassVar[bool] = True
    reach: ClassVar[Reach] = Reach.ALL

    def fifo_rate(self, bench: Bench, control: Client, shape: DeliveryShape) -> float:
        declare = fanout(len(self.load.filters))
        copies = Throughput("fanout", "", declare=declare, shape=Shape.ALIKE)
        return copies.run(bench).values["deliveries"]


class Unrivalled(QueueType):
    """A queue type that RabbitMQ has nothing like."""

    is_for_subject_only: ClassVar[bool] = True


class LastValue(Scenario):
    """Publishes of new values, with a consumer that keeps up and without a consumer.

    A value that is replaced is never delivered, so publishes are counted, and confirms pace them,
    those of the FIFO queue too. The FIFO queue always has its consumer: without one it would grow.
    """

    is_long: ClassVar[bool] = True
    section: ClassVar[str] = QUEUE_TYPES_SECTION
    is_for_subject_only: ClassVar[bool] = True

    def __init__(self, name: str, summary: str, load: QueueLoad) -> None:
        super().__init__(
            name,
            summary,
            (
                Metric("publishes, consumed", "msg/s", Better.HIGHER),
                Metric("publishes, each replacing one", "msg/s", Better.HIGHER),
                Metric("FIFO publishes", "msg/s", Better.HIGHER),
                Metric(f"consumed {OF_FIFO}", "x", Better.HIGHER, _HALF_OF_FIFO),
                Metric(f"replacing {OF_FIFO}", "x", Better.HIGHER, _HALF_OF_FIFO),
            ),
        )
        self._load = load

    def run(self, bench: Bench) -> Outcome:
        with bench.control() as control:
            shape = queue_loads.learn_shape(bench, control, self._load)
            fifo = self._run_consumed(bench, control, shape, None)[1]
            watch = Stopwatch(bench.pid)
            replacing = self._run_alone(bench, control, shape)
            delivered, consumed = self._run_consumed(
                bench, control, shape, self._load.arguments, watch
            )
        return watch.outcome(
            {
                "publishes, consumed": consumed,
                "publishes, each replacing one": replacing,
                "FIFO publishes": fifo,
                f"consumed {OF_FIFO}": consumed / fifo,
                f"replacing {OF_FIFO}": replacing / fifo,
            },
            {"deliveries in msg/s": delivered},
        )

    def _run_consumed(
        self,
        bench: Bench,
        control: Client,
        shape: DeliveryShape,
        arguments: common.FieldTable | None,
        watch: Stopwatch | None = None,
    ) -> tuple[float, float]:
        """Deliveries and publishes per second."""
        with (
            temporary_queue(control, self._load.stem, arguments) as queue,
            contextlib.ExitStack() as stack,
        ):
            publisher = queue_loads.connect(
                bench, self._load, queue, shape, stack, reach=Reach.AT_MOST_ONE
            )
            rates = _measure(bench, publisher, stack, watch or Stopwatch(bench.pid))
            _expect_ready(control, queue, 0)
            return rates

    def _run_alone(self, bench: Bench, control: Client, shape: DeliveryShape) -> float:
        """Publishes per second, of which one for each key stays in the queue."""
        with (
            temporary_queue(control, self._load.stem, self._load.arguments) as queue,
            contextlib.ExitStack() as stack,
        ):
            publisher = queue_loads.connect(
                bench,
                self._load,
                queue,
                shape,
                stack,
                reach=Reach.AT_MOST_ONE,
                is_consumed=False,
            )
            rate = _measure(bench, publisher, stack, Stopwatch(bench.pid))[1]
            _expect_ready(control, queue, min(len(self._load.properties), publisher.published))
            return rate


def _measure(
    bench: Bench, publisher: Publisher, stack: contextlib.ExitStack, watch: Stopwatch
) -> tuple[float, float]:
    """Deliveries and publishes per second."""
    is_paced_by_confirms = publisher.reach is Reach.AT_MOST_ONE
    limits = Limits(IN_FLIGHT_MAX, CONFIRM_WINDOW if is_paced_by_confirms else NO_LIMIT)
    loop = TrafficLoop([publisher], publisher.consumers, limits)
    stack.callback(loop.close)
    with collector_off():
        return loop.measure(bench.warm_up_s, bench.seconds, watch)


def _expect_ready(control: Client, queue: str, count: int) -> None:
    ready = control.ready_count(queue)
    if ready != count:
        raise BenchmarkError(f"{ready} messages are left in the queue where {count} are due")


def scenarios() -> list[Scenario]:
    return [
        QueueType(
            "queue_priority_11_levels_100B",
            "x-max-priority 10, publishes over all priorities in turn, auto-ack",
            queue_loads.priority(),
            peer_target=3.0,
        ),
        Unrivalled(
            "queue_sorted_10000_keys_100B",
            "x-sort-key over 10,000 scrambled keys, auto-ack",
            queue_loads.sorted_by_key(),
        ),
        LastValue(
            "queue_last_value_10000_keys_100B",
            "x-last-value-key over 10,000 keys in turn; publishes with confirms are counted",
            queue_loads.last_value(),
        ),
        *(
            Unrivalled(
                f"queue_groups_10000_{kind}_8_consumers_100B",
                f"{kind} message groups, 10,000 in turn, 8 consumers, an ack each 100",
                queue_loads.groups(kind),
            )
            for kind in ("standard", "shared")
        ),
        Unrivalled(
            "queue_selector_1_in_10_100B",
            "one consumer selects one message in ten, another the rest; deliveries of both",
            queue_loads.selectors(),
        ),
        NonDestructive(
            "queue_non_destructive_10_readers_100B",
            "10 readers of one queue that keeps 20,000; FIFO: a fanout to 10 queues",
            queue_loads.non_destructive(KEPT_MAX),
        ),
    ]
