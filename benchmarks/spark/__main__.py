"""The command line of ``python -m benchmarks.spark``, which `make bench-spark` calls."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import Final

from benchmarks.macro import command_line
from benchmarks.macro.command_line import Program, positive_int
from benchmarks.macro.errors import BenchmarkError
from benchmarks.macro.machine import PROJECT_ROOT
from benchmarks.spark import scenarios
from benchmarks.spark.stage import Stage
from hareline.spark.errors import EnvironmentMissing
from hareline.spark.session import check_environment

PROGRAM: Final = Program(
    page=PROJECT_ROOT / "docs" / "benchmarks-spark.md",
    suffix="-spark",
    rounds=3,
    seconds=20.0,
    quick_rounds=1,
    quick_seconds=5.0,
    quick_effect="1 round, 50,000 messages, 5 s of latency and of idling",
    has_peer=False,
)
MESSAGES: Final = 1_000_000
QUICK_MESSAGES: Final = 50_000


def main(arguments: Sequence[str] | None = None) -> int:
    """The exit status: 0, 1 after a failed scenario, 2 for a wrong call, 130 when interrupted."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.spark",
        description="Runs Spark and Hareline on the same machine. It needs Java 17 and the extra "
        "hareline[spark].",
    )
    command_line.add_options(parser, PROGRAM)
    parser.add_argument(
        "--messages",
        type=positive_int,
        help=f"how many stand in the stream; default {MESSAGES:,}, or {QUICK_MESSAGES:,} "
        "with --quick",
    )
    options = parser.parse_args(arguments)
    options.no_peer = True
    messages = options.messages or (QUICK_MESSAGES if options.quick else MESSAGES)
    with Stage(messages) as stage:
        return command_line.run(
            parser,
            options,
            PROGRAM,
            lambda: scenarios.scenarios(stage),
            is_part=options.messages is not None,
            prepare=prepare,
        )


def prepare() -> None:
    """Raise BenchmarkError if Java, pyspark or pyarrow is missing or too old."""
    try:
        check_environment()
    except EnvironmentMissing as error:
        raise BenchmarkError(str(error)) from None


if __name__ == "__main__":
    sys.exit(main())
