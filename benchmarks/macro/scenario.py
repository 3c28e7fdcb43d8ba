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
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum
from typing import ClassVar, Final

from pamqp import common

from benchmarks.macro import machine
from benchmarks.macro.brokers import Broker
from benchmarks.macro.client import Client
from benchmarks.macro.errors import BenchmarkError

RESULTS_SECTION: Final = "Results"
QUEUE_TYPES_SECTION: Final = "Queue types"
DURABLE_SECTION: Final = "Durable messages"
WARM_UP_SHARE: Final = 0.2
WARM_UP_AT_LEAST_S: Final = 0.3


class Better(Enum):
    HIGHER = "higher"
    LOWER = "lower"


class Of(Enum):
    """What a target speaks of: the ratio to the peer, or the number of the subject itself."""

    RATIO = "ratio"
    VALUE = "value"


@dataclass(frozen=True)
class Target:
    """A bound that the subject is to reach; whether from above or below follows from the metric."""

    of: Of
    bound: float


@dataclass(frozen=True)
class Metric:
    """One number of a scenario. `unit` is for people; `name` says what is counted."""

    name: str
    unit: str
    better: Better
    target: Target | None = None


@dataclass
class Outcome:
    """What one run of one scenario against one broker found.

    `values` has a number per metric name; `details` what helps to judge it, by name with unit.
    `cores` is processor time per second of measuring, 1.0 being a whole core: of the load
    generator, of the broker where its process is known, and of everything else on the machine.
    """

    values: dict[str, float]
    details: dict[str, float] = field(default_factory=dict)
    cores: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Bench:
    """The broker that a run is against, and how long it may measure.

    `broker` is for scenarios that restart it or look at its files; they say so by `needs_restart`.
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
    """One load with its parameters in its name."""

    #: a process that has already grown and shrunk hides what a message or connection costs
    wants_fresh_broker: ClassVar[bool] = False
    needs_pid: ClassVar[bool] = False
    #: it starts the broker again on the data it left, and looks at these
    needs_restart: ClassVar[bool] = False
    #: what takes minutes and hardly varies is measured fewer times than the rest
    rounds_max: ClassVar[int | None] = None
    #: other brokers have nothing to run it on
    is_for_subject_only: ClassVar[bool] = False
    #: the heading under which it is reported
    section: ClassVar[str] = RESULTS_SECTION

    def __init__(self, name: str, summary: str, metrics: tuple[Metric, ...]) -> None:
        self.name = name
        self.summary = summary
        self.metrics = metrics

    @abstractmethod
    def run(self, bench: Bench) -> Outcome:
        """Run once. :raises BenchmarkError: messages were lost, surplus, misordered or refused."""


class Stopwatch:
    """Wall time, and who used how much of the processor, over the measured stretch."""

    __slots__ = ("_begun", "_pid", "cores", "elapsed_s")

    def __init__(self, pid: int | None) -> None:
        self._pid = pid
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

    def outcome(self, values: dict[str, float], details: dict[str, float] | None = None) -> Outcome:
        return Outcome(values, details or {}, self.cores)

    def _read(self) -> tuple[float, float, float, float]:
        broker = 0.0 if self._pid is None else machine.processor_seconds(self._pid)
        return time.monotonic(), time.process_time(), broker, machine.busy_seconds()


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
