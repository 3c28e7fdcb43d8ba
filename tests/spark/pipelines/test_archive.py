"""An archive has each message once, for Spark and for pyarrow, whatever is done again."""

from __future__ import annotations

import datetime
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession

from hareline.spark.errors import InvalidOption, SparkSideError
from hareline.spark.pipelines import layout
from hareline.spark.pipelines.archive import ArchiveProgress, archive_stream

pytestmark = pytest.mark.acceptance

# Names that a file system, Spark's guessing of types, and escaping could each spoil.
QUEUES = ["orders", "007", "a/b=c %2F", "größe", "2026-01-01"]
MIDNIGHT = datetime.datetime(2026, 1, 6, tzinfo=datetime.UTC)


def message(queue: str, offset: int, arrived: datetime.datetime = MIDNIGHT) -> dict[str, Any]:
    return {
        "vhost": "/",
        "incarnation": "00000000000000aa",
        "queue": queue,
        "offset": offset,
        "timestamp": arrived + datetime.timedelta(microseconds=offset - 5),
        "exchange": "",
        "routing_key": queue,
        "body": offset.to_bytes(8, "big"),
        "priority": 255 if offset % 2 else None,
        "headers": {"n": str(offset)},
        "headers_raw": b"\x00\x01",
        "size": 8,
    }


def messages_of(*queues: str, start: int = 0, end: int = 10) -> list[dict[str, Any]]:
    return [message(queue, offset) for queue in queues for offset in range(start, end)]


def frame_of(spark: SparkSession, rows: Iterable[dict[str, Any]]) -> DataFrame:
    names = [field.name for field in layout_schema(spark)]
    return spark.createDataFrame(
        [tuple(row.get(name) for name in names) for row in rows], layout_schema(spark)
    )


def layout_schema(spark: SparkSession) -> Any:
    """The columns of the source: those of an archive but for what only its folders have."""
    schema = spark.createDataFrame([], layout.SCHEMA).schema
    return type(schema)([field for field in schema if field.name not in {"date", "batch"}])


def keys_by_spark(spark: SparkSession, path: Path) -> list[tuple[str, int]]:
    rows = layout.read_archive(spark, str(path)).select("queue", "offset").collect()
    return sorted((row["queue"], row["offset"]) for row in rows)


def keys_by_pyarrow(path: Path) -> list[tuple[str, int]]:
    partitions = pa.schema([("queue", pa.string()), ("date", pa.string()), ("batch", pa.int64())])
    found = ds.dataset(path, partitioning=ds.partitioning(partitions, flavor="hive")).to_table()
    return sorted(zip(found["queue"].to_pylist(), found["offset"].to_pylist(), strict=True))


def expected(*queues: str, end: int = 10) -> list[tuple[str, int]]:
    return sorted((queue, offset) for queue in queues for offset in range(end))


def test_a_batch_that_is_written_again_is_there_once(spark: SparkSession, tmp_path: Path) -> None:
    frame = frame_of(spark, messages_of(*QUEUES))
    for _ in range(2):
        layout.write_batch(frame, str(tmp_path), 3)
    assert keys_by_spark(spark, tmp_path) == expected(*QUEUES)
    assert keys_by_pyarrow(tmp_path) == expected(*QUEUES)
    # Another batch leaves the first one alone.
    layout.write_batch(frame_of(spark, messages_of("007", start=10, end=12)), str(tmp_path), 4)
    assert keys_by_pyarrow(tmp_path) == sorted([*expected(*QUEUES), ("007", 10), ("007", 11)])


def test_every_column_comes_back(spark: SparkSession, tmp_path: Path) -> None:
    frame = frame_of(spark, messages_of("007", "größe"))
    layout.write_batch(frame, str(tmp_path), 0)
    again = (
        layout.read_archive(spark, str(tmp_path)).select(*frame.columns).orderBy("queue", "offset")
    )
    assert again.collect() == frame.orderBy("queue", "offset").collect()


def test_days_are_those_of_utc(spark: SparkSession, tmp_path: Path) -> None:
    spark.conf.set("spark.sql.session.timeZone", "America/New_York")
    try:
        layout.write_batch(frame_of(spark, messages_of("orders")), str(tmp_path), 0)
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")
    days = {each.name: each for each in (tmp_path / "queue=orders").iterdir()}
    assert set(days) == {"date=2026-01-05", "date=2026-01-06"}
    files = [*days["date=2026-01-06"].rglob("*.parquet")]
    assert sum(pq.ParquetFile(file).metadata.num_rows for file in files) == 5


def test_files_are_zstd_and_in_the_order_of_offsets(spark: SparkSession, tmp_path: Path) -> None:
    rows = [message("orders", offset) for offset in reversed(range(100, 200))]
    layout.write_batch(frame_of(spark, rows), str(tmp_path), 0)
    for file in tmp_path.rglob("*.parquet"):
        parquet = pq.ParquetFile(file)
        assert parquet.metadata.row_group(0).column(0).compression == "ZSTD"
        offsets = parquet.read(["offset"])["offset"]
        assert pc.all(pc.greater(offsets[1:], offsets[:-1])).as_py() in {True, None}


class Feed:
    """A stream of files, which Spark reads again as it reads the broker again."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self._spark = spark
        self._folder = folder
        self._files = 0
        folder.mkdir()

    def append(self, rows: list[dict[str, Any]]) -> None:
        part = self._folder.parent / "part"
        frame_of(self._spark, rows).coalesce(1).write.mode("overwrite").parquet(str(part))
        (file,) = part.glob("*.parquet")
        file.rename(self._folder / f"{self._files:03}.parquet")
        self._files += 1

    def stream(self) -> DataFrame:
        return (
            self._spark.readStream.schema(layout_schema(self._spark))
            .option("maxFilesPerTrigger", 1)
            .parquet(str(self._folder))
        )


@pytest.fixture
def feed(spark: SparkSession, tmp_path: Path) -> Feed:
    return Feed(spark, tmp_path / "feed")


def test_a_run_goes_on_where_the_last_one_ended(
    spark: SparkSession, tmp_path: Path, feed: Feed
) -> None:
    path = tmp_path / "archive"
    told: list[ArchiveProgress] = []
    feed.append(messages_of("orders", end=5))
    feed.append(messages_of("orders", "007", start=5))
    done = archive_stream(feed.stream(), str(path), on_progress=told.append)
    assert (done.messages, done.batches, done.is_done) == (15, 2, True)
    assert [each.messages for each in told] == [5, 15]
    feed.append(messages_of("orders", start=10, end=12))
    done = archive_stream(feed.stream(), str(path))
    assert (done.messages, done.batches) == (2, 1)
    wanted = sorted([*expected("orders", end=12), *(("007", offset) for offset in range(5, 10))])
    assert keys_by_spark(spark, path) == wanted
    assert keys_by_pyarrow(path) == wanted
    assert archive_stream(feed.stream(), str(path)).messages == 0


def test_a_run_that_was_killed_before_it_noted_a_batch_does_it_again(
    spark: SparkSession, tmp_path: Path, feed: Feed
) -> None:
    path = tmp_path / "archive"
    feed.append(messages_of("orders"))
    feed.append(messages_of("orders", start=10, end=20))
    archive_stream(feed.stream(), str(path))
    # As after a kill: files are there, the staging folder too, and the batch is not noted as done.
    for left in (path / layout.CHECKPOINT / "commits").glob("*1*"):
        left.unlink()
    (path / ".spark-staging-of-a-killed-run").mkdir()
    feed.append(messages_of("orders", start=20, end=30))
    assert archive_stream(feed.stream(), str(path)).messages == 20
    assert keys_by_spark(spark, path) == expected("orders", end=30)
    assert keys_by_pyarrow(path) == expected("orders", end=30)
    assert not [*path.glob(".spark-staging*")]


def test_an_archive_that_lost_its_checkpoint_is_not_overwritten(
    spark: SparkSession, tmp_path: Path, feed: Feed
) -> None:
    path = tmp_path / "archive"
    layout.write_batch(frame_of(spark, messages_of("orders")), str(path), 0)
    feed.append(messages_of("other"))
    with pytest.raises(InvalidOption, match="has an archive but not its checkpoint"):
        archive_stream(feed.stream(), str(path))
    assert keys_by_pyarrow(path) == expected("orders")


def test_a_continuous_run_ends_when_it_is_told_to(
    spark: SparkSession, tmp_path: Path, feed: Feed
) -> None:
    path = tmp_path / "archive"
    feed.append(messages_of("orders"))
    told: list[ArchiveProgress] = []
    done = archive_stream(
        feed.stream(),
        str(path),
        is_continuous=True,
        trigger_s=0.1,
        on_progress=told.append,
        should_stop=lambda: bool(told),
    )
    assert done.messages == 10
    assert keys_by_pyarrow(path) == expected("orders")


def test_what_fails_in_a_batch_is_raised_as_an_error_of_ours(
    spark: SparkSession, tmp_path: Path, feed: Feed
) -> None:
    feed.append(messages_of("orders"))
    broken = feed.stream().selectExpr("*", "raise_error('no such thing') as wrong")
    with pytest.raises(SparkSideError, match="no such thing"):
        archive_stream(broken, str(tmp_path / "archive"))


def test_what_is_no_archive_is_said_to_be_none(spark: SparkSession, tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "nowhere"):
        with pytest.raises(InvalidOption, match="has no archive"):
            layout.read_archive(spark, str(path))
