"""Which argument of a queue counts, and who decided it: asked by users of each tag."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.api_broker import ApiBroker

PATH = "/hareline/queues/%2F/decided/effective-arguments"


def by_name(answer: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {each["name"]: each for each in answer["arguments"]}


@pytest.mark.acceptance
def test_every_layer_is_told_to_a_user_who_may_not_list_policies(broker: ApiBroker) -> None:
    channel = broker.connect().channel()
    arguments = {"x-max-length": 100, "x-overflow": "drop-head", "x-max-priority": 3}
    channel.queue_declare("decided", durable=True, arguments=arguments)
    policy = {
        "pattern": "^decided$",
        "priority": 7,
        "definition": {"max-length": 50, "overflow": "reject-publish", "message-ttl": 9_000},
    }
    operator = {"pattern": "^decided$", "apply-to": "queues", "definition": {"max-length": 20}}
    assert broker.ask("PUT", "/policies/%2F/mine", json=policy).status_code == 201
    assert broker.ask("PUT", "/operator-policies/%2F/cap", json=operator).status_code == 201
    change = {"arguments": {"x-delivery-limit": 4}}
    assert broker.ask("PATCH", "/queues/%2F/decided", json=change).status_code == 200
    found = broker.get(PATH, "manager")
    assert (found["vhost"], found["name"]) == ("/", "decided")
    assert found["policy"] == {"name": "mine", **policy}
    assert found["operator_policy"]["name"] == "cap"
    rows = by_name(found)
    assert rows["x-max-length"] == {
        "name": "x-max-length",
        "value": 20,
        "origin": "operator_policy",
        "origin_name": "cap",
        "has_effect": True,
        "overridden": [
            {
                "origin": "queue_argument",
                "origin_name": None,
                "value": 100,
                "because": "of two limits the smaller one counts",
            },
            {
                "origin": "policy",
                "origin_name": "mine",
                "value": 50,
                "because": "of two limits the smaller one counts",
            },
        ],
    }
    told = {name: (row["value"], row["origin"], row["origin_name"]) for name, row in rows.items()}
    assert told["x-overflow"] == ("drop-head", "queue_argument", None)
    assert told["x-message-ttl"] == (9_000, "policy", "mine")
    assert told["x-delivery-limit"] == (4, "operator_change", None)
    assert told["x-queue-type"] == ("classic", "default", None)
    assert found["arguments"][-1]["name"] == "x-queue-type"
    in_force = broker.get("/queues/%2F/decided/arguments")["effective"]
    for name, (value, origin, _) in told.items():
        if origin != "default":
            assert in_force[name] == value
    for path in ("/policies/%2F/mine", "/operator-policies/%2F/cap"):
        assert broker.ask("DELETE", path).status_code == 204
    rows = by_name(broker.get(PATH, "manager"))
    assert (rows["x-max-length"]["value"], rows["x-max-length"]["overridden"]) == (100, [])


@pytest.mark.acceptance
def test_a_queue_that_is_not_seen_or_not_there(broker: ApiBroker) -> None:
    broker.connect().channel().queue_declare(
        "decided",
        durable=True,
        passive=False,
        arguments={"x-max-length": 100, "x-overflow": "drop-head", "x-max-priority": 3},
    )
    assert broker.refused(PATH, "elsewhere")[0] == 401
    assert broker.refused(PATH, "plain")[0] == 401
    assert broker.refused("/hareline/queues/%2F/none/effective-arguments")[0] == 404
