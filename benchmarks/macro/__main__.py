"""The command line of ``python -m benchmarks.macro``, which `make bench` calls."""

from __future__ import annotations

import argparse
import contextlib
import fnmatch
import re
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from benchmarks.macro import plot, report, results, runner, scenarios
from benchmarks.macro.brokers import Broker, Hareline, RabbitMQ, RemoteBroker, find_rabbitmq
from benchmarks.macro.errors import BenchmarkError
from benchmarks.macro.machine import PROJECT_ROOT
from benchmarks.macro.report import FIFO_SCENARIO
from benchmarks.macro.scenario import DURABLE_SECTION, QUEUE_TYPES_SECTION, Scenario

PAGE: Final = PROJECT_ROOT / "docs" / "benchmarks.md"
RESULTS: Final = PROJECT_ROOT / "benchmarks" / "results"
ROUNDS: Final = 3
SECONDS: Final = 5.0
QUICK_ROUNDS: Final = 1
QUICK_SECONDS: Final = 1.0


def main(arguments: Sequence[str] | None = None) -> int:
    """The exit status: 0, 1 after a failed scenario, 2 for a wrong call, 130 when interrupted."""
    parser = _parser()
    options = parser.parse_args(arguments)
    try:
        if options.render:
            _write_page(results.load(options.render), options.report or PAGE)
            return 0
        chosen = _choose(options)
        if options.list:
            for scenario in chosen:
                print(f"{scenario.name:45} {scenario.summary}")
            return 0
        brokers = _brokers(options)
    except ValueError as error:
        parser.error(str(error))
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        return _bench(options, chosen, brokers)
    except KeyboardInterrupt:
        print("interrupted; the brokers are stopped", file=sys.stderr)
        return 130
    except BenchmarkError as error:
        print(error, file=sys.stderr)
        return 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.macro",
        description="Runs Hareline and RabbitMQ alternately under the same load. "
        "With --url, which may be repeated, it runs against brokers that are already there.",
    )
    parser.add_argument(
        "--scenario",
        nargs="+",
        action="extend",
        default=[],
        metavar="NAME",
        help="only these; a shell pattern or a part of the name will do",
    )
    parser.add_argument(
        "--queue-types",
        action="store_true",
        help=f"only the scenarios of queue types, and {FIFO_SCENARIO} to compare with",
    )
    parser.add_argument(
        "--durable",
        action="store_true",
        help="only the scenarios of durable queues and persistent messages",
    )
    parser.add_argument(
        "--durable-depth",
        type=_positive_int,
        metavar="N",
        help="how many messages of 1 KiB the deep durable queue gets; 10,000,000 unless said, or "
        "200,000 with --quick",
    )
    parser.add_argument("--list", action="store_true", help="name the scenarios and stop")
    parser.add_argument(
        "--url",
        action="append",
        default=[],
        help="amqp://user:password@host:port/vhost; repeatable",
    )
    parser.add_argument("--name", action="append", default=[], help="a name for each --url")
    parser.add_argument(
        "--pid",
        action="append",
        default=[],
        type=int,
        help="the process of each --url; without it memory is not measured",
    )
    parser.add_argument("--no-peer", action="store_true", help="run Hareline alone")
    parser.add_argument("--rounds", type=_positive_int, help=f"{ROUNDS} unless said")
    parser.add_argument("--seconds", type=_positive, help=f"per round; {SECONDS:g} unless said")
    parser.add_argument(
        "--quick",
        action="store_true",
        help=f"{QUICK_ROUNDS} round of {QUICK_SECONDS:g} s, small sizes in the memory scenarios",
    )
    parser.add_argument(
        "--report",
        type=Path,
        metavar="PAGE",
        help="write the tables into this page, and the plot beside it; "
        "a complete run writes docs/benchmarks.md unasked",
    )
    parser.add_argument(
        "--json",
        type=Path,
        metavar="FILE",
        help="write all numbers here; a complete run writes into benchmarks/results unasked",
    )
    parser.add_argument(
        "--render", type=Path, metavar="FILE", help="write the page from an earlier run's JSON"
    )
    return parser


def _choose(options: argparse.Namespace) -> list[Scenario]:
    every = (scenarios.quick if options.quick else scenarios.full)(options.durable_depth)
    sections: set[str] = set()
    beside: set[str] = set()
    if options.queue_types:
        sections.add(QUEUE_TYPES_SECTION)
        beside.add(FIFO_SCENARIO)
    if options.durable:
        sections.add(DURABLE_SECTION)
    if sections:
        every = [s for s in every if s.section in sections or s.name in beside]
    if not options.scenario:
        return every
    chosen: list[Scenario] = []
    for wanted in options.scenario:
        found = [s for s in every if wanted in s.name or fnmatch.fnmatch(s.name, wanted)]
        if not found:
            names = ", ".join(s.name for s in every)
            raise ValueError(f"no scenario is called {wanted!r}; there are {names}")
        chosen += [scenario for scenario in found if scenario not in chosen]
    return chosen


def _brokers(options: argparse.Namespace) -> list[Broker]:
    if not options.url:
        if options.name or options.pid:
            raise ValueError("--name and --pid belong to a --url")
        own: list[Broker] = [Hareline()]
        if not options.no_peer:
            program = find_rabbitmq()
            if program is None:
                print("no rabbitmq-server here and none could be installed: running without a peer")
            else:
                own.append(RabbitMQ(program))
        return own
    names = options.name or [f"broker{n}" for n in range(1, len(options.url) + 1)]
    pids = options.pid or [None] * len(options.url)
    if not len(options.url) == len(names) == len(pids):
        raise ValueError("give as many --name and --pid as --url, or none")
    if len(set(names)) != len(names):
        raise ValueError("each --url needs a --name of its own")
    return [
        RemoteBroker(name, url, pid)
        for name, url, pid in zip(names, options.url, pids, strict=True)
    ]


def _bench(
    options: argparse.Namespace, chosen: Sequence[Scenario], brokers: Sequence[Broker]
) -> int:
    with contextlib.ExitStack() as stack:
        for broker in brokers:
            stack.enter_context(broker)
            print(f"{broker.name}: {broker.version} at {broker.url}", flush=True)
        found = runner.run(
            chosen,
            brokers,
            rounds=options.rounds or (QUICK_ROUNDS if options.quick else ROUNDS),
            seconds=options.seconds or (QUICK_SECONDS if options.quick else SECONDS),
            say=_say,
        )
    is_part = options.scenario or options.queue_types or options.durable or options.durable_depth
    is_complete = not (is_part or options.quick or options.url)
    json_file = options.json or (_result_file(found) if is_complete else None)
    if json_file:
        found.save(json_file)
    page = options.report or (PAGE if is_complete and found.peer else None)
    if page:
        _write_page(found, page)
    print(f"\n{report.render(found, None)}")
    for file in filter(None, (json_file, page)):
        print(f"written: {file}")
    return 1 if any(scenario.errors for scenario in found.scenarios) else 0


def _say(line: str) -> None:
    print(line, flush=True)


def _result_file(found: results.Results) -> Path:
    commit = re.sub(r"[^\w]+", "-", str(found.machine.get("commit") or "uncommitted"))
    return RESULTS / f"{re.sub('[^0-9T]', '', found.started[:19])}-{commit}.json"


def _write_page(found: results.Results, page: Path) -> None:
    picture = page.with_suffix(".svg")
    page.parent.mkdir(parents=True, exist_ok=True)
    is_drawn = plot.draw(found, picture)
    if not is_drawn and found.peer:
        print("no plot: matplotlib is not installed, or no number is there to compare")
    report.write_into(page, found, picture.name if is_drawn else None)


def _positive(text: str) -> float:
    value = float(text)
    if not value > 0:
        raise argparse.ArgumentTypeError(f"{text} is not above 0")
    return value


def _positive_int(text: str) -> int:
    return int(_positive(str(int(text))))


if __name__ == "__main__":
    sys.exit(main())
