"""amqp091-go, the RabbitMQ team's Go client: the tests in ``go/``, run by ``go test``."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from pathlib import Path

import pytest

from tests.support.broker_process import BrokerUnderTest

from .suite_runs import CaseResult, Outcome, SuiteRun, names_in, need_programs, reason_line, run

need_programs("go")
pytestmark = pytest.mark.timeout(400)

MODULE = Path(__file__).parent / "go"
CASE = re.compile(r"^func (?P<name>Test\w+)\(", re.MULTILINE)
CASES = names_in(MODULE.glob("*_test.go"), CASE)

DOWNLOAD_TIMEOUT_S = 180
RUN_TIMEOUT_S = 180
#: The first version whose language has what the module uses.
GO_MINIMUM = (1, 20)
OUTCOMES: dict[str, Outcome] = {"pass": "pass", "fail": "fail", "skip": "skip"}


@pytest.fixture(scope="module")
def suite(broker: BrokerUnderTest) -> SuiteRun:
    version = run(["go", "env", "GOVERSION"], cwd=MODULE, timeout_s=60).output.strip()
    numbers = re.search(r"go(\d+)\.(\d+)", version)
    if numbers is None or (int(numbers[1]), int(numbers[2])) < GO_MINIMUM:
        pytest.skip(f"go {version or 'of an unknown version'} is older than 1.20")
    fetched = run(["go", "mod", "download"], cwd=MODULE, timeout_s=DOWNLOAD_TIMEOUT_S)
    if fetched.status != 0:
        pytest.skip(f"go cannot fetch amqp091-go: {reason_line(fetched.output)}")
    finished = run(
        ["go", "test", "-json", "-count=1", "./..."],
        cwd=MODULE,
        timeout_s=RUN_TIMEOUT_S,
        environment={"AMQP_URL": broker.url},
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


@pytest.mark.parametrize("case", CASES)
def test_go_client(suite: SuiteRun, case: str) -> None:
    suite.hold(case)


def test_go_client_ran_every_case(suite: SuiteRun) -> None:
    suite.hold_to_names(CASES)
