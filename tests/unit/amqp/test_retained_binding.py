"""queue.bind to an exchange that retains much: what the client hears, and in which order."""

from __future__ import annotations

import pytest

from hareline.broker import retaining
from hareline.wire.methods import commands, encode_method

from .peer import Peer

QUEUE = commands.Queue


@pytest.fixture(autouse=True)
def slow(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two messages are copied at once, and the others at the end of the turn."""
    monkeypatch.setattr(retaining, "AT_ONCE", 2)
    monkeypatch.setattr(retaining, "PER_ITEM", 1)


@pytest.fixture
def peer(peer: Peer) -> Peer:
    """There is the exchange x, which retains 0 to 5, and the queue q."""
    peer.declare_exchange("x", "fanout", arguments={"x-retain": "count:100"})
    peer.declare("q")
    for number in range(6):
        peer.publish(1, "", b"%d" % number, exchange="x")
    peer.receive()
    return peer


def held(peer: Peer, name: str = "q") -> list[bytes]:
    return [entry.message.body for entry in peer.broker.queue(name).order]


@pytest.mark.row("E29")
def test_what_is_published_behind_the_bind_comes_behind_what_is_retained(peer: Peer) -> None:
    peer.send(1, QUEUE.Bind, queue="q", exchange="x")
    peer.publish(1, "", b"live", exchange="x")
    assert [each.name for each in peer.receive()] == ["queue.bind-ok"]
    assert held(peer) == [b"0", b"1", b"2", b"3", b"4", b"5", b"live"]


def test_methods_behind_the_bind_find_it_done(peer: Peer) -> None:
    peer.send_octets(
        encode_method(1, QUEUE.Bind, queue="q", exchange="x")
        + encode_method(1, QUEUE.Purge, queue="q")
        + encode_method(1, QUEUE.Unbind, queue="q", exchange="x")
    )
    replies = peer.receive()
    assert [each.name for each in replies] == ["queue.bind-ok", "queue.purge-ok", "queue.unbind-ok"]
    assert replies[1].method.message_count == 6
    assert len(peer.broker.vhost.bindings) == 0
    assert held(peer) == []


def test_a_client_that_leaves_meanwhile_is_not_waited_for(peer: Peer) -> None:
    other = peer.broker.connect()
    other.send(1, QUEUE.Bind, queue="q", exchange="x")
    other.lose()
    peer.broker.run_turns()
    assert len(held(peer)) == 6
    assert len(peer.broker.vhost.bindings) == 1


def test_a_consumer_gets_them_as_they_are_copied(peer: Peer) -> None:
    other = peer.broker.connect()
    other.call(1, commands.Basic.Consume, queue="q", no_ack=True)
    peer.bind("q", "x")
    peer.publish(1, "", b"live", exchange="x")
    peer.broker.run_turns()
    got = [each.body for each in other.receive()]
    assert got == [b"0", b"1", b"2", b"3", b"4", b"5", b"live"]


@pytest.mark.row("E29")
def test_a_transaction_is_retained_at_its_commit(peer: Peer) -> None:
    peer.call(1, commands.Tx.Select)
    for body in (b"6", b"7"):
        peer.publish(1, "", body, exchange="x")
    peer.call(1, commands.Tx.Rollback)
    peer.publish(1, "", b"8", exchange="x")
    peer.broker.run_turns()
    kept = peer.broker.queue("amq.retained.x")
    assert kept.ready_count == 6
    peer.call(1, commands.Tx.Commit)
    assert held(peer, "amq.retained.x")[-1:] == [b"8"]
    assert kept.ready_count == 7


def test_what_no_queue_takes_is_returned_though_it_is_retained(peer: Peer) -> None:
    peer.call(1, commands.Confirm.Select)
    peer.publish(1, "", b"6", exchange="x", mandatory=True)
    assert [each.name for each in peer.receive()] == ["basic.return", "basic.ack"]
    assert held(peer, "amq.retained.x")[-1:] == [b"6"]
