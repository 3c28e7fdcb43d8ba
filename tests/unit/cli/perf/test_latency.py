"""Histograms: percentiles to 1 %, and histograms of processes add up."""

from __future__ import annotations

import random
from math import ceil

import pytest

from hareline.cli.perf.result import Histogram


def filled(*latencies_ns: int) -> Histogram:
    made = Histogram()
    for each in latencies_ns:
        made.add(each)
    return made


@pytest.mark.parametrize("percent", [50.0, 95.0, 99.0, 99.9])
def test_a_percentile_is_right_to_one_percent(percent: float) -> None:
    draw = random.Random(7)
    values = sorted(int(draw.lognormvariate(13, 2)) + 1001 for _ in range(5_000))
    exact = values[ceil(len(values) * percent / 100) - 1] / 1e6
    assert filled(*values).percentile_ms(percent) == pytest.approx(exact, rel=0.0101)


def test_histograms_add_up() -> None:
    one, two = filled(1_000_000, 2_000_000), filled(3_000_000)
    both = filled(1_000_000, 2_000_000, 3_000_000)
    one.merge(two)
    assert one.summary() == both.summary()
    assert one.summary()["max"] == 3.0
    assert one.summary()["mean"] == 2.0


def test_the_edges() -> None:
    assert Histogram().summary() == {}
    assert filled(0).summary()["p50"] <= 0.001
    assert filled(5_000_000).summary()["p99.9"] == 5.0
