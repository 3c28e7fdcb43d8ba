"""Running the suites of ``node/``: what they need installed, and what they said of each case.

Used by ``test_node_amqplib`` and ``test_tls_clients``. Packages go into ``.cache/interop-node``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path

from ..suite_runs import CaseResult, SuiteRun, names_in, run
from .node_packages import installed_packages

SOURCES = Path(__file__).parent
CASE = re.compile(r"^test\((?P<quote>['\"])(?P<name>.+?)(?P=quote),", re.MULTILINE)
CASES = names_in(SOURCES.glob("*.test.cjs"), CASE)

RUN_TIMEOUT_S = 180


def installed_modules() -> Path:
    """The directory of installed packages; skips the test where npm cannot install them."""
    return installed_packages(SOURCES, "interop-node")


def run_suites(
    report: Path, environment: Mapping[str, str], *, only: str | None = None
) -> SuiteRun:
    """Run all suites, or ``only`` one case; ``report`` is where the runner writes."""
    command = ["node", "--test", f"--test-reporter={SOURCES / 'json_lines.mjs'}"]
    command += [f"--test-reporter-destination={report}"]
    if only is not None:
        command.append(f"--test-name-pattern=^{only}$")
    command += [path.name for path in sorted(SOURCES.glob("*.test.cjs"))]
    finished = run(command, cwd=SOURCES, timeout_s=RUN_TIMEOUT_S, environment=environment)
    lines = report.read_text("utf-8").splitlines() if report.exists() else []
    cases = [json.loads(line) for line in lines]
    return SuiteRun(
        finished, {case["name"]: CaseResult(case["status"], case["text"]) for case in cases}
    )
