"""Exchanges with ``x-retain`` over HTTP: what is shown, exported and refused."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.support.api_broker import ApiBroker

KEPT = "amq.retained.prices"


@pytest.mark.acceptance
@pytest.mark.row("E29")
def test_an_exchange_shows_how_much_it_retains(broker: ApiBroker) -> None:
    body = {"type": "topic", "durable": True, "arguments": {"x-retain": "last"}}
    assert broker.ask("PUT", "/exchanges/%2F/prices", json=body).status_code == 201
    for key in ("a", "b", "a"):
        sent: dict[str, Any] = {"routing_key": key, "payload": "m", "properties": {}}
        sent["payload_encoding"] = "string"
        assert broker.ask("POST", "/exchanges/%2F/prices/publish", json=sent).json() == {
            "routed": False
        }
    shown = broker.ask("GET", "/exchanges/%2F/prices").json()
    assert (shown["arguments"], shown["retained_messages"]) == ({"x-retain": "last"}, 2)
    assert "retained_messages" not in broker.ask("GET", "/exchanges/%2F/amq.topic").json()

    assert broker.ask("PUT", "/queues/%2F/q", json={}).status_code == 201
    bound = broker.ask("POST", "/bindings/%2F/e/prices/q/q", json={"routing_key": "#"})
    assert bound.status_code == 201
    assert broker.thread.ask(lambda made: made.context.vhosts["/"].queues["q"].ready_count) == 2

    definitions = broker.ask("GET", "/definitions").json()
    assert KEPT not in json.dumps(definitions)
    exported = [each for each in definitions["exchanges"] if each["name"] == "prices"]
    assert [each["arguments"] for each in exported] == [{"x-retain": "last"}]

    for method, path, asked in (
        ("PUT", f"/queues/%2F/{KEPT}", {}),
        ("DELETE", f"/queues/%2F/{KEPT}", None),
        ("DELETE", f"/queues/%2F/{KEPT}/contents", None),
        (
            "POST",
            f"/queues/%2F/{KEPT}/get",
            {"count": 1, "ackmode": "ack_requeue_false", "encoding": "auto"},
        ),
    ):
        answer = broker.ask(method, path, json=asked)
        assert 400 <= answer.status_code < 500, (method, path, answer.status_code)
    assert broker.ask("GET", "/exchanges/%2F/prices").json()["retained_messages"] == 2

    wrong = {"type": "topic", "arguments": {"x-retain": "all"}}
    refusal = broker.ask("PUT", "/exchanges/%2F/other", json=wrong)
    assert refusal.status_code == 400
    assert "invalid arg 'x-retain'" in refusal.json()["reason"]
    assert broker.ask("DELETE", "/exchanges/%2F/prices").status_code == 204
    assert broker.ask("GET", f"/queues/%2F/{KEPT}").status_code == 404
