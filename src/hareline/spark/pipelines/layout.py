"""How an archive is laid out: ``queue=<name>/date=<day>/batch=<id>``, Parquet with zstd.

``archive`` writes it, ``replay`` and ``report`` read it. A batch of a query is the same messages
whenever it is done, so to write its folders again changes nothing; that is what makes an archive
exact for every reader of Parquet, and not only for Spark.

Invariant: within a file, rows are in the order of their offsets. Names that begin with ``_`` or
``.`` are not part of the archive.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F  # noqa: N812 - as all of Spark's documentation calls it

from hareline.spark.errors import InvalidOption
from hareline.spark.pipelines import places

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
SCHEMA: Final = (
    "vhost string, incarnation string, `offset` bigint, `timestamp` timestamp, exchange string, "
    "routing_key string, body binary, content_type string, content_encoding string, "
    "delivery_mode smallint, priority smallint, correlation_id string, reply_to string, "
    "expiration string, message_id string, app_timestamp timestamp, type string, user_id string, "
    "app_id string, headers map<string,string>, headers_raw binary, size int, "
    "queue string, `date` date, batch bigint"
)


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
    """Whether a folder has archived messages."""
    return any(name.startswith(f"{PARTITIONS[0]}=") for name in places.names_in(session, path))


def remove_unfinished(session: SparkSession, path: str) -> None:
    """Remove what a writer left that was killed; no other one may be writing."""
    for name in places.names_in(session, path):
        if name.startswith(_STAGING):
            places.remove(session, places.joined(path, name))


def read_archive(session: SparkSession, path: str) -> DataFrame:
    """The messages of an archive, with the columns of `SCHEMA`. Raises InvalidOption."""
    if not is_archive(session, path):
        raise InvalidOption(f"'{path}' has no archive; name the folder that `archive` wrote to")
    return session.read.schema(SCHEMA).parquet(path)
