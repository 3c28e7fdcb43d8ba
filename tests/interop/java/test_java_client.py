"""The RabbitMQ Java client: the JUnit suite of ``java-client/``, run by Maven."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.broker_process import BrokerUnderTest

from ..suite_runs import CACHE, SuiteRun, need_programs
from .maven_runs import MavenModule, properties_of

need_programs("mvn", "javac")
pytestmark = pytest.mark.timeout(900)

MODULE = MavenModule(
    Path(__file__).parents[1] / "java-client", CACHE / "interop-java-client", "hareline.interop"
)
CASES = MODULE.cases()

#: Downloads on a fresh machine, compiling, and about forty seconds of cases.
RUN_TIMEOUT_S = 800
SKIP = "Maven cannot fetch the Java client"


@pytest.fixture(scope="module")
def suite(broker: BrokerUnderTest) -> SuiteRun:
    return MODULE.run(properties_of(broker), timeout_s=RUN_TIMEOUT_S, skip=SKIP)


def test_one_case(broker: BrokerUnderTest) -> None:
    case = "PublishingTest.messagesOfOnePublisherArriveInOrder"
    properties = {**properties_of(broker), "test": case.replace(".", "#")}
    MODULE.run(properties, timeout_s=RUN_TIMEOUT_S, skip=SKIP).hold(case)


@pytest.mark.acceptance
@pytest.mark.parametrize("case", CASES)
def test_java_client(suite: SuiteRun, case: str) -> None:
    suite.hold(case)


@pytest.mark.acceptance
def test_java_client_ran_every_case(suite: SuiteRun) -> None:
    suite.hold_to_names(CASES)
