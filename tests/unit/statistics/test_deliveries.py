"""What consumers have unacknowledged, looked at once for each channel."""

from __future__ import annotations

import pytest

from hareline.amqp.consuming import ChannelConsumer
from hareline.statistics import unacked as module
from hareline.statistics.unacked import Deliveries
from hareline.wire.methods import commands
from tests.unit.amqp.peer import Peer, SteppedBroker

BASIC = commands.Basic


def consumer_of(peer: Peer, tag: str, number: int = 1) -> ChannelConsumer:
    return peer.connection.channels.by_number[number].consumers.by_tag[tag]


def test_each_consumer_has_its_part_of_a_channel(broker: SteppedBroker, peer: Peer) -> None:
    for name in ("q", "r"):
        peer.declare(name)
        peer.subscribe(name, f"of {name}")
    peer.fill("q", b"1")
    peer.receive()
    peer.fill("r", b"22", b"333")
    peer.receive()
    found = Deliveries()
    assert found.of_consumer(consumer_of(peer, "of q")) == (1, 1)
    assert found.of_consumer(consumer_of(peer, "of r")) == (2, 2)
    assert found.of_queue(broker.queue("q")) == (1, 1)
    assert found.of_queue(broker.queue("r")) == (2, 5)
    assert found.unacked_bytes(broker.queue("r")) == 5
    peer.ack(2)
    assert Deliveries().of_consumer(consumer_of(peer, "of r")) == (3, 1)


def test_a_queue_with_consumers_on_two_channels(broker: SteppedBroker, peer: Peer) -> None:
    peer.open(2)
    peer.declare("q")
    peer.subscribe("q", "one")
    peer.subscribe("q", "two", number=2)
    peer.fill("q", b"1", b"22")
    peer.receive()
    assert Deliveries().of_queue(broker.queue("q")) == (2, 3)


def test_what_is_not_acknowledged_is_not_counted(broker: SteppedBroker, peer: Peer) -> None:
    peer.declare("q")
    peer.subscribe("q", "automatic", no_ack=True)
    peer.fill("q", b"1")
    peer.receive()
    found = Deliveries()
    assert found.of_consumer(consumer_of(peer, "automatic")) == (0, 0)
    assert found.unacked_bytes(broker.queue("q")) == 0


def test_what_was_got_is_taken_to_be_like_what_is_ready(broker: SteppedBroker, peer: Peer) -> None:
    peer.declare("q")
    peer.fill("q", b"1234", b"1234")
    assert peer.get("q") is not None
    assert Deliveries().of_queue(broker.queue("q")) == (0, 0)
    assert Deliveries().unacked_bytes(broker.queue("q")) == 4


def test_a_channel_is_looked_at_once_and_only_so_far(
    broker: SteppedBroker, peer: Peer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "LOOKS_MAX", 4)
    for name in ("q", "r"):
        peer.declare(name)
        peer.subscribe(name, name)
        peer.fill(name, *[b"1234"] * 4)
        peer.receive()
    found = Deliveries()
    assert found.of_consumer(consumer_of(peer, "q")) == (1, 8)  # all that were looked at are its
    assert found.of_consumer(consumer_of(peer, "r")) == (0, 0)
    assert found.unacked_bytes(broker.queue("q")) == 16
    peer.ack(8, multiple=True)
    assert found.of_queue(broker.queue("q")) == (4, 16)


def test_credit_says_what_was_not_looked_at(peer: Peer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LOOKS_MAX", 2)
    peer.declare("q")
    peer.call(1, BASIC.Qos, prefetch_count=10)
    peer.subscribe("q", "c")
    peer.fill("q", *[b"1234"] * 8)
    peer.receive()
    assert Deliveries().of_consumer(consumer_of(peer, "c")) == (1, 8)
