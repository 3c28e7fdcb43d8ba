"""tx.select, commit and rollback: what they answer, and when."""

from __future__ import annotations

import pytest

from hareline.wire.methods import Frame, commands

from ..peer import Peer, SteppedBroker

TX, BASIC, QUEUE = commands.Tx, commands.Basic, commands.Queue


@pytest.fixture
def transacting(peer: Peer) -> Peer:
    """Channel 1 is transactional; there is a queue q."""
    peer.declare("q")
    peer.call(1, TX.Select)
    return peer


def numbered(count: int) -> list[bytes]:
    return [b"%d" % number for number in range(count)]


# -------------------------------------------------------------------------------------- publishes


def test_a_commit_of_nothing_is_answered(transacting: Peer) -> None:
    for _ in range(2):
        transacting.call(1, TX.Commit)
        transacting.call(1, TX.Rollback)


def test_a_second_commit_repeats_nothing(transacting: Peer) -> None:
    transacting.fill("q", b"1")
    transacting.call(1, TX.Commit)
    transacting.call(1, TX.Commit)
    assert transacting.drain("q") == [b"1"]


def test_select_twice_keeps_what_is_open(transacting: Peer) -> None:
    transacting.fill("q", b"1")
    transacting.call(1, TX.Select)
    transacting.call(1, TX.Commit)
    assert transacting.drain("q") == [b"1"]


def test_returns_come_with_the_commit_and_before_its_answer(transacting: Peer) -> None:
    transacting.publish(1, "nowhere", b"1", mandatory=True)
    transacting.publish(1, "q", b"2", mandatory=True)
    transacting.publish(1, "nowhere", b"3", mandatory=True)
    transacting.expect_nothing()
    transacting.send(1, TX.Commit)
    *returned, ok = transacting.receive()
    assert [(one.name, one.body) for one in returned] == [
        ("basic.return", b"1"),
        ("basic.return", b"3"),
    ]
    assert ok.name == "tx.commit-ok"


def test_nothing_is_returned_after_a_rollback(transacting: Peer) -> None:
    transacting.publish(1, "nowhere", b"1", mandatory=True)
    transacting.call(1, TX.Rollback)
    transacting.call(1, TX.Commit)


# ------------------------------------------------------------------------------ acknowledgements


@pytest.fixture
def holding(transacting: Peer) -> Peer:
    """Has got messages 0 to 3 as tags 1 to 4, in a transaction with nothing in it."""
    transacting.fill("q", *numbered(4))
    transacting.call(1, TX.Commit)
    for _ in range(4):
        assert transacting.get("q") is not None
    return transacting


# ----------------------------------------------------------------------------------- the refusals


@pytest.mark.parametrize("method_class", [TX.Commit, TX.Rollback])
def test_a_channel_that_is_not_transactional_is_406(peer: Peer, method_class: type[Frame]) -> None:
    assert peer.refused(1, method_class) == (
        406,
        "PRECONDITION_FAILED - channel is not transactional",
    )


def test_the_end_of_the_channel_is_a_rollback(broker: SteppedBroker, holding: Peer) -> None:
    holding.ack(2, multiple=True)
    holding.fill("q", b"never seen")
    holding.call(1, commands.Channel.Close)
    queue = broker.queue("q")
    assert (queue.ready_count, queue.unacked_count) == (4, 0)
    holding.open(1)
    assert holding.drain("q") == numbered(4)


def test_a_reopened_channel_is_not_transactional(transacting: Peer) -> None:
    transacting.call(1, commands.Channel.Close)
    transacting.open(1)
    transacting.fill("q", b"1")
    assert transacting.drain("q") == [b"1"]


# -------------------------------------------------------------------------------------- full queues


@pytest.mark.row("A25")
def test_a_refused_publish_makes_the_commit_partial(
    transacting: Peer, broker: SteppedBroker
) -> None:
    transacting.declare("full", arguments={"x-max-length": 1, "x-overflow": "reject-publish"})
    transacting.fill("full", b"1", b"2")
    transacting.fill("q", b"3")
    transacting.expect_nothing()
    assert transacting.refused(1, TX.Commit) == (
        406,
        "PRECONDITION_FAILED - partial tx completion",
    )
    assert (broker.queue("full").ready_count, broker.queue("q").ready_count) == (1, 1)


def test_the_acknowledgements_of_a_partial_commit_are_carried_out(
    holding: Peer, broker: SteppedBroker
) -> None:
    holding.declare("full", arguments={"x-max-length": 0, "x-overflow": "reject-publish"})
    holding.ack(4, multiple=True)
    holding.fill("full", b"x")
    assert holding.refused(1, TX.Commit)[0] == 406
    assert (broker.queue("q").ready_count, broker.queue("q").unacked_count) == (0, 0)
