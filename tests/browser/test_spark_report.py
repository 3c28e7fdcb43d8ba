"""Page of a Spark report in Chromium: its charts are drawn, its tables sorted, on any screen."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from hareline.spark.pipelines.report_data import (
    Latency,
    LatencyBin,
    QueueTotals,
    Report,
    TimeBin,
)
from hareline.spark.pipelines.report_page import page
from tests.support.web_browser import PHONE, WebUi

if TYPE_CHECKING:
    from playwright.sync_api import Browser

pytestmark = pytest.mark.acceptance

START_S = 1_767_607_200
#: Every second has 20 messages; latencies of 0 are on the axis of powers of ten as well.
REPORT = Report(
    source="the stream hareline.audit of the broker",
    made_s=START_S + 999,
    events=1_200,
    first_us=START_S * 1_000_000,
    last_us=(START_S + 59) * 1_000_000,
    published=1_200,
    bin_s=1,
    timeline=tuple(TimeBin(START_S + n, 1, 20, 30, 10, 5_000) for n in range(60)),
    latency_timeline=tuple(
        LatencyBin(START_S + n, "publish to deliver", 0, 2_000, 30_000) for n in range(0, 60, 2)
    ),
    latencies=(Latency(None, "publish to deliver", 30, 0, 2_000, 30_000, 400_000),),
    queues=(
        QueueTotals("less", routed=20, octets=5_000, delivered=40, redelivered=4),
        QueueTotals("more", routed=900, octets=5, delivered=40, redelivered=4),
    ),
    queue_count=2,
    totals=QueueTotals("", routed=1_200, octets=5_000, delivered=40, redelivered=4),
)
#: Widths of the canvases of a chart, and whether something is drawn on each.
DRAWN = """() => [...document.querySelectorAll('.chart')].map(chart =>
  [...chart.querySelectorAll('canvas')].map(canvas => {
    const { data } = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height);
    return [canvas.clientWidth, data.some(value => value !== 0)];
  }))"""


@pytest.fixture
def report(browser: Browser, tmp_path: Path) -> Iterator[WebUi]:
    file = tmp_path / "report.html"
    file.write_text(page(REPORT), encoding="utf-8")
    made = WebUi(browser, file.as_uri())
    made.page.goto(made.url)
    yield made
    faults = made.faults()
    made.close()
    assert faults == []


def test_each_chart_is_drawn_and_drawn_again_for_another_screen(report: WebUi) -> None:
    wide = report.page.evaluate(DRAWN)
    assert len(wide) == 3
    assert all(len(chart) == 1 and chart[0][1] for chart in wide), wide
    assert not report.is_wider_than_screen()
    report.page.set_viewport_size({"width": PHONE["width"], "height": PHONE["height"]})
    report.page.wait_for_function(
        "() => [...document.querySelectorAll('canvas')].every(c => c.clientWidth < innerWidth)"
    )
    narrow = report.page.evaluate(DRAWN)
    assert all(len(chart) == 1 and chart[0][1] for chart in narrow), narrow
    assert not report.is_wider_than_screen()


def test_the_legend_tells_the_figures_under_the_pointer(report: WebUi) -> None:
    chart = report.page.locator(".chart").first
    chart.locator(".u-over").hover()
    chart.get_by_text("20/s").wait_for()


def test_a_table_is_sorted_by_a_figure_and_the_other_way_round(report: WebUi) -> None:
    table = report.page.locator("section table").filter(has_text="Redelivered").first
    heading = table.get_by_role("columnheader", name="Routed")
    names = table.locator("tbody tr td:first-child, tbody tr th:first-child")
    heading.get_by_role("button").click()
    assert names.all_inner_texts() == ["more", "less"]
    heading.get_by_role("button").click()
    assert names.all_inner_texts() == ["less", "more"]


def test_axe_finds_nothing(report: WebUi) -> None:
    assert report.violations() == []
