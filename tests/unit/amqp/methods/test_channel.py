"""channel.open, close and flow, and access.request."""

from __future__ import annotations

from hareline.wire.methods import Access, commands

from ..peer import Peer, SteppedBroker

CHANNEL, QUEUE, BASIC = commands.Channel, commands.Queue, commands.Basic


# ---------------------------------------------------------------------------------------- closing


def test_open_ok_carries_an_empty_long_string(broker: SteppedBroker) -> None:
    peer = broker.connect(channels=[])
    assert peer.call(1, CHANNEL.Open).channel_id == ""


def test_a_channel_the_client_closed_can_be_opened_again(peer: Peer) -> None:
    for _ in range(3):
        peer.call(1, CHANNEL.Close, reply_code=200, reply_text="done")
        peer.open(1)
    peer.declare("q")


def test_a_closed_channel_is_a_channel_that_was_never_opened(peer: Peer) -> None:
    peer.call(1, CHANNEL.Close)
    assert peer.refused(1, BASIC.Qos) == (504, "CHANNEL_ERROR - expected 'channel.open'")


# ---------------------------------------------------------------------------------- flow, access


def test_flow_off_pauses_deliveries_and_flow_on_resumes_them(
    broker: SteppedBroker, peer: Peer
) -> None:
    peer.declare("q")
    peer.subscribe("q", "t")
    assert not peer.call(1, CHANNEL.Flow, active=False).active
    peer.fill("q", b"1", b"2")
    peer.expect_nothing()
    assert broker.queue("q").ready_count == 2
    peer.send(1, CHANNEL.Flow, active=True)
    flow_ok, *deliveries = peer.receive()
    assert (flow_ok.name, flow_ok.method.active) == ("channel.flow-ok", True)
    assert [one.body for one in deliveries] == [b"1", b"2"]


def test_flow_on_is_answered_even_when_it_changes_nothing(peer: Peer) -> None:
    assert peer.call(1, CHANNEL.Flow, active=True).active


def test_flow_off_is_for_deliveries_alone(peer: Peer) -> None:
    peer.declare("q")
    peer.call(1, CHANNEL.Flow, active=False)
    peer.fill("q", b"1")
    received = peer.get("q")
    assert received is not None
    assert received.body == b"1"


def test_flow_off_is_for_one_channel(broker: SteppedBroker) -> None:
    peer = broker.connect(channels=[1, 2])
    peer.declare("q")
    peer.subscribe("q", "a")
    peer.subscribe("q", "b", number=2)
    peer.call(1, CHANNEL.Flow, active=False)
    peer.fill("q", b"1", b"2")
    assert [one.channel for one in peer.receive()] == [2, 2]


def test_a_consumer_started_while_flow_is_off_waits(peer: Peer) -> None:
    peer.declare("q")
    peer.fill("q", b"1")
    peer.call(1, CHANNEL.Flow, active=False)
    peer.subscribe("q", "t")
    peer.send(1, CHANNEL.Flow, active=True)
    assert [one.name for one in peer.receive()] == ["channel.flow-ok", "basic.deliver"]


def test_flow_off_twice_and_on_once_delivers_once(peer: Peer) -> None:
    peer.declare("q")
    peer.subscribe("q", "t")
    peer.call(1, CHANNEL.Flow, active=False)
    peer.fill("q", b"1")
    peer.expect_nothing()
    peer.call(1, CHANNEL.Flow, active=False)
    peer.fill("q", b"2")
    peer.expect_nothing()
    peer.send(1, CHANNEL.Flow, active=True)
    assert [one.body for one in peer.receive()[1:]] == [b"1", b"2"]


def test_flow_ok_needs_no_answer(peer: Peer) -> None:
    peer.send(1, CHANNEL.FlowOk, active=True)
    peer.expect_nothing()


def test_access_request_is_always_granted_ticket_1(peer: Peer) -> None:
    assert peer.call(1, Access.Request, realm="/data", exclusive=True).ticket == 1
