"""tx: nothing is seen before the commit, everything at once with it, nothing after a rollback."""

from __future__ import annotations

import pytest

from hareline.wire.methods import Frame, commands, encode_method
from hareline.wire.properties import Properties
from hareline.wire.table import Table

from .peer import Peer, SteppedBroker, numbered, publish_octets

TX, BASIC, QUEUE = commands.Tx, commands.Basic, commands.Queue


@pytest.fixture
def transacting(peer: Peer) -> Peer:
    """Channel 1 is transactional; there is a queue q."""
    peer.declare("q")
    peer.call(1, TX.Select)
    return peer


# -------------------------------------------------------------------------------------- publishes


def test_publishes_are_seen_with_the_commit_and_in_order(
    broker: SteppedBroker, transacting: Peer
) -> None:
    transacting.fill("q", *numbered(3))
    transacting.expect_nothing()
    assert broker.queue("q").ready_count == 0
    transacting.call(1, TX.Commit)
    assert transacting.drain("q") == numbered(3)


def test_a_rollback_forgets_publishes_and_begins_anew(transacting: Peer) -> None:
    transacting.fill("q", b"dropped")
    transacting.call(1, TX.Rollback)
    transacting.fill("q", b"kept")
    transacting.call(1, TX.Commit)
    assert transacting.drain("q") == [b"kept"]


def test_everything_in_one_read_is_as_good_as_one_by_one(transacting: Peer) -> None:
    """Publishes of a transaction must not slip through the lane of the decoder."""
    publish = publish_octets(1, "q", b"x")
    commit, rollback = encode_method(1, TX.Commit), encode_method(1, TX.Rollback)
    transacting.send_octets(publish * 3 + rollback + publish * 2 + commit + publish * 5)
    assert [one.name for one in transacting.receive()] == ["tx.rollback-ok", "tx.commit-ok"]
    assert len(transacting.drain("q")) == 2


def test_a_route_known_before_the_transaction_does_not_bypass_it(peer: Peer) -> None:
    peer.declare("q")
    publish = publish_octets(1, "q", b"x")
    peer.send_octets(publish * 3 + encode_method(1, TX.Select) + publish * 3)
    peer.expect(TX.SelectOk)
    assert len(peer.drain("q")) == 3


@pytest.mark.parametrize("properties", [Properties(), Properties(headers=Table(CC=["p"]))])
def test_publishes_are_routed_when_they_come_as_in_rabbitmq(
    transacting: Peer, properties: Properties
) -> None:
    transacting.declare("p")
    transacting.publish(1, "k", b"1", exchange="amq.direct", properties=properties)
    transacting.bind("q", "amq.direct", "k")
    transacting.call(1, TX.Commit)
    transacting.publish(1, "k", b"2", exchange="amq.direct", properties=properties)
    transacting.call(1, QUEUE.Unbind, queue="q", exchange="amq.direct", routing_key="k")
    transacting.call(1, TX.Commit)
    assert transacting.drain("q") == [b"2"]


def test_a_queue_that_goes_before_the_commit_takes_its_messages_along(transacting: Peer) -> None:
    transacting.fill("q", b"1")
    transacting.call(1, QUEUE.Delete, queue="q")
    transacting.call(1, TX.Commit)
    transacting.declare("q")
    assert transacting.drain("q") == []


@pytest.mark.parametrize(
    ("exchange", "properties", "code"),
    [("nope", Properties(), 404), ("", Properties(user_id="bob"), 406)],
)
def test_a_publish_is_checked_when_it_arrives_and_takes_the_transaction_along(
    broker: SteppedBroker, transacting: Peer, exchange: str, properties: Properties, code: int
) -> None:
    transacting.fill("q", b"1")
    assert transacting.publish_refused(1, "k", exchange=exchange, properties=properties)[0] == code
    assert broker.queue("q").ready_count == 0


def test_reply_to_and_bcc_are_settled_when_the_publish_arrives(transacting: Peer) -> None:
    properties = Properties(headers=Table(BCC=["q"], a="b"))
    transacting.publish(1, "nowhere", b"1", properties=properties)
    transacting.call(1, TX.Commit)
    received = transacting.get("q")
    assert received is not None
    assert received.properties == Properties(headers=Table(a="b"))


# ------------------------------------------------------------------------------ acknowledgements


@pytest.fixture
def holding(transacting: Peer) -> Peer:
    """Has got messages 0 to 3 as tags 1 to 4, in a transaction with nothing in it."""
    transacting.fill("q", *numbered(4))
    transacting.call(1, TX.Commit)
    for _ in range(4):
        assert transacting.get("q") is not None
    return transacting


def settle(peer: Peer, how: str) -> None:
    """Tags 1 and 2, in one way or another."""
    if how == "ack":
        peer.ack(2)
        peer.ack(1)
    elif how == "multiple ack":
        peer.ack(2, multiple=True)
    elif how == "nack":
        peer.nack(2, multiple=True, requeue=False)
    else:
        for tag in (1, 2):
            peer.send(1, BASIC.Reject, delivery_tag=tag, requeue=False)


WAYS = ["ack", "multiple ack", "nack", "reject"]


@pytest.mark.parametrize("how", WAYS)
def test_acks_take_effect_with_the_commit(broker: SteppedBroker, holding: Peer, how: str) -> None:
    settle(holding, how)
    assert broker.queue("q").unacked_count == 4
    holding.call(1, TX.Commit)
    queue = broker.queue("q")
    assert (queue.unacked_count, queue.ready_count) == (2, 0)


@pytest.mark.parametrize("how", WAYS)
def test_a_rollback_undoes_acks_without_redelivering(
    broker: SteppedBroker, holding: Peer, how: str
) -> None:
    settle(holding, how)
    holding.call(1, TX.Rollback)
    queue = broker.queue("q")
    assert (queue.unacked_count, queue.ready_count) == (4, 0)
    holding.ack(4, multiple=True)
    holding.call(1, TX.Commit)
    assert queue.unacked_count == 0


def test_a_requeue_takes_effect_with_the_commit_and_to_the_original_place(holding: Peer) -> None:
    holding.fill("q", b"new")
    holding.nack(3, multiple=True)
    assert holding.get("q") is None
    holding.call(1, TX.Commit)
    assert holding.drain("q") == [b"0", b"1", b"2", b"new"]


def test_a_rolled_back_requeue_leaves_the_message_with_its_reader(
    broker: SteppedBroker, holding: Peer
) -> None:
    holding.nack(1)
    holding.call(1, TX.Rollback)
    assert holding.get("q") is None
    holding.ack(1)
    holding.call(1, TX.Commit)
    assert broker.queue("q").unacked_count == 3


@pytest.mark.parametrize("method_class", [BASIC.Ack, BASIC.Nack, BASIC.Reject])
@pytest.mark.parametrize("multiple", [False, True])
def test_an_unknown_tag_is_406_when_it_arrives(
    holding: Peer, method_class: type[Frame], multiple: bool
) -> None:
    fields = {} if method_class is BASIC.Reject else {"multiple": multiple}
    assert holding.refused(1, method_class, delivery_tag=9, **fields) == (
        406,
        "PRECONDITION_FAILED - unknown delivery tag 9",
    )


def test_a_tag_acked_in_the_open_transaction_is_406_the_second_time(holding: Peer) -> None:
    holding.ack(1)
    assert holding.refused(1, BASIC.Ack, delivery_tag=1)[0] == 406


def test_tag_0_with_multiple_means_all_that_is_not_acked_yet(
    broker: SteppedBroker, holding: Peer
) -> None:
    holding.ack(1)
    holding.ack(0, multiple=True)
    holding.ack(0, multiple=True)
    holding.call(1, TX.Commit)
    assert broker.queue("q").unacked_count == 0


def test_recover_leaves_what_is_acked_but_not_committed(
    broker: SteppedBroker, holding: Peer
) -> None:
    holding.ack(2, multiple=True)
    holding.call(1, BASIC.Recover, requeue=True)
    queue = broker.queue("q")
    assert (queue.ready_count, queue.unacked_count) == (2, 2)
    holding.call(1, TX.Commit)
    assert holding.drain("q") == [b"2", b"3"]


def test_uncommitted_acks_make_no_room_for_more(peer: Peer) -> None:
    peer.declare("q")
    peer.fill("q", *numbered(3))
    peer.call(1, TX.Select)
    peer.call(1, BASIC.Qos, prefetch_count=1)
    peer.consume("q", "t")
    assert len(peer.receive()) == 2
    peer.ack(1)
    peer.expect_nothing()
    peer.send(1, TX.Commit)
    ok, delivery = peer.receive()
    assert (ok.name, delivery.body) == ("tx.commit-ok", b"1")


def test_publishes_and_acks_of_a_commit_become_true_together(
    broker: SteppedBroker, holding: Peer
) -> None:
    holding.declare("done")
    holding.publish(1, "done", b"result")
    holding.ack(1)
    assert (broker.queue("done").ready_count, broker.queue("q").unacked_count) == (0, 4)
    holding.call(1, TX.Commit)
    assert (broker.queue("done").ready_count, broker.queue("q").unacked_count) == (1, 3)


# ----------------------------------------------------------------------------------- the refusals


def test_transactions_of_two_channels_do_not_mix(broker: SteppedBroker) -> None:
    peer = broker.connect(channels=[1, 2])
    peer.declare("q")
    peer.call(1, TX.Select)
    peer.call(2, TX.Select)
    peer.publish(1, "q", b"one")
    peer.publish(2, "q", b"two")
    peer.call(2, TX.Commit)
    peer.call(1, TX.Rollback)
    assert peer.drain("q") == [b"two"]


# --------------------------------------------------------------------- what happens in the meantime


def test_a_queue_deleted_before_the_commit_returns_what_must_arrive(
    transacting: Peer, broker: SteppedBroker
) -> None:
    transacting.publish(1, "q", b"lost", mandatory=True)
    other = broker.connect()
    other.call(1, QUEUE.Delete, queue="q")
    transacting.send(1, TX.Commit)
    returned, committed = transacting.receive()
    assert (returned.name, returned.body) == ("basic.return", b"lost")
    assert committed.name == "tx.commit-ok"


def test_what_a_transaction_settled_still_counts_against_a_limit_of_the_channel(
    transacting: Peer,
) -> None:
    transacting.fill("q", *numbered(30))
    transacting.call(1, TX.Commit)
    transacting.call(1, BASIC.Qos, prefetch_count=10)
    transacting.consume("q", "c")
    assert [one.name for one in transacting.receive()].count("basic.deliver") == 10
    transacting.send(1, BASIC.Ack, delivery_tag=10, multiple=True)
    transacting.call(1, BASIC.Qos, prefetch_count=3, global_=True)
    transacting.send(1, TX.Commit)
    received = transacting.receive()
    assert [one.name for one in received].count("basic.deliver") == 3


def test_many_multiple_acks_of_a_transaction_take_the_right_deliveries(
    transacting: Peer, broker: SteppedBroker
) -> None:
    transacting.fill("q", *numbered(10))
    transacting.call(1, TX.Commit)
    for _ in range(10):
        transacting.call(1, BASIC.Get, queue="q")
    transacting.send(1, BASIC.Ack, delivery_tag=3, multiple=True)
    transacting.send(1, BASIC.Ack, delivery_tag=5)
    transacting.send(1, BASIC.Ack, delivery_tag=7, multiple=True)
    transacting.call(1, TX.Commit)
    assert broker.queue("q").unacked_count == 3
    transacting.send(1, BASIC.Ack, delivery_tag=9, multiple=True)
    transacting.call(1, TX.Rollback)
    transacting.send(1, BASIC.Ack, delivery_tag=8)
    transacting.send(1, BASIC.Ack, delivery_tag=10, multiple=True)
    transacting.call(1, TX.Commit)
    assert broker.queue("q").unacked_count == 0


# -------------------------------------------------------------------------------------- full queues


def test_a_mandatory_publish_that_is_refused_is_returned_before_the_commit_fails(
    transacting: Peer,
) -> None:
    transacting.declare("full", arguments={"x-max-length": 0, "x-overflow": "reject-publish"})
    transacting.publish(1, "full", b"1", mandatory=True)
    transacting.expect_nothing()
    transacting.send(1, TX.Commit)
    returned, closed = transacting.receive()
    assert (returned.name, returned.method.reply_code, returned.body) == ("basic.return", 506, b"1")
    assert (closed.name, closed.method.reply_code) == ("channel.close", 406)


def test_a_rolled_back_publish_to_a_full_queue_hurts_nobody(transacting: Peer) -> None:
    transacting.declare("full", arguments={"x-max-length": 0, "x-overflow": "reject-publish"})
    transacting.fill("full", b"1")
    transacting.call(1, TX.Rollback)
    transacting.call(1, TX.Commit)


def test_a_message_has_arrived_when_it_was_committed(
    broker: SteppedBroker, transacting: Peer
) -> None:
    """What counts from its arrival, counts from there again after a restart."""
    transacting.fill("q", b"1")
    transacting.receive()
    broker.advance(5)
    transacting.call(1, TX.Commit)
    (entry,) = broker.queue("q").order
    assert entry.message.arrival_ms == broker.clock.now_ms


# -------------------------------------------------------------------------------------- publishes


def test_a_commit_of_nothing_is_answered(transacting: Peer) -> None:
    for _ in range(2):
        transacting.call(1, TX.Commit)
        transacting.call(1, TX.Rollback)


def test_a_second_commit_repeats_nothing(transacting: Peer) -> None:
    transacting.fill("q", b"1")
    transacting.call(1, TX.Commit)
    transacting.call(1, TX.Commit)
    assert transacting.drain("q") == [b"1"]


def test_select_twice_keeps_what_is_open(transacting: Peer) -> None:
    transacting.fill("q", b"1")
    transacting.call(1, TX.Select)
    transacting.call(1, TX.Commit)
    assert transacting.drain("q") == [b"1"]


def test_returns_come_with_the_commit_and_before_its_answer(transacting: Peer) -> None:
    transacting.publish(1, "nowhere", b"1", mandatory=True)
    transacting.publish(1, "q", b"2", mandatory=True)
    transacting.publish(1, "nowhere", b"3", mandatory=True)
    transacting.expect_nothing()
    transacting.send(1, TX.Commit)
    *returned, ok = transacting.receive()
    assert [(one.name, one.body) for one in returned] == [
        ("basic.return", b"1"),
        ("basic.return", b"3"),
    ]
    assert ok.name == "tx.commit-ok"


def test_nothing_is_returned_after_a_rollback(transacting: Peer) -> None:
    transacting.publish(1, "nowhere", b"1", mandatory=True)
    transacting.call(1, TX.Rollback)
    transacting.call(1, TX.Commit)


# ------------------------------------------------------------------------------ acknowledgements


# ----------------------------------------------------------------------------------- the refusals


@pytest.mark.parametrize("method_class", [TX.Commit, TX.Rollback])
def test_a_channel_that_is_not_transactional_is_406(peer: Peer, method_class: type[Frame]) -> None:
    assert peer.refused(1, method_class) == (
        406,
        "PRECONDITION_FAILED - channel is not transactional",
    )


def test_the_end_of_the_channel_is_a_rollback(broker: SteppedBroker, holding: Peer) -> None:
    holding.ack(2, multiple=True)
    holding.fill("q", b"never seen")
    holding.call(1, commands.Channel.Close)
    queue = broker.queue("q")
    assert (queue.ready_count, queue.unacked_count) == (4, 0)
    holding.open(1)
    assert holding.drain("q") == numbered(4)


def test_a_reopened_channel_is_not_transactional(transacting: Peer) -> None:
    transacting.call(1, commands.Channel.Close)
    transacting.open(1)
    transacting.fill("q", b"1")
    assert transacting.drain("q") == [b"1"]


# -------------------------------------------------------------------------------------- full queues


@pytest.mark.row("A25")
def test_a_refused_publish_makes_the_commit_partial(
    transacting: Peer, broker: SteppedBroker
) -> None:
    transacting.declare("full", arguments={"x-max-length": 1, "x-overflow": "reject-publish"})
    transacting.fill("full", b"1", b"2")
    transacting.fill("q", b"3")
    transacting.expect_nothing()
    assert transacting.refused(1, TX.Commit) == (
        406,
        "PRECONDITION_FAILED - partial tx completion",
    )
    assert (broker.queue("full").ready_count, broker.queue("q").ready_count) == (1, 1)


def test_the_acknowledgements_of_a_partial_commit_are_carried_out(
    holding: Peer, broker: SteppedBroker
) -> None:
    holding.declare("full", arguments={"x-max-length": 0, "x-overflow": "reject-publish"})
    holding.ack(4, multiple=True)
    holding.fill("full", b"x")
    assert holding.refused(1, TX.Commit)[0] == 406
    assert (broker.queue("q").ready_count, broker.queue("q").unacked_count) == (0, 0)
