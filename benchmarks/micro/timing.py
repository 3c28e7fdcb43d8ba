"""How the micro-benchmarks measure and report: one line per case, and JSON for the record.

A script calls ``measure`` for each case and ``finish`` at its end::

    from benchmarks.micro.timing import finish, measure

    measure("decode a 100-byte publish", decode_thousand, 1000, "frame")
    finish()

and can then be run with ``--json FILE``, ``--repetitions N`` and ``--only TEXT``. The times are
those of the processor, so that a process that waits for its turn does not count. The minimum says
what the code costs, the median what it costs on this machine as busy as it was. The garbage
collector is off while a repetition runs, because in the broker it stays off the message path too.
"""

from __future__ import annotations

import argparse
import gc
import json
import platform
import statistics
import subprocess
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from time import process_time_ns

REPETITIONS = 7


@dataclass(frozen=True, slots=True)
class Result:
    """One case: nanoseconds per operation over all repetitions."""

    name: str
    unit: str
    operations: int
    repetitions: int
    min_ns: float
    median_ns: float


_results: list[Result] = []


def measure(
    name: str,
    function: Callable[[], object],
    operations: int,
    unit: str = "op",
    *,
    prepare: Callable[[], object] | None = None,
) -> None:
    """Run ``function`` several times and print the nanoseconds that one of its operations takes.

    ``function`` does ``operations`` operations per call; take enough for a call of 10 ms or more,
    so that clock and call do not count. It is called once more beforehand, to warm up. ``prepare``
    is called before each of these calls and is not measured. Nothing happens if ``--only`` names
    another case.
    """
    if not is_wanted(name):
        return
    repetitions: int = _options().repetitions
    times: list[float] = []
    for _ in range(repetitions + 1):
        if prepare is not None:
            prepare()
        times.append(_time_of(function) / operations)
    times = sorted(times[1:])
    result = Result(name, unit, operations, repetitions, times[0], statistics.median(times))
    _results.append(result)
    print(
        f"{name:<58} {result.min_ns:>12,.1f} ns/{unit} min {result.median_ns:>12,.1f} median",
        flush=True,
    )


def is_wanted(name: str) -> bool:
    """Whether the case of that name is to be measured."""
    only: str = _options().only
    return only in name


def messages(usual: int) -> int:
    """How many messages a repetition has, where a benchmark can do with fewer: see --messages."""
    asked: int | None = _options().messages
    return asked or usual


def finish() -> None:
    """Write everything measured to the file that ``--json`` names, if it was given."""
    path: Path | None = _options().json
    if path is None:
        return
    record = {
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "machine": f"{platform.system()} {platform.machine()}",
        "processor": _processor(),
        "commit": _commit(),
        "results": [asdict(result) for result in _results],
    }
    path.write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")


def _time_of(function: Callable[[], object]) -> int:
    gc.collect()
    gc.disable()
    try:
        started = process_time_ns()
        function()
        return process_time_ns() - started
    finally:
        gc.enable()


@cache
def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the results here")
    parser.add_argument(
        "--repetitions",
        type=_positive,
        default=REPETITIONS,
        metavar="N",
        help=f"times each case is run (default {REPETITIONS})",
    )
    parser.add_argument(
        "--messages",
        type=_positive,
        metavar="N",
        help="so many a repetition, where a benchmark can do with fewer than usual",
    )
    parser.add_argument(
        "--only", default="", metavar="TEXT", help="only cases whose name contains this"
    )
    return parser.parse_args()


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError("must be 1 or more")
    return number


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor()
    for line in lines:
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.processor()


def _commit() -> str | None:
    """The commit that is checked out beside this file; None outside of a repository."""
    try:
        answer = subprocess.run(
            ["git", "rev-parse", "HEAD"],
            cwd=Path(__file__).parent,
            capture_output=True,
            text=True,
            check=True,
        )
    except (OSError, subprocess.CalledProcessError):
        return None
    return answer.stdout.strip()
