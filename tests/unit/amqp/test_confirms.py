"""Publisher confirms: every publish once, in order, behind its return, never after a close."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hareline.wire.methods import commands, encode_method
from hareline.wire.properties import Properties

from .peer import Peer, SteppedBroker, publish_octets


@pytest.fixture
def confirming(peer: Peer) -> Peer:
    """Channel 1 is in confirm mode; there is a queue q."""
    peer.declare("q")
    peer.call(1, commands.Confirm.Select)
    return peer


def acks(peer: Peer) -> list[tuple[int, bool]]:
    received = peer.receive()
    assert {one.name for one in received} <= {"basic.ack"}, received
    return [(one.method.delivery_tag, one.method.multiple) for one in received]


def test_a_publish_is_confirmed_with_its_number(confirming: Peer) -> None:
    for number in range(1, 4):
        confirming.fill("q", b"x")
        assert acks(confirming) == [(number, False)]


def test_the_publishes_of_a_turn_are_confirmed_together(confirming: Peer) -> None:
    confirming.send_octets(publish_octets(1, "q", b"x") * 5)
    assert acks(confirming) == [(5, True)]
    confirming.send_octets(publish_octets(1, "q", b"x"))
    assert acks(confirming) == [(6, False)]


@given(st.lists(st.integers(0, 5), max_size=10))
def test_every_publish_is_confirmed_exactly_once(turns: list[int]) -> None:
    peer = SteppedBroker().connect()
    peer.call(1, commands.Confirm.Select)
    published = 0
    confirmed: set[int] = set()
    for count in turns:
        peer.send_octets(publish_octets(1, "q", b"x") * count)
        for tag, is_multiple in acks(peer):
            news = set(range(max(confirmed, default=0) + 1 if is_multiple else tag, tag + 1))
            assert not news & confirmed
            confirmed |= news
        published += count
        assert confirmed == set(range(1, published + 1))


def test_a_publish_that_reaches_no_queue_is_confirmed(confirming: Peer) -> None:
    confirming.publish(1, "nowhere")
    assert acks(confirming) == [(1, False)]


def test_a_return_comes_before_the_ack_that_covers_it(confirming: Peer) -> None:
    confirming.send_octets(
        publish_octets(1, "q", b"1")
        + publish_octets(1, "nowhere", b"2", mandatory=True)
        + publish_octets(1, "q", b"3")
    )
    returned, ack = confirming.receive()
    assert (returned.name, returned.body) == ("basic.return", b"2")
    assert (ack.name, ack.method.delivery_tag, ack.method.multiple) == ("basic.ack", 3, True)


def test_a_publish_with_cc_is_one_publish(confirming: Peer) -> None:
    properties = Properties(headers={"CC": ["q", "p"]})  # type: ignore[arg-type]
    confirming.publish(1, "q", properties=properties)
    assert acks(confirming) == [(1, False)]


def test_a_long_body_is_one_publish(broker: SteppedBroker) -> None:
    peer = broker.connect(frame_max=4096)
    peer.call(1, commands.Confirm.Select)
    peer.publish(1, "q", b"x" * 20_000)
    assert acks(peer) == [(1, False)]


def test_channels_count_for_themselves(broker: SteppedBroker) -> None:
    peer = broker.connect(channels=[1, 2, 3])
    peer.call(1, commands.Confirm.Select)
    peer.call(2, commands.Confirm.Select)
    peer.send_octets(
        publish_octets(1, "q") * 2 + publish_octets(2, "q") + publish_octets(3, "q") * 4
    )
    received = [(one.channel, one.method.delivery_tag) for one in peer.receive()]
    assert sorted(received) == [(1, 2), (2, 1)]


def test_the_publish_that_closes_the_channel_is_not_confirmed_but_those_before_it_are(
    confirming: Peer,
) -> None:
    good = publish_octets(1, "q", b"x")
    confirming.send_octets(good * 2 + publish_octets(1, "k", exchange="nope") + good)
    ack, close = confirming.receive()
    assert (ack.name, ack.method.delivery_tag, ack.method.multiple) == ("basic.ack", 2, True)
    assert (close.name, close.method.reply_code) == ("channel.close", 404)
    confirming.expect_nothing()


def test_nothing_is_confirmed_behind_close_ok(confirming: Peer) -> None:
    confirming.send_octets(
        publish_octets(1, "q", b"x") * 2 + encode_method(1, commands.Channel.Close)
    )
    assert [one.name for one in confirming.receive()] == ["basic.ack", "channel.close-ok"]


def test_nothing_is_confirmed_behind_a_connection_close(confirming: Peer) -> None:
    confirming.send_octets(
        publish_octets(1, "q", b"x") * 2 + encode_method(0, commands.Channel.Open)
    )
    assert [one.name for one in confirming.receive()] == ["basic.ack", "connection.close"]


def test_a_queue_deleted_with_the_message_in_it_does_not_undo_the_confirm(
    confirming: Peer,
) -> None:
    confirming.send_octets(
        publish_octets(1, "q", b"x") + encode_method(1, commands.Queue.Delete, queue="q")
    )
    assert sorted(one.name for one in confirming.receive()) == ["basic.ack", "queue.delete-ok"]


# ------------------------------------------------------------------------------------- refusals


def answers(peer: Peer) -> list[tuple[str, int, bool]]:
    return [
        (one.name.removeprefix("basic."), one.method.delivery_tag, one.method.multiple)
        for one in peer.receive()
    ]


def declare_full(peer: Peer, name: str, *, room: int = 0) -> None:
    """A queue that takes ``room`` more messages and refuses the rest."""
    peer.declare(name, arguments={"x-max-length": room, "x-overflow": "reject-publish"})


@pytest.mark.row("A25")
def test_a_refused_publish_is_nacked(confirming: Peer) -> None:
    declare_full(confirming, "full", room=1)
    confirming.fill("full", b"1")
    assert answers(confirming) == [("ack", 1, False)]
    confirming.fill("full", b"2")
    assert answers(confirming) == [("nack", 2, False)]
    confirming.call(1, commands.Queue.Purge, queue="full")
    confirming.fill("full", b"3")
    assert answers(confirming) == [("ack", 3, False)]


@pytest.mark.parametrize(
    ("turn", "expected"),
    [
        ("-", [("nack", 1, False)]),
        ("--", [("nack", 2, True)]),
        ("+-", [("ack", 1, False), ("nack", 2, False)]),
        ("-+", [("nack", 1, False), ("ack", 2, False)]),
        ("+++--", [("ack", 3, True), ("nack", 5, True)]),
        ("--+++", [("nack", 2, True), ("ack", 5, True)]),
        (
            "+-++-+",
            [
                ("ack", 1, False),
                ("nack", 2, False),
                ("ack", 4, True),
                ("nack", 5, False),
                ("ack", 6, False),
            ],
        ),
    ],
)
def test_no_answer_covers_a_publish_that_had_the_other_one(
    confirming: Peer, turn: str, expected: list[tuple[str, int, bool]]
) -> None:
    declare_full(confirming, "full")
    confirming.send_octets(
        b"".join(publish_octets(1, "q" if taken == "+" else "full", b"x") for taken in turn)
    )
    assert answers(confirming) == expected


@given(st.lists(st.text("+-", max_size=12), max_size=6))
def test_every_publish_gets_the_one_right_answer(turns: list[str]) -> None:
    peer = SteppedBroker().connect()
    declare_full(peer, "full")
    peer.call(1, commands.Confirm.Select)
    answered = ""
    for turn in turns:
        peer.send_octets(
            b"".join(publish_octets(1, "q" if taken == "+" else "full", b"x") for taken in turn)
        )
        for name, tag, is_multiple in answers(peer):
            assert is_multiple == (tag - len(answered) > 1)
            answered += {"ack": "+", "nack": "-"}[name] * (tag - len(answered))
    assert answered == "".join(turns)


def test_one_queue_that_refuses_makes_a_nack_and_the_others_keep_the_message(
    broker: SteppedBroker, confirming: Peer
) -> None:
    declare_full(confirming, "full")
    for queue in ("full", "q"):
        confirming.bind(queue, "amq.fanout")
    confirming.publish(1, "", b"x", exchange="amq.fanout")
    assert answers(confirming) == [("nack", 1, False)]
    assert broker.queue("q").ready_count == 1


def test_a_discarded_message_is_acked(confirming: Peer) -> None:
    confirming.declare("full", arguments={"x-max-length": 0, "x-overflow": "discard"})
    confirming.fill("full", b"x")
    assert answers(confirming) == [("ack", 1, False)]


def test_a_mandatory_publish_that_is_refused_is_answered_by_its_nack_alone(
    confirming: Peer,
) -> None:
    declare_full(confirming, "full")
    confirming.send_octets(
        publish_octets(1, "q", b"1")
        + publish_octets(1, "full", b"2", mandatory=True)
        + publish_octets(1, "q", b"3")
    )
    assert answers(confirming) == [("ack", 1, False), ("nack", 2, False), ("ack", 3, False)]


def test_refusals_are_told_before_a_close(confirming: Peer) -> None:
    declare_full(confirming, "full")
    confirming.send_octets(
        publish_octets(1, "full", b"1") + publish_octets(1, "k", exchange="nope")
    )
    assert [one.name for one in confirming.receive()] == ["basic.nack", "channel.close"]


def test_counting_starts_with_the_first_publish_after_select(peer: Peer) -> None:
    peer.declare("q")
    peer.fill("q", b"1", b"2")
    peer.call(1, commands.Confirm.Select)
    peer.fill("q", b"3")
    assert acks(peer) == [(1, False)]


def test_select_twice_changes_nothing(confirming: Peer) -> None:
    confirming.fill("q", b"1")
    assert acks(confirming) == [(1, False)]
    confirming.call(1, commands.Confirm.Select)
    confirming.fill("q", b"2")
    assert acks(confirming) == [(2, False)]


def test_select_without_an_answer(peer: Peer) -> None:
    peer.send(1, commands.Confirm.Select, nowait=True)
    peer.expect_nothing()
    peer.publish(1, "q")
    assert acks(peer) == [(1, False)]


def test_a_channel_in_confirm_mode_cannot_become_transactional(confirming: Peer) -> None:
    assert confirming.refused(1, commands.Tx.Select) == (
        406,
        "PRECONDITION_FAILED - cannot switch from confirm to tx mode",
    )


def test_a_transactional_channel_cannot_confirm(peer: Peer) -> None:
    peer.call(1, commands.Tx.Select)
    assert peer.refused(1, commands.Confirm.Select) == (
        406,
        "PRECONDITION_FAILED - cannot switch from tx to confirm mode",
    )


def test_a_reopened_channel_is_not_in_confirm_mode(confirming: Peer) -> None:
    confirming.send_octets(
        publish_octets(1, "q", b"x")
        + encode_method(1, commands.Channel.Close)
        + encode_method(1, commands.Channel.Open)
        + publish_octets(1, "q", b"x")
    )
    names = [one.name for one in confirming.receive()]
    assert names == ["basic.ack", "channel.close-ok", "channel.open-ok"]
