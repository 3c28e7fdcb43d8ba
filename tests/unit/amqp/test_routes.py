"""Routes: where a publish goes, what is remembered of that, and when it is forgotten.

Every case that a remembered route could spoil is published twice: the first publish comes by the
long way, the second by the decoder's lane.
"""

from __future__ import annotations

import pytest

from hareline.amqp import routes
from hareline.auth.permissions import Permissions, TopicPermissions
from hareline.wire.methods import commands, encode_method
from hareline.wire.properties import Properties
from hareline.wire.table import Table

from .peer import Peer, Refusal, SteppedBroker, publish_octets

EXCHANGE, QUEUE = commands.Exchange, commands.Queue


# ---------------------------------------------------------------------------------------- routing


@pytest.mark.parametrize("first", ["unbound", "bound"])
def test_a_binding_change_reaches_the_very_next_publish(peer: Peer, first: str) -> None:
    peer.declare("q")
    if first == "bound":
        peer.bind("q", "amq.direct", "k")
    publish = publish_octets(1, "k", b"x", exchange="amq.direct")
    bind = encode_method(1, QUEUE.Bind, queue="q", exchange="amq.direct", routing_key="k")
    unbind = encode_method(1, QUEUE.Unbind, queue="q", exchange="amq.direct", routing_key="k")
    change, back = (unbind, bind) if first == "bound" else (bind, unbind)
    peer.send_octets(publish * 3 + change + publish * 3 + back + publish * 3)  # one read
    assert len(peer.receive()) == 2
    assert len(peer.drain("q")) == (6 if first == "bound" else 3)


def test_a_binding_change_of_another_connection_reaches_the_very_next_publish(
    broker: SteppedBroker, peer: Peer
) -> None:
    other = broker.connect()
    other.declare("q")
    peer.publish(1, "k", b"1", exchange="amq.direct")
    peer.publish(1, "k", b"2", exchange="amq.direct")
    other.bind("q", "amq.direct", "k")
    peer.publish(1, "k", b"3", exchange="amq.direct")
    other.call(1, QUEUE.Unbind, queue="q", exchange="amq.direct", routing_key="k")
    peer.publish(1, "k", b"4", exchange="amq.direct")
    assert other.drain("q") == [b"3"]


def test_a_deleted_queue_gets_nothing_more_and_a_new_one_of_its_name_does(peer: Peer) -> None:
    peer.declare("q")
    peer.fill("q", b"1", b"2")
    peer.call(1, QUEUE.Delete, queue="q")
    peer.fill("q", b"3")
    peer.declare("q")
    peer.fill("q", b"4")
    assert peer.drain("q") == [b"4"]


def test_a_deleted_exchange_is_404_even_for_a_cached_route(peer: Peer) -> None:
    peer.declare_exchange("x")
    peer.publish(1, "k", exchange="x")
    peer.publish(1, "k", exchange="x")
    peer.call(1, EXCHANGE.Delete, exchange="x")
    assert peer.publish_refused(1, "k", exchange="x") == (
        404,
        "NOT_FOUND - no exchange 'x' in vhost '/'",
    )


@pytest.mark.pure("replaces a constant, which is compiled in")
def test_more_routes_than_are_remembered_still_arrive(
    broker: SteppedBroker, peer: Peer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(routes, "ROUTES_MAX", 4)
    peer.declare("q")
    for number in range(10):
        peer.bind("q", "amq.direct", f"k{number}")
    for _ in range(2):
        for number in range(10):
            peer.publish(1, f"k{number}", b"%d" % number, exchange="amq.direct")
    assert len(peer.drain("q")) == 20
    assert len(peer.connection.channels.by_number[1].publishing.routes) <= 4


# ---------------------------------------------------------------------------------------- refusals


@pytest.mark.parametrize("is_known", [False, True])
def test_an_unknown_exchange_is_404(peer: Peer, is_known: bool) -> None:
    if is_known:
        peer.publish_refused(1, "k", exchange="nope")
        peer.open(1)
    peer.publish(1, "k", b"body", exchange="nope")
    assert peer.refusal() == Refusal(
        "channel", 404, "NOT_FOUND - no exchange 'nope' in vhost '/'", 60, 40
    )


def test_an_internal_exchange_is_403_to_clients(peer: Peer) -> None:
    peer.declare_exchange("inside", internal=True)
    assert peer.publish_refused(1, "k", exchange="inside") == (
        403,
        "ACCESS_REFUSED - cannot publish to internal exchange 'inside' in vhost '/'",
    )


def test_the_trace_exchange_is_internal(peer: Peer) -> None:
    assert peer.publish_refused(1, "k", exchange="amq.rabbitmq.trace")[0] == 403


def test_immediate_is_540_in_these_words(peer: Peer) -> None:
    peer.declare("q")
    peer.publish(1, "q", b"x", immediate=True)
    assert peer.refusal() == Refusal("connection", 540, "NOT_IMPLEMENTED - immediate=true", 60, 40)


# ------------------------------------------------------------------------------------- permissions


def test_publishing_needs_write_on_the_exchange(broker: SteppedBroker) -> None:
    broker.add_user("alice", "alice", permissions=Permissions("", "^amq.direct$", ""))
    peer = broker.connect("alice")
    peer.publish(1, "k", exchange="amq.direct")
    peer.expect_nothing()
    assert peer.publish_refused(1, "k", exchange="amq.topic") == (
        403,
        "ACCESS_REFUSED - write access to exchange 'amq.topic' in vhost '/' "
        "refused for user 'alice'",
    )


@pytest.mark.parametrize("header", ["CC", "BCC"])
@pytest.mark.parametrize("in_transaction", [False, True])
def test_a_topic_exchange_asks_for_the_right_to_the_keys_of_copies_too(
    broker: SteppedBroker, peer: Peer, header: str, in_transaction: bool
) -> None:
    topics = {"amq.topic": TopicPermissions("^mine", ".*")}
    broker.add_user("alice", "alice", topics=topics)
    for key in ("mine", "theirs"):
        peer.declare(key)
        peer.bind(key, "amq.topic", key)
    alice = broker.connect("alice")
    if in_transaction:
        alice.call(1, commands.Tx.Select)
    copies = Properties(headers=Table({header: ["mine.too"]}))
    alice.publish(1, "mine", b"1", exchange="amq.topic", properties=copies)
    stolen = Properties(headers=Table({header: ["mine.too", "theirs"]}))
    assert alice.publish_refused(1, "mine", exchange="amq.topic", properties=stolen) == (
        403,
        "ACCESS_REFUSED - write access to topic 'theirs' in exchange 'amq.topic' in vhost '/' "
        "refused for user 'alice'",
    )
    assert peer.drain("theirs") == []
    assert peer.drain("mine") == ([] if in_transaction else [b"1"])


def test_other_exchanges_ask_for_no_right_to_keys(broker: SteppedBroker, peer: Peer) -> None:
    topics = {"amq.direct": TopicPermissions("^mine", ".*")}
    broker.add_user("alice", "alice", topics=topics)
    peer.declare("q")
    peer.bind("q", "amq.direct", "copy")
    copies = Properties(headers=Table(CC=["copy"]))
    broker.connect("alice").publish(1, "k", b"1", exchange="amq.direct", properties=copies)
    assert peer.drain("q") == [b"1"]


@pytest.mark.parametrize("routing_key", ["q", "amq.rabbitmq.reply-to.somebody"])
def test_the_default_exchange_is_shown_as_amq_default(
    broker: SteppedBroker, routing_key: str
) -> None:
    broker.add_user("alice", "alice", permissions=Permissions("", "^q$", ""))
    peer = broker.connect("alice")
    assert peer.publish_refused(1, routing_key) == (
        403,
        "ACCESS_REFUSED - write access to exchange 'amq.default' in vhost '/' "
        "refused for user 'alice'",
    )


def test_the_right_to_write_comes_before_the_existence(broker: SteppedBroker) -> None:
    broker.add_user("alice", "alice", permissions=Permissions("", "", ""))
    peer = broker.connect("alice")
    assert peer.publish_refused(1, "k", exchange="nope")[0] == 403


# ------------------------------------------------------------------------------------ full queues


def test_a_known_route_notices_that_its_queue_became_full(
    broker: SteppedBroker, peer: Peer
) -> None:
    """The lane of the decoder must not carry publishes past the limit."""
    peer.declare("full", arguments={"x-max-length": 3})
    peer.send_octets(publish_octets(1, "full", b"x") * 100)
    peer.expect_nothing()
    assert broker.queue("full").ready_count == 3
