"""Layout of an archive: ``queue=<name>/date=<day>/batch=<id>``, Parquet, wherever Spark can write.

A place without a scheme (``s3a://``) is a path of this machine. A repeated write of a batch changes
nothing, for every reader of Parquet. Invariant: rows of a file are in the order of their offsets;
names with ``_`` or ``.`` in front are not part of the archive.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import functions as F  # noqa: N812 - as all of Spark's documentation calls it

from hareline.spark.errors import InvalidOption
from hareline.spark.reading.columns import COLUMNS, ddl

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


#: What decides the folder of a row.
PARTITIONS: Final = ("queue", "date", "batch")
#: Beside the folders of the queues, where it goes wherever the archive goes.
CHECKPOINT: Final = "_checkpoint"
#: What Spark leaves where it was killed while it wrote a batch.
_STAGING: Final = ".spark-staging"
_DAY_US: Final = 24 * 60 * 60 * 1_000_000
#: A schema is given for reading, since Spark would take a queue "007" for the number 7.
SCHEMA: Final = ", ".join(
    (
        ddl([column.name for column in COLUMNS if column.name != "queue"]),
        "queue string, `date` date, batch bigint",
    )
)

_SCHEME: Final = re.compile(r"^[A-Za-z][A-Za-z0-9+.-]*:")


def joined(place: str, name: str) -> str:
    """The place of this name below another one."""
    return f"{place.rstrip('/')}/{name}"


def names_in(session: SparkSession, place: str) -> list[str]:
    """The names of what is directly in a folder; none if it does not exist."""
    file_system, path = _hadoop(session, place)
    if not file_system.exists(path):
        return []
    return sorted(each.getPath().getName() for each in file_system.listStatus(path))


def remove(session: SparkSession, place: str) -> None:
    """Remove a file, or a folder with all that is in it."""
    file_system, path = _hadoop(session, place)
    file_system.delete(path, True)


def write_text(session: SparkSession, place: str, text: str) -> None:
    """Write a file, and the folders above it; a previous one is replaced."""
    if not _SCHEME.match(place):
        # By Python, since Hadoop leaves a file with checksums beside each local one.
        file = Path(place)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
        return
    file_system, path = _hadoop(session, place)
    stream = file_system.create(path, True)
    try:
        stream.write(bytearray(text.encode()))
    finally:
        stream.close()


def _hadoop(session: SparkSession, place: str) -> tuple[Any, Any]:
    """Hadoop's file system of a place, and the place as its path."""
    java: Any = session.sparkContext
    path = java._jvm.org.apache.hadoop.fs.Path(place)
    return path.getFileSystem(java._jsc.hadoopConfiguration()), path


def write_batch(frame: DataFrame, path: str, batch: int) -> None:
    """Write the messages of a batch; the folders that it wrote before are replaced."""
    # Days of UTC, whatever the time zone of the session.
    day = F.expr(f"date_from_unix_date(cast(unix_micros(timestamp) div {_DAY_US} as int))")
    (
        frame.withColumn("date", day)
        .withColumn("batch", F.lit(batch).cast("bigint"))
        .sortWithinPartitions(*PARTITIONS, "offset")
        .write.mode("overwrite")
        .option("partitionOverwriteMode", "dynamic")
        .option("compression", "zstd")
        .partitionBy(*PARTITIONS)
        .parquet(path)
    )


def is_archive(session: SparkSession, path: str) -> bool:
    """True if a folder has archived messages."""
    return any(name.startswith(f"{PARTITIONS[0]}=") for name in names_in(session, path))


def remove_unfinished(session: SparkSession, path: str) -> None:
    """Remove what a writer left that was killed; no other one may be writing."""
    for name in names_in(session, path):
        if name.startswith(_STAGING):
            remove(session, joined(path, name))


def read_archive(session: SparkSession, path: str) -> DataFrame:
    """The messages of an archive, with the columns of `SCHEMA`. Raises InvalidOption."""
    if not is_archive(session, path):
        raise InvalidOption(f"'{path}' has no archive; name the folder that `archive` wrote to")
    return session.read.schema(SCHEMA).parquet(path)
