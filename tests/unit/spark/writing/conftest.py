"""A broker process for the tests of the sink."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.broker_process import BrokerProcess


@pytest.fixture(scope="module")
def broker(daemon: BrokerProcess) -> BrokerProcess:
    """One daemon for a module; its tests use queues of their own."""
    return daemon


@pytest.fixture
def own_broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    """A daemon that the test may configure, block or kill; not started."""
    daemon = BrokerProcess(tmp_path)
    try:
        yield daemon
    finally:
        daemon.kill()
