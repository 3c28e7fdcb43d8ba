"""The page of a report is one valid document that loads nothing and escapes what users named."""

from __future__ import annotations

import json
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest

import hareline
from hareline.spark.pipelines.report_data import (
    ArchivedQueue,
    ConsumerTotals,
    DeadLetterCount,
    Latency,
    LatencyBin,
    QueueTotals,
    Report,
    TimeBin,
)
from hareline.spark.pipelines.report_page import page

UPLOT = Path(hareline.__file__).parent / "management" / "ui" / "vendor" / "uplot.esm.js"
START_S = 1_767_607_200
NASTY = "<img src=x onerror=alert(1)>\"'&"
VOID = {"meta", "img", "br", "link", "input", "hr"}

EMPTY = Report(source="the stream hareline.audit of the broker", made_s=START_S + 999)
ARCHIVED = replace(
    EMPTY,
    archived=(ArchivedQueue(NASTY, 10, 2_000, 200, 250, START_S * 1_000_000, START_S * 1_000_000),),
)
FULL = replace(
    ARCHIVED,
    events=12_345,
    first_us=START_S * 1_000_000,
    last_us=(START_S + 59) * 1_000_000,
    published=5_000,
    bin_s=1,
    timeline=(TimeBin(START_S, 1, 20, 30, 40, 5_000), TimeBin(START_S + 59, 1, 2, 3, 4, 5)),
    latency_timeline=(LatencyBin(START_S, "publish to deliver", 100, 2_000, 30_000),),
    latencies=(
        Latency(None, "publish to deliver", 9, 100, 2_000, 30_000, 400_000),
        Latency(NASTY, "publish to deliver", 9, 100, 2_000, 30_000, 400_000),
    ),
    queues=(QueueTotals(NASTY, routed=20, octets=5_000, delivered=40, redelivered=4),),
    queue_count=1,
    totals=QueueTotals("", routed=20, octets=5_000, delivered=40, redelivered=4, dead_lettered=3),
    dead_letters=(DeadLetterCount("expired", NASTY, NASTY, 3),),
    consumers=(
        ConsumerTotals(NASTY, NASTY, 20, 15, 2_000, 60_000, 70_000, 1_000, 3, 5_000_000),
        ConsumerTotals(NASTY, "", 20, 0, None, None, None, None, 0, None),
    ),
)
PAGES = {"empty": EMPTY, "archived": ARCHIVED, "full": FULL}


class Document(HTMLParser):
    """The elements and the text of a page; fails where an element is not closed in its place."""

    def __init__(self, source: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self._open: list[str] = []
        self.feed(source)
        self.close()
        assert self._open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self._open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self._open and self._open[-1] not in {"style", "script"}:
            self.text += data + "\n"


@pytest.mark.parametrize("name", PAGES)
def test_the_page_is_one_document_that_loads_nothing(name: str) -> None:
    source = page(PAGES[name])
    document = Document(source)
    tags = [tag for tag, _ in document.tags]
    assert tags[0] == "html"
    assert tags.count("style") == tags.count("script") == tags.count("h1") == 1
    assert not {"img", "link", "iframe", "object"} & set(tags)
    for tag, attributes in document.tags:
        assert not {"src", "href", "xlink:href", "onclick", "onerror"} & set(attributes), tag
    ours = source.replace(UPLOT.read_text(encoding="utf-8"), "")  # its comments name sites
    assert len(ours) < len(source)
    assert "://" not in ours
    assert "@import" not in source
    assert "url(" not in source
    policy = next(given for tag, given in document.tags if given.get("http-equiv"))
    assert str(policy["content"]).startswith("default-src 'none'")


def test_names_of_users_are_shown_as_they_are() -> None:
    document = Document(page(FULL))
    assert document.text.count(NASTY) >= 8


def test_the_page_says_what_it_covers() -> None:
    text = Document(page(FULL)).text
    assert "2026-01-05 10:00:00 UTC to 2026-01-05 10:00:59 UTC (59 s)" in text
    assert "12,345 events" in text
    assert "from the stream hareline.audit of the broker" in text
    assert "does not cover" not in text


def test_the_page_says_what_it_does_not_cover() -> None:
    made = replace(FULL, share=0.05, missing=("7 events were lost <b>",))
    text = Document(page(made)).text
    assert "What this report does not cover" in text
    assert "a sample of 5 % of the messages. Counts and rates are scaled by 20" in text
    assert "7 events were lost <b>" in text


def test_figures_have_units() -> None:
    text = Document(page(FULL)).text
    for figure in ("5 kB", "84.7 B/s on average", "20/s at most", "100 µs", "10 %", "5 s"):
        assert figure in text, figure


def test_an_empty_page_says_so() -> None:
    text = Document(page(EMPTY)).text
    assert "empty span" in text
    assert "There are no audit events and no messages in this span" in text
    assert "Throughput" not in text


def test_what_did_not_happen_is_said_in_its_section() -> None:
    made = replace(
        FULL,
        latencies=(),
        latency_timeline=(),
        dead_letters=(),
        consumers=(),
        queues=(),
        archived=(),
    )
    text = Document(page(made)).text
    for sentence in (
        "No message was both routed and delivered",
        "None in this span",
        "No message was delivered twice",
        "Nothing was delivered",
    ):
        assert sentence in text
    assert "Archived messages" not in text


def test_a_slow_consumer_is_pointed_at() -> None:
    source = page(FULL)
    assert "1 of 2 consumers are slow" in source
    assert source.count('<tr class="bad">') == 1
    healthy = page(replace(FULL, consumers=FULL.consumers[1:]))
    assert "No consumer is slow" in healthy
    assert '<tr class="bad">' not in healthy


def test_each_chart_has_a_label() -> None:
    tags = Document(page(FULL)).tags
    labels = [given["aria-label"] for _, given in tags if "aria-label" in given]
    assert len(labels) == len(set(labels)) == 8
    assert all(labels)


def test_a_timeline_has_its_empty_intervals() -> None:
    charts = [
        given["data-chart"] for _, given in Document(page(FULL)).tags if "data-chart" in given
    ]
    into_queues = json.loads(charts[0] or "")["lines"][0]
    assert into_queues == [20, *[0] * 58, 2]


def test_tables_can_be_sorted_by_what_the_figures_stand_for() -> None:
    source = page(FULL)
    assert '<td data-value="0.1">10 %</td>' in source
    assert '<td data-value="60000">60 ms</td>' in source
    assert "aria-sort" in source
