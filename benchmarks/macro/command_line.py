"""The common part of the command lines of benchmarks with a peer.

Used by ``benchmarks.macro`` and ``benchmarks.jms``: the options, which brokers and scenarios they
mean, and what happens to the results. Each program gives its defaults as a `Program`.
"""

from __future__ import annotations

import argparse
import contextlib
import fnmatch
import re
import signal
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from benchmarks.macro import plot, report, results, runner
from benchmarks.macro.brokers import (
    Broker,
    CompiledHareline,
    Hareline,
    RabbitMQ,
    RemoteBroker,
    find_rabbitmq,
)
from benchmarks.macro.errors import BenchmarkError
from benchmarks.macro.machine import PROJECT_ROOT, describe_machine, raise_file_limit
from benchmarks.macro.scenario import Scenario

#: for ten thousand connections, in the generator and in the broker
FILES_WANTED: Final = 12_000
RESULTS: Final = PROJECT_ROOT / "benchmarks" / "results"


@dataclass(frozen=True)
class Program:
    """One of the command lines.

    A complete run writes `page`, and a file into benchmarks/results whose name ends in `suffix`;
    where there is a peer, it is complete with the peer only.
    """

    page: Path
    suffix: str
    rounds: int
    seconds: float
    quick_rounds: int
    quick_seconds: float
    quick_effect: str
    has_peer: bool = True

    def rounds_of(self, options: argparse.Namespace) -> int:
        return int(options.rounds or (self.quick_rounds if options.quick else self.rounds))

    def seconds_of(self, options: argparse.Namespace) -> float:
        return float(options.seconds or (self.quick_seconds if options.quick else self.seconds))


def add_options(parser: argparse.ArgumentParser, program: Program) -> None:
    """The options that each of the programs has."""
    page = program.page.relative_to(PROJECT_ROOT)
    parser.add_argument(
        "--scenario",
        nargs="+",
        action="extend",
        default=[],
        metavar="NAME",
        help="only these; a shell pattern or a part of the name is enough",
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
        help="the process of each --url; without it memory and processor time are not measured",
    )
    parser.add_argument("--no-peer", action="store_true", help="run only Hareline")
    parser.add_argument(
        "--compiled",
        metavar="PYTHON",
        help="an interpreter that has the compiled build of Hareline, which is measured as well",
    )
    parser.add_argument("--rounds", type=positive_int, help=f"default {program.rounds}")
    parser.add_argument("--seconds", type=positive, help=f"per round; default {program.seconds:g}")
    parser.add_argument("--quick", action="store_true", help=program.quick_effect)
    parser.add_argument(
        "--report",
        type=Path,
        metavar="PAGE",
        help=f"write the tables into this page, and the plot beside it; "
        f"a complete run always writes {page}",
    )
    parser.add_argument(
        "--json",
        type=Path,
        metavar="FILE",
        help="write all numbers here; a complete run always writes into benchmarks/results",
    )
    parser.add_argument(
        "--merge",
        type=Path,
        metavar="FILE",
        help="put what is measured into an earlier run's JSON, in place of the same scenarios, and "
        f"write FILE (unless --json names another) and {page} (unless --report does) from both",
    )
    parser.add_argument(
        "--render", type=Path, metavar="FILE", help="write the page from an earlier run's JSON"
    )


def run(
    parser: argparse.ArgumentParser,
    options: argparse.Namespace,
    program: Program,
    every: Callable[[], Sequence[Scenario]],
    *,
    is_part: bool,
    prepare: Callable[[], None] | None = None,
) -> int:
    """Do what the options ask for, with the scenarios among `every` that they name.

    `is_part` says that options of the program's own make it less than a complete run. `prepare` is
    called before any broker is started; it may raise a BenchmarkError. Returns the exit status:
    0, 1 after a failed scenario, 130 when interrupted; a wrong call ends the process with 2.
    """
    try:
        if options.render:
            _write_page(results.load(options.render), options.report or program.page)
            return 0
        if options.merge and options.quick:
            raise ValueError("--quick is too short for --merge")
        earlier = results.load(options.merge) if options.merge else None
        chosen = choose(every(), options.scenario)
        if options.list:
            for scenario in chosen:
                print(f"{scenario.name:45} {scenario.summary}")
            return 0
        brokers = brokers_of(options)
    except (OSError, ValueError) as error:
        parser.error(str(error))
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    is_complete = not (is_part or options.scenario or options.quick or options.url)
    try:
        if prepare is not None:
            prepare()
        return _bench(options, program, chosen, brokers, earlier, is_complete=is_complete)
    except KeyboardInterrupt:
        print("interrupted; the brokers are stopped", file=sys.stderr)
        return 130
    except BenchmarkError as error:
        print(error, file=sys.stderr)
        return 1


def choose(every: Sequence[Scenario], names: Sequence[str]) -> list[Scenario]:
    """The scenarios that the names mean, or all. :raises ValueError: a name means none."""
    if not names:
        return list(every)
    chosen: list[Scenario] = []
    for wanted in names:
        found = [s for s in every if wanted in s.name or fnmatch.fnmatch(s.name, wanted)]
        if not found:
            listed = ", ".join(s.name for s in every)
            raise ValueError(f"no scenario is called {wanted!r}; there are {listed}")
        chosen += [scenario for scenario in found if scenario not in chosen]
    return chosen


def brokers_of(options: argparse.Namespace) -> list[Broker]:
    """The brokers that the options mean. :raises ValueError: the options do not fit."""
    if not options.url:
        if options.name or options.pid:
            raise ValueError("--name and --pid belong to a --url")
        own: list[Broker] = [Hareline()]
        if options.compiled:
            own.append(CompiledHareline(options.compiled))
        if not options.no_peer:
            program = find_rabbitmq()
            if program is None:
                print("no rabbitmq-server here and none could be installed: running without a peer")
            else:
                own.append(RabbitMQ(program))
        return own
    if options.compiled:
        raise ValueError("--compiled starts a broker, so it does not go with --url")
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
    options: argparse.Namespace,
    program: Program,
    chosen: Sequence[Scenario],
    brokers: Sequence[Broker],
    earlier: results.Results | None,
    *,
    is_complete: bool,
) -> int:
    raise_file_limit(FILES_WANTED)  # brokers that are started here inherit it
    with contextlib.ExitStack() as stack:
        for broker in brokers:
            stack.enter_context(broker)
            print(f"{broker.name}: {broker.version} at {broker.url}", flush=True)
        if earlier is not None:
            earlier.expect_comparable(runner.facts_of(brokers), describe_machine())
        found = runner.run(
            chosen,
            brokers,
            rounds=program.rounds_of(options),
            seconds=program.seconds_of(options),
            say=_say,
        )
    whole = found if earlier is None else earlier.with_later(found)
    json_file = options.json or options.merge
    if json_file is None and is_complete:
        json_file = _result_file(found, program.suffix)
    if json_file:
        whole.save(json_file)
    writes_page = earlier is not None or (is_complete and (found.peer or not program.has_peer))
    page = options.report or (program.page if writes_page else None)
    if page:
        _write_page(whole, page)
    print(f"\n{report.render(found, None)}")
    for file in filter(None, (json_file, page)):
        print(f"written: {file}")
    return 1 if any(scenario.errors for scenario in found.scenarios) else 0


def _say(line: str) -> None:
    print(line, flush=True)


def _result_file(found: results.Results, suffix: str) -> Path:
    commit = re.sub(r"[^\w]+", "-", str(found.machine.get("commit") or "uncommitted"))
    return RESULTS / f"{re.sub('[^0-9T]', '', found.started[:19])}-{commit}{suffix}.json"


def _write_page(found: results.Results, page: Path) -> None:
    picture = page.with_suffix(".svg")
    page.parent.mkdir(parents=True, exist_ok=True)
    is_drawn = plot.draw(found, picture)
    if not is_drawn and found.peer:
        print("no plot: matplotlib is not installed, or no number is there to compare")
    curves = page.with_name(f"{page.stem}-curves.svg")
    has_curves = plot.draw_curves(found, curves)
    report.write_into(
        page, found, picture.name if is_drawn else None, curves.name if has_curves else None
    )


def positive(text: str) -> float:
    value = float(text)
    if not value > 0:
        raise argparse.ArgumentTypeError(f"{text} is not above 0")
    return value


def positive_int(text: str) -> int:
    return int(positive(str(int(text))))
