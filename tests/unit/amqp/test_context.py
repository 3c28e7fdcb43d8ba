"""What the connections share: who is connected, and how much is in the queues."""

from __future__ import annotations

from .peer import Peer, SteppedBroker


def test_connections_are_known_from_the_socket_to_its_loss(broker: SteppedBroker) -> None:
    peers = [broker.accept(), broker.connect()]
    assert list(broker.context.connections) == [peer.connection for peer in peers]
    assert [peer.connection.is_running for peer in peers] == [False, True]
    peers[0].lose()
    assert list(broker.context.connections) == [peers[1].connection]


def test_the_loss_of_the_last_connection_is_told_once(broker: SteppedBroker) -> None:
    told: list[int] = []
    peers = [broker.connect(), broker.connect()]
    broker.context.on_last_connection_gone = lambda: told.append(len(broker.context.connections))
    peers[0].lose()
    assert told == []
    peers[1].lose()
    assert told == [0]


def test_entries_are_counted_ready_or_not_in_every_vhost(broker: SteppedBroker, peer: Peer) -> None:
    broker.add_vhost("other")
    broker.add_user("alice", "alice", vhosts=["other"])
    elsewhere = broker.connect("alice", vhost="other")
    for one in (peer, elsewhere):
        one.declare("q")
        one.fill("q", b"1", b"2")
    assert peer.get("q") is not None
    assert broker.context.count_entries() == 4
    peer.ack(1)
    assert broker.context.count_entries() == 3
