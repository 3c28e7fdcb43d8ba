"""The channels of a connection: numbers, how many there may be, and when one is free."""

from __future__ import annotations

from hareline.wire.methods import commands

from .peer import (
    Peer,
    Refusal,
    SteppedBroker,
)

DECLARE, CONSUME = commands.Queue.Declare, commands.Basic.Consume


def test_a_method_on_an_unopened_channel_is_504(peer: Peer) -> None:
    assert peer.refused(2, commands.Basic.Qos) == (504, "CHANNEL_ERROR - expected 'channel.open'")


def test_a_second_open_of_a_channel_is_504(peer: Peer) -> None:
    assert peer.refused(1, commands.Channel.Open) == (
        504,
        "CHANNEL_ERROR - second 'channel.open' seen",
    )


def test_more_channels_than_negotiated_are_530(broker: SteppedBroker) -> None:
    peer = broker.connect(channel_max=2, channels=[1, 2])
    peer.send(3, commands.Channel.Open)
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
