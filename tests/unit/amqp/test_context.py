"""What the connections share: who is connected, and how much is in the queues."""

from __future__ import annotations

from pathlib import Path

import pytest

from hareline.amqp.context import Limits

from .large import LargeBroker
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


def test_octets_of_open_connections_are_counted(broker: SteppedBroker, peer: Peer) -> None:
    octets = broker.context.count_octets()
    other = broker.connect()
    traffic = other.connection.transport.traffic_bytes()
    assert broker.context.count_octets() == octets + traffic
    other.lose()
    assert broker.context.count_octets() == octets


@pytest.mark.parametrize(
    ("limits", "has_large_bodies", "expected"),
    [
        (Limits(), False, 131_064),
        (Limits(max_message_bytes=1000), False, 1000),
        (Limits(large_message_bytes=2000), False, 131_064),
        (Limits(large_message_bytes=2000), True, 2000),
    ],
    ids=["one frame", "all that may be sent", "no store of large ones", "a store of large ones"],
)
def test_a_body_takes_the_lane_if_it_is_one_frame_and_not_large(
    tmp_path: Path, limits: Limits, has_large_bodies: bool, expected: int
) -> None:
    broker = LargeBroker(tmp_path, limits=limits) if has_large_bodies else SteppedBroker(limits)
    assert broker.context.lane_body_max(131_072) == expected
