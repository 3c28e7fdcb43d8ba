"""The command line of ``python -m benchmarks.management``, which `make bench-management` calls."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import Final

from benchmarks.macro import command_line
from benchmarks.macro.command_line import Program
from benchmarks.macro.machine import PROJECT_ROOT
from benchmarks.management import scenarios

PROGRAM: Final = Program(
    page=PROJECT_ROOT / "docs" / "benchmarks-management.md",
    suffix="-management",
    rounds=1,
    seconds=15.0,
    quick_rounds=1,
    quick_seconds=2.0,
    quick_effect="1 round of 2 s for each number, a tenth of the queues and messages",
    has_peer=False,
)


def main(arguments: Sequence[str] | None = None) -> int:
    """The exit status: 0, 1 after a failed scenario, 2 for a wrong call, 130 when interrupted."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.management",
        description="Runs Hareline, asks its HTTP API as the web UI does, and sends messages "
        "meanwhile.",
    )
    command_line.add_options(parser, PROGRAM)
    options = parser.parse_args(arguments)
    options.no_peer = True
    return command_line.run(
        parser,
        options,
        PROGRAM,
        lambda: scenarios.scenarios(is_quick=options.quick),
        is_part=False,
    )


if __name__ == "__main__":
    sys.exit(main())
