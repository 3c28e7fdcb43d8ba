"""Which frames of a channel reach a handler, and which are refused or ignored."""

from __future__ import annotations

import pytest

from hareline.wire.methods import Access, Frame, commands, encode_method

from ..peer import HEADER, METHOD, Peer, SteppedBroker, frame, header_payload, ids

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
