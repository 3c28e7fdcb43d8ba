"""The page of a report: one HTML file with charts and tables, without anything from a network.

Style and script stand beside this module and go into the page. Invariant: what comes from messages
(names of queues, keys, tags) is escaped by `charts.shown`; the page forbids itself to load
anything.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Final

from hareline import __version__
from hareline.spark.pipelines import charts, units
from hareline.spark.pipelines.charts import Bar, Line, Span, shown
from hareline.spark.pipelines.page_parts import (
    DASH,
    Cell,
    count_cell,
    duration_cell,
    in_both_widths,
    legend,
    name_cell,
    rate_cell,
    section,
    table,
)
from hareline.spark.pipelines.report_data import (
    DELIVER_TO_ACK,
    PUBLISH_TO_DELIVER,
    SLOW_ACKS_MIN,
    SLOW_RATIO,
    ConsumerTotals,
    Latency,
    LatencyBin,
    QueueTotals,
    Report,
    TimeBin,
)

_HERE: Final = Path(__file__).parent
#: How many queues, or consumers, a chart has; the tables have more.
_CHART_ROWS: Final = 12
_REASON_STYLES: Final = ("s1", "s2", "s3", "s5", "s6", "s7", "s4")
_PERCENTILES: Final = ("p50", "p95", "p99", "max")


def page(made: Report) -> str:
    """The whole HTML page."""
    body = [_head(made), _notices(made)]
    if made.events:
        body += [
            _tiles(made),
            _throughput(made),
            _latencies(made),
            _dead_letters(made),
            _redeliveries(made),
            _consumers(made),
            _queues(made),
        ]
    if made.archived:
        body.append(_archived(made))
    if not made.events and not made.archived:
        body.append(
            "<section><h2>Nothing to show</h2><p>There are no audit events and no messages in this "
            "span. Audit events exist only for virtual hosts whose setting <code>audit</code> is "
            "not <code>off</code>.</p></section>"
        )
    style = (_HERE / "report_page.css").read_text(encoding="utf-8")
    script = (_HERE / "report_page.js").read_text(encoding="utf-8")
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta http-equiv="Content-Security-Policy" content="default-src \'none\'; '
        "style-src 'unsafe-inline'; script-src 'unsafe-inline'\">\n"
        f"<title>Broker report, {_span(made)}</title>\n<style>\n{style}</style>\n</head>\n<body>\n"
        f"<main>\n{chr(10).join(filter(None, body))}\n{_foot(made)}\n</main>\n"
        f"<script>\n{script}</script>\n</body>\n</html>\n"
    )


# ------------------------------------------------------------------------------- what it covers


def _head(made: Report) -> str:
    source = f" · from {shown(made.source)}" if made.source else ""
    events = f" · {made.events:,} events" if made.events else ""
    return f'<h1>Broker report</h1>\n<p class="soft">{_span(made)}{events}{source}</p>'


def _span(made: Report) -> str:
    if made.first_us is not None and made.last_us is not None:
        first_us, last_us = made.first_us, made.last_us
    elif made.archived:
        first_us = min(each.first_us for each in made.archived)
        last_us = max(each.last_us for each in made.archived)
    else:
        return "empty span"
    first, last = units.instant(first_us / 1e6), units.instant(last_us / 1e6)
    return f"{first} to {last} ({units.duration(last_us - first_us)})"


def _notices(made: Report) -> str:
    notices = list(made.missing)
    if made.share < 1:
        notices.insert(
            0,
            f"The audit is a sample of {units.percent(made.share)} of the messages. Counts and "
            f"rates are scaled by {units.count(1 / made.share)}; latencies are of the sample.",
        )
    if not notices:
        return ""
    items = "".join(f"<li>{shown(each)}</li>" for each in notices)
    return (
        f'<section class="warn"><h2>What this report does not cover</h2><ul>{items}</ul></section>'
    )


def _tiles(made: Report) -> str:
    totals = made.totals
    seconds = max(((made.last_us or 0) - (made.first_us or 0)) / 1e6, 1e-6)
    peak = max((each.routed for each in made.timeline), default=0) / made.bin_s
    deliver = _overall(made, PUBLISH_TO_DELIVER)
    ack = _overall(made, DELIVER_TO_ACK)
    unacked = sum(each.unacked for each in made.consumers)
    tiles = [
        ("Published", units.count(made.published), f"{units.count(made.unroutable)} unroutable"),
        (
            "Into queues",
            units.count(totals.routed),
            f"{units.rate(totals.routed / seconds)} on average, {units.rate(peak)} at most",
        ),
        (
            "Octets into queues",
            units.octets(totals.octets),
            f"{units.octet_rate(totals.octets / seconds)} on average",
        ),
        _latency_tile("Publish to deliver", deliver),
        _latency_tile("Deliver to ack", ack),
        (
            "Redelivered",
            units.percent(totals.redelivery_rate),
            f"{units.count(totals.redelivered)} of {units.count(totals.delivered)} deliveries",
        ),
        (
            "Dead letters",
            units.count(totals.dead_lettered),
            f"{units.count(totals.dropped + totals.expired)} dropped or expired",
        ),
        ("Not acked at the end", units.count(unacked), "delivered and still with a consumer"),
    ]
    shown_tiles = "".join(
        f"<div><dt>{name}</dt><dd>{value}</dd><dd>{more}</dd></div>" for name, value, more in tiles
    )
    return f'<dl class="tiles">{shown_tiles}</dl>'


def _latency_tile(name: str, latency: Latency | None) -> tuple[str, str, str]:
    if latency is None:
        return name, DASH, "no message had both"
    return (
        name,
        units.duration(latency.p50_us),
        f"median; p99 {units.duration(latency.p99_us)}, max {units.duration(latency.max_us)}",
    )


def _overall(made: Report, stage: str) -> Latency | None:
    found = (each for each in made.latencies if each.queue is None and each.stage == stage)
    return next(found, None)


# ------------------------------------------------------------------------------------- sections


def _throughput(made: Report) -> str:
    starts = _starts(made)
    by_start = {each.start_s: each for each in made.timeline}
    bins = [by_start.get(start, TimeBin(start)) for start in starts]

    def line(name: str, style: str, value: Callable[[TimeBin], int]) -> Line:
        return Line(name, style, [value(each) / made.bin_s for each in bins])

    messages = [
        line("into queues", "s1", lambda each: each.routed),
        line("delivered", "s2", lambda each: each.delivered),
        line("acked", "s5", lambda each: each.acked),
    ]
    octets = [line("into queues", "s6", lambda each: each.octets)]

    def chart(series: Sequence[Line], form: charts.Format, label: str) -> str:
        return in_both_widths(
            lambda width: charts.lines(starts, made.bin_s, series, form, width=width, label=label)
        )

    return section(
        "Throughput",
        f"All queues together, an average for each {units.duration(made.bin_s * 1e6)}. A message "
        "that is routed to two queues counts twice.",
        "<h3>Messages per second</h3>",
        legend((each.style, each.name) for each in messages),
        chart(messages, units.rate, "Messages per second over time"),
        "<h3>Octets of bodies per second, into queues</h3>",
        chart(octets, units.octet_rate, "Octets per second over time"),
    )


def _latencies(made: Report) -> str:
    if not made.latencies:
        return section("Latency", "No message was both routed and delivered in this span.")
    parts = []
    for stage, meaning in (
        (PUBLISH_TO_DELIVER, "from the queue to a consumer, for the first time"),
        (DELIVER_TO_ACK, "from the first delivery to the ack"),
    ):
        of_stage = [each for each in made.latency_timeline if each.stage == stage]
        if of_stage:
            parts.append(f"<h3>{_capital(stage)}: {meaning}</h3>")
            parts.append(_latency_lines(made, stage, of_stage))
    by_queue = [
        each
        for each in made.latencies
        if each.queue is not None and each.stage == PUBLISH_TO_DELIVER
    ]
    if by_queue:
        slowest = sorted(by_queue, key=lambda each: -each.p99_us)[:_CHART_ROWS]
        rows = [
            Span(each.queue or "", (each.p50_us, each.p95_us, each.p99_us, each.max_us))
            for each in slowest
        ]
        parts += [
            f"<h3>{_capital(PUBLISH_TO_DELIVER)} by queue, the highest p99 first</h3>",
            legend(zip(("s1", "s2", "s3", "s4"), _PERCENTILES, strict=True)),
            in_both_widths(
                lambda width: charts.spans(
                    rows, _PERCENTILES, units.duration, width=width, label="Latency by queue"
                )
            ),
        ]
    parts.append(
        table(
            ("queue", "stage", "messages", *_PERCENTILES),
            [
                [
                    name_cell(each.queue if each.queue is not None else "all queues"),
                    name_cell(each.stage),
                    count_cell(each.messages),
                    *map(duration_cell, (each.p50_us, each.p95_us, each.p99_us, each.max_us)),
                ]
                for each in made.latencies
            ],
            names=2,
        )
    )
    return section(
        "Latency",
        "Percentiles on an axis of powers of ten: each line up is ten times as long.",
        *parts,
    )


def _latency_lines(made: Report, stage: str, of_stage: Sequence[LatencyBin]) -> str:
    starts = _starts(made)
    by_start = {each.start_s: each for each in of_stage}
    found = [by_start.get(start) for start in starts]
    series = [
        Line("p50", "s1", [None if each is None else each.p50_us for each in found]),
        Line("p95", "s2", [None if each is None else each.p95_us for each in found]),
        Line("p99", "s3", [None if each is None else each.p99_us for each in found]),
    ]
    return legend((each.style, each.name) for each in series) + in_both_widths(
        lambda width: charts.lines(
            starts,
            made.bin_s,
            series,
            units.duration,
            width=width,
            label=f"Latency over time, {stage}",
            is_log=True,
        )
    )


def _dead_letters(made: Report) -> str:
    if not made.dead_letters:
        return section("Dead letters", "None in this span.")
    reasons = _by_most((each.reason, each.messages) for each in made.dead_letters)
    styles = {
        reason: _REASON_STYLES[min(place, len(_REASON_STYLES) - 1)]
        for place, reason in enumerate(reasons)
    }
    queues = _by_most((each.queue, each.messages) for each in made.dead_letters)
    rows = []
    for queue in queues[:_CHART_ROWS]:
        sums = {
            reason: sum(
                each.messages
                for each in made.dead_letters
                if each.queue == queue and each.reason == reason
            )
            for reason in reasons
        }
        rows.append(
            Bar(
                queue,
                [(reason, styles[reason], sums[reason]) for reason in reasons if sums[reason]],
            )
        )
    return section(
        "Dead letters",
        "Messages that a queue gave to its dead-letter exchange, by the reason.",
        legend((styles[reason], reason or "no reason") for reason in reasons),
        in_both_widths(
            lambda width: charts.bars(
                rows, units.count, width=width, label="Dead letters by queue and reason"
            )
        ),
        table(
            ("reason", "queue", "routing key", "messages"),
            [
                [
                    name_cell(each.reason),
                    name_cell(each.queue),
                    name_cell(each.routing_key),
                    count_cell(each.messages),
                ]
                for each in made.dead_letters
            ],
            names=3,
        ),
    )


def _redeliveries(made: Report) -> str:
    again = [each for each in made.queues if each.redelivered]
    if not again:
        return section("Redelivery", "No message was delivered twice in this span.")
    worst = sorted(again, key=lambda each: -each.redelivery_rate)[:_CHART_ROWS]
    rows = [Bar(each.queue, [("redelivered", "s2", each.redelivery_rate)]) for each in worst]
    return section(
        "Redelivery",
        "The share of deliveries that were not the first one of their message, by queue.",
        in_both_widths(
            lambda width: charts.bars(rows, units.percent, width=width, label="Redelivery by queue")
        ),
    )


def _consumers(made: Report) -> str:
    if not made.consumers:
        return section("Consumers", "Nothing was delivered in this span.")
    slow = [each for each in made.consumers if each.is_slow]
    verdict = (
        f"{len(slow)} of {len(made.consumers)} consumers are slow: "
        if slow
        else "No consumer is slow: none has "
    )
    ordered = sorted(made.consumers, key=lambda each: (not each.is_slow, -(each.p95_us or 0)))
    timed = [each for each in ordered if each.p50_us is not None and each.queue_p50_us]
    parts = []
    if timed:
        rows = [
            Span(f"{each.tag or '(basic.get)'} · {each.queue}", _consumer_values(each))
            for each in timed[:_CHART_ROWS]
        ]
        parts = [
            "<h3>Deliver to ack by consumer</h3>",
            legend(zip(("s1", "s2", "s3"), ("p50", "p95", "max"), strict=True)),
            in_both_widths(
                lambda width: charts.spans(
                    rows,
                    ("p50", "p95", "max"),
                    units.duration,
                    width=width,
                    label="Deliver to ack by consumer",
                )
            ),
        ]
    parts.append(
        table(
            (
                *("consumer", "queue", "delivered", "acked", "p50", "p95", "max"),
                *("queue p50", "p95 / queue p50", "not acked", "oldest"),
            ),
            [_consumer_row(each) for each in ordered],
            names=2,
            bad=[each.is_slow for each in ordered],
        )
    )
    return section(
        "Consumers",
        f"{verdict}a p95 from deliver to ack of {units.count(SLOW_RATIO)} times the median of the "
        f"queue or more, in at least {SLOW_ACKS_MIN} messages. Automatic acks have no latency.",
        *parts,
    )


def _consumer_values(consumer: ConsumerTotals) -> tuple[float, ...]:
    return (consumer.p50_us or 0, consumer.p95_us or 0, consumer.max_us or 0)


def _consumer_row(consumer: ConsumerTotals) -> list[Cell]:
    ratio = consumer.ratio
    return [
        name_cell(consumer.tag or "(basic.get)"),
        name_cell(consumer.queue),
        count_cell(consumer.delivered),
        count_cell(consumer.acked),
        *map(duration_cell, (consumer.p50_us, consumer.p95_us, consumer.max_us)),
        duration_cell(consumer.queue_p50_us),
        Cell("", None) if ratio is None else Cell(units.count(ratio), ratio),
        count_cell(consumer.unacked),
        duration_cell(consumer.oldest_unacked_us if consumer.unacked else None),
    ]


def _queues(made: Report) -> str:
    columns: dict[str, Callable[[QueueTotals], Cell]] = {
        "queue": lambda each: name_cell(each.queue),
        "routed": lambda each: count_cell(each.routed),
        "octets": lambda each: Cell(units.octets(each.octets), each.octets),
        "delivered": lambda each: count_cell(each.delivered),
        "redelivered": lambda each: Cell(units.percent(each.redelivery_rate), each.redelivery_rate),
        "acked": lambda each: count_cell(each.acked),
        "rejected": lambda each: count_cell(each.rejected),
        "requeued": lambda each: count_cell(each.requeued),
        "expired": lambda each: count_cell(each.expired),
        "dropped": lambda each: count_cell(each.dropped),
        "dead letters": lambda each: count_cell(each.dead_lettered),
    }
    rows = [[cell(each) for cell in columns.values()] for each in made.queues]
    return section(
        "Queues",
        f"{made.queue_count:,} in all. What happened to their messages in this span.",
        table(tuple(columns), rows),
    )


def _archived(made: Report) -> str:
    largest = sorted(made.archived, key=lambda each: -each.messages)[:_CHART_ROWS]
    rows = [Bar(each.queue, [("messages", "s1", each.messages)]) for each in largest]
    return section(
        "Archived messages",
        "What the archive has of each stream in this span.",
        in_both_widths(
            lambda width: charts.bars(
                rows, units.count, width=width, label="Archived messages by stream"
            )
        ),
        table(
            ("stream", "messages", "octets", "median size", "largest", "first", "last", "rate"),
            [
                [
                    name_cell(each.queue),
                    count_cell(each.messages),
                    Cell(units.octets(each.octets), each.octets),
                    Cell(units.octets(each.size_p50), each.size_p50),
                    Cell(units.octets(each.size_max), each.size_max),
                    Cell(units.instant(each.first_us / 1e6), each.first_us),
                    Cell(units.instant(each.last_us / 1e6), each.last_us),
                    rate_cell(each.messages, each.last_us - each.first_us),
                ]
                for each in made.archived
            ],
        ),
    )


def _foot(made: Report) -> str:
    return (
        f"<footer><p>Made {units.instant(made.made_s)} by Hareline {__version__}. Times are UTC. "
        "Octets in units of 1000. Point at a chart for its figures; press a heading to sort a "
        "table.</p></footer>"
    )


def _starts(made: Report) -> list[int]:
    """The start of each interval of the timeline, also of those in which nothing happened."""
    first, last = (int((each or 0) // 1_000_000) for each in (made.first_us, made.last_us))
    return list(range(first - first % made.bin_s, last + 1, made.bin_s))


def _by_most(counts: Iterable[tuple[str, int]]) -> list[str]:
    """The names, that with the highest sum first."""
    sums: dict[str, int] = {}
    for name, number in counts:
        sums[name] = sums.get(name, 0) + number
    return sorted(sums, key=lambda name: (-sums[name], name))


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]
