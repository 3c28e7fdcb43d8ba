"""The route tester over HTTP: what it answers is where a publish goes, and nothing is published."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.api_broker import ApiBroker


def asked(broker: ApiBroker, exchange: str, user: str = "admin", **body: Any) -> Any:
    path = f"/exchanges/%2F/{exchange}/route-test"
    return broker.ask("POST", path, user, json=body)


@pytest.fixture(scope="module")
def routed(running: ApiBroker) -> ApiBroker:
    channel = running.connect().channel()
    channel.exchange_declare("rest", "fanout", durable=True)
    channel.exchange_declare("r", "topic", durable=True, arguments={"alternate-exchange": "rest"})
    for name in ("eu", "big", "left"):
        channel.queue_declare(name, durable=True)
    channel.queue_bind("eu", "r", "order.eu.*")
    channel.queue_bind("big", "r", "#", {"x-filter-jms-selector": "size > 10 AND JMSPriority = 4"})
    channel.queue_bind("left", "rest")
    return running


@pytest.mark.acceptance
@pytest.mark.parametrize(
    ("key", "headers", "properties", "queues"),
    [
        ("order.eu.new", {}, {}, ["eu"]),
        ("order.eu.new", {"size": 11}, {"priority": 4}, ["eu", "big"]),
        ("order.us.new", {"size": 11}, {"priority": 5}, ["left"]),
        ("nothing", {"CC": ["order.eu.x"]}, {}, ["eu"]),
        ("nothing", {"BCC": ["order.eu.x"]}, {}, ["eu"]),
    ],
)
def test_the_answer_is_where_a_publish_goes(
    routed: ApiBroker, key: str, headers: Any, properties: Any, queues: list[str]
) -> None:
    answer = asked(routed, "r", routing_key=key, headers=headers, properties=properties)
    assert answer.status_code == 200
    assert answer.json()["queues"] == queues
    assert routed.get("/queues/%2F/eu")["messages"] == 0


def test_every_binding_has_an_outcome_and_a_reason(routed: ApiBroker) -> None:
    found = asked(routed, "r", routing_key="order.us.new").json()
    first, second = found["steps"]
    assert {each["destination"]: each["outcome"] for each in first["bindings"]} == {
        "eu": "no_match",
        "big": "filtered",
    }
    assert all(each["reason"] for each in first["bindings"])
    assert (first["alternate"], second["by_alternate"]) == ("rest", True)


def test_the_default_exchange_has_a_name_in_paths(routed: ApiBroker) -> None:
    assert asked(routed, "amq.default", routing_key="eu").json()["queues"] == ["eu"]


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ({"properties": {"priority": "high"}}, "priority"),
        ({"headers": {"CC": "one"}}, "headers.CC: must be a list"),
        ({"colour": 1}, "colour"),
        ({"routing_key": "k" * 256}, "255"),
    ],
)
def test_what_cannot_be_sent_is_refused(routed: ApiBroker, body: Any, reason: str) -> None:
    answer = asked(routed, "r", **body)
    assert answer.status_code == 400
    assert reason in answer.json()["reason"]


def test_a_missing_exchange_is_404(routed: ApiBroker) -> None:
    assert asked(routed, "nowhere").status_code == 404


@pytest.mark.acceptance
def test_users_see_their_virtual_hosts_only(routed: ApiBroker) -> None:
    assert asked(routed, "r", "elsewhere").status_code == 401
    assert asked(routed, "r", "monitor").status_code == 200
