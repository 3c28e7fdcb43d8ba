"""exchange.* and queue.*: what is made and removed, and every refusal with its words."""

from __future__ import annotations

import re
from typing import Any

import pytest

from hareline.auth.permissions import Permissions
from hareline.wire.methods import Exchange, Frame, commands
from hareline.wire.table import SignedInt, Table

from .peer import Peer, SteppedBroker

EXCHANGE, QUEUE, BASIC = commands.Exchange, commands.Queue, commands.Basic
DEFAULT_REFUSED = "ACCESS_REFUSED - operation not permitted on the default exchange"


def locked(name: str) -> tuple[int, str]:
    return (
        405,
        f"RESOURCE_LOCKED - cannot obtain exclusive access to locked queue '{name}' in vhost '/'. "
        "It could be originally declared on another connection or the exclusive property value "
        "does not match that of the original declaration.",
    )


def denied(right: str, kind: str, name: str) -> tuple[int, str]:
    return (
        403,
        f"ACCESS_REFUSED - {right} access to {kind} '{name}' in vhost '/' refused for user 'alice'",
    )


# ------------------------------------------------------------------------------ exchange.declare


@pytest.mark.parametrize(
    "exchange_type",
    ["direct", "fanout", "topic", "headers", "x-consistent-hash", "x-random"],
)
def test_every_exchange_type_can_be_declared_twice(
    broker: SteppedBroker, peer: Peer, exchange_type: str
) -> None:
    for _ in range(2):
        peer.declare_exchange("x", exchange_type, durable=True)
    exchange = broker.vhost.exchanges["x"]
    assert (exchange.type_name, exchange.is_durable) == (exchange_type, True)


@pytest.mark.parametrize(
    ("name", "exchange_type"),
    [
        ("amq.direct", "direct"),
        ("amq.fanout", "fanout"),
        ("amq.topic", "topic"),
        ("amq.headers", "headers"),
        ("amq.match", "headers"),
        ("amq.rabbitmq.trace", "topic"),
    ],
)
def test_the_predeclared_exchanges_are_there(
    broker: SteppedBroker, peer: Peer, name: str, exchange_type: str
) -> None:
    peer.call(1, EXCHANGE.Declare, exchange=name, passive=True)
    exchange = broker.vhost.exchanges[name]
    assert (exchange.type_name, exchange.is_durable) == (exchange_type, True)
    assert exchange.is_internal == (name == "amq.rabbitmq.trace")


def test_a_predeclared_exchange_may_be_declared_as_it_is(peer: Peer) -> None:
    peer.declare_exchange("amq.topic", "topic", durable=True)


def test_declare_exchange_without_an_answer(broker: SteppedBroker, peer: Peer) -> None:
    peer.send(1, EXCHANGE.Declare, exchange="x", exchange_type="direct", nowait=True)
    peer.expect_nothing()
    assert "x" in broker.vhost.exchanges


@pytest.mark.parametrize("exchange_type", ["nope", "Direct"])
def test_an_unknown_exchange_type_is_406(peer: Peer, exchange_type: str) -> None:
    assert peer.refused(1, EXCHANGE.Declare, exchange="x", exchange_type=exchange_type) == (
        406,
        f"PRECONDITION_FAILED - unknown exchange type '{exchange_type}'",
    )


def test_a_reserved_exchange_name_is_403(peer: Peer) -> None:
    assert peer.refused(1, EXCHANGE.Declare, exchange="amq.mine", exchange_type="direct") == (
        403,
        "ACCESS_REFUSED - exchange name 'amq.mine' contains reserved prefix 'amq.*'",
    )


@pytest.mark.parametrize("passive", [False, True])
def test_the_default_exchange_cannot_be_declared(peer: Peer, passive: bool) -> None:
    refusal = peer.refused(
        1, EXCHANGE.Declare, exchange="", exchange_type="direct", passive=passive
    )
    assert refusal == (403, DEFAULT_REFUSED)


def test_a_passive_declare_of_a_missing_exchange_is_404(broker: SteppedBroker, peer: Peer) -> None:
    assert peer.refused(1, EXCHANGE.Declare, exchange="x", passive=True) == (
        404,
        "NOT_FOUND - no exchange 'x' in vhost '/'",
    )
    assert "x" not in broker.vhost.exchanges


def test_a_passive_declare_compares_nothing(peer: Peer) -> None:
    peer.declare_exchange("x", "fanout")
    peer.call(1, EXCHANGE.Declare, exchange="x", exchange_type="topic", durable=True, passive=True)


AE = "alternate-exchange"


@pytest.mark.parametrize(
    ("changes", "difference"),
    [
        ({"exchange_type": "fanout"}, "'type': received 'fanout' but current is 'direct'"),
        ({"durable": False}, "'durable': received 'false' but current is 'true'"),
        ({"auto_delete": True}, "'auto_delete': received 'true' but current is 'false'"),
        ({"internal": True}, "'internal': received 'true' but current is 'false'"),
        ({"arguments": {AE: "b"}}, f"'{AE}': received 'b' but current is 'a'"),
        (
            {"arguments": {}},
            f"'{AE}': received none but current is the value 'a' of type 'longstr'",
        ),
    ],
)
def test_an_exchange_declared_otherwise_is_406(
    peer: Peer, changes: dict[str, Any], difference: str
) -> None:
    declared: dict[str, Any] = {
        "exchange_type": "direct",
        "durable": True,
        "arguments": {AE: "a"},
    }
    peer.declare_exchange("x", **declared)
    name, _, rest = difference.partition(": ")
    assert peer.refused(1, EXCHANGE.Declare, exchange="x", **(declared | changes)) == (
        406,
        f"PRECONDITION_FAILED - inequivalent arg {name} for exchange 'x' in vhost '/': {rest}",
    )


def test_an_alternate_exchange_where_there_was_none_is_406(peer: Peer) -> None:
    peer.declare_exchange("x")
    refusal = peer.refused(
        1, EXCHANGE.Declare, exchange="x", exchange_type="direct", arguments={AE: "a"}
    )
    assert refusal == (
        406,
        "PRECONDITION_FAILED - inequivalent arg 'alternate-exchange' for exchange 'x' in vhost "
        "'/': received the value 'a' of type 'longstr' but current is none",
    )


def test_arguments_nobody_knows_are_not_compared(peer: Peer) -> None:
    peer.declare_exchange("x", arguments={"colour": "red"})
    peer.declare_exchange("x", arguments={"size": SignedInt(3)})


def test_an_alternate_exchange_that_is_no_name_is_406(peer: Peer) -> None:
    refusal = peer.refused(
        1, EXCHANGE.Declare, exchange="x", exchange_type="direct", arguments={AE: SignedInt(1)}
    )
    assert refusal == (
        406,
        "PRECONDITION_FAILED - invalid type 'signedint' for arg 'alternate-exchange' in exchange "
        "'x' in vhost '/'",
    )


def test_an_alternate_by_another_name_that_is_wrong_is_406(peer: Peer) -> None:
    arguments = {"alternateBinding": "nowhere"}
    fields: dict[str, Any] = {"exchange": "x", "exchange_type": "direct", "arguments": arguments}
    text = (
        "PRECONDITION_FAILED - invalid arg 'alternateBinding' for exchange 'x' in vhost '/': "
        '"expected a table, got text that is not JSON"'
    )
    assert peer.refused(1, EXCHANGE.Declare, **fields) == (406, text)
    peer.open(1)
    peer.declare_exchange("x")
    assert peer.refused(1, EXCHANGE.Declare, **fields) == (406, text)


@pytest.mark.parametrize("name", ["a\r\nb", "\nab", "ab\r"])
def test_line_ends_are_stripped_from_names(broker: SteppedBroker, peer: Peer, name: str) -> None:
    peer.declare_exchange(name)
    assert "ab" in broker.vhost.exchanges
    assert peer.declare(name) == "ab"
    peer.call(1, QUEUE.Bind, queue=name, exchange=name, routing_key="k")
    peer.publish(1, "k", b"x", exchange="ab")
    peer.call(1, QUEUE.Unbind, queue=name, exchange=name, routing_key="k")
    assert peer.call(1, QUEUE.Delete, queue=name).message_count == 1
    peer.call(1, EXCHANGE.Delete, exchange=name)
    assert "ab" not in broker.vhost.exchanges


def test_a_name_of_line_ends_alone_is_an_empty_name(peer: Peer) -> None:
    assert peer.declare("\r\n").startswith("amq.gen-")


# ------------------------------------------------------------------------------- exchange.delete


def test_an_exchange_goes_with_its_bindings(broker: SteppedBroker, peer: Peer) -> None:
    peer.declare_exchange("x")
    peer.declare_exchange("y")
    peer.declare("q")
    peer.bind("q", "x", "k")
    peer.call(1, EXCHANGE.Bind, destination="x", source="y", routing_key="k")
    peer.call(1, EXCHANGE.Delete, exchange="x")
    assert len(broker.vhost.bindings) == 0
    assert "x" not in broker.vhost.exchanges


def test_deleting_a_missing_exchange_is_no_error(peer: Peer) -> None:
    peer.call(1, EXCHANGE.Delete, exchange="nope")
    peer.call(1, EXCHANGE.Delete, exchange="nope", if_unused=True)


def test_delete_exchange_without_an_answer(broker: SteppedBroker, peer: Peer) -> None:
    peer.declare_exchange("x")
    peer.send(1, EXCHANGE.Delete, exchange="x", nowait=True)
    peer.expect_nothing()
    assert "x" not in broker.vhost.exchanges


def test_an_exchange_in_use_is_406_with_if_unused(broker: SteppedBroker, peer: Peer) -> None:
    peer.declare_exchange("x")
    peer.declare("q")
    peer.bind("q", "x", "k")
    assert peer.refused(1, EXCHANGE.Delete, exchange="x", if_unused=True) == (
        406,
        "PRECONDITION_FAILED - exchange 'x' in vhost '/' in use",
    )
    peer.open(1)
    peer.call(1, QUEUE.Unbind, queue="q", exchange="x", routing_key="k")
    peer.call(1, EXCHANGE.Delete, exchange="x", if_unused=True)
    assert "x" not in broker.vhost.exchanges


@pytest.mark.parametrize(
    "name",
    ["amq.direct", "amq.fanout", "amq.topic", "amq.headers", "amq.match", "amq.rabbitmq.trace"],
)
def test_predeclared_exchanges_cannot_be_deleted(peer: Peer, name: str) -> None:
    assert peer.refused(1, EXCHANGE.Delete, exchange=name) == (
        403,
        f"ACCESS_REFUSED - deletion of system exchange '{name}' in vhost '/' not allowed",
    )


def test_the_default_exchange_cannot_be_deleted(peer: Peer) -> None:
    assert peer.refused(1, EXCHANGE.Delete, exchange="") == (403, DEFAULT_REFUSED)


# ------------------------------------------------------------------------- exchange.bind, unbind


def test_exchanges_can_be_bound_to_each_other_and_in_circles(peer: Peer) -> None:
    for name in ("a", "b"):
        peer.declare_exchange(name, "fanout")
    peer.declare("q")
    peer.bind("q", "b")
    for destination, source in (("b", "a"), ("a", "b"), ("a", "a"), ("b", "a")):
        peer.call(1, EXCHANGE.Bind, destination=destination, source=source)
    peer.publish(1, "", b"x", exchange="a")
    assert peer.drain("q") == [b"x"]
    peer.call(1, EXCHANGE.Unbind, destination="b", source="a")
    peer.publish(1, "", b"y", exchange="a")
    assert peer.drain("q") == []


@pytest.mark.parametrize("method_class", [EXCHANGE.Bind, EXCHANGE.Unbind])
def test_exchange_bindings_without_an_answer(peer: Peer, method_class: type[Frame]) -> None:
    peer.send(1, method_class, destination="amq.fanout", source="amq.direct", nowait=True)
    peer.expect_nothing()


@pytest.mark.parametrize(
    ("source", "destination", "missing"),
    [("amq.direct", "no1", "no1"), ("no2", "amq.direct", "no2"), ("no2", "no1", "no2")],
)
def test_binding_a_missing_exchange_is_404(
    peer: Peer, source: str, destination: str, missing: str
) -> None:
    assert peer.refused(1, EXCHANGE.Bind, source=source, destination=destination) == (
        404,
        f"NOT_FOUND - no exchange '{missing}' in vhost '/'",
    )


@pytest.mark.parametrize("method_class", [EXCHANGE.Bind, EXCHANGE.Unbind])
@pytest.mark.parametrize(
    ("source", "destination"), [("", "amq.direct"), ("amq.direct", ""), ("", ""), ("", "nope")]
)
def test_the_default_exchange_cannot_be_bound_or_unbound(
    peer: Peer, method_class: type[Frame], source: str, destination: str
) -> None:
    refusal = peer.refused(1, method_class, source=source, destination=destination)
    assert refusal == (403, DEFAULT_REFUSED)


@pytest.mark.parametrize(
    ("source", "destination"),
    [("amq.direct", "amq.fanout"), ("amq.direct", "no1"), ("no2", "amq.direct"), ("no2", "no1")],
)
def test_unbinding_exchanges_that_are_not_bound_is_no_error(
    peer: Peer, source: str, destination: str
) -> None:
    peer.call(1, EXCHANGE.Unbind, source=source, destination=destination)


# ---------------------------------------------------------------------------------- auto-delete


def test_an_auto_delete_exchange_goes_with_its_last_binding_as_source(
    broker: SteppedBroker, peer: Peer
) -> None:
    peer.declare_exchange("x", auto_delete=True)
    peer.declare("q")
    peer.bind("q", "x", "a")
    peer.bind("q", "x", "b")
    peer.call(1, QUEUE.Unbind, queue="q", exchange="x", routing_key="a")
    assert "x" in broker.vhost.exchanges
    peer.call(1, QUEUE.Unbind, queue="q", exchange="x", routing_key="b")
    assert "x" not in broker.vhost.exchanges


def test_an_auto_delete_exchange_that_was_never_a_source_stays(
    broker: SteppedBroker, peer: Peer
) -> None:
    peer.declare_exchange("x", auto_delete=True)
    peer.call(1, EXCHANGE.Bind, destination="x", source="amq.fanout")
    peer.call(1, EXCHANGE.Unbind, destination="x", source="amq.fanout")
    assert "x" in broker.vhost.exchanges


def test_auto_delete_runs_down_a_chain_of_exchanges(broker: SteppedBroker, peer: Peer) -> None:
    for name in ("a", "b", "c"):
        peer.declare_exchange(name, "fanout", auto_delete=True)
    peer.call(1, EXCHANGE.Bind, source="a", destination="b")
    peer.call(1, EXCHANGE.Bind, source="b", destination="c")
    peer.declare("q", exclusive=True)
    peer.bind("q", "c")
    peer.call(1, QUEUE.Delete, queue="q")
    assert {"a", "b", "c"}.isdisjoint(broker.vhost.exchanges)


def test_an_auto_delete_queue_goes_with_its_last_consumer(
    broker: SteppedBroker, peer: Peer
) -> None:
    peer.declare("q", auto_delete=True)
    peer.subscribe("q", "a")
    peer.subscribe("q", "b")
    peer.call(1, BASIC.Cancel, consumer_tag="a")
    assert "q" in broker.vhost.queues
    peer.send(1, BASIC.Cancel, consumer_tag="b")
    assert "q" not in broker.vhost.queues  # before cancel-ok is written
    peer.expect(BASIC.CancelOk)


def test_an_auto_delete_queue_that_never_had_a_consumer_stays(
    broker: SteppedBroker, peer: Peer
) -> None:
    peer.declare("q", auto_delete=True)
    peer.call(1, commands.Channel.Close)
    peer.lose()
    assert "q" in broker.vhost.queues


def test_an_auto_delete_queue_goes_with_the_channel_of_its_last_consumer(
    broker: SteppedBroker, peer: Peer
) -> None:
    peer.declare("q", auto_delete=True)
    peer.subscribe("q", "a")
    peer.call(1, commands.Channel.Close)
    assert "q" not in broker.vhost.queues


# ---------------------------------------------------------------------------------- queue.declare


def test_declare_ok_says_name_ready_and_consumers(peer: Peer) -> None:
    ok = peer.call(1, QUEUE.Declare, queue="q", durable=True)
    assert (ok.queue, ok.message_count, ok.consumer_count) == ("q", 0, 0)
    peer.fill("q", b"1", b"2", b"3")
    peer.call(1, BASIC.Qos, prefetch_count=1)
    peer.consume("q", "t")
    assert len(peer.receive()) == 2
    for passive in (False, True):
        ok = peer.call(1, QUEUE.Declare, queue="q", durable=True, passive=passive)
        assert (ok.queue, ok.message_count, ok.consumer_count) == ("q", 2, 1)


def test_declare_queue_without_an_answer(broker: SteppedBroker, peer: Peer) -> None:
    peer.send(1, QUEUE.Declare, queue="q", nowait=True)
    peer.expect_nothing()
    assert "q" in broker.vhost.queues


def test_an_empty_name_gets_a_generated_one(peer: Peer) -> None:
    names = {peer.declare("") for _ in range(3)}
    assert len(names) == 3
    assert all(re.fullmatch(r"amq\.gen-[\w-]{22}", name) for name in names)


def test_a_name_prefix_begins_a_generated_name(peer: Peer) -> None:
    name = peer.declare("", arguments={"x-name-prefix": "jobs"})
    assert re.fullmatch(r"jobs-[\w-]{22}", name)
    assert peer.refused(1, QUEUE.Declare, arguments={"x-name-prefix": "p" * 65}) == (
        406,
        f"PRECONDITION_FAILED - Queue name prefix '{'p' * 65}' exceeds the 64-byte limit",
    )


def test_a_reserved_queue_name_is_403_unless_it_exists(peer: Peer) -> None:
    assert peer.refused(1, QUEUE.Declare, queue="amq.mine") == (
        403,
        "ACCESS_REFUSED - queue name 'amq.mine' contains reserved prefix 'amq.*'",
    )
    peer.open(1)
    name = peer.declare("")
    assert peer.declare(name) == name


def test_a_full_vhost_is_406(peer: Peer, broker: SteppedBroker) -> None:
    broker.vhost.max_queues = 1
    peer.declare("q")
    peer.declare("q")
    assert peer.refused(1, QUEUE.Declare, queue="p") == (
        406,
        "PRECONDITION_FAILED - cannot declare queue 'p': queue limit in vhost '/' (1) is reached",
    )


def test_a_passive_declare_of_a_missing_queue_is_404(broker: SteppedBroker, peer: Peer) -> None:
    assert peer.refused(1, QUEUE.Declare, queue="q", passive=True) == (
        404,
        "NOT_FOUND - no queue 'q' in vhost '/'",
    )
    assert "q" not in broker.vhost.queues


def test_a_passive_declare_of_no_name_is_404_whatever_was_declared(peer: Peer) -> None:
    peer.declare("")
    assert peer.refused(1, QUEUE.Declare, queue="", passive=True) == (
        404,
        "NOT_FOUND - no queue '' in vhost '/'",
    )


def test_a_passive_declare_compares_nothing_of_a_queue(peer: Peer) -> None:
    peer.declare("q")
    ok = peer.call(
        1,
        QUEUE.Declare,
        queue="q",
        passive=True,
        durable=True,
        auto_delete=True,
        arguments={"x-message-ttl": "nonsense"},
    )
    assert ok.queue == "q"


def test_the_last_declared_queue_may_have_been_declared_passively(peer: Peer) -> None:
    peer.declare("q")
    peer.declare("p")
    peer.call(1, QUEUE.Declare, queue="q", passive=True)
    peer.fill("q", b"1")
    assert peer.call(1, QUEUE.Purge, queue="").message_count == 1


TTL = "x-message-ttl"


@pytest.mark.parametrize(
    ("changes", "difference"),
    [
        ({"durable": False}, "'durable': received 'false' but current is 'true'"),
        ({"auto_delete": True}, "'auto_delete': received 'true' but current is 'false'"),
        ({"arguments": {TTL: SignedInt(2)}}, f"'{TTL}': received '2' but current is '1'"),
        (
            {"arguments": {}},
            f"'{TTL}': received none but current is the value '1' of type 'signedint'",
        ),
        (
            {"arguments": {TTL: SignedInt(1), "x-expires": 5}},
            "'x-expires': received the value '5' of type 'long' but current is none",
        ),
    ],
)
def test_a_queue_declared_otherwise_is_406(
    peer: Peer, changes: dict[str, Any], difference: str
) -> None:
    declared = {"durable": True, "arguments": {TTL: SignedInt(1)}}
    peer.declare("q", **declared)
    name, _, rest = difference.partition(": ")
    assert peer.refused(1, QUEUE.Declare, queue="q", **(declared | changes)) == (
        406,
        f"PRECONDITION_FAILED - inequivalent arg {name} for queue 'q' in vhost '/': {rest}",
    )


def test_a_value_that_is_not_legal_is_406_and_nothing_is_made(
    broker: SteppedBroker, peer: Peer
) -> None:
    assert peer.refused(1, QUEUE.Declare, queue="q", arguments={TTL: SignedInt(-1)}) == (
        406,
        f"PRECONDITION_FAILED - invalid arg '{TTL}' for queue 'q' in vhost '/': "
        "{value_negative,-1}",
    )
    assert "q" not in broker.vhost.queues


def test_a_redeclaration_is_compared_before_its_values_are_read(peer: Peer) -> None:
    peer.declare("q")
    assert peer.refused(1, QUEUE.Declare, queue="q", arguments={TTL: SignedInt(-1)}) == (
        406,
        f"PRECONDITION_FAILED - inequivalent arg '{TTL}' for queue 'q' in vhost '/': "
        "received the value '-1' of type 'signedint' but current is none",
    )


# -------------------------------------------------------------------------------- exclusive queues


@pytest.mark.parametrize(
    ("method_class", "fields"),
    [
        (QUEUE.Declare, {}),
        (QUEUE.Declare, {"exclusive": True}),
        (QUEUE.Declare, {"passive": True}),
        (QUEUE.Declare, {"durable": True, "auto_delete": True}),
        (QUEUE.Declare, {"arguments": {TTL: SignedInt(-1)}}),
        (QUEUE.Delete, {}),
        (QUEUE.Delete, {"if_unused": True}),
        (QUEUE.Purge, {}),
        (QUEUE.Bind, {"exchange": "amq.direct"}),
    ],
)
def test_an_exclusive_queue_is_405_to_other_connections(
    broker: SteppedBroker, peer: Peer, method_class: type[Frame], fields: dict[str, Any]
) -> None:
    peer.declare("q", exclusive=True)
    assert broker.connect().refused(1, method_class, queue="q", **fields) == locked("q")


def test_anybody_may_publish_to_an_exclusive_queue(broker: SteppedBroker, peer: Peer) -> None:
    peer.declare("q", exclusive=True)
    broker.connect().publish(1, "q", b"x", mandatory=True)
    assert peer.drain("q") == [b"x"]


def test_all_channels_of_the_owner_may_use_an_exclusive_queue(broker: SteppedBroker) -> None:
    peer = broker.connect(channels=[1, 2])
    peer.declare("q", exclusive=True)
    assert peer.call(2, QUEUE.Declare, queue="q", exclusive=True).queue == "q"
    peer.subscribe("q", "t", number=2)


def test_an_exclusive_queue_is_never_durable(broker: SteppedBroker, peer: Peer) -> None:
    peer.declare("q", exclusive=True, durable=True)
    assert not broker.queue("q").is_durable
    peer.declare("q", exclusive=True, durable=False)


@pytest.mark.parametrize("durable", [False, True])
def test_exclusiveness_must_be_as_declared(peer: Peer, durable: bool) -> None:
    peer.declare("shared", durable=durable)
    peer.declare("mine", exclusive=True)
    assert peer.refused(
        1, QUEUE.Declare, queue="shared", durable=durable, exclusive=True
    ) == locked("shared")
    peer.open(1)
    assert peer.refused(1, QUEUE.Declare, queue="mine") == locked("mine")


# ----------------------------------------------------------------------------- queue.bind, unbind


def test_each_distinct_binding_counts_and_a_repeated_one_does_not(
    broker: SteppedBroker, peer: Peer
) -> None:
    peer.declare("q")
    for arguments in ({}, {"a": SignedInt(1)}, {"a": SignedInt(2)}, {"a": SignedInt(1)}):
        peer.bind("q", "amq.direct", "k", arguments=arguments)
    assert len(broker.vhost.bindings) == 3
    peer.publish(1, "k", b"x", exchange="amq.direct")
    assert peer.drain("q") == [b"x"]


def test_bind_without_names_takes_the_last_queue_and_its_name(peer: Peer) -> None:
    name = peer.declare("")
    peer.bind("", "amq.direct")
    peer.publish(1, name, b"x", exchange="amq.direct")
    assert peer.drain(name) == [b"x"]
    peer.call(1, QUEUE.Unbind, exchange="amq.direct")
    peer.publish(1, name, b"y", exchange="amq.direct")
    assert peer.drain(name) == []


def test_bind_with_a_queue_and_no_key_means_the_empty_key(peer: Peer) -> None:
    peer.declare("q")
    peer.bind("q", "amq.direct")
    peer.publish(1, "q", b"1", exchange="amq.direct")
    peer.publish(1, "", b"2", exchange="amq.direct")
    assert peer.drain("q") == [b"2"]


def test_bind_without_an_answer(peer: Peer) -> None:
    peer.declare("q")
    peer.send(1, QUEUE.Bind, queue="q", exchange="amq.fanout", nowait=True)
    peer.expect_nothing()


@pytest.mark.parametrize(
    ("queue", "exchange", "what"),
    [
        ("nope", "amq.direct", "queue 'nope'"),
        ("q", "nox", "exchange 'nox'"),
        ("nope", "nox", "exchange 'nox'"),
    ],
)
def test_binding_what_is_missing_is_404(peer: Peer, queue: str, exchange: str, what: str) -> None:
    peer.declare("q")
    assert peer.refused(1, QUEUE.Bind, queue=queue, exchange=exchange) == (
        404,
        f"NOT_FOUND - no {what} in vhost '/'",
    )


@pytest.mark.parametrize(
    ("queue", "exchange"),
    [("q", "amq.direct"), ("nope", "amq.direct"), ("q", "nox"), ("nope", "nox")],
)
def test_unbinding_what_is_not_bound_is_no_error(peer: Peer, queue: str, exchange: str) -> None:
    peer.declare("q")
    peer.call(1, QUEUE.Unbind, queue=queue, exchange=exchange, routing_key="k")


@pytest.mark.parametrize("method_class", [QUEUE.Bind, QUEUE.Unbind])
def test_queues_are_bound_to_the_default_exchange_by_nobody(
    peer: Peer, method_class: type[Frame]
) -> None:
    peer.declare("q")
    refusal = peer.refused(1, method_class, queue="q", exchange="", routing_key="k")
    assert refusal == (403, DEFAULT_REFUSED)


@pytest.mark.parametrize(
    ("value", "explanation"),
    [
        (
            "some",
            'Invalid x-match field value <<"some">>; expected all, any, all-with-x, or any-with-x',
        ),
        (SignedInt(1), "Invalid x-match field type signedint (value 1); expected longstr"),
    ],
)
def test_a_bad_headers_binding_is_406_and_leaves_nothing(
    broker: SteppedBroker, peer: Peer, value: object, explanation: str
) -> None:
    peer.declare("q")
    refusal = peer.refused(
        1, QUEUE.Bind, queue="q", exchange="amq.headers", arguments={"x-match": value}
    )
    assert refusal == (406, f"PRECONDITION_FAILED - {explanation}")
    assert len(broker.vhost.bindings) == 0


# --------------------------------------------------------------------------- purge and delete


def test_purge_drops_what_is_ready_and_nothing_else(broker: SteppedBroker, peer: Peer) -> None:
    peer.declare("q")
    peer.fill("q", b"1", b"2", b"3")
    assert peer.get("q") is not None
    assert peer.call(1, QUEUE.Purge, queue="q").message_count == 2
    peer.nack(1)
    assert peer.drain("q") == [b"1"]
    assert broker.queue("q").ready_bytes == 0


def test_purge_of_a_missing_queue_is_404(peer: Peer) -> None:
    assert peer.refused(1, QUEUE.Purge, queue="q") == (404, "NOT_FOUND - no queue 'q' in vhost '/'")


@pytest.mark.parametrize("method_class", [QUEUE.Purge, QUEUE.Delete])
def test_purge_and_delete_without_an_answer(peer: Peer, method_class: type[Frame]) -> None:
    peer.declare("q")
    peer.send(1, method_class, queue="q", nowait=True)
    peer.expect_nothing()


def test_delete_ok_counts_what_was_ready(broker: SteppedBroker, peer: Peer) -> None:
    peer.declare("q")
    peer.fill("q", b"1", b"2", b"3")
    assert peer.get("q") is not None
    assert peer.call(1, QUEUE.Delete, queue="q").message_count == 2
    assert "q" not in broker.vhost.queues


def test_deleting_a_missing_queue_is_no_error(peer: Peer) -> None:
    for conditions in ({}, {"if_unused": True, "if_empty": True}):
        assert peer.call(1, QUEUE.Delete, queue="q", **conditions).message_count == 0


def test_a_queue_with_consumers_is_406_with_if_unused(broker: SteppedBroker, peer: Peer) -> None:
    peer.declare("q")
    broker.connect().subscribe("q", "t")
    assert peer.refused(1, QUEUE.Delete, queue="q", if_unused=True) == (
        406,
        "PRECONDITION_FAILED - queue 'q' in vhost '/' in use",
    )


def test_a_queue_with_messages_is_406_with_if_empty(peer: Peer) -> None:
    peer.declare("q")
    peer.fill("q", b"1")
    assert peer.refused(1, QUEUE.Delete, queue="q", if_empty=True) == (
        406,
        "PRECONDITION_FAILED - queue 'q' in vhost '/' not empty",
    )


def test_a_queue_in_use_is_refused_before_a_full_one(peer: Peer) -> None:
    peer.declare("q")
    peer.call(1, BASIC.Qos, prefetch_count=1)
    peer.fill("q", b"1", b"2")
    peer.consume("q", "t")
    peer.receive()
    refusal = peer.refused(1, QUEUE.Delete, queue="q", if_unused=True, if_empty=True)
    assert refusal[1].endswith("in use")


def test_a_queue_goes_with_its_bindings(broker: SteppedBroker, peer: Peer) -> None:
    peer.declare("q")
    peer.bind("q", "amq.fanout")
    peer.call(1, QUEUE.Delete, queue="q")
    assert len(broker.vhost.bindings) == 0
    peer.publish(1, "", b"x", exchange="amq.fanout", mandatory=True)
    assert peer.bodies() == [b"x"]


# ------------------------------------------------------------------------------------ permissions


NOTHING = "^$"


def alice(
    broker: SteppedBroker, configure: str = ".*", write: str = ".*", read: str = ".*"
) -> Peer:
    broker.add_user("alice", "alice", permissions=Permissions(configure, write, read))
    return broker.connect("alice")


@pytest.mark.parametrize(
    ("method_class", "fields", "kind", "name"),
    [
        (QUEUE.Declare, {"queue": "n"}, "queue", "n"),
        (QUEUE.Delete, {"queue": "n"}, "queue", "n"),
        (EXCHANGE.Declare, {"exchange": "n", "exchange_type": "direct"}, "exchange", "n"),
        (EXCHANGE.Delete, {"exchange": "n"}, "exchange", "n"),
    ],
)
def test_making_and_removing_needs_configure(
    broker: SteppedBroker, method_class: type[Frame], fields: dict[str, Any], kind: str, name: str
) -> None:
    peer = alice(broker, configure="^m")
    assert peer.refused(1, method_class, **fields) == denied("configure", kind, name)


@pytest.mark.parametrize("method_class", [QUEUE.Bind, QUEUE.Unbind])
def test_binding_a_queue_needs_write_on_it_and_read_on_the_exchange(
    broker: SteppedBroker, method_class: type[Frame]
) -> None:
    for rights, refusal in (
        ({"write": "^amq"}, denied("write", "queue", "q")),
        ({"read": "^q$"}, denied("read", "exchange", "amq.direct")),
    ):
        peer = alice(broker, **rights)
        peer.declare("q")
        assert peer.refused(1, method_class, queue="q", exchange="amq.direct") == refusal


@pytest.mark.parametrize("method_class", [EXCHANGE.Bind, EXCHANGE.Unbind])
def test_binding_exchanges_needs_write_on_the_one_and_read_on_the_other(
    broker: SteppedBroker, method_class: type[Frame]
) -> None:
    ends = {"source": "amq.direct", "destination": "amq.fanout"}
    peer = alice(broker, write="direct")
    assert peer.refused(1, method_class, **ends) == denied("write", "exchange", "amq.fanout")
    peer = alice(broker, read="fanout")
    assert peer.refused(1, method_class, **ends) == denied("read", "exchange", "amq.direct")


def test_purging_needs_read(broker: SteppedBroker) -> None:
    peer = alice(broker, read=NOTHING)
    peer.declare("q")
    assert peer.refused(1, QUEUE.Purge, queue="q") == denied("read", "queue", "q")


def test_a_dead_letter_exchange_needs_read_on_the_queue_and_write_on_it(
    broker: SteppedBroker,
) -> None:
    arguments = {"x-dead-letter-exchange": "dlx"}
    peer = alice(broker, read=NOTHING)
    refusal = peer.refused(1, QUEUE.Declare, queue="q", arguments=arguments)
    assert refusal == denied("read", "queue", "q")
    peer = alice(broker, write="^q$")
    refusal = peer.refused(1, QUEUE.Declare, queue="q", arguments=arguments)
    assert refusal == denied("write", "exchange", "dlx")


ALTERNATES: list[dict[str, object]] = [
    {"alternateBinding": {"destination": "secret"}},
    {"alternateBinding": '{"destination": "secret"}'},
    {"alternateExchange": "secret"},
    {"alternateBinding": {"destination": "secret"}, "alternateExchange": "secret"},
    {"alternateExchange": "secret", "x-dead-letter-exchange": "q-dlx"},
    {"alternateExchange": "secret", "x-dlq-auto": True},
    {"alternateExchange": "secret", "x-queue-type": "quorum"},
]


@pytest.mark.parametrize("arguments", ALTERNATES)
@pytest.mark.parametrize("kind", ["queue", "exchange"])
def test_an_alternate_of_a_queue_needs_read_on_the_queue_and_write_on_the_alternate(
    broker: SteppedBroker, peer: Peer, arguments: dict[str, object], kind: str
) -> None:
    if kind == "queue":
        peer.declare("secret")
    else:
        peer.declare_exchange("secret", "fanout")
    declare = {"queue": "q", "durable": True, "arguments": arguments}
    other = alice(broker, read=NOTHING)
    assert other.refused(1, QUEUE.Declare, **declare) == denied("read", "queue", "q")
    other = alice(broker, write="^q")
    assert other.refused(1, QUEUE.Declare, **declare) == denied("write", kind, "secret")
    assert "q" not in broker.vhost.queues
    alice(broker, write="^q|^secret$").call(1, QUEUE.Declare, **declare)


def test_an_alternate_that_may_not_be_written_to_does_not_show_whether_it_exists(
    broker: SteppedBroker,
) -> None:
    peer = alice(broker, write="^q$")
    declare = {"queue": "q", "arguments": {"alternateExchange": "nope"}}
    assert peer.refused(1, QUEUE.Declare, **declare) == denied("write", "queue", "nope")


@pytest.mark.parametrize("name", ["x-dlq-auto", "x-qpid-dlq-enabled"])
def test_a_dead_letter_queue_of_its_own_needs_all_rights_that_its_use_by_hand_would(
    broker: SteppedBroker, peer: Peer, name: str
) -> None:
    declare = {"queue": "q", "arguments": {name: True}}
    other = alice(broker, read="^q_")
    assert other.refused(1, QUEUE.Declare, **declare) == denied("read", "queue", "q")
    other = alice(broker, configure="^q$")
    assert other.refused(1, QUEUE.Declare, **declare) == denied("configure", "queue", "q_DLQ")
    other = alice(broker, write="^q$")
    assert other.refused(1, QUEUE.Declare, **declare) == denied("write", "queue", "q_DLQ")
    assert not broker.vhost.queues
    peer.declare("q_DLQ")  # by somebody who may
    other = alice(broker, configure="^q$")
    other.call(1, QUEUE.Declare, **declare)


def test_a_dead_letter_queue_of_a_queue_with_a_generated_name_needs_the_same(
    broker: SteppedBroker,
) -> None:
    peer = alice(broker, write=r"^amq\.gen-.{22}$")
    code, text = peer.refused(1, QUEUE.Declare, queue="", arguments={"x-dlq-auto": True})
    assert code == 403
    assert re.match(r"ACCESS_REFUSED - write access to queue 'amq\.gen-.{22}_DLQ' in", text)
    alice(broker, *[r"^amq\.gen-"] * 3).declare("", arguments={"x-dlq-auto": True})


def test_a_queue_that_exists_can_be_declared_without_rights_on_its_alternate(
    broker: SteppedBroker, peer: Peer
) -> None:
    peer.declare("secret")
    declare = {"queue": "q", "arguments": {"alternateExchange": "secret"}}
    peer.call(1, QUEUE.Declare, **declare)
    alice(broker, write=NOTHING, read=NOTHING).call(1, QUEUE.Declare, **declare)


@pytest.mark.parametrize(
    "arguments",
    [{AE: "ae"}, {"alternateExchange": "ae"}, {"alternateBinding": Table({"destination": "ae"})}],
)
def test_an_alternate_exchange_needs_read_on_the_exchange_and_write_on_it(
    broker: SteppedBroker, arguments: dict[str, object]
) -> None:
    fields = {"exchange": "x", "exchange_type": "direct", "arguments": arguments}
    peer = alice(broker, read=NOTHING)
    assert peer.refused(1, EXCHANGE.Declare, **fields) == denied("read", "exchange", "x")
    peer = alice(broker, write="^x$")
    assert peer.refused(1, EXCHANGE.Declare, **fields) == denied("write", "exchange", "ae")


def test_generated_names_must_be_allowed_too(broker: SteppedBroker) -> None:
    alice(broker, configure=r"^amq\.gen-").declare("")
    peer = alice(broker, configure="^mine")
    code, text = peer.refused(1, QUEUE.Declare, queue="")
    assert code == 403
    assert re.match(r"ACCESS_REFUSED - configure access to queue 'amq\.gen-.{22}' in vhost", text)


def test_a_passive_declare_needs_no_right(broker: SteppedBroker, peer: Peer) -> None:
    peer.declare("q")
    other = alice(broker, NOTHING, NOTHING, NOTHING)
    other.call(1, QUEUE.Declare, queue="q", passive=True)
    other.call(1, EXCHANGE.Declare, exchange="amq.direct", passive=True)


def test_rights_come_before_existence(broker: SteppedBroker) -> None:
    peer = alice(broker, configure=NOTHING)
    assert peer.refused(1, QUEUE.Delete, queue="nope") == denied("configure", "queue", "nope")


# --------------------------------------------------------------------------------- exchange.bound


@pytest.mark.parametrize(
    ("fields", "code", "text"),
    [
        ({"exchange": "amq.direct", "queue": "q", "routing_key": "k"}, 0, ""),
        ({"exchange": "amq.direct", "queue": "q"}, 0, ""),
        ({"exchange": "amq.direct", "routing_key": "k"}, 0, ""),
        ({"exchange": "amq.direct"}, 0, ""),
        ({"exchange": "", "queue": "q", "routing_key": "q"}, 0, ""),
        ({"exchange": "nope"}, 1, "Exchange 'nope' not found"),
        ({"exchange": "amq.direct", "queue": "nope"}, 2, "Queue 'nope' not found"),
        ({"exchange": "amq.topic"}, 3, "No bindings of 'amq.topic'"),
        ({"exchange": "amq.topic", "queue": "q"}, 4, "Queue 'q' is not bound"),
        ({"exchange": "amq.direct", "routing_key": "z"}, 5, "No queue bound with 'z'"),
        (
            {"exchange": "amq.direct", "queue": "q", "routing_key": "z"},
            6,
            "'q' not bound with 'z'",
        ),
    ],
)
def test_bound_says_whether_and_what_is_missing(
    peer: Peer, fields: dict[str, Any], code: int, text: str
) -> None:
    peer.declare("q")
    peer.bind("q", "amq.direct", "k")
    ok = peer.call(1, Exchange.Bound, **fields)
    assert (ok.reply_code, ok.reply_text) == (code, text)
