"""A broker in a thread of this process, for tests that look inside."""

from __future__ import annotations

import pytest

from tests.support.broker_thread import BrokerThread, StartBroker


@pytest.fixture
def broker(start_broker: StartBroker) -> BrokerThread:
    """A broker with default settings."""
    return start_broker()
