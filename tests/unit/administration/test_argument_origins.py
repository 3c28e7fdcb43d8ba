"""Who decides each argument of a queue, held against what is really in force."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hareline.administration.policy_keys import Decision, decisions
from hareline.queues.declare.table import BY_NAME
from tests.support.administered import Administered
from tests.support.examples import examples


def explained(broker: Administered, queue: str = "q") -> dict[str, Decision]:
    found = broker.queue(queue)
    applied = broker.administration.policies.of_queue("/", found)
    return {each.name: each for each in decisions(broker.vhost.live_arguments, found, applied)}


def put(broker: Administered, name: str, definition: dict[str, Any], **more: Any) -> None:
    broker.administration.policies.put("/", name, pattern="^q$", definition=definition, **more)
    broker.run_turns()


def origins(decision: Decision) -> tuple[str, str | None, object, list[tuple[str, object, str]]]:
    over: list[tuple[str, object, str]] = [
        (each.source.origin, each.source.value, each.because) for each in decision.overridden
    ]
    return decision.source.origin, decision.source.policy, decision.source.value, over


@pytest.fixture
def broker() -> Administered:
    return Administered()


def declare(broker: Administered, **arguments: Any) -> None:
    named = {name.replace("_", "-"): value for name, value in arguments.items()}
    broker.connect().declare("q", durable=True, arguments=named)


def test_a_plain_queue_has_its_type_by_default(broker: Administered) -> None:
    declare(broker)
    found = explained(broker)
    assert list(found) == ["x-queue-type"]
    assert origins(found["x-queue-type"]) == ("default", None, "classic", [])


def test_an_argument_of_the_queue_beats_a_policy(broker: Administered) -> None:
    declare(broker, x_overflow="drop-head", x_max_length=10)
    put(broker, "p", {"overflow": "reject-publish", "dead-letter-exchange": "dlx"})
    found = explained(broker)
    assert origins(found["x-overflow"]) == (
        "queue_argument",
        None,
        "drop-head",
        [("policy", "reject-publish", "what the queue itself says beats a policy")],
    )
    assert origins(found["x-dead-letter-exchange"]) == ("policy", "p", "dlx", [])


def test_each_value_names_the_policy_that_it_comes_from(broker: Administered) -> None:
    declare(broker)
    put(broker, "high", {"merge": True, "overflow": "reject-publish"}, priority=2)
    put(broker, "low", {"overflow": "drop-head", "max-consumers": 3}, priority=1)
    found = explained(broker)
    assert origins(found["x-max-consumers"]) == ("policy", "low", 3, [])
    assert origins(found["x-overflow"]) == (
        "policy",
        "high",
        "reject-publish",
        [("policy", "drop-head", "a policy of a higher priority beats it")],
    )


def test_of_limits_the_smallest_counts_whoever_sets_it(broker: Administered) -> None:
    declare(broker, x_max_length=10, x_message_ttl=5)
    put(broker, "p", {"max-length": 5, "message-ttl": 50, "expires": 9_000})
    put(broker, "o", {"max-length": 7, "message-ttl": 70, "expires": 8_000}, is_operator=True)
    found = explained(broker)
    smaller = "of two limits the smaller one counts"
    assert origins(found["x-max-length"]) == (
        "policy",
        "p",
        5,
        [("queue_argument", 10, smaller), ("operator_policy", 7, smaller)],
    )
    assert origins(found["x-message-ttl"])[:3] == ("queue_argument", None, 5)
    assert origins(found["x-expires"]) == (
        "operator_policy",
        "o",
        8_000,
        [("policy", 9_000, smaller)],
    )
    assert origins(found["x-overflow"]) == ("default", None, "drop-head", [])


def test_of_overflow_policies_that_of_the_operator_counts(broker: Administered) -> None:
    declare(broker, x_max_length=10)
    put(broker, "p", {"overflow": "drop-head"})
    put(broker, "o", {"overflow": "reject-publish"}, is_operator=True)
    assert origins(explained(broker)["x-overflow"]) == (
        "operator_policy",
        "o",
        "reject-publish",
        [("policy", "drop-head", "an operator policy beats a policy")],
    )


def test_two_that_say_the_same(broker: Administered) -> None:
    declare(broker, x_max_length=3)
    put(broker, "p", {"max-length": 3})
    assert origins(explained(broker)["x-max-length"]) == (
        "queue_argument",
        None,
        3,
        [("policy", 3, "it says the same")],
    )


def test_a_change_by_an_operator_is_told_from_the_declaration(broker: Administered) -> None:
    declare(broker, x_max_length=10, x_delivery_limit=4)
    live = broker.vhost.live_arguments
    live.change(broker.queue("q"), {"x-max-length": 20, "x-delivery-limit": None})
    found = explained(broker)
    assert origins(found["x-max-length"]) == (
        "operator_change",
        None,
        20,
        [("queue_argument", 10, "an operator has changed it")],
    )
    taken = found["x-delivery-limit"]
    assert (taken.source.origin, taken.source.value) == ("default", None)
    assert [each.because for each in taken.overridden] == [
        "it takes the argument away",
        "an operator took the argument away, or the queue cannot follow it now",
    ]


def test_qpids_names_are_the_same_arguments(broker: Administered) -> None:
    broker.connect().declare("q", arguments={"qpid.max_count": 4, "qpid.policy_type": "ring"})
    found = explained(broker)
    assert origins(found["x-max-length"]) == ("queue_argument", None, 4, [])
    put(broker, "p", {"max-length": 2})
    assert origins(explained(broker)["x-max-length"])[:3] == ("policy", "p", 2)


def test_a_key_that_needs_another_does_not_count_without_it(broker: Administered) -> None:
    declare(broker)
    put(broker, "p", {"dead-letter-routing-key": "k"})
    found = explained(broker)["x-dead-letter-routing-key"]
    assert (found.source.origin, found.source.value) == ("default", None)
    assert found.overridden[0].because == "it needs x-dead-letter-exchange, which is not set"


def test_a_queue_that_cannot_follow_says_what_it_goes_by(broker: Administered) -> None:
    peer = broker.connect()
    peer.declare("q")
    peer.subscribe("q", "c")
    put(broker, "p", {"single-active-consumer": True})
    found = explained(broker)["x-single-active-consumer"]
    assert found.source == ("default", None, None)
    assert "cannot follow" in found.overridden[0].because


def test_what_is_unknown_or_without_effect_is_told(broker: Administered) -> None:
    declare(broker, x_mine="yes", x_queue_mode="lazy", x_queue_type="classic")
    found = explained(broker)
    assert origins(found["x-mine"])[:3] == ("queue_argument", None, "yes")
    assert (found["x-mine"].has_effect, found["x-queue-mode"].has_effect) == (False, False)
    assert found["x-queue-type"].has_effect
    assert found["x-queue-type"].source.origin == "queue_argument"


def test_defaults_of_the_virtual_host_and_of_types(broker: Administered) -> None:
    broker.vhost.set_default_dead_letter_exchange("graves")
    declare(broker, x_queue_type="quorum", x_max_length=3, x_overflow="flow-control")
    found = explained(broker)
    assert origins(found["x-dead-letter-exchange"]) == ("vhost_default", None, "graves", [])
    assert origins(found["x-delivery-limit"]) == ("default", None, 20, [])
    assert origins(found["x-flow-resume-limit"]) == ("default", None, 80.0, [])


def test_what_an_operator_bounds_beside_its_limit_is_put_down_to_it(broker: Administered) -> None:
    declare(broker, x_overflow="none", x_min_message_ttl=9_000, x_expires_if_empty=True)
    limits = {"max-length": 5, "message-ttl": 1_000, "expires": 60_000}
    put(broker, "o", limits, is_operator=True)
    found = explained(broker)
    for name, value, own in (
        ("x-overflow", "drop-head", "none"),
        ("x-min-message-ttl", 1_000, 9_000),
        ("x-expires-if-empty", None, True),
    ):
        each = found[name]
        assert each.source == ("operator_policy", "o", value)
        (lost,) = each.overridden
        assert (lost.source.origin, lost.source.value) == ("queue_argument", own)
        assert lost.because == "no argument gets around the limit that this policy sets"


_LENGTHS = st.none() | st.integers(0, 3)
_OVERFLOWS = st.none() | st.sampled_from(["drop-head", "reject-publish"])
_POLICIES = st.fixed_dictionaries({"max-length": _LENGTHS, "overflow": _OVERFLOWS})
_UNBOUNDED = st.sampled_from(["none", "flow-to-disk"])
_WORDS = st.fixed_dictionaries({"max-length": _LENGTHS, "overflow": _OVERFLOWS | _UNBOUNDED})


def _given(words: dict[str, Any], *, prefix: str = "") -> dict[str, Any]:
    return {prefix + name: value for name, value in words.items() if value is not None}


@settings(max_examples=examples(0.6), deadline=None)
@given(own=_WORDS, changes=_WORDS, policy=_POLICIES, operator=_LENGTHS)
def test_the_values_are_those_in_force_and_each_has_an_origin_that_said_it(
    own: dict[str, Any], changes: dict[str, Any], policy: dict[str, Any], operator: int | None
) -> None:
    broker = Administered()
    broker.connect().declare("q", durable=True, arguments=_given(own, prefix="x-"))
    if _given(changes):
        broker.vhost.live_arguments.change(broker.queue("q"), _given(changes, prefix="x-"))
    if _given(policy):
        put(broker, "p", _given(policy))
    if operator is not None:
        put(broker, "o", {"max-length": operator}, is_operator=True)
    in_force = broker.vhost.queue_arguments["q"]
    found = explained(broker)
    shown = {
        name: each.source.value for name, each in found.items() if each.source.value is not None
    }
    assert shown.pop("x-queue-type") == "classic"
    assert shown.get("x-max-length") == in_force.max_length
    if in_force.max_length is not None or in_force.overflow is not None:
        assert shown.get("x-overflow") == (in_force.overflow or "drop-head")
    said = {
        "queue_argument": _given(own, prefix="x-"),
        "operator_change": _given(changes, prefix="x-"),
        "policy": _given(policy, prefix="x-"),
        "operator_policy": {} if operator is None else {"x-max-length": operator},
    }
    for name, each in found.items():
        if each.source.origin == "operator_policy" and name == "x-overflow":
            assert (operator is not None, each.source.value) == (True, "drop-head")
        elif each.source.origin not in ("default", "vhost_default"):
            assert said[each.source.origin][name] == each.source.value
        assert name in BY_NAME
