"""The command line of ``python -m benchmarks.jms``, which `make bench-jms` calls."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import Final

from benchmarks.jms import program, scenarios
from benchmarks.macro import command_line
from benchmarks.macro.command_line import Program
from benchmarks.macro.machine import PROJECT_ROOT

PROGRAM: Final = Program(
    page=PROJECT_ROOT / "docs" / "benchmarks-jms.md",
    suffix="-jms",
    rounds=3,
    seconds=1.0,
    quick_rounds=1,
    quick_seconds=0.3,
    quick_effect="1 round of 0.3 s for each number",
)


def main(arguments: Sequence[str] | None = None) -> int:
    """The exit status: 0, 1 after a failed scenario, 2 for a wrong call, 130 when interrupted."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.jms",
        description="Runs Hareline and RabbitMQ alternately under the load of real JMS clients; "
        "Apache Qpid's works only with Hareline. It needs a JDK and Maven. With --url, which may "
        "be repeated, it runs against brokers that are already there.",
    )
    command_line.add_options(parser, PROGRAM)
    options = parser.parse_args(arguments)
    with program.LoadProgram() as load:
        return command_line.run(
            parser,
            options,
            PROGRAM,
            lambda: scenarios.scenarios(load),
            is_part=False,
            prepare=program.build,
        )


if __name__ == "__main__":
    sys.exit(main())
