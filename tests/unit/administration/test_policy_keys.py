"""Every argument that can change while a queue lives has a key, and RabbitMQ's keys are known."""

from __future__ import annotations

import pytest

from hareline.administration.error import AdministrationError
from hareline.administration.policy_keys import KEYS, WITHOUT_EFFECT, check_definition, smaller
from hareline.broker.live_settings import LIVE_FIELDS


def test_each_argument_that_changes_live_has_one_key() -> None:
    fields = [key.argument.field for key in KEYS.values() if key.argument is not None]
    assert sorted(filter(None, fields)) == sorted(LIVE_FIELDS)


@pytest.mark.parametrize("key", ["shards-per-node", "routing-key", "max-priority"])
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
