"""What is measured of Spark and the broker together. Used by ``__main__``."""

from __future__ import annotations

import os
import shutil
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final

from benchmarks.macro import machine
from benchmarks.macro.errors import BenchmarkError
from benchmarks.macro.percentile import percentile
from benchmarks.macro.scenario import (
    Bench,
    Better,
    Metric,
    Of,
    Outcome,
    Scenario,
    Stopwatch,
    Target,
    unique_name,
)
from benchmarks.spark import pika_reader
from benchmarks.spark.stage import NARROW, Stage, declare_stream

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

BATCH_SECTION: Final = "Batches"
STREAM_SECTION: Final = "Streaming"
#: what the pika reader reads, since it would take minutes for the whole
PIKA_MESSAGES: Final = 50_000
LATENCY_RATE_PER_S: Final = 100
_BY_PIKA: Final = "by a reader with pika"


class SparkWatch(Stopwatch):
    """The generator is Spark: this process, Java, and the workers.

    The broker counts with the process that reads ranges for it.
    """

    __slots__ = ()

    def _read(self) -> tuple[float, float, float, float]:
        broker = 0.0 if self._pid is None else machine.family_seconds(self._pid)
        spark = machine.family_seconds(os.getpid()) - broker
        return time.monotonic(), spark, broker, machine.busy_seconds()


class SparkScenario(Scenario):
    """A scenario on the shared stage."""

    section: ClassVar[str] = BATCH_SECTION
    is_for_subject_only: ClassVar[bool] = True
    needs_restart: ClassVar[bool] = True  # its management port is known only for an own broker

    def __init__(self, stage: Stage, name: str, summary: str, metrics: tuple[Metric, ...]) -> None:
        super().__init__(name, summary, metrics)
        self._stage = stage


class Rate(SparkScenario):
    """Rows per second of one action over the whole stream; the first run warms up."""

    def __init__(
        self,
        stage: Stage,
        name: str,
        summary: str,
        action: Callable[[Stage, Bench], int],
        *,
        unit: str = "rows/s",
        at_least: float | None = None,
    ) -> None:
        target = None if at_least is None else Target(Of.VALUE, at_least)
        super().__init__(stage, name, summary, (Metric("rate", unit, Better.HIGHER, target),))
        self._action = action
        self._is_warm = False

    def run(self, bench: Bench) -> Outcome:
        stage = self._stage
        stage.stream(bench)
        if not self._is_warm:
            self._action(stage, bench)
            self._is_warm = True
        watch = SparkWatch(bench.pid)
        count = self._action(stage, bench)
        watch.stop()
        return watch.outcome({"rate": count / watch.elapsed_s})


class NarrowRead(Rate):
    """The narrow read, and beside it the same messages by a program with pika."""

    def __init__(self, stage: Stage) -> None:
        super().__init__(
            stage,
            "read_narrow_200B",
            "offset, timestamp, routing key and body of a stream, to nowhere",
            lambda stage, bench: _to_nowhere(stage, stage.read(bench, NARROW)),
            at_least=200_000,
        )
        times = Metric(_BY_PIKA, "times as fast", Better.HIGHER, Target(Of.VALUE, 5))
        self.metrics = (*self.metrics, times)

    def run(self, bench: Bench) -> Outcome:
        outcome = super().run(bench)
        count = min(PIKA_MESSAGES, self._stage.messages)
        seconds = pika_reader.seconds_to_read(bench.url, self._stage.stream(bench), count)
        outcome.values[_BY_PIKA] = outcome.values["rate"] / (count / seconds)
        outcome.details["reader with pika, rows/s"] = count / seconds
        return outcome


class Latency(SparkScenario):
    """From a publish to foreachBatch, with a few messages at a time."""

    section: ClassVar[str] = STREAM_SECTION

    def __init__(self, stage: Stage) -> None:
        super().__init__(
            stage,
            f"latency_{LATENCY_RATE_PER_S}_per_s_200B",
            f"{LATENCY_RATE_PER_S} messages a second, from the broker's clock to foreachBatch",
            (
                Metric("p50", "ms", Better.LOWER, Target(Of.VALUE, 300)),
                Metric("p99", "ms", Better.LOWER),
            ),
        )

    def run(self, bench: Bench) -> Outcome:
        stage = self._stage
        name = unique_name("latency")
        declare_stream(bench, name)
        seen: list[float] = []

        def on_batch(frame: DataFrame, _number: int) -> None:
            rows = frame.select("timestamp").collect()
            now = time.time()
            seen.extend((now - row.timestamp.timestamp()) * 1000 for row in rows)

        stop = threading.Event()
        publisher = threading.Thread(target=_publish_steadily, args=(bench.url, name, stop))
        query = _follow(stage, bench, name, on_batch)
        try:
            publisher.start()
            _wait_until(lambda: len(seen) > LATENCY_RATE_PER_S, query)
            seen.clear()
            watch = SparkWatch(bench.pid)
            time.sleep(bench.seconds)
            watch.stop()
        finally:
            stop.set()
            publisher.join()
            query.stop()
            with bench.control() as control:
                control.delete_queue(name)
        if not seen:
            raise BenchmarkError("no message came within the measured time")
        measured = sorted(seen)
        return watch.outcome(
            {"p50": statistics.median(measured), "p99": percentile(measured, 0.99)},
            {"messages": float(len(measured))},
        )


class Idle(SparkScenario):
    """A query that waits for messages that do not come."""

    section: ClassVar[str] = STREAM_SECTION

    def __init__(self, stage: Stage) -> None:
        super().__init__(
            stage,
            "idle_query",
            "a query on a stream to which nobody publishes: all processes of Spark and the broker",
            (Metric("processor time", "% of a core", Better.LOWER, Target(Of.VALUE, 3)),),
        )

    def run(self, bench: Bench) -> Outcome:
        name = unique_name("idle")
        declare_stream(bench, name)
        query = _follow(self._stage, bench, name, lambda _frame, _number: None)
        try:
            _wait_until(lambda: query.status["message"].startswith("Waiting"), query)
            time.sleep(bench.warm_up_s)
            watch = SparkWatch(bench.pid)
            time.sleep(bench.seconds)
            watch.stop()
        finally:
            query.stop()
            with bench.control() as control:
                control.delete_queue(name)
        share = watch.cores["generator"] + watch.cores.get("broker", 0.0)
        return watch.outcome({"processor time": share * 100})


def scenarios(stage: Stage) -> list[Scenario]:
    """All of them, in the order of the report."""
    return [
        Rate(
            stage,
            "write_confirmed_200B",
            "the sink: rows of Spark into a stream, each confirmed",
            _write,
            unit="msg/s",
        ),
        NarrowRead(stage),
        Rate(
            stage,
            "read_default_columns_200B",
            "the default columns, with headers as a map, to nowhere",
            lambda stage, bench: _to_nowhere(stage, stage.read(bench)),
        ),
        Rate(
            stage,
            "read_all_columns_200B",
            "all columns, headers as a map and as octets, to nowhere",
            lambda stage, bench: _to_nowhere(stage, stage.read(bench, columns="all")),
            at_least=60_000,
        ),
        Rate(
            stage,
            "archive_200B",
            "hareline spark archive: the whole stream to Parquet with zstd",
            _archive,
            at_least=40_000,
        ),
        Rate(
            stage,
            "replay_200B",
            "hareline spark replay: that archive to an exchange, in order, confirmed",
            _replay,
            unit="msg/s",
            at_least=15_000,
        ),
        Latency(stage),
        Idle(stage),
    ]


# ------------------------------------------------------------------------------------ actions


def _to_nowhere(stage: Stage, frame: DataFrame) -> int:
    frame.write.format("noop").mode("overwrite").save()
    return stage.messages


def _write(stage: Stage, bench: Bench) -> int:
    name = unique_name("sink")
    declare_stream(bench, name)
    stage.write(bench, name, stage.messages)
    with bench.control() as control:
        control.delete_queue(name)
    return stage.messages


def _archive(stage: Stage, bench: Bench) -> int:
    from hareline.spark.pipelines.archive import archive

    place = stage.folder / "archive"
    shutil.rmtree(place, ignore_errors=True)
    options = {**stage.broker_options(bench), "queue": stage.stream(bench)}
    archive(stage.session, str(place), options)
    return stage.messages


def _replay(stage: Stage, bench: Bench) -> int:
    from hareline.spark.pipelines.replay import replay

    if not (stage.folder / "archive").exists():
        _archive(stage, bench)
    name = unique_name("replayed")
    declare_stream(bench, name)
    archive = str(stage.folder / "archive")
    broker = stage.broker_options(bench)
    replayed = replay(stage.session, archive, broker, to_exchange="", to_routing_key=name)
    with bench.control() as control:
        control.delete_queue(name)
    return replayed.total


def _follow(
    stage: Stage, bench: Bench, name: str, on_batch: Callable[[DataFrame, int], None]
) -> Any:
    """Start a query that reads what comes from now on."""
    checkpoint = Path(stage.folder, name)
    stream = stage.session.readStream.format("amqp").options(
        **stage.broker_options(bench), queue=name
    )
    writer = stream.load().writeStream.foreachBatch(on_batch)
    return writer.option("checkpointLocation", str(checkpoint)).start()


def _wait_until(is_so: Callable[[], bool], query: Any, limit_s: float = 60.0) -> None:
    deadline = time.monotonic() + limit_s
    while not is_so():
        if query.exception() is not None:
            raise BenchmarkError(f"the query failed: {query.exception()}")
        if time.monotonic() > deadline:
            raise BenchmarkError(f"the query did nothing for {limit_s:g} s")
        time.sleep(0.05)


def _publish_steadily(url: str, name: str, stop: threading.Event) -> None:
    """Publish from a process of its own, whose interpreter Spark does not share."""
    command = [sys.executable, "-m", "benchmarks.spark.steady_publisher", url, name]
    child = subprocess.Popen([*command, str(LATENCY_RATE_PER_S)], cwd=machine.PROJECT_ROOT)
    stop.wait()
    child.terminate()
    child.wait()
