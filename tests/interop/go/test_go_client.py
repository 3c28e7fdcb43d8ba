"""amqp091-go, the RabbitMQ team's Go client: the tests in ``go/``, run by ``go test``."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.broker_process import BrokerUnderTest

from ..suite_runs import SuiteRun, need_programs
from .go_runs import cases_of, run_module

need_programs("go")
pytestmark = pytest.mark.timeout(400)

MODULE = Path(__file__).parent
CASES = cases_of(MODULE)
VERSION = (1, 20)


@pytest.fixture(scope="module")
def suite(broker: BrokerUnderTest) -> SuiteRun:
    return run_module(MODULE, VERSION, {"AMQP_URL": broker.url})


def test_one_case(broker: BrokerUnderTest) -> None:
    case = "TestPublishAndConsumeInOrder"
    run_module(MODULE, VERSION, {"AMQP_URL": broker.url}, only=case).hold(case)


@pytest.mark.acceptance
@pytest.mark.parametrize("case", CASES)
def test_go_client(suite: SuiteRun, case: str) -> None:
    suite.hold(case)


@pytest.mark.acceptance
def test_go_client_ran_every_case(suite: SuiteRun) -> None:
    suite.hold_to_names(CASES)
