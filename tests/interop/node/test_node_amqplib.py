"""amqplib, the AMQP client of Node.js: the suites in ``node/``, once per pinned amqplib.

``amqplib`` is the current release; ``amqplib-legacy`` is one from before 0.10.7, which asks for a
frame_max of 4096. Both go into ``.cache/interop-node``. amqplib has no transactions.
"""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

from tests.support.broker_process import BrokerProcess, BrokerUnderTest

from ..suite_runs import SuiteRun, need_programs
from .node_runs import CASES, SOURCES, installed_modules, run_suites

need_programs("node", "npm")
pytestmark = pytest.mark.timeout(400)

RESTART_TIMEOUT_S = 60


@pytest.fixture(scope="module")
def node_modules() -> Path:
    return installed_modules()


@pytest.fixture(scope="module", params=["amqplib", "amqplib-legacy"])
def suite(
    request: pytest.FixtureRequest,
    node_modules: Path,
    broker: BrokerUnderTest,
    tmp_path_factory: pytest.TempPathFactory,
) -> SuiteRun:
    report = tmp_path_factory.mktemp("node") / "cases.jsonl"
    return run_suites(report, {**environment(broker, node_modules), "AMQPLIB": request.param})


def environment(broker: BrokerUnderTest, node_modules: Path) -> dict[str, str]:
    return {"AMQP_URL": broker.url, "NODE_PATH": str(node_modules)}


def test_one_case(broker: BrokerUnderTest, node_modules: Path, tmp_path: Path) -> None:
    case = "messages of one publisher arrive in order"
    given = {**environment(broker, node_modules), "AMQPLIB": "amqplib"}
    run_suites(tmp_path / "cases.jsonl", given, only=case).hold(case)


@pytest.mark.acceptance
@pytest.mark.parametrize("case", CASES)
def test_amqplib(suite: SuiteRun, case: str) -> None:
    suite.hold(case)


@pytest.mark.acceptance
def test_amqplib_ran_every_case(suite: SuiteRun) -> None:
    suite.hold_to_names(CASES)


@pytest.mark.acceptance
def test_amqplib_recovers_from_a_restart_of_the_broker(
    own_broker: BrokerProcess, node_modules: Path
) -> None:
    program = subprocess.Popen(
        ["node", str(SOURCES / "restart.cjs")],
        env={**os.environ, **environment(own_broker, node_modules)},
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
