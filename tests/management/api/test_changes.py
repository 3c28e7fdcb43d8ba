"""What changed, over HTTP: seen after the next look, filtered, and by whom."""

from __future__ import annotations

import pytest

from tests.support.api_broker import ApiBroker


def events(broker: ApiBroker, query: str = "", user: str = "admin") -> list[tuple[str, str]]:
    items = broker.get(f"/hareline/changes{query}", user)["items"]
    return [(each["event"], each["details"].get("name", "")) for each in items]


def test_a_declaration_is_seen_and_filtered(broker: ApiBroker) -> None:
    broker.connect().channel().queue_declare("changes.made", durable=True)
    broker.wait_for(
        "/hareline/changes?filter=changes.made", lambda found: found["items"], "the change"
    )
    assert events(broker, "?filter=changes.made") == [("queue.created", "changes.made")]
    assert events(broker, "?filter=changes.made", "manager") != []
    assert events(broker, "?filter=changes.made", "elsewhere") == []
    assert events(broker, "?filter=no+such+thing") == []


def test_alarms_need_monitoring(broker: ApiBroker) -> None:
    broker.thread.ask(lambda each: each.context.alarms.set("memory"))
    try:
        found = broker.wait_for(
            "/hareline/changes?filter=alarm.set", lambda found: found["items"], "the alarm"
        )
        assert found["items"][0]["details"] == {"name": "memory"}
        assert events(broker, "?filter=alarm.set", "manager") == []
    finally:
        broker.thread.ask(lambda each: each.context.alarms.clear("memory"))


@pytest.mark.parametrize("limit", ["0", "501", "x"])
def test_a_limit_is_bounded(broker: ApiBroker, limit: str) -> None:
    status, body = broker.refused(f"/hareline/changes?limit={limit}")
    assert status == 400
    assert "limit" in body["reason"]
