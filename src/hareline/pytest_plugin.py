"""The pytest plugin that comes with the package: brokers as fixtures. docs/testing.md shows them.

Every pytest run of an environment with this package imports this module, so it imports nothing of
the package before a test asks for a fixture.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from hareline.testing import EmbeddedBroker


@pytest.fixture(scope="session")
def amqp_broker() -> Iterator[str]:
    """URL of an in-memory AMQP 0-9-1 broker that runs for the whole test session.

    Give the queues of each test unique names, or let the broker name them.
    """
    from hareline.testing import running_broker

    with running_broker() as url:
        yield url


@pytest.fixture
def fresh_amqp_broker() -> Iterator[str]:
    """URL of an empty in-memory AMQP 0-9-1 broker for this test only."""
    from hareline.testing import running_broker

    with running_broker() as url:
        yield url


@pytest.fixture
def amqp_broker_factory() -> Iterator[Callable[..., EmbeddedBroker]]:
    """Starts AMQP 0-9-1 brokers for this test only, with the arguments of `EmbeddedBroker`.

    ``amqp_broker_factory(users={"ann": "secret"}, vhosts=["shop"], data_dir=tmp_path).url``
    """
    from hareline.testing import EmbeddedBroker

    with ExitStack() as stack:

        def start(*arguments: Any, **options: Any) -> EmbeddedBroker:
            return stack.enter_context(EmbeddedBroker(*arguments, **options))

        yield start
