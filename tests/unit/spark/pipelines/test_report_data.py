"""The figures of a report that are worked out of others, and how it is written as JSON."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from hareline.spark.pipelines.report_data import (
    ArchivedQueue,
    ConsumerTotals,
    QueueTotals,
    Report,
    bin_seconds,
)

CONSUMER = ConsumerTotals(
    queue="q",
    tag="t",
    delivered=20,
    acked=10,
    p50_us=2_000,
    p95_us=5_000,
    max_us=9_000,
    queue_p50_us=1_000,
    unacked=0,
    oldest_unacked_us=None,
)


@pytest.mark.parametrize(
    ("seconds", "bin_s"), [(0, 1), (180, 1), (181, 5), (3_600, 30), (86_400, 900), (604_800, 3_600)]
)
def test_a_timeline_has_at_most_180_points(seconds: int, bin_s: int) -> None:
    assert bin_seconds(seconds * 1_000_000) == bin_s


def test_years_have_points_too() -> None:
    span_us = 30 * 365 * 86_400 * 1_000_000
    assert span_us / 1e6 / bin_seconds(span_us) <= 180


@pytest.mark.parametrize(
    ("change", "is_slow"),
    [
        ({}, True),
        ({"p95_us": 4_999}, False),
        ({"acked": 9}, False),
        ({"p95_us": 900, "queue_p50_us": 1}, False),
        ({"p95_us": None}, False),
        ({"queue_p50_us": None}, False),
        ({"queue_p50_us": 0}, False),
    ],
)
def test_a_consumer_is_slow_if_its_p95_is_five_medians(
    change: dict[str, int | None], is_slow: bool
) -> None:
    assert replace(CONSUMER, **change).is_slow is is_slow  # type: ignore[arg-type]


def test_the_rate_of_redelivery() -> None:
    assert QueueTotals("q", delivered=200, redelivered=5).redelivery_rate == 0.025
    assert QueueTotals("q").redelivery_rate == 0


def test_json_has_what_is_worked_out() -> None:
    made = Report(
        source="s",
        made_s=1,
        queues=(QueueTotals("q\ud800", delivered=2, redelivered=1),),
        consumers=(CONSUMER,),
    )
    data = json.loads(json.dumps(made.as_json()))
    assert data["queues"][0]["redelivery_rate"] == 0.5
    assert data["consumers"][0] | {"ratio": 5.0, "is_slow": True} == data["consumers"][0]
    assert data["first_us"] is None


def test_the_rate_of_an_archive_needs_a_span() -> None:
    one = ArchivedQueue("q", 5, 50, 10, 10, first_us=7, last_us=7)
    assert one.rate is None
    assert replace(one, last_us=1_000_007).rate == 5
