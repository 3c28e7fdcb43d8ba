"""What a policy would do to queues, asked before it is set."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.api_broker import ApiBroker

PREVIEW = "/hareline/policies/%2F/new/preview"


def preview(broker: ApiBroker, path: str = PREVIEW, **body: Any) -> dict[str, dict[str, Any]]:
    answer = broker.ask("POST", path, json=body)
    assert answer.status_code == 200, answer.text
    return {each["name"]: each for each in answer.json()}


@pytest.mark.acceptance
def test_queues_that_match_are_listed_with_what_would_change(broker: ApiBroker) -> None:
    channel = broker.connect().channel()
    channel.queue_declare("seen.a", durable=True, arguments={"x-max-length": 100})
    channel.queue_declare("seen.b", durable=True)
    channel.queue_declare("other", durable=True)
    high = {"pattern": "^seen.b$", "priority": 9, "definition": {"merge": True, "max-length": 3}}
    assert broker.ask("PUT", "/policies/%2F/high", json=high).status_code == 201
    found = preview(broker, pattern="^seen", definition={"max-length": 50, "expires": 90_000})
    expires = {"name": "x-expires", "before": None, "after": 90_000}
    assert found == {
        "seen.a": {
            "name": "seen.a",
            "type": "classic",
            "decides": True,
            "policy": "new",
            "operator_policy": None,
            "changes": [{"name": "x-max-length", "before": 100, "after": 50}, expires],
            "problem": None,
        },
        "seen.b": {
            "name": "seen.b",
            "type": "classic",
            "decides": True,
            "policy": "high",
            "operator_policy": None,
            "changes": [expires],
            "problem": None,
        },
    }
    assert [each["name"] for each in broker.get("/policies")] == ["high"]
    # in place of the one that is there
    high["definition"] = {"max-length": 2}
    found = preview(broker, PREVIEW.replace("new", "high"), **high)
    assert found["seen.b"]["changes"] == [{"name": "x-max-length", "before": 3, "after": 2}]
    # behind one that does not merge
    assert broker.ask("PUT", "/policies/%2F/high", json=high).status_code == 204
    found = preview(broker, pattern="^seen.b", definition={"expires": 90_000})
    assert (found["seen.b"]["decides"], found["seen.b"]["changes"]) == (False, [])


@pytest.mark.acceptance
def test_what_a_policy_may_not_say_is_refused_as_when_it_is_set(broker: ApiBroker) -> None:
    body = {"pattern": "(", "definition": {"max-length": 5}}
    answers = [
        broker.ask(method, path, json=body)
        for method, path in (("POST", PREVIEW), ("PUT", "/policies/%2F/new"))
    ]
    assert [each.status_code for each in answers] == [400, 400]
    assert answers[0].json() == answers[1].json()
    body["pattern"] = "a"
    assert broker.ask("POST", PREVIEW, "manager", json=body).status_code == 401
