"""The part of docs/benchmarks.md that is generated: tables between two markers.

What stands outside the markers is written by hand and is never touched.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final

from benchmarks.macro.results import MetricResult, Results, Runs, ScenarioResult
from benchmarks.macro.scenario import (
    DURABLE_SECTION,
    FLOOD_SECTION,
    QUEUE_TYPES_SECTION,
    Better,
    Of,
)
from benchmarks.macro.scenarios import fanout_flood

BEGIN: Final = "<!-- benchmarks:begin (written by `make bench`; edit outside these markers) -->"
END: Final = "<!-- benchmarks:end -->"
DISTURBED_CORES: Final = 0.15
NO_NUMBER: Final = "-"
FIFO_SCENARIO: Final = "autoack_1x1_100B_alike"

_NEW_PAGE: Final = f"""# Benchmarks

`benchmarks/README.md` says how the numbers are made, and how to make them again.

{BEGIN}
{END}
"""

_INTRODUCTIONS: Final = {
    QUEUE_TYPES_SECTION: (
        "*FIFO* is a plain queue under the same load: the same messages, as many consumers. *By "
        f"plain FIFO* compares with `{FIFO_SCENARIO}`, whose messages have no headers."
    ),
    DURABLE_SECTION: (
        "Durable queues and messages of delivery mode 2, on both brokers; Hareline's journal syncs "
        "always, so a confirm means that the message is on the disk. A scenario without a figure "
        "for the second broker was not run there."
    ),
    FLOOD_SECTION: (
        "Publishers that never wait send to a fanout exchange with many transient queues; each run "
        "has a fresh broker. Meanwhile other connections time a passive queue.declare, and a new "
        "connection up to connection.open-ok. Then, with the publishers still sending, the broker "
        "gets SIGTERM; they do not answer its connection.close. *max* and *orderly stop* are the "
        "worst of all rounds. Resident memory above "
        f"{fanout_flood.RSS_LIMIT_BYTES / 1e9:g} GB ends a flood early; a broker that is not gone "
        f"{fanout_flood.STOP_LIMIT_S:g} s after SIGTERM, or passes "
        f"{fanout_flood.STOPPING_RSS_LIMIT_BYTES / 1e9:g} GB meanwhile, is killed. The lines below "
        "name each run in which that happened."
    ),
}
_NAMES: Final = {"hareline": "Hareline", "rabbitmq": "RabbitMQ", "lavinmq": "LavinMQ"}


def write_into(page: Path, results: Results, plot: str | None) -> None:
    """Replace the text between the markers of a page; start the page if it is missing.

    `plot` is the plot's file name relative to the page, or None if there is none.

    :raises ValueError: the page does not have exactly one pair of markers.
    """
    text = page.read_text(encoding="utf-8") if page.exists() else _NEW_PAGE
    page.parent.mkdir(parents=True, exist_ok=True)
    page.write_text(replace_block(text, render(results, plot)), encoding="utf-8")


def replace_block(text: str, block: str) -> str:
    if text.count(BEGIN) != 1 or text.count(END) != 1 or text.index(END) < text.index(BEGIN):
        raise ValueError(f"the page needs one line {BEGIN!r} and after it one line {END!r}")
    before, _, rest = text.partition(BEGIN)
    after = rest.partition(END)[2]
    return f"{before}{BEGIN}\n{block.strip()}\n{END}{after}"


def render(results: Results, plot: str | None) -> str:
    """The whole block as Markdown."""
    parts = [_facts(results)]
    for section in dict.fromkeys(scenario.section for scenario in results.scenarios):
        parts += [f"## {section}", _INTRODUCTIONS.get(section, "")]
        parts.append(_result_table(results, section))
    parts += ["## Targets"] if results.verdicts() else []
    parts += [_verdict_text(results), _disturbance(results)]
    if plot is not None:
        parts.append(f"![Times better than {display_name(results.peer)}, by scenario]({plot})")
    parts += _notes(results)
    parts += ["## Processor time", _cores_table(results)]
    details = _details_table(results)
    if details:
        parts += ["## Also measured", details]
    return "\n\n".join(part for part in parts if part)


def _facts(results: Results) -> str:
    machine = results.machine
    brokers = " against ".join(
        b.version if display_name(b.name) in b.version else f"{b.name} ({b.version})"
        for b in results.brokers
    )
    return (
        f"{brokers}, {results.started[:10]}, commit {machine.get('commit') or 'unknown'}. "
        f"{machine.get('processor')}, {machine.get('cores')} cores, "
        f"{machine.get('memory_gib')} GiB, Linux {machine.get('kernel')}, {machine.get('python')}, "
        f"uvloop {machine.get('uvloop') or 'not installed'}{_disk(machine)}. "
        f"Medians of {results.options.get('rounds')} alternating rounds of "
        f"{results.options.get('seconds'):g} s."
    )


def _disk(machine: Mapping[str, object]) -> str:
    """What the run says of the disk; empty for runs from before there was a journal."""
    if "fdatasync_ms" not in machine:
        return ""
    kind = machine.get("file_system") or "an unknown file system"
    return f", data on {kind} with an fdatasync of 4 KiB in {machine['fdatasync_ms']} ms"


def _result_table(results: Results, section: str) -> str:
    subject, peer = results.subject, results.peer
    head = ["Scenario", "Measured", display_name(subject)]
    if peer:
        head += [display_name(peer), "Ratio"]
    has_targets = any(
        result.metric.target is not None
        for scenario in results.scenarios
        if scenario.section == section
        for result in scenario.metrics
    )
    if has_targets:
        head += ["Target", "Met"]
    fifo = _fifo_rate(results) if section == QUEUE_TYPES_SECTION else None
    if fifo:
        head.append("By plain FIFO")
    rows = []
    for scenario in results.scenarios:
        if scenario.section != section:
            continue
        for result in scenario.metrics:
            row = [
                f"`{scenario.name}`",
                f"{result.metric.name}, {result.metric.unit}",
                _number(result.figure(subject)),
            ]
            if peer:
                ratio = result.ratio(subject, peer)
                row += [
                    _number(result.figure(peer)),
                    NO_NUMBER if ratio is None else f"{ratio:.2f}",
                ]
            if has_targets:
                met = result.is_met(subject, peer)
                row += [target_text(result), {None: "", True: "met", False: "**missed**"}[met]]
            if fifo:
                is_rate = result.metric.unit == "msg/s"
                row.append(_two_places((result.figure(subject) or 0.0) / fifo) if is_rate else "")
            rows.append(row)
    return _table(head, rows, left=2)


def _fifo_rate(results: Results) -> float | None:
    """The subject's messages per second through a plain FIFO queue, without headers."""
    for scenario in results.scenarios:
        if scenario.name == FIFO_SCENARIO:
            return scenario.metrics[0].figure(results.subject)
    return None


def target_text(result: MetricResult) -> str:
    """``ratio ≥ 4`` or ``≤ 700 bytes``; empty without a target."""
    target = result.metric.target
    if target is None:
        return ""
    sign = "≥" if result.metric.better is Better.HIGHER else "≤"
    if target.of is Of.RATIO:
        return f"ratio {sign} {target.bound:g}"
    return f"{sign} {target.bound:g} {result.metric.unit}"


def _verdict_text(results: Results) -> str:
    verdicts = results.verdicts()
    if not verdicts:
        return ""
    met = sum(is_met for _, _, is_met in verdicts)
    lines = [f"{met} of {len(verdicts)} targets met."]
    lines += [
        f"- missed: `{scenario.name}`, {result.metric.name}: {_miss(result, results)}"
        for scenario, result, is_met in verdicts
        if not is_met
    ]
    return "\n".join([lines[0], "", *lines[1:]]).strip()


def _miss(result: MetricResult, results: Results) -> str:
    target = result.metric.target
    assert target is not None
    if target.of is Of.RATIO:
        number = result.ratio(results.subject, results.peer)
    else:
        number = result.figure(results.subject)
    return f"{_number(number)} where the target is {target_text(result)}"


def _disturbance(results: Results) -> str:
    """A warning if the machine was not quiet, which favours the broker that needs fewer cores."""
    disturbed = {
        scenario.name: max(_medians(scenario.cores["others"]).values())
        for scenario in results.scenarios
        if scenario.cores.get("others")
    }
    disturbed = {name: cores for name, cores in disturbed.items() if cores > DISTURBED_CORES}
    if not disturbed:
        return ""
    listed = ", ".join(f"`{name}` {cores:.2f}" for name, cores in disturbed.items())
    return (
        "**The machine was not quiet**, so do not rely on these ratios: other programs took "
        "processor time, which costs a broker that uses several cores more than one that "
        f"uses one. Cores they took: {listed}."
    )


def _notes(results: Results) -> list[str]:
    notes = []
    for scenario in results.scenarios:
        if scenario.skipped:
            notes.append(f"- `{scenario.name}` was skipped: {scenario.skipped}.")
        for broker, errors in scenario.errors.items():
            first = errors[0].splitlines()[0]
            notes.append(
                f"- `{scenario.name}` failed {len(errors)} x on {display_name(broker)}: {first}"
            )
        for broker, remarks in scenario.remarks.items():
            notes += [
                f"- `{scenario.name}` on {display_name(broker)}: {remark}." for remark in remarks
            ]
        if scenario.origin:
            notes.append(f"- `{scenario.name}` was measured in another run: {scenario.origin}.")
    return ["\n".join(notes)] if notes else []


def _cores_table(results: Results) -> str:
    """Cores in use while measuring, and what each broker did per second of its own core time."""
    brokers = [broker.name for broker in results.brokers]
    head = ["Scenario"]
    for name in brokers:
        head += [f"{display_name(name)} cores", f"generator cores ({display_name(name)})"]
    head += [f"{display_name(name)} msg per core-second" for name in brokers]
    rows = []
    for scenario in results.scenarios:
        broker_cores = _medians(scenario.cores.get("broker", {}))
        generator_cores = _medians(scenario.cores.get("generator", {}))
        if not generator_cores:
            continue
        row = [f"`{scenario.name}`"]
        for name in brokers:
            row += [_two_places(broker_cores.get(name)), _two_places(generator_cores.get(name))]
        row += [_number(_per_core(scenario, name, broker_cores.get(name))) for name in brokers]
        rows.append(row)
    return _table(head, rows, left=1)


def _per_core(scenario: ScenarioResult, broker: str, cores: float | None) -> float | None:
    rate = scenario.metrics[0]
    figure = rate.figure(broker)
    if rate.metric.unit != "msg/s" or not cores or figure is None:
        return None
    return figure / cores


def _details_table(results: Results) -> str:
    brokers = [broker.name for broker in results.brokers]
    rows = [
        [f"`{scenario.name}`", name, *(_number(_medians(runs).get(broker)) for broker in brokers)]
        for scenario in results.scenarios
        for name, runs in scenario.details.items()
    ]
    return (
        _table(["Scenario", "What", *(display_name(b) for b in brokers)], rows, left=2)
        if rows
        else ""
    )


def _medians(runs: Runs) -> dict[str, float]:
    return {broker: statistics.median(values) for broker, values in runs.items() if values}


def _table(head: Sequence[str], rows: Iterable[Sequence[str]], *, left: int) -> str:
    """A Markdown table; the first `left` columns are text, the others are set to the right."""
    rule = ["---" if column < left else "--:" for column in range(len(head))]
    return "\n".join(f"| {' | '.join(row)} |" for row in (head, rule, *rows))


def _number(value: float | None) -> str:
    """Three or more significant digits, thousands set apart."""
    if value is None:
        return NO_NUMBER
    if abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:.1f}" if abs(value) >= 100 else f"{value:.3g}"


def _two_places(value: float | None) -> str:
    return NO_NUMBER if value is None else f"{value:.2f}"


def display_name(broker: str | None) -> str:
    """A broker's name as it is written in text."""
    return _NAMES.get(broker, broker) if broker else "nothing"
