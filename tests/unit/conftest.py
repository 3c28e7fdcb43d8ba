"""What unit tests are put on: a turn, a virtual host, a broker, each stepped by hand."""

from __future__ import annotations

import pytest

from hareline.broker.vhost import VirtualHost
from hareline.storage.interface import MessageStore
from hareline.storage.memory import MemoryStore
from tests.support.turns import ManualTurn
from tests.support.vhosts import VhostStand, make_vhost
from tests.unit.amqp.peer import Peer, SteppedBroker


@pytest.fixture
def turn() -> ManualTurn:
    return ManualTurn()


@pytest.fixture
def vhost(turn: ManualTurn) -> VirtualHost:
    """One whose clock stands still."""
    return make_vhost(turn)


@pytest.fixture
def host() -> VhostStand:
    return VhostStand()


@pytest.fixture
def store() -> MessageStore:
    """Store of ``broker``; a module that needs another one replaces this fixture."""
    return MemoryStore()


@pytest.fixture
def broker(store: MessageStore) -> SteppedBroker:
    return SteppedBroker(store=store)


@pytest.fixture
def peer(broker: SteppedBroker) -> Peer:
    """A client of it that has opened channel 1."""
    return broker.connect()
