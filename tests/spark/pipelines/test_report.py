"""A report says of made-up audit events what plain Python works out of them.

Two reports are made, and many things looked at in each: one takes Spark some seconds.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from hareline.spark.errors import InvalidOption
from hareline.spark.pipelines import layout, report
from hareline.spark.pipelines.report_data import Report
from tests.support import audit_log
from tests.support.audit_log import START_US, Event, percentile

pytestmark = pytest.mark.acceptance

EVENTS = audit_log.audit_log(3_000)
LAST_US = max(each["ts_us"] for each in EVENTS)
COUNTS = (
    *("routed", "octets", "delivered", "redelivered", "acked", "rejected", "requeued"),
    *("expired", "dropped", "dead_lettered"),
)


def archive_events(spark: SparkSession, path: Path, events: Sequence[Any]) -> str:
    """An archive of the audit stream with these events, and of another stream."""
    bodies = audit_log.bodies_of(events)
    rows = [("hareline.audit", offset, body) for offset, body in enumerate(bodies)]
    rows.append(("orders", 0, b'{"ts_us":1,"event":"routed","queue":"wrong","offset":1}'))
    frame = spark.createDataFrame(rows, "queue string, `offset` bigint, body binary")
    instant = f"timestamp_micros({START_US} + offset) as timestamp"
    with_others = frame.selectExpr("*", instant, "cast(length(body) as int) as size")
    layout.write_batch(with_others, str(path), 0)
    return str(path)


# --------------------------------------------------------------------------- all of the events


@pytest.fixture(scope="module")
def archive(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> str:
    return archive_events(spark, tmp_path_factory.mktemp("audit") / "archive", EVENTS)


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("report")


@pytest.fixture(scope="module")
def steps() -> list[tuple[int, int, str]]:
    return []


@pytest.fixture(scope="module")
def made(spark: SparkSession, archive: str, out: Path, steps: list[tuple[int, int, str]]) -> Report:
    return report.report(
        spark,
        str(out),
        audit_path=archive,
        messages_path=archive,
        on_step=lambda *step: steps.append(step),
    )


def test_the_whole(made: Report) -> None:
    assert made.events == len(EVENTS)
    assert (made.first_us, made.last_us) == (EVENTS[0]["ts_us"], LAST_US)
    assert (made.published, made.unroutable) == (3_001, 1)
    assert made.bin_s == 1
    assert made.missing == ()


def test_each_queue(made: Report) -> None:
    wanted = audit_log.expected_totals(EVENTS)
    assert {each.queue for each in made.queues} == set(wanted) == set(audit_log.QUEUES)
    assert made.queue_count == len(wanted)
    for name in COUNTS:
        for each in made.queues:
            assert getattr(each, name) == wanted[each.queue][name], (each.queue, name)
        assert getattr(made.totals, name) == sum(totals[name] for totals in wanted.values())
    routed = [each.routed for each in made.queues]
    assert routed == sorted(routed, reverse=True)


def test_latencies(made: Report) -> None:
    wanted = audit_log.expected_stages(EVENTS)
    for queue, stage in list(wanted):
        wanted["", stage] = wanted["", stage] + wanted[queue, stage]
    assert len(made.latencies) == len(wanted)
    for each in made.latencies:
        values = wanted[each.queue or "", each.stage]
        assert each.messages == len(values)
        assert each.max_us == max(values)
        for share, found in ((0.5, each.p50_us), (0.95, each.p95_us), (0.99, each.p99_us)):
            assert found == percentile(values, share), (each, share)


def test_consumers(made: Report) -> None:
    wanted = audit_log.expected_consumers(EVENTS)
    assert {(each.queue, each.tag) for each in made.consumers} == set(wanted)
    for each in made.consumers:
        found = wanted[each.queue, each.tag]
        times = found["us"]
        assert each.delivered == found["delivered"]
        assert each.acked == len(times)
        assert each.p95_us == (percentile(times, 0.95) if times else None)
        assert each.unacked == len(found["unacked_since"])
        oldest = LAST_US - min(found["unacked_since"]) if found["unacked_since"] else None
        assert each.oldest_unacked_us == oldest
        of_queue = [us for key in wanted if key[0] == each.queue for us in wanted[key]["us"]]
        assert each.queue_p50_us == percentile(of_queue, 0.5)
    assert {each.tag for each in made.consumers if each.is_slow} == {"slow"}


def test_dead_letters(made: Report) -> None:
    wanted = Counter(
        (each["reason"], each["queue"], each["routing_key"])
        for each in EVENTS
        if each["event"] == "dead-lettered"
    )
    found = {
        (each.reason, each.queue, each.routing_key): each.messages for each in made.dead_letters
    }
    assert found == wanted
    assert {reason for reason, *_ in found} == {"expired", "rejected"}


def test_the_timeline_has_every_event(made: Report) -> None:
    for name in ("published", "routed", "delivered", "acked"):
        wanted = Counter(each["ts_us"] // 1_000_000 for each in EVENTS if each["event"] == name)
        found = {each.start_s: getattr(each, name) for each in made.timeline}
        assert {start: count for start, count in found.items() if count} == wanted
    assert sum(each.octets for each in made.timeline) == made.totals.octets


@pytest.mark.usefixtures("made")
def test_minutes_are_written_as_parquet(out: Path) -> None:
    wanted: Counter[tuple[int, str | None, str]] = Counter()
    for each in EVENTS:
        wanted[each["ts_us"] // 60_000_000 * 60, each.get("queue"), each["event"]] += 1
    rows = pq.read_table(out / "throughput.parquet").to_pylist()
    found = {
        (int(row["minute"].timestamp()), row["queue"], row["event"]): row["messages"]
        for row in rows
    }
    assert found == wanted
    for name in ("queues", "latency", "dead_letters", "consumers", "archived"):
        assert pq.read_table(out / f"{name}.parquet").num_rows > 0


def test_json_and_page_are_written(made: Report, out: Path) -> None:
    data = json.loads((out / "report.json").read_text(encoding="utf-8"))
    assert data["events"] == made.events
    assert data["queues"][0]["queue"] == "orders"
    assert {each["is_slow"] for each in data["consumers"]} == {True, False}
    page = (out / "report.html").read_text(encoding="utf-8")
    assert "&lt;b&gt;bills&lt;/b&gt; &amp; co" in page
    assert "<b>bills" not in page
    assert not [*out.glob(".report*")]


def test_the_archive_of_messages_has_a_section(made: Report) -> None:
    audit = next(each for each in made.archived if each.queue == "hareline.audit")
    bodies = audit_log.bodies_of(EVENTS)
    assert (audit.messages, audit.octets) == (len(bodies), sum(map(len, bodies)))
    assert (audit.first_us, audit.last_us) == (START_US, START_US + len(bodies) - 1)
    assert audit.size_max == max(map(len, bodies))


@pytest.mark.usefixtures("made")
def test_steps_are_told_in_order(steps: list[tuple[int, int, str]]) -> None:
    assert [done for done, *_ in steps] == list(range(len(steps)))
    assert steps[-1] == (len(steps) - 1, len(steps) - 1, "done")


# ------------------------------------------------- a sample, a span, gaps, and tables cut short


SINCE, UNTIL = START_US + 30_000_000, START_US + 60_000_000
INSIDE: list[Event] = [each for each in EVENTS if SINCE <= each["ts_us"] < UNTIL]
TWICE: Event = {"queue": "declared again", "offset": 1, "size": 1}
AWKWARD: list[Any] = [
    *EVENTS,
    {"ts_us": SINCE, "event": "routed", **TWICE},
    {"ts_us": SINCE + 10, "event": "delivered", **TWICE, "delivery_count": 0},
    {"ts_us": SINCE + 20, "event": "routed", **TWICE},
    {"ts_us": SINCE + 20, "event": "lost", "count": 12, "since_us": 1, "reason": "full"},
    # A purge is one event, whatever the sample.
    {"ts_us": SINCE + 30, "event": "dropped", "queue": "orders", "reason": "purged", "count": 600},
    "not an event",
    {"no": "event", "queue": "no queue"},
]


@pytest.fixture(scope="module")
def awkward(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Report]:
    folder = tmp_path_factory.mktemp("awkward")
    path = archive_events(spark, folder / "archive", AWKWARD)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(report, "ROWS_MAX", 3)
        yield report.report(
            spark,
            str(folder / "out"),
            audit_path=path,
            share=0.25,
            since_us=SINCE,
            until_us=UNTIL,
        )


def test_a_span_leaves_out_what_is_before_and_after(awkward: Report) -> None:
    assert awkward.events == len(INSIDE) + 5
    assert (awkward.first_us, awkward.last_us) == (SINCE, INSIDE[-1]["ts_us"])
    stages = audit_log.expected_stages(INSIDE)
    for each in awkward.latencies:
        if each.queue is not None:
            assert each.messages == len(stages[each.queue, each.stage])
    begun = {(each["queue"], each["offset"]) for each in INSIDE if each["event"] == "routed"}
    others = {(each["queue"], each["offset"]) for each in INSIDE if "offset" in each} - begun
    assert f"{len(others):,} messages came to their queue before" in " ".join(awkward.missing)


def test_a_sample_is_scaled_and_events_for_many_are_not(awkward: Report) -> None:
    wanted = audit_log.expected_totals(INSIDE)["orders"]
    orders = next(each for each in awkward.queues if each.queue == "orders")
    assert orders.routed == 4 * wanted["routed"]
    assert orders.octets == 4 * wanted["octets"]
    assert orders.dropped == 4 * wanted["dropped"] + 600
    consumers = audit_log.expected_consumers(INSIDE)
    for each in awkward.consumers:
        consumer = consumers[each.queue, each.tag]
        assert (each.delivered, each.acked) == (4 * consumer["delivered"], 4 * len(consumer["us"]))


def test_what_is_lost_unreadable_or_ambiguous_is_said(awkward: Report) -> None:
    said = " ".join(awkward.missing)
    assert "2 lines of the audit stream are not events" in said
    assert "12 events were lost" in said
    assert "1 offsets stand for two messages" in said
    assert not [each for each in awkward.latencies if each.queue == TWICE["queue"]]


def test_a_table_that_does_not_fit_is_cut_and_says_so(awkward: Report) -> None:
    assert len(awkward.queues) == len(awkward.consumers) == 3
    assert awkward.queue_count == len(audit_log.QUEUES) + 1
    assert awkward.totals.routed == 4 * sum(
        isinstance(each, dict) and each.get("event") == "routed"
        for each in [*INSIDE, *AWKWARD[-7:]]
    )
    assert "have 3 of 5 rows of the table queues" in " ".join(awkward.missing)


# ------------------------------------------------------------------------------------ the rest


def test_nothing_at_all_makes_a_page_that_says_so(
    spark: SparkSession, archive: str, tmp_path: Path
) -> None:
    found = report.report(spark, str(tmp_path), audit_path=archive, until_us=1)
    assert (found.events, found.timeline, found.queues) == (0, (), ())
    assert "Nothing to show" in (tmp_path / "report.html").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({}, "nothing to report on"),
        ({"options": {}, "audit_path": "x"}, "from the broker or from an archive"),
        ({"audit_path": "x", "share": 0.0}, "above 0 and at most 1"),
        ({"audit_path": "x", "share": 1.5}, "above 0 and at most 1"),
        ({"audit_path": "x", "since_us": 5, "until_us": 5}, "ends before it begins"),
        ({"audit_path": "/nowhere"}, "has no archive"),
        ({"messages_path": "/nowhere"}, "has no archive"),
    ],
)
def test_what_cannot_be_reported_on(
    given: dict[str, Any], problem: str, spark: SparkSession, tmp_path: Path
) -> None:
    with pytest.raises(InvalidOption, match=problem):
        report.report(spark, str(tmp_path / "out"), **given)
    assert not (tmp_path / "out").exists()
