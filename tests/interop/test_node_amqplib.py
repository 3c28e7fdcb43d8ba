"""amqplib, the AMQP client of Node.js: the suites in ``node/``, once per pinned amqplib.

``amqplib`` is the current release; ``amqplib-legacy`` is one from before 0.10.7, which asks for a
frame_max of 4096. Both go into ``.cache/interop-node``. amqplib has no transactions.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path

import pytest

from tests.support.broker_process import BrokerProcess, BrokerUnderTest

from .node_packages import installed_packages
from .suite_runs import CaseResult, SuiteRun, names_in, need_programs, run

need_programs("node", "npm")
pytestmark = pytest.mark.timeout(400)

SOURCES = Path(__file__).parent / "node"
CASE = re.compile(r"^test\((?P<quote>['\"])(?P<name>.+?)(?P=quote),", re.MULTILINE)
CASES = names_in(SOURCES.glob("*.test.cjs"), CASE)

RUN_TIMEOUT_S = 180
RESTART_TIMEOUT_S = 60


@pytest.fixture(scope="module")
def node_modules() -> Path:
    """The directory of installed packages; installs what package.json pins when it changed."""
    return installed_packages(SOURCES, "interop-node")


@pytest.fixture(scope="module", params=["amqplib", "amqplib-legacy"])
def suite(
    request: pytest.FixtureRequest,
    node_modules: Path,
    broker: BrokerUnderTest,
    tmp_path_factory: pytest.TempPathFactory,
) -> SuiteRun:
    report = tmp_path_factory.mktemp("node") / "cases.jsonl"
    command = ["node", "--test", f"--test-reporter={SOURCES / 'json_lines.mjs'}"]
    command += [f"--test-reporter-destination={report}"]
    command += [path.name for path in sorted(SOURCES.glob("*.test.cjs"))]
    finished = run(
        command,
        cwd=SOURCES,
        timeout_s=RUN_TIMEOUT_S,
        environment={
            "AMQPLIB": request.param,
            "AMQP_URL": broker.url,
            "NODE_PATH": str(node_modules),
        },
    )
    lines = report.read_text("utf-8").splitlines() if report.exists() else []
    cases = [json.loads(line) for line in lines]
    return SuiteRun(
        finished, {case["name"]: CaseResult(case["status"], case["text"]) for case in cases}
    )


@pytest.mark.parametrize("case", CASES)
def test_amqplib(suite: SuiteRun, case: str) -> None:
    suite.hold(case)


def test_amqplib_ran_every_case(suite: SuiteRun) -> None:
    suite.hold_to_names(CASES)


def test_amqplib_recovers_from_a_restart_of_the_broker(
    own_broker: BrokerProcess, node_modules: Path
) -> None:
    environment = {"AMQP_URL": own_broker.url, "NODE_PATH": str(node_modules)}
    program = subprocess.Popen(
        ["node", str(SOURCES / "restart.cjs")],
        env={**os.environ, **environment},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        assert program.stdout is not None
        assert program.stdout.readline() == "READY\n"
        own_broker.restart()
        output, _ = program.communicate(timeout=RESTART_TIMEOUT_S)
    finally:
        program.kill()
        program.wait()
    assert re.fullmatch(r"DISCONNECTED .*320.*\nDONE\n", output), output
    assert program.returncode == 0
