"""The wall clock of brokers of this process, which can be set."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from hareline import clock
from hareline.management.api import nodes
from tests.support.broker_thread import BrokerThread, broker_in_thread


class ShiftedTime:
    """The module ``time`` as the broker sees it; ``shift_s`` is what was set."""

    def __init__(self) -> None:
        self.shift_s = 0.0

    def time(self) -> float:
        return time.time() + self.shift_s

    def monotonic(self) -> float:
        return time.monotonic()


@pytest.fixture
def wall(monkeypatch: pytest.MonkeyPatch) -> ShiftedTime:
    """The wall clock of brokers of this process."""
    shifted = ShiftedTime()
    for module in (clock, nodes):
        monkeypatch.setattr(module, "time", shifted)
    return shifted


@pytest.fixture(scope="module")
def broker() -> Iterator[BrokerThread]:
    """A broker with default settings for the tests of a module."""
    with broker_in_thread() as made:
        yield made
