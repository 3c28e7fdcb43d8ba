"""Heartbeats both ways: when one is sent, and when the peer counts as dead."""

from __future__ import annotations

import pytest

from hareline import events
from hareline.wire.methods import commands

from .peer import HEARTBEAT, Peer, SteppedBroker, frame

BEAT = frame(HEARTBEAT, 0, b"")


@pytest.fixture
def beating(broker: SteppedBroker) -> Peer:
    """Negotiated an interval of 10 seconds, and everything read."""
    return broker.connect(heartbeat_s=10)


def beats(peer: Peer) -> int:
    received = peer.receive()
    assert {one.name for one in received} <= {"heartbeat"}
    return len(received)


def test_an_idle_connection_gets_its_first_beat_after_half_an_interval(
    broker: SteppedBroker, beating: Peer
) -> None:
    broker.advance(4.9)
    beating.expect_nothing()
    broker.advance(0.1)
    assert beats(beating) == 1


def test_every_half_interval_brings_a_beat(broker: SteppedBroker, beating: Peer) -> None:
    for _ in range(6):
        beating.send_octets(BEAT)
        broker.advance(5)
        assert beats(beating) == 1


def test_a_reply_just_after_a_beat_does_not_put_the_next_one_off(
    broker: SteppedBroker, beating: Peer
) -> None:
    """It would leave the client without anything for almost a whole interval otherwise."""
    # differs: heartbeats
    for number in range(6):
        broker.advance(5)
        assert beats(beating) == 1
        beating.declare(f"q{number}")


def test_a_silent_client_is_dropped_at_its_fifth_silent_half_interval(
    broker: SteppedBroker, beating: Peer
) -> None:
    broker.advance(25)  # in the first one connection.open has come
    assert beating.transport.state == "open"
    broker.advance(5)
    assert beating.transport.state == "dropped"
    names = {one.name for one in beating.receive()}
    assert names == {"heartbeat"}  # and no connection.close
    assert broker.reported(events.HEARTBEAT_MISSED) == [
        {"peer": "127.0.0.1:40000", "interval_s": 10}
    ]


@pytest.mark.parametrize("octets", [BEAT, BEAT[:3]], ids=["heartbeat", "part of a frame"])
def test_any_octets_keep_a_client_alive(
    broker: SteppedBroker, beating: Peer, octets: bytes
) -> None:
    for _ in range(2):  # twice 3 octets are no whole frame yet
        beating.send_octets(octets)
        broker.advance(18)
    assert beating.transport.state == "open"


def test_0_switches_heartbeats_off(broker: SteppedBroker) -> None:
    peer = broker.connect(heartbeat_s=0)
    broker.advance(100_000)
    peer.expect_nothing()
    assert peer.transport.state == "open"


def test_a_blocked_connection_is_not_watched(broker: SteppedBroker, beating: Peer) -> None:
    broker.context.alarms.set("memory")
    beating.publish(1, "q")
    beating.expect(commands.Connection.Blocked)
    assert not beating.transport.is_reading
    broker.advance(300)
    assert beating.transport.state == "open"
    assert beats(beating) > 20  # the client still hears from us
    broker.context.alarms.clear("memory")
    beating.expect(commands.Connection.Unblocked)
    broker.advance(30)
    assert beating.transport.state == "dropped"


def test_nothing_is_sent_after_the_end(broker: SteppedBroker, beating: Peer) -> None:
    beating.call(0, commands.Connection.Close)
    broker.advance(100)
    beating.expect_nothing()
    assert beating.transport.state == "closed"
    assert broker.reported(events.HEARTBEAT_MISSED) == []
