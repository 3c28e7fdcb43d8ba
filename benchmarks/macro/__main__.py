"""The command line of ``python -m benchmarks.macro``, which `make bench` calls."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import Final

from benchmarks.macro import command_line, scenarios
from benchmarks.macro.command_line import Program, positive_int
from benchmarks.macro.machine import PROJECT_ROOT
from benchmarks.macro.report import FIFO_SCENARIO
from benchmarks.macro.scenario import DURABLE_SECTION, QUEUE_TYPES_SECTION, Scenario
from benchmarks.macro.shapes import Shape

PROGRAM: Final = Program(
    page=PROJECT_ROOT / "docs" / "benchmarks.md",
    suffix="",
    rounds=3,
    seconds=1.0,
    quick_rounds=1,
    quick_seconds=1.0,
    quick_effect="1 round of 1 s, small sizes in the memory scenarios",
)


def main(arguments: Sequence[str] | None = None) -> int:
    """The exit status: 0, 1 after a failed scenario, 2 for a wrong call, 130 when interrupted."""
    parser = make_parser()
    options = parser.parse_args(arguments)
    is_part = bool(
        options.queue_types or options.durable or options.durable_depth or options.shapes
    )
    return command_line.run(parser, options, PROGRAM, lambda: sections(options), is_part=is_part)


def make_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.macro",
        description="Runs Hareline and RabbitMQ alternately under the same load. "
        "With --url, which may be repeated, it runs against brokers that are already there.",
    )
    command_line.add_options(parser, PROGRAM)
    parser.add_argument(
        "--all",
        action="store_true",
        help="also what takes long: the fan-out flood, queue types with deep backlogs, the store",
    )
    parser.add_argument(
        "--shapes",
        nargs="+",
        choices=[shape.value for shape in Shape],
        default=[],
        help="of what is measured in several shapes only these, and nothing else",
    )
    parser.add_argument(
        "--deepest",
        action="store_true",
        help="also a backlog of 10,000,000 in its curve (1,000,000 with --quick): 8 GB of memory",
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
        type=positive_int,
        metavar="N",
        help="how many messages of 1 KiB the deep durable queue gets; default 10,000,000, or "
        "200,000 with --quick",
    )
    return parser


def sections(options: argparse.Namespace) -> list[Scenario]:
    """The usual scenarios, or those of the sections or shapes that were asked for.

    Those that take long are among them if they were asked for in any way.
    """
    make = scenarios.quick if options.quick else scenarios.full
    every = make(options.durable_depth, with_deepest=options.deepest)
    if options.shapes:
        every = [s for s in every if s.shape is not None and s.shape.value in options.shapes]
    sections: set[str] = set()
    beside: set[str] = set()
    if options.queue_types:
        sections.add(QUEUE_TYPES_SECTION)
        beside.add(FIFO_SCENARIO)
    if options.durable:
        sections.add(DURABLE_SECTION)
    if not sections:
        has_long = options.all or options.scenario or options.list
        return [scenario for scenario in every if has_long or not scenario.is_long]
    return [s for s in every if s.section in sections or s.name in beside]


if __name__ == "__main__":
    sys.exit(main())
