"""A channel: opening, closing from either side, reuse, flow, and what it refuses."""

from __future__ import annotations

from typing import Any

import pytest

from hareline import events
from hareline.wire.methods import Frame, commands

from .peer import Peer, Refusal, SteppedBroker, ids

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
