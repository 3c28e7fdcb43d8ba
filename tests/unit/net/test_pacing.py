"""Which connections wait after a turn, and which of them is read next."""

from __future__ import annotations

import pytest

from hareline.net.pacing import LARGE_BUFFER_BYTES, READ_BUFFER_BYTES, Paced, Pacing
from tests.support.turns import ManualTurn


class Client(Paced):
    """A connection of which a test says whether it publishes."""

    def __init__(self, publishes: bool) -> None:
        self._publishes = publishes
        self.is_behind = False
        self.changes = 0

    @property
    def publishes(self) -> bool:
        return self._publishes

    def set_behind(self, is_behind: bool) -> None:
        self.is_behind = is_behind
        self.changes += 1


@pytest.fixture
def pacing(turn: ManualTurn) -> Pacing:
    return Pacing(turn)


def publishers(count: int) -> list[Client]:
    return [Client(publishes=True) for _ in range(count)]


def test_a_paused_connection_waits_for_the_end_of_the_turn(
    pacing: Pacing, turn: ManualTurn
) -> None:
    clients = [Client(publishes=True), Client(publishes=False)]
    for client in clients:
        pacing.pause(client)
    assert [client.is_behind for client in clients] == [True, True]
    assert turn.is_armed
    pacing.on_turn_finished()
    assert [client.is_behind for client in clients] == [False, False]


def test_a_connection_that_waits_already_is_paused_once(pacing: Pacing) -> None:
    client = Client(publishes=True)
    pacing.pause(client)
    pacing.pause(client)
    assert client.changes == 1
    pacing.on_turn_finished()
    pacing.on_turn_finished()
    assert client.changes == 2


def test_publishers_are_read_one_a_turn_while_dispatch_is_behind(
    pacing: Pacing, turn: ManualTurn
) -> None:
    first, second, third = clients = publishers(3)
    for client in clients:
        pacing.pause(client)
    turn.is_behind = True
    pacing.on_turn_finished()
    assert [client.is_behind for client in clients] == [False, True, True]
    pacing.pause(first)  # it has published again, and stands last
    pacing.on_turn_finished()
    assert [client.is_behind for client in clients] == [True, False, True]
    turn.is_behind = False
    pacing.on_turn_finished()
    assert not any(client.is_behind for client in (first, second, third))


def test_no_publisher_is_read_while_the_store_is_behind(pacing: Pacing, turn: ManualTurn) -> None:
    publisher, other = Client(publishes=True), Client(publishes=False)
    pacing.pause(publisher)
    pacing.pause(other)
    turn.is_behind = turn.is_store_behind = True
    pacing.on_turn_finished()
    assert (publisher.is_behind, other.is_behind) == (True, False)
    turn.is_store_behind = False
    pacing.on_turn_finished()
    assert not publisher.is_behind


def test_a_connection_that_has_ended_is_never_read_again(pacing: Pacing, turn: ManualTurn) -> None:
    first, second = publishers(2)
    for client in (first, second):
        pacing.pause(client)
    pacing.forget(first)
    pacing.forget(first)
    turn.is_behind = True
    pacing.on_turn_finished()
    assert (first.is_behind, second.is_behind) == (True, False)


def test_the_buffers_are_shared_and_have_their_sizes(pacing: Pacing) -> None:
    assert len(pacing.read_buffer) == READ_BUFFER_BYTES
    assert len(pacing.large_buffer) == LARGE_BUFFER_BYTES
    assert not pacing.read_buffer.readonly
