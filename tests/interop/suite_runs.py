"""Running another language's test suite, and giving each of its cases to a Python test.

The tests of the Node, Java and Go clients are written with those languages' own runners. A Python
file here finds the names of their cases by reading the sources, runs the whole suite once in a
module fixture, and holds every case to the outcome that the runner reported. Used by
``test_node_amqplib.py``, ``test_go_client.py`` and, for JUnit, ``maven_runs.py``; the tests of
command-line tools, ``test_java_perf_test.py`` and ``test_amqp_tools.py``, use `run` alone.
Invariant: a process started here is gone, with all its children, when `run` returns.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, NoReturn

import pytest

PROJECT = Path(__file__).resolve().parents[2]

#: Packages that the suites fetch, and what they build; git ignores it.
CACHE = PROJECT / ".cache"

OUTPUT_TAIL_CHARACTERS = 8000

_COLOURS = re.compile(r"\x1b\[[\d;]*m")

Outcome = Literal["pass", "fail", "skip"]


@dataclass(frozen=True)
class CaseResult:
    """What a runner said about one case; ``text`` is its failure or its reason to skip."""

    outcome: Outcome
    text: str


@dataclass(frozen=True)
class Finished:
    """How a command ended; ``output`` is both its streams."""

    status: int
    output: str

    @property
    def tail(self) -> str:
        return self.output[-OUTPUT_TAIL_CHARACTERS:]


@dataclass(frozen=True)
class SuiteRun:
    """A finished suite: how its command ended, and the result of each case by name."""

    finished: Finished
    results: Mapping[str, CaseResult]

    def hold(self, case: str) -> None:
        """Fail or skip the calling test as the suite's case did."""
        result = self.results.get(case)
        if result is None:
            _fail(f"the suite reported nothing about '{case}'\n{self.finished.tail}")
        if result.outcome == "skip":
            pytest.skip(result.text or "skipped by the suite")
        if result.outcome == "fail":
            _fail(result.text or self.finished.tail)

    def hold_to_names(self, expected: Sequence[str]) -> None:
        """Fail unless the suite reported on exactly the cases that the sources name."""
        twice = sorted({name for name in expected if list(expected).count(name) > 1})
        unknown = sorted(set(self.results) - set(expected))
        missing = sorted(set(expected) - set(self.results))
        if twice or unknown or missing:
            _fail(f"{twice=} {unknown=} {missing=}\n{self.finished.tail}")


def run(
    command: Sequence[str | Path],
    *,
    cwd: Path,
    timeout_s: float,
    environment: Mapping[str, str] | None = None,
    stdin: str = "",
) -> Finished:
    """Run a command to its end, with its own process group; a timeout fails the test."""
    process = subprocess.Popen(
        [str(part) for part in command],
        cwd=cwd,
        env={**os.environ, **(environment or {})},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        encoding="utf-8",
        errors="replace",
        start_new_session=True,
    )
    try:
        output, _ = process.communicate(stdin, timeout=timeout_s)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        output, _ = process.communicate()
        _fail(f"no end of {command[0]} within {timeout_s:g} s\n{output[-OUTPUT_TAIL_CHARACTERS:]}")
    except BaseException:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        raise
    return Finished(process.returncode, output)


def need_programs(*names: str) -> None:
    """Skip the calling test file, in one line, if a program is not on the path."""
    for name in names:
        if shutil.which(name) is None:
            pytest.skip(f"{name} is not installed", allow_module_level=True)


def names_in(sources: Iterable[Path], pattern: re.Pattern[str]) -> list[str]:
    """The ``name`` group of each match in the sources: the cases that a runner will report."""
    return [
        match["name"]
        for source in sorted(sources)
        for match in pattern.finditer(source.read_text(encoding="utf-8"))
    ]


def reason_line(output: str) -> str:
    """The most telling line of a failed download, for a one-line skip."""
    plain = _COLOURS.sub("", output)
    lines = [line.strip() for line in plain.splitlines() if line.strip()]
    errors = [line for line in lines if "error" in line.lower()]
    return (errors or lines or ["no output"])[0][:200]


def _fail(text: str) -> NoReturn:
    pytest.fail(text, pytrace=False)
