"""Keys of policies: which there are, their values, and what they make of a queue's arguments."""

from __future__ import annotations

from typing import Any

import pytest

from hareline.administration.checks import AdministrationError
from hareline.administration.policy_keys import (
    KEYS,
    WITHOUT_EFFECT,
    check_definition,
    overlaid_by_policy,
    smaller,
)
from hareline.queues.declare.arguments import parse_queue_arguments
from hareline.queues.declare.table import ROWS


def test_each_argument_that_changes_live_has_one_key() -> None:
    named = [key.argument.name for key in KEYS.values() if key.argument is not None]
    assert sorted(named) == sorted(row.name for row in ROWS if row.live)


@pytest.mark.parametrize("key", ["shards-per-node", "routing-key", "queue-type"])
def test_keys_of_plugins_that_are_not_here_are_refused(key: str) -> None:
    # differs: policy-sharding
    with pytest.raises(AdministrationError, match="are not recognised policy settings"):
        check_definition({key: 1}, is_operator=False)


@pytest.mark.parametrize(
    ("key", "value"),
    [("stream-filter-size-bytes", 15), ("queue-version", 3), ("target-group-size", 0)],
)
def test_values_that_rabbitmq_refuses_are_refused(key: str, value: object) -> None:
    with pytest.raises(AdministrationError, match=f"{value} is not a valid"):
        check_definition({key: value}, is_operator=False)


def test_keys_for_clusters_are_taken_and_do_nothing() -> None:
    # differs: policy-old-keys
    assert {"ha-mode", "queue-mode", "federation-upstream-set"} <= WITHOUT_EFFECT
    assert "alternate-exchange" not in WITHOUT_EFFECT
    assert check_definition({"ha-mode": "all"}, is_operator=False) == {"ha-mode": "all"}


@pytest.mark.parametrize("value", [1 << 64, -(1 << 64), 1.5, None, [], {}, "x", True])
@pytest.mark.parametrize("key", ["max-length", "min-message-ttl", "max-age", "delivery-limit"])
def test_no_value_does_more_than_to_be_refused(key: str, value: object) -> None:
    with pytest.raises(AdministrationError, match="is not a valid"):
        check_definition({key: value}, is_operator=False)


@pytest.mark.parametrize(
    ("one", "other", "counts"), [(1, 2, 1), (2, 1, 1), (-1, 5, 5), (5, -1, 5), (None, 3, 3)]
)
def test_of_two_limits_the_smaller_counts(one: object, other: object, counts: object) -> None:
    assert smaller(one, other) == counts


# ---------------------------------------------------------------- what they make of the arguments


@pytest.mark.parametrize(
    ("own", "definition", "in_force"),
    [
        ({"x-max-length": 5}, {"max-length": 3}, {"x-max-length": 3}),
        ({"x-max-length": 2}, {"max-length": 3}, {"x-max-length": 2}),
        ({"qpid.max_count": "9"}, {"max-length": 3}, {"x-max-length": 3}),
        ({"qpid.max_count": 2}, {"max-length": 3}, {"qpid.max_count": 2}),
        ({"x-delivery-limit": -1}, {"delivery-limit": 3}, {"x-delivery-limit": 3}),
        ({"x-overflow": "drop-head"}, {"overflow": "reject-publish"}, {"x-overflow": "drop-head"}),
        ({}, {"overflow": "reject-publish"}, {"x-overflow": "reject-publish"}),
        (  # differs: policy-precedence
            {"x-queue-type": "quorum", "x-overflow": "drop-head"},
            {"overflow": "reject-publish"},
            {"x-queue-type": "quorum", "x-overflow": "drop-head"},
        ),
        (
            {"x-queue-type": "stream", "x-max-age": "1h", "x-max-length-bytes": 5},
            {"max-age": "2h", "max-length-bytes": 6},
            {"x-queue-type": "stream", "x-max-age": "1h", "x-max-length-bytes": 5},
        ),
        ({}, {"dead-letter-routing-key": "k"}, {}),
        (
            {"x-dead-letter-exchange": "e"},
            {"dead-letter-routing-key": "k"},
            {"x-dead-letter-exchange": "e", "x-dead-letter-routing-key": "k"},
        ),
        ({}, {"ha-mode": "all", "alternate-exchange": "a"}, {}),
        (
            {"x-qpid-capacity": 1_000, "x-qpid-flow-resume-capacity": 900},
            {"max-length-bytes": 100},
            {"x-max-length-bytes": 100, "x-qpid-flow-resume-capacity": 100},
        ),
    ],
)
def test_own_arguments_beat_policies_but_for_limits(
    own: dict[str, object], definition: dict[str, Any], in_force: dict[str, object]
) -> None:
    assert overlaid_by_policy(own, definition) == in_force
    parse_queue_arguments(in_force, queue="q", vhost="/")


@pytest.mark.parametrize(
    ("own", "definition", "overflow"),
    [
        ({"x-overflow": "none"}, {"max-length": 3}, "drop-head"),
        ({"x-overflow": "flow-to-disk"}, {"max-length-bytes": 3}, "drop-head"),
        ({"x-max-length": 2, "x-overflow": "none"}, {"max-length": 3}, "drop-head"),
        ({"qpid.max_count": 2}, {"max-length": 3}, "drop-head"),
        ({"qpid.max_count": 2, "qpid.policy_type": "none"}, {"max-length": 3}, "drop-head"),
        ({"qpid.max_count": 2, "overflowPolicy": "FLOW_TO_DISK"}, {"max-length": 3}, "drop-head"),
        ({"qpid.max_count": 9, "qpid.policy_type": "ring"}, {"max-length": 3}, "drop-head"),
        ({"x-overflow": "reject-publish"}, {"max-length": 3}, "reject-publish"),
        ({"x-overflow": "flow-control"}, {"max-length": 3}, "flow-control"),
        ({"x-overflow": "discard"}, {"max-length": 3}, "discard"),
        ({}, {"max-length": 3}, None),
        ({"x-overflow": "none"}, {"message-ttl": 3}, "none"),
        (
            {"x-overflow": "none"},
            {"max-length": 3, "overflow": "reject-publish"},
            "reject-publish",
        ),
    ],
)
def test_no_overflow_policy_gets_around_an_operators_limit(
    own: dict[str, object], definition: dict[str, Any], overflow: str | None
) -> None:
    result = overlaid_by_policy(own, definition, definition)
    arguments = parse_queue_arguments(result, queue="q", vhost="/")
    assert arguments.overflow == overflow
    if "max-length" in definition:
        assert arguments.max_length is not None
        assert arguments.max_length <= definition["max-length"]


def test_a_policy_of_users_leaves_the_overflow_policy_alone() -> None:
    own = {"x-overflow": "flow-to-disk", "x-max-length": 5}
    assert overlaid_by_policy(own, {"max-length": 3}) == {
        "x-overflow": "flow-to-disk",
        "x-max-length": 3,
    }


def test_times_of_an_operator_are_not_stretched() -> None:
    own = {"x-min-message-ttl": 90_000, "x-expires-if-empty": True, "x-expires": 10}
    definition = {"message-ttl": 50, "expires": 20}
    assert overlaid_by_policy(own, definition, definition) == {
        "x-message-ttl": 50,
        "x-min-message-ttl": 50,
        "x-expires": 10,
    }
    assert overlaid_by_policy(own, definition) == {**own, "x-message-ttl": 50}


def test_a_stream_gets_no_overflow_policy() -> None:
    own = {"x-queue-type": "stream", "x-max-length-bytes": 500}
    result = overlaid_by_policy(own, {"max-length-bytes": 100}, ("max-length-bytes",))
    assert result == {"x-queue-type": "stream", "x-max-length-bytes": 100}
    parse_queue_arguments(result, queue="q", vhost="/")
