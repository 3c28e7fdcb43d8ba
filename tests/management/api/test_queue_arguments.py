"""What the server says of arguments and policy keys is what declarations and policies take."""

from __future__ import annotations

from typing import Any

import pytest

from hareline.administration.policy_keys import KEYS, WITHOUT_EFFECT, check_definition
from hareline.management.api.arguments import described_arguments
from tests.support.api_broker import ApiBroker


def by_field(described: list[dict[str, Any]]) -> dict[str | None, dict[str, Any]]:
    """What to declare for those that need this field."""
    return {each["field"]: {each["name"]: each["example"]} for each in described if each["field"]}


@pytest.mark.acceptance
def test_every_argument_can_be_declared_by_its_example(broker: ApiBroker) -> None:
    described = broker.get("/hareline/queue-arguments", "manager")
    examples = by_field(described["arguments"])
    stream = {"x-queue-type": "stream"}
    broker.ask("PUT", "/queues/%2F/archive", json={"durable": True, "arguments": stream})
    broker.ask("PUT", "/queues/%2F/dead", json={"durable": True})
    for number, each in enumerate(described["arguments"]):
        arguments = {**examples.get(each["needs"], {}), each["name"]: each["example"]}
        if "classic" not in each["queue_types"]:
            arguments["x-queue-type"] = each["queue_types"][0]
        is_auto_delete = each["name"].startswith("x-auto-delete")
        body = {"durable": True, "auto_delete": is_auto_delete, "arguments": arguments}
        answer = broker.ask("PUT", f"/queues/%2F/example-{number}", json=body)
        assert answer.status_code == 201, (arguments, answer.text)


def test_every_policy_key_with_an_effect_is_described_by_an_example_that_is_taken() -> None:
    described = described_arguments()
    names = [each.name for each in described.policy_keys]
    assert sorted(names) == sorted(set(KEYS) - WITHOUT_EFFECT)
    for each in described.policy_keys:
        check_definition({each.name: each.example}, is_operator=False)
        for choice in each.choices:
            value = [choice.value] if each.input == "list" else choice.value
            check_definition({each.name: value}, is_operator=False)
        assert each.is_operator == KEYS[each.name].is_operator


@pytest.mark.acceptance
def test_what_is_said_to_be_live_can_be_changed_while_a_queue_works(broker: ApiBroker) -> None:
    described = broker.get("/hareline/queue-arguments")["arguments"]
    examples = by_field(described)
    live = [each for each in described if each["is_live"]]
    assert {"x-max-length", "x-dead-letter-exchange", "x-hold-on-publish"} <= {
        each["name"] for each in live
    }
    for number, each in enumerate(live):
        kind = "classic" if "classic" in each["queue_types"] else each["queue_types"][0]
        name = f"/queues/%2F/live-{number}"
        declared = {} if kind == "classic" else {"x-queue-type": kind}
        is_auto_delete = each["name"].startswith("x-auto-delete")
        body = {"durable": True, "auto_delete": is_auto_delete, "arguments": declared}
        broker.ask("PUT", name, json=body)
        changes = {**examples.get(each["needs"], {}), each["name"]: each["example"]}
        answer = broker.ask("PATCH", name, json={"arguments": changes})
        assert answer.status_code == 200, (each["name"], answer.text)
        assert answer.json()["changes"] == changes


@pytest.mark.acceptance
def test_groups_are_known(broker: ApiBroker) -> None:
    described = broker.get("/hareline/queue-arguments")
    groups = {group for group, _ in described["groups"]}
    assert {each["group"] for each in described["arguments"]} <= groups
