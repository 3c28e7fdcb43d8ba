"""Numbers have three digits and a unit, and do not change it at an odd place."""

from __future__ import annotations

import pytest

from hareline.spark.pipelines import units


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (0, "0"),
        (7, "7"),
        (0.0314, "0.031"),
        (12.34, "12.3"),
        (999, "999"),
        (999.7, "1 k"),
        (1_234, "1.23 k"),
        (99_950, "100 k"),
        (45_600_000, "45.6 M"),
        (7e18, "7000 P"),
    ],
)
def test_counts(number: float, text: str) -> None:
    assert units.count(number) == text


@pytest.mark.parametrize(
    ("microseconds", "text"),
    [
        (0, "0 µs"),
        (850, "850 µs"),
        (999.6, "1 ms"),
        (1_234, "1.23 ms"),
        (45_600_000, "45.6 s"),
        (90_000_000, "90 s"),
        (210_000_000, "3.5 min"),
        (7_200_000_000, "2 h"),
        (10 * 86_400_000_000, "10 d"),
    ],
)
def test_durations(microseconds: float, text: str) -> None:
    assert units.duration(microseconds) == text


@pytest.mark.parametrize(
    ("share", "text"),
    [(0, "0 %"), (0.1234, "12.3 %"), (1, "100 %"), (0.00001, "< 0.01 %"), (0.0005, "0.05 %")],
)
def test_percentages(share: float, text: str) -> None:
    assert units.percent(share) == text


def test_octets_rates_and_instants() -> None:
    assert units.octets(1_490_000) == "1.49 MB"
    assert units.octet_rate(999) == "999 B/s"
    assert units.rate(20_000) == "20 k/s"
    assert units.instant(1_767_607_200) == "2026-01-05 10:00:00 UTC"
    assert units.instant(1_767_607_200, with_seconds=False) == "2026-01-05 10:00 UTC"
