"""confirm.select: once, with or without an answer, and never beside tx."""

from __future__ import annotations

import pytest

from hareline.wire.methods import commands, encode_method

from ..peer import Peer, publish_octets


@pytest.fixture
def confirming(peer: Peer) -> Peer:
    """Channel 1 is in confirm mode; there is a queue q."""
    peer.declare("q")
    peer.call(1, commands.Confirm.Select)
    return peer


def acks(peer: Peer) -> list[tuple[int, bool]]:
    received = peer.receive()
    assert {one.name for one in received} <= {"basic.ack"}, received
    return [(one.method.delivery_tag, one.method.multiple) for one in received]


def test_counting_starts_with_the_first_publish_after_select(peer: Peer) -> None:
    peer.declare("q")
    peer.fill("q", b"1", b"2")
    peer.call(1, commands.Confirm.Select)
    peer.fill("q", b"3")
    assert acks(peer) == [(1, False)]


def test_select_twice_changes_nothing(confirming: Peer) -> None:
    confirming.fill("q", b"1")
    assert acks(confirming) == [(1, False)]
    confirming.call(1, commands.Confirm.Select)
    confirming.fill("q", b"2")
    assert acks(confirming) == [(2, False)]


def test_select_without_an_answer(peer: Peer) -> None:
    peer.send(1, commands.Confirm.Select, nowait=True)
    peer.expect_nothing()
    peer.publish(1, "q")
    assert acks(peer) == [(1, False)]


def test_a_channel_in_confirm_mode_cannot_become_transactional(confirming: Peer) -> None:
    assert confirming.refused(1, commands.Tx.Select) == (
        406,
        "PRECONDITION_FAILED - cannot switch from confirm to tx mode",
    )


def test_a_transactional_channel_cannot_confirm(peer: Peer) -> None:
    peer.call(1, commands.Tx.Select)
    assert peer.refused(1, commands.Confirm.Select) == (
        406,
        "PRECONDITION_FAILED - cannot switch from tx to confirm mode",
    )


def test_a_reopened_channel_is_not_in_confirm_mode(confirming: Peer) -> None:
    confirming.send_octets(
        publish_octets(1, "q", b"x")
        + encode_method(1, commands.Channel.Close)
        + encode_method(1, commands.Channel.Open)
        + publish_octets(1, "q", b"x")
    )
    names = [one.name for one in confirming.receive()]
    assert names == ["basic.ack", "channel.close-ok", "channel.open-ok"]
