"""Prometheus' text: escapes, numbers, histograms; read back by Prometheus' own parser."""

from __future__ import annotations

import math

import pytest
from prometheus_client.parser import text_string_to_metric_families

from hareline.metrics.exposition import Family, head, histogram, label, number, sample

QUEUES = Family("queues", "gauge", "Queues available")


def test_a_family_has_type_and_help_in_front() -> None:
    text = head("rabbitmq_", QUEUES) + sample("rabbitmq_queues", "", 3)
    assert text == (
        "# TYPE rabbitmq_queues gauge\n# HELP rabbitmq_queues Queues available\nrabbitmq_queues 3\n"
    )


@pytest.mark.parametrize(
    "name", ["plain", 'a"quote', "a\\backslash", "two\nlines", "ünïcode", "", "{a=1,b}", "\udcff"]
)
def test_any_name_is_one_label_of_one_line(name: str) -> None:
    text = head("", QUEUES) + sample("queues", label("queue", name), 1)
    assert text.count("\n") == 3
    (family,) = text_string_to_metric_families(text.encode().decode())
    (found,) = family.samples
    expected = name if "\udcff" not in name else "\\udcff"
    assert found.labels == {"queue": expected}


def test_help_stays_on_its_line() -> None:
    assert head("", Family("x", "gauge", "a\nb\\c")).splitlines()[1] == r"# HELP x a\nb\\c"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (True, "1"),
        (0, "0"),
        (1 << 70, str(1 << 70)),
        (0.25, "0.25"),
        (math.inf, "+Inf"),
        (-math.inf, "-Inf"),
        (math.nan, "NaN"),
    ],
)
def test_numbers(value: float, text: str) -> None:
    assert number(value) == text


def test_a_histogram_is_cumulative() -> None:
    family = Family("turn_seconds", "histogram", "How long")
    text = histogram("h_", family, (0.1, 1.0), (2, 1, 3), 9.5)
    (found,) = text_string_to_metric_families(text)
    buckets = [each.value for each in found.samples if each.name == "h_turn_seconds_bucket"]
    assert buckets == [2, 3, 6]
    assert [each.value for each in found.samples if each.name == "h_turn_seconds_sum"] == [9.5]
    assert [each.value for each in found.samples if each.name == "h_turn_seconds_count"] == [6]
