"""The qpid dialect frame by frame, and that nobody else is touched by it.

docs/jms.md lists what the JMS clients of Qpid and RabbitMQ cannot do without, or should have.
"""

from __future__ import annotations

from typing import Any

import pytest

from hareline.amqp.client import QPID, RABBITMQ, dialect_of
from hareline.auth.permissions import Permissions
from hareline.wire.constants import PROTOCOL_HEADER
from hareline.wire.methods import Exchange as QpidExchange
from hareline.wire.methods import Frame, commands
from hareline.wire.properties import Properties
from hareline.wire.table import Table

from .peer import Peer, SteppedBroker, publish_octets

BASIC, CHANNEL, EXCHANGE = commands.Basic, commands.Channel, commands.Exchange
QUEUE, TX = commands.Queue, commands.Tx
SELECTOR, NO_LOCAL = "x-filter-jms-selector", "x-qpid-no-local"


@pytest.fixture
def qpid(broker: SteppedBroker) -> Peer:
    return broker.connect(qpid="client-1", channels=(1, 2))


def deliveries(peer: Peer) -> list[tuple[int, bytes, bool]]:
    """Delivery tag, body and the redelivered flag of everything that came, and nothing else."""
    received = peer.receive()
    assert all(one.name == "basic.deliver" for one in received), received
    return [(one.method.delivery_tag, one.body, one.method.redelivered) for one in received]


def names(peer: Peer) -> list[str]:
    return [one.name for one in peer.receive()]


# ------------------------------------------------------------------------------- who speaks it


@pytest.mark.parametrize(
    ("properties", "expected"),
    [
        ({"product": "qpid"}, QPID),
        ({"product": "Qpid Python"}, QPID),
        ({"product": "mine", "qpid.client_pid": 7}, QPID),
        ({"qpid.client_process": "x"}, QPID),
        ({"product": "RabbitMQ", "platform": "Java"}, RABBITMQ),
        ({"product": b"\xff", "x.qpid.y": 1}, RABBITMQ),
        ({}, RABBITMQ),
    ],
)
def test_the_client_properties_decide(properties: dict[str, object], expected: object) -> None:
    assert dialect_of(properties) is expected


def test_rabbitmqs_dialect_has_every_switch_off() -> None:
    switches = {name: getattr(RABBITMQ, name) for name in RABBITMQ.__slots__ if name != "name"}
    assert switches
    assert not any(switches.values()), switches


# ------------------------------------------------------------------------- open, login, close


@pytest.mark.row("M3")
@pytest.mark.parametrize("name", ["other", "/other"])
def test_a_virtual_host_is_found_with_a_slash_in_front(broker: SteppedBroker, name: str) -> None:
    broker.add_vhost("other")
    broker.add_user("u", "u", vhosts=("other",))
    assert broker.connect("u", vhost=name, qpid="c").connection.client.vhost.name == "other"
    assert broker.connect("u", vhost=name).connection.client.vhost.name == "other"


@pytest.mark.row("M3")
def test_a_virtual_host_that_really_begins_with_a_slash_comes_first(
    broker: SteppedBroker,
) -> None:
    broker.add_vhost("x")
    slashed = broker.add_vhost("/x")
    broker.add_user("u", "u", vhosts=("x", "/x"))
    assert broker.connect("u", vhost="/x").connection.client.vhost is slashed


@pytest.mark.row("S6")
def test_bad_credentials_are_answered_by_a_close_frame(broker: SteppedBroker) -> None:
    peer = broker.accept()
    peer.start("guest", "wrong", qpid="c")
    refusal = peer.refusal()
    assert (refusal.scope, refusal.code) == ("connection", 403)


# --------------------------------------------------------------------------------- flow and qos


@pytest.mark.row("M4")
def test_flow_stops_deliveries_and_starts_them_again(qpid: Peer) -> None:
    qpid.declare("q")
    assert not qpid.call(1, CHANNEL.Flow, active=False).active
    qpid.subscribe("q", "1")
    qpid.fill("q", b"a", b"b")
    qpid.expect_nothing()
    qpid.send(1, CHANNEL.Flow, active=True)
    assert names(qpid) == ["channel.flow-ok", "basic.deliver", "basic.deliver"]
    qpid.call(1, CHANNEL.Flow, active=False)
    qpid.fill("q", b"c")
    qpid.ack(1)
    qpid.expect_nothing()


@pytest.mark.row("M4")
def test_a_consumer_without_acknowledgements_is_stopped_as_well(qpid: Peer) -> None:
    qpid.declare("q")
    qpid.call(1, CHANNEL.Flow, active=False)
    qpid.subscribe("q", "1", no_ack=True)
    qpid.fill("q", b"a")
    qpid.expect_nothing()
    qpid.send(1, CHANNEL.Flow, active=True)
    assert names(qpid) == ["channel.flow-ok", "basic.deliver"]


@pytest.mark.row("M13")
def test_qos_limits_the_whole_channel_and_at_once(qpid: Peer) -> None:
    qpid.declare("q")
    qpid.declare("p")
    qpid.call(1, BASIC.Qos, prefetch_count=1)
    qpid.subscribe("q", "1")
    qpid.subscribe("p", "2")
    qpid.fill("q", b"a", b"b")
    qpid.fill("p", b"c")
    assert len(deliveries(qpid)) == 1
    qpid.send(1, BASIC.Qos, prefetch_count=2)  # one more for the receive in a transaction
    assert names(qpid) == ["basic.qos-ok", "basic.deliver"]
    qpid.call(1, BASIC.Qos, prefetch_count=1)  # and back: what is out stays out
    qpid.ack(1)
    qpid.expect_nothing()
    qpid.ack(2)
    assert len(deliveries(qpid)) == 1


@pytest.mark.row("M13")
def test_a_limit_of_octets_set_later_counts_what_is_out(qpid: Peer) -> None:
    qpid.declare("q")
    qpid.call(1, BASIC.Qos, prefetch_count=10)
    qpid.subscribe("q", "1")
    qpid.fill("q", *[b"12345"] * 4)
    assert len(deliveries(qpid)) == 4
    qpid.call(1, BASIC.Qos, prefetch_count=10, prefetch_size=20)
    qpid.fill("q", b"more")
    qpid.expect_nothing()
    qpid.ack(1)
    assert [body for _, body, _ in deliveries(qpid)] == [b"more"]


@pytest.mark.row("M13")
def test_qos_of_nothing_is_no_limit(qpid: Peer) -> None:
    qpid.declare("q")
    qpid.call(1, BASIC.Qos, prefetch_count=1)
    qpid.subscribe("q", "1")
    qpid.fill("q", b"a", b"b", b"c")
    assert len(deliveries(qpid)) == 1
    qpid.send(1, BASIC.Qos, prefetch_count=0)
    assert names(qpid) == ["basic.qos-ok", "basic.deliver", "basic.deliver"]
    qpid.call(1, BASIC.Qos, prefetch_count=2)
    qpid.fill("q", b"d")
    qpid.expect_nothing()


def test_qos_of_another_client_is_for_its_later_consumers(peer: Peer) -> None:
    peer.declare("q")
    peer.call(1, BASIC.Qos, prefetch_count=1)
    peer.subscribe("q", "1")
    peer.call(1, BASIC.Qos, prefetch_count=5)
    peer.fill("q", b"a", b"b")
    assert len(deliveries(peer)) == 1


# ----------------------------------------------------------------- settling and transactions


@pytest.mark.row("M7")
def test_recover_without_requeue_redelivers_everything_unacked(qpid: Peer) -> None:
    qpid.declare("q")
    qpid.subscribe("q", "1")
    qpid.fill("q", b"a", b"b", b"c")
    assert len(deliveries(qpid)) == 3
    qpid.ack(1)
    qpid.send(1, BASIC.Recover, requeue=False)
    received = qpid.receive()
    assert received[0].name == "basic.recover-ok"
    assert [(one.body, one.method.redelivered) for one in received[1:]] == [
        (b"b", True),
        (b"c", True),
    ]
    assert [one.method.delivery_tag for one in received[1:]] == [4, 5]


@pytest.mark.row("M8")
def test_a_reject_in_a_transaction_takes_effect_at_once(broker: SteppedBroker, qpid: Peer) -> None:
    qpid.declare("q")
    qpid.call(1, TX.Select)
    qpid.subscribe("q", "1")
    qpid.call(2, TX.Select)
    qpid.publish(1, "q", b"a")
    qpid.publish(1, "q", b"b")
    qpid.call(1, CHANNEL.Flow, active=False)
    qpid.call(1, TX.Commit)
    qpid.send(1, CHANNEL.Flow, active=True)
    assert names(qpid) == ["channel.flow-ok", "basic.deliver", "basic.deliver"]
    qpid.call(1, CHANNEL.Flow, active=False)
    qpid.send(1, BASIC.Reject, delivery_tag=2, requeue=True)
    qpid.expect_nothing()
    assert broker.queue("q").ready_count == 1
    qpid.call(1, TX.Rollback)
    assert broker.queue("q").ready_count == 2
    qpid.send(1, CHANNEL.Flow, active=True)
    received = qpid.receive()
    assert [(one.body, one.method.redelivered) for one in received[1:]] == [
        (b"a", True),
        (b"b", True),
    ]


@pytest.mark.row("M8")
def test_what_was_acknowledged_comes_again_after_a_rollback(qpid: Peer) -> None:
    qpid.declare("q")
    qpid.fill("q", b"a", b"b")
    qpid.call(1, TX.Select)
    qpid.consume("q", "1")
    assert names(qpid) == ["basic.consume-ok", "basic.deliver", "basic.deliver"]
    qpid.ack(1)
    qpid.send(1, TX.Rollback)
    received = qpid.receive()
    assert received[0].name == "tx.rollback-ok"
    assert [
        (one.method.delivery_tag, one.body, one.method.redelivered) for one in received[1:]
    ] == [
        (3, b"a", True),
        (4, b"b", True),
    ]


def test_a_reject_without_requeue_is_left_to_the_delivery_limit(qpid: Peer, peer: Peer) -> None:
    qpid.declare("dead")
    dead_letters = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}
    qpid.declare("q", arguments={**dead_letters, "x-qpid-maximum-delivery-count": 2})
    qpid.fill("q", b"a", b"b")
    for _ in range(2):
        received = qpid.get("q")
        assert received is not None
        assert received.body == b"a"
        qpid.send(1, BASIC.Reject, delivery_tag=received.method.delivery_tag, requeue=False)
        qpid.receive()
    assert qpid.drain("dead") == [b"a"]
    other = peer.get("q")
    assert other is not None
    peer.send(1, BASIC.Reject, delivery_tag=other.method.delivery_tag, requeue=False)
    assert peer.drain("dead") == [b"b"]


def test_other_ways_of_coming_back_use_up_no_delivery(broker: SteppedBroker, qpid: Peer) -> None:
    """The client gives back what it had prefetched, which nobody has seen."""
    qpid.declare("q", arguments={"x-qpid-maximum-delivery-count": 2})
    qpid.fill("q", b"a")
    qpid.call(1, TX.Select)
    for _ in range(5):
        rejected = qpid.get("q")
        assert rejected is not None
        qpid.send(1, BASIC.Reject, delivery_tag=rejected.method.delivery_tag, requeue=True)
        recovered = qpid.get("q")
        assert recovered is not None
        qpid.call(1, BASIC.Recover, requeue=False)
        rolled_back = qpid.get("q")
        assert rolled_back is not None
        assert rolled_back.method.redelivered
        qpid.call(1, TX.Rollback)
        assert qpid.get("q", number=2) is not None
        qpid.call(2, CHANNEL.Close, reply_code=200, reply_text="", class_id=0, method_id=0)
        qpid.open(2)
    assert broker.queue("q").ready_count == 1
    received = qpid.get("q")
    assert received is not None
    assert received.properties is not None
    assert "x-delivery-count" not in Table(received.properties.headers or {})
    qpid.send(1, BASIC.Reject, delivery_tag=received.method.delivery_tag, requeue=False)
    last = qpid.get("q")
    assert last is not None
    qpid.send(1, BASIC.Reject, delivery_tag=last.method.delivery_tag, requeue=False)
    qpid.expect_nothing()
    assert broker.queue("q").ready_count == 0


@pytest.mark.pure("replaces a constant, which is compiled in")
def test_a_limit_beyond_what_is_counted_ends_there(
    broker: SteppedBroker, peer: Peer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hareline.queues.queue.RETURNS_MAX", 3)
    peer.declare("q", arguments={"x-delivery-limit": 40_000})
    peer.fill("q", b"a")
    for _ in range(3):
        assert broker.queue("q").ready_count == 1
        assert peer.get("q") is not None
        peer.call(1, BASIC.Recover, requeue=True)
    assert broker.queue("q").ready_count == 0


def test_every_return_of_other_clients_counts(broker: SteppedBroker, peer: Peer) -> None:
    peer.declare("q", arguments={"x-delivery-limit": 1})
    peer.fill("q", b"a")
    for _ in range(2):
        assert peer.get("q") is not None
        peer.call(1, BASIC.Recover, requeue=True)
    assert broker.queue("q").ready_count == 0


@pytest.mark.row("S4")
@pytest.mark.parametrize("is_transacted", [False, True])
def test_a_multiple_up_to_an_unknown_tag_settles_what_is_below(
    broker: SteppedBroker, qpid: Peer, is_transacted: bool
) -> None:
    qpid.declare("q")
    qpid.subscribe("q", "1")
    qpid.fill("q", *[b"%d" % number for number in range(6)])
    assert len(deliveries(qpid)) == 6
    qpid.ack(5)
    if is_transacted:
        qpid.call(1, TX.Select)
    qpid.ack(5, multiple=True)
    qpid.nack(5, multiple=True)
    if is_transacted:
        qpid.call(1, TX.Commit)
    qpid.expect_nothing()
    assert (broker.queue("q").unacked_count, broker.queue("q").ready_count) == (1, 0)


@pytest.mark.row("M8")
def test_acknowledgements_still_wait_for_the_commit(broker: SteppedBroker, qpid: Peer) -> None:
    qpid.declare("q")
    qpid.fill("q", b"a")
    qpid.call(1, TX.Select)
    qpid.consume("q", "1")
    qpid.receive()
    qpid.ack(1)
    qpid.expect_nothing()
    assert broker.queue("q").unacked_count == 1
    qpid.call(1, TX.Commit)
    assert broker.queue("q").unacked_count == 0


@pytest.mark.row("M21")
def test_recover_gives_back_what_a_rollback_left_unacked(broker: SteppedBroker, peer: Peer) -> None:
    peer.declare("q")
    peer.fill("q", b"a", b"b")
    peer.call(1, TX.Select)
    for _ in range(2):
        received = peer.get("q")
        assert received is not None
        peer.ack(received.method.delivery_tag)
    peer.call(1, TX.Rollback)
    assert broker.queue("q").ready_count == 0
    peer.call(1, BASIC.Recover, requeue=True)
    peer.call(1, TX.Commit)
    again = [peer.get("q"), peer.get("q")]
    assert [(one.body, one.method.redelivered) for one in again if one is not None] == [
        (b"a", True),
        (b"b", True),
    ]


@pytest.mark.row("S4")
@pytest.mark.parametrize("is_transacted", [False, True])
@pytest.mark.parametrize(
    ("method", "fields"),
    [
        (BASIC.Ack, {"multiple": False}),
        (BASIC.Reject, {"requeue": True}),
        (BASIC.Reject, {"requeue": False}),
        (BASIC.Nack, {"multiple": False, "requeue": True}),
    ],
)
def test_unknown_tags_are_ignored(
    qpid: Peer, method: type[Frame], fields: dict[str, object], is_transacted: bool
) -> None:
    qpid.declare("q")
    qpid.subscribe("q", "1")
    qpid.fill("q", b"a")
    assert deliveries(qpid) == [(1, b"a", False)]
    if is_transacted:
        qpid.call(1, TX.Select)
    qpid.send(1, method, delivery_tag=77, **fields)
    qpid.expect_nothing()
    assert qpid.broker.queue("q").unacked_count == 1


@pytest.mark.row("M20")
def test_what_a_closed_channel_had_is_back_in_its_place(qpid: Peer) -> None:
    qpid.declare("q")
    qpid.fill("q", *[b"%d" % number for number in range(6)])
    qpid.call(2, BASIC.Qos, prefetch_count=3)
    qpid.consume("q", "1", number=2)
    assert len(qpid.receive()) == 4
    qpid.call(2, CHANNEL.Close, reply_code=200, reply_text="", class_id=0, method_id=0)
    assert qpid.drain("q") == [b"%d" % number for number in range(6)]


# ------------------------------------------------------------------------------------ browsing


@pytest.mark.row("M9")
def test_a_browser_is_shown_all_and_takes_nothing(broker: SteppedBroker, qpid: Peer) -> None:
    qpid.declare("q")
    qpid.fill("q", b"a", b"b")
    qpid.call(1, CHANNEL.Flow, active=False)
    arguments = {"x-filter-no-consume": True, "x-filter-auto-close": True, SELECTOR: ""}
    qpid.consume("q", "1", no_ack=True, arguments=arguments)
    assert names(qpid) == ["basic.consume-ok"]
    qpid.send(1, CHANNEL.Flow, active=True)
    received = qpid.receive()
    assert [one.name for one in received] == [
        "channel.flow-ok",
        "basic.deliver",
        "basic.deliver",
        "basic.cancel-ok",
    ]
    assert received[-1].method.consumer_tag == "1"
    assert broker.queue("q").ready_count == 2
    assert qpid.call(1, BASIC.Cancel, consumer_tag="1").consumer_tag == "1"  # gone, and no error


@pytest.mark.row("M9")
def test_a_browser_of_an_empty_queue_is_told_of_its_end(qpid: Peer) -> None:
    qpid.declare("q")
    qpid.consume("q", "1", no_ack=True, arguments={"x-filter-auto-close": True, "x-browse": True})
    assert names(qpid) == ["basic.consume-ok", "basic.cancel-ok"]


def test_others_are_told_by_a_cancel_if_they_take_it(broker: SteppedBroker, peer: Peer) -> None:
    peer.declare("q")
    arguments = {"x-browse": True, "x-filter-auto-close": True}
    peer.consume("q", "1", no_ack=True, arguments=arguments)
    assert names(peer) == ["basic.consume-ok", "basic.cancel"]
    silent = broker.connect(capabilities={})
    silent.consume("q", "1", no_ack=True, arguments=arguments)
    assert names(silent) == ["basic.consume-ok"]


@pytest.mark.row("M14")
def test_a_deleted_queue_is_no_cancel_for_who_could_not_read_it(
    broker: SteppedBroker, qpid: Peer
) -> None:
    qpid.declare("q")
    qpid.subscribe("q", "1")
    broker.connect().call(1, QUEUE.Delete, queue="q")
    qpid.expect_nothing()


@pytest.mark.row("M14")
def test_an_alarm_blocks_without_a_word(broker: SteppedBroker, qpid: Peer) -> None:
    broker.context.alarms.set("memory")
    qpid.publish(1, "q", b"a")
    qpid.expect_nothing()
    assert not qpid.is_read_from()


# ------------------------------------------------------------------------------- declarations


@pytest.mark.row("M15")
@pytest.mark.parametrize(
    ("name", "exchange_type"),
    [
        ("amq.direct", "direct"),
        ("amq.topic", "topic"),
        ("amq.match", "headers"),
        ("amq.fanout", "fanout"),
    ],
)
def test_the_predeclared_exchanges_are_declared_passively(
    qpid: Peer, name: str, exchange_type: str
) -> None:
    fields: dict[str, Any] = {"exchange": name, "exchange_type": exchange_type, "passive": True}
    qpid.call(1, EXCHANGE.Declare, **fields)
    qpid.send(1, EXCHANGE.Declare, **fields, nowait=True)
    qpid.expect_nothing()


@pytest.mark.row("M16")
def test_unknown_arguments_are_no_error(qpid: Peer) -> None:
    unknown = {"qpid.something": 1, "x-unheard-of": "of", "local-address": True}
    qpid.declare("q", arguments={**unknown, "no-local": False, "alternateExchange": "amq.fanout"})
    qpid.bind("q", "amq.topic", "a.b", arguments=unknown)
    qpid.subscribe("q", "1", arguments=unknown)
    qpid.publish(1, "a.b", b"a", exchange="amq.topic")
    assert len(deliveries(qpid)) == 1


@pytest.mark.row("S3")
def test_the_default_exchange_may_be_declared(qpid: Peer, peer: Peer) -> None:
    fields: dict[str, Any] = {"exchange": "", "exchange_type": "direct"}
    qpid.call(1, EXCHANGE.Declare, **fields)
    qpid.send(1, EXCHANGE.Declare, **fields, nowait=True)
    qpid.expect_nothing()
    assert peer.refused(1, EXCHANGE.Declare, **fields)[0] == 403


@pytest.mark.parametrize("exchange_type", ["topic", "fanout"])
def test_the_default_exchange_is_of_no_other_type(qpid: Peer, exchange_type: str) -> None:
    code, text = qpid.refused(1, EXCHANGE.Declare, exchange="", exchange_type=exchange_type)
    assert (code, text) == (403, "ACCESS_REFUSED - operation not permitted on the default exchange")


@pytest.mark.row("S5")
def test_a_queue_may_be_declared_again_with_other_durability_and_arguments(
    broker: SteppedBroker, qpid: Peer, peer: Peer
) -> None:
    peer.declare("q", durable=True, arguments={"x-max-priority": 5})
    peer.fill("q", b"a")
    reply = qpid.call(1, QUEUE.Declare, queue="q", durable=False)
    assert reply.message_count == 1
    assert broker.queue("q").is_durable
    assert peer.refused(1, QUEUE.Declare, queue="q", durable=False)[0] == 406


@pytest.mark.row("S5")
def test_a_redeclaration_is_still_held_to_exclusivity_and_lifetime(qpid: Peer) -> None:
    qpid.declare("q")
    assert qpid.refused(1, QUEUE.Declare, queue="q", exclusive=True)[0] == 405
    qpid.open(1)
    code, text = qpid.refused(1, QUEUE.Declare, queue="q", auto_delete=True)
    assert (code, text) == (
        406,
        "PRECONDITION_FAILED - inequivalent arg 'auto_delete' for queue 'q' in vhost '/': "
        "received 'true' but current is 'false'",
    )


def test_a_temporary_queue_lives_until_its_connection_ends(
    broker: SteppedBroker, qpid: Peer
) -> None:
    arguments = {
        "qpid.lifetime_policy": "DELETE_ON_CONNECTION_CLOSE",
        "qpid.exclusivity_policy": "CONNECTION",
    }
    qpid.declare("t", exclusive=True, auto_delete=True, arguments=arguments)
    qpid.subscribe("t", "1")
    qpid.call(1, BASIC.Cancel, consumer_tag="1")
    assert "t" in broker.vhost.queues
    qpid.declare("t", exclusive=True, auto_delete=True)  # as a consumer does, without arguments
    qpid.lose()
    assert "t" not in broker.vhost.queues


# ------------------------------------------------------------- durable subscriptions, client ids


def subscribe_durably(peer: Peer, **arguments: object) -> None:
    """As client-1, to news."""
    peer.declare("client-1:sub", durable=True, exclusive=True)
    peer.bind("client-1:sub", "amq.topic", "news", arguments=arguments)


@pytest.mark.row("M11")
def test_a_durable_exclusive_queue_outlives_its_connection(
    broker: SteppedBroker, qpid: Peer, peer: Peer
) -> None:
    subscribe_durably(qpid)
    qpid.lose()
    peer.publish(1, "news", b"a", exchange="amq.topic")
    again = broker.connect(qpid="client-1")
    subscribe_durably(again)
    again.consume("client-1:sub", "1", exclusive=True)
    assert [one.body for one in again.receive()[1:]] == [b"a"]
    assert again.call(1, QUEUE.Delete, queue="client-1:sub").message_count == 0


@pytest.mark.row("M11")
@pytest.mark.parametrize("client_id", ["client-2", "", None])
def test_no_other_client_may_use_it(
    broker: SteppedBroker, qpid: Peer, client_id: str | None
) -> None:
    subscribe_durably(qpid)
    other = broker.connect(qpid=client_id)
    for method, fields in (
        (QUEUE.Declare, {"durable": True, "exclusive": True}),
        (QUEUE.Declare, {"passive": True}),
        (QUEUE.Bind, {"exchange": "amq.topic"}),
        (QUEUE.Purge, {}),
        (QUEUE.Delete, {}),
        (BASIC.Get, {}),
        (BASIC.Consume, {}),
    ):
        assert other.refused(1, method, queue="client-1:sub", **fields)[0] == 405
        other.open(1)


@pytest.mark.row("M11")
def test_a_second_subscriber_of_a_client_id_is_refused_with_its_connection(
    broker: SteppedBroker, qpid: Peer, peer: Peer
) -> None:
    subscribe_durably(qpid)
    qpid.subscribe("client-1:sub", "1", exclusive=True)
    second = broker.connect(qpid="client-1")
    second.send(1, BASIC.Consume, queue="client-1:sub", consumer_tag="1", exclusive=True)
    refusal = second.refusal()
    assert (refusal.scope, refusal.code) == ("connection", 403)
    assert "in exclusive use" in refusal.text
    peer.declare("q")
    peer.subscribe("q", "t")
    other = broker.connect()
    other.send(1, BASIC.Consume, queue="q", exclusive=True)
    assert other.refusal().scope == "channel"


@pytest.mark.row("M11")
def test_a_subscriber_without_the_right_to_read_is_refused_with_its_connection(
    broker: SteppedBroker,
) -> None:
    rights = Permissions(configure=".*", write=".*", read="^amq")
    broker.add_user("u", "u", permissions=rights)
    subscriber = broker.connect("u", qpid="c")
    subscriber.declare("c:sub", durable=True, exclusive=True)
    subscriber.send(1, BASIC.Consume, queue="c:sub", consumer_tag="1", exclusive=True)
    refusal = subscriber.refusal()
    assert (refusal.scope, refusal.code) == ("connection", 403)
    other = broker.connect("u", qpid="c")
    other.send(1, BASIC.Get, queue="c:sub")
    assert other.refusal().scope == "channel"


def test_a_durable_exclusive_queue_without_a_client_id_is_the_connections(
    broker: SteppedBroker,
) -> None:
    nameless = broker.connect(qpid="")
    nameless.declare("q", durable=True, exclusive=True)
    assert not broker.queue("q").is_durable
    nameless.lose()
    assert "q" not in broker.vhost.queues


def test_a_durable_exclusive_queue_of_other_clients_goes_with_its_connection(
    broker: SteppedBroker, peer: Peer
) -> None:
    peer.declare("q", durable=True, exclusive=True)
    peer.lose()
    assert "q" not in broker.vhost.queues


@pytest.mark.row("S1")
def test_a_binding_with_the_same_key_is_replaced(qpid: Peer, peer: Peer) -> None:
    subscribe_durably(qpid, **{SELECTOR: "n > 5"})
    subscribe_durably(qpid, **{SELECTOR: "n < 5"})
    for number in (3, 7):
        properties = Properties(headers=Table({"n": number}))
        peer.publish(1, "news", b"%d" % number, exchange="amq.topic", properties=properties)
    assert qpid.drain("client-1:sub") == [b"3"]


@pytest.mark.row("S1")
def test_a_repetition_leaves_the_binding_and_takes_others_away(
    broker: SteppedBroker, qpid: Peer
) -> None:
    subscribe_durably(qpid, **{SELECTOR: "n > 5"})
    subscribe_durably(qpid, **{SELECTOR: "n > 5"})
    bindings = broker.vhost.bindings.to_destination("queue", "client-1:sub")
    assert [dict(binding.arguments) for binding in bindings] == [{SELECTOR: "n > 5"}]


@pytest.mark.row("S1")
def test_an_unbind_takes_the_binding_away_whatever_its_arguments(
    broker: SteppedBroker, qpid: Peer
) -> None:
    subscribe_durably(qpid, **{SELECTOR: "n > 5"})
    qpid.call(1, QUEUE.Unbind, queue="client-1:sub", exchange="amq.topic", routing_key="news")
    assert not broker.vhost.bindings.to_destination("queue", "client-1:sub")


@pytest.mark.row("S1")
def test_a_refused_binding_replaces_nothing(broker: SteppedBroker, qpid: Peer) -> None:
    subscribe_durably(qpid, **{SELECTOR: "n > 5"})
    fields = {"queue": "client-1:sub", "exchange": "amq.topic", "routing_key": "news"}
    assert qpid.refused(1, QUEUE.Bind, **fields, arguments={SELECTOR: "n >"})[0] == 409
    bindings = broker.vhost.bindings.to_destination("queue", "client-1:sub")
    assert [dict(binding.arguments) for binding in bindings] == [{SELECTOR: "n > 5"}]


def test_bindings_of_other_clients_add_up(broker: SteppedBroker, peer: Peer) -> None:
    peer.declare("q")
    peer.bind("q", "amq.topic", "news", arguments={SELECTOR: "n > 5"})
    peer.bind("q", "amq.topic", "news", arguments={SELECTOR: "n < 5"})
    assert len(broker.vhost.bindings.to_destination("queue", "q")) == 2


def test_headers_bindings_are_their_arguments_also_for_qpid(
    broker: SteppedBroker, qpid: Peer
) -> None:
    qpid.declare("q")
    qpid.bind("q", "amq.match", "", arguments={"x-match": "all", "a": 1})
    qpid.bind("q", "amq.match", "", arguments={"x-match": "all", "b": 1})
    assert len(broker.vhost.bindings.to_destination("queue", "q")) == 2


@pytest.mark.row("M5")
def test_bound_is_answered_without_closing_the_channel(qpid: Peer) -> None:
    subscribe_durably(qpid)
    asked = (
        ("", "", "client-1:sub", 0),
        ("", "", "nowhere", 2),
        ("", "client-1:sub", "", 0),
        ("", "nowhere", "", 5),
        ("", "client-1:sub", "client-1:sub", 0),
        ("", "other", "client-1:sub", 6),
        ("missing", "", "", 1),
        ("amq.topic", "", "", 0),
        ("amq.fanout", "", "", 3),
        ("amq.topic", "", "nowhere", 2),
        ("amq.topic", "", "client-1:sub", 0),
        ("amq.direct", "", "client-1:sub", 4),
        ("amq.topic", "news", "client-1:sub", 0),
        ("amq.topic", "olds", "client-1:sub", 6),
        ("amq.topic", "news", "", 0),
        ("amq.topic", "olds", "", 5),
    )
    for exchange, key, queue, code in asked:
        reply = qpid.call(1, QpidExchange.Bound, exchange=exchange, routing_key=key, queue=queue)
        assert reply.reply_code == code, (exchange, key, queue, reply.reply_text)


# ------------------------------------------------------------------------------------ no-local


@pytest.mark.row("S2")
@pytest.mark.parametrize(
    "form",
    [
        {"no_local": True},
        {"arguments": {NO_LOCAL: True}},
        {"arguments": {NO_LOCAL: True, SELECTOR: ""}},
    ],
)
def test_a_no_local_consumer_gets_what_others_publish(
    broker: SteppedBroker, qpid: Peer, peer: Peer, form: dict[str, Any]
) -> None:
    qpid.declare("q")
    qpid.fill("q", b"before")
    qpid.subscribe("q", "1", **form)
    qpid.fill("q", b"own")
    peer.fill("q", b"foreign")
    assert [body for _, body, _ in deliveries(qpid)] == [b"foreign"]
    assert broker.queue("q").ready_count == 2
    peer.consume("q", "t")
    assert [one.body for one in peer.receive()[1:]] == [b"before", b"own"]


@pytest.mark.row("S2")
def test_no_local_and_a_selector_must_both_agree(qpid: Peer, peer: Peer) -> None:
    qpid.declare("q")
    qpid.subscribe("q", "1", no_local=True, arguments={SELECTOR: "n = 1"})
    for publisher in (qpid, peer):
        for number in (1, 2):
            properties = Properties(headers=Table({"n": number}))
            publisher.publish(1, "q", b"%d" % number, properties=properties)
    assert [body for _, body, _ in deliveries(qpid)] == [b"1"]


@pytest.mark.row("S2")
def test_a_queue_may_be_no_local_for_all_its_consumers(broker: SteppedBroker, peer: Peer) -> None:
    peer.declare("q", arguments={"no-local": True})
    peer.subscribe("q", "t")
    peer.fill("q", b"own")
    peer.expect_nothing()
    broker.connect().fill("q", b"foreign")
    assert [body for _, body, _ in deliveries(peer)] == [b"foreign"]


@pytest.mark.row("S2")
def test_two_no_local_consumers_each_get_what_the_other_publishes(
    broker: SteppedBroker, qpid: Peer
) -> None:
    other = broker.connect(qpid="client-2")
    qpid.declare("q")
    qpid.subscribe("q", "1", no_local=True)
    other.subscribe("q", "1", no_local=True)
    for publisher, body in ((qpid, b"from 1"), (other, b"from 2")):
        publisher.fill("q", body, body)
    assert [body for _, body, _ in deliveries(qpid)] == [b"from 2"] * 2
    assert [body for _, body, _ in deliveries(other)] == [b"from 1"] * 2


@pytest.mark.row("S2")
def test_a_browser_may_be_no_local(qpid: Peer, peer: Peer) -> None:
    qpid.declare("q")
    qpid.fill("q", b"own")
    peer.fill("q", b"foreign")
    peer.receive()
    qpid.consume("q", "1", no_ack=True, no_local=True, arguments={"x-filter-no-consume": True})
    assert [one.body for one in qpid.receive()[1:]] == [b"foreign"]


@pytest.mark.row("S2")
def test_a_no_local_binding_keeps_own_messages_out(
    broker: SteppedBroker, qpid: Peer, peer: Peer
) -> None:
    subscribe_durably(qpid, **{NO_LOCAL: True})
    qpid.publish(1, "news", b"own", exchange="amq.topic")
    peer.publish(1, "news", b"foreign", exchange="amq.topic")
    assert qpid.drain("client-1:sub") == [b"foreign"]
    qpid.lose()  # a durable subscription goes on without its client, and knows it again
    peer.publish(1, "news", b"meanwhile", exchange="amq.topic")
    again = broker.connect(qpid="client-1")
    again.publish(1, "news", b"own again", exchange="amq.topic")
    assert again.drain("client-1:sub") == [b"meanwhile"]


@pytest.mark.row("S2")
def test_a_no_local_binding_may_say_so_in_text(qpid: Peer) -> None:
    subscribe_durably(qpid, **{NO_LOCAL: "true"})
    qpid.publish(1, "news", b"own", exchange="amq.topic")
    assert qpid.drain("client-1:sub") == []


@pytest.mark.row("S2")
def test_own_messages_do_not_gather_in_an_exclusive_queue_that_is_no_local(
    broker: SteppedBroker, qpid: Peer, peer: Peer
) -> None:
    for name, is_exclusive in (("own", True), ("anybody's", False)):
        qpid.declare(name, exclusive=is_exclusive, arguments={"no-local": True})
        qpid.bind(name, "amq.topic", "news")
    qpid.publish(1, "news", b"own", exchange="amq.topic")
    peer.publish(1, "news", b"foreign", exchange="amq.topic")
    peer.receive()
    assert broker.queue("own").ready_count == 1
    assert broker.queue("anybody's").ready_count == 2


@pytest.mark.row("S2")
def test_a_no_local_binding_looks_at_who_consumes(qpid: Peer, peer: Peer) -> None:
    peer.declare("q")
    peer.bind("q", "amq.fanout", arguments={NO_LOCAL: True})
    peer.publish(1, "", b"before", exchange="amq.fanout")
    assert peer.drain("q") == [b"before"]
    peer.subscribe("q", "t")
    peer.publish(1, "", b"own", exchange="amq.fanout")
    peer.expect_nothing()
    qpid.publish(1, "", b"foreign", exchange="amq.fanout")
    assert [body for _, body, _ in deliveries(peer)] == [b"foreign"]


# ------------------------------------------------------------------- publishing, mandatory, text


@pytest.mark.row("M12")
def test_an_expiration_beyond_ten_years_is_an_instant(broker: SteppedBroker, qpid: Peer) -> None:
    qpid.declare("q")
    now_ms = broker.clock.now_ms
    qpid.publish(1, "q", b"soon", properties=Properties(expiration=str(now_ms + 1000)))
    qpid.publish(1, "q", b"late", properties=Properties(expiration=str(now_ms - 1)))
    qpid.publish(1, "q", b"far", properties=Properties(expiration=str(now_ms + 10**9)))
    qpid.receive()
    broker.advance(2)
    received = qpid.get("q")
    assert received is not None
    assert received.body == b"far"
    assert received.properties is not None
    assert received.properties.expiration == str(now_ms + 10**9)
    assert qpid.get("q") is None


@pytest.mark.row("M12")
def test_an_expiration_beyond_all_time_is_never(broker: SteppedBroker, qpid: Peer) -> None:
    qpid.declare("q")
    qpid.publish(1, "q", b"a", properties=Properties(expiration="9" * 25))
    qpid.receive()
    broker.clock.advance(10**9)
    assert qpid.drain("q") == [b"a"]


@pytest.mark.row("S11")
def test_an_absolute_expiration_holds_after_a_requeue_too(
    broker: SteppedBroker, qpid: Peer
) -> None:
    qpid.declare("q")
    instant = str(broker.clock.now_ms + 5000)
    qpid.publish(1, "q", b"a", properties=Properties(expiration=instant))
    first = qpid.get("q")
    assert first is not None
    broker.advance(3)
    qpid.nack(first.method.delivery_tag)
    again = qpid.get("q")
    assert again is not None
    assert again.properties is not None
    assert again.properties.expiration == instant
    qpid.nack(again.method.delivery_tag)
    broker.advance(3)
    assert qpid.get("q") is None


@pytest.mark.row("S11")
def test_a_dead_letter_tells_the_instant_it_expired_at(broker: SteppedBroker, qpid: Peer) -> None:
    qpid.declare("dead")
    arguments = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}
    qpid.declare("q", arguments=arguments)
    instant = str(broker.clock.now_ms + 5000)
    qpid.publish(1, "q", b"a", properties=Properties(expiration=instant))
    qpid.receive()
    broker.advance(6)
    letter = qpid.get("dead")
    assert letter is not None
    assert letter.properties is not None
    assert letter.properties.expiration is None
    headers: Any = letter.properties.headers
    (death,) = headers["x-death"]
    assert (death["reason"], death["original-expiration"]) == ("expired", instant)


@pytest.mark.row("M18")
def test_a_topic_reaches_a_subscription_through_an_exchange_in_between(peer: Peer) -> None:
    """As RabbitMQ's client arranges it for a subscriber with a selector, and for delayed ones."""
    peer.declare("q")
    peer.declare_exchange("topic", "topic", durable=True)
    peer.declare_exchange("between", "headers", auto_delete=True)
    ends = {"source": "topic", "destination": "between", "routing_key": "news.#"}
    peer.call(1, EXCHANGE.Bind, **ends)
    peer.bind("q", "between", "", arguments={"x-match": "all", "n": 1})
    for number in (1, 2):
        properties = Properties(headers=Table({"n": number}))
        peer.publish(1, "news.x", b"%d" % number, exchange="topic", properties=properties)
    assert peer.drain("q") == [b"1"]
    peer.call(1, EXCHANGE.Unbind, **ends)
    once_more = Properties(headers=Table({"n": 1}))
    peer.publish(1, "news.x", b"1", exchange="topic", properties=once_more)
    assert peer.drain("q") == []


@pytest.mark.row("M22")
def test_address_and_headers_are_given_back_octet_by_octet(qpid: Peer) -> None:
    qpid.declare("q")
    qpid.bind("q", "amq.direct", "key")
    headers = Table({"JMS_QPID_DESTTYPE": 1, "t": True, "x": b"\x00\xff", "d": 1.5})
    properties = Properties(headers=headers, priority=4, message_id="ID:1")
    qpid.publish(1, "key", b"a", exchange="amq.direct", properties=properties)
    qpid.publish(1, "nobody", b"b", exchange="amq.direct", properties=properties, mandatory=True)
    (returned,) = qpid.receive()
    received = qpid.get("q")
    assert received is not None
    assert (received.method.exchange, received.method.routing_key) == ("amq.direct", "key")
    assert (returned.method.exchange, returned.method.routing_key) == ("amq.direct", "nobody")
    assert received.property_octets == returned.property_octets


def test_what_a_full_queue_refuses_is_returned_in_front_of_its_nack(
    broker: SteppedBroker, qpid: Peer
) -> None:
    """Broker-J does both; its client waits for the confirm, whatever was returned."""
    arguments = {"x-max-length": 1, "x-overflow": "reject-publish"}
    qpid.declare("full", arguments=arguments)
    for peer in (qpid, broker.connect()):
        peer.call(1, commands.Confirm.Select)
        peer.publish(1, "full", b"1", mandatory=True)
        peer.receive()
        peer.publish(1, "full", b"2", mandatory=True)
        expected = ["basic.return", "basic.nack"] if peer is qpid else ["basic.nack"]
        assert names(peer) == expected


@pytest.mark.row("S7")
@pytest.mark.parametrize("is_transacted", [False, True])
def test_immediate_is_returned_when_no_consumer_waits(qpid: Peer, is_transacted: bool) -> None:
    qpid.declare("q")
    if is_transacted:
        qpid.call(1, TX.Select)
    qpid.publish(1, "q", b"a", immediate=True)
    qpid.publish(1, "nowhere", b"b", immediate=True)
    if is_transacted:
        qpid.send(1, TX.Commit)
    returned = [one for one in qpid.receive() if one.name == "basic.return"]
    assert [(one.method.reply_code, one.method.reply_text, one.body) for one in returned] == [
        (313, "NO_CONSUMERS", b"a"),
        (312, "NO_ROUTE", b"b"),
    ]
    assert qpid.drain("q") == []


@pytest.mark.row("S7")
def test_immediate_reaches_a_consumer_with_credit_and_no_other(qpid: Peer) -> None:
    qpid.declare("q")
    qpid.call(2, BASIC.Qos, prefetch_count=1)
    qpid.subscribe("q", "1", number=2, arguments={SELECTOR: "n = 1"})
    properties = Properties(headers=Table({"n": 1}))
    qpid.publish(1, "q", b"unwanted", immediate=True)
    qpid.publish(1, "q", b"first", immediate=True, properties=properties)
    qpid.publish(1, "q", b"second", immediate=True, properties=properties)
    received = [(one.name, one.body) for one in qpid.receive()]
    assert sorted(received) == [
        ("basic.deliver", b"first"),
        ("basic.return", b"second"),
        ("basic.return", b"unwanted"),
    ]


@pytest.mark.row("S7")
def test_immediate_is_returned_while_the_consumers_are_stopped(qpid: Peer) -> None:
    qpid.declare("q")
    qpid.subscribe("q", "1")
    qpid.call(1, CHANNEL.Flow, active=False)
    qpid.publish(1, "q", b"a", immediate=True)
    assert names(qpid) == ["basic.return"]
    qpid.send(1, CHANNEL.Flow, active=True)
    assert names(qpid) == ["channel.flow-ok"]


@pytest.mark.row("S7")
def test_immediate_is_returned_where_the_message_would_be_held(
    broker: SteppedBroker, qpid: Peer
) -> None:
    qpid.declare("q", arguments={"holdOnPublishEnabled": True})
    qpid.subscribe("q", "1")
    later = Table({"x-qpid-not-valid-before": broker.clock.now_ms + 1000})
    qpid.publish(1, "q", b"a", immediate=True, properties=Properties(headers=later))
    qpid.publish(1, "q", b"b", immediate=True)
    assert [one.body for one in qpid.receive() if one.name == "basic.return"] == [b"a"]


@pytest.mark.row("S7")
def test_immediate_goes_to_a_reader_that_has_seen_all(qpid: Peer) -> None:
    qpid.declare("log", arguments={"x-non-destructive": True})
    qpid.publish(1, "log", b"unread", immediate=True)
    assert names(qpid) == ["basic.return"]
    qpid.subscribe("log", "1")
    qpid.fill("log", b"a")
    qpid.publish(1, "log", b"b", immediate=True)
    assert [one.body for one in qpid.receive()] == [b"a", b"b"]


@pytest.mark.row("S7")
def test_immediate_is_returned_where_its_group_has_to_wait(qpid: Peer) -> None:
    qpid.declare("q", arguments={"x-message-group-key": "g"})
    for number in (1, 2):
        qpid.call(number, BASIC.Qos, prefetch_count=1)
    group = Properties(headers=Table({"g": "a"}))
    qpid.subscribe("q", "1")
    qpid.publish(1, "q", b"1", properties=group)
    assert names(qpid) == ["basic.deliver"]
    qpid.subscribe("q", "2", number=2)
    qpid.publish(1, "q", b"2", immediate=True, properties=group)
    assert names(qpid) == ["basic.return"]
    qpid.ack(1)
    qpid.publish(1, "q", b"3", immediate=True, properties=group)
    assert names(qpid) == ["basic.deliver"]


@pytest.mark.row("S7")
def test_immediate_is_returned_where_others_wait_before_it(qpid: Peer) -> None:
    qpid.declare("q")
    qpid.fill("q", b"1")
    qpid.call(1, CHANNEL.Flow, active=False)
    qpid.subscribe("q", "1")
    qpid.publish(2, "q", b"2", immediate=True)
    assert names(qpid) == ["basic.return"]


@pytest.mark.row("S7")
def test_immediate_and_a_delay_contradict_each_other(qpid: Peer) -> None:
    qpid.declare_exchange("later", "x-delayed-message", arguments={"x-delayed-type": "fanout"})
    qpid.declare("q")
    qpid.bind("q", "later")
    qpid.subscribe("q", "1")
    delayed = Properties(headers=Table({"x-delay": 10}))
    qpid.publish(1, "", b"a", exchange="later", immediate=True, properties=delayed)
    qpid.publish(1, "", b"b", exchange="later", immediate=True)
    assert sorted(names(qpid)) == ["basic.deliver", "basic.return"]


@pytest.mark.row("S7")
def test_immediate_is_refused_to_others(peer: Peer) -> None:
    assert peer.publish_refused(1, "q", immediate=True) == (
        540,
        "NOT_IMPLEMENTED - immediate=true",
    )


def test_a_consumer_with_a_priority_comes_after_those_without_in_both_dialects(
    qpid: Peer, peer: Peer
) -> None:
    qpid.declare("q")
    qpid.subscribe("q", "low", arguments={"x-priority": "10"})
    peer.subscribe("q", "usual")
    qpid.call(2, BASIC.Qos, prefetch_count=1)
    qpid.subscribe("q", "usual", number=2)
    peer.fill("q", *(b"%d" % number for number in range(3)))
    mine = {received.method.consumer_tag for received in qpid.receive()}
    theirs = {received.method.consumer_tag for received in peer.receive()}
    assert (mine, theirs) == ({"usual"}, {"usual"})
    peer.call(1, BASIC.Cancel, consumer_tag="usual")
    peer.publish(1, "q", b"no one else has credit")
    (received,) = qpid.receive()
    assert received.method.consumer_tag == "low"


def test_a_priority_that_is_no_number_is_406(qpid: Peer) -> None:
    qpid.declare("q")
    code, text = qpid.refused(1, BASIC.Consume, queue="q", arguments={"x-priority": "high"})
    assert (code, text) == (
        406,
        "PRECONDITION_FAILED - invalid arg 'x-priority' for queue 'q' in vhost '/': "
        "\"expected integer, got 'high'\"",
    )


def test_a_priority_as_text_is_406_to_others(peer: Peer) -> None:
    peer.declare("q")
    code, text = peer.refused(1, BASIC.Consume, queue="q", arguments={"x-priority": "10"})
    assert (code, text.rpartition(": ")[2]) == (406, '"expected integer, got longstr"')


@pytest.mark.row("S7")
@pytest.mark.parametrize("queue", ["q"])
def test_an_invalid_selector_closes_the_channel_with_409(
    qpid: Peer, peer: Peer, queue: str
) -> None:
    qpid.declare(queue)
    fields: dict[str, Any] = {"queue": queue, "arguments": {SELECTOR: "n >"}}
    code, text = qpid.refused(1, BASIC.Consume, **fields)
    assert code == 409
    assert "x-filter-jms-selector" in text
    assert peer.refused(1, BASIC.Consume, **fields)[0] == 406


@pytest.mark.row("S8")
def test_confirms_are_advertised_and_a_matching_user_id_is_taken(
    broker: SteppedBroker,
) -> None:
    greeted = broker.accept()
    greeted.send_octets(PROTOCOL_HEADER)
    start = greeted.expect(commands.Connection.Start)
    assert start.server_properties["capabilities"]["publisher_confirms"] is True
    qpid = broker.connect(qpid="c")
    qpid.declare("q")
    qpid.call(1, commands.Confirm.Select)
    qpid.publish(1, "q", b"a", properties=Properties(user_id="guest"))
    assert names(qpid) == ["basic.ack"]


def test_what_is_returned_is_refused_in_its_place_among_the_confirms(qpid: Peer) -> None:
    qpid.declare("q")
    qpid.call(1, commands.Confirm.Select)
    qpid.publish(1, "q", b"1")
    for body in (b"2", b"3"):
        qpid.publish(1, "nowhere", body, mandatory=True)
    qpid.publish(1, "nowhere", b"4")
    qpid.publish(1, "q", b"5", immediate=True)
    qpid.publish(1, "nowhere", b"6", immediate=True)
    qpid.publish(1, "q", b"7")
    received = qpid.receive()
    returns = [(one.body, one.method.reply_code) for one in received[:4]]
    assert returns == [(b"2", 312), (b"3", 312), (b"5", 313), (b"6", 312)]
    assert [
        (one.name, one.method.delivery_tag, bool(one.method.multiple)) for one in received[4:]
    ] == [
        ("basic.ack", 1, False),
        ("basic.nack", 3, True),
        ("basic.ack", 4, False),
        ("basic.nack", 6, True),
        ("basic.ack", 7, False),
    ]


def test_each_of_many_alike_is_refused(qpid: Peer) -> None:
    qpid.call(1, commands.Confirm.Select)
    octets = publish_octets(1, "nowhere", b"x", mandatory=True)
    qpid.send_octets(octets * 100)
    received = qpid.receive()
    assert [one.name for one in received] == ["basic.return"] * 100 + ["basic.nack"]
    assert (received[-1].method.delivery_tag, received[-1].method.multiple) == (100, True)


def test_what_is_returned_to_others_is_confirmed(peer: Peer) -> None:
    peer.call(1, commands.Confirm.Select)
    peer.publish(1, "nowhere", b"x", mandatory=True)
    assert names(peer) == ["basic.return", "basic.ack"]


def test_a_transaction_that_cannot_be_routed_loses_its_connection(
    broker: SteppedBroker, qpid: Peer
) -> None:
    qpid.declare("q")
    qpid.call(1, TX.Select)
    qpid.publish(1, "q", b"x")
    qpid.publish(1, "nowhere", b"y")
    qpid.expect_nothing()  # without the flag it is dropped
    assert qpid.publish_refused(1, "nowhere", exchange="amq.direct", mandatory=True) == (
        312,
        "NO_ROUTE - no route for message with exchange 'amq.direct' and routing key 'nowhere' "
        "in vhost '/'",
    )
    qpid.send(0, commands.Connection.CloseOk)
    assert broker.queue("q").ready_count == 0


@pytest.mark.parametrize(
    ("wish", "is_closed"), [(False, False), ("false", False), (True, True), ("true", True)]
)
def test_who_asks_for_returns_gets_them_at_the_commit(
    broker: SteppedBroker, wish: object, is_closed: bool
) -> None:
    qpid = broker.accept()
    qpid.send_octets(PROTOCOL_HEADER)
    qpid.expect(commands.Connection.Start)
    qpid.send(
        0,
        commands.Connection.StartOk,
        client_properties={"product": "qpid", "qpid.close_when_no_route": wish},
        mechanism="PLAIN",
        response="\0guest\0guest",
        locale="en_US",
    )
    qpid.expect(commands.Connection.Tune)
    qpid.send(0, commands.Connection.TuneOk, frame_max=8192, channel_max=1)
    qpid.call(0, commands.Connection.Open, virtual_host="/")
    qpid.open(1)
    qpid.call(1, TX.Select)
    qpid.publish(1, "nowhere", b"x", mandatory=True)
    if is_closed:
        assert qpid.refusal().code == 312
    else:
        qpid.expect_nothing()
        qpid.send(1, TX.Commit)
        assert names(qpid) == ["basic.return", "tx.commit-ok"]


def test_transactions_of_others_return_at_the_commit(peer: Peer) -> None:
    peer.call(1, TX.Select)
    peer.publish(1, "nowhere", b"x", mandatory=True)
    peer.expect_nothing()
    peer.send(1, TX.Commit)
    assert names(peer) == ["basic.return", "tx.commit-ok"]


def test_an_exchange_declared_again_is_held_to_its_type(qpid: Peer, peer: Peer) -> None:
    """A producer by BURL declares its exchange without arguments, whatever it was made with."""
    arguments = {"alternateExchange": "amq.fanout"}
    qpid.declare_exchange("x", durable=True, arguments=arguments)
    qpid.declare_exchange("x")
    fields: dict[str, Any] = {"exchange": "x", "exchange_type": "fanout"}
    assert qpid.refused(1, EXCHANGE.Declare, **fields)[0] == 406
    fields = {"exchange": "x", "exchange_type": "direct", "durable": True}
    assert peer.refused(1, EXCHANGE.Declare, **fields)[0] == 406


def test_a_mandatory_message_for_the_alternate_is_not_returned(qpid: Peer) -> None:
    qpid.declare("rest")
    qpid.declare_exchange("x", arguments={"alternateBinding": {"destination": "rest"}})
    qpid.call(1, commands.Confirm.Select)
    qpid.publish(1, "nowhere", b"x", exchange="x", mandatory=True)
    assert names(qpid) == ["basic.ack"]
    assert qpid.drain("rest") == [b"x"]
