"""Prefetch as a client sees it: who sets the number, and when a consumer at its limit gets more."""

from __future__ import annotations

from collections import Counter

import pytest

from hareline.wire.methods import commands
from hareline.wire.properties import Properties
from hareline.wire.table import Table

from .peer import Peer, SteppedBroker, numbered

BASIC, CHANNEL = commands.Basic, commands.Channel


def delivered(peer: Peer, count: int, **arguments: object) -> int:
    """How many of so many messages a new consumer with these arguments gets at once."""
    name = peer.declare()
    peer.subscribe(name, f"of-{name}", arguments=Table(arguments))
    peer.fill(name, *numbered(count))
    return len(peer.bodies())


# ----------------------------------------------------------------------- the rows, one by one


@pytest.mark.row("B1")
def test_messages_come_without_being_asked_for(peer: Peer) -> None:
    peer.declare("q")
    peer.subscribe("q", "t")
    for body in numbered(3):
        peer.fill("q", body)
        assert peer.bodies() == [body]


@pytest.mark.row("B2")
def test_no_more_than_the_prefetch_are_out_for_each_consumer(peer: Peer) -> None:
    peer.declare("q")
    peer.call(1, BASIC.Qos, prefetch_count=3)
    peer.subscribe("q", "a")
    peer.subscribe("q", "b")
    peer.fill("q", *numbered(20))
    shares = Counter(one.method.consumer_tag for one in peer.receive())
    assert shares == {"a": 3, "b": 3}
    for tag in range(1, 7):
        peer.ack(tag)
        assert len(peer.bodies()) == 1


@pytest.mark.row("B3")
def test_a_refill_at_50_percent_waits_for_half_and_then_fills_up(peer: Peer) -> None:
    peer.declare("q")
    peer.call(1, BASIC.Qos, prefetch_count=10)
    peer.subscribe("q", "t", arguments=Table({"x-prefetch-refill": 50}))
    peer.fill("q", *numbered(40))
    assert len(peer.bodies()) == 10
    for tag in range(1, 5):
        peer.ack(tag)
        peer.expect_nothing()
    peer.ack(5)
    assert peer.bodies() == numbered(5, 10)
    peer.ack(14, multiple=True)  # one is left unacked
    assert peer.bodies() == numbered(9, 15)
    peer.ack(0, multiple=True)
    assert peer.bodies() == numbered(10, 24)


@pytest.mark.row("B3")
def test_a_refill_at_once_is_what_happens_unless_asked_otherwise(peer: Peer) -> None:
    peer.declare("q")
    peer.call(1, BASIC.Qos, prefetch_count=10)
    peer.subscribe("q", "t", arguments=Table({"x-prefetch-refill": 100}))
    peer.fill("q", *numbered(40))
    assert len(peer.bodies()) == 10
    for tag in range(1, 11):
        peer.ack(tag)
        assert len(peer.bodies()) == 1


@pytest.mark.row("B5")
def test_a_consumer_may_bring_a_prefetch_of_its_own(peer: Peer) -> None:
    peer.call(1, BASIC.Qos, prefetch_count=3)
    assert delivered(peer, 20, **{"x-prefetch-count": 10}) == 10
    assert delivered(peer, 20, **{"x-prefetch-count": 1}) == 1
    assert delivered(peer, 20, **{"x-prefetch-count": 0}) == 20
    assert delivered(peer, 20) == 3


@pytest.mark.row("B6")
def test_a_virtual_host_may_have_a_default(broker: SteppedBroker, peer: Peer) -> None:
    broker.vhost.default_prefetch = 4
    assert delivered(peer, 20) == 4
    assert delivered(peer, 20, **{"x-prefetch-count": 6}) == 6
    peer.call(1, BASIC.Qos, prefetch_count=2)
    assert delivered(peer, 20) == 2


@pytest.mark.row("B6")
def test_destinations_have_defaults_of_their_own_by_policy(
    broker: SteppedBroker, peer: Peer
) -> None:
    broker.vhost.default_prefetch = 4
    peer.declare("q")
    queue, live = broker.queue("q"), broker.vhost.live_arguments
    for change, count in (
        ({"x-default-prefetch": 6}, 6),
        ({"x-prefetch-profile": "activemq"}, 6),
        ({"x-default-prefetch": None}, 1000),
        ({"x-prefetch-profile": "none"}, 4),
        ({"x-prefetch-max": 3}, 3),
        ({"x-default-prefetch": 0}, 3),
    ):
        live.change(queue, change)
        peer.subscribe("q", "t")
        (consumer,) = queue.consumers
        assert consumer.credit == count, change
        peer.call(1, BASIC.Cancel, consumer_tag="t")


@pytest.mark.row("B6")
@pytest.mark.parametrize("is_global", [False, True])
def test_a_qos_of_0_is_no_limit_whatever_the_default(
    broker: SteppedBroker, peer: Peer, is_global: bool
) -> None:
    broker.vhost.default_prefetch = 4
    peer.call(1, BASIC.Qos, prefetch_count=0, global_=is_global)
    assert delivered(peer, 20) == 20


@pytest.mark.row("B6")
def test_a_channel_that_is_opened_again_has_the_default_again(
    broker: SteppedBroker, peer: Peer
) -> None:
    broker.vhost.default_prefetch = 4
    peer.call(1, BASIC.Qos, prefetch_count=0)
    peer.call(1, CHANNEL.Close)
    peer.open(1)
    assert delivered(peer, 20) == 4


@pytest.mark.row("B7")
def test_who_wants_to_be_asked_for_each_message_uses_get(peer: Peer) -> None:
    peer.declare("q")
    assert peer.get("q") is None  # at once: it waits for nothing
    peer.fill("q", *numbered(3))
    for body in numbered(3):
        received = peer.get("q")
        assert received is not None
        assert received.body == body
    assert peer.get("q") is None


@pytest.mark.row("B9")
def test_with_a_prefetch_of_1_a_client_needs_no_buffer(peer: Peer) -> None:
    peer.declare("q")
    peer.call(1, BASIC.Qos, prefetch_count=1)
    peer.subscribe("q", "a")
    peer.subscribe("q", "b")
    peer.fill("q", *numbered(6))
    slow, quick = peer.receive()
    assert {slow.method.consumer_tag, quick.method.consumer_tag} == {"a", "b"}
    tag = quick.method.delivery_tag
    for body in numbered(4, 2):  # the quick one does all the work
        peer.ack(tag)
        (one,) = peer.receive()
        assert (one.method.consumer_tag, one.body) == (quick.method.consumer_tag, body)
        tag = one.method.delivery_tag


PROFILE = [
    ({"durable": True}, False, 1000),
    ({}, False, 1000),
    ({"durable": True}, True, 100),
    ({"exclusive": True}, True, 1000),
    ({"auto_delete": True}, False, 32_766),
    ({"auto_delete": True, "exclusive": True}, True, 32_766),
    ({"auto_delete": True, "queue": "named"}, False, 1000),
    ({"auto_delete": True, "queue": "jobs-1"}, False, 1000),
    ({"auto_delete": True, "arguments": Table({"x-name-prefix": "jobs"})}, False, 32_766),
    ({"arguments": Table({"x-non-destructive": True})}, False, 500),
]


@pytest.mark.row("B10")
@pytest.mark.parametrize(("declared", "is_exclusive", "count"), PROFILE)
def test_activemqs_defaults_go_by_the_kind_of_queue(
    broker: SteppedBroker,
    peer: Peer,
    declared: dict[str, object],
    is_exclusive: bool,
    count: int,
) -> None:
    broker.vhost.prefetch_profile = "activemq"
    name = str(peer.call(1, commands.Queue.Declare, **declared).queue)
    peer.subscribe(name, "t", exclusive=is_exclusive)
    (consumer,) = broker.queue(name).consumers
    assert consumer.credit == count


@pytest.mark.row("B10")
def test_a_consumer_gets_what_activemq_would_give_it(broker: SteppedBroker, peer: Peer) -> None:
    broker.vhost.prefetch_profile = "activemq"
    assert delivered(peer, 1500) == 1000
    assert delivered(peer, 1500, **{"x-prefetch-count": 7}) == 7
    peer.call(1, BASIC.Qos, prefetch_count=0)
    assert delivered(peer, 1500) == 1500


@pytest.mark.row("B11")
def test_what_a_consumer_hoards_is_not_given_to_others_until_it_goes(
    broker: SteppedBroker, peer: Peer
) -> None:
    peer.declare("q")
    idle = broker.connect()
    idle.call(1, BASIC.Qos, prefetch_count=5)
    idle.subscribe("q", "idle")
    peer.fill("q", *numbered(8))
    assert idle.bodies() == numbered(5)
    idle.call(1, BASIC.Cancel, consumer_tag="idle")  # a pool that keeps the channel for later
    peer.consume("q", "busy")
    assert [one.body for one in peer.receive()[1:]] == numbered(3, 5)
    idle.call(1, CHANNEL.Close)
    again = peer.receive()
    assert [one.body for one in again] == numbered(5)
    assert all(one.method.redelivered for one in again)


@pytest.mark.row("B13")
def test_octets_can_be_limited_besides_the_count(peer: Peer) -> None:
    peer.declare("q")
    peer.call(1, BASIC.Qos, prefetch_count=5, prefetch_size=1000)
    peer.subscribe("q", "t")
    peer.fill("q", *[b"x" * 400] * 4, *[b"y"] * 10)
    assert len(peer.bodies()) == 2
    peer.ack(1)
    assert len(peer.bodies()) == 1
    peer.ack(3, multiple=True)
    assert [len(body) for body in peer.bodies()] == [400, 1, 1, 1, 1]  # the count's turn
    peer.ack(4)
    assert len(peer.bodies()) == 1


@pytest.mark.row("A27")
def test_an_operator_may_bound_every_prefetch(broker: SteppedBroker, peer: Peer) -> None:
    broker.vhost.prefetch_max = 2
    assert delivered(peer, 20) == 2
    assert delivered(peer, 20, **{"x-prefetch-count": 10}) == 2
    assert delivered(peer, 20, **{"x-prefetch-count": 0}) == 2
    assert delivered(peer, 20, **{"x-prefetch-count": 1}) == 1
    peer.call(1, BASIC.Qos, prefetch_count=10)
    assert delivered(peer, 20) == 2
    peer.call(1, BASIC.Qos, prefetch_count=0)
    assert delivered(peer, 20) == 2
    broker.vhost.prefetch_max = 0
    assert delivered(peer, 20) == 20


@pytest.mark.row("A27")
def test_a_bound_holds_for_each_consumer_besides_the_channels_limit(
    broker: SteppedBroker, peer: Peer
) -> None:
    broker.vhost.prefetch_max = 2
    peer.call(1, BASIC.Qos, prefetch_count=3, global_=True)
    assert delivered(peer, 20) == 2
    assert delivered(peer, 20) == 1


@pytest.mark.row("A27")
def test_the_bound_is_for_those_who_acknowledge(broker: SteppedBroker, peer: Peer) -> None:
    broker.vhost.prefetch_max = 2
    peer.declare("q")
    peer.subscribe("q", "t", no_ack=True)
    peer.fill("q", *numbered(20))
    assert len(peer.bodies()) == 20


@pytest.mark.row("B6")
def test_a_default_that_changes_is_for_later_consumers(broker: SteppedBroker, peer: Peer) -> None:
    peer.declare("q")
    peer.subscribe("q", "before")
    broker.vhost.default_prefetch = 1
    peer.subscribe("q", "after")
    peer.fill("q", *numbered(10))
    shares = Counter(one.method.consumer_tag for one in peer.receive())
    assert shares == {"before": 9, "after": 1}


# ---------------------------------------------------------------------- limits that change


def test_lowering_the_octets_below_what_is_out_stops_and_raising_resumes(peer: Peer) -> None:
    peer.declare("q")
    peer.call(1, BASIC.Qos, prefetch_size=100, global_=True)
    peer.subscribe("q", "t")
    peer.fill("q", *[b"x" * 40] * 10)
    assert len(peer.bodies()) == 2
    peer.call(1, BASIC.Qos, prefetch_size=40, global_=True)
    peer.ack(1)
    peer.expect_nothing()
    peer.ack(2)
    assert len(peer.bodies()) == 1
    peer.send(1, BASIC.Qos, prefetch_size=200, global_=True)
    assert [one.name for one in peer.receive()] == ["basic.qos-ok"] + ["basic.deliver"] * 4


def test_a_limit_for_each_consumer_lifts_the_one_for_the_channel(peer: Peer) -> None:
    peer.declare("q")
    peer.call(1, BASIC.Qos, prefetch_count=2, global_=True)
    peer.subscribe("q", "a")
    peer.fill("q", *numbered(20))
    assert len(peer.bodies()) == 2
    peer.send(1, BASIC.Qos, prefetch_count=5)
    assert len(peer.receive()) == 1 + 18
    peer.subscribe("q", "b")
    peer.fill("q", *numbered(20))
    shares = Counter(one.method.consumer_tag for one in peer.receive())
    assert shares == {"a": 15, "b": 5}


# -------------------------------------------------------------------------------- the refill


@pytest.mark.row("B3")
@pytest.mark.parametrize(
    ("count", "percent", "unacked"),
    [
        (1, 1, 0),
        (1, 50, 0),
        (2, 50, 1),
        (3, 50, 1),
        (4, 99, 3),
        (4, 75, 3),
        (4, 74, 2),
        (5, 1, 0),
        (5, 20, 1),
        (10, 30, 3),
        (10, 100, 9),
    ],
)
def test_a_refill_begins_when_so_few_are_unacked(
    peer: Peer, count: int, percent: int, unacked: int
) -> None:
    peer.declare("q")
    arguments = Table({"x-prefetch-count": count, "x-prefetch-refill": percent})
    peer.subscribe("q", "t", arguments=arguments)
    peer.fill("q", *numbered(3 * count))
    assert len(peer.bodies()) == count
    for tag in range(1, count - unacked):
        peer.ack(tag)
        peer.expect_nothing()
    peer.ack(count - unacked)
    assert len(peer.bodies()) == count - unacked


def waiting_for_refill(peer: Peer, *, count: int = 4, acked: int = 1) -> None:
    """A consumer of q that has used up its prefetch, and has acked less than half of it since."""
    peer.declare("q")
    arguments = Table({"x-prefetch-count": count, "x-prefetch-refill": 50})
    peer.subscribe("q", "t", arguments=arguments)
    peer.fill("q", *numbered(20))
    assert peer.bodies() == numbered(count)
    if acked:
        peer.ack(acked, multiple=True)
    peer.expect_nothing()


def test_flow_does_not_begin_a_refill(peer: Peer) -> None:
    waiting_for_refill(peer)
    peer.call(1, CHANNEL.Flow, active=False)
    peer.call(1, CHANNEL.Flow, active=True)
    peer.call(1, CHANNEL.Flow, active=False)
    peer.ack(2)
    peer.expect_nothing()
    peer.send(1, CHANNEL.Flow, active=True)
    assert [one.name for one in peer.receive()] == ["channel.flow-ok"] + ["basic.deliver"] * 2


def test_a_limit_for_the_channel_does_not_begin_a_refill(peer: Peer) -> None:
    waiting_for_refill(peer)
    for limit in (1, 10, 0):
        peer.call(1, BASIC.Qos, prefetch_count=limit, global_=True)
    peer.expect_nothing()
    peer.ack(2)
    assert len(peer.bodies()) == 2


def test_a_new_message_does_not_begin_a_refill(peer: Peer) -> None:
    waiting_for_refill(peer)
    peer.fill("q", b"new")
    peer.expect_nothing()


def test_a_requeue_counts_as_an_ack_does(peer: Peer) -> None:
    waiting_for_refill(peer)
    peer.nack(3)
    assert peer.bodies() == [b"2", b"4"]


def test_what_is_not_used_up_needs_no_refill(peer: Peer) -> None:
    peer.declare("q")
    arguments = Table({"x-prefetch-count": 4, "x-prefetch-refill": 50})
    peer.subscribe("q", "t", arguments=arguments)
    peer.fill("q", *numbered(3))
    assert peer.bodies() == numbered(3)
    for number in range(3, 20):  # three are out all the time
        peer.ack(number - 2)
        peer.fill("q", b"%d" % number)
        assert peer.bodies() == [b"%d" % number]


def test_a_refill_does_nothing_where_there_is_no_limit(peer: Peer) -> None:
    assert delivered(peer, 50, **{"x-prefetch-refill": 1}) == 50


def test_a_refill_and_the_channels_limit_both_hold(peer: Peer) -> None:
    peer.declare("q")
    peer.call(1, BASIC.Qos, prefetch_count=6, global_=True)
    arguments = Table({"x-prefetch-count": 4, "x-prefetch-refill": 50})
    peer.subscribe("q", "a", arguments=arguments)
    peer.subscribe("q", "b", arguments=arguments)
    peer.fill("q", *numbered(40))
    by_tag: dict[str, list[int]] = {"a": [], "b": []}
    for one in peer.receive():
        by_tag[one.method.consumer_tag].append(one.method.delivery_tag)
    assert sorted(map(len, by_tag.values())) == [3, 3]  # no one has used up its own
    peer.ack(by_tag["a"].pop())
    (one,) = peer.receive()
    by_tag[one.method.consumer_tag].append(one.method.delivery_tag)
    while any(by_tag.values()):
        tag = max(by_tag, key=lambda name: len(by_tag[name]))
        peer.ack(by_tag[tag].pop())
        received = peer.receive()
        assert sum(map(len, by_tag.values())) + len(received) <= 6
        for one in received:
            by_tag[one.method.consumer_tag].append(one.method.delivery_tag)
    assert peer.broker.queue("q").settled_count == 40
    assert peer.broker.queue("q").ready_count == 0


# ------------------------------------------------------------- what a low prefetch is for


def publish_priorities(peer: Peer, queue: str, *priorities: int) -> None:
    for number in priorities:
        peer.publish(1, queue, b"%d" % number, properties=Properties(priority=number))


@pytest.mark.row("A27", "C10")
def test_with_a_prefetch_of_1_priorities_are_exact(peer: Peer) -> None:
    peer.declare("q", arguments=Table({"x-max-priority": 9}))
    peer.call(1, BASIC.Qos, prefetch_count=1)
    peer.subscribe("q", "t")
    publish_priorities(peer, "q", 1, 2, 3)
    assert peer.bodies() == [b"3"]
    publish_priorities(peer, "q", 9, 5)
    order = []
    for tag in range(1, 5):
        peer.ack(tag)
        order += peer.bodies()
    assert order == [b"9", b"5", b"2", b"1"]


@pytest.mark.row("A27", "C10")
def test_with_a_large_prefetch_a_late_high_one_leads_what_comes_next(peer: Peer) -> None:
    peer.declare("q", arguments=Table({"x-max-priority": 9}))
    peer.call(1, BASIC.Qos, prefetch_count=3)
    peer.subscribe("q", "t")
    publish_priorities(peer, "q", 1, 1, 1, 1, 1)
    assert peer.bodies() == [b"1"] * 3  # their order is fixed now
    publish_priorities(peer, "q", 9)
    peer.expect_nothing()
    peer.ack(3, multiple=True)
    assert peer.bodies() == [b"9", b"1", b"1"]


@pytest.mark.row("A27")
def test_an_operator_makes_priorities_exact_whatever_clients_ask_for(
    broker: SteppedBroker, peer: Peer
) -> None:
    broker.vhost.prefetch_max = 1
    peer.declare("q", arguments=Table({"x-max-priority": 9}))
    peer.call(1, BASIC.Qos, prefetch_count=1000)
    peer.subscribe("q", "t")
    publish_priorities(peer, "q", 1, 2)
    assert peer.bodies() == [b"2"]
    publish_priorities(peer, "q", 9)
    peer.ack(1)
    assert peer.bodies() == [b"9"]


@pytest.mark.row("C12")
def test_consumers_may_be_dedicated_to_high_priorities(peer: Peer) -> None:
    peer.declare("q")
    peer.subscribe("q", "high", arguments=Table({"x-filter-jms-selector": "JMSPriority > 6"}))
    publish_priorities(peer, "q", 1, 7, 6, 9)
    assert peer.bodies() == [b"7", b"9"]
    low = Table({"x-filter-jms-selector": "JMSPriority <= 6"})
    peer.consume("q", "low", arguments=low)
    assert [one.body for one in peer.receive()[1:]] == [b"1", b"6"]


@pytest.mark.row("A18")
def test_a_consumer_inherits_the_selector_of_its_queue(peer: Peer) -> None:
    filters = Table({"f": Table({"x-filter-jms-selector": ["JMSPriority > 2"]})})
    peer.declare("q", arguments=Table({"x-default-filters": filters}))
    publish_priorities(peer, "q", 1, 7, 3, 9)
    peer.consume("q", "own", arguments=Table({"x-filter-jms-selector": "JMSPriority < 9"}))
    assert [one.body for one in peer.receive()[1:]] == [b"7", b"3"]
    peer.consume("q", "all")
    assert [one.body for one in peer.receive()[1:]] == [b"9"]


# ----------------------------------------------------------------------- limits of a queue


@pytest.mark.row("E12")
def test_a_queue_may_have_a_maximum_of_consumers(broker: SteppedBroker, peer: Peer) -> None:
    peer.declare("q", arguments=Table({"x-max-consumers": 2}))
    peer.subscribe("q", "a")
    other = broker.connect()
    other.subscribe("q", "b")
    refusal = other.refused(1, BASIC.Consume, queue="q")
    assert refusal == (
        403,
        "ACCESS_REFUSED - queue 'q' in vhost '/' has reached its maximum of 2 consumers",
    )
    other.open(1)  # the refusal has taken its consumer away
    other.subscribe("q", "b")
    peer.call(1, BASIC.Cancel, consumer_tag="a")
    other.subscribe("q", "c")
    assert peer.get("q") is None  # a get is no consumer


@pytest.mark.parametrize("queue_type", ["classic", "quorum"])
def test_where_one_consumer_is_active_none_may_be_exclusive(peer: Peer, queue_type: str) -> None:
    arguments = Table({"x-single-active-consumer": True, "x-queue-type": queue_type})
    peer.declare("q", durable=True, arguments=arguments)
    refusal = peer.refused(1, BASIC.Consume, queue="q", exclusive=True)
    assert refusal == (403, "ACCESS_REFUSED - queue 'q' in vhost '/' in exclusive use")
    peer.open(1)
    peer.subscribe("q", "a")
    peer.subscribe("q", "b")


def test_get_and_a_single_active_consumer_go_together_on_a_classic_queue(peer: Peer) -> None:
    peer.declare("q", arguments=Table({"x-single-active-consumer": True}))
    peer.fill("q", b"1")
    received = peer.get("q")
    assert received is not None
    assert received.body == b"1"


def test_get_and_a_single_active_consumer_do_not_on_a_quorum_queue(peer: Peer) -> None:
    arguments = Table({"x-single-active-consumer": True, "x-queue-type": "quorum"})
    peer.declare("q", durable=True, arguments=arguments)
    assert peer.refused(1, BASIC.Get, queue="q") == (
        405,
        "RESOURCE_LOCKED - cannot obtain access to locked queue 'q' in vhost '/'. basic.get "
        "operations are not supported by quorum queues with single active consumer",
    )
