"""amqp-client.js, the AMQP client of browsers: the suite in ``websocket/``, run by Node.js."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.support.broker_process import BrokerUnderTest

from ..suite_runs import CaseResult, SuiteRun, names_in, need_programs, run
from .node_packages import installed_packages

need_programs("node", "npm")
pytestmark = [pytest.mark.acceptance, pytest.mark.timeout(400)]

SOURCES = Path(__file__).parents[1] / "websocket"
REPORTER = Path(__file__).parent / "json_lines.mjs"
CASE = re.compile(r"^test\((?P<quote>['\"])(?P<name>.+?)(?P=quote),", re.MULTILINE)
CASES = names_in(SOURCES.glob("*.test.cjs"), CASE)
RUN_TIMEOUT_S = 180


@pytest.fixture(scope="module")
def suite(broker: BrokerUnderTest, tmp_path_factory: pytest.TempPathFactory) -> SuiteRun:
    # differs: websocket
    if broker.is_foreign:
        pytest.skip("RabbitMQ has no AMQP 0-9-1 over WebSocket")
    node_modules = installed_packages(SOURCES, "interop-websocket")
    report = tmp_path_factory.mktemp("websocket") / "cases.jsonl"
    command = ["node", "--test", f"--test-reporter={REPORTER}"]
    command += [f"--test-reporter-destination={report}", "client.test.cjs"]
    finished = run(
        command,
        cwd=SOURCES,
        timeout_s=RUN_TIMEOUT_S,
        environment={
            "NODE_PATH": str(node_modules),
            "WEBSOCKET_URL": f"ws://{broker.host}:{broker.management_port}/ws/amqp",
        },
    )
    lines = report.read_text("utf-8").splitlines() if report.exists() else []
    cases = [json.loads(line) for line in lines]
    return SuiteRun(
        finished, {case["name"]: CaseResult(case["status"], case["text"]) for case in cases}
    )


@pytest.mark.parametrize("case", CASES)
def test_amqp_client_js(suite: SuiteRun, case: str) -> None:
    suite.hold(case)


def test_amqp_client_js_ran_every_case(suite: SuiteRun) -> None:
    suite.hold_to_names(CASES)
