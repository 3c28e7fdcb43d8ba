"""The pytest plugin that comes with the package: fixture ``amqp_broker``."""

from __future__ import annotations

from collections.abc import Iterator

import pytest


@pytest.fixture(scope="session")
def amqp_broker() -> Iterator[str]:
    """URL of an in-memory AMQP 0-9-1 broker that runs for the whole test session.

    Give queues of your tests names of their own, or let the broker name them.
    """
    # imported here, so that a suite that does not use the fixture does not pay for it
    from hareline.testing import running_broker

    with running_broker() as url:
        yield url
