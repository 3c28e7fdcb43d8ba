"""Queues that clients use without a declare: made by patterns and policies, with their rights."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from hareline.auth.permissions import Permissions
from hareline.wire.methods import commands
from tests.support.administered import Administered
from tests.support.stores import FakeDefinitions

from .peer import Peer, SteppedBroker

BASIC, QUEUE = commands.Basic, commands.Queue


@pytest.fixture
def definitions() -> FakeDefinitions:
    return FakeDefinitions()


@pytest.fixture
def broker(definitions: FakeDefinitions) -> SteppedBroker:
    broker = SteppedBroker(definitions=definitions)
    broker.vhost.auto_creation.set_patterns([r"^jobs\."])

    def write_pending() -> bool:
        definitions.commit()
        return broker.store.write_pending()

    definitions.ask_for_turn = broker.turn.arm
    broker.turn.write_pending = write_pending
    return broker


@pytest.fixture
def peer(broker: SteppedBroker) -> Peer:
    return broker.connect()


@pytest.fixture
def administered() -> Iterator[Administered]:
    broker = Administered()
    yield broker
    broker.close()


@pytest.mark.row("E1")
def test_a_publish_makes_the_queue_that_it_names(
    broker: SteppedBroker, peer: Peer, definitions: FakeDefinitions
) -> None:
    peer.call(1, commands.Confirm.Select)
    for _ in range(2):
        peer.publish(1, "jobs.a", b"m", mandatory=True)
    peer.publish(1, "jobs", b"m")  # does not match
    peer.publish(1, "jobs.b", b"m", exchange="amq.direct")
    assert {each.name for each in peer.receive()} == {"basic.ack"}  # nothing was returned
    queue = broker.queue("jobs.a")
    assert (queue.ready_count, queue.is_durable, queue.is_auto_delete) == (2, True, False)
    assert definitions.queues == {"jobs.a": 1}
    peer.call(1, QUEUE.Delete, queue="jobs.a")
    peer.publish(1, "jobs.a", b"again")  # its route was known
    peer.receive()
    assert broker.queue("jobs.a").ready_count == 1


@pytest.mark.row("E1")
def test_publishes_wait_until_the_queue_is_durable(
    broker: SteppedBroker, peer: Peer, definitions: FakeDefinitions
) -> None:
    definitions.gathers = definitions.is_busy = True
    other = broker.connect()
    for each in (peer, other):
        each.publish(1, "jobs.a", b"m")
        each.publish(1, "jobs.a", b"m")
    broker.run_turns()
    assert broker.queue("jobs.a").ready_count == 0
    definitions.is_busy = False
    broker.turn.arm()
    broker.run_turns()
    assert broker.queue("jobs.a").ready_count == 4


def test_consume_get_and_a_passive_declare_make_it(broker: SteppedBroker, peer: Peer) -> None:
    peer.subscribe("jobs.consumed", "c")
    assert peer.get("jobs.got") is None
    assert peer.declare("jobs.declared", passive=True) == "jobs.declared"
    assert sorted(broker.vhost.queues) == ["jobs.consumed", "jobs.declared", "jobs.got"]
    assert peer.refused(1, BASIC.Get, queue="other")[0] == 404


def test_without_the_right_to_configure_it_is_refused_as_a_declare(broker: SteppedBroker) -> None:
    broker.add_user("ann", "ann", permissions=Permissions(r"^jobs\.ann$", ".*", ".*"))
    peer = broker.connect("ann")
    text = (
        "ACCESS_REFUSED - configure access to queue 'jobs.bob' in vhost '/' refused for user 'ann'"
    )
    assert peer.publish_refused(1, "jobs.bob", body=b"m") == (403, text)
    peer.open(1)
    assert peer.refused(1, BASIC.Consume, queue="jobs.bob") == (403, text)
    peer.open(1)
    peer.publish(1, "jobs.ann", b"m")
    assert peer.get("jobs.ann") is not None
    broker.add_user("bob", "bob", permissions=Permissions(".*", "^$", ".*"))
    assert broker.connect("bob").publish_refused(1, "jobs.bob")[0] == 403  # and nothing is made
    assert list(broker.vhost.queues) == ["jobs.ann"]


def test_the_limit_of_queues_holds(broker: SteppedBroker, peer: Peer) -> None:
    broker.vhost.max_queues = 1
    peer.publish(1, "jobs.a")
    code, text = peer.publish_refused(1, "jobs.b")
    assert (code, "queue limit" in text) == (406, True)


def test_in_a_transaction_the_queue_is_there_before_the_commit(
    broker: SteppedBroker, peer: Peer
) -> None:
    peer.call(1, commands.Tx.Select)
    peer.publish(1, "jobs.a", b"m")
    assert broker.queue("jobs.a").ready_count == 0
    peer.call(1, commands.Tx.Commit)
    assert broker.queue("jobs.a").ready_count == 1


@pytest.mark.row("E1")
def test_a_policy_makes_queues_and_gives_them_arguments(administered: Administered) -> None:
    broker, peer = administered, administered.connect()
    peer.publish(1, "jobs.a", b"lost")
    broker.run_turns()
    assert "jobs.a" not in broker.vhost.queues
    broker.administration.policies.put(
        "/",
        "jobs",
        pattern=r"^jobs\.",
        definition={"auto-create-queues": True, "max-length": 1},
    )
    peer.fill("jobs.a", b"1", b"2")
    broker.run_turns()
    assert peer.drain("jobs.a") == [b"2"]
    peer.call(1, QUEUE.Delete, queue="jobs.a")
    broker.administration.policies.delete("/", "jobs", is_operator=False)
    peer.publish(1, "jobs.a", b"lost")
    broker.run_turns()
    assert "jobs.a" not in broker.vhost.queues


@pytest.mark.row("E1")
def test_a_policy_is_for_queues_of_the_type_that_is_made(administered: Administered) -> None:
    broker, peer = administered, administered.connect()
    broker.vhost.default_queue_type = "quorum"
    for apply_to, name in (("classic_queues", "classic"), ("quorum_queues", "quorum")):
        broker.administration.policies.put(
            "/", name, pattern=name, apply_to=apply_to, definition={"auto-create-queues": True}
        )
        peer.publish(1, name, b"m")
    broker.run_turns()
    assert [name for name in ("classic", "quorum") if name in broker.vhost.queues] == ["quorum"]


# --------------------------------------------------------------------------- virtual topics

GROUP_A, GROUP_B = "Consumer.a.VirtualTopic.orders", "Consumer.b.VirtualTopic.orders"
TOPIC = "VirtualTopic.orders"


@pytest.fixture
def topics(broker: SteppedBroker) -> SteppedBroker:
    broker.vhost.auto_creation.set_patterns([], [r"^VirtualTopic\."])
    return broker


def test_each_group_of_a_virtual_topic_gets_each_message_once(
    topics: SteppedBroker, peer: Peer, definitions: FakeDefinitions
) -> None:
    peer.subscribe(GROUP_A, "a1")
    peer.subscribe(GROUP_A, "a2")
    peer.declare(GROUP_B, durable=True)
    peer.publish(1, "any.key", b"m", exchange=TOPIC)
    assert peer.bodies() == [b"m"]
    assert topics.queue(GROUP_B).ready_count == 1
    assert definitions.exchanges == {TOPIC}
    assert definitions.bindings == {(TOPIC, "queue", each, "#") for each in (GROUP_A, GROUP_B)}


def test_a_binding_that_was_taken_away_stays_away(topics: SteppedBroker, peer: Peer) -> None:
    peer.declare_exchange(TOPIC, "fanout")
    peer.declare(GROUP_A)
    peer.call(1, QUEUE.Unbind, queue=GROUP_A, exchange=TOPIC, routing_key="#")
    peer.declare(GROUP_A)
    peer.publish(1, "", b"m", exchange=TOPIC)
    assert peer.get(GROUP_A) is None


@pytest.mark.parametrize("name", ["Consumer..VirtualTopic.x", "Consumer.a.", "Consumer.a.other"])
def test_other_names_are_no_virtual_topics(topics: SteppedBroker, peer: Peer, name: str) -> None:
    assert peer.refused(1, BASIC.Consume, queue=name)[0] == 404
    peer.open(1)
    peer.declare(name)
    assert "VirtualTopic.x" not in topics.vhost.exchanges


def test_an_exchange_of_another_type_is_refused(topics: SteppedBroker, peer: Peer) -> None:
    peer.declare_exchange(TOPIC, "direct")
    assert peer.refused(1, BASIC.Consume, queue=GROUP_A) == (
        406,
        f"PRECONDITION_FAILED - exchange '{TOPIC}' in vhost '/' is of type 'direct'; a virtual "
        "topic is of type 'topic' or 'fanout'",
    )
    assert topics.vhost.queues == {}


def test_who_may_not_read_the_topic_gets_no_queue_of_it(topics: SteppedBroker) -> None:
    topics.add_user("ann", "ann", permissions=Permissions(".*", ".*", "^Consumer"))
    peer = topics.connect("ann")
    text = f"ACCESS_REFUSED - read access to exchange '{TOPIC}' in vhost '/' refused for user 'ann'"
    assert peer.refused(1, BASIC.Consume, queue=GROUP_A) == (403, text)
    peer.open(1)
    assert peer.refused(1, QUEUE.Declare, queue=GROUP_A) == (403, text)
    assert (topics.vhost.queues, TOPIC in topics.vhost.exchanges) == ({}, False)


def test_where_the_binding_is_one_too_many_there_is_no_queue(
    topics: SteppedBroker, peer: Peer
) -> None:
    topics.vhost.capacity.max_bindings = 0
    assert peer.refused(1, QUEUE.Declare, queue=GROUP_A)[0] == 406
    assert topics.vhost.queues == {}


def test_a_policy_makes_an_exchange_a_virtual_topic(administered: Administered) -> None:
    peer = administered.connect()
    administered.administration.policies.put(
        "/", "orders", pattern="^orders$", definition={"virtual-topics": True}
    )
    peer.subscribe("Consumer.a.orders", "c")
    peer.publish(1, "k", b"m", exchange="orders")
    assert peer.bodies() == [b"m"]
