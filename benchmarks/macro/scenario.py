"""What a scenario is, what it returns, and the targets of the project.

Each file in `scenarios` makes some `Scenario` objects; `runner` runs them against each broker in
turn and `results` turns what they return into medians and ratios.
"""

from __future__ import annotations

import contextlib
import gc
import os
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import ClassVar, Final

from pamqp import common

from benchmarks.macro import machine
from benchmarks.macro.brokers import Broker
from benchmarks.macro.client import Client
from benchmarks.macro.errors import BenchmarkError
from benchmarks.macro.shapes import Shape

RESULTS_SECTION: Final = "Results"
QUEUE_TYPES_SECTION: Final = "Queue types"
DURABLE_SECTION: Final = "Durable messages"
FLOOD_SECTION: Final = "Fan-out flood"
LATENCY_SECTION: Final = "Latency"
CURVES_SECTION: Final = "Cost that does not grow"
WARM_UP_SHARE: Final = 0.2
WARM_UP_AT_LEAST_S: Final = 0.3


class Better(Enum):
    HIGHER = "higher"
    LOWER = "lower"


class Of(Enum):
    """What a target speaks of: the ratio to the peer, or the number of the subject itself."""

    RATIO = "ratio"
    VALUE = "value"


class OverRounds(Enum):
    """Which of several rounds a metric is reported and judged by."""

    MEDIAN = "median"
    WORST = "worst"


@dataclass(frozen=True)
class Target:
    """A bound that the subject is to reach; whether from above or below follows from the metric."""

    of: Of
    bound: float


@dataclass(frozen=True)
class Metric:
    """One number of a scenario. `unit` is for people; `name` says what is counted.

    `target` is the subject's, `compiled_target` that of a compiled build beside it.
    """

    name: str
    unit: str
    better: Better
    target: Target | None = None
    over_rounds: OverRounds = OverRounds.MEDIAN
    compiled_target: Target | None = None

    def target_of(self, *, is_compiled: bool) -> Target | None:
        return self.compiled_target if is_compiled else self.target


@dataclass
class Outcome:
    """What one run of one scenario against one broker found.

    `values` has a number per metric name; `details` what helps to judge it, by name with unit.
    `remarks` are sentences for the report, without a full stop.
    `cores` is processor time per second of measuring, 1.0 being a whole core: of the load
    generator, of the broker where its process is known, and of everything else on the machine.
    """

    values: dict[str, float]
    details: dict[str, float] = field(default_factory=dict)
    cores: dict[str, float] = field(default_factory=dict)
    remarks: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Bench:
    """The broker that a run is against, and how long it may measure.

    `broker` is for scenarios that end it, restart it or look at its files; they say so by
    `ends_broker` and `needs_restart`.
    """

    url: str
    pid: int | None
    seconds: float
    broker: Broker | None = None

    @property
    def warm_up_s(self) -> float:
        return max(WARM_UP_AT_LEAST_S, self.seconds * WARM_UP_SHARE)

    @contextlib.contextmanager
    def control(self) -> Iterator[Client]:
        """A connection for declarations, apart from those that are measured."""
        client = Client(self.url)
        try:
            yield client
        finally:
            client.close()


class Scenario(ABC):
    """One load with its parameters in its name.

    `shape` says how alike its messages are, where a load is measured in several shapes: they have
    a common `stem`, and names that end in the shape.
    """

    #: a process that has already grown and shrunk hides what a message or connection costs
    wants_fresh_broker: ClassVar[bool] = False
    needs_pid: ClassVar[bool] = False
    #: it starts the broker again on the data it left, and looks at these
    needs_restart: ClassVar[bool] = False
    #: it measures how the broker stops, so no other scenario can use that process
    ends_broker: ClassVar[bool] = False
    #: what takes minutes and hardly varies is measured fewer times than the rest
    rounds_max: ClassVar[int | None] = None
    #: other brokers have nothing to run it on
    is_for_subject_only: ClassVar[bool] = False
    #: it takes minutes, so it is left out unless it is asked for
    is_long: ClassVar[bool] = False
    #: the heading under which it is reported
    section: ClassVar[str] = RESULTS_SECTION

    def __init__(
        self, name: str, summary: str, metrics: tuple[Metric, ...], shape: Shape | None = None
    ) -> None:
        self.name = name if shape is None else f"{name}_{shape.value}"
        self.stem = name
        self.summary = summary
        self.metrics = metrics
        self.shape = shape

    @abstractmethod
    def run(self, bench: Bench) -> Outcome:
        """Run once. :raises BenchmarkError: messages were lost, surplus, misordered or refused."""


class Stopwatch:
    """Wall time and processor time by process, over the measured stretch.

    The load is generated by this process, or by the one whose id is given.
    """

    __slots__ = ("_begun", "_generator_pid", "_pid", "cores", "elapsed_s")

    def __init__(self, pid: int | None, generator_pid: int | None = None) -> None:
        self._pid = pid
        self._generator_pid = generator_pid
        self.elapsed_s = 0.0
        self.cores: dict[str, float] = {}
        self.start()

    def start(self) -> None:
        self._begun = self._read()

    def stop(self) -> None:
        wall, generator, broker, busy = (
            now - then for now, then in zip(self._read(), self._begun, strict=True)
        )
        self.elapsed_s = wall
        self.cores = {"generator": generator / wall}
        if self._pid is not None:
            self.cores["broker"] = broker / wall
            self.cores["others"] = max(0.0, busy - generator - broker) / wall

    def outcome(
        self,
        values: dict[str, float],
        details: dict[str, float] | None = None,
        remarks: Sequence[str] = (),
    ) -> Outcome:
        return Outcome(values, details or {}, self.cores, list(remarks))

    def _read(self) -> tuple[float, float, float, float]:
        broker = 0.0 if self._pid is None else machine.processor_seconds(self._pid)
        generator = (
            time.process_time()
            if self._generator_pid is None
            else machine.processor_seconds(self._generator_pid)
        )
        return time.monotonic(), generator, broker, machine.busy_seconds()


@contextlib.contextmanager
def temporary_queue(
    control: Client,
    stem: str,
    arguments: common.FieldTable | None = None,
    *,
    is_durable: bool = False,
) -> Iterator[str]:
    """A queue for one run; a broker that is gone by its end must not hide why it went."""
    name = unique_name(stem)
    control.declare_queue(name, arguments, is_durable=is_durable)
    try:
        yield name
    finally:
        with contextlib.suppress(BenchmarkError, OSError):
            control.delete_queue(name)


def unique_name(stem: str) -> str:
    """A name for a queue or exchange that no earlier, interrupted run left behind."""
    return f"bench.{stem}.{os.getpid():07d}.{time.monotonic_ns() % 10**9:09d}"


@contextlib.contextmanager
def collector_off() -> Iterator[None]:
    """The generator allocates next to nothing; its collector must not add pauses of its own."""
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
