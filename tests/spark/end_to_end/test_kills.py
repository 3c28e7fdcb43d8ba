"""Driver and broker are killed at work, again and again: nothing is lost, nothing comes twice.

A publisher writes to a stream all the while. A driver archives it, and adds it up by windows and
keys; the totals go back to the broker. In the end both must have exactly what was published.
``SPARK_KILLS``: how often the driver is killed; the broker is killed before every other one of
these kills, so three times for five.
"""

from __future__ import annotations

import dataclasses
import json
import logging
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from random import Random
from typing import Final, TypeVar

import pyarrow as pa
import pyarrow.dataset as ds
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as Spark's documentation calls it

from hareline.spark.errors import SparkSideError
from hareline.spark.pipelines import layout
from tests.spark.end_to_end import driver
from tests.spark.end_to_end.driver import Job, archive_to_the_end, start_totals
from tests.spark.end_to_end.persistent_publisher import (
    PersistentPublisher,
    body_of,
    totals_of,
)
from tests.support.broker_process import BrokerProcess
from tests.support.sink_broker import (
    bodies_in,
    channel_of,
    declare,
    options_for,
    source_options_for,
)
from tests.support.waiting import wait_for

pytestmark = pytest.mark.acceptance

KILLS: Final = int(os.environ.get("SPARK_KILLS", "2"))
#: A batch takes about so long; each kill comes at a random moment of one.
BATCH_S: Final = 0.7
#: A driver that starts beside other work, and does its first batches.
PROGRESS_S: Final = 180
#: What Spark says of a Python worker that takes more than ten seconds to start, as on a machine
#: with much else to do; no option of Spark gives it more. The query is to be started again.
SLOW_WORKER: Final = "Python worker failed to connect back"
#: What a query may say when its broker is killed. Everything else would be a loss, or a bug.
EXPECTED_ERRORS: Final = ("[BROKER_UNREACHABLE]", SLOW_WORKER)
T = TypeVar("T")
LOG: Final = logging.getLogger(__name__)


class Progress:
    """How far both queries are, by the files of their checkpoints."""

    def __init__(self, job: Job) -> None:
        self._folders = (Path(job.archive) / layout.CHECKPOINT, Path(job.checkpoint))

    def committed(self) -> tuple[int, ...]:
        """The newest batch of each query that is done, -1 for none."""
        return tuple(_newest(each / "commits") for each in self._folders)

    def planned(self) -> tuple[int, ...]:
        """The newest batch of each query that is begun."""
        return tuple(_newest(each / "offsets") for each in self._folders)

    def wait(self, batches: int) -> None:
        """Until both queries have done so many batches more."""
        before = self.committed()
        wait_for(
            lambda: all(
                now >= then + batches for now, then in zip(self.committed(), before, strict=True)
            ),
            PROGRESS_S,
            f"{batches} more batches of both queries",
        )

    def wait_in_batch(self, query: int) -> None:
        """Until a query is in the middle of a batch."""
        wait_for(
            lambda: self.planned()[query] > self.committed()[query],
            PROGRESS_S,
            "a batch that is begun and not done",
        )

    def is_in_batch(self) -> bool:
        """True if a query has begun a batch that is not noted as done."""
        return any(
            planned > done for planned, done in zip(self.planned(), self.committed(), strict=True)
        )

    def wait_for_results(self, broker: BrokerProcess) -> None:
        """Until a batch of totals is at the broker, at least in part, and not noted as done.

        The next driver does that batch again, and publishes again what is there already.
        """
        newest, there = -2, 0
        with channel_of(broker) as channel:

            def is_so() -> bool:
                nonlocal newest, there
                done = self.committed()[1]
                count = channel.queue_declare("totals", passive=True).method.message_count
                if done != newest:
                    newest, there = done, count
                return count > there and self.committed()[1] == done

            wait_for(is_so, PROGRESS_S, "totals of a batch that is not done")


def _newest(folder: Path) -> int:
    names = [each.name for each in folder.glob("*")] if folder.exists() else []
    return max((int(name) for name in names if name.isdecimal()), default=-1)


class Driver:
    """The driver in a process group of its own, so that Java is killed with it."""

    def __init__(self, folder: Path, job: Job) -> None:
        self._settings = folder / "job.json"
        self._settings.write_text(json.dumps(dataclasses.asdict(job)), encoding="utf-8")
        self._log = folder / "driver.log"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, driver.__file__, str(self._settings)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def kill(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            is_alive = process.poll() is None
            with suppress(ProcessLookupError):  # it had ended, and Java with it
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            assert is_alive, f"the driver had ended\n{self._log.read_text()[-4000:]}"


@contextmanager
def running(publisher: PersistentPublisher) -> Iterator[None]:
    publisher.start()
    try:
        yield
    finally:
        publisher.stop()


def patiently(run: Callable[[], T]) -> T:
    """What ``run`` returns, which is called again as long as only a worker was slow."""
    end = time.monotonic() + PROGRESS_S
    while True:
        try:
            return run()
        except (SparkSideError, PySparkException) as error:
            if SLOW_WORKER not in str(error) or time.monotonic() > end:
                raise


def total_to_the_end(spark: SparkSession, job: Job) -> None:
    query = start_totals(spark, job, availableNow=True)
    try:
        query.awaitTermination()
    finally:
        query.stop()


@pytest.mark.timeout(600 + 180 * KILLS)
def test_archive_and_totals_are_exact_whatever_is_killed(
    spark: SparkSession, broker: BrokerProcess, tmp_path: Path
) -> None:
    declare(broker, "events", {"x-queue-type": "stream"}, durable=True)
    declare(broker, "totals", durable=True)
    job = Job(
        source=source_options_for(broker),
        sink=options_for(broker),
        queue="events",
        results="totals",
        archive=str(tmp_path / "archive"),
        checkpoint=str(tmp_path / "totals"),
        errors=str(tmp_path / "errors.txt"),
    )
    rng = Random(20_261_122)
    progress = Progress(job)
    program = Driver(tmp_path, job)
    publisher = PersistentPublisher((broker.host, broker.port), "events")
    in_batch = 0
    with running(publisher):
        for number in range(KILLS):
            program.start()
            try:
                progress.wait(1)
                if number % 2 == 0:
                    progress.wait_in_batch(rng.randrange(2))
                    time.sleep(rng.uniform(0, BATCH_S))
                    broker.restart_by_kill()
                    progress.wait(1)
                    progress.wait_in_batch(0)
                    time.sleep(rng.uniform(0, BATCH_S))
                else:
                    progress.wait_for_results(broker)
            finally:
                program.kill()
            in_batch += progress.is_in_batch()
    published = publisher.confirmed
    assert published > 0
    assert publisher.repeats >= (KILLS + 1) // 2

    # To the end, where the killed drivers left it.
    archived = patiently(lambda: archive_to_the_end(spark, job))
    assert archived > 0
    patiently(lambda: total_to_the_end(spark, job))

    errors = Path(job.errors).read_text().splitlines() if Path(job.errors).exists() else []
    assert [each for each in errors if not any(said in each for said in EXPECTED_ERRORS)] == []
    check_by_spark(spark, job, published)
    check_by_pyarrow(job, published)
    results = sorted(
        (int(start), key, int(count), int(total))
        for start, key, count, total in (
            body.decode().split(",") for body in bodies_in(broker, "totals")
        )
    )
    assert results == totals_of(published, driver.WINDOW_S)
    LOG.info(
        "%d messages, %d parts sent again, %d totals, %d of %d kills in a batch, %s batches, "
        "errors: %s",
        *(published, publisher.repeats, len(results), in_batch, KILLS, progress.committed()),
        errors,
    )


def check_by_spark(spark: SparkSession, job: Job, published: int) -> None:
    """Each offset once, from 0 on, with the body that was published there."""
    frame = layout.read_archive(spark, job.archive)
    number = F.split(F.decode("body", "UTF-8"), ",")[0].cast("bigint")
    found = frame.agg(
        F.count("*"),
        F.count_distinct("offset"),
        F.min("offset"),
        F.max("offset"),
        F.count_if(number != F.col("offset")),
        F.count_distinct("incarnation"),
    ).head()
    assert found is not None
    assert tuple(found) == (published, published, 0, published - 1, 0, 1)


def check_by_pyarrow(job: Job, published: int) -> None:
    """The same, by a reader that knows nothing of Spark's log of what it wrote."""
    partitions = pa.schema([("queue", pa.string()), ("date", pa.string()), ("batch", pa.int64())])
    hive = ds.partitioning(partitions, flavor="hive")
    table = ds.dataset(job.archive, partitioning=hive).to_table().sort_by("offset")
    assert table.num_rows == published
    assert table["offset"].to_pylist() == [*range(published)]
    assert table["body"].to_pylist() == [body_of(number) for number in range(published)]
