"""What the API says of connections and channels that wait, with real publishers."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.api_broker import ApiBroker, segment


@pytest.mark.acceptance
def test_a_publisher_at_a_full_queue_is_told_which(broker: ApiBroker) -> None:
    connection = broker.connect(name="waits")
    channel = connection.channel()
    arguments = {"x-max-length": 1, "x-overflow": "flow-control"}
    channel.queue_declare("brim", auto_delete=True, arguments=arguments)
    other = broker.connect().channel()
    name = broker.name_of(connection)
    row = broker.get(f"/connections/{segment(name)}")
    assert (row["blocked_reason"], row["blocked_since_ms"], row["blocked_by"]) == (None, None, [])
    for _ in range(2):
        channel.basic_publish("", "brim", b"m")
    row = broker.wait_for(
        f"/connections/{segment(name)}", lambda row: row["blocked_by"], "a reason"
    )
    assert row["state"] == "flow"
    assert row["blocked_reason"].startswith("queue 'brim' in vhost '/' is full")
    assert row["blocked_since_ms"] >= row["connected_at"]
    [reason] = row["blocked_by"]
    assert (reason["reason"], reason["queue"], reason["vhost"]) == ("queue", "brim", "/")
    assert (reason["limit"], reason["limit_value"], reason["value"]) == ("x-max-length", 1, 2)
    channel_row = broker.get(f"/channels/{segment(name + ' (1)')}")
    assert (channel_row["state"], channel_row["blocked_by"]) == ("flow", [reason])
    first = broker.get("/connections?sort=blocked_since_ms&sort_reverse=true&page=1")["items"][0]
    assert first["name"] == name
    states = [row["state"] for row in broker.get("/connections?sort=state&page=1")["items"]]
    assert states == sorted(states)
    assert {"flow", "running"} <= set(states)
    other.queue_purge("brim")
    broker.wait_for(
        f"/connections/{segment(name)}",
        lambda row: (row["state"], row["blocked_by"]) == ("running", []),
        "the queue to have room",
    )
    other.queue_delete("brim")


@pytest.mark.acceptance
def test_a_publisher_during_an_alarm_is_told_the_resource(broker: ApiBroker) -> None:
    connection = broker.connect()
    channel = connection.channel()
    path = f"/connections/{segment(broker.name_of(connection))}"

    def alarm(is_on: bool) -> Any:
        def switch(running: Any) -> None:
            alarms = running.context.alarms
            (alarms.set if is_on else alarms.clear)("disk")

        return broker.thread.ask(switch)

    alarm(True)
    try:
        row = broker.get(path)
        assert row["state"] == "blocking"
        assert row["blocked_reason"] == "the broker is low on disk: the next publish blocks it"
        channel.basic_publish("", "nowhere", b"m")
        row = broker.wait_for(path, lambda row: row["state"] == "blocked", "the block")
        assert row["blocked_reason"] == "the broker is low on disk"
        assert [each["reason"] for each in row["blocked_by"]] == ["disk"]
        assert row["blocked_since_ms"] > 0
    finally:
        alarm(False)
    broker.wait_for(path, lambda row: row["blocked_reason"] is None, "the end of the alarm")
