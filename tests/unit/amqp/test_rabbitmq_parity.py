"""Where RabbitMQ's order of checks or of deliveries shows, each as RabbitMQ 3.10 was seen to do it.

These were found by sending the same frames to both (tests/interop/rabbitmq/test_rabbitmq_parity.py
does that again); what belongs to one subject alone is tested with that subject.
"""

from __future__ import annotations

import pytest

from hareline.auth.permissions import Permissions
from hareline.wire.methods import Frame, commands, encode_method
from hareline.wire.table import Timestamp

from .peer import Peer, SteppedBroker, publish_octets

DECLARE = commands.Queue.Declare
DECLARE_EXCHANGE = commands.Exchange.Declare
CONSUME = commands.Basic.Consume


# ------------------------------------------------------------------------ the order of checks


@pytest.mark.parametrize("was_exclusive", [False, True])
def test_another_exclusiveness_is_refused_before_other_flags(
    peer: Peer, was_exclusive: bool
) -> None:
    peer.declare("q", exclusive=was_exclusive)
    code, text = peer.refused(
        1, DECLARE, queue="q", exclusive=not was_exclusive, durable=True, auto_delete=True
    )
    assert code == 405
    assert text.startswith("RESOURCE_LOCKED - cannot obtain exclusive access to locked queue 'q'")


def test_an_unknown_exchange_type_is_refused_before_rights_and_what_exists(
    broker: SteppedBroker,
) -> None:
    broker.connect().declare_exchange("x")
    broker.add_user("nobody", "nobody", permissions=Permissions("", "", ""))
    for user in ("guest", "nobody"):
        assert broker.connect(user).refused(
            1, DECLARE_EXCHANGE, exchange="x", exchange_type="nope"
        ) == (406, "PRECONDITION_FAILED - unknown exchange type 'nope'")


AE = "alternate-exchange"


@pytest.mark.parametrize(
    ("current", "received", "difference"),
    [
        ({}, {AE: "a"}, "received the value 'a' of type 'longstr' but current is none"),
        ({AE: "a"}, {}, "received none but current is the value 'a' of type 'longstr'"),
        ({AE: "a"}, {AE: "b"}, "received 'b' but current is 'a'"),
        ({AE: "a"}, {AE: 5}, "received '5' but current is 'a'"),
    ],
)
def test_an_alternate_exchange_is_compared_before_its_type_is_looked_at(
    peer: Peer, current: dict[str, object], received: dict[str, object], difference: str
) -> None:
    peer.declare_exchange("x", arguments=current)
    code, text = peer.refused(
        1, DECLARE_EXCHANGE, exchange="x", exchange_type="direct", arguments=received
    )
    assert code == 406
    assert text == (
        f"PRECONDITION_FAILED - inequivalent arg '{AE}' for exchange 'x' in vhost '/': {difference}"
    )


def test_text_and_octets_name_the_same_alternate_exchange(peer: Peer) -> None:
    peer.declare_exchange("x", arguments={AE: "a"})
    peer.declare_exchange("x", arguments={AE: b"a"})


def test_dead_letter_and_alternate_exchanges_need_rights_only_where_they_are_new(
    broker: SteppedBroker,
) -> None:
    arguments = {"x-dead-letter-exchange": "elsewhere", AE: "elsewhere"}
    owner = broker.connect()
    owner.declare("q", arguments=arguments)
    owner.declare_exchange("x", arguments=arguments)
    broker.add_user("limited", "limited", permissions=Permissions(".*", "", ""))
    limited = broker.connect("limited")
    limited.declare("q", arguments=arguments)
    limited.declare_exchange("x", arguments=arguments)
    code, _ = limited.refused(1, DECLARE, queue="new", arguments=arguments)
    assert code == 403


@pytest.mark.parametrize(
    ("argument", "value", "reason"),
    [
        ("x-priority", Timestamp(5), ': "expected integer, got timestamp"'),
        ("x-cancel-on-ha-failover", 1, ": {unacceptable_type,long}"),
        ("x-stream-offset", "first", " of queue type rabbit_classic_queue"),
    ],
)
def test_an_argument_that_a_consumer_cannot_have_is_406(
    peer: Peer, argument: str, value: object, reason: str
) -> None:
    peer.declare("q")
    assert peer.refused(1, CONSUME, queue="q", arguments={argument: value}) == (
        406,
        f"PRECONDITION_FAILED - invalid arg '{argument}' for queue 'q' in vhost '/'{reason}",
    )


# ------------------------------------------------------------------ the order of deliveries


def test_two_consumers_on_one_channel_see_the_order_of_the_queue(peer: Peer) -> None:
    """AMQP 0-9-1 section 4.7; on different channels each sees its own part in order."""
    peer.declare("q")
    for tag in ("t", "u"):
        peer.subscribe("q", tag)
    bodies = [b"%d" % number for number in range(50)]
    peer.fill("q", *bodies)
    received = peer.receive()
    assert [one.body for one in received] == bodies
    assert [one.method.consumer_tag for one in received] == ["t", "u"] * 25


@pytest.mark.parametrize(
    ("method_class", "fields", "answer"),
    [
        (DECLARE, {"passive": True}, ("message_count", 0)),
        (DECLARE, {}, ("message_count", 0)),
        (commands.Queue.Purge, {}, ("message_count", 0)),
        (commands.Queue.Delete, {"if_empty": True}, ("message_count", 0)),
        (commands.Basic.Cancel, {"consumer_tag": "t"}, ("consumer_tag", "t")),
    ],
)
def test_what_is_due_to_a_consumer_is_delivered_before_a_look_at_the_queue(
    peer: Peer, method_class: type[Frame], fields: dict[str, object], answer: tuple[str, object]
) -> None:
    """However little a client waits: here all of it comes in one read."""
    peer.declare("q")
    peer.subscribe("q", "t", no_ack=True)
    if "consumer_tag" not in fields:
        fields = {**fields, "queue": "q"}
    peer.send_octets(publish_octets(1, "q", b"last") + encode_method(1, method_class, **fields))
    delivery, *rest = peer.receive()
    assert (delivery.name, delivery.body) == ("basic.deliver", b"last")
    name, value = answer
    assert getattr(rest[-1].method, name) == value


def test_a_get_takes_only_what_consumers_leave(peer: Peer) -> None:
    peer.declare("q")
    peer.call(1, commands.Basic.Qos, prefetch_count=1)
    peer.subscribe("q", "t")
    peer.send_octets(
        publish_octets(1, "q", b"1")
        + publish_octets(1, "q", b"2")
        + encode_method(1, commands.Basic.Get, queue="q")
        + encode_method(1, commands.Basic.Get, queue="q")
    )
    assert [(one.name, one.body) for one in peer.receive()] == [
        ("basic.deliver", b"1"),
        ("basic.get-ok", b"2"),
        ("basic.get-empty", b""),
    ]


def test_a_new_consumer_does_not_share_what_came_before_it(peer: Peer) -> None:
    peer.declare("q")
    peer.subscribe("q", "old")
    peer.send_octets(
        publish_octets(1, "q", b"1")
        + publish_octets(1, "q", b"2")
        + encode_method(1, CONSUME, queue="q", consumer_tag="new")
        + publish_octets(1, "q", b"3")
        + publish_octets(1, "q", b"4")
    )
    assert [
        (one.method.consumer_tag, one.body) for one in peer.receive() if one.name == "basic.deliver"
    ] == [("old", b"1"), ("old", b"2"), ("old", b"3"), ("new", b"4")]
