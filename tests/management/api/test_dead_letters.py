"""Dead-letter queues with the reasons for which their messages died."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.api_broker import ApiBroker


@pytest.fixture(scope="module")
def dead(running: ApiBroker) -> ApiBroker:
    channel = running.connect().channel()
    channel.exchange_declare("dlx", "fanout")
    channel.queue_declare("graves")
    channel.queue_bind("graves", "dlx")
    to_dlx = {"x-dead-letter-exchange": "dlx"}
    channel.queue_declare("full", arguments={**to_dlx, "x-max-length": 1})
    channel.queue_declare("refusing", arguments=to_dlx)
    channel.queue_declare(
        "direct",
        arguments={
            "x-dead-letter-exchange": "",
            "x-dead-letter-routing-key": "by-name",
            "x-message-ttl": 0,
        },
    )
    channel.queue_declare("by-name")
    for _ in range(3):
        channel.basic_publish("", "full", b"x")
    channel.basic_publish("", "refusing", b"x")
    channel.basic_publish("", "direct", b"x")
    method, _, _ = channel.basic_get("refusing")
    channel.basic_reject(method.delivery_tag, requeue=False)
    channel.basic_publish("", "graves", b"alive")
    running.wait_for("/queues/%2F/graves", lambda queue: queue["messages"] == 4, "four messages")
    running.wait_for("/queues/%2F/by-name", lambda queue: queue["messages"] == 1, "the expired one")
    return running


def rows(broker: ApiBroker, user: str = "admin") -> dict[str, Any]:
    return {each["name"]: each for each in broker.get("/hareline/dead-letters", user)["items"]}


def test_reasons_are_counted_by_the_queue_of_the_first_death(dead: ApiBroker) -> None:
    row = rows(dead)["graves"]
    assert (row["messages"], row["examined"]) == (4, 4)
    assert row["sources"] == ["full", "refusing"]
    assert [(each["reason"], each["queue"], each["count"]) for each in row["reasons"]] == [
        ("maxlen", "full", 2),
        ("rejected", "refusing", 1),
    ]
    assert row["reasons"][0]["routing_key"] == "full"


def test_a_queue_behind_the_default_exchange_is_found_by_the_key(dead: ApiBroker) -> None:
    row = rows(dead)["by-name"]
    assert row["sources"] == ["direct"]
    assert row["reasons"][0]["reason"] == "expired"


def test_messages_stay_where_they_are(dead: ApiBroker) -> None:
    rows(dead)
    queue = dead.get("/queues/%2F/graves")
    assert (queue["messages_ready"], queue["messages_unacknowledged"]) == (4, 0)


def test_who_sees_the_depth_and_who_the_reasons(dead: ApiBroker) -> None:
    assert rows(dead, "elsewhere") == {}
    assert rows(dead, "manager")["graves"]["reasons"] != []
