"""Persistent messages and durable queues beside RabbitMQ: confirms, round trips, tx, consuming.

Where the rate of a disk is measured, no consumer runs: what is delivered and acked at
once need never be written, so it would say nothing about the disk.
"""

from __future__ import annotations

import os
import time
from abc import abstractmethod
from typing import ClassVar, Final

from pamqp import commands, frame

from benchmarks.macro import machine
from benchmarks.macro.client import Client
from benchmarks.macro.errors import BenchmarkError
from benchmarks.macro.frames import SETTLE_FRAME_SIZE, ConfirmMeter, Tape
from benchmarks.macro.percentile import percentile
from benchmarks.macro.scenario import (
    DURABLE_SECTION,
    Bench,
    Better,
    Metric,
    Of,
    Outcome,
    Scenario,
    Stopwatch,
    Target,
    collector_off,
)
from benchmarks.macro.scenarios.durable_loads import (
    CONFIRM_WINDOW,
    PREFETCH,
    ConfirmLoop,
    confirmed_publisher,
    drain,
    durable_queue,
    expect_ready,
    expect_written,
    fill,
    persistent_address,
)
from benchmarks.macro.scenarios.throughput import Throughput, default_exchange, rate_metric
from benchmarks.macro.shapes import Shape, make_tape
from benchmarks.macro.traffic import AckMode

CONFIRMS_TARGETS: Final = {
    Shape.DIFFERING: (5.0, 6.0),
    Shape.ALIKE: (5.0, 8.0),
}
CONSUME_TARGET: Final = 3.0
ROUND_TRIP_TARGET: Final = 1.0
SMALL: Final = 100
SIZES: Final = ((SMALL, "100B"), (1024, "1KiB"))
TX_SIZE: Final = 100
#: so few publishes that the wait for the answer is all: measured in one shape
TX_ROUND_TRIPS: Final = (1, 10)
ROUND_TRIP_TAPE: Final = 100
ANSWER_TIMEOUT_S: Final = 30.0
#: how many messages wait for the consumer for each second that a rate would be measured
PREFILLED_PER_S: Final = 80_000
WARM_UP_MESSAGES: Final = 2_000
PERCENTILES: Final = {"p50": 0.50, "p99": 0.99}
COMMIT: Final = frame.marshal(commands.Tx.Commit(), 1)
COMMIT_OK: Final = frame.marshal(commands.Tx.CommitOk(), 1)
RECEIVE_OCTETS: Final = 65_536


class ConfirmedPublishes(Scenario):
    """One publisher, a durable queue that grows meanwhile, no consumer."""

    section: ClassVar[str] = DURABLE_SECTION

    def __init__(self, body_size: int, label: str, shape: Shape) -> None:
        super().__init__(
            f"persistent_confirm_window_{CONFIRM_WINDOW}_{label}",
            f"persistent publishes with at most {CONFIRM_WINDOW:,} unconfirmed, no consumer",
            (rate_metric("confirms", shape, CONFIRMS_TARGETS),),
            shape,
        )
        self._body_size = body_size
        self._shape = shape

    def run(self, bench: Bench) -> Outcome:
        with (
            bench.control() as control,
            durable_queue(control, "confirm") as queue,
            Client(bench.url) as client,
        ):
            address = persistent_address(queue)
            publisher = confirmed_publisher(client, [address], self._body_size, self._shape)
            loop = ConfirmLoop([publisher])
            watch = Stopwatch(bench.pid)
            written = _written(bench)
            try:
                with collector_off():
                    rate = loop.measure_confirms(bench.warm_up_s, bench.seconds, watch)
            finally:
                loop.close()
            expect_ready(control, queue, publisher.published)
            details = {"MB/s of bodies": rate * self._body_size / 1e6}
            if written is not None:
                by_now = (_written(bench) or 0) - written
                # bodies of any shape have their size on average, so half of it must be there
                least = self._body_size // 2 if self._shape is Shape.ANY else self._body_size
                expect_written(by_now, publisher.published, least)
                details["bytes written per message"] = by_now / publisher.published
            return watch.outcome({"confirms": rate}, details)


class PersistentThroughput(Throughput):
    """Publisher and consumer at once, as in the section of transient messages."""

    section: ClassVar[str] = DURABLE_SECTION


class OneByOne(Scenario):
    """A publisher that waits for each answer of the broker before it goes on.

    Blocking calls on one connection. Afterwards the queue must give all that was published, in
    order.
    """

    section: ClassVar[str] = DURABLE_SECTION
    #: how many publishes get one answer, and how many different ones there are
    messages_each = 1
    tape_count = ROUND_TRIP_TAPE
    message_shape: Shape = Shape.ALIKE

    def run(self, bench: Bench) -> Outcome:
        with bench.control() as control, durable_queue(control, "onebyone") as queue:
            with Client(bench.url) as client:
                shape = self.message_shape
                # an alike tape is one turn, so that it is as long as the one that is drained
                count = self.tape_count if shape is Shape.ALIKE else 0
                address = persistent_address(queue)
                tape = make_tape(shape, [address], SMALL, client.frame_max, count=count)
                self.begin(client)
                client.sock.settimeout(ANSWER_TIMEOUT_S)
                with collector_off():
                    warmed = len(self._ask_for(bench.warm_up_s, client, tape, 0))
                    watch = Stopwatch(bench.pid)
                    waits_ns = self._ask_for(bench.seconds, client, tape, warmed)
                    watch.stop()
            published = (warmed + len(waits_ns)) * self.messages_each
            expect_ready(control, queue, published)
            drain(bench, control, queue, SMALL, published, shape, tape_count=tape.count)
        return watch.outcome(self.values(sorted(waits_ns), watch.elapsed_s))

    @abstractmethod
    def begin(self, client: Client) -> None:
        """Bring the channel into its mode; called once before any `ask`."""

    @abstractmethod
    def ask(self, client: Client, tape: Tape, number: int) -> None:
        """Publish for the `number`-th time, counted from 0, and return when that is answered.

        :raises BenchmarkError: the broker refuses it, or does not answer in time.
        """

    @abstractmethod
    def values(self, waits_ns: list[int], elapsed_s: float) -> dict[str, float]:
        """The numbers of the scenario; `waits_ns` ascends."""

    def _ask_for(self, seconds: float, client: Client, tape: Tape, first: int) -> list[int]:
        """How long each answer took, in nanoseconds."""
        waits_ns: list[int] = []
        deadline_ns = time.perf_counter_ns() + int(seconds * 1e9)
        now_ns = 0
        while now_ns < deadline_ns:
            asked_ns = time.perf_counter_ns()
            self.ask(client, tape, first + len(waits_ns))
            now_ns = time.perf_counter_ns()
            waits_ns.append(now_ns - asked_ns)
        return waits_ns


class ConfirmRoundTrips(OneByOne):
    """Each publish waits for the confirm of the one before."""

    def __init__(self) -> None:
        super().__init__(
            "persistent_confirm_round_trips_100B",
            "one persistent publish, its confirm, the next",
            (
                Metric("p50", "ms", Better.LOWER, Target(Of.RATIO, ROUND_TRIP_TARGET)),
                Metric("p99", "ms", Better.LOWER),
            ),
        )
        self._meter = ConfirmMeter()

    def begin(self, client: Client) -> None:
        client.select_confirms()
        self._meter = ConfirmMeter()

    def ask(self, client: Client, tape: Tape, number: int) -> None:
        client.sock.sendall(tape.piece(number, 1))
        self._meter.feed(_receive(client, SETTLE_FRAME_SIZE))
        if self._meter.count != number + 1:
            raise BenchmarkError(f"{number + 1} published, {self._meter.count} confirmed")

    def values(self, waits_ns: list[int], elapsed_s: float) -> dict[str, float]:
        return {name: percentile(waits_ns, share) / 1e6 for name, share in PERCENTILES.items()}


class Transactions(OneByOne):
    """Some publishes and tx.commit in one send, again when commit-ok is there."""

    def __init__(self, size: int, shape: Shape) -> None:
        publishes = f"{size} persistent publishes" if size > 1 else "a persistent publish"
        super().__init__(
            f"persistent_tx_of_{size}_100B",
            f"{publishes}, tx.commit, commit-ok, again",
            (
                Metric("messages", "msg/s", Better.HIGHER),
                Metric("commit p50", "ms", Better.LOWER),
                Metric("commit p99", "ms", Better.LOWER),
            ),
            shape,
        )
        self.messages_each = self.tape_count = size
        self.message_shape = shape

    def begin(self, client: Client) -> None:
        client.call(commands.Tx.Select(), commands.Tx.SelectOk)

    def ask(self, client: Client, tape: Tape, number: int) -> None:
        client.sock.sendall(tape.piece(number * self.messages_each, self.messages_each) + COMMIT)
        answer = _receive(client, len(COMMIT_OK))
        if answer != COMMIT_OK:
            raise BenchmarkError(f"tx.commit was answered by {answer!r}")

    def values(self, waits_ns: list[int], elapsed_s: float) -> dict[str, float]:
        rate = len(waits_ns) * self.messages_each / elapsed_s
        waits = {
            f"commit {name}": percentile(waits_ns, share) / 1e6
            for name, share in PERCENTILES.items()
        }
        return {"messages": rate, **waits}


class AckedConsume(Scenario):
    """A durable queue that was filled before, one consumer, an ack each hundred deliveries."""

    section: ClassVar[str] = DURABLE_SECTION

    def __init__(self, body_size: int, label: str, shape: Shape) -> None:
        super().__init__(
            f"persistent_consume_ack_every_100_{label}",
            f"a queue filled before, prefetch {PREFETCH:,}, a multiple ack each 100 deliveries",
            (rate_metric("deliveries", shape, dict.fromkeys(Shape, (CONSUME_TARGET, None))),),
            shape,
        )
        self._body_size = body_size
        self._shape = shape

    def run(self, bench: Bench) -> Outcome:
        count = int(PREFILLED_PER_S * bench.seconds)
        size, shape = self._body_size, self._shape
        with bench.control() as control, durable_queue(control, "consume") as queue:
            fill(bench, control, queue, size, WARM_UP_MESSAGES, shape)
            drain(bench, control, queue, size, WARM_UP_MESSAGES, shape)
            fill_s = fill(bench, control, queue, size, count, shape)
            os.sync()  # the fill is paid for before the clock runs
            watch = Stopwatch(bench.pid)
            drain_s = drain(bench, control, queue, size, count, shape)
            watch.stop()
        return watch.outcome({"deliveries": count / drain_s}, {"fill in msg/s": count / fill_s})


def _receive(client: Client, size: int) -> bytes:
    """Exactly so many octets. :raises BenchmarkError: they do not come, or more do."""
    octets = b""
    while len(octets) < size:
        try:
            more = client.sock.recv(RECEIVE_OCTETS)
        except TimeoutError as error:
            raise BenchmarkError(f"no answer within {ANSWER_TIMEOUT_S:.0f} s") from error
        if not more:
            raise BenchmarkError("the broker closed the connection")
        octets += more
    if len(octets) > size:
        raise BenchmarkError(f"an answer of {size} octets was expected, not {octets[:160]!r}")
    return octets


def _written(bench: Bench) -> int | None:
    return None if bench.pid is None else machine.written_bytes(bench.pid)


def scenarios() -> list[Scenario]:
    """Those that measure a rate in every shape, and round trips, which take no notice of it."""
    durable = default_exchange(is_durable=True)
    shaped: list[Scenario] = []
    for size, label in SIZES:
        shaped += [ConfirmedPublishes(size, label, shape) for shape in Shape]
    shaped += [Transactions(size, Shape.DIFFERING) for size in TX_ROUND_TRIPS]
    shaped += [Transactions(TX_SIZE, shape) for shape in Shape]
    for size, label in SIZES:
        shaped += [AckedConsume(size, label, shape) for shape in Shape]
    for size, label in SIZES:
        shaped += [
            PersistentThroughput(
                f"persistent_through_confirm_{CONFIRM_WINDOW}_ack_every_100_{label}",
                f"confirms as above, and a consumer that acks each 100, prefetch {PREFETCH:,}",
                declare=durable,
                shape=shape,
                body_size=size,
                mode=AckMode.EVERY_100,
                prefetch=PREFETCH,
                confirm_window=CONFIRM_WINDOW,
            )
            for shape in Shape
        ]
    return [*shaped, ConfirmRoundTrips()]
