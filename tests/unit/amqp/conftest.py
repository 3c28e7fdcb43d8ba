"""A stepped broker, and one client that has opened channel 1 on it."""

from __future__ import annotations

import pytest

from .peer import Peer, SteppedBroker


@pytest.fixture
def broker() -> SteppedBroker:
    return SteppedBroker()


@pytest.fixture
def peer(broker: SteppedBroker) -> Peer:
    return broker.connect()
