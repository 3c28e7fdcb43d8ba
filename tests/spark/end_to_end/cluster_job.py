"""Reads a stream and writes it to another queue, on two executors that are processes of their own.

``python cluster_job.py FILE``: FILE has ``source`` and ``sink``, options, as JSON. Prints one line
of JSON. In a process of its own, since a process has one master.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from pyspark.sql import functions as F  # noqa: N812 - as Spark's documentation calls it

from hareline.spark.session import session

MASTER = "local-cluster[2,1,512]"


def executors(rows: Iterable[Any]) -> Iterator[str]:
    """Which executor a task is on, by the folder it works in."""
    for _ in rows:
        pass
    yield Path.cwd().name


def main() -> None:
    job = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    spark = session(
        "cluster",
        master=MASTER,
        is_short=True,
        settings={
            "spark.executor.memory": "512m",
            "spark.executor.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
        },
    )
    try:
        stream = spark.read.format("amqp").options(**job["source"]).load()
        where = stream.rdd.mapPartitions(executors).collect()
        (
            stream.select("body", F.concat(F.lit("row "), "offset").alias("message_id"))
            .write.format("amqp")
            .options(**job["sink"])
            .mode("append")
            .save()
        )
        found = {"tasks": len(where), "executors": sorted(set(where))}
        sys.stdout.write(json.dumps(found) + "\n")
    finally:
        spark.stop()


if __name__ == "__main__":
    main()
