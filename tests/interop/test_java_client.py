"""The RabbitMQ Java client: the JUnit suite of ``java-client/``, run by Maven.

Maven resolves the pinned versions into its ordinary local repository, so a second run needs no
network; what it builds goes to ``.cache/interop-java-client``.
"""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from xml.etree import ElementTree

import pytest

from tests.support.broker_process import BrokerUnderTest

from .suite_runs import CACHE, CaseResult, SuiteRun, names_in, need_programs, reason_line, run

need_programs("mvn", "javac")
pytestmark = pytest.mark.timeout(900)

MODULE = Path(__file__).parent / "java-client"
BUILD = CACHE / "interop-java-client"
CASE = re.compile(r"@Test\s+void (?P<name>\w+)\(")
CASES = [
    f"{source.stem}.{name}"
    for source in sorted(MODULE.rglob("*Test.java"))
    for name in names_in([source], CASE)
]

#: Downloads on a fresh machine, compiling, and about forty seconds of cases.
RUN_TIMEOUT_S = 800
UNRESOLVED = re.compile(r"could not (be resolved|resolve|transfer)", re.IGNORECASE)


@pytest.fixture(scope="module")
def suite(broker: BrokerUnderTest) -> SuiteRun:
    reports = BUILD / "surefire-reports"
    shutil.rmtree(reports, ignore_errors=True)
    properties = {
        "broker.host": broker.host,
        "broker.port": broker.port,
        "broker.username": broker.username,
        "broker.password": broker.password,
        "broker.vhost": broker.vhost,
        "interop.build": BUILD,
        "style.color": "never",
    }
    command = [
        "mvn",
        "-q",
        "-B",
        "test",
        *(f"-D{key}={value}" for key, value in properties.items()),
    ]
    finished = run(command, cwd=MODULE, timeout_s=RUN_TIMEOUT_S)
    if not reports.exists() and UNRESOLVED.search(finished.output):
        pytest.skip(f"Maven cannot fetch the Java client: {reason_line(finished.output)}")
    results = {}
    for report in reports.glob("TEST-*.xml"):
        for case in ElementTree.parse(report).getroot().iter("testcase"):
            name = f"{case.attrib['classname'].rpartition('.')[2]}.{case.attrib['name']}"
            results[name] = _result(case)
    return SuiteRun(finished, results)


def _result(case: ElementTree.Element) -> CaseResult:
    for kind in ("failure", "error"):
        found = case.find(kind)
        if found is not None:
            return CaseResult("fail", f"{found.get('message') or kind}\n{found.text or ''}")
    skipped = case.find("skipped")
    if skipped is not None:
        first_line = (skipped.get("message") or skipped.text or "").strip().partition("\n")[0]
        return CaseResult("skip", first_line.partition("Assumption failed: ")[2] or first_line)
    return CaseResult("pass", "")


@pytest.mark.parametrize("case", CASES)
def test_java_client(suite: SuiteRun, case: str) -> None:
    suite.hold(case)


def test_java_client_ran_every_case(suite: SuiteRun) -> None:
    suite.hold_to_names(CASES)
