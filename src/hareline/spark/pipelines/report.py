"""Report: from the audit stream, or archives, to what a broker's queues and consumers did.

The events are read once; all tables are written as Parquet, and what a page can show as JSON and
HTML. Invariant: what is not covered (a sample, lost events, messages from before the span, rows
that did not fit the page) is said in the report.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, Final, TypeVar

from pyspark.errors import PySparkException
from pyspark.sql import functions as F  # noqa: N812 - as all of Spark's documentation calls it

from hareline.spark.errors import InvalidOption, error_of
from hareline.spark.pipelines import audit_events, layout
from hareline.spark.pipelines.report_data import (
    ArchivedQueue,
    ConsumerTotals,
    DeadLetterCount,
    Latency,
    LatencyBin,
    QueueTotals,
    Report,
    TimeBin,
    bin_seconds,
)
from hareline.spark.pipelines.report_page import page

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_Row = TypeVar("_Row")

#: How many rows of a table the page and the JSON have; Parquet has all of them.
ROWS_MAX: Final = 500
#: Of a report on audit events; an archive of messages is one more, and so is writing the page.
_AUDIT_STEPS: Final = 7

PAGE: Final = "report.html"
DATA: Final = "report.json"


def report(
    session: SparkSession,
    out: str,
    options: Mapping[str, str] | None = None,
    *,
    audit_path: str | None = None,
    messages_path: str | None = None,
    audit_queue: str = audit_events.AUDIT_STREAM,
    share: float = 1.0,
    since_us: int | None = None,
    until_us: int | None = None,
    on_step: Callable[[int, int, str], None] | None = None,
) -> Report:
    """Write a report into the folder ``out``, and return what it says. Raises SparkSideError.

    The events come from the broker (``options`` of the source), or from an archive of the audit
    stream (``audit_path``). ``messages_path``: an archive of messages, which gets a section of its
    own. ``share``: of the messages that the broker audits, 0.1 for ``sample:0.1``. The span is in
    microseconds since 1970. ``on_step`` is called with steps done, all steps, and what comes next.
    """
    if options is not None and audit_path is not None:
        raise InvalidOption("events come from the broker or from an archive: name one of them")
    if options is None and audit_path is None and messages_path is None:
        raise InvalidOption("nothing to report on: name the broker or an archive")
    if not 0 < share <= 1:
        raise InvalidOption(f"the share of audited messages must be above 0 and at most 1: {share}")
    if since_us is not None and until_us is not None and since_us >= until_us:
        raise InvalidOption("the span ends before it begins")
    has_events = options is not None or audit_path is not None
    steps = has_events * _AUDIT_STEPS + (messages_path is not None) + 1
    run = _Run(session, out, since_us, until_us, share, on_step, steps)
    try:
        if options is not None:
            run.read_stream(options, audit_queue)
        elif audit_path is not None:
            run.read_archive(audit_path, audit_queue)
        made = run.made(messages_path)
        run.step("writing the page")
        layout.write_text(session, layout.joined(out, DATA), _as_text(made))
        layout.write_text(session, layout.joined(out, PAGE), page(made))
    except PySparkException as raised:
        raise error_of(raised) from raised
    finally:
        run.forget()
    run.end()
    return made


@dataclass
class _Run:
    """One report in the making: its frames, and the fields of the `Report` so far."""

    session: SparkSession
    out: str
    since_us: int | None
    until_us: int | None
    share: float
    on_step: Callable[[int, int, str], None] | None
    steps: int
    steps_done: int = 0
    events: DataFrame | None = None
    kept: list[DataFrame] = field(default_factory=list)
    counts: dict[str, int] = field(default_factory=dict)
    sources: list[str] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)

    def step(self, what: str) -> None:
        """Say what comes next."""
        if self.on_step is not None:
            self.on_step(self.steps_done, self.steps, what)
        self.steps_done += 1

    def end(self) -> None:
        """Say that nothing more comes, also if there was less to do than expected."""
        self.steps_done = self.steps
        self.step("done")

    def read_stream(self, options: Mapping[str, str], queue: str) -> None:
        """Take the events from the broker, as far as the stream goes now."""
        given = {name.lower(): value for name, value in options.items()}
        if not given.keys() & {"queue", "queues", "queuepattern"}:
            given["queue"] = queue
        reader = self.session.read.format("amqp").options(**given, columns="queue,offset,body")
        self._set_events(reader.load())
        self.sources.append(f"the stream {given.get('queue', queue)} of the broker")

    def read_archive(self, path: str, queue: str) -> None:
        """Take the events from an archive of the audit stream."""
        rows = layout.read_archive(self.session, path)
        self._set_events(rows.where(F.col("queue") == queue))
        self.sources.append(f"an archive of the stream {queue}")

    def made(self, messages_path: str | None) -> Report:
        """The report; its tables are written meanwhile."""
        found: dict[str, Any] = {}
        if self.events is not None:
            found |= self._audited(self.events)
        if messages_path is not None:
            found |= self._archived(messages_path)
        return Report(
            source=" and ".join(self.sources),
            made_s=int(time.time()),
            share=self.share,
            missing=tuple(self.missing),
            **found,
        )

    def forget(self) -> None:
        """Give back the memory of frames that were kept for more than one table."""
        for frame in self.kept:
            frame.unpersist()

    def _set_events(self, rows: DataFrame) -> None:
        events = audit_events.parsed(rows, self.share)
        self.events = self._keep(audit_events.in_span(events, self.since_us, self.until_us))

    def _keep(self, frame: DataFrame) -> DataFrame:
        """The frame, computed once although several tables are made of it."""
        frame = frame.persist()
        self.kept.append(frame)
        return frame

    # ------------------------------------------------------------------ from audit events

    def _audited(self, events: DataFrame) -> dict[str, Any]:
        self.step("reading the events")
        overview: dict[str, Any] = audit_events.overview(events).collect()[0].asDict()
        unreadable, lost = overview.pop("unreadable"), overview.pop("lost")
        if unreadable:
            self.missing.append(f"{unreadable:,} lines of the audit stream are not events.")
        if lost:
            self.missing.append(
                f"{lost:,} events were lost before they came to the audit stream; counts are too "
                "low, and messages may look as if they had not been acked."
            )
        if not overview["events"]:
            return overview
        first_us, last_us = overview["first_us"], overview["last_us"]
        bin_s = bin_seconds(last_us - first_us)
        self.step("counting messages per minute and queue")
        self._write("throughput", audit_events.throughput(events))
        timeline = [
            TimeBin(**row.asDict()) for row in audit_events.timeline(events, bin_s).collect()
        ]
        self.step("counting messages per queue")
        totals = audit_events.queue_totals(events)
        queues = self._table("queues", totals, QueueTotals, "routed")
        self.step("counting dead letters")
        dead = audit_events.dead_letters(events)
        self.step("measuring latencies")
        return overview | {
            "bin_s": bin_s,
            "timeline": tuple(sorted(timeline, key=lambda each: each.start_s)),
            "queues": queues,
            "queue_count": self.counts["queues"],
            "totals": self._totals(totals, queues),
            "dead_letters": self._table("dead_letters", dead, DeadLetterCount, "messages"),
            **self._latencies(events, bin_s),
            "consumers": self._consumers(events, last_us),
        }

    def _totals(self, frame: DataFrame, queues: tuple[QueueTotals, ...]) -> QueueTotals:
        """All queues together, also those that do not fit the page."""
        names = [each.name for each in fields(QueueTotals) if each.name != "queue"]
        if len(queues) == self.counts["queues"]:
            return QueueTotals("", **{n: sum(getattr(each, n) for each in queues) for n in names})
        written = self._written("queues", frame)
        sums = written.agg(*(F.sum(name).alias(name) for name in names)).collect()[0]
        return QueueTotals("", **sums.asDict())

    def _latencies(self, events: DataFrame, bin_s: int) -> dict[str, Any]:
        lives = self._keep(audit_events.messages(events))
        stages = audit_events.stages(lives)
        by_queue = audit_events.latency(stages, "queue")
        kept = self._table("latency", by_queue, Latency, "messages")
        together = audit_events.latency(stages).withColumn("queue", F.lit(None)).collect()
        self.step("measuring latencies over time")
        in_time = audit_events.latency_timeline(stages, bin_s).drop("messages", "max_us").collect()
        before, twice = lives.agg(
            F.count_if(F.col("routed_count") == 0), F.count_if(F.col("routed_count") > 1)
        ).collect()[0]
        if before:
            self.missing.append(
                f"{before:,} messages came to their queue before the first event here: they are in "
                "no latency from publish on."
            )
        if twice:
            self.missing.append(
                f"{twice:,} offsets stand for two messages, since their queue was deleted and "
                "declared again: they are in no latency."
            )
        return {
            "latencies": (*(Latency(**row.asDict()) for row in together), *kept),
            "latency_timeline": tuple(
                sorted(
                    (LatencyBin(**row.asDict()) for row in in_time),
                    key=lambda each: (each.stage, each.start_s),
                )
            ),
        }

    def _consumers(self, events: DataFrame, last_us: int) -> tuple[ConsumerTotals, ...]:
        self.step("looking for slow consumers")
        each = self._keep(audit_events.deliveries(events))
        totals = audit_events.consumers(each, last_us, self.share).drop("p99_us")
        return self._table("consumers", totals, ConsumerTotals, "p95_us")

    # --------------------------------------------------------------- from archived messages

    def _archived(self, path: str) -> dict[str, Any]:
        self.step("reading the archive")
        rows = layout.read_archive(self.session, path)
        if self.since_us is not None:
            rows = rows.where(F.unix_micros("timestamp") >= self.since_us)
        if self.until_us is not None:
            rows = rows.where(F.unix_micros("timestamp") < self.until_us)
        self.sources.append("an archive of messages")
        self._write("archived_throughput", audit_events.archived_throughput(rows))
        totals = audit_events.archived(rows)
        return {"archived": self._table("archived", totals, ArchivedQueue, "messages")}

    # ------------------------------------------------------------------------------ tables

    def _write(self, name: str, frame: DataFrame) -> None:
        place = layout.joined(self.out, f"{name}.parquet")
        frame.coalesce(1).write.mode("overwrite").option("compression", "zstd").parquet(place)

    def _table(
        self, name: str, frame: DataFrame, make: Callable[..., _Row], by: str
    ) -> tuple[_Row, ...]:
        """Write a table, and return those of its rows with the most of ``by``."""
        self._write(name, frame)
        written = self._written(name, frame)
        # One row more says whether there are more, without counting a table that is small.
        rows = written.orderBy(F.desc_nulls_last(by), *frame.columns).limit(ROWS_MAX + 1).collect()
        count = len(rows)
        if count > ROWS_MAX:
            count = written.count()
            what = name.replace("_", " ")
            self.missing.append(
                f"The page and the JSON have {ROWS_MAX} of {count:,} rows of the table {what}, "
                "those with the highest figures; Parquet has all of them."
            )
        self.counts[name] = count
        return tuple(make(**row.asDict()) for row in rows[:ROWS_MAX])

    def _written(self, name: str, frame: DataFrame) -> DataFrame:
        """A table as it was written, so that it is not worked out again."""
        place = layout.joined(self.out, f"{name}.parquet")
        return self.session.read.schema(frame.schema).parquet(place)


def _as_text(made: Report) -> str:
    return json.dumps(made.as_json(), ensure_ascii=False, indent=1) + "\n"
