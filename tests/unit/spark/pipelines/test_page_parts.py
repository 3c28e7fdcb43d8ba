"""Parts of a page: units of figures, order of tables, and charts that show no text as markup."""

from __future__ import annotations

import json
import re
from html import unescape
from typing import Any

import pytest

from hareline.spark.pipelines import page_parts
from hareline.spark.pipelines.page_parts import DASH, Line, cell, count, duration, name_cell, number

NASTY = '<script>alert("1")</script> & \u202e\x00 ' + "x" * 300


# ------------------------------------------------------------------------------------- figures


@pytest.mark.parametrize(
    ("given", "text"),
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
def test_counts_have_three_digits_and_a_unit(given: float, text: str) -> None:
    assert count(given) == text


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
    assert duration(microseconds) == text


@pytest.mark.parametrize(
    ("share", "text"),
    [(0, "0 %"), (0.1234, "12.3 %"), (1, "100 %"), (0.00001, "< 0.01 %"), (0.0005, "0.05 %")],
)
def test_percentages(share: float, text: str) -> None:
    assert page_parts.percent(share) == text


def test_octets_rates_and_instants() -> None:
    assert page_parts.octets(1_490_000) == "1.49 MB"
    assert page_parts.octet_rate(999) == "999 B/s"
    assert page_parts.rate(20_000) == "20 k/s"
    assert page_parts.instant(1_767_607_200e6) == "2026-01-05 10:00:00 UTC"


def test_text_of_users_is_escaped_and_visible() -> None:
    text = page_parts.shown('<a href="x">&\u202e\x00\n')
    assert text == "&lt;a href=&quot;x&quot;&gt;&amp;\ufffd\ufffd\n"


# -------------------------------------------------------------------------------------- tables


def test_a_figure_that_there_is_not_is_a_dash_and_sorts_as_nothing() -> None:
    columns = {"q": name_cell, "d": lambda _: cell(None, duration)}
    assert f'<td data-value="">{DASH}</td>' in page_parts.table(columns, ["a"])


def test_columns_of_names_are_marked() -> None:
    columns = {"a": name_cell, "b": name_cell, "n": name_cell}
    table = page_parts.table(columns, [], names=2)
    assert table.count('class="name"') == 2
    assert table.count("<button>") == 3


def test_a_long_table_scrolls_by_itself() -> None:
    columns = {"n": lambda each: cell(each, number)}
    assert "tall" not in page_parts.table(columns, [1_234] * 14)
    assert "tall" in page_parts.table(columns, [1_234] * 15)
    assert '<td data-value="1234">1,234</td>' in page_parts.table(columns, [1_234])


def test_a_legend_escapes_its_names() -> None:
    assert "&lt;b&gt;" in page_parts.legend([("s1", "<b>")])


# -------------------------------------------------------------------------------------- charts


def chart_data(chart: str) -> Any:
    """The data of the only chart with lines in this part of a page."""
    (data,) = re.findall('data-chart="([^"]*)"', chart)
    return json.loads(unescape(data))


def test_lines_hand_their_values_and_gaps_to_the_script() -> None:
    series = [Line("a", "s1", [1.0, None]), Line("b", "s2", [0.5, 3e9])]
    chart = page_parts.lines([0, 60], 60, series, count, label="l", is_log=True)
    data = chart_data(chart)
    assert (data["times"], data["bin"], data["isLog"]) == ([0, 60], 60, True)
    assert data["lines"] == [[1, None], [0.5, 3e9]]
    assert data["steps"][1] == [1000, 1000, " k"]
    assert re.findall('<li class="(s.)">', chart) == ["s1", "s2"]


def test_spans_fit_an_axis_of_powers_of_ten_around_all_values() -> None:
    rows = [(NASTY, (0, 1, 250, 40_000)), ("one", (3, 3, 3, 3))]
    chart = page_parts.spans(rows, ("p50", "p95", "p99", "max"), duration, label="l")
    places = [float(each) for each in re.findall(r"left:([-\d.]+)%", chart)]
    assert all(0 <= each <= 100 for each in places)
    assert chart.count('class="dot') == 8
    assert re.findall(r'%">([^<]+)</i>', chart) == [
        *("1 µs", "10 µs", "100 µs", "1 ms", "10 ms", "100 ms")
    ]
    assert "p50 0 µs, p95 1 µs, p99 250 µs, max 40 ms" in chart
    assert "<script" not in chart


def test_equal_values_of_spans_have_an_axis_of_two_powers() -> None:
    chart = page_parts.spans([("a", (1, 1))], ("p50", "p95"), count, label="l")
    assert re.findall(r'%">([^<]+)</i>', chart) == ["1", "10"]


def test_the_longest_bar_is_as_wide_as_there_is_room_for_and_has_its_sum_at_its_end() -> None:
    rows = [(NASTY, [("a", "s1", 250_000), ("b", "s2", 750_000)]), ("", [("a", "s1", 0)])]
    chart = page_parts.bars(rows, count, label="l")
    assert re.findall(r"width:([\d.]+)%", chart) == ["25.00", "75.00", "0.00"]
    assert re.findall("<b>(.*?)</b>", chart) == ["1 M", "0"]
    assert "<script" not in chart


def test_bars_of_nothing_have_no_width() -> None:
    assert "width:0.00%" in page_parts.bars([("q", [("a", "s1", 0)])], count, label="l")
