"""What a message costs at a backlog of a million, held against a backlog of a thousand.

The backlog is held while it is measured: as many messages go in as come out, through the same
windows at either depth, so that the depth is all that differs. What is published meanwhile is
spread over all priorities, keys or groups, so entries go in and come out where the queue type puts
them.

The cost is the broker's processor time, which other programs on the machine disturb less than
they disturb rates. How fast the deep queue fills and drains is listed among the details.
"""

from __future__ import annotations

import contextlib
import selectors
import time
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from typing import ClassVar, Final

from pamqp import commands

from benchmarks.macro.client import Client
from benchmarks.macro.errors import BenchmarkError
from benchmarks.macro.frames import Address, DeliveryShape, Tape, publish_octets, stamped_body
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
from benchmarks.macro.scenarios.queue_loads import BODY_SIZE, QueueLoad
from benchmarks.macro.traffic import (
    NO_LIMIT,
    AckMode,
    Consumer,
    Limits,
    Publisher,
    Reach,
    TrafficLoop,
)

SHALLOW: Final = 1_000
PREFETCH_OF_ALL: Final = 2_000  # shared out over the consumers
PUBLISH_WINDOW: Final = 1_000
READER_WINDOW: Final = SHALLOW // 2  # readers must not fall behind what the queue keeps
CONFIRM_WINDOW: Final = 5_000
KEY_TAPE_COUNT: Final = 20_000
FILL_TIMEOUT_S: Final = 300.0
DRAIN_TIMEOUT_S: Final = 300.0
FILL_PIECE: Final = 10_000

_DIGITS_MARK: Final = "#######"  # as long as the digits that take its place


class Backlog(Scenario):
    """Microseconds of the broker's processor time per message at either depth, and their ratio."""

    needs_pid: ClassVar[bool] = True
    is_long: ClassVar[bool] = True
    section: ClassVar[str] = QUEUE_TYPES_SECTION
    is_for_subject_only: ClassVar[bool] = True

    def __init__(self, load: QueueLoad, depth: int, summary: str) -> None:
        super().__init__(
            f"backlog_{load.stem}_{depth}_100B",
            summary,
            (
                Metric("at the deep backlog", "us/msg", Better.LOWER),
                Metric("at a backlog of 1,000", "us/msg", Better.LOWER),
                Metric("deep / shallow", "x", Better.LOWER, Target(Of.VALUE, 1.5)),
            ),
        )
        self.load = load
        self.depth = depth

    def run(self, bench: Bench) -> Outcome:
        with bench.control() as control:
            shape = queue_loads.learn_shape(bench, control, self.load)
            shallow_s, _ = self.measure(bench, control, shape, SHALLOW, Stopwatch(bench.pid))
            watch = Stopwatch(bench.pid)
            deep_s, details = self.measure(bench, control, shape, self.depth, watch)
        return watch.outcome(
            {
                "at the deep backlog": deep_s * 1e6,
                "at a backlog of 1,000": shallow_s * 1e6,
                "deep / shallow": deep_s / shallow_s,
            },
            details,
        )

    @abstractmethod
    def measure(
        self, bench: Bench, control: Client, shape: DeliveryShape, depth: int, watch: Stopwatch
    ) -> tuple[float, dict[str, float]]:
        """Processor seconds per message at that depth, and what else was seen."""


class HeldBacklog(Backlog):
    """A queue from which each consumer takes what it may have.

    The consumers ack no more than was confirmed since they came, so at least `depth` stay ready.
    """

    def measure(
        self, bench: Bench, control: Client, shape: DeliveryShape, depth: int, watch: Stopwatch
    ) -> tuple[float, dict[str, float]]:
        count = len(self.load.filters)
        load = replace(self.load, mode=AckMode.EVERY_100, prefetch=PREFETCH_OF_ALL // count)
        with temporary_queue(control, load.stem, load.arguments) as queue:
            fill_s = _fill(bench, control, load, queue, depth + PREFETCH_OF_ALL)
            with contextlib.ExitStack() as stack:
                publisher = queue_loads.connect(bench, load, queue, shape, stack, confirms=True)
                loop = HoldingLoop(publisher)
                stack.callback(loop.close)
                with collector_off():
                    rate = loop.hold(bench.warm_up_s, bench.seconds, watch)
                ready = control.ready_count(queue)
                if ready < depth:
                    raise BenchmarkError(f"{ready} are ready where {depth} were to be held")
            drain_rate = _empty(bench, control, replace(load, mode=AckMode.AUTO), queue, shape)
        return watch.cores["broker"] / rate, {
            "fill in msg/s": (depth + PREFETCH_OF_ALL) / fill_s,
            "drain in msg/s": drain_rate,
        }


class LastValueBacklog(Backlog):
    """A queue of `depth` keys and no consumer: each publish takes the place of an older value.

    At either depth the same number of different messages goes round, so that what the broker
    remembers of properties is no different.
    """

    def measure(
        self, bench: Bench, control: Client, shape: DeliveryShape, depth: int, watch: Stopwatch
    ) -> tuple[float, dict[str, float]]:
        with temporary_queue(control, self.load.stem, self.load.arguments) as queue:
            fill_s = _fill_keys(bench, control, self.load, queue, depth)
            with contextlib.ExitStack() as stack:
                stride = max(1, depth // KEY_TAPE_COUNT)
                updates = replace(
                    self.load,
                    properties=[
                        _keyed(self.load, f"{n * stride % depth:07d}", f"{n:07d}")
                        for n in range(KEY_TAPE_COUNT)
                    ],
                )
                publisher = queue_loads.connect(
                    bench, updates, queue, shape, stack, reach=Reach.AT_MOST_ONE, is_consumed=False
                )
                loop = TrafficLoop([publisher], (), Limits(NO_LIMIT, CONFIRM_WINDOW))
                stack.callback(loop.close)
                with collector_off():
                    _, rate = loop.measure(bench.warm_up_s, bench.seconds, watch)
            ready = control.ready_count(queue)
            if ready != depth:
                raise BenchmarkError(f"{depth} keys, but {ready} values in the queue")
            keyed_shape = queue_loads.learn_shape(bench, control, updates)
            drain_rate = _empty(bench, control, updates, queue, keyed_shape)
        details = {"fill in msg/s": depth / fill_s, "drain in msg/s": drain_rate}
        return watch.cores["broker"] / rate, details


class RetainedBacklog(Backlog):
    """A non-destructive queue that keeps `depth` messages, with readers at its end.

    The cost is that of a delivery. A reader that came later begins at the oldest one kept; how fast
    it reads them all is the replay.
    """

    def measure(
        self, bench: Bench, control: Client, shape: DeliveryShape, depth: int, watch: Stopwatch
    ) -> tuple[float, dict[str, float]]:
        load = replace(
            self.load,
            arguments={**self.load.arguments, "x-max-length": depth},
            filters=tuple({"x-qpid-replay-period": 0} for _ in self.load.filters),
        )
        with temporary_queue(control, load.stem, load.arguments) as queue:
            fill_s = _fill(bench, control, load, queue, depth)
            with contextlib.ExitStack() as stack:
                publisher = queue_loads.connect(bench, load, queue, shape, stack, reach=Reach.ALL)
                limits = Limits(READER_WINDOW, NO_LIMIT)
                loop = TrafficLoop([publisher], publisher.consumers, limits)
                stack.callback(loop.close)
                with collector_off():
                    rate, _ = loop.measure(bench.warm_up_s, bench.seconds, watch)
            replay_rate = _empty(bench, control, replace(load, filters=(None,)), queue, shape)
        details = {"fill in msg/s": depth / fill_s, "replay in msg/s": replay_rate}
        return watch.cores["broker"] / rate, details


class HoldingLoop(TrafficLoop):
    """Keeps as many messages in the queue as there were when it began.

    Acks are handed out to the consumers as publishes are confirmed, so that what waits in a socket
    is not counted. They hold back more than a hundred each, so one of them can always ack.
    """

    def __init__(self, publisher: Publisher) -> None:
        super().__init__([publisher], publisher.consumers, Limits(PUBLISH_WINDOW, PUBLISH_WINDOW))
        self._publisher = publisher

    def hold(self, warm_up_s: float, seconds: float, watch: Stopwatch) -> float:
        """Messages per second through the queue."""
        self._run_for(warm_up_s)
        delivered = self.delivered
        watch.start()
        self._run_for(seconds)
        watch.stop()
        delivered = self.delivered - delivered
        if not delivered:
            raise BenchmarkError("no message came through the queue while its backlog was held")
        return delivered / watch.elapsed_s

    def _poll(self, timeout_s: float) -> bool:
        self._hand_out_acks()
        return super()._poll(timeout_s)

    def _hand_out_acks(self) -> None:
        consumers = self._publisher.consumers
        acked = sum([consumer.acked for consumer in consumers])
        share = (self._publisher.confirmed - acked) // len(consumers)
        for consumer in consumers:
            consumer.ack_limit = consumer.acked + share
            consumer.settle(min(consumer.received, consumer.ack_limit))


def _fill(bench: Bench, control: Client, load: QueueLoad, queue: str, count: int) -> float:
    """Publish `count` messages and wait until all are ready; the seconds it took."""
    with Client(bench.url) as publishing:
        tape = Tape(load.addresses(queue), BODY_SIZE, publishing.frame_max)
        publisher = Publisher(publishing, tape, (), confirms=False)
        publishing.sock.settimeout(FILL_TIMEOUT_S)
        started = time.monotonic()
        with collector_off():
            publisher.publish_up_to(count)
        _wait_for_ready(control, queue, count)
        return time.monotonic() - started


def _fill_keys(bench: Bench, control: Client, load: QueueLoad, queue: str, count: int) -> float:
    """Publish one message for each of `count` keys; the seconds it took.

    The publishes are made from one template: a tape of a million would take half a minute.
    """
    with Client(bench.url) as publishing:
        marked = Address(queue, properties=_keyed(load, _DIGITS_MARK, _DIGITS_MARK))
        octets = publish_octets(marked, stamped_body(BODY_SIZE, 0), publishing.frame_max)
        parts = octets.split(_DIGITS_MARK.encode())
        publishing.sock.settimeout(FILL_TIMEOUT_S)
        started = time.monotonic()
        with collector_off():
            for first in range(0, count, FILL_PIECE):
                numbers = range(first, min(count, first + FILL_PIECE))
                publishing.sock.sendall(b"".join([(b"%07d" % n).join(parts) for n in numbers]))
        _wait_for_ready(control, queue, count)
        return time.monotonic() - started


def _keyed(load: QueueLoad, key: str, count: str) -> commands.Basic.Properties:
    """Properties with a key and a count of seven octets each."""
    name = load.arguments["x-last-value-key"]
    assert isinstance(name, str)
    return commands.Basic.Properties(headers={name: key, "count": count})


def _wait_for_ready(control: Client, queue: str, count: int) -> None:
    deadline = time.monotonic() + FILL_TIMEOUT_S
    while (ready := control.ready_count(queue)) != count:
        if ready > count or time.monotonic() > deadline:
            raise BenchmarkError(f"{count} published, {ready} in the queue")
        time.sleep(0.005)


def _empty(
    bench: Bench, control: Client, load: QueueLoad, queue: str, shape: DeliveryShape
) -> float:
    """Deliveries per second while the consumers take all that is ready, without acks."""
    count = control.ready_count(queue)
    with contextlib.ExitStack() as stack, selectors.DefaultSelector() as selector:
        tape_count = max(len(load.properties), 1 << 20)
        started = time.monotonic()
        consumers = queue_loads.attach(bench, load, queue, shape, stack, tape_count=tape_count)
        for consumer in consumers:
            selector.register(consumer.sock, selectors.EVENT_READ, consumer)
        with collector_off():
            _receive(selector, consumers, count)
        elapsed_s = time.monotonic() - started
    return count / elapsed_s


def _receive(selector: selectors.BaseSelector, consumers: Sequence[Consumer], count: int) -> None:
    """:raises BenchmarkError: more than `count` come, or fewer."""
    while (received := sum([consumer.received for consumer in consumers])) < count:
        ready = selector.select(DRAIN_TIMEOUT_S)
        if not ready:
            raise BenchmarkError(f"{count} queued, {received} delivered")
        for key, _ in ready:
            key.data.receive()
    if received > count:
        raise BenchmarkError(f"{count} queued, {received} delivered")


def scenarios(depth: int) -> list[Scenario]:
    spoken = f"a backlog of {depth:,} against one of {SHALLOW:,}"
    held = (
        (queue_loads.priority(), "x-max-priority 10"),
        (queue_loads.sorted_by_key(), "x-sort-key over 10,000 keys"),
        (queue_loads.groups("standard"), "standard groups, 8 consumers"),
        (queue_loads.groups("shared"), "shared groups, 8 consumers"),
        (queue_loads.even_selectors(), "ten consumers, each with a selector of its own"),
    )
    return [
        *(HeldBacklog(load, depth, f"{what}: {spoken}") for load, what in held),
        LastValueBacklog(queue_loads.last_value(), depth, f"x-last-value-key: {spoken} keys"),
        RetainedBacklog(
            queue_loads.non_destructive(depth), depth, f"x-non-destructive, 10 readers: {spoken}"
        ),
    ]
