"""Brokers in the event loop of the test, which asks over real HTTP and looks inside meanwhile."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from hareline.server.broker import Broker
from hareline.settings import Settings
from tests.support.broker_thread import broker_in_loop


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    """What a module may give of its own."""
    return Settings(data_dir=tmp_path)


@pytest.fixture
async def broker(settings: Settings) -> AsyncIterator[Broker]:
    async with broker_in_loop(settings) as made:
        yield made
