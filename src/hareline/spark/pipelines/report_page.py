"""Page of a report: one HTML file with charts and tables, without anything from a network.

Style and script stand beside this module, uPlot with the management UI; all go into the page.
Invariant: text of messages (names of queues, keys, tags) is escaped by `shown`; the page forbids
itself to load anything.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Final

from hareline import __version__
from hareline.spark.pipelines.page_parts import (
    DASH,
    Line,
    bars,
    cell,
    count,
    duration,
    instant,
    legend,
    lines,
    name_cell,
    number,
    octet_rate,
    octets,
    percent,
    rate,
    section,
    shown,
    spans,
    table,
)
from hareline.spark.pipelines.report_data import (
    DELIVER_TO_ACK,
    PUBLISH_TO_DELIVER,
    SLOW_ACKS_MIN,
    SLOW_RATIO,
    Latency,
    LatencyBin,
    Report,
    TimeBin,
)

#: Style and script of the page: uPlot's, which the management UI draws with, and its own.
_STYLES: Final = ("management/ui/vendor/uplot.min.css", "spark/pipelines/report_page.css")
_SCRIPTS: Final = ("management/ui/vendor/uplot.esm.js", "spark/pipelines/report_page.js")
#: Queues, or consumers, that a chart has; the tables have more.
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
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta http-equiv="Content-Security-Policy" content="default-src \'none\'; '
        "style-src 'unsafe-inline'; script-src 'unsafe-inline'\">\n"
        f"<title>Broker report, {_span(made)}</title>\n<style>\n{_texts(_STYLES)}</style>\n"
        f"</head>\n<body>\n<main>\n{chr(10).join(filter(None, body))}\n{_foot(made)}\n</main>\n"
        f'<script type="module">\n{_texts(_SCRIPTS)}</script>\n</body>\n</html>\n'
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
    first, last = instant(first_us), instant(last_us)
    return f"{first} to {last} ({duration(last_us - first_us)})"


def _notices(made: Report) -> str:
    notices = list(made.missing)
    if made.share < 1:
        notices.insert(
            0,
            f"The audit is a sample of {percent(made.share)} of the messages. Counts and "
            f"rates are scaled by {count(1 / made.share)}; latencies are of the sample.",
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
        ("Published", count(made.published), f"{count(made.unroutable)} unroutable"),
        (
            "Into queues",
            count(totals.routed),
            f"{rate(totals.routed / seconds)} on average, {rate(peak)} at most",
        ),
        (
            "Octets into queues",
            octets(totals.octets),
            f"{octet_rate(totals.octets / seconds)} on average",
        ),
        _latency_tile("Publish to deliver", deliver),
        _latency_tile("Deliver to ack", ack),
        (
            "Redelivered",
            percent(totals.redelivery_rate),
            f"{count(totals.redelivered)} of {count(totals.delivered)} deliveries",
        ),
        (
            "Dead letters",
            count(totals.dead_lettered),
            f"{count(totals.dropped + totals.expired)} dropped or expired",
        ),
        ("Not acked at the end", count(unacked), "delivered and still with a consumer"),
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
        duration(latency.p50_us),
        f"median; p99 {duration(latency.p99_us)}, max {duration(latency.max_us)}",
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
    bodies = [line("into queues", "s6", lambda each: each.octets)]
    return section(
        "Throughput",
        f"All queues together, an average for each {duration(made.bin_s * 1e6)}. A message "
        "that is routed to two queues counts twice.",
        "<h3>Messages per second</h3>",
        lines(starts, made.bin_s, messages, rate, label="Messages per second over time"),
        "<h3>Octets of bodies per second, into queues</h3>",
        lines(starts, made.bin_s, bodies, octet_rate, label="Octets per second over time"),
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
            parts.append(f"<h3>{stage.capitalize()}: {meaning}</h3>")
            parts.append(_latency_lines(made, stage, of_stage))
    by_queue = [
        (each.queue, _percentiles(each))
        for each in sorted(made.latencies, key=lambda each: -each.p99_us)
        if each.queue is not None and each.stage == PUBLISH_TO_DELIVER
    ]
    if by_queue:
        parts += [
            f"<h3>{PUBLISH_TO_DELIVER.capitalize()} by queue, the highest p99 first</h3>",
            legend(zip(("s1", "s2", "s3", "s4"), _PERCENTILES, strict=True)),
            spans(by_queue[:_CHART_ROWS], _PERCENTILES, duration, label="Latency by queue"),
        ]
    parts.append(
        table(
            {
                "queue": lambda each: name_cell("all queues" if each.queue is None else each.queue),
                "stage": lambda each: name_cell(each.stage),
                "messages": lambda each: cell(each.messages, number),
                "p50": lambda each: cell(each.p50_us, duration),
                "p95": lambda each: cell(each.p95_us, duration),
                "p99": lambda each: cell(each.p99_us, duration),
                "max": lambda each: cell(each.max_us, duration),
            },
            made.latencies,
            names=2,
        )
    )
    return section(
        "Latency",
        "Percentiles on an axis of powers of ten: each line up is ten times as long.",
        *parts,
    )


def _percentiles(latency: Latency) -> tuple[int, ...]:
    return latency.p50_us, latency.p95_us, latency.p99_us, latency.max_us


def _latency_lines(made: Report, stage: str, of_stage: Sequence[LatencyBin]) -> str:
    starts = _starts(made)
    by_start = {each.start_s: each for each in of_stage}
    found = [by_start.get(start) for start in starts]
    series = [
        Line("p50", "s1", [each.p50_us if each else None for each in found]),
        Line("p95", "s2", [each.p95_us if each else None for each in found]),
        Line("p99", "s3", [each.p99_us if each else None for each in found]),
    ]
    label = f"Latency over time, {stage}"
    return lines(starts, made.bin_s, series, duration, label=label, is_log=True)


def _dead_letters(made: Report) -> str:
    if not made.dead_letters:
        return section("Dead letters", "None in this span.")
    reasons = _by_most((each.reason, each.messages) for each in made.dead_letters)
    styles = {
        reason: _REASON_STYLES[min(place, len(_REASON_STYLES) - 1)]
        for place, reason in enumerate(reasons)
    }
    sums: dict[str, dict[str, int]] = {}
    for each in made.dead_letters:
        of_queue = sums.setdefault(each.queue, {})
        of_queue[each.reason] = of_queue.get(each.reason, 0) + each.messages
    queues = _by_most((each.queue, each.messages) for each in made.dead_letters)
    rows = [
        (queue, [(r, styles[r], sums[queue][r]) for r in reasons if sums[queue].get(r)])
        for queue in queues[:_CHART_ROWS]
    ]
    return section(
        "Dead letters",
        "Messages that a queue gave to its dead-letter exchange, by the reason.",
        legend((styles[reason], reason or "no reason") for reason in reasons),
        bars(rows, count, label="Dead letters by queue and reason"),
        table(
            {
                "reason": lambda each: name_cell(each.reason),
                "queue": lambda each: name_cell(each.queue),
                "routing key": lambda each: name_cell(each.routing_key),
                "messages": lambda each: cell(each.messages, number),
            },
            made.dead_letters,
            names=3,
        ),
    )


def _redeliveries(made: Report) -> str:
    again = [each for each in made.queues if each.redelivered]
    if not again:
        return section("Redelivery", "No message was delivered twice in this span.")
    worst = sorted(again, key=lambda each: -each.redelivery_rate)[:_CHART_ROWS]
    rows = [(each.queue, [("redelivered", "s2", each.redelivery_rate)]) for each in worst]
    return section(
        "Redelivery",
        "The share of deliveries that were not the first one of their message, by queue.",
        bars(rows, percent, label="Redelivery by queue"),
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
    timed = [
        (f"{each.name} · {each.queue}", (each.p50_us, each.p95_us or 0, each.max_us or 0))
        for each in ordered
        if each.p50_us is not None and each.queue_p50_us
    ]
    parts = []
    if timed:
        names = ("p50", "p95", "max")
        parts = [
            "<h3>Deliver to ack by consumer</h3>",
            legend(zip(("s1", "s2", "s3"), names, strict=True)),
            spans(timed[:_CHART_ROWS], names, duration, label="Deliver to ack by consumer"),
        ]
    parts.append(
        table(
            {
                "consumer": lambda each: name_cell(each.name),
                "queue": lambda each: name_cell(each.queue),
                "delivered": lambda each: cell(each.delivered, number),
                "acked": lambda each: cell(each.acked, number),
                "p50": lambda each: cell(each.p50_us, duration),
                "p95": lambda each: cell(each.p95_us, duration),
                "max": lambda each: cell(each.max_us, duration),
                "queue p50": lambda each: cell(each.queue_p50_us, duration),
                "p95 / queue p50": lambda each: cell(each.ratio, count),
                "not acked": lambda each: cell(each.unacked, number),
                "oldest": lambda each: cell(
                    each.oldest_unacked_us if each.unacked else None, duration
                ),
            },
            ordered,
            names=2,
            is_bad=lambda each: each.is_slow,
        )
    )
    return section(
        "Consumers",
        f"{verdict}a p95 from deliver to ack of {count(SLOW_RATIO)} times the median of the "
        f"queue or more, in at least {SLOW_ACKS_MIN} messages. Automatic acks have no latency.",
        *parts,
    )


def _queues(made: Report) -> str:
    return section(
        "Queues",
        f"{made.queue_count:,} in all. What happened to their messages in this span.",
        table(
            {
                "queue": lambda each: name_cell(each.queue),
                "routed": lambda each: cell(each.routed, number),
                "octets": lambda each: cell(each.octets, octets),
                "delivered": lambda each: cell(each.delivered, number),
                "redelivered": lambda each: cell(each.redelivery_rate, percent),
                "acked": lambda each: cell(each.acked, number),
                "rejected": lambda each: cell(each.rejected, number),
                "requeued": lambda each: cell(each.requeued, number),
                "expired": lambda each: cell(each.expired, number),
                "dropped": lambda each: cell(each.dropped, number),
                "dead letters": lambda each: cell(each.dead_lettered, number),
            },
            made.queues,
        ),
    )


def _archived(made: Report) -> str:
    largest = sorted(made.archived, key=lambda each: -each.messages)[:_CHART_ROWS]
    rows = [(each.queue, [("messages", "s1", each.messages)]) for each in largest]
    return section(
        "Archived messages",
        "What the archive has of each stream in this span.",
        bars(rows, count, label="Archived messages by stream"),
        table(
            {
                "stream": lambda each: name_cell(each.queue),
                "messages": lambda each: cell(each.messages, number),
                "octets": lambda each: cell(each.octets, octets),
                "median size": lambda each: cell(each.size_p50, octets),
                "largest": lambda each: cell(each.size_max, octets),
                "first": lambda each: cell(each.first_us, instant),
                "last": lambda each: cell(each.last_us, instant),
                "rate": lambda each: cell(each.rate, rate),
            },
            made.archived,
        ),
    )


def _foot(made: Report) -> str:
    return (
        f"<footer><p>Made {instant(made.made_s * 1e6)} by Hareline {__version__}. "
        "Times are UTC. Octets in units of 1000. Point at a chart for its figures; press a "
        "heading to sort a table.</p></footer>"
    )


def _starts(made: Report) -> list[int]:
    """The start of each interval of the timeline, also of those in which nothing happened."""
    first, last = (int((each or 0) // 1_000_000) for each in (made.first_us, made.last_us))
    return list(range(first - first % made.bin_s, last + 1, made.bin_s))


def _by_most(counts: Iterable[tuple[str, int]]) -> list[str]:
    """The names, that with the highest sum first."""
    sums: dict[str, int] = {}
    for name, messages in counts:
        sums[name] = sums.get(name, 0) + messages
    return sorted(sums, key=lambda name: (-sums[name], name))


def _texts(names: Iterable[str]) -> str:
    package = Path(__file__).parents[2]
    return "\n".join((package / name).read_text(encoding="utf-8") for name in names)
