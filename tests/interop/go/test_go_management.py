"""rabbit-hole, the Go client of the management API: the tests in ``go-management/``.

Terraform's provider is made of its calls.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.broker_process import BrokerProcess

from ..suite_runs import SuiteRun, need_programs
from .go_runs import cases_of, run_module

need_programs("go")
pytestmark = [pytest.mark.acceptance, pytest.mark.timeout(400)]

MODULE = Path(__file__).parents[1] / "go-management"
CASES = cases_of(MODULE)


@pytest.fixture(scope="module")
def suite(daemon: BrokerProcess) -> SuiteRun:
    return run_module(MODULE, (1, 21), {"MANAGEMENT_URL": daemon.management_url})


@pytest.mark.parametrize("case", CASES)
def test_go_management(suite: SuiteRun, case: str) -> None:
    suite.hold(case)


def test_go_management_ran_every_case(suite: SuiteRun) -> None:
    suite.hold_to_names(CASES)
