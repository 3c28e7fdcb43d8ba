"""basic.consume, cancel, get and qos: who gets what, how much of it, and when it stops."""

from __future__ import annotations

from collections import Counter

import pytest

from hareline.amqp import consuming
from hareline.wire.methods import commands
from hareline.wire.table import SignedInt

from .peer import Peer, Received, SteppedBroker, numbered, publish_octets

BASIC, QUEUE = commands.Basic, commands.Queue


def deliveries(peer: Peer) -> list[Received]:
    received = peer.receive()
    assert {one.name for one in received} <= {"basic.deliver"}, received
    return received


# ---------------------------------------------------------------------------------------- consume


def test_consume_ok_comes_before_the_first_delivery(peer: Peer) -> None:
    peer.declare("q")
    peer.fill("q", b"1", b"2")
    peer.consume("q", "t")
    ok, *delivered = peer.receive()
    assert (ok.name, ok.method.consumer_tag) == ("basic.consume-ok", "t")
    assert [(one.method.delivery_tag, one.body) for one in delivered] == [(1, b"1"), (2, b"2")]


def test_a_delivery_says_where_the_message_was_published(peer: Peer) -> None:
    peer.declare("q")
    peer.bind("q", "amq.topic", "#")
    peer.subscribe("q", "t")
    for key in ("a.b", "", "c", "a.b"):
        peer.publish(1, key, exchange="amq.topic")
        (one,) = deliveries(peer)
        method = one.method
        assert (method.consumer_tag, method.exchange, method.routing_key) == ("t", "amq.topic", key)
        assert not method.redelivered


def test_more_addresses_than_are_remembered_are_still_right(
    peer: Peer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(consuming, "ENVELOPES_MAX", 3)
    peer.declare("q")
    peer.bind("q", "amq.topic", "#")
    peer.subscribe("q", "t")
    keys = [f"key.{number}" for number in range(8)] * 2
    for key in keys:
        peer.publish(1, key, exchange="amq.topic")
    assert [one.method.routing_key for one in deliveries(peer)] == keys


@pytest.mark.row("E24")
def test_no_ack_deliveries_are_settled_at_once(broker: SteppedBroker, peer: Peer) -> None:
    peer.declare("q")
    peer.fill("q", *numbered(3))
    peer.consume("q", "t", no_ack=True)
    assert len(peer.receive()) == 4
    queue = broker.queue("q")
    assert (queue.ready_count, queue.unacked_count, queue.settled_count) == (0, 0, 3)
    peer.call(1, commands.Channel.Close)
    assert queue.ready_count == 0


# ------------------------------------------------------------------------------ who gets what


def test_messages_go_round_among_consumers(broker: SteppedBroker, peer: Peer) -> None:
    peer.declare("q")
    peers = [broker.connect() for _ in range(3)]
    for number, other in enumerate(peers):
        other.subscribe("q", f"t{number}")
    for body in numbered(9):  # one a turn
        peer.fill("q", body)
        broker.run_turns()
    assert [other.bodies() for other in peers] == [
        [b"0", b"3", b"6"],
        [b"1", b"4", b"7"],
        [b"2", b"5", b"8"],
    ]


@pytest.mark.parametrize("count", [2, 7, 100, 1000])
def test_a_pile_of_messages_is_dealt_out_evenly(broker: SteppedBroker, count: int) -> None:
    peer = broker.connect(channels=[1, 2, 3])
    peer.declare("q")
    for number in (1, 2, 3):
        peer.subscribe("q", f"t{number}", number=number)
    peer.send_octets(b"".join(publish_octets(1, "q", body) for body in numbered(count)))
    received = deliveries(peer)
    shares = Counter(one.channel for one in received)
    assert sorted(one.body for one in received) == sorted(numbered(count))
    assert max(shares.values()) - min(shares[number] for number in (1, 2, 3)) <= 1
    for number in (1, 2, 3):
        mine = [int(one.body) for one in received if one.channel == number]
        assert mine == sorted(mine)


def test_a_consumer_without_credit_is_passed_over(broker: SteppedBroker) -> None:
    peer = broker.connect(channels=[1, 2])
    peer.declare("q")
    peer.call(1, BASIC.Qos, prefetch_count=1)
    peer.subscribe("q", "narrow")
    peer.subscribe("q", "wide", number=2)
    peer.send_octets(b"".join(publish_octets(2, "q", body) for body in numbered(10)))
    shares = Counter(one.channel for one in deliveries(peer))
    assert shares == {1: 1, 2: 9}


def test_a_higher_priority_is_served_first_as_long_as_it_has_credit(
    broker: SteppedBroker,
) -> None:
    peer = broker.connect(channels=[1, 2, 3])
    peer.declare("q")
    for number, tag, priority in ((1, "low", -5), (2, "middle", 0), (3, "high", 10)):
        peer.call(number, BASIC.Qos, prefetch_count=2)
        arguments = {"x-priority": SignedInt(priority)} if priority else {}
        peer.subscribe("q", tag, number=number, arguments=arguments)
    peer.send_octets(b"".join(publish_octets(1, "q", body) for body in numbered(5)))
    received = [(one.method.consumer_tag, one.body) for one in deliveries(peer)]
    assert received == [
        ("high", b"0"),
        ("high", b"1"),
        ("middle", b"2"),
        ("middle", b"3"),
        ("low", b"4"),
    ]
    peer.ack(1, number=3)
    peer.fill("q", b"5")
    assert [one.method.consumer_tag for one in deliveries(peer)] == ["high"]


# ------------------------------------------------------------------------------------------- qos


def test_credit_outlives_cancelled_consumers(peer: Peer) -> None:
    peer.declare("q")
    peer.call(1, BASIC.Qos, prefetch_count=2, global_=True)
    for tag in ("a", "b", "c"):
        peer.fill("q", *numbered(3))
        peer.consume("q", tag)
        peer.receive()
        peer.call(1, BASIC.Cancel, consumer_tag=tag)
    peer.consume("q", "d")
    peer.receive()
    peer.ack(0, multiple=True)
    assert len(deliveries(peer)) == 2


# ---------------------------------------------------------------------------------------- cancel


def test_a_queue_that_vanishes_cancels_its_consumers_without_waiting(
    broker: SteppedBroker, peer: Peer
) -> None:
    peer.declare("q")
    other = broker.connect(channels=[1, 2])
    other.subscribe("q", "a")
    other.subscribe("q", "b", number=2)
    peer.call(1, QUEUE.Delete, queue="q")
    cancels = [(one.channel, one.name, one.method.consumer_tag) for one in other.receive()]
    assert cancels == [(1, "basic.cancel", "a"), (2, "basic.cancel", "b")]
    other.declare("q")
    other.subscribe("q", "a")  # the tag is free again


def test_the_servers_cancel_asks_for_no_answer_and_may_get_one(
    broker: SteppedBroker, peer: Peer
) -> None:
    peer.declare("q")
    other = broker.connect()
    other.subscribe("q", "t")
    peer.call(1, QUEUE.Delete, queue="q")
    assert other.expect(BASIC.Cancel).nowait


def test_a_client_that_knows_no_cancel_notify_is_not_told(
    broker: SteppedBroker, peer: Peer
) -> None:
    peer.declare("q")
    other = broker.connect(capabilities={})
    other.subscribe("q", "t")
    peer.call(1, QUEUE.Delete, queue="q")
    other.expect_nothing()


def test_acks_for_a_deleted_queue_are_still_good(peer: Peer) -> None:
    peer.declare("q")
    peer.fill("q", *numbered(3))
    peer.consume("q", "t")
    assert len(peer.receive()) == 4
    peer.send(1, QUEUE.Delete, queue="q")
    assert sorted(one.name for one in peer.receive()) == ["basic.cancel", "queue.delete-ok"]
    peer.ack(1)
    peer.nack(2)
    peer.send(1, BASIC.Reject, delivery_tag=3, requeue=False)
    peer.expect_nothing()


# ------------------------------------------------------------------------------------------- get


def test_a_long_message_is_cut_to_the_readers_frames(broker: SteppedBroker, peer: Peer) -> None:
    peer.declare("q")
    peer.fill("q", b"x" * 50_000, b"y" * 50_000)
    small = broker.connect(frame_max=4096, channels=[7])
    received = small.get("q", number=7)  # which checks the size of every frame
    assert received is not None
    assert received.body == b"x" * 50_000
    small.consume("q", "t", number=7)
    assert small.receive()[1].body == b"y" * 50_000
