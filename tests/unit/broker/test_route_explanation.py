"""Explained routes are those that publishing takes, for every type of exchange."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hareline.broker.route_explanation import LISTED_MAX, SHARE, RouteExplanation, Step, explain
from hareline.broker.vhost import VirtualHost
from hareline.message import Message
from tests.support.messages import make_message
from tests.support.turns import ManualTurn
from tests.support.vhosts import MESSAGE, bind, declare, declare_exchange, make_vhost


def result_of(walk: Generator[None, None, RouteExplanation]) -> RouteExplanation:
    while True:
        try:
            next(walk)
        except StopIteration as end:
            explanation = end.value
            assert isinstance(explanation, RouteExplanation)
            return explanation


def explained(
    vhost: VirtualHost, exchange: str, *keys: str, message: Message = MESSAGE
) -> RouteExplanation:
    return result_of(explain(vhost, vhost.exchange(exchange), keys or ("",), message))


def published(
    vhost: VirtualHost, exchange: str, *keys: str, message: Message = MESSAGE
) -> list[str]:
    queues, _, _ = vhost.routing.route(vhost.exchange(exchange), list(keys or ("",)), message)
    return [queue.name for queue in queues]


def outcomes(step: Step) -> dict[str, str]:
    return {verdict.binding.destination: verdict.outcome for verdict in step.verdicts}


def test_the_default_exchange_takes_the_queue_of_that_name(vhost: VirtualHost) -> None:
    declare(vhost, "a")
    found = explained(vhost, "", "a", "missing")
    assert found.queues == ["a"] == published(vhost, "", "a", "missing")
    assert outcomes(found.steps[0]) == {"a": "taken", "missing": "no_match"}
    assert found.steps[0].verdicts[1].reason == "there is no queue named 'missing'"


@pytest.mark.parametrize(
    ("exchange", "binding_key", "key", "outcome", "reason"),
    [
        ("amq.direct", "a", "a", "taken", "its key 'a' equals the routing key"),
        ("amq.direct", "b", "a", "no_match", "its key 'b' is not 'a'"),
        ("amq.topic", "a.*", "a.b", "taken", "its pattern 'a.*' matches 'a.b'"),
        ("amq.topic", "a.*", "a", "no_match", "its pattern 'a.*' does not match 'a'"),
        ("amq.fanout", "", "x", "taken", "a fanout exchange sends to every binding"),
    ],
)
def test_what_a_binding_does_and_why(
    vhost: VirtualHost, exchange: str, binding_key: str, key: str, outcome: str, reason: str
) -> None:
    bind(vhost, exchange, declare(vhost), binding_key)
    found = explained(vhost, exchange, key)
    (verdict,) = found.steps[0].verdicts
    assert (verdict.outcome, verdict.reason) == (outcome, reason)
    assert found.queues == published(vhost, exchange, key)


def test_headers_that_differ_are_named(vhost: VirtualHost) -> None:
    queue = declare(vhost)
    bind(vhost, "amq.headers", queue, "", {"colour": "red", "size": 1, "x-match": "all"})
    message = make_message(headers={"colour": "blue"})
    (verdict,) = explained(vhost, "amq.headers", message=message).steps[0].verdicts
    assert verdict.outcome == "no_match"
    assert verdict.reason == (
        "x-match all: header 'colour' has another value or type, 'size' is not there"
    )
    message = make_message(headers={"colour": "red", "size": 1})
    assert explained(vhost, "amq.headers", message=message).queues == ["q"]


def test_a_selector_refuses_what_the_key_matches(vhost: VirtualHost) -> None:
    bind(vhost, "amq.topic", declare(vhost), "#", {"x-filter-jms-selector": "colour = 'red'"})
    red, blue = (make_message(headers={"colour": colour}) for colour in ("red", "blue"))
    assert explained(vhost, "amq.topic", "k", message=red).queues == ["q"]
    found = explained(vhost, "amq.topic", "k", message=blue)
    assert found.queues == []
    (verdict,) = found.steps[0].verdicts
    assert verdict.outcome == "filtered"
    assert "but not its selector colour = 'red'" in verdict.reason


def test_the_alternate_gets_what_no_binding_takes(vhost: VirtualHost) -> None:
    declare_exchange(vhost, "unrouted", "fanout")
    bind(vhost, "unrouted", declare(vhost, "rest"))
    declare_exchange(vhost, "orders", "direct", arguments={"alternate-exchange": "unrouted"})
    bind(vhost, "orders", declare(vhost, "known"), "known")
    found = explained(vhost, "orders", "unknown")
    assert found.queues == ["rest"] == published(vhost, "orders", "unknown")
    assert found.steps[0].alternate == "unrouted"
    assert [(step.exchange, step.by_alternate) for step in found.steps] == [
        ("orders", False),
        ("unrouted", True),
    ]
    assert explained(vhost, "orders", "known").steps[0].alternate is None


def test_a_missing_alternate_is_named(vhost: VirtualHost) -> None:
    declare_exchange(vhost, "orders", "direct", arguments={"alternate-exchange": "gone"})
    found = explained(vhost, "orders", "k")
    assert found.queues == []
    assert found.steps[0].alternate == "gone"
    assert "does not exist" in found.steps[0].alternate_reason


def test_exchanges_in_a_circle_are_visited_once(vhost: VirtualHost) -> None:
    one = declare_exchange(vhost, "one", "fanout")
    two = declare_exchange(vhost, "two", "fanout")
    bind(vhost, "one", two)
    bind(vhost, "two", one)
    bind(vhost, "two", declare(vhost))
    found = explained(vhost, "one")
    assert found.queues == ["q"]
    assert [step.exchange for step in found.steps] == ["one", "two"]


def test_a_hash_takes_the_share_that_publishing_takes(vhost: VirtualHost) -> None:
    declare_exchange(vhost, "shares", "x-consistent-hash")
    for number in range(4):
        bind(vhost, "shares", declare(vhost, f"q{number}"), "1")
    for key in ("a", "b", "c", "d", "e"):
        found = explained(vhost, "shares", key)
        assert found.queues == published(vhost, "shares", key)
        assert sorted(outcomes(found.steps[0]).values()) == ["not_chosen"] * 3 + ["taken"]


@pytest.mark.parametrize("type_name", ["x-random", "x-local-random"])
def test_chance_makes_queues_possible(vhost: VirtualHost, type_name: str) -> None:
    declare_exchange(vhost, "dice", type_name)
    bind(vhost, "dice", declare(vhost, "a"), "")
    assert explained(vhost, "dice").queues == ["a"]
    bind(vhost, "dice", declare(vhost, "b"), "")
    found = explained(vhost, "dice")
    assert found.queues == []
    assert found.possible == ["a", "b"]
    assert {published(vhost, "dice")[0] for _ in range(64)} == {"a", "b"}


def test_a_queue_that_is_certain_is_not_called_possible(vhost: VirtualHost) -> None:
    dice = declare_exchange(vhost, "dice", "x-random")
    a, b = declare(vhost, "a"), declare(vhost, "b")
    bind(vhost, "dice", a)
    bind(vhost, "dice", b)
    bind(vhost, "amq.fanout", dice)
    bind(vhost, "amq.fanout", a)
    found = explained(vhost, "amq.fanout")
    assert (found.queues, found.possible) == (["a"], ["b"])


def test_a_delayed_message_goes_the_way_of_the_inner_type(vhost: VirtualHost) -> None:
    declare_exchange(vhost, "later", "x-delayed-message", arguments={"x-delayed-type": "direct"})
    bind(vhost, "later", declare(vhost), "k")
    message = make_message(headers={"x-delay": 5_000})
    found = explained(vhost, "later", "k", message=message)
    assert (found.delay_ms, found.queues) == (5_000, ["q"])
    assert explained(vhost, "later", "k").delay_ms == 0


def test_a_later_condition_of_a_jms_topic_replaces_the_earlier(vhost: VirtualHost) -> None:
    declare_exchange(vhost, "jms", "x-jms-topic", arguments={"rjms_erlang_selector": "{}"})
    queue = declare(vhost)
    condition = '{{\'=\', {{ident, <<"colour">>}}, <<"{}">>}}.'
    for colour in ("red", "blue"):
        bind(vhost, "jms", queue, "k", {"rjms_erlang_selector": condition.format(colour)})
    red = make_message(headers={"colour": "red"})
    found = explained(vhost, "jms", "k", message=red)
    assert found.queues == published(vhost, "jms", "k", message=red)
    assert [verdict.outcome for verdict in found.steps[0].verdicts] == ["replaced", "no_match"]


def test_many_bindings_are_counted_and_the_takers_listed(vhost: VirtualHost) -> None:
    queue = declare(vhost)
    for number in range(LISTED_MAX + 50):
        bind(vhost, "amq.direct", queue, f"k{number}")
    walk = explain(vhost, vhost.exchange("amq.direct"), [f"k{LISTED_MAX + 49}"], MESSAGE)
    shares = 0
    found = None
    while found is None:
        try:
            next(walk)
            shares += 1
        except StopIteration as end:
            found = end.value
    step = found.steps[0]
    assert shares == (LISTED_MAX + 50) // SHARE
    assert step.counts == {"no_match": LISTED_MAX + 49, "taken": 1}
    assert len(step.verdicts) == LISTED_MAX
    assert [verdict.outcome for verdict in step.verdicts].count("taken") == 1


def shares_of(walk: Generator[None, None, RouteExplanation]) -> int:
    return len(list(walk))


@pytest.mark.parametrize("exchange", ["amq.topic", "amq.direct", ""])
def test_shares_count_the_keys_that_are_tried_on_each_binding(
    vhost: VirtualHost, exchange: str
) -> None:
    keys = [f"k{number}" for number in range(10 * SHARE)]
    bindings = 1
    if exchange:
        bindings = 3
        for number in range(bindings):
            bind(vhost, exchange, declare(vhost), f"none{number}")
    walk = explain(vhost, vhost.exchange(exchange), keys, MESSAGE)
    assert shares_of(walk) == bindings * 10


def test_the_first_key_that_matches_is_enough(vhost: VirtualHost) -> None:
    bind(vhost, "amq.topic", declare(vhost), "#")
    keys = [f"k{number}" for number in range(10 * SHARE)]
    assert shares_of(explain(vhost, vhost.exchange("amq.topic"), keys, MESSAGE)) == 0


TYPES = ("direct", "topic", "fanout", "headers")
KEYS = st.sampled_from(["", "a", "b", "a.b", "a.*", "#", "*.b"])
EXCHANGES = ("x0", "x1", "x2", "x3")
HEADERS = st.dictionaries(st.sampled_from(["h", "i"]), st.sampled_from([1, "1", True]), max_size=2)


@given(
    types=st.lists(st.sampled_from(TYPES), min_size=4, max_size=4),
    alternates=st.lists(st.sampled_from([None, *EXCHANGES, "gone"]), min_size=4, max_size=4),
    bindings=st.lists(
        st.tuples(
            st.sampled_from(EXCHANGES),
            st.sampled_from([*EXCHANGES, "q0", "q1", "q2"]),
            KEYS,
            HEADERS,
            st.sampled_from([None, "h = 1", "i IS NULL"]),
        ),
        max_size=14,
    ),
    keys=st.lists(KEYS, min_size=1, max_size=3),
    headers=HEADERS,
)
def test_whatever_is_bound_the_explained_queues_are_those_of_publishing(
    types: list[str],
    alternates: list[str | None],
    bindings: list[tuple[str, str, str, dict[str, Any], str | None]],
    keys: list[str],
    headers: dict[str, Any],
) -> None:
    vhost = make_vhost(ManualTurn())
    for name, type_name, alternate in zip(EXCHANGES, types, alternates, strict=True):
        arguments = {} if alternate is None else {"alternate-exchange": alternate}
        declare_exchange(vhost, name, type_name, arguments=arguments)
    for name in ("q0", "q1", "q2"):
        declare(vhost, name)
    for source, end, key, conditions, selector in bindings:
        destination = vhost.exchanges.get(end) or vhost.queues[end]
        arguments = dict(conditions)
        if selector is not None:
            arguments["x-filter-jms-selector"] = selector
        bind(vhost, source, destination, key, arguments)
    message = make_message(headers=headers)
    for exchange in EXCHANGES:
        found = explained(vhost, exchange, *keys, message=message)
        assert sorted(found.queues) == sorted(published(vhost, exchange, *keys, message=message))
        assert found.possible == []
