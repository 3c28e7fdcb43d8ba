"""Policies found by name, type and priority, put in force, bounded by operators, shown."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from pamqp import commands

from hareline import events
from hareline.administration import AdministrationError, policies
from hareline.administration.policy_keys import Applied
from hareline.broker.delayed_queues import delay_queue_name
from hareline.broker.retaining import retained_queue_name
from hareline.wire.properties import Properties
from tests.support.administered import Administered
from tests.support.vhosts import bodies, declare
from tests.unit.amqp.peer import Peer, RunningClock

Restart = Callable[..., Administered]


def put(broker: Administered, name: str, pattern: str, **more: Any) -> bool:
    definition = more.pop("definition", {"max-length": 2})
    return broker.administration.policies.put(
        "/", name, pattern=pattern, definition=definition, **more
    )


def names(broker: Administered, queue: str) -> tuple[str | None, str | None, dict[str, Any]]:
    applied = broker.administration.policies.of_queue("/", broker.queue(queue))
    policy, operator = applied.policy, applied.operator_policy
    return policy and policy.name, operator and operator.name, dict(applied.definition)


@pytest.fixture
def peer(broker: Administered) -> Peer:
    return broker.connect()


def test_the_highest_priority_that_matches_counts(broker: Administered, peer: Peer) -> None:
    peer.declare("a.q")
    peer.declare("b.q")
    assert put(broker, "low", "^a", priority=1)
    assert put(broker, "high", "q$", priority=5, definition={"message-ttl": 9})
    assert not put(broker, "low", "^a", priority=1)
    assert names(broker, "a.q") == ("high", None, {"message-ttl": 9})
    put(broker, "low", "^a", priority=6)
    assert names(broker, "a.q") == ("low", None, {"max-length": 2})
    assert names(broker, "b.q")[0] == "high"
    broker.administration.policies.delete("/", "low", is_operator=False)
    assert names(broker, "a.q")[0] == "high"


def test_a_policy_concerns_what_it_applies_to(broker: Administered, peer: Peer) -> None:
    for name, queue_type in (("c", "classic"), ("q", "quorum"), ("s", "stream")):
        peer.declare(name, durable=True, arguments={"x-queue-type": queue_type})
    found = {}
    for number, apply_to in enumerate(
        ("exchanges", "all", "queues", "classic_queues", "quorum_queues", "streams")
    ):
        put(broker, "p", "", apply_to=apply_to, definition={"max-length-bytes": 10 + number})
        found[apply_to] = [name for name in "cqs" if names(broker, name)[0]]
    assert found == {
        "exchanges": [],
        "all": ["c", "q", "s"],
        "queues": ["c", "q", "s"],
        "classic_queues": ["c"],
        "quorum_queues": ["q"],
        "streams": ["s"],
    }


def test_a_policy_that_a_queue_type_cannot_follow_leaves_it_to_the_next(
    broker: Administered, peer: Peer
) -> None:
    peer.declare("s", durable=True, arguments={"x-queue-type": "stream"})
    put(broker, "ttl", "", priority=9, definition={"message-ttl": 1})
    put(broker, "age", "", priority=1, definition={"max-age": "1D"})
    assert names(broker, "s") == ("age", None, {"max-age": "1D"})


def test_limits_are_in_force_at_once_on_queues_that_are_there(
    broker: Administered, peer: Peer
) -> None:
    peer.declare("q")
    peer.fill("q", b"1", b"2", b"3", b"4")
    put(broker, "p", "^q$", definition={"max-length": 2})
    broker.run_turns()
    assert broker.queue("q").ready_count == 2
    broker.administration.policies.delete("/", "p", is_operator=False)
    peer.fill("q", b"5", b"6", b"7")
    assert broker.queue("q").ready_count == 5


def test_a_new_queue_follows_the_policies(broker: Administered, peer: Peer) -> None:
    put(broker, "p", "^q", definition={"max-length": 1, "overflow": "reject-publish"})
    peer.declare("q")
    peer.declare("q")  # its own arguments are what they were
    peer.fill("q", b"1", b"2")
    assert broker.queue("q").ready_count == 1


def test_thousands_of_queues_follow_in_shares(broker: Administered, peer: Peer) -> None:
    for number in range(400):
        peer.declare(f"q{number}")
    put(broker, "p", "", definition={"max-length": 1})
    broker.run_turns()
    arguments = broker.vhost.queue_arguments
    assert all(arguments[f"q{number}"].max_length == 1 for number in range(400))


def test_operators_policy_is_for_all_unless_told_otherwise(broker: Administered) -> None:
    put(broker, "o", "", is_operator=True, definition={"max-length": 3})
    policies = broker.administration.policies
    assert policies.lookup("/", "o", is_operator=True).apply_to == "all"
    with pytest.raises(AdministrationError, match="'exchanges' unrecognised"):
        put(broker, "o", "", is_operator=True, definition={}, apply_to="exchanges")


def test_operators_bound_what_clients_and_policies_ask(broker: Administered, peer: Peer) -> None:
    peer.declare("q", arguments={"x-max-length": 100})
    put(broker, "o", "", is_operator=True, definition={"max-length": 3, "message-ttl": 50})
    put(broker, "p", "", definition={"max-length": 5, "message-ttl": 20, "expires": 10_000})
    assert names(broker, "q") == (
        "p",
        "o",
        {"max-length": 3, "message-ttl": 20, "expires": 10_000},
    )
    in_force = broker.vhost.queue_arguments["q"]
    assert (in_force.max_length, in_force.message_ttl_ms) == (3, 20)


@pytest.mark.row("B6")
def test_an_operator_bounds_every_prefetch(broker: Administered, peer: Peer) -> None:
    peer.declare("q", arguments={"x-default-prefetch": 50})
    put(broker, "p", "", definition={"default-prefetch": 9, "prefetch-max": 30})
    peer.subscribe("q", "by default")
    put(broker, "o", "", is_operator=True, definition={"prefetch-max": 5})
    peer.subscribe("q", "bounded")
    peer.subscribe("q", "asks", arguments={"x-prefetch-count": 0})
    assert {each.tag: each.credit for each in broker.queue("q").consumers} == {
        "by default": 30,
        "bounded": 5,
        "asks": 5,
    }


def test_a_policy_that_merges_lets_the_next_one_set_the_rest(
    broker: Administered, peer: Peer
) -> None:
    peer.declare("eu.orders")
    put(broker, "orders", "orders", priority=3, definition={"merge": True, "max-length": 9})
    put(broker, "eu", "^eu", priority=2, definition={"max-length": 5, "message-ttl": 70})
    put(broker, "all", "", definition={"expires": 80_000})
    assert names(broker, "eu.orders") == ("orders", None, {"max-length": 9, "message-ttl": 70})
    put(broker, "eu", "^eu", priority=2, definition={"merge": True, "message-ttl": 60})
    put(broker, "o", "", priority=2, is_operator=True, definition={"merge": True, "expires": 7})
    put(broker, "o1", "", priority=1, is_operator=True, definition={"max-length": 4})
    assert names(broker, "eu.orders") == (
        "orders",
        "o",
        {"max-length": 4, "message-ttl": 60, "expires": 7},
    )
    broker.run_turns()
    in_force = broker.vhost.queue_arguments["eu.orders"]
    assert (in_force.max_length, in_force.message_ttl_ms, in_force.expires_ms) == (4, 60, 7)


def test_an_alternate_exchange_by_policy(broker: Administered, peer: Peer) -> None:
    peer.declare_exchange("e", "direct")
    peer.declare_exchange("own", "direct", arguments={"alternate-exchange": "amq.direct"})
    peer.declare("q")
    peer.bind("q", "amq.fanout")
    peer.publish(1, "nowhere", b"lost", exchange="e")
    put(broker, "p", "^(e|new|own)$", definition={"alternate-exchange": "amq.fanout"})
    peer.publish(1, "nowhere", b"kept", exchange="e")
    peer.declare_exchange("new", "direct")
    peer.publish(1, "nowhere", b"kept too", exchange="new")
    broker.run_turns()
    assert broker.queue("q").ready_count == 2
    exchanges = broker.vhost.exchanges
    assert exchanges["own"].alternate_exchange == "amq.direct"
    assert exchanges[""].alternate_exchange is None
    broker.administration.policies.delete("/", "p", is_operator=False)
    assert exchanges["e"].alternate_exchange is None


def test_a_queue_that_cannot_follow_is_reported_and_others_do(
    broker: Administered, peer: Peer
) -> None:
    peer.declare("consumed")
    peer.declare("idle")
    peer.subscribe("consumed", "c")
    put(broker, "p", "", definition={"single-active-consumer": True})
    broker.run_turns()
    (problem,) = broker.reported(events.POLICY_NOT_APPLIED)
    assert "consumed" in str(problem["what"])
    assert broker.vhost.queue_arguments["idle"].single_active_consumer


def test_a_queue_follows_as_soon_as_it_can(broker: Administered, peer: Peer) -> None:
    def is_single() -> bool:
        return bool(broker.vhost.queue_arguments["consumed"].single_active_consumer)

    peer.declare("consumed")
    peer.subscribe("consumed", "c")
    put(broker, "p", "", definition={"single-active-consumer": True})
    broker.run_turns()
    broker.advance(policies.RETRY_S)
    assert not is_single()
    peer.call(1, commands.Basic.Cancel, consumer_tag="c")
    broker.advance(policies.RETRY_S)
    assert is_single()
    assert len(broker.reported(events.POLICY_NOT_APPLIED)) == 1  # and not at each trial


@pytest.mark.row("C5")
def test_priorities_are_switched_on_for_queues_that_are_in_use(
    broker: Administered, peer: Peer
) -> None:
    peer.declare("tasks.a")
    peer.declare("tasks.own", arguments={"x-max-priority": 9})
    peer.declare("tasks.sorted", arguments={"x-sort-key": "n"})
    for priority in (1, 7, 5):
        peer.publish(1, "tasks.a", b"%d" % priority, properties=Properties(priority=priority))
    put(broker, "p", "^tasks", definition={"max-priority": 5})
    broker.run_turns()
    assert bodies(broker.queue("tasks.a")) == [b"7", b"5", b"1"]
    in_force = broker.vhost.queue_arguments
    assert in_force["tasks.own"].max_priority == 5  # of two the smaller one
    assert (in_force["tasks.sorted"].max_priority, in_force["tasks.sorted"].sort_key) == (None, "n")
    assert broker.reported(events.POLICY_NOT_APPLIED) == []
    broker.administration.policies.delete("/", "p", is_operator=False)
    broker.run_turns()
    assert bodies(broker.queue("tasks.a")) == [b"1", b"7", b"5"]


def test_no_policy_of_a_user_lifts_what_an_operator_sets(broker: Administered, peer: Peer) -> None:
    peer.declare("filled")
    peer.fill("filled", b"1", b"2", b"3")
    put(broker, "o", "", is_operator=True, definition={"max-length": 2, "max-priority": 5})
    put(broker, "p", "", definition={"sort-key": "k"})
    put(broker, "p2", "filled", priority=1, definition={"last-value-key": "k"})
    peer.declare("new")
    broker.run_turns()
    in_force = broker.vhost.queue_arguments
    assert (in_force["new"].max_length, in_force["new"].max_priority) == (2, 5)
    assert in_force["new"].sort_key is None
    assert broker.queue("filled").ready_count == 2


def test_a_pattern_that_takes_too_long_is_refused(broker: Administered) -> None:
    with pytest.raises(AdministrationError, match="takes more than 5 ms for some names"):
        put(broker, "slow", "^(a|aa|aaa)+b$")
    assert list(broker.administration.policies.all(is_operator=False)) == []


def test_a_slow_match_is_reported_and_leaves_the_policy_in_force(
    broker: Administered, peer: Peer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As if no trial had found it."""
    monkeypatch.setattr(policies, "check_pattern", lambda pattern: pattern)
    peer.declare("a" * 60 + "!")
    peer.declare("aab")
    put(broker, "slow", "^(a|aa)+b$", definition={"max-length": 1})
    broker.run_turns()
    (problem,) = broker.reported(events.POLICY_NOT_APPLIED)
    assert (problem["what"], problem["vhost"]) == ("policy 'slow'", "/")
    assert names(broker, "aab")[0] == "slow"
    assert broker.vhost.queue_arguments["aab"].max_length == 1
    record = broker.administration.policies.lookup("/", "slow", is_operator=False)
    assert broker.administration.policies.slow_names(record) == (1, ["a" * 60 + "!"])
    put(broker, "slow", "^a+$")
    record = broker.administration.policies.lookup("/", "slow", is_operator=False)
    assert broker.administration.policies.slow_names(record)[0] == 0


def test_no_overflow_policy_gets_around_an_operator(broker: Administered, peer: Peer) -> None:
    peer.declare("none", arguments={"x-overflow": "none", "x-max-length": 100})
    peer.declare("qpid", arguments={"qpid.max_count": 100})
    put(broker, "o", "", is_operator=True, definition={"max-length": 3})
    peer.declare("disk", arguments={"x-overflow": "flow-to-disk", "x-max-length": 100})
    for name in ("none", "qpid", "disk"):
        peer.fill(name, *(b"%d" % number for number in range(9)))
        broker.run_turns()
        assert broker.queue(name).ready_count == 3, name
    broker.vhost.live_arguments.change(broker.queue("none"), {"x-overflow": "flow-to-disk"})
    peer.fill("none", b"more", b"and more")
    assert broker.queue("none").ready_count == 3


@pytest.mark.parametrize("place", ["argument", "policy", "operator policy"])
def test_a_negative_delivery_limit_is_none(broker: Administered, peer: Peer, place: str) -> None:
    """Quorum queues have one of 20 where nothing else is said, as in RabbitMQ 4."""
    arguments: dict[str, object] = {"x-queue-type": "quorum"}
    if place == "argument":
        arguments["x-delivery-limit"] = -1
    else:
        definition = {"delivery-limit": -1}
        put(broker, "p", "q", is_operator=place == "operator policy", definition=definition)
    peer.declare("q", durable=True, arguments=arguments)
    peer.fill("q", b"poison")
    for _ in range(25):
        received = peer.get("q")
        assert received is not None
        peer.nack(received.method.delivery_tag)
    assert peer.drain("q") == [b"poison"]


def test_a_negative_delivery_limit_loosens_no_other(broker: Administered, peer: Peer) -> None:
    peer.declare("q", arguments={"x-delivery-limit": -1})
    put(broker, "p", "q", definition={"delivery-limit": -1})
    put(broker, "o", "q", is_operator=True, definition={"delivery-limit": 3})
    broker.run_turns()
    assert broker.vhost.queue_arguments["q"].delivery_limit == 3


def test_policies_leave_the_brokers_own_queues_alone(broker: Administered, peer: Peer) -> None:
    put(broker, "before", "", definition={"expires": 1_000, "max-length": 0}, priority=1)
    arguments = {"x-delayed-type": "fanout"}
    peer.declare_exchange("late", "x-delayed-message", arguments=arguments)
    delayed = broker.queue(delay_queue_name("late"))
    put(broker, "after", "delayed", definition={"message-ttl": 1, "max-length": 0}, priority=2)
    put(broker, "operator", "", is_operator=True, definition={"expires": 1})
    broker.run_turns()
    assert broker.administration.policies.of_queue("/", delayed) == Applied()
    assert (delayed.lease, delayed.overflow, delayed.expiry) == (None, None, None)
    broker.advance(100)
    assert broker.queue(delay_queue_name("late")) is delayed
    peer.declare_exchange("kept", "fanout", arguments={"x-retain": "count:5"})
    broker.run_turns()
    retained = broker.queue(retained_queue_name("kept"))
    assert broker.administration.policies.of_queue("/", retained) == Applied()
    assert retained.overflow is not None
    assert (retained.lease, retained.overflow.max_length, retained.expiry) == (None, 5, None)


def test_exchanges_and_queues_follow_in_shares() -> None:
    clock = RunningClock()
    broker = Administered(clock=clock)
    peer = broker.connect()
    for number in range(30):
        peer.declare_exchange(f"e{number}", "direct")
        peer.declare(f"q{number}")
    definition = {"alternate-exchange": "amq.fanout", "max-length": 1}
    put(broker, "p", "^(e|q)", definition=definition)
    exchanges = [broker.vhost.exchanges[f"e{number}"] for number in range(30)]
    assert exchanges[-1].alternate_exchange is None
    put(broker, "p", "^(e|q)", definition={**definition, "max-length": 2})  # before it is done
    broker.vhost.delete_exchange("e29", if_unused=False)
    broker.vhost.delete_queue("q29", None)
    broker.run_turns()
    assert all(each.alternate_exchange == "amq.fanout" for each in exchanges[:29])
    in_force = broker.vhost.queue_arguments
    assert [in_force[f"q{number}"].max_length for number in range(29)] == [2] * 29
    broker.administration.policies.delete("/", "p", is_operator=False)
    broker.run_turns()
    assert in_force["q0"].max_length is None
    assert exchanges[0].alternate_exchange is None


def test_a_deleted_virtual_host_ends_what_was_under_way() -> None:
    broker = Administered(clock=RunningClock())
    broker.administration.vhosts.put("gone")
    vhost = broker.context.vhosts["gone"]
    for number in range(50):
        declare(vhost, f"q{number}")
    broker.administration.policies.put("gone", "p", pattern="", definition={"max-length": 1})
    broker.administration.vhosts.delete("gone")
    broker.run_turns()
    assert broker.reported(events.POLICY_NOT_APPLIED) == []


@pytest.mark.parametrize(
    ("more", "text"),
    [
        ({"definition": {}}, "no policy provided"),
        ({"definition": []}, "parse error"),
        ({"definition": {"sort-key": "k", "max-priority": 3}}, "a queue has one ordering"),
        ({"definition": {"max-len": 1}}, '[{<<"max-len">>,1}] are not recognised'),
        ({"definition": {"max-length": "1"}}, '<<"1">> is not a valid maximum length'),
        ({"definition": {"max-length": True}}, "true is not a valid maximum length"),
        ({"definition": {"expires": 0}}, "0 is not a valid queue expiry"),
        ({"definition": {"max-age": "1h"}, "is_operator": True}, "not recognised"),
        ({"priority": "1"}, "priority should be a number"),
        ({"priority": 1 << 40}, "32 bits"),
        (
            {"apply_to": "everything"},
            "apply-to 'everything' unrecognised; should be one of 'all', ",
        ),
        ({"pattern": "("}, "pattern should be regular expression"),
        ({"pattern": 1}, "pattern should be a binary"),
        ({"pattern": "\ud800"}, "is not Unicode"),
        ({"definition": {"dead-letter-exchange": "\ud800"}}, "is not a valid dead letter exchange"),
    ],
)
def test_what_is_wrong_is_said(broker: Administered, more: dict[str, Any], text: str) -> None:
    pattern = more.pop("pattern", "")
    with pytest.raises(AdministrationError) as caught:
        put(broker, "p", pattern, **more)
    assert text in caught.value.reason
    assert list(broker.administration.policies.all(is_operator=False)) == []


def test_a_restart_has_the_policies_in_force(restarted: Restart) -> None:
    broker = restarted()
    put(broker, "p", "^q", definition={"max-length": 4})
    put(broker, "o", "^q", is_operator=True, definition={"max-length": 3})
    broker = restarted()
    broker.connect().declare("q", durable=True)
    assert names(broker, "q") == ("p", "o", {"max-length": 3})
    broker.administration.policies.delete("/", "o", is_operator=True)
    broker = restarted()
    broker.connect().declare("q2")
    assert names(broker, "q2") == ("p", None, {"max-length": 4})
