"""What is near a limit, in which order, and who sees it."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.api_broker import ApiBroker


@pytest.fixture(scope="module")
def limited(running: ApiBroker) -> ApiBroker:
    channel = running.connect().channel()
    for name, count in (("half", 5), ("nearly", 9), ("full", 10)):
        arguments = {"x-max-length": 10, "x-overflow": "reject-publish"}
        channel.queue_declare(name, arguments=arguments)
        for _ in range(count):
            channel.basic_publish("", name, b"x")
    channel.queue_declare("free")
    running.wait_for("/queues/%2F/full", lambda queue: queue["messages"] == 10, "ten messages")
    return running


def queues(broker: ApiBroker, query: str = "", user: str = "admin") -> list[tuple[str, Any]]:
    items = broker.get(f"/hareline/near-limits{query}", user)["items"]
    return [(each["name"], each["part"]) for each in items if each["kind"] == "queue"]


def test_the_nearest_come_first(limited: ApiBroker) -> None:
    assert queues(limited) == [("full", 1.0), ("nearly", 0.9)]
    assert queues(limited, "?threshold=50") == [("full", 1.0), ("nearly", 0.9), ("half", 0.5)]


def test_a_row_says_what_happens_at_the_limit(limited: ApiBroker) -> None:
    row = limited.get("/hareline/near-limits?threshold=100")["items"][0]
    assert row["limit_name"] == "x-max-length"
    assert (row["value"], row["limit"]) == (10, 10)
    assert row["consequence"] == "new messages are refused"


def test_the_broker_itself_needs_monitoring(limited: ApiBroker) -> None:
    def kinds(user: str) -> set[str]:
        items = limited.get("/hareline/near-limits?threshold=0", user)["items"]
        return {each["kind"] for each in items}

    assert "broker" in kinds("monitor")
    assert "broker" not in kinds("manager")


def test_other_virtual_hosts_are_not_seen(limited: ApiBroker) -> None:
    assert queues(limited, user="elsewhere") == []
    status, _ = limited.refused("/hareline/near-limits?vhost=%2F", "elsewhere")
    assert status == 401


@pytest.mark.parametrize("threshold", ["x", "101", "-1", "00000101", "1" * 5_000])
def test_a_threshold_is_a_percentage(limited: ApiBroker, threshold: str) -> None:
    status, body = limited.refused(f"/hareline/near-limits?threshold={threshold}")
    assert status == 400
    assert "threshold" in body["reason"]
