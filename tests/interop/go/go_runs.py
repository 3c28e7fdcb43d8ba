"""Running a module of Go tests, and what `go test` said about each case.

Called by ``test_go_client`` and ``test_go_management``. A module whose packages cannot be had is
skipped, and the reason is given in a line.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path

import pytest

from ..suite_runs import CaseResult, Outcome, SuiteRun, names_in, reason_line, run

CASE = re.compile(r"^func (?P<name>Test\w+)\(", re.MULTILINE)

DOWNLOAD_TIMEOUT_S = 180
RUN_TIMEOUT_S = 180
OUTCOMES: dict[str, Outcome] = {"pass": "pass", "fail": "fail", "skip": "skip"}


def cases_of(module: Path) -> list[str]:
    """The names of the tests in a module."""
    return names_in(module.glob("*_test.go"), CASE)


def run_module(
    module: Path,
    minimum: tuple[int, int],
    environment: Mapping[str, str],
    *,
    only: str | None = None,
) -> SuiteRun:
    """Run all tests, or ``only`` one.

    ``minimum`` is the first version whose language has what the module uses.
    """
    version = run(["go", "env", "GOVERSION"], cwd=module, timeout_s=60).output.strip()
    numbers = re.search(r"go(\d+)\.(\d+)", version)
    if numbers is None or (int(numbers[1]), int(numbers[2])) < minimum:
        wanted = ".".join(map(str, minimum))
        pytest.skip(f"go {version or 'of an unknown version'} is older than {wanted}")
    fetched = run(["go", "mod", "download"], cwd=module, timeout_s=DOWNLOAD_TIMEOUT_S)
    if fetched.status != 0:
        pytest.skip(f"go cannot fetch what {module.name} needs: {reason_line(fetched.output)}")
    command = ["go", "test", "-json", "-count=1"]
    if only is not None:
        command.append(f"-run=^{only}$")
    finished = run(
        [*command, "./..."], cwd=module, timeout_s=RUN_TIMEOUT_S, environment=environment
    )
    return SuiteRun(finished, _results(finished.output))


def _results(report: str) -> dict[str, CaseResult]:
    """What ``go test -json`` said about each test; lines that are not JSON are the compiler's."""
    said: defaultdict[str, list[str]] = defaultdict(list)
    results = {}
    for line in report.splitlines():
        event = json.loads(line) if line.startswith("{") else {}
        name, action = event.get("Test"), event.get("Action")
        if name is None:
            continue
        if action == "output":
            said[name].append(event["Output"])
        elif action in OUTCOMES:
            results[name] = CaseResult(OUTCOMES[action], "".join(said[name]))
    return results
