"""Count clicks per page and ten seconds with Spark, from a stream of the broker back into a queue.

    python examples/spark/windows.py

starts a broker, a publisher and a Spark query, prints each count as it comes back from the broker,
and ends when all are there and equal those of plain Python. It needs `pip install .[spark] pika`
in a clone, and Java 17. With AMQP_URL and HARELINE_HTTP_URL it uses a broker that runs already.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import re
import subprocess
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pika
from pyspark.sql import functions as sql
from pyspark.sql.streaming.query import StreamingQuery

from hareline.spark.session import session

CLICKS = 2_000
WINDOW_S = 10
PAGES = ("/", "/hares", "/tracks", "/about")
FIRST = datetime(2026, 1, 5, 8, 0, tzinfo=UTC)


@contextlib.contextmanager
def broker() -> Iterator[tuple[str, str]]:
    """The AMQP and the HTTP address of a broker that runs until the block ends."""
    if "AMQP_URL" in os.environ:
        yield os.environ["AMQP_URL"], os.environ["HARELINE_HTTP_URL"]
        return
    with tempfile.TemporaryDirectory() as directory:
        command = [sys.executable, "-m", "hareline", "serve", "--bind", "127.0.0.1"]
        command += ["--port", "0", "--management-port", "0", "--data-dir", directory]
        process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)  # its log
        assert process.stderr is not None
        addresses: dict[str, str] = {}
        try:
            for line in process.stderr:
                found = re.search(r"(amqp|http)://[\d.]+:\d+", line)
                if found:
                    addresses[found[1]] = found[0]
                if len(addresses) == 2:
                    break
            threading.Thread(target=process.stderr.read, daemon=True).start()
            yield addresses["amqp"], addresses["http"]
        finally:
            process.terminate()
            process.wait()


def clicks() -> list[tuple[datetime, str]]:
    """Times and pages: some a second late, as in life."""
    chance = random.Random(1)
    made = []
    for number in range(CLICKS):
        at = FIRST + timedelta(seconds=number / 40 - chance.choice((0, 0, 1)))
        made.append((at, chance.choice(PAGES)))
    return made


def publish(url: str, made: list[tuple[datetime, str]]) -> None:
    """Publish the clicks, and one of an hour later that closes the last window."""
    with pika.BlockingConnection(pika.URLParameters(url)) as connection:
        channel = connection.channel()
        channel.confirm_delivery()
        for at, page in [*made, (FIRST + timedelta(hours=1), "/")]:
            body = json.dumps({"at": at.isoformat(), "page": page})
            channel.basic_publish("", "clicks", body)


def count_in_spark(url: str, http_url: str, checkpoint: str) -> StreamingQuery:
    """Start the query; it runs until it is stopped."""
    spark = session("clicks", is_short=True, settings={"spark.sql.shuffle.partitions": "2"})
    broker = {"url": url, "httpUrl": http_url}  # user and password are guest unless given
    stream = spark.readStream.format("amqp").options(**broker, queue="clicks")
    click = sql.from_json(sql.col("body").cast("string"), "at timestamp, page string")
    counts = (
        stream.option("startingOffsets", "earliest")
        .load()
        .select(click.alias("click"))
        .select("click.*")
        .withWatermark("at", "5 seconds")
        .groupBy(sql.window("at", f"{WINDOW_S} seconds"), "page")
        .count()
    )
    line = sql.struct(sql.col("window.start").alias("from"), "page", "count")
    key = sql.concat_ws("|", "window.start", "page")  # so that the broker knows a repeated one
    return (
        counts.select(sql.to_json(line).alias("body"), key.alias("dedup_key"))
        .writeStream.format("amqp")
        .options(**broker, routingKey="clicks.counted", dedup="column")
        .option("checkpointLocation", checkpoint)
        .start()
    )


def main() -> int:
    made = clicks()
    expected = Counter(
        (at.replace(second=at.second // 10 * 10, microsecond=0), page) for at, page in made
    )
    with broker() as (url, http_url), tempfile.TemporaryDirectory() as checkpoint:
        connection = pika.BlockingConnection(pika.URLParameters(url))
        channel = connection.channel()
        channel.queue_declare("clicks", durable=True, arguments={"x-queue-type": "stream"})
        channel.queue_declare("clicks.counted", durable=True)
        publish(url, made)
        query = count_in_spark(url, http_url, checkpoint)
        found: Counter[tuple[datetime, str]] = Counter()
        for _method, _properties, body in channel.consume(
            "clicks.counted", auto_ack=True, inactivity_timeout=1
        ):
            if body is None:
                if query.exception() is not None:
                    raise SystemExit(str(query.exception()))
                continue
            counted = json.loads(body)
            start = datetime.fromisoformat(counted["from"])
            found[start, counted["page"]] += counted["count"]
            print(f"{start:%H:%M:%S}  {counted['page']:8} {counted['count']:4}", flush=True)
            if len(found) == len(expected):
                break
        query.processAllAvailable()
        query.stop()
        connection.close()
    if found != expected:
        print("these are not the counts of plain Python", file=sys.stderr)
        return 1
    print(f"{len(found)} counts of {CLICKS} clicks, the same as in plain Python")
    return 0


if __name__ == "__main__":
    sys.exit(main())
