"""Count the instructions of an operation, which other programs on the machine do not disturb.

    python -m benchmarks.micro.instructions NAME [--only TEXT]

NAME is a micro-benchmark as for ``python -m benchmarks.micro``. Each of its cases, or those whose
name contains TEXT, runs under valgrind's cachegrind with one repetition and with two; the
difference is one repetition. A case takes half a minute or more, as valgrind is some fifty times
slower. Exit status 1 if valgrind is missing or a benchmark fails.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from benchmarks.micro.__main__ import HERE, PACKAGE, PREFIX, names

#: enough under valgrind; those of `differing` and `any_shape` never repeat, however few they are
MESSAGES: Final = 3_000
_REFERENCES: Final = re.compile(r"I\s+refs:\s+([\d,]+)")


class CountError(Exception):
    """The instructions cannot be counted."""


@dataclass(frozen=True)
class Case:
    name: str
    unit: str
    operations: int


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.micro.instructions")
    parser.add_argument("name", choices=names(), metavar="NAME", help="the micro-benchmark")
    parser.add_argument("--only", default="", metavar="TEXT", help="only cases with this text")
    options = parser.parse_args(arguments)
    try:
        for case in cases_of(options.name, options.only):
            each = count(options.name, case)
            print(f"{case.name:<58} {each:>12,.0f} instructions/{case.unit}", flush=True)
    except CountError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


def cases_of(name: str, only: str) -> list[Case]:
    """What the benchmark measures, found by running it once. :raises CountError: it fails."""
    with tempfile.TemporaryDirectory() as directory:
        file = Path(directory) / "record.json"
        flags = ["--repetitions", "1", "--messages", str(MESSAGES), "--only", only]
        _run([], name, [*flags, "--json", str(file)])
        results = json.loads(file.read_text(encoding="utf-8"))["results"]
    if not results:
        raise CountError(f"no case of {name} has {only!r} in its name")
    return [Case(each["name"], each["unit"], each["operations"]) for each in results]


def count(name: str, case: Case) -> float:
    """Instructions of one operation. :raises CountError: valgrind is missing, or it fails."""
    valgrind = shutil.which("valgrind")
    if valgrind is None:
        raise CountError("valgrind is not installed; it counts the instructions")
    tool = [valgrind, "--tool=cachegrind", "--cache-sim=no", "--cachegrind-out-file=/dev/null"]
    once, twice = (
        references_in(_run(tool, name, ["--repetitions", times, *_flags(case)]))
        for times in ("1", "2")
    )
    return (twice - once) / case.operations


def _flags(case: Case) -> list[str]:
    return ["--messages", str(MESSAGES), "--only", case.name]


def references_in(output: str) -> int:
    """The number of instructions that cachegrind printed. :raises CountError: it printed none."""
    found = _REFERENCES.search(output)
    if found is None:
        raise CountError(f"valgrind printed no number of instructions:\n{output[-1000:]}")
    return int(found[1].replace(",", ""))


def _run(tool: list[str], name: str, flags: list[str]) -> str:
    """What the benchmark and the tool print as errors; hashes do not vary between runs."""
    command = [*tool, sys.executable, "-m", f"{PACKAGE}.{PREFIX}{name}", *flags]
    done = subprocess.run(
        command,
        cwd=HERE.parent.parent,
        env={**os.environ, "PYTHONHASHSEED": "0"},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise CountError(f"{name} failed:\n{done.stderr[-1000:]}")
    return done.stderr


if __name__ == "__main__":
    sys.exit(main())
