"""ack, nack, reject and recover: what leaves the queue, what comes back, and to which place."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hareline.wire.methods import Frame, commands

from .peer import Peer, SteppedBroker, numbered

BASIC = commands.Basic


@pytest.fixture
def holding(peer: Peer) -> Peer:
    """Has got messages 0 to 4 of q with basic.get as tags 1 to 5; 5 and 6 are ready."""
    peer.declare("q")
    peer.fill("q", *numbered(7))
    for _ in range(5):
        assert peer.get("q") is not None
    return peer


# ------------------------------------------------------------------------------------- settling


def test_an_ack_settles_one(broker: SteppedBroker, holding: Peer) -> None:
    holding.ack(3)
    queue = broker.queue("q")
    assert (queue.ready_count, queue.unacked_count, queue.settled_count) == (2, 4, 1)


def test_a_multiple_ack_settles_all_up_to_its_tag(broker: SteppedBroker, holding: Peer) -> None:
    holding.ack(2)
    holding.ack(4, multiple=True)
    assert broker.queue("q").unacked_count == 1
    holding.ack(5)
    assert broker.queue("q").unacked_count == 0


def test_tag_0_with_multiple_means_all(broker: SteppedBroker, holding: Peer) -> None:
    holding.ack(0, multiple=True)
    assert broker.queue("q").unacked_count == 0
    holding.ack(0, multiple=True)
    holding.nack(0, multiple=True)
    holding.expect_nothing()


@pytest.mark.parametrize("method_class", [BASIC.Nack, BASIC.Reject])
def test_without_requeue_the_message_is_gone(
    broker: SteppedBroker, holding: Peer, method_class: type[Frame]
) -> None:
    holding.send(1, method_class, delivery_tag=1, requeue=False)
    queue = broker.queue("q")
    assert (queue.ready_count, queue.unacked_count, queue.settled_count) == (2, 4, 1)


def test_a_multiple_nack_without_requeue_drops_all_up_to_its_tag(
    broker: SteppedBroker, holding: Peer
) -> None:
    holding.nack(3, multiple=True, requeue=False)
    queue = broker.queue("q")
    assert (queue.ready_count, queue.unacked_count) == (2, 2)


# -------------------------------------------------------------------------------------- requeue


@pytest.mark.parametrize("method_class", [BASIC.Nack, BASIC.Reject])
def test_a_requeued_message_returns_to_its_own_place_as_redelivered(
    holding: Peer, method_class: type[Frame]
) -> None:
    holding.send(1, method_class, delivery_tag=4, requeue=True)
    holding.send(1, method_class, delivery_tag=2, requeue=True)
    seen = []
    while (received := holding.get("q", no_ack=True)) is not None:
        seen.append((received.body, received.method.redelivered))
    assert seen == [(b"1", True), (b"3", True), (b"5", False), (b"6", False)]


def test_a_multiple_nack_requeues_all_up_to_its_tag_in_order(holding: Peer) -> None:
    holding.nack(3, multiple=True)
    assert holding.drain("q") == [b"0", b"1", b"2", b"5", b"6"]


def test_redelivered_stays_true_whoever_gets_it_next(broker: SteppedBroker, holding: Peer) -> None:
    holding.nack(0, multiple=True)
    other = broker.connect()
    other.consume("q", "t")
    seen = [(one.body, one.method.redelivered) for one in other.receive()[1:]]
    assert seen == [(body, body < b"5") for body in numbered(7)]


def test_a_requeued_message_may_come_straight_back(peer: Peer) -> None:
    peer.declare("q")
    peer.call(1, BASIC.Qos, prefetch_count=1)
    peer.fill("q", b"1", b"2")
    peer.consume("q", "t")
    peer.receive()
    for tag in range(1, 4):
        peer.nack(tag)
        (again,) = peer.receive()
        assert (again.body, again.method.delivery_tag) == (b"1", tag + 1)
        assert again.method.redelivered


@given(
    st.lists(st.sampled_from(["ack", "nack", "reject", "drop"]), min_size=1, max_size=12),
    st.randoms(use_true_random=False),
)
def test_what_is_requeued_in_any_order_is_delivered_in_the_first_order(
    fates: list[str], random: object
) -> None:
    broker = SteppedBroker()
    peer = broker.connect()
    peer.declare("q")
    bodies = [b"%03d" % number for number in range(len(fates))]
    peer.fill("q", *bodies, b"last")
    for _ in fates:
        assert peer.get("q") is not None
    order = list(enumerate(fates, start=1))
    random.shuffle(order)  # type: ignore[attr-defined]
    for tag, fate in order:
        if fate == "ack":
            peer.ack(tag)
        elif fate == "nack":
            peer.nack(tag)
        else:
            peer.send(1, BASIC.Reject, delivery_tag=tag, requeue=fate == "reject")
    kept = [body for body, fate in zip(bodies, fates, strict=True) if fate in ("nack", "reject")]
    assert peer.drain("q") == [*kept, b"last"]
    assert broker.queue("q").unacked_count == 0


# --------------------------------------------------------------------------------- unknown tags


@pytest.mark.parametrize("multiple", [False, True])
@pytest.mark.parametrize("tag", [6, 2**63, 2**64 - 1])
def test_a_tag_never_given_out_is_406(holding: Peer, tag: int, multiple: bool) -> None:
    assert holding.refused(1, BASIC.Ack, delivery_tag=tag, multiple=multiple) == (
        406,
        f"PRECONDITION_FAILED - unknown delivery tag {tag}",
    )


@pytest.mark.parametrize(
    ("method_class", "fields"),
    [
        (BASIC.Ack, {}),
        (BASIC.Ack, {"multiple": True}),
        (BASIC.Nack, {"requeue": True}),
        (BASIC.Nack, {"requeue": False}),
        (BASIC.Nack, {"requeue": True, "multiple": True}),
        (BASIC.Reject, {"requeue": True}),
        (BASIC.Reject, {"requeue": False}),
    ],
)
@pytest.mark.parametrize("first", ["ack", "multiple ack", "nack", "reject"])
def test_a_tag_settled_before_is_406_however_it_was_and_is_settled(
    holding: Peer, method_class: type[Frame], fields: dict[str, object], first: str
) -> None:
    if first == "ack":
        holding.ack(2)
    elif first == "multiple ack":
        holding.ack(3, multiple=True)
    elif first == "nack":
        holding.nack(2)
    else:
        holding.send(1, BASIC.Reject, delivery_tag=2, requeue=False)
    assert holding.refused(1, method_class, delivery_tag=2, **fields) == (
        406,
        "PRECONDITION_FAILED - unknown delivery tag 2",
    )


@pytest.mark.parametrize("method_class", [BASIC.Ack, BASIC.Nack, BASIC.Reject])
def test_tag_0_alone_is_no_tag(holding: Peer, method_class: type[Frame]) -> None:
    assert holding.refused(1, method_class, delivery_tag=0) == (
        406,
        "PRECONDITION_FAILED - unknown delivery tag 0",
    )


def test_a_tag_of_another_channel_is_unknown(holding: Peer) -> None:
    holding.open(2)
    assert holding.refused(2, BASIC.Ack, delivery_tag=1)[0] == 406


def test_a_multiple_ack_of_an_unknown_tag_settles_nothing(
    broker: SteppedBroker, holding: Peer
) -> None:
    holding.ack(4)
    holding.refused(1, BASIC.Ack, delivery_tag=4, multiple=True)
    assert broker.queue("q").settled_count == 1
    assert broker.queue("q").ready_count == 6  # the channel's end gave the others back


# -------------------------------------------------------------------------------------- recover


def test_recover_requeues_all_that_is_unacked(broker: SteppedBroker, holding: Peer) -> None:
    holding.ack(2)
    holding.call(1, BASIC.Recover, requeue=True)
    queue = broker.queue("q")
    assert (queue.ready_count, queue.unacked_count) == (6, 0)
    first = holding.get("q", no_ack=True)
    assert first is not None
    assert (first.body, first.method.redelivered) == (b"0", True)
    assert holding.drain("q") == [b"2", b"3", b"4", b"5", b"6"]


def test_recovered_tags_are_unknown(holding: Peer) -> None:
    holding.call(1, BASIC.Recover, requeue=True)
    assert holding.refused(1, BASIC.Ack, delivery_tag=1)[0] == 406


def test_recover_async_is_not_answered(broker: SteppedBroker, holding: Peer) -> None:
    holding.send(1, BASIC.RecoverAsync, requeue=True)
    holding.expect_nothing()
    assert broker.queue("q").ready_count == 7


def test_recover_to_a_consumer_delivers_anew(peer: Peer) -> None:
    peer.declare("q")
    peer.fill("q", b"1", b"2")
    peer.consume("q", "t")
    peer.receive()
    peer.send(1, BASIC.Recover, requeue=True)
    ok, *again = peer.receive()
    assert ok.name == "basic.recover-ok"
    assert [(one.method.delivery_tag, one.body, one.method.redelivered) for one in again] == [
        (3, b"1", True),
        (4, b"2", True),
    ]


@pytest.mark.parametrize("method_class", [BASIC.Recover, BASIC.RecoverAsync])
def test_recover_without_requeue_is_540(peer: Peer, method_class: type[Frame]) -> None:
    assert peer.refused(1, method_class, requeue=False) == (
        540,
        "NOT_IMPLEMENTED - requeue=false",
    )


def test_recover_is_for_its_channel_alone(broker: SteppedBroker, holding: Peer) -> None:
    holding.open(2)
    holding.call(2, BASIC.Recover, requeue=True)
    assert broker.queue("q").unacked_count == 5
