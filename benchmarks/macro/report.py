"""The part of docs/benchmarks.md that is generated: tables between two markers.

What stands outside the markers is written by hand and is never touched.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final

from benchmarks.macro.results import MetricResult, Results, Runs, ScenarioResult, Verdict
from benchmarks.macro.scenario import (
    CURVES_SECTION,
    DURABLE_SECTION,
    FLOOD_SECTION,
    LATENCY_SECTION,
    QUEUE_TYPES_SECTION,
    Better,
    Metric,
    Of,
)
from benchmarks.macro.scenarios import fanout_flood
from benchmarks.macro.shapes import Shape

BEGIN: Final = "<!-- benchmarks:begin (written by `make bench`; edit outside these markers) -->"
END: Final = "<!-- benchmarks:end -->"
DISTURBED_CORES: Final = 0.15
NO_NUMBER: Final = "-"
#: their details stand below their tables, those of the others at the end of the page
DETAILED_SECTIONS: Final = frozenset({LATENCY_SECTION})
FIFO_SCENARIO: Final = "autoack_1x1_100B_alike"

_NEW_PAGE: Final = f"""# Benchmarks

`benchmarks/README.md` says how the numbers are made, and how to make them again.

{BEGIN}
{END}
"""

_HEADINGS: Final = {
    Shape.DIFFERING: "Messages that differ",
    Shape.ANY: "Messages of any shape",
    Shape.ALIKE: "Messages that are alike",
    None: "Other loads",
}
_SHAPES: Final = (
    "*Messages that differ* have ids, a timestamp and three headers of their own, all of one "
    "length, as real clients send them. With *any shape* the number, names and lengths of all "
    "that vary too. *Alike*: they differ only in the octets of their bodies."
)
_INTRODUCTIONS: Final = {
    LATENCY_SECTION: (
        "Open loop, messages that differ. Transient messages: from the instant at which a publish "
        "was due to its delivery. Persistent ones: to its confirm, with no consumer. *Half of "
        "capacity* is half of the rate that the same broker moved just before, without a pause, in "
        "the same way. *Long turns* took the event loop 5 ms or more, and kept all connections "
        "waiting; Hareline counts them itself."
    ),
    CURVES_SECTION: (
        "Processor time of the broker's process for each message, or for each delivery of a "
        "fan-out, with messages that differ. Only what the name says grows."
    ),
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
_NAMES: Final = {
    "hareline": "Hareline",
    "hareline-compiled": "Hareline compiled",
    "rabbitmq": "RabbitMQ",
    "lavinmq": "LavinMQ",
}


def write_into(page: Path, results: Results, plot: str | None, curves: str | None = None) -> None:
    """Replace the text between the markers of a page; start the page if it is missing.

    `plot` and `curves` are file names relative to the page, or None if there is no such picture.

    :raises ValueError: the page does not have exactly one pair of markers.
    """
    text = page.read_text(encoding="utf-8") if page.exists() else _NEW_PAGE
    page.parent.mkdir(parents=True, exist_ok=True)
    page.write_text(replace_block(text, render(results, plot, curves)), encoding="utf-8")


def replace_block(text: str, block: str) -> str:
    if text.count(BEGIN) != 1 or text.count(END) != 1 or text.index(END) < text.index(BEGIN):
        raise ValueError(f"the page needs one line {BEGIN!r} and after it one line {END!r}")
    before, _, rest = text.partition(BEGIN)
    after = rest.partition(END)[2]
    return f"{before}{BEGIN}\n{block.strip()}\n{END}{after}"


def render(results: Results, plot: str | None, curves: str | None = None) -> str:
    """The whole block as Markdown; `plot` and `curves` are the names of pictures, if there are."""
    is_shaped = any(scenario.shape is not None for scenario in results.scenarios)
    parts = [_facts(results), _SHAPES if is_shaped else "", *_summary(results)]
    for section in dict.fromkeys(scenario.section for scenario in results.scenarios):
        parts += [f"## {section}", _INTRODUCTIONS.get(section, "")]
        inside = [scenario for scenario in results.scenarios if scenario.section == section]
        kinds = [*Shape, None]
        groups = [[each for each in inside if each.shape is kind] for kind in kinds]
        for kind, group in zip(kinds, groups, strict=True):
            if group:
                parts += [f"### {_HEADINGS[kind]}"] if any(groups[:-1]) else []
                parts.append(_result_table(results, section, group))
        if section == CURVES_SECTION and curves is not None:
            parts.append(f"![Processor time of a message, by what there is of each]({curves})")
        if section in DETAILED_SECTIONS:
            parts.append(_details_table(results, inside))
    parts += ["## Targets"] if results.verdicts() else []
    parts += [_verdict_text(results), _disturbance(results)]
    if plot is not None:
        parts.append(f"![Times better than {display_name(results.peer)}, by scenario]({plot})")
    parts += _notes(results)
    parts += ["## Processor time", _cores_table(results)]
    details = _details_table(
        results, [each for each in results.scenarios if each.section not in DETAILED_SECTIONS]
    )
    if details:
        parts += ["## Also measured", details]
    return "\n\n".join(part for part in parts if part)


def _facts(results: Results) -> str:
    machine = results.machine
    brokers = " against ".join(
        b.version if display_name(b.name) in b.version else f"{b.name} ({b.version})"
        for b in results.brokers
        if not b.is_compiled
    )
    if results.compiled:
        brokers = f"Pure and compiled builds of {brokers}"
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


def _summary(results: Results) -> list[str]:
    """The ratio to the peer of each scenario that is measured in shapes, a column for each shape.

    Empty without such scenarios or without a peer.
    """
    peer, compiled = results.peer, results.compiled
    stems = dict.fromkeys(each.stem for each in results.scenarios if each.shape is not None)
    if not stems or peer is None:
        return []
    first = next(iter(Shape))
    names = [results.subject, *([compiled] if compiled else []), peer]
    head = ["Scenario", "Measured"]
    head += [f"{display_name(name)}, {first.value}" for name in names]
    head += [f"Ratio, {shape.value}" for shape in Shape]
    rows = []
    for stem in stems:
        found = {each.shape: each for each in results.scenarios if each.stem == stem}
        quoted = found.get(first) or next(iter(found.values()))
        rate = quoted.metrics[0]
        row = [f"`{stem}`", f"{rate.metric.name}, {rate.metric.unit}"]
        row += [
            _number(rate.figure(name)) if quoted.shape is first else NO_NUMBER for name in names
        ]
        for shape in Shape:
            scenario = found.get(shape)
            row.append(_ratios(results, scenario.metrics[0]) if scenario else NO_NUMBER)
        rows.append(row)
    both = " The first ratio is that of the pure build, the second of the compiled one."
    return [
        "## Summary",
        f"Rates with messages that differ, and how many times {display_name(peer)}'s they are with "
        f"messages of each shape.{both if compiled else ''} The tables below have the numbers.",
        _table(head, rows, left=2),
    ]


def _ratios(results: Results, result: MetricResult) -> str:
    """The ratio to the peer of each build, "-" where there is none."""
    ratios = [result.ratio(build.name, results.peer) for build in results.builds]
    return " / ".join(_two_places(ratio) for ratio in ratios)


def _result_table(results: Results, section: str, scenarios: Sequence[ScenarioResult]) -> str:
    """The metrics of some scenarios of a section, with ratios and verdicts for each build."""
    subject, peer, compiled = results.subject, results.peer, results.compiled
    builds = [build.name for build in results.builds]
    head = ["Scenario", "Measured", *map(display_name, builds)]
    if peer:
        head += [display_name(peer), "Ratio"]
        head += ["Ratio, compiled"] if compiled else []
    has_targets = any(
        result.metric.target_of(is_compiled=build.is_compiled) is not None
        for scenario in scenarios
        for result in scenario.metrics
        for build in results.builds
    )
    if has_targets:
        head += ["Target", "Met"]
    fifo = _fifo_rate(results) if section == QUEUE_TYPES_SECTION else None
    if fifo:
        head.append("By plain FIFO")
    rows = []
    for scenario in scenarios:
        for result in scenario.metrics:
            row = [f"`{scenario.name}`", f"{result.metric.name}, {result.metric.unit}"]
            row += [_number(result.figure(build)) for build in builds]
            if peer:
                row.append(_number(result.figure(peer)))
                row += [_two_places(result.ratio(build, peer)) for build in builds]
            if has_targets:
                row += [_targets_text(results, result), _met_text(results, result)]
            if fifo:
                is_rate = result.metric.unit == "msg/s"
                row.append(_two_places((result.figure(subject) or 0.0) / fifo) if is_rate else "")
            rows.append(row)
    return _table(head, rows, left=2)


def _targets_text(results: Results, result: MetricResult) -> str:
    """The target of each build: the compiled one's behind a slash, if it has one."""
    texts = [target_text(result.metric, is_compiled=each.is_compiled) for each in results.builds]
    return " / ".join(filter(None, texts))


def _met_text(results: Results, result: MetricResult) -> str:
    verdicts = [
        result.is_met(each.name, results.peer, is_compiled=each.is_compiled)
        for each in results.builds
    ]
    words = {True: "met", False: "**missed**"}
    return " / ".join(words[met] for met in verdicts if met is not None)


def _fifo_rate(results: Results) -> float | None:
    """The subject's messages per second through a plain FIFO queue, without headers."""
    for scenario in results.scenarios:
        # it had no shape in its name before there were several
        if scenario.name in (FIFO_SCENARIO, FIFO_SCENARIO.removesuffix(f"_{Shape.ALIKE.value}")):
            return scenario.metrics[0].figure(results.subject)
    return None


def target_text(metric: Metric, *, is_compiled: bool = False) -> str:
    """``ratio ≥ 4`` or ``≤ 700 bytes``; empty without a target."""
    target = metric.target_of(is_compiled=is_compiled)
    if target is None:
        return ""
    sign = "≥" if metric.better is Better.HIGHER else "≤"
    if target.of is Of.RATIO:
        return f"ratio {sign} {target.bound:g}"
    return f"{sign} {target.bound:g} {metric.unit}"


def _verdict_text(results: Results) -> str:
    verdicts = results.verdicts()
    if not verdicts:
        return ""
    met = sum(verdict.is_met for verdict in verdicts)
    lines = [f"{met} of {len(verdicts)} targets met."]
    lines += [_miss(verdict, results) for verdict in verdicts if not verdict.is_met]
    return "\n".join([lines[0], "", *lines[1:]]).strip()


def _miss(verdict: Verdict, results: Results) -> str:
    broker, result = verdict.broker, verdict.result
    if verdict.target.of is Of.RATIO:
        number = result.ratio(broker.name, results.peer)
    else:
        number = result.figure(broker.name)
    whose = f" of {display_name(broker.name)}" if broker.is_compiled else ""
    target = target_text(result.metric, is_compiled=broker.is_compiled)
    return (
        f"- missed: `{verdict.scenario.name}`, {result.metric.name}{whose}: {_number(number)} "
        f"where the target is {target}"
    )


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


def _details_table(results: Results, scenarios: Sequence[ScenarioResult]) -> str:
    brokers = [broker.name for broker in results.brokers]
    rows = [
        [f"`{scenario.name}`", name, *(_number(_medians(runs).get(broker)) for broker in brokers)]
        for scenario in scenarios
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
    """Three or more significant digits, or a whole number; thousands set apart."""
    if value is None:
        return NO_NUMBER
    if abs(value) >= 1000 or float(value).is_integer():
        return f"{value:,.0f}"
    return f"{value:.1f}" if abs(value) >= 100 else f"{value:.3g}"


def _two_places(value: float | None) -> str:
    return NO_NUMBER if value is None else f"{value:.2f}"


def display_name(broker: str | None) -> str:
    """A broker's name as it is written in text."""
    return _NAMES.get(broker, broker) if broker else "nothing"
