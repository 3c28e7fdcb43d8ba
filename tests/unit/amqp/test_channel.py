"""Channels of a connection: numbers, opening, closing from either side, reuse, flow, dispatch."""

from __future__ import annotations

from typing import Any

import pytest

from hareline import events
from hareline.wire.methods import Access, Frame, commands, encode_method

from .peer import HEADER, METHOD, Peer, Refusal, SteppedBroker, frame, header_payload, ids

CHANNEL, QUEUE, BASIC = commands.Channel, commands.Queue, commands.Basic


def fail(peer: Peer, number: int = 1) -> None:
    """Any soft error will do; close-ok is not sent yet."""
    peer.send(number, QUEUE.Declare, queue="missing", passive=True)
    close = peer.expect(CHANNEL.Close)
    assert (close.reply_code, close.reply_text) == (
        404,
        "NOT_FOUND - no queue 'missing' in vhost '/'",
    )
    assert (close.class_id, close.method_id) == ids(QUEUE.Declare)


# ---------------------------------------------------------------------------------------- closing


def test_a_soft_error_leaves_the_other_channels_alone(broker: SteppedBroker) -> None:
    peer = broker.connect(channels=[1, 2])
    fail(peer, 2)
    peer.declare("q")
    assert broker.reported(events.CHANNEL_ERROR) == [
        {
            "peer": "127.0.0.1:40000",
            "channel": 2,
            "reply_code": 404,
            "reply_text": "NOT_FOUND - no queue 'missing' in vhost '/'",
        }
    ]


def test_a_failed_channel_is_free_again_after_close_ok(peer: Peer) -> None:
    fail(peer)
    peer.send(1, CHANNEL.CloseOk)
    peer.open(1)
    peer.declare("q")


def test_a_failed_channel_counts_until_its_close_ok(broker: SteppedBroker) -> None:
    peer = broker.connect(channel_max=1)
    fail(peer)
    peer.send(1, CHANNEL.CloseOk)
    peer.open(1)
    peer.send(1, CHANNEL.Close)
    peer.expect(CHANNEL.CloseOk)
    peer.open(1)


@pytest.mark.parametrize("is_error", [False, True])
def test_the_end_of_a_channel_requeues_in_order_and_cancels(
    broker: SteppedBroker, is_error: bool
) -> None:
    peer = broker.connect(channels=[1, 2])
    peer.declare("q")
    peer.fill("q", b"1", b"2", b"3", b"4")
    peer.send(2, BASIC.Qos, prefetch_count=2)
    peer.consume("q", "t", number=2)
    assert [one.name for one in peer.receive()][-2:] == ["basic.deliver"] * 2
    got = peer.get("q", number=2)
    assert got is not None
    if is_error:
        fail(peer, 2)
    else:
        peer.call(2, CHANNEL.Close)
    assert broker.queue("q").consumers == []
    assert peer.drain("q") == [b"1", b"2", b"3", b"4"]


def test_the_end_of_a_channel_keeps_exclusive_queues(broker: SteppedBroker, peer: Peer) -> None:
    peer.declare("mine", exclusive=True)
    peer.call(1, CHANNEL.Close)
    assert "mine" in broker.vhost.queues


def test_delivery_tags_start_at_1_on_every_new_channel(peer: Peer) -> None:
    peer.declare("q")
    peer.fill("q", b"1", b"2")
    for expected in (b"1", b"1"):  # redelivered, because the first one was never acknowledged
        received = peer.get("q")
        assert received is not None
        assert (received.method.delivery_tag, received.body) == (1, expected)
        peer.call(1, CHANNEL.Close)
        peer.open(1)


def test_each_channel_counts_its_own_delivery_tags(broker: SteppedBroker) -> None:
    peer = broker.connect(channels=[1, 2])
    peer.declare("q")
    peer.fill("q", b"1", b"2", b"3")
    tags = []
    for number in (1, 2, 1):
        received = peer.get("q", number=number)
        assert received is not None
        tags.append(received.method.delivery_tag)
    assert tags == [1, 1, 2]


# --------------------------------------------------------------------- the last declared queue


@pytest.mark.parametrize(
    ("method_class", "fields"),
    [
        (QUEUE.Purge, {}),
        (QUEUE.Delete, {}),
        (QUEUE.Bind, {"exchange": "amq.direct"}),
        (QUEUE.Unbind, {"exchange": "amq.direct"}),
        (BASIC.Consume, {}),
        (BASIC.Get, {}),
    ],
)
def test_an_empty_queue_name_without_a_declared_queue_is_404(
    peer: Peer, method_class: type[Frame], fields: dict[str, Any]
) -> None:
    peer.send(1, method_class, **fields)
    assert peer.refusal() == Refusal(
        "channel", 404, "NOT_FOUND - no previously declared queue", *ids(method_class)
    )


def test_the_last_declared_queue_is_the_channels_own(broker: SteppedBroker) -> None:
    peer = broker.connect(channels=[1, 2])
    peer.declare("q")
    assert peer.refused(2, QUEUE.Purge)[1] == "NOT_FOUND - no previously declared queue"


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


# ---------------------------------------------------------------------------------------- closing


def test_a_failed_channel_ignores_all_but_its_close(broker: SteppedBroker, peer: Peer) -> None:
    peer.declare("q")
    fail(peer)
    peer.send(1, QUEUE.Declare, queue="late")
    peer.publish(1, "q", b"late")
    peer.send_octets(frame(HEADER, 1, header_payload(3)))
    peer.ack(7)
    peer.send(1, CHANNEL.Open)
    peer.send_octets(frame(METHOD, 1, b"\0\x3c\x03\xe7"))
    peer.send_octets(frame(METHOD, 1, b"\0\x3c\0\x0a"))
    peer.expect_nothing()
    assert list(broker.vhost.queues) == ["q"]
    assert broker.queue("q").ready_count == 0


def test_close_frames_that_cross_are_both_answered_and_close_ok_still_waited_for(
    peer: Peer,
) -> None:
    fail(peer)
    peer.call(1, CHANNEL.Close)
    peer.send(1, QUEUE.Declare, queue="late")
    peer.expect_nothing()
    peer.send(1, CHANNEL.CloseOk)
    peer.open(1)


# ------------------------------------------------------------------- half-received contents


def test_an_error_while_a_content_is_half_received_ends_with_the_channel(
    broker: SteppedBroker, peer: Peer
) -> None:
    peer.declare("q")
    publish = encode_method(1, BASIC.Publish, routing_key="q")
    peer.send_octets(publish + frame(HEADER, 1, header_payload(10)) + frame(3, 1, b"half"))
    peer.call(0, commands.Connection.Close)
    assert broker.queue("q").ready_count == 0


def test_a_new_channel_does_not_inherit_a_half_received_content(
    broker: SteppedBroker, peer: Peer
) -> None:
    """The size of the message is refused with the header; its bodies are still on their way."""
    limits = broker.context.limits
    peer.declare("q")
    publish = encode_method(1, BASIC.Publish, routing_key="q")
    peer.send_octets(publish + frame(HEADER, 1, header_payload(limits.max_message_bytes + 1)))
    assert peer.expect(CHANNEL.Close).reply_code == 406
    peer.send_octets(frame(3, 1, b"x" * 1000))
    peer.send(1, CHANNEL.CloseOk)
    peer.open(1)
    peer.publish(1, "q", b"whole")
    assert peer.drain("q") == [b"whole"]


# ------------------------------------------------------------------------- what has no handler


@pytest.mark.parametrize(
    "method_class",
    [
        CHANNEL.OpenOk,
        QUEUE.DeclareOk,
        BASIC.ConsumeOk,
        BASIC.CancelOk,
        BASIC.GetEmpty,
        BASIC.Deliver,
        BASIC.GetOk,
        BASIC.Return,
        BASIC.RecoverOk,
        commands.Confirm.SelectOk,
        commands.Tx.CommitOk,
        Access.RequestOk,
    ],
    ids=lambda method_class: str(method_class.name),
)
def test_a_method_only_a_server_sends_is_503(peer: Peer, method_class: type[Frame]) -> None:
    assert peer.refused(1, method_class) == (503, "COMMAND_INVALID - unimplemented method")


DECLARE, CONSUME = commands.Queue.Declare, commands.Basic.Consume


def test_a_method_on_an_unopened_channel_is_504(peer: Peer) -> None:
    assert peer.refused(2, commands.Basic.Qos) == (504, "CHANNEL_ERROR - expected 'channel.open'")


def test_a_second_open_of_a_channel_is_504(peer: Peer) -> None:
    assert peer.refused(1, commands.Channel.Open) == (
        504,
        "CHANNEL_ERROR - second 'channel.open' seen",
    )


def test_more_channels_than_negotiated_are_530(broker: SteppedBroker) -> None:
    peer = broker.connect(channel_max=2, channels=[700, 65_535])  # counted, whatever their numbers
    peer.send(1, commands.Channel.Open)
    assert peer.refusal() == Refusal(
        "connection",
        530,
        "NOT_ALLOWED - number of channels opened (2) has reached the negotiated channel_max (2)",
        0,
        0,
    )


def test_a_closed_channel_makes_room_for_another(broker: SteppedBroker) -> None:
    peer = broker.connect(channel_max=2, channels=[1, 2])
    peer.call(1, commands.Channel.Close)
    peer.open(1)


def test_the_highest_channel_number_works(broker: SteppedBroker) -> None:
    peer = broker.connect(channels=[2047])
    assert peer.call(2047, DECLARE, queue="q").queue == "q"


def test_a_late_close_ok_on_a_free_number_is_ignored(peer: Peer) -> None:
    peer.send(5, commands.Channel.CloseOk)
    peer.expect_nothing()
