"""basic.consume, cancel, get and qos: what they check, change and answer."""

from __future__ import annotations

import re
from collections import Counter
from typing import Any

import pytest

from hareline.amqp.context import Limits
from hareline.auth.permissions import Permissions
from hareline.wire.methods import Frame, commands, encode_method
from hareline.wire.properties import Properties

from ..peer import Peer, Received, SteppedBroker, numbered, publish_octets

BASIC, QUEUE = commands.Basic, commands.Queue


SELECTOR = "x-filter-jms-selector"


LOCKED = (
    "RESOURCE_LOCKED - cannot obtain exclusive access to locked queue 'q' in vhost '/'. It could "
    "be originally declared on another connection or the exclusive property value does not match "
    "that of the original declaration."
)


def deliveries(peer: Peer) -> list[Received]:
    received = peer.receive()
    assert {one.name for one in received} <= {"basic.deliver"}, received
    return received


# ---------------------------------------------------------------------------------------- consume


def test_consume_without_an_answer(peer: Peer) -> None:
    peer.declare("q")
    peer.fill("q", b"1")
    peer.consume("q", "t", nowait=True)
    assert [one.body for one in deliveries(peer)] == [b"1"]


def test_an_empty_tag_gets_a_generated_one(peer: Peer) -> None:
    peer.declare("q")
    tags = {peer.call(1, BASIC.Consume, queue="q").consumer_tag for _ in range(2)}
    assert len(tags) == 2
    assert all(re.fullmatch(r"amq\.ctag-[\w-]{22}", tag) for tag in tags)


def test_an_empty_queue_name_is_the_last_one_declared(peer: Peer) -> None:
    peer.declare("p")
    name = peer.declare("")
    peer.subscribe("", "t")
    peer.fill(name, b"1")
    assert [one.body for one in deliveries(peer)] == [b"1"]


def test_the_tag_of_another_channel_may_be_used_again(broker: SteppedBroker) -> None:
    peer = broker.connect(channels=[1, 2])
    peer.declare("q")
    peer.subscribe("q", "t")
    peer.subscribe("q", "t", number=2)


def test_a_tag_used_twice_on_a_channel_closes_the_connection(peer: Peer) -> None:
    peer.declare("q")
    peer.subscribe("q", "t")
    assert peer.refused(1, BASIC.Consume, queue="q", consumer_tag="t") == (
        530,
        "NOT_ALLOWED - attempt to reuse consumer tag 't'",
    )


def test_a_cancelled_tag_is_free_again(peer: Peer) -> None:
    peer.declare("q")
    for _ in range(2):
        peer.subscribe("q", "t")
        peer.call(1, BASIC.Cancel, consumer_tag="t")


@pytest.mark.parametrize("method_class", [BASIC.Consume, BASIC.Get, QUEUE.Purge])
def test_a_missing_queue_is_404(peer: Peer, method_class: type[Frame]) -> None:
    assert peer.refused(1, method_class, queue="nope") == (
        404,
        "NOT_FOUND - no queue 'nope' in vhost '/'",
    )


def test_somebody_elses_exclusive_queue_is_405(broker: SteppedBroker, peer: Peer) -> None:
    peer.declare("q", exclusive=True)
    other = broker.connect()
    assert other.refused(1, BASIC.Consume, queue="q") == (405, LOCKED)
    other.open(1)
    assert other.refused(1, BASIC.Get, queue="q") == (405, LOCKED)


def test_consume_and_get_need_read(broker: SteppedBroker, peer: Peer) -> None:
    peer.declare("q")
    broker.add_user("alice", "alice", permissions=Permissions(".*", ".*", "^p$"))
    other = broker.connect("alice")
    text = "ACCESS_REFUSED - read access to queue 'q' in vhost '/' refused for user 'alice'"
    assert other.refused(1, BASIC.Consume, queue="q") == (403, text)
    other.open(1)
    assert other.refused(1, BASIC.Get, queue="q") == (403, text)


def test_a_channel_may_have_a_limit_of_consumers() -> None:
    peer = SteppedBroker(Limits(max_consumers_per_channel=2)).connect(channels=[1, 2])
    peer.declare("q")
    peer.subscribe("q", "a")
    peer.subscribe("q", "b")
    peer.subscribe("q", "c", number=2)
    assert peer.refused(1, BASIC.Consume, queue="q", consumer_tag="d") == (
        530,
        "NOT_ALLOWED - reached maximum (2) of consumers per channel",
    )


def test_the_arguments_of_a_consumer_have_only_so_many_octets() -> None:
    broker = SteppedBroker()
    broker.context.capacity.max_arguments_bytes = 107
    peer = broker.connect()
    peer.declare("q")
    peer.subscribe("q", "fits", arguments={"a": "x" * 100})
    assert peer.refused(
        1, BASIC.Consume, queue="q", consumer_tag="big", arguments={"a": "x" * 101}
    ) == (
        406,
        "PRECONDITION_FAILED - the arguments of consumer 'big' in vhost '/' have more than 107 "
        "octets (max_arguments_bytes)",
    )


def test_the_consumers_of_a_queue_have_only_so_many_different_selectors() -> None:
    broker = SteppedBroker(Limits(max_selectors_per_queue=2))
    peer = broker.connect(channels=[1, 2])
    peer.declare("q")
    peer.subscribe("q", "a", arguments={SELECTOR: "a = 1"})
    peer.subscribe("q", "b", arguments={SELECTOR: "a = 2"}, number=2)
    peer.subscribe("q", "a again", arguments={SELECTOR: "a = 1"}, number=2)
    peer.subscribe("q", "all", number=2)
    peer.subscribe("q", "browser", arguments={SELECTOR: "a = 3", "x-browse": True}, number=2)
    assert peer.refused(
        1, BASIC.Consume, queue="q", consumer_tag="c", arguments={SELECTOR: "a = 3"}
    ) == (
        406,
        "PRECONDITION_FAILED - queue 'q' in vhost '/' has reached its maximum of 2 different "
        "selectors (max_selectors_per_queue): with this one they count as 3",
    )
    peer.open(1)
    peer.subscribe("q", "a once more", arguments={SELECTOR: "a = 1"})
    peer.call(2, BASIC.Cancel, consumer_tag="b")
    peer.subscribe("q", "c", arguments={SELECTOR: "a = 3"}, number=2)
    assert broker.queue("q").consumer_count == 5


def test_a_selector_that_costs_much_counts_as_several_of_a_queue() -> None:
    peer = SteppedBroker(Limits(max_selectors_per_queue=9)).connect(channels=[1, 2])
    peer.declare("q")
    peer.subscribe("q", "a", arguments={SELECTOR: "a LIKE '%x%'"}, number=2)
    peer.declare("other")
    code, text = peer.refused(
        1, BASIC.Consume, queue="other", arguments={SELECTOR: "a LIKE '%x%' AND b LIKE '%x%'"}
    )
    assert code == 406
    assert "maximum of 9 different selectors" in text
    assert text.endswith("they count as 17")
    peer.open(1)
    assert peer.refused(1, BASIC.Consume, queue="q", arguments={SELECTOR: "a = 1"})[0] == 406


def test_without_a_limit_a_queue_takes_any_number_of_selectors() -> None:
    peer = SteppedBroker(Limits(max_selectors_per_queue=0)).connect()
    peer.declare("q")
    peer.subscribe("q", "a", arguments={SELECTOR: " OR ".join(["a LIKE '%x_y%'"] * 300)})


@pytest.mark.parametrize("queue_type", ["classic", "quorum"])
@pytest.mark.parametrize("exclusive_one_comes_first", [True, False])
def test_an_exclusive_consumer_wants_to_be_alone(
    peer: Peer, exclusive_one_comes_first: bool, queue_type: str
) -> None:
    # differs: exclusive-quorum
    peer.declare("q", durable=True, arguments={"x-queue-type": queue_type})
    peer.subscribe("q", "a", exclusive=exclusive_one_comes_first)
    refusal = peer.refused(
        1, BASIC.Consume, queue="q", consumer_tag="b", exclusive=not exclusive_one_comes_first
    )
    assert refusal == (403, "ACCESS_REFUSED - queue 'q' in vhost '/' in exclusive use")


def test_a_quorum_queue_has_no_priorities(peer: Peer) -> None:
    # differs: quorum-priorities
    peer.declare("q", durable=True, arguments={"x-queue-type": "quorum"})
    for priority in (None, 4, 5, 9):
        body = str(priority).encode()
        peer.publish(1, "q", body, properties=Properties(priority=priority))
    assert peer.drain("q") == [b"None", b"4", b"5", b"9"]


def test_no_consumer_keeps_others_from_a_stream(peer: Peer) -> None:
    peer.call(1, BASIC.Qos, prefetch_count=9)
    peer.declare("s", durable=True, arguments={"x-queue-type": "stream"})
    for tag, exclusive in (("a", True), ("b", False), ("c", True)):
        peer.subscribe("s", tag, exclusive=exclusive)
    peer.publish(1, "s", b"for all")
    assert peer.bodies() == [b"for all"] * 3


def test_an_exclusive_consumer_that_left_makes_room(peer: Peer) -> None:
    peer.declare("q")
    peer.subscribe("q", "a", exclusive=True)
    peer.call(1, BASIC.Cancel, consumer_tag="a")
    peer.subscribe("q", "b")


def test_get_works_beside_an_exclusive_consumer(peer: Peer) -> None:
    peer.declare("q")
    peer.subscribe("q", "a", exclusive=True)
    assert peer.get("q") is None


@pytest.mark.parametrize(
    ("value", "kind"), [("high", "longstr"), (True, "bool"), (1.5, "double"), (None, "void")]
)
def test_a_priority_that_is_no_integer_is_406(peer: Peer, value: object, kind: str) -> None:
    peer.declare("q")
    assert peer.refused(1, BASIC.Consume, queue="q", arguments={"x-priority": value}) == (
        406,
        "PRECONDITION_FAILED - invalid arg 'x-priority' for queue 'q' in vhost '/': "
        f'"expected integer, got {kind}"',
    )


def test_arguments_nobody_knows_are_no_error(peer: Peer) -> None:
    peer.declare("q")
    peer.subscribe("q", "t", arguments={"x-colour": "red", "x-cancel-on-ha-failover": True})


def test_no_local_is_accepted_and_changes_nothing(peer: Peer) -> None:
    peer.declare("q")
    peer.subscribe("q", "t", no_local=True)
    peer.fill("q", b"1")
    assert [one.body for one in deliveries(peer)] == [b"1"]


# ------------------------------------------------------------------------------------------- qos


def test_prefetch_is_for_consumers_started_later_each_on_its_own(peer: Peer) -> None:
    peer.declare("q")
    peer.subscribe("q", "before")
    peer.call(1, BASIC.Qos, prefetch_count=2)
    peer.call(1, BASIC.Cancel, consumer_tag="before")
    peer.subscribe("q", "a")
    peer.subscribe("q", "b")
    peer.fill("q", *numbered(10))
    shares = Counter(one.method.consumer_tag for one in deliveries(peer))
    assert shares == {"a": 2, "b": 2}


def test_prefetch_leaves_consumers_that_run_alone(peer: Peer) -> None:
    peer.declare("q")
    peer.subscribe("q", "t")
    peer.call(1, BASIC.Qos, prefetch_count=1)
    peer.fill("q", *numbered(5))
    assert len(deliveries(peer)) == 5


def test_an_ack_makes_room_for_one_more(peer: Peer) -> None:
    peer.declare("q")
    peer.call(1, BASIC.Qos, prefetch_count=2)
    peer.fill("q", *numbered(5))
    peer.consume("q", "t")
    assert [one.body for one in peer.receive()[1:]] == [b"0", b"1"]
    peer.ack(1)
    assert peer.bodies() == [b"2"]
    peer.ack(3, multiple=True)
    assert peer.bodies() == [b"3", b"4"]
    peer.expect_nothing()


@pytest.mark.parametrize("is_global", [False, True])
def test_0_is_no_limit(peer: Peer, is_global: bool) -> None:
    peer.declare("q")
    peer.call(1, BASIC.Qos, prefetch_count=1)
    peer.call(1, BASIC.Qos, prefetch_count=0)
    peer.call(1, BASIC.Qos, prefetch_count=0, global_=is_global)
    peer.subscribe("q", "t")
    peer.fill("q", *numbered(50))
    assert len(deliveries(peer)) == 50


def test_no_ack_consumers_have_no_prefetch(peer: Peer) -> None:
    peer.declare("q")
    peer.call(1, BASIC.Qos, prefetch_count=1)
    peer.call(1, BASIC.Qos, prefetch_count=1, global_=True)
    peer.subscribe("q", "t", no_ack=True)
    peer.fill("q", *numbered(5))
    assert len(deliveries(peer)) == 5


def test_get_ignores_prefetch(peer: Peer) -> None:
    peer.declare("q")
    peer.call(1, BASIC.Qos, prefetch_count=1)
    peer.call(1, BASIC.Qos, prefetch_count=1, global_=True)
    peer.fill("q", *numbered(3))
    assert [peer.get("q") is not None for _ in range(3)] == [True, True, True]


def test_prefetch_ends_with_the_channel(peer: Peer) -> None:
    peer.declare("q")
    peer.call(1, BASIC.Qos, prefetch_count=1)
    peer.call(1, commands.Channel.Close)
    peer.open(1)
    peer.subscribe("q", "t")
    peer.fill("q", *numbered(3))
    assert len(deliveries(peer)) == 3


def test_a_global_limit_is_shared_by_all_consumers_of_the_channel(peer: Peer) -> None:
    peer.declare("p")
    peer.declare("q")
    peer.call(1, BASIC.Qos, prefetch_count=3, global_=True)
    peer.subscribe("p", "a")
    peer.subscribe("q", "b")
    peer.fill("p", *numbered(5))
    peer.fill("q", *numbered(5))
    received = deliveries(peer)
    assert len(received) == 3
    peer.ack(1)
    assert len(deliveries(peer)) == 1


def test_a_global_limit_is_in_force_at_once_and_counts_what_is_out(peer: Peer) -> None:
    peer.declare("q")
    peer.subscribe("q", "t")
    peer.fill("q", *numbered(2))
    assert len(deliveries(peer)) == 2
    peer.call(1, BASIC.Qos, prefetch_count=3, global_=True)
    peer.fill("q", *numbered(5))
    assert len(deliveries(peer)) == 1
    peer.ack(2, multiple=True)
    assert len(deliveries(peer)) == 2


def test_gets_do_not_count_for_a_global_limit(peer: Peer) -> None:
    peer.declare("q")
    peer.fill("q", *numbered(5))
    for _ in range(3):
        assert peer.get("q") is not None
    peer.call(1, BASIC.Qos, prefetch_count=1, global_=True)
    peer.consume("q", "t")
    assert len(peer.receive()) == 2
    peer.ack(1)
    peer.expect_nothing()
    peer.ack(4)
    assert len(deliveries(peer)) == 1


def test_raising_a_global_limit_resumes_deliveries(peer: Peer) -> None:
    peer.declare("q")
    peer.call(1, BASIC.Qos, prefetch_count=1, global_=True)
    peer.fill("q", *numbered(10))
    peer.consume("q", "t")
    assert len(peer.receive()) == 2
    peer.send(1, BASIC.Qos, prefetch_count=4, global_=True)
    assert [one.name for one in peer.receive()] == ["basic.qos-ok"] + ["basic.deliver"] * 3
    peer.send(1, BASIC.Qos, prefetch_count=0, global_=True)
    assert [one.name for one in peer.receive()] == ["basic.qos-ok"] + ["basic.deliver"] * 6


def test_lowering_a_global_limit_waits_for_enough_acks(peer: Peer) -> None:
    peer.declare("q")
    peer.call(1, BASIC.Qos, prefetch_count=3, global_=True)
    peer.fill("q", *numbered(10))
    peer.consume("q", "t")
    assert len(peer.receive()) == 4
    peer.call(1, BASIC.Qos, prefetch_count=1, global_=True)
    peer.ack(2, multiple=True)
    peer.expect_nothing()
    peer.ack(3)
    assert len(deliveries(peer)) == 1


def test_both_kinds_of_limit_may_be_set(peer: Peer) -> None:
    peer.declare("q")
    peer.call(1, BASIC.Qos, prefetch_count=2)
    peer.call(1, BASIC.Qos, prefetch_count=3, global_=True)
    peer.subscribe("q", "a")
    peer.fill("q", *numbered(10))
    assert Counter(one.method.consumer_tag for one in deliveries(peer)) == {"a": 2}
    peer.consume("q", "b")
    assert [one.method.consumer_tag for one in peer.receive()] == ["b", "b"]
    peer.ack(1)
    peer.ack(2)
    assert len(deliveries(peer)) == 2


def test_a_limit_switched_off_and_on_again_counts_right(peer: Peer) -> None:
    peer.declare("q")
    peer.call(1, BASIC.Qos, prefetch_count=2, global_=True)
    peer.subscribe("q", "t")
    peer.fill("q", *numbered(2))
    assert len(deliveries(peer)) == 2
    peer.call(1, BASIC.Qos, prefetch_count=0, global_=True)
    peer.fill("q", *numbered(2))
    assert len(deliveries(peer)) == 2
    peer.call(1, BASIC.Qos, prefetch_count=5, global_=True)
    peer.fill("q", *numbered(5))
    assert len(deliveries(peer)) == 1
    peer.ack(5, multiple=True)
    assert len(deliveries(peer)) == 4


@pytest.mark.parametrize("is_global", [False, True])
def test_a_limit_of_octets_counts_bodies(peer: Peer, is_global: bool) -> None:
    peer.declare("q")
    peer.call(1, BASIC.Qos, prefetch_size=100, global_=is_global)
    peer.subscribe("q", "t")
    peer.fill("q", *[b"x" * 40] * 5)
    assert len(deliveries(peer)) == 2  # a third would make 120
    peer.ack(1)
    assert len(deliveries(peer)) == 1


def test_a_message_above_the_limit_of_octets_gets_through_alone(peer: Peer) -> None:
    peer.declare("q")
    peer.call(1, BASIC.Qos, prefetch_size=100)
    peer.subscribe("q", "t")
    peer.fill("q", b"x" * 500, b"y")
    assert peer.bodies() == [b"x" * 500]
    peer.ack(1)
    assert peer.bodies() == [b"y"]


def test_a_requeue_gives_its_octets_back(peer: Peer) -> None:
    peer.declare("q")
    peer.call(1, BASIC.Qos, prefetch_size=10)
    peer.subscribe("q", "t")
    peer.fill("q", b"12345", b"67890", b"abcde")
    assert peer.bodies() == [b"12345", b"67890"]
    peer.nack(1)
    assert peer.bodies() == [b"12345"]


# ---------------------------------------------------------------------------------------- cancel


def test_nothing_is_delivered_after_cancel_ok(broker: SteppedBroker, peer: Peer) -> None:
    peer.declare("q")
    peer.subscribe("q", "t")
    peer.send_octets(
        publish_octets(1, "q", b"1") + encode_method(1, BASIC.Cancel, consumer_tag="t")
    )
    received = [one.name for one in peer.receive()]
    assert received in (["basic.cancel-ok"], ["basic.deliver", "basic.cancel-ok"])
    peer.fill("q", b"2")
    peer.expect_nothing()


def test_cancel_ok_names_the_tag_known_or_not(peer: Peer) -> None:
    assert peer.call(1, BASIC.Cancel, consumer_tag="nobody").consumer_tag == "nobody"


def test_cancel_without_an_answer(broker: SteppedBroker, peer: Peer) -> None:
    peer.declare("q")
    peer.subscribe("q", "t")
    peer.send(1, BASIC.Cancel, consumer_tag="t", nowait=True)
    peer.expect_nothing()
    assert broker.queue("q").consumers == []


def test_cancel_is_no_requeue(broker: SteppedBroker, peer: Peer) -> None:
    peer.declare("q")
    peer.fill("q", *numbered(2))
    peer.consume("q", "t")
    assert len(peer.receive()) == 3
    peer.call(1, BASIC.Cancel, consumer_tag="t")
    queue = broker.queue("q")
    assert (queue.ready_count, queue.unacked_count) == (0, 2)
    peer.ack(2, multiple=True)
    peer.expect_nothing()
    assert queue.unacked_count == 0


# ------------------------------------------------------------------------------------------- get


def test_get_says_how_much_is_left(peer: Peer) -> None:
    peer.declare("q")
    peer.fill("q", *numbered(3))
    seen = []
    while (received := peer.get("q")) is not None:
        method = received.method
        seen.append((method.delivery_tag, received.body, method.message_count))
        assert (method.redelivered, method.exchange, method.routing_key) == (False, "", "q")
    assert seen == [(1, b"0", 2), (2, b"1", 1), (3, b"2", 0)]


def test_get_from_an_empty_queue_is_get_empty(peer: Peer) -> None:
    peer.declare("q")
    peer.send(1, BASIC.Get, queue="q")
    peer.expect(BASIC.GetEmpty)


def test_get_without_ack_settles_at_once(broker: SteppedBroker, peer: Peer) -> None:
    peer.declare("q")
    peer.fill("q", b"1")
    received = peer.get("q", no_ack=True)
    assert received is not None
    assert broker.queue("q").unacked_count == 0
    assert peer.refused(1, BASIC.Ack, delivery_tag=1)[0] == 406


def test_gets_and_deliveries_share_one_row_of_tags(peer: Peer) -> None:
    peer.declare("p")
    peer.declare("q")
    peer.subscribe("p", "t")
    tags: list[Any] = []
    for _ in range(2):
        peer.fill("p", b"1")
        tags += [one.method.delivery_tag for one in deliveries(peer)]
        peer.fill("q", b"1")
        received = peer.get("q")
        assert received is not None
        tags.append(received.method.delivery_tag)
    assert tags == [1, 2, 3, 4]
