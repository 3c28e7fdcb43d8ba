"""Two queries on one stream: an archive, and totals of windows that go back to the broker.

``python driver.py FILE`` runs both until the process is killed; FILE has `Job` as JSON. A query
that fails is started again, as a service manager would, and its error goes to a file of errors,
a line each. The test that kills this process runs the same queries to their end afterwards.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark.errors import PySparkException
from pyspark.sql import functions as F  # noqa: N812 - as Spark's documentation calls it

from hareline.spark.errors import SparkSideError, error_of
from hareline.spark.pipelines.archive import archive
from hareline.spark.session import session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming import StreamingQuery

WINDOW_S = 10
#: Batches of a few seconds' messages, so that a backlog takes several.
_ROWS_PER_BATCH = "2000"
_PAUSE_S = 0.5


@dataclass(frozen=True)
class Job:
    """What the driver needs to know; all values are text or tables of text."""

    #: Options of the source, without queue.
    source: dict[str, str]
    #: Options of the sink.
    sink: dict[str, str]
    queue: str
    results: str
    archive: str
    checkpoint: str
    errors: str

    @staticmethod
    def read(path: str) -> Job:
        return Job(**json.loads(Path(path).read_text(encoding="utf-8")))


def archive_to_the_end(spark: SparkSession, job: Job) -> int:
    """Archive what the stream has; returns how many messages of it this run archived."""
    return archive(spark, job.archive, _source_of(job)).messages


def start_totals(spark: SparkSession, job: Job, **trigger: Any) -> StreamingQuery:
    """Start the aggregation: count and sum for each window of event time and each key.

    A window is published once its end is behind the newest message. A batch that is done again has
    its rows in another order, as they come from a shuffle, so each row has a key of its own.
    """
    frame = (
        spark.readStream.format("amqp")
        .options(**_source_of(job), startingOffsets="earliest", columns="app_timestamp,body")
        .load()
    )
    parts = F.split(F.decode("body", "UTF-8"), ",")
    totals = (
        frame.select("app_timestamp", parts[1].alias("key"), parts[2].cast("bigint").alias("value"))
        .withWatermark("app_timestamp", "0 seconds")
        .groupBy(F.window("app_timestamp", f"{WINDOW_S} seconds"), "key")
        .agg(F.count("*").alias("count"), F.sum("value").alias("sum"))
    )
    start = F.unix_seconds("window.start")
    rows = totals.select(
        F.concat_ws(",", start, "key", "count", "sum").alias("body"),
        F.concat_ws("|", start, "key").alias("dedup_key"),
    )
    return (
        rows.writeStream.format("amqp")
        .options(**job.sink, exchange="", routingKey=job.results, dedup="column")
        .option("checkpointLocation", job.checkpoint)
        .outputMode("append")
        .trigger(**trigger)
        .start()
    )


def _source_of(job: Job) -> dict[str, str]:
    return {**job.source, "queue": job.queue, "maxRecordsPerTrigger": _ROWS_PER_BATCH}


def _archive_for_ever(spark: SparkSession, job: Job) -> None:
    while True:
        try:
            archive(spark, job.archive, _source_of(job), is_continuous=True, trigger_s=0.2)
        except SparkSideError as error:
            _note(job, "archive", error)


def _total_for_ever(spark: SparkSession, job: Job) -> None:
    while True:
        try:
            start_totals(spark, job, processingTime="200 milliseconds").awaitTermination()
        except PySparkException as raised:
            _note(job, "totals", error_of(raised))


def _note(job: Job, query: str, error: SparkSideError) -> None:
    with Path(job.errors).open("a", encoding="utf-8") as file:
        file.write(" ".join(f"{query} {error}".split()) + "\n")
    time.sleep(_PAUSE_S)


def main() -> None:
    job = Job.read(sys.argv[1])
    spark = session(
        "end-to-end",
        master="local[2,4]",
        is_short=True,
        settings={"spark.sql.shuffle.partitions": "2"},
    )
    archiving = threading.Thread(target=_archive_for_ever, args=(spark, job), daemon=True)
    archiving.start()
    _total_for_ever(spark, job)


if __name__ == "__main__":
    main()
