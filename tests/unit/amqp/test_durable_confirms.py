"""Confirms that wait for the store, refusals while it takes nothing, and the alarm of the disk."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hareline.wire.methods import commands, encode_method
from hareline.wire.properties import Properties
from tests.support.stores import FakeStore

from .peer import Peer, SteppedBroker, publish_octets

PERSISTENT = Properties(delivery_mode=2)
TRANSIENT = Properties(delivery_mode=1)
FULL = "no space left on device"

Answers = list[tuple[str, int, bool]]


@pytest.fixture
def store() -> FakeStore:
    return FakeStore()


@pytest.fixture
def peer(broker: SteppedBroker) -> Peer:
    """Channel 1 is in confirm mode; queue d is durable, t is not."""
    peer = broker.connect()
    peer.declare("d", durable=True)
    peer.declare("t")
    peer.call(1, commands.Confirm.Select)
    return peer


def answers(peer: Peer) -> Answers:
    return [
        (one.name.removeprefix("basic."), one.method.delivery_tag, one.method.multiple)
        for one in peer.receive()
    ]


def keep(peer: Peer, queue: str = "d", count: int = 1, **fields: Any) -> None:
    peer.send_octets(publish_octets(1, queue, b"x", PERSISTENT, **fields) * count)


# --------------------------------------------------------------------------- in order


def test_a_persistent_publish_to_a_durable_queue_is_confirmed_when_it_is_durable(
    peer: Peer, store: FakeStore
) -> None:
    keep(peer, count=3)
    peer.expect_nothing()
    store.sync()
    assert answers(peer) == [("ack", 3, True)]


@pytest.mark.parametrize(
    ("queue", "properties"),
    [("d", TRANSIENT), ("d", Properties()), ("t", PERSISTENT), ("nowhere", PERSISTENT)],
)
def test_what_the_store_does_not_get_is_confirmed_at_once(
    peer: Peer, store: FakeStore, queue: str, properties: Properties
) -> None:
    for number in (1, 2):
        peer.publish(1, queue, b"x", properties=properties)
        assert answers(peer) == [("ack", number, False)]
    assert store.batches == []


def test_while_one_batch_is_on_its_way_the_next_gathers(peer: Peer, store: FakeStore) -> None:
    keep(peer)
    peer.expect_nothing()
    keep(peer)
    peer.expect_nothing()
    keep(peer, count=3)
    peer.expect_nothing()
    assert store.batches == [1]
    store.sync()
    assert store.batches == [1, 4]
    assert answers(peer) == [("ack", 1, False)]
    store.sync()
    assert answers(peer) == [("ack", 5, True)]


def test_a_transient_publish_waits_for_the_persistent_one_before_it(
    peer: Peer, store: FakeStore
) -> None:
    keep(peer)
    peer.expect_nothing()
    peer.publish(1, "t", b"x", properties=TRANSIENT)
    peer.expect_nothing()
    store.sync()
    assert answers(peer) == [("ack", 2, True)]


def test_channels_do_not_wait_for_one_another(peer: Peer, store: FakeStore) -> None:
    peer.open(2)
    peer.call(2, commands.Confirm.Select)
    keep(peer)
    peer.expect_nothing()
    peer.publish(2, "t", b"x")
    (received,) = peer.receive()
    assert (received.channel, received.method.delivery_tag) == (2, 1)
    store.sync()
    (received,) = peer.receive()
    assert received.channel == 1


def test_what_was_consumed_before_it_was_written_is_confirmed_without_the_disk(
    peer: Peer, store: FakeStore
) -> None:
    peer.subscribe("d", "c", no_ack=True)
    keep(peer)
    peer.broker.run_turns()
    assert store.batches == [0]
    store.sync()
    names = [one.name for one in peer.receive()]
    assert names == ["basic.deliver", "basic.ack"]


def test_a_return_comes_at_once_and_its_ack_in_its_place(peer: Peer, store: FakeStore) -> None:
    keep(peer)
    keep(peer, "nowhere", mandatory=True)
    (returned,) = peer.receive()
    assert (returned.name, returned.method.reply_code) == ("basic.return", 312)
    store.sync()
    assert answers(peer) == [("ack", 2, True)]


def test_a_refused_publish_is_nacked_in_its_place(peer: Peer, store: FakeStore) -> None:
    peer.declare("small", arguments={"x-max-length": 0, "x-overflow": "reject-publish"})
    keep(peer)
    peer.expect_nothing()
    peer.publish(1, "small", b"x")
    peer.publish(1, "t", b"x")
    peer.expect_nothing()
    store.sync()
    assert answers(peer) == [("ack", 1, False), ("nack", 2, False), ("ack", 3, False)]


def test_a_fan_out_with_one_durable_queue_waits(peer: Peer, store: FakeStore) -> None:
    for queue in ("d", "t"):
        peer.bind(queue, "amq.fanout")
    keep(peer, "", exchange="amq.fanout")
    peer.expect_nothing()
    store.sync()
    assert answers(peer) == [("ack", 1, False)]


def test_ways_that_are_not_the_plain_lane_wait_too(peer: Peer, store: FakeStore) -> None:
    peer.declare("guarded", durable=True, arguments={"x-max-length": 10})
    peer.declare("always", durable=True, arguments={"x-message-durability": "always"})
    peer.declare_exchange("hash", "headers", durable=True)
    peer.bind("d", "hash", arguments={"x-match": "all", "a": 1})
    publishes = [
        publish_octets(1, "guarded", b"x", PERSISTENT),
        publish_octets(1, "always", b"x", TRANSIENT),
        publish_octets(1, "d", b"x", Properties(delivery_mode=2, expiration="60000")),
        publish_octets(1, "t", b"x", Properties(delivery_mode=2, headers={"CC": ["d"]})),  # type: ignore[arg-type]
        publish_octets(1, "", b"x", Properties(delivery_mode=2, headers={"a": 1}), exchange="hash"),  # type: ignore[arg-type]
    ]
    for number, octets in enumerate(publishes, 1):
        peer.send_octets(octets)
        peer.expect_nothing()
        store.sync()
        assert answers(peer) == [("ack", number, False)], number


@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("publish"), st.sampled_from(["d", "t", "small", "nowhere"])),
            st.tuples(st.sampled_from(["turn", "sync", "fail"]), st.just("")),
        ),
        max_size=30,
    )
)
def test_every_publish_is_answered_once_and_in_order(steps: list[tuple[str, str]]) -> None:
    store = FakeStore()
    peer = SteppedBroker(store=store).connect()
    peer.declare("d", durable=True)
    peer.declare("t")
    peer.declare("small", arguments={"x-max-length": 0, "x-overflow": "reject-publish"})
    peer.call(1, commands.Confirm.Select)
    queues: list[str] = []
    answered: list[str] = []

    def look() -> None:
        for name, tag, is_multiple in answers(peer):
            first = len(answered) + 1 if is_multiple else tag
            assert first == len(answered) + 1, "an answer out of its place"
            assert tag <= len(queues)
            answered.extend([name] * (tag + 1 - first))

    for step, queue in steps:
        if step == "publish":
            queues.append(queue)
            keep(peer, queue)
        elif step == "turn":
            look()
        elif step == "sync" and store.is_writing:
            store.sync()
        elif step == "fail" and not store.failure:
            store.fail("broken")
    look()
    while store.is_writing:
        store.sync()
        look()
    assert len(answered) == len(queues)
    for queue, answer in zip(queues, answered, strict=True):
        if queue == "small":
            assert answer == "nack"
        elif not store.failure:
            assert answer == "ack"


# --------------------------------------------------------------------------- the store has failed


def test_what_waits_when_the_store_fails_is_nacked(peer: Peer, store: FakeStore) -> None:
    keep(peer)
    peer.expect_nothing()
    store.sync()
    keep(peer, count=2)
    peer.broker.run_turns()
    keep(peer)
    peer.broker.run_turns()
    store.fail("fdatasync: input/output error")
    assert answers(peer) == [("ack", 1, False), ("nack", 4, True)]


def test_transient_publishes_go_on_after_a_failure(peer: Peer, store: FakeStore) -> None:
    keep(peer)
    peer.expect_nothing()
    store.fail("broken")
    assert answers(peer) == [("nack", 1, False)]
    for number in (2, 3):
        peer.publish(1, "t", b"x", properties=PERSISTENT)
        assert answers(peer) == [("ack", number, False)]
    peer.publish(1, "d", b"x", properties=TRANSIENT)
    assert answers(peer) == [("ack", 4, False)]
    keep(peer)
    assert answers(peer) == [("nack", 5, False)]
    assert peer.broker.queue("d").ready_count == 2  # what was nacked first, and the transient one


def test_acks_and_deliveries_go_on_after_a_failure(peer: Peer, store: FakeStore) -> None:
    keep(peer, count=3)
    peer.broker.run_turns()
    store.sync()
    peer.receive()
    store.fail("broken")
    peer.consume("d", "c")
    received = peer.receive()
    assert [one.name for one in received] == ["basic.consume-ok", *["basic.deliver"] * 3]
    peer.ack(2, multiple=True)
    peer.nack(3)
    (again,) = peer.receive()
    assert again.method.redelivered
    peer.ack(again.method.delivery_tag)
    peer.expect_nothing()
    assert peer.broker.queue("d").unacked_count == 0
    assert peer.get("d") is None


# --------------------------------------------------------------------------- it takes nothing new


def test_a_refused_publish_is_nacked_and_in_no_durable_queue(peer: Peer, store: FakeStore) -> None:
    store.refuse(FULL)
    keep(peer, count=2)
    assert answers(peer) == [("nack", 2, True)]
    assert peer.broker.queue("d").ready_count == 0
    assert store.ledgers["d"].added == []


def test_publishes_that_were_seen_before_are_refused_too(peer: Peer, store: FakeStore) -> None:
    keep(peer, count=3)
    peer.broker.run_turns()
    store.sync()
    assert answers(peer) == [("ack", 3, True)]
    store.refuse(FULL)
    keep(peer, count=3)
    assert answers(peer) == [("nack", 6, True)]
    store.refuse("")
    keep(peer, count=3)
    peer.expect_nothing()
    store.sync()
    assert answers(peer) == [("ack", 9, True)]


def test_queues_that_keep_nothing_get_what_another_queue_refuses(
    peer: Peer, store: FakeStore
) -> None:
    for queue in ("d", "t"):
        peer.bind(queue, "amq.fanout")
    store.refuse(FULL)
    keep(peer, "", exchange="amq.fanout")
    assert answers(peer) == [("nack", 1, False)]
    assert peer.broker.queue("t").ready_count == 1


def test_others_are_confirmed_between_the_refused(peer: Peer, store: FakeStore) -> None:
    store.refuse(FULL)
    peer.send_octets(
        publish_octets(1, "t", b"1", PERSISTENT)
        + publish_octets(1, "d", b"2", PERSISTENT)
        + publish_octets(1, "d", b"3", TRANSIENT)
    )
    assert answers(peer) == [("ack", 1, False), ("nack", 2, False), ("ack", 3, False)]


def test_a_mandatory_publish_is_answered_by_its_nack_alone(peer: Peer, store: FakeStore) -> None:
    store.refuse(FULL)
    keep(peer, mandatory=True)
    assert answers(peer) == [("nack", 1, False)]


def test_without_confirms_the_channel_is_closed_with_the_reason(
    peer: Peer, store: FakeStore
) -> None:
    peer.open(2)
    peer.open(3)
    peer.subscribe("t", "c", number=3)
    store.refuse(FULL)
    peer.publish(2, "d", b"x", properties=PERSISTENT)
    refusal = peer.refusal()
    assert (refusal.scope, refusal.code) == ("channel", 506)
    assert refusal.text == f"RESOURCE_ERROR - message cannot be stored: {FULL}"
    assert (refusal.class_id, refusal.method_id) == (60, 40)
    peer.publish(3, "t", b"y", properties=PERSISTENT)
    assert peer.bodies() == [b"y"]


def test_without_confirms_a_mandatory_publish_is_returned(peer: Peer, store: FakeStore) -> None:
    peer.open(2)
    store.refuse(FULL)
    peer.publish(2, "d", b"x", properties=PERSISTENT, mandatory=True)
    (returned,) = peer.receive()
    assert (returned.name, returned.method.reply_code) == ("basic.return", 506)
    assert returned.method.reply_text == f"message cannot be stored: {FULL}"


def test_a_reason_of_any_length_fits(peer: Peer, store: FakeStore) -> None:
    store.refuse("é" * 400)
    peer.open(2)
    peer.publish(2, "d", b"x", properties=PERSISTENT, mandatory=True)
    (returned,) = peer.receive()
    assert returned.method.reply_text.endswith("...")
    peer.publish(2, "d", b"x", properties=PERSISTENT)
    assert peer.refusal().text.endswith("...")


def test_dead_letters_still_come_while_publishes_are_refused(peer: Peer, store: FakeStore) -> None:
    peer.declare(
        "source",
        durable=True,
        arguments={"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "d"},
    )
    keep(peer, "source")
    peer.broker.run_turns()
    store.sync()
    peer.receive()
    store.refuse(FULL)
    received = peer.get("source")
    assert received is not None
    peer.nack(received.method.delivery_tag, requeue=False)
    peer.expect_nothing()
    assert peer.broker.queue("d").ready_count == 1


# --------------------------------------------------------------------------- the end


def test_a_channel_that_closes_confirms_nothing_afterwards(peer: Peer, store: FakeStore) -> None:
    keep(peer, count=2)
    peer.expect_nothing()
    peer.call(1, commands.Channel.Close, reply_code=200, reply_text="", class_id=0, method_id=0)
    peer.open(1)
    store.sync()
    peer.expect_nothing()
    assert peer.broker.queue("d").ready_count == 2


def test_publish_and_close_in_one_breath(peer: Peer, store: FakeStore) -> None:
    peer.send_octets(
        publish_octets(1, "d", b"x", PERSISTENT)
        + encode_method(
            1, commands.Channel.Close, reply_code=200, reply_text="", class_id=0, method_id=0
        )
    )
    assert [one.name for one in peer.receive()] == ["channel.close-ok"]
    store.sync()
    peer.expect_nothing()


def test_what_is_durable_is_still_confirmed_in_front_of_an_error(
    peer: Peer, store: FakeStore
) -> None:
    keep(peer)
    peer.broker.run_turns()
    store.sync()  # the ack is due, and the turn not over
    peer.send(1, commands.Queue.Declare, queue="missing", passive=True)
    assert [one.name for one in peer.receive()] == ["basic.ack", "channel.close"]


def test_a_connection_that_closes_hears_nothing_more(peer: Peer, store: FakeStore) -> None:
    keep(peer)
    peer.expect_nothing()
    peer.call(0, commands.Connection.Close, reply_code=200, reply_text="", class_id=0, method_id=0)
    assert peer.transport.state == "closed"
    store.sync()
    peer.broker.run_turns()
    assert peer.transport.written == b""


def test_a_connection_that_was_lost_is_not_written_to(peer: Peer, store: FakeStore) -> None:
    keep(peer)
    peer.expect_nothing()
    peer.lose()
    writes = peer.transport.writes
    store.sync()
    peer.broker.run_turns()
    assert peer.transport.writes == writes
    assert peer.broker.queue("d").ready_count == 1


def test_nothing_at_all_counts_as_nothing_sent_for_heartbeats(store: FakeStore) -> None:
    broker = SteppedBroker(store=store)
    peer = broker.connect(heartbeat_s=10)
    peer.declare("d", durable=True)
    peer.call(1, commands.Confirm.Select)
    broker.advance(5)
    peer.receive()
    for _ in range(8):  # it publishes all the time, and the disk says nothing
        keep(peer)
        broker.run_turns()
        broker.advance(2.5)
    assert "heartbeat" in [one.name for one in peer.receive()]


# --------------------------------------------------------------------------- the alarm of the disk


def test_a_publisher_is_blocked_while_the_disk_is_low(peer: Peer, store: FakeStore) -> None:
    alarms = peer.broker.context.alarms
    alarms.set("disk")
    peer.expect_nothing()
    keep(peer)
    assert peer.expect(commands.Connection.Blocked).reason == "low on disk"
    assert not peer.is_read_from()
    assert not store.is_writing, "it waits for the end of the alarm"
    alarms.clear("disk")
    peer.expect(commands.Connection.Unblocked)
    assert peer.is_read_from()
    store.sync()
    assert answers(peer) == [("ack", 1, False)]


def test_both_alarms_must_end(peer: Peer) -> None:
    alarms = peer.broker.context.alarms
    alarms.set("memory")
    alarms.set("disk")
    keep(peer)
    assert peer.expect(commands.Connection.Blocked).reason == "low on memory & disk"
    alarms.clear("memory")
    peer.expect_nothing()
    assert not peer.is_read_from()
    alarms.clear("disk")
    peer.expect(commands.Connection.Unblocked)


def test_who_only_consumes_is_never_blocked(peer: Peer, store: FakeStore) -> None:
    consumer = peer.broker.connect()
    keep(peer)
    peer.broker.run_turns()
    peer.broker.context.alarms.set("disk")
    consumer.consume("d", "c")
    names = [one.name for one in consumer.receive()]
    assert names == ["basic.consume-ok", "basic.deliver"]
    consumer.ack(1)
    consumer.expect_nothing()
    assert consumer.is_read_from()
    store.sync_all()
    assert store.ledgers["d"].settled == [0]


# --------------------------------------------------------------------------- the disk is behind


def test_the_turn_says_when_the_store_is_behind(peer: Peer, store: FakeStore) -> None:
    turn = peer.broker.turn
    store.is_slow = True
    keep(peer)
    peer.broker.run_turns()
    assert (turn.is_behind, turn.is_store_behind) == (True, True)
    store.is_slow = False
    turn.arm()
    peer.broker.run_turns()
    assert (turn.is_behind, turn.is_store_behind) == (False, False)
