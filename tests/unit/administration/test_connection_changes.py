"""Connections that follow a change in shares of the turn, in order, and not when they are gone."""

from __future__ import annotations

import pytest

from hareline.administration.users import ConnectionChanges
from hareline.amqp.ports import LiveConnection
from hareline.later import SHARE_S
from tests.support.administered import Administered


class Stand:
    """Four connections, and a share that has time for two. ``done``: what followed, in order."""

    def __init__(self) -> None:
        self.broker = Administered()
        self.peers = [self.broker.connect() for _ in range(4)]
        self.broker.clock.work_s = SHARE_S / 2
        self.changes = ConnectionChanges(self.broker.context)
        self.done: list[tuple[str, int]] = []

    def add(self, name: str) -> None:
        numbers = {peer.connection: number for number, peer in enumerate(self.peers)}

        def change(connection: LiveConnection) -> None:
            self.done.append((name, numbers[connection]))  # type: ignore[index]

        self.changes.add(numbers, change)


def test_the_first_follow_at_once_and_the_rest_in_later_turns() -> None:
    stand = Stand()
    stand.add("a")
    assert 0 < len(stand.done) < 4
    stand.broker.run_turns()
    assert stand.done == [("a", number) for number in range(4)]


def test_changes_share_a_share_and_keep_their_order() -> None:
    stand = Stand()
    stand.add("a")
    before = list(stand.done)
    stand.add("b")
    assert stand.done == before
    stand.broker.run_turns()
    assert stand.done == [(name, number) for name in "ab" for number in range(4)]
    stand.broker.clock.work_s = 0
    stand.add("c")  # and it begins again when all is done
    assert stand.done[8:] == [("c", number) for number in range(4)]


def test_a_connection_that_is_gone_by_then_is_left_out() -> None:
    stand = Stand()
    stand.add("a")
    stand.peers[3].lose()
    stand.broker.run_turns()
    assert stand.done == [("a", number) for number in range(3)]


def test_the_end_of_the_broker_finishes_what_is_due() -> None:
    stand = Stand()
    stand.add("a")
    stand.broker.context.shares.finish()
    assert stand.done == [("a", number) for number in range(4)]


def test_a_bug_in_one_leaves_the_others_to_the_next_change() -> None:
    stand = Stand()
    stand.add("a")
    first = len(stand.done)
    stand.changes.add([stand.peers[0].connection], fail)
    with pytest.raises(ZeroDivisionError):
        stand.broker.run_turns()
    assert stand.done == [("a", number) for number in range(4)]
    stand.add("b")
    stand.broker.run_turns()
    assert first < 4
    assert stand.done[4:] == [("b", number) for number in range(4)]


def fail(connection: LiveConnection) -> None:
    raise ZeroDivisionError
