"""One broker for the tests of a module; each test names its objects for itself, and has its own
connections."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.api_broker import ApiBroker, api_broker


@pytest.fixture(scope="module")
def running() -> Iterator[ApiBroker]:
    with api_broker() as made:
        yield made


@pytest.fixture
def broker(running: ApiBroker) -> Iterator[ApiBroker]:
    yield running
    running.disconnect()
