"""Streaming queries read each message once, over restarts and whatever happens to the streams.

Each run of a query reads what there is and ends (Trigger.AvailableNow), with a checkpoint that the
next run goes on from.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.stream_server import StreamServer, stream_server

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import DataStreamWriter

#: Beside other work, starting Spark alone may take a minute.
pytestmark = [pytest.mark.acceptance, pytest.mark.timeout(400)]
END_S = 180


@pytest.fixture
def server() -> Iterator[StreamServer]:
    with stream_server() as running:
        yield running


class Query:
    """A query whose rows are kept by batch; its checkpoint survives its runs."""

    def __init__(self, spark: SparkSession, server: StreamServer, folder: Path) -> None:
        self._spark = spark
        self._server = server
        self.checkpoint = folder / "checkpoint"
        #: Each batch that was written: its number, and queue and offset of each row.
        self.batches: list[tuple[int, list[tuple[str, int]]]] = []
        self.fails = False

    def writer(self, **options: str) -> DataStreamWriter:
        given = {**self._server.options, "startingOffsets": "earliest", **options}
        if not {"queue", "queues", "queuePattern"} & options.keys():
            given["queue"] = "q"
        if "startingTimestamp" in options:
            del given["startingOffsets"]
        frame = self._spark.readStream.format("amqp").options(**given).load()
        writer = frame.writeStream.foreachBatch(self._take)
        return writer.option("checkpointLocation", str(self.checkpoint))

    def run(self, **options: str) -> list[tuple[str, int]]:
        """Read what is there; returns the new rows in order."""
        before = len(self.batches)
        query = self.writer(**options).trigger(availableNow=True).start()
        try:
            assert query.awaitTermination(END_S)
        finally:
            query.stop()
        return sorted(row for _, rows in self.batches[before:] for row in rows)

    def offset(self) -> dict[str, Any]:
        """The last offset in the checkpoint."""
        files = [each for each in (self.checkpoint / "offsets").iterdir() if each.name.isdigit()]
        last = max(files, key=lambda each: int(each.name))
        offset: dict[str, Any] = json.loads(last.read_text().splitlines()[-1])
        return offset

    def has(self, row: tuple[str, int]) -> bool:
        """True if a batch had this row."""
        return any(row in rows for _, rows in self.batches)

    def _take(self, frame: DataFrame, number: int) -> None:
        rows = [(row["queue"], row["offset"]) for row in frame.select("queue", "offset").collect()]
        self.batches.append((number, rows))
        if self.fails:
            raise RuntimeError("no luck today")


@pytest.fixture
def query(spark: SparkSession, server: StreamServer, tmp_path: Path) -> Query:
    return Query(spark, server, tmp_path)


def rows(queue: str, start: int, end: int) -> list[tuple[str, int]]:
    return [(queue, at) for at in range(start, end)]


def test_a_batch_that_failed_is_read_again_as_it_was(query: Query, server: StreamServer) -> None:
    stream = server.fill("q", 15)
    query.fails = True
    with pytest.raises(Exception, match="no luck today"):
        query.run(maxRecordsPerTrigger="10")
    server.fill("q", 10)
    query.fails = False
    assert query.run(maxRecordsPerTrigger="10") == rows("q", 0, 25)
    assert [(number, len(batch)) for number, batch in query.batches] == [
        (0, 10),
        (0, 10),
        (1, 10),
        (2, 5),
    ]
    assert query.batches[0] == query.batches[1]
    assert query.offset() == {"v": 1, "q": {"//q": {"i": stream.incarnation, "o": 25}}}


def test_queues_share_limits_come_go_and_return(query: Query, server: StreamServer) -> None:
    server.fill("a", 30)
    gone = server.fill("b", 10)
    pattern = {"queuePattern": "[abc]", "maxRecordsPerTrigger": "20"}
    assert query.run(**pattern) == rows("a", 0, 30) + rows("b", 0, 10)
    first = [queue for queue, _ in query.batches[0][1]]
    assert (first.count("a"), first.count("b")) == (15, 5)
    del server.streams["b"]
    server.fill("c", 5)
    assert query.run(**pattern) == rows("c", 0, 5)
    server.streams["b"] = gone
    server.fill("b", 2)
    assert query.run(**pattern) == rows("b", 10, 12)


def test_what_happens_to_a_stream_while_the_query_is_stopped(
    query: Query, server: StreamServer
) -> None:
    server.fill("q", 10)
    assert query.run() == rows("q", 0, 10)
    # Retention passed the checkpoint.
    server.fill("q", 10).truncate(15)
    with pytest.raises(Exception, match=r"\[OFFSET_GONE\].*messages 10 to 14"):
        query.run()
    assert query.run(failOnDataLoss="false") == rows("q", 15, 20)
    # Deleted and declared again.
    server.declare("q")
    server.fill("q", 30)
    with pytest.raises(Exception, match=r"\[INCARNATION_CHANGED\].*declared again"):
        query.run()
    assert query.run(onIncarnationChange="restart") == rows("q", 0, 30)
    # A crash took what had been promised.
    server.streams["q"].regress(25)
    with pytest.raises(Exception, match=r"\[TAIL_REGRESSED\].*ends before 25"):
        query.run()


def test_a_running_query_sees_news_and_reports_its_position(
    query: Query, server: StreamServer
) -> None:
    server.fill("q", 10)
    running = query.writer(startingTimestamp="6000", readerName="me", pinRetention="true").start()
    try:
        for end in (10, 15, 21):
            server.fill("q", end - server.streams["q"].next)
            _wait_for(lambda last=("q", end - 1): query.has(last))
        # A position is reported when the next batch begins.
        _wait_for(lambda: server.seen.readers.get(("q", "me"), {}).get("offset") == 15)
        progress = str(running.lastProgress)
    finally:
        running.stop()
    assert sorted(row for _, batch in query.batches for row in batch) == rows("q", 5, 21)
    assert server.seen.readers["q", "me"]["pin"] is True
    assert "'lag_rows'" in progress or '"lag_rows"' in progress
    assert "guest" not in progress


def test_a_running_query_goes_on_with_a_stream_that_is_declared_again(
    query: Query, server: StreamServer
) -> None:
    server.fill("q", 10)
    running = query.writer(onIncarnationChange="restart").start()
    try:
        _wait_for(lambda: query.has(("q", 9)))
        del server.streams["q"]
        asked = len(server.seen.paths)
        _wait_for(lambda: len(server.seen.paths) > asked + 1)
        server.fill("q", 12)
        _wait_for(lambda: query.has(("q", 11)))
        assert running.isActive
    finally:
        running.stop()
    assert sorted(row for _, batch in query.batches for row in batch) == sorted(
        rows("q", 0, 10) + rows("q", 0, 12)
    )


def _wait_for(is_so: Any) -> None:
    """Until it is so; fails after `END_S`."""
    end = time.monotonic() + END_S
    while not is_so():
        assert time.monotonic() < end
        time.sleep(0.01)
