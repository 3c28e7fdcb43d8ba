"""Replay: the messages of an archive, or a span of it, published again in their order.

The archive is cut into slices of time; each is published and confirmed whole before the next, so a
replay can continue where it failed. Headers are changed in the task, where tables are still octets.
Invariant: a queue's messages go in the order of their offsets; slices have all messages, each once.
"""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from struct import Struct
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from uuid import uuid4

import pyarrow as pa
from pyspark.errors import AnalysisException, ParseException, PySparkException
from pyspark.sql import functions as F  # noqa: N812 - as all of Spark's documentation calls it
from pyspark.sql.datasource import DataSource, WriterCommitMessage
from pyspark.sql.types import StructType

from hareline.spark.errors import InvalidOption, SparkSideError, error_of
from hareline.spark.pipelines import layout
from hareline.spark.shared.headers import text_field, without_fields
from hareline.spark.writing.producers import PRODUCER_ID, PRODUCER_SEQUENCE
from hareline.spark.writing.sink import BatchWriter, WrittenPartition
from hareline.spark.writing.write_options import read_write_options

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession


_FORMAT: Final = "hareline_replay"
#: The option that has a `Slice` as JSON.
_SLICE: Final = "slice"
_REPLAYED_FROM: Final = "x-replayed-from"

#: What may be kept -> the headers that belong to the first life of a message.
_HEADERS: Final[dict[str, tuple[str, ...]]] = {
    "x-death": (
        *("x-death", "x-death-forgotten"),
        *(f"x-first-death-{each}" for each in ("reason", "queue", "exchange")),
        *(f"x-last-death-{each}" for each in ("reason", "queue", "exchange")),
    ),
    "CC": ("CC",),
    "BCC": ("BCC",),
}
#: The broker would take a replayed message for the one it has had, and drop it.
_NEVER_KEPT: Final = (PRODUCER_ID, PRODUCER_SEQUENCE)
_SIZE: Final = Struct(">I")
#: What is taken from messages unless it is named in ``keep``.
KEEPABLE: Final = ("expiration", "user_id", *_HEADERS)

#: How finely time is looked at, and how many messages a slice has at least, if there are as many.
_BUCKETS: Final = 200
_SLICE_MESSAGES: Final = 250_000
#: Producer ids at the broker for all partitions of a replay; it remembers some 10,000.
_PRODUCERS: Final = 4096
_IN_FLIGHT_MIN, _IN_FLIGHT_MAX = 32, 512
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_US: Final = timedelta(microseconds=1)

_PROPERTIES: Final = (
    *("content_type", "content_encoding", "delivery_mode", "priority", "correlation_id"),
    *("reply_to", "message_id", "app_timestamp", "type", "app_id"),
)

#: A queue, and which of the queues that had this name.
Log = tuple[str, str]


class Span(NamedTuple):
    """Times of arrival in epoch microseconds; the end is exclusive."""

    start: int
    end: int


class BucketCount(NamedTuple):
    """Messages of one log that arrived in one bucket of time."""

    span: Span
    log: Log
    messages: int
    first_offset: int
    last_offset: int
    first_us: int


@dataclass(frozen=True)
class ReplayCount:
    """Messages of one queue that were published to one exchange."""

    queue: str
    exchange: str
    messages: int
    octets: int
    first: datetime
    last: datetime


@dataclass(frozen=True)
class ReplayProgress:
    """Progress of a replay: all messages that arrived before ``until`` are confirmed."""

    published: int
    dropped: int
    total: int
    until: datetime


@dataclass(frozen=True)
class ReplayResult:
    """Messages chosen from the archive, and their fate; a dry run publishes nothing."""

    counts: tuple[ReplayCount, ...]
    published: int = 0
    #: Returned by the broker as unroutable, with onUnroutable=drop.
    dropped: int = 0

    @property
    def total(self) -> int:
        """Number of chosen messages."""
        return sum(each.messages for each in self.counts)


def replay(
    session: SparkSession,
    archive: str,
    broker: Mapping[str, str],
    *,
    queues: Sequence[str] = (),
    start: datetime | str | None = None,
    end: datetime | str | None = None,
    exchanges: Sequence[str] = (),
    routing_keys: Sequence[str] = (),
    where: str | None = None,
    to_exchange: str | None = None,
    to_routing_key: str | None = None,
    max_rate: int | None = None,
    keep: Collection[str] = (),
    mark: bool = True,
    dry_run: bool = False,
    on_progress: Callable[[ReplayProgress], None] | None = None,
) -> ReplayResult:
    """Publish messages of an archive again, and return how many; a dry run only counts them.

    ``broker``: options of the sink (docs/spark-sink.md). ``queues`` ... ``where`` choose messages;
    empty means all. ``start`` and ``end`` are times of arrival, ISO 8601 if text, UTC if without a
    zone; ``end`` is exclusive. ``where`` is an expression of SQL on the columns of the archive.
    ``to_exchange`` and ``to_routing_key`` replace those of the messages. ``max_rate``: messages a
    second. ``keep``: words of `KEEPABLE`. ``mark``: whether messages get a header x-replayed-from.
    ``on_progress`` is called after each slice. Raises the errors of
    ``hareline.spark.errors``.
    """
    unknown = sorted(set(keep) - set(KEEPABLE))
    if unknown:
        raise InvalidOption(f"keep has {unknown[0]!r}; it may have {', '.join(KEEPABLE)}")
    frame = layout.read_archive(session, archive)
    chosen = _choose(frame, queues, _moment("start", start), _moment("end", end))
    for column, values in (("exchange", exchanges), ("routing_key", routing_keys)):
        if values:
            chosen = chosen.where(F.col(column).isin(list(values)))
    if where is not None:
        try:
            chosen = chosen.where(where)
        except (AnalysisException, ParseException) as problem:
            raise InvalidOption(f"where: {error_of(problem).args[0]}") from None
    buckets, counts = _count(chosen, where)
    if dry_run or not counts:
        return ReplayResult(counts)
    partitions = len({each.queue for each in counts})
    options = _options_of(session, broker, partitions, max_rate)
    outgoing = _outgoing(
        chosen, read_write_options(options).connection.user, keep, to_exchange, to_routing_key
    )
    session.dataSource.register(ReplayTarget)
    total = sum(each.messages for each in counts)
    order = _incarnations_in_order(buckets)
    published = dropped = 0
    replay_id = str(uuid4())
    with tempfile.TemporaryDirectory(prefix="hareline-replay-") as folder:
        for number, span in enumerate(spans_of(buckets, _SLICE_MESSAGES)):
            report = Path(folder) / f"{number}.json"
            part = Slice(replay_id, number, sorted(set(keep) & set(_HEADERS)), mark, str(report))
            rows = (
                outgoing.where(_within(span))
                .repartition(partitions, "queue")
                .sortWithinPartitions("queue", *order, "offset")
                .drop("offset", "incarnation", "timestamp")
            )
            try:
                _write(rows, options, part)
            except Exception as raised:
                raise _interrupted(error_of(raised), published, total, span) from None
            for each in json.loads(report.read_text(encoding="utf-8")):
                published += each["published"]
                dropped += each["dropped"]
            if on_progress is not None:
                on_progress(ReplayProgress(published, dropped, total, _time_of(span.end)))
    return ReplayResult(counts, published, dropped)


def _choose(
    frame: DataFrame, queues: Sequence[str], start: datetime | None, end: datetime | None
) -> DataFrame:
    """The messages of queues and of a span; days and queues that do not matter are not read."""
    if queues:
        frame = frame.where(F.col("queue").isin(list(queues)))
    if start is not None:
        frame = frame.where(F.col("date") >= F.lit(start.date()))
        frame = frame.where(F.col("timestamp") >= _literal(_us_of(start)))
    if end is not None:
        frame = frame.where(F.col("date") <= F.lit(end.date()))
        frame = frame.where(F.col("timestamp") < _literal(_us_of(end)))
    return frame


def _count(
    chosen: DataFrame, where: str | None
) -> tuple[list[BucketCount], tuple[ReplayCount, ...]]:
    """Count the messages by buckets of time, and by queue and exchange."""
    arrival = F.unix_micros("timestamp")
    try:
        first, last = chosen.agg(F.min(arrival), F.max(arrival)).collect()[0]
        if first is None:
            return [], ()
        width = max(1, (last - first) // _BUCKETS + 1)
        rows = (
            chosen.groupBy(
                "queue",
                "incarnation",
                "exchange",
                F.expr(f"(unix_micros(timestamp) - {first}) div {width}").alias("bucket"),
            )
            .agg(
                F.count("*").alias("messages"),
                F.coalesce(F.sum("size"), F.lit(0)).alias("octets"),
                F.min("offset").alias("first_offset"),
                F.max("offset").alias("last_offset"),
                F.min(arrival).alias("first"),
                F.max(arrival).alias("last"),
            )
            .collect()
        )
    except Exception as raised:
        error = error_of(raised)
        # A value that does not do for a column is noticed now; Spark says where in a text it is.
        is_in_text = isinstance(raised, PySparkException) and raised.getQueryContext()
        if where is not None and is_in_text:
            error = InvalidOption(f"where: {error.args[0]}")
        raise error from None
    buckets = [
        BucketCount(
            span=Span(first + row["bucket"] * width, first + (row["bucket"] + 1) * width),
            log=(row["queue"], row["incarnation"]),
            messages=row["messages"],
            first_offset=row["first_offset"],
            last_offset=row["last_offset"],
            first_us=row["first"],
        )
        for row in rows
    ]
    return buckets, _by_queue_and_exchange(rows)


def _by_queue_and_exchange(rows: Iterable[Any]) -> tuple[ReplayCount, ...]:
    found: dict[tuple[str, str], list[Any]] = {}
    for row in rows:
        found.setdefault((row["queue"], row["exchange"] or ""), []).append(row)
    return tuple(
        ReplayCount(
            queue,
            exchange,
            messages=sum(row["messages"] for row in group),
            octets=sum(row["octets"] for row in group),
            first=_time_of(min(row["first"] for row in group)),
            last=_time_of(max(row["last"] for row in group)),
        )
        for (queue, exchange), group in sorted(found.items())
    )


def _options_of(
    session: SparkSession, broker: Mapping[str, str], partitions: int, max_rate: int | None
) -> dict[str, str]:
    """Options of the sink: what the caller gave, and what is better for few partitions."""
    given = {name.lower() for name in broker}
    options = dict(broker)
    if "maxinflight" not in given:
        room = _PRODUCERS // partitions
        options["maxInFlight"] = str(min(_IN_FLIGHT_MAX, max(_IN_FLIGHT_MIN, room)))
    if max_rate is not None:
        options["maxRate"] = str(max_rate)
        tasks = min(partitions, session.sparkContext.defaultParallelism)
        options["maxRateTasks"] = str(tasks)
    return options


def _outgoing(
    chosen: DataFrame,
    login: str,
    keep: Collection[str],
    to_exchange: str | None,
    to_routing_key: str | None,
) -> DataFrame:
    """The columns of the sink, and those by which rows are cut and sorted."""
    user = F.col("user_id")
    columns: list[Column] = [
        *(F.col(name) for name in ("queue", "incarnation", "offset", "timestamp", "body")),
        *(F.col(name) for name in _PROPERTIES),
        F.col("headers_raw"),
        F.col("exchange") if to_exchange is None else F.lit(to_exchange).alias("exchange"),
        F.col("routing_key")
        if to_routing_key is None
        else F.lit(to_routing_key).alias("routing_key"),
        user if "user_id" in keep else F.when(user == F.lit(login), user).alias("user_id"),
    ]
    if "expiration" in keep:
        columns.append(F.col("expiration"))
    return chosen.select(*columns)


def _incarnations_in_order(buckets: Iterable[BucketCount]) -> list[Column]:
    """Sort keys before the offset, which begins again in a queue that is declared again."""
    first: dict[str, int] = {}
    for each in buckets:
        incarnation = each.log[1]
        first[incarnation] = min(each.first_us, first.get(incarnation, each.first_us))
    ranked = sorted(first, key=first.__getitem__)
    if len(ranked) == 1:
        return []
    pairs = [F.lit(each) for rank, name in enumerate(ranked) for each in (name, rank)]
    return [F.create_map(*pairs)[F.col("incarnation")]]


def _write(rows: DataFrame, options: Mapping[str, str], part: Slice) -> None:
    writer = rows.write.format(_FORMAT).options(**options)
    writer.option(_SLICE, json.dumps(asdict(part))).mode("append").save()


def _interrupted(problem: SparkSideError, published: int, total: int, span: Span) -> SparkSideError:
    """The error with how far the replay came, and from where it can go on."""
    start = _time_of(span.start).isoformat()
    return type(problem)(
        f"{problem.args[0]}; {published} of {total} messages were published, and some of those "
        f"that arrived since {start} may be: go on with start={start}"
    )


def _within(span: Span) -> Column:
    arrived = F.col("timestamp")
    return (arrived >= _literal(span.start)) & (arrived < _literal(span.end))


def _literal(microseconds: int) -> Column:
    """A constant timestamp, whatever the time zone of the session."""
    return F.timestamp_micros(F.lit(microseconds))


def _moment(name: str, given: datetime | str | None) -> datetime | None:
    if given is None:
        return None
    try:
        moment = datetime.fromisoformat(given) if isinstance(given, str) else given
    except ValueError:
        raise InvalidOption(
            f"{name} must be a time like 2026-01-31T08:00:00+00:00, not {given!r}"
        ) from None
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)


def _us_of(moment: datetime) -> int:
    return (moment - _EPOCH) // _US


def _time_of(microseconds: int) -> datetime:
    return _EPOCH + microseconds * _US


def spans_of(counts: Iterable[BucketCount], messages_min: int) -> list[Span]:
    """Spans of at least so many messages each, but for the last, where cuts are allowed."""
    by_bucket: dict[Span, list[BucketCount]] = {}
    for each in counts:
        by_bucket.setdefault(each.span, []).append(each)
    buckets = sorted(by_bucket)
    least_behind = _least_behind([by_bucket[each] for each in buckets])
    spans: list[Span] = []
    highest: dict[Log, int] = {}
    start: int | None = None
    messages = 0
    for bucket, behind in zip(buckets, least_behind, strict=True):
        if start is None:
            start = bucket.start
        for each in by_bucket[bucket]:
            highest[each.log] = max(each.last_offset, highest.get(each.log, -1))
            messages += each.messages
        may_cut = all(behind[log] > offset for log, offset in highest.items() if log in behind)
        if (may_cut and messages >= messages_min) or not behind:
            spans.append(Span(start, bucket.end))
            start, messages = None, 0
    return spans


def _least_behind(buckets: list[list[BucketCount]]) -> list[dict[Log, int]]:
    """For each bucket the lowest offset of each log in those behind it."""
    behind: dict[Log, int] = {}
    found = []
    for counts in reversed(buckets):
        found.append(dict(behind))
        for each in counts:
            behind[each.log] = min(each.first_offset, behind.get(each.log, each.first_offset))
    found.reverse()
    return found


@dataclass(frozen=True)
class Slice:
    """One write of a replay, as it travels in an option."""

    #: Of the replay; with the number it makes the producer ids and sequences.
    replay: str
    number: int
    #: The words of `_HEADERS` whose headers are kept.
    keep: list[str]
    #: Whether each message gets the header x-replayed-from.
    marks: bool
    #: A file on the driver's machine, for what became of the rows.
    report: str


class ReplayTarget(DataSource):
    """The sink as a data source that also takes a `Slice`."""

    @classmethod
    def name(cls) -> str:
        return _FORMAT

    def writer(self, schema: Any, overwrite: bool) -> ReplayWriter:
        """The writer of one slice; its columns are those of the sink, and ``queue``."""
        options = {name: value for name, value in self.options.items() if name != _SLICE}
        columns = StructType([each for each in schema.fields if each.name != "queue"])
        return ReplayWriter(options, columns, Slice(**json.loads(self.options[_SLICE])))


class ReplayWriter(BatchWriter):
    """Writes one slice."""

    def __init__(self, options: Mapping[str, str], schema: StructType, part: Slice) -> None:
        super().__init__(options, schema, part.replay, part.number)
        self._part = part

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WrittenPartition:
        """Publish the rows of a partition with the headers of a replay; runs in a task."""
        headers = ReplayedHeaders(self._part.keep, marks=self._part.marks)
        return super().write(map(headers.changed, iterator))

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Report to the driver; this runs on its machine."""
        super().commit(messages)
        written = [asdict(each) for each in messages if isinstance(each, WrittenPartition)]
        Path(self._part.report).write_text(json.dumps(written), encoding="utf-8")


class ReplayedHeaders:
    """Takes out headers of the first life of messages, and says where they come from."""

    def __init__(self, keep: list[str], *, marks: bool) -> None:
        dropped = [name for word, names in _HEADERS.items() if word not in keep for name in names]
        dropped += _NEVER_KEPT
        if marks:
            dropped.append(_REPLAYED_FROM)
        self._dropped = frozenset(name.encode() for name in dropped)
        # A table with none of these octets has none of these fields.
        self._suspect = re.compile(b"|".join(map(re.escape, sorted(self._dropped))))
        self._marks = marks

    def changed(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The same rows with other ``headers_raw``."""
        place = batch.schema.get_field_index("headers_raw")
        tables = batch.column(place).to_pylist()
        queues = batch.column("queue").to_pylist()
        known: dict[tuple[str, bytes | None], bytes | None] = {}
        changed = []
        for key in zip(queues, tables, strict=True):
            if key not in known:
                known[key] = self.table(*key)
            changed.append(known[key])
        column = pa.array(changed, batch.schema.field(place).type)
        return batch.set_column(place, batch.schema.field(place), column)

    def table(self, queue: str, table: bytes | None) -> bytes | None:
        """The octets of a headers table as they are published, None for no headers."""
        fields = b"" if table is None else table[4:]
        if self._suspect.search(fields):
            fields = without_fields(fields, self._dropped)
        if self._marks:
            fields += text_field(_REPLAYED_FROM, queue)
        elif table is None:
            return None
        return _SIZE.pack(len(fields)) + fields
