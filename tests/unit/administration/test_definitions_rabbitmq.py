"""Definitions for RabbitMQ: without what its import refuses, and with a note of each such thing."""

from __future__ import annotations

from typing import Any

import pytest

from hareline.administration.definitions_export import Export
from hareline.administration.definitions_rabbitmq import ForRabbitMQ
from hareline.auth.passwords import hash_password
from tests.support.administered import Administered
from tests.unit.administration.test_definitions_import import TOPOLOGY, run


def exported(broker: Administered, vhost: str | None = None) -> tuple[dict[str, Any], list[str]]:
    found = None if vhost is None else broker.context.vhosts[vhost]
    export, target = Export(broker.context, broker.administration, found), ForRabbitMQ()
    lists = {name: list(target.items(name, items)) for name, items in export.lists()}
    return {**target.head(export.head()), **lists}, target.notes()


def test_what_rabbitmq_has_too_is_left_as_it_is(broker: Administered) -> None:
    run(broker, TOPOLOGY)
    export = Export(broker.context, broker.administration)
    plain = {**export.head(), **{name: list(items) for name, items in export.lists()}}
    assert exported(broker) == (plain, [])


def test_a_hash_that_rabbitmq_cannot_check_is_left_out_and_the_user_stays(
    broker: Administered,
) -> None:
    users = broker.administration.users
    users.put("slow", password_hash=hash_password("p", "argon2id"), tags=["b", "a"])
    users.put("quick", password_hash=hash_password("p", "sha512"), hashing="sha512")
    users.put("quick", password_hash=hash_password("p", "sha256"), tags=["management"])
    users.set_limit("slow", "max-channels", 3)
    users.set_limit("slow", "max-publish-rate", 5)
    found, notes = exported(broker)
    by_name = {each["name"]: each for each in found["users"]}
    assert by_name["quick"]["password_hash"]
    slow = by_name["slow"]
    assert (slow["password_hash"], slow["limits"]) == ("", {"max-channels": 3})
    assert slow["hashing_algorithm"] == "rabbit_password_hashing_sha256"
    assert notes == [
        "left out the limit max-publish-rate of: 'slow'",
        "left out the password hash, which RabbitMQ cannot check, of: 'slow'",
    ]


def test_limits_and_keys_of_policies_that_only_this_broker_has(broker: Administered) -> None:
    vhosts, policies = broker.administration.vhosts, broker.administration.policies
    vhosts.set_limits("/", {"max-queues": 3, "max-exchanges": 40})
    both = {"max-length": 3, "max-message-ttl": 5}
    policies.put("/", "both", pattern="", definition=both, is_operator=False)
    policies.put("/", "ours", pattern="", definition={"max-message-ttl": 5}, is_operator=False)
    policies.put("/", "cap", pattern="", definition={"max-length": 1}, is_operator=True)
    found, notes = exported(broker)
    assert [(each["name"], each["definition"]) for each in found["policies"]] == [
        ("both", {"max-length": 3})
    ]
    values = {each["name"]: each["value"] for each in found["parameters"]}
    assert values["limits"] == {"max-queues": 3}
    assert values["cap"]["definition"] == {"max-length": 1}
    assert set(values["cap"]) == {"pattern", "apply-to", "definition", "priority"}
    assert notes == [
        "left out the limit max-exchanges of: '/'",
        "left out the key max-message-ttl of policies: 'both', 'ours'",
    ]
    vhosts.set_limits("/", {"max-exchanges": 40})
    assert exported(broker)[0]["parameters"][0]["name"] == "cap"
    assert exported(broker, "/")[0]["limits"] == {}


@pytest.mark.parametrize(
    ("arguments", "left"),
    [
        ({"x-overflow": "flow-to-disk", "x-max-length": 1}, {"x-max-length": 1}),
        ({"x-overflow": "reject-publish"}, {"x-overflow": "reject-publish"}),
        ({"x-delivery-limit": 2, "x-sort-key": "k"}, {"x-sort-key": "k"}),
        (
            {"x-queue-type": "quorum", "x-delivery-limit": 2},
            {"x-queue-type": "quorum", "x-delivery-limit": 2},
        ),
        ({"x-own": None, "l": [None]}, {"x-own": "undefined", "l": ["undefined"]}),
    ],
)
def test_arguments_of_queues(
    broker: Administered, arguments: dict[str, Any], left: dict[str, Any]
) -> None:
    queue = broker.vhost.declare_queue(
        "q", is_durable=True, is_auto_delete=False, owner=None, arguments=arguments
    )
    broker.vhost.live_arguments.set_paused(queue, paused=True)
    found, notes = exported(broker)
    assert found["queues"] == [
        {"name": "q", "vhost": "/", "durable": True, "auto_delete": False, "arguments": left}
    ]
    gone = sorted(arguments.keys() - left.keys())
    assert notes == [
        *(f"left out the argument {name} of queues: 'q'" for name in gone),
        "left out what operators have changed, or paused, of queues: 'q'",
    ]


def test_a_note_names_some_of_very_many_and_none_at_length(broker: Administered) -> None:
    for number in range(13):
        broker.vhost.declare_exchange(
            f"{number:02}{'x' * 200}",
            "x-random",
            is_durable=True,
            is_auto_delete=False,
            is_internal=False,
            arguments={"void": None},
        )
    found, (note,) = exported(broker)
    assert found["exchanges"][0]["arguments"] == {"void": "undefined"}
    assert note.startswith("RabbitMQ needs a plugin for type x-random of exchanges: '00xx")
    assert note.endswith(" and 3 more")
    assert len(note) < 800


def test_what_needs_a_plugin_is_named_and_old_keys_are_left_out(broker: Administered) -> None:
    definition = {"ha-mode": "all", "federation-upstream-set": "all", "max-length": 3}
    broker.administration.policies.put("/", "p", pattern="", definition=definition)
    found, notes = exported(broker)
    assert found["policies"][0]["definition"] == {"federation-upstream-set": "all", "max-length": 3}
    assert notes == [
        "left out the key ha-mode of policies: 'p'",
        "RabbitMQ needs a plugin for the key federation-upstream-set of policies: 'p'",
    ]
