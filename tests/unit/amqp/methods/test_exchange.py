"""exchange.declare, delete, bind, unbind and bound."""

from __future__ import annotations

from typing import Any

import pytest

from hareline.auth.permissions import Permissions
from hareline.wire.methods import Exchange, Frame, commands
from hareline.wire.table import SignedInt, Table

from ..peer import Peer, SteppedBroker

EXCHANGE, QUEUE, BASIC = commands.Exchange, commands.Queue, commands.Basic


def denied(right: str, kind: str, name: str) -> tuple[int, str]:
    return (
        403,
        f"ACCESS_REFUSED - {right} access to {kind} '{name}' in vhost '/' refused for user 'alice'",
    )


# ------------------------------------------------------------------------------ exchange.declare


@pytest.mark.parametrize(
    "exchange_type",
    ["direct", "fanout", "topic", "headers", "x-consistent-hash", "x-random", "x-local-random"],
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
    ],
)
def test_an_exchange_declared_otherwise_is_406(
    peer: Peer, changes: dict[str, Any], difference: str
) -> None:
    declared: dict[str, Any] = {"exchange_type": "direct", "durable": True}
    peer.declare_exchange("x", **declared)
    name, _, rest = difference.partition(": ")
    assert peer.refused(1, EXCHANGE.Declare, exchange="x", **(declared | changes)) == (
        406,
        f"PRECONDITION_FAILED - inequivalent arg {name} for exchange 'x' in vhost '/': {rest}",
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
    [
        "amq.direct",
        "amq.fanout",
        "amq.topic",
        "amq.headers",
        "amq.match",
        "amq.rabbitmq.trace",
        "amq.nothing",
    ],
)
def test_no_exchange_of_the_system_can_be_deleted_be_it_there_or_not(peer: Peer, name: str) -> None:
    assert peer.refused(1, EXCHANGE.Delete, exchange=name) == (
        403,
        f"ACCESS_REFUSED - deletion of system exchange '{name}' in vhost '/' not allowed",
    )


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


# ------------------------------------------------------------------------------------ permissions

NOTHING = "^$"


def alice(
    broker: SteppedBroker, configure: str = ".*", write: str = ".*", read: str = ".*"
) -> Peer:
    broker.add_user("alice", "alice", permissions=Permissions(configure, write, read))
    return broker.connect("alice")


@pytest.mark.parametrize("method_class", [EXCHANGE.Bind, EXCHANGE.Unbind])
def test_binding_exchanges_needs_write_on_the_one_and_read_on_the_other(
    broker: SteppedBroker, method_class: type[Frame]
) -> None:
    ends = {"source": "amq.direct", "destination": "amq.fanout"}
    peer = alice(broker, write="direct")
    assert peer.refused(1, method_class, **ends) == denied("write", "exchange", "amq.fanout")
    peer = alice(broker, read="fanout")
    assert peer.refused(1, method_class, **ends) == denied("read", "exchange", "amq.direct")


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
