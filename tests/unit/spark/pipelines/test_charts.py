"""Charts are well-formed, stay inside their frame, and show no text of users as markup."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import pytest

from hareline.spark.pipelines import charts, units
from hareline.spark.pipelines.charts import NARROW, WIDE, Bar, Line, Span

NASTY = '<script>alert("1")</script> & \u202e\x00 ' + "x" * 300


def parsed(svg: str) -> ElementTree.Element:
    return ElementTree.fromstring(svg)


def texts(svg: str, style: str = "tick") -> list[str]:
    return [
        each.text or ""
        for each in parsed(svg).iter("text")
        if style in each.get("class", "").split()
    ]


def assert_inside(svg: str) -> None:
    """No coordinate is outside the frame, apart from a letter's width."""
    root = parsed(svg)
    width, height = float(root.get("width", "")), float(root.get("height", ""))
    for each in root.iter():
        for name, limit in (("x", width), ("cx", width), ("y", height), ("cy", height)):
            assert -1 <= float(each.get(name, "0")) <= limit, (each.tag, each.attrib)
        for x, y in re.findall(r"[ML](-?[\d.]+) (-?[\d.]+)", each.get("d", "")):
            assert -1 <= float(x) <= width
            assert -1 <= float(y) <= height


@pytest.mark.parametrize("width", [WIDE, NARROW])
@pytest.mark.parametrize("is_log", [False, True])
@pytest.mark.parametrize(
    "values", [[0.0], [5.0], [None], [0.5, None, 3e9], [1.0, 2.0, 4.0], [0.0, 0.0], [None, 7.0]]
)
def test_lines_fit(values: list[float | None], is_log: bool, width: int) -> None:
    starts = [60 * index for index in range(len(values))]
    series = [Line(NASTY, "s1", values)]
    svg = charts.lines(starts, 60, series, units.count, width=width, label=NASTY, is_log=is_log)
    assert_inside(svg)
    hits = [each for each in parsed(svg).iter("rect") if each.get("class") == "hit"]
    assert len(hits) == sum(value is not None for value in values)


def test_a_line_is_interrupted_where_there_is_nothing() -> None:
    values = [1.0, 2.0, None, 3.0, None, 4.0, 5.0]
    svg = charts.lines(
        list(range(7)), 1, [Line("a", "s1", values)], units.count, width=WIDE, label="l"
    )
    (path,) = [each for each in parsed(svg).iter("path") if each.get("class") == "line s1"]
    assert re.sub(r"[^ML]", "", path.get("d", "")) == "MLMML"
    assert len([*parsed(svg).iter("circle")]) == 1


@pytest.mark.parametrize(
    ("largest", "labels"),
    [
        (1, ["0", "0.25", "0.5", "0.75", "1"]),
        (7, ["0", "2", "4", "6", "8"]),
        (48, ["0", "20", "40", "60"]),
        (100, ["0", "25", "50", "75", "100"]),
        (123_456, ["0", "50 k", "100 k", "150 k"]),
    ],
)
def test_an_axis_has_round_numbers_up_to_the_largest(largest: float, labels: list[str]) -> None:
    svg = charts.lines([0], 1, [Line("a", "s1", [largest])], units.count, width=WIDE, label="l")
    assert texts(svg, "end") == labels


def test_an_axis_of_powers_of_ten_is_around_all_values() -> None:
    svg = charts.lines(
        [0, 1],
        1,
        [Line("a", "s1", [250, 40_000])],
        units.duration,
        width=WIDE,
        label="l",
        is_log=True,
    )
    assert texts(svg, "end") == ["100 µs", "1 ms", "10 ms", "100 ms"]


@pytest.mark.parametrize(
    ("span_s", "bin_s", "form"),
    [(90, 1, r"\d\d:\d\d:\d\d"), (3_600, 30, r"\d\d:\d\d"), (30 * 86_400, 21_600, r"\d\d [A-Z]..")],
)
@pytest.mark.parametrize("width", [WIDE, NARROW])
def test_times_are_round_and_have_room(span_s: int, bin_s: int, form: str, width: int) -> None:
    starts = list(range(1_767_607_200, 1_767_607_200 + span_s, bin_s))
    line = Line("a", "s1", [1.0] * len(starts))
    svg = charts.lines(starts, bin_s, [line], units.count, width=width, label="l")
    labels = texts(svg, "middle")
    assert 2 <= len(labels) <= width / 60
    assert all(re.fullmatch(form, each) for each in labels)


@pytest.mark.parametrize("width", [WIDE, NARROW])
def test_spans_and_bars_fit(width: int) -> None:
    rows = [Span(NASTY, (0, 1, 5, 9e9)), Span("one", (3, 3, 3, 3))]
    spans = charts.spans(rows, ("p50", "p95", "p99", "max"), units.duration, width=width, label="l")
    assert_inside(spans)
    assert len([*parsed(spans).iter("circle")]) == 8
    bars = charts.bars(
        [Bar(NASTY, [("a", "s1", 1), ("b", "s2", 1e6)]), Bar("", [("a", "s1", 0)])],
        units.count,
        width=width,
        label="l",
    )
    assert_inside(bars)
    assert texts(bars) == ["1 M", "0"]


def test_text_of_users_is_escaped_and_visible() -> None:
    assert (
        charts.shown('<a href="x">&\u202e\x00\n')
        == "&lt;a href=&quot;x&quot;&gt;&amp;\ufffd\ufffd\n"
    )
    svg = charts.spans([Span(NASTY, (1, 2))], ("p50", "p95"), units.count, width=WIDE, label=NASTY)
    assert "<script" not in svg
    (name,) = texts(svg, "name")
    assert name.startswith('<script>alert("1")</script> & \ufffd\ufffd xxx')
    assert name.endswith("x…")
