"""Archive: from streams of the broker to partitioned Parquet, exactly once.

The checkpoint of the query is in the archive: after any crash the next run repeats the interrupted
batch with the same messages, and so replaces its files. Invariant: an archive without its
checkpoint is not continued, because batches would be numbered from 0 and replace other messages.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from pyspark.errors import PySparkException

from hareline.spark.errors import InvalidOption, error_of
from hareline.spark.pipelines import layout

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import StreamingQuery

_POLL_S: Final = 0.5


@dataclass(frozen=True, slots=True)
class ArchiveProgress:
    """Progress of a run: messages and batches written, and messages that are still to come."""

    messages: int
    batches: int
    remaining: int

    @property
    def is_done(self) -> bool:
        """True if the streams had nothing more when the last batch was planned."""
        return self.remaining == 0


def archive(
    session: SparkSession,
    path: str,
    options: Mapping[str, str],
    *,
    is_continuous: bool = False,
    trigger_s: float = 60,
    on_progress: Callable[[ArchiveProgress], None] | None = None,
    should_stop: Callable[[], bool] | None = None,
) -> ArchiveProgress:
    """Archive what the streams have, or with ``is_continuous`` what comes, until ``should_stop``.

    ``options`` are those of the source (url, user, password, queue or queues or queuePattern). A
    run goes on where the last one ended. Continuously, a batch is made each ``trigger_s`` seconds.
    Returns what this run wrote. Raises SparkSideError.
    """
    given = {name.lower(): value for name, value in options.items()}
    start = {} if "startingtimestamp" in given else {"startingoffsets": "earliest"}
    try:
        reader = session.readStream.format("amqp").options(**start | given | {"columns": "all"})
        frame = reader.load()
    except PySparkException as raised:
        raise error_of(raised) from raised
    return archive_stream(
        frame,
        path,
        is_continuous=is_continuous,
        trigger_s=trigger_s,
        on_progress=on_progress,
        should_stop=should_stop,
    )


def archive_stream(
    frame: DataFrame,
    path: str,
    *,
    is_continuous: bool = False,
    trigger_s: float = 60,
    on_progress: Callable[[ArchiveProgress], None] | None = None,
    should_stop: Callable[[], bool] | None = None,
) -> ArchiveProgress:
    """Archive a streaming DataFrame with the columns of the source, as `archive` does."""
    session = frame.sparkSession
    checkpoint = layout.joined(path, layout.CHECKPOINT)
    has_checkpoint = "metadata" in layout.names_in(session, checkpoint)
    if layout.is_archive(session, path) and not has_checkpoint:
        raise InvalidOption(
            f"'{path}' has an archive but not its checkpoint ('{layout.CHECKPOINT}'): new messages "
            "would replace old ones; name another folder, or put the checkpoint back"
        )
    layout.remove_unfinished(session, path)

    def write(batch: DataFrame, batch_id: int) -> None:
        layout.write_batch(batch, path, batch_id)

    trigger: dict[str, Any] = (
        {"processingTime": f"{trigger_s} seconds"} if is_continuous else {"availableNow": True}
    )
    try:
        query = (
            frame.writeStream.foreachBatch(write)
            .option("checkpointLocation", checkpoint)
            .trigger(**trigger)
            .start()
        )
        return _followed(query, on_progress, should_stop)
    except PySparkException as raised:
        raise error_of(raised) from raised


def _followed(
    query: StreamingQuery,
    on_progress: Callable[[ArchiveProgress], None] | None,
    should_stop: Callable[[], bool] | None,
) -> ArchiveProgress:
    """Wait for the end of a query, reporting meanwhile; it is stopped in any case."""
    progress = ArchiveProgress(0, 0, 0)
    newest_batch = -1
    try:
        is_over = False
        while not is_over:
            is_over = bool(query.awaitTermination(_POLL_S))
            for each in query.recentProgress:
                # Progress of an idle trigger has the number of the batch that is still to come.
                if each.numInputRows and each.batchId > newest_batch:
                    newest_batch = each.batchId
                    progress = ArchiveProgress(
                        progress.messages + each.numInputRows,
                        progress.batches + 1,
                        sum(_remaining(source) for source in each.sources),
                    )
                    if on_progress is not None:
                        on_progress(progress)
            if should_stop is not None and should_stop():
                break
    finally:
        query.stop()
    return progress


def _remaining(source: Any) -> int:
    """Messages of a source behind the end of its last batch."""
    end, latest = (_offsets(text) for text in (source.endOffset, source.latestOffset))
    return sum(max(0, offset - end.get(queue, offset)) for queue, offset in latest.items())


def _offsets(text: str | None) -> dict[str, int]:
    """The offset of each queue, by its virtual host and name; empty if it is of another source."""
    try:
        queues = json.loads(text or "{}")["q"]
        return {name: int(place["o"]) for name, place in queues.items()}
    except (ValueError, LookupError, TypeError, AttributeError):
        return {}
