"""queue.declare, delete, purge, bind and unbind."""

from __future__ import annotations

import re
from typing import Any

import pytest

from hareline.auth.permissions import Permissions
from hareline.wire.methods import Frame, commands
from hareline.wire.table import SignedInt

from ..peer import Peer, SteppedBroker

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


# ---------------------------------------------------------------------------------- auto-delete


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


def test_unbinding_a_locked_queue_is_405_only_if_it_was_bound(
    broker: SteppedBroker, peer: Peer
) -> None:
    peer.declare("q", exclusive=True)
    peer.bind("q", "amq.direct", "bound")
    other = broker.connect()
    other.call(1, QUEUE.Unbind, queue="q", exchange="amq.direct", routing_key="never")
    other.call(1, QUEUE.Unbind, queue="q", exchange="nox", routing_key="bound")
    refusal = other.refused(1, QUEUE.Unbind, queue="q", exchange="amq.direct", routing_key="bound")
    assert refusal == locked("q")
    peer.publish(1, "bound", exchange="amq.direct", body=b"still bound")
    assert peer.bodies() == []
    assert peer.drain("q") == [b"still bound"]


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
