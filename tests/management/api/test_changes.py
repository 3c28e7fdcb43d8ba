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


def test_changes_are_shown_to_whom_the_objects_are(broker: ApiBroker) -> None:
    """Permissions and users to administrators, parameters to policymakers, and no value at all."""
    secret = {"value": {"src-uri": "amqp://user:secret@elsewhere"}}
    rights = {"configure": "", "write": "", "read": "^secret$"}
    for path, body in (
        ("/users/seen", {"password": "secret", "tags": ""}),
        ("/permissions/%2F/seen", rights),
        ("/topic-permissions/%2F/seen", {"exchange": "amq.topic", "write": "", "read": "^secret$"}),
        ("/user-limits/seen/max-channels", {"value": 5}),
        ("/parameters/shovel/%2F/seen", secret),
        ("/global-parameters/seen", secret),
        ("/policies/%2F/seen", {"pattern": "^none$", "definition": {"max-length": 5}}),
    ):
        assert broker.ask("PUT", path, json=body).status_code in (201, 204), path

    def seen(user: str) -> set[str]:
        answer = broker.get("/hareline/changes?limit=500", user)
        mine = [each for each in answer["items"] if "seen" in each["details"].values()]
        assert "src-uri" not in str(mine)
        return {each["event"] for each in mine}

    of_all = {"policy.set"}
    of_administrators = {
        *("user.created", "permission.created", "topic.permission.created", "user.limits.set"),
        "parameter.set",
    }
    assert seen("elsewhere") == set()
    assert seen("manager") == of_all
    assert seen("policymaker") == of_all | {"parameter.set"}
    assert seen("monitor") == of_all
    assert seen("admin") == of_all | of_administrators
    found = broker.get("/hareline/changes?filter=parameter.set")["items"]
    assert {each["details"]["component"] for each in found} == {"shovel", "global"}
    assert not any("value" in each["details"] for each in found)


@pytest.mark.parametrize("limit", ["0", "501", "x", "000000501", "9" * 5_000, "-1", "\u0663"])
def test_a_limit_is_bounded(broker: ApiBroker, limit: str) -> None:
    status, body = broker.refused(f"/hareline/changes?limit={limit}")
    assert status == 400
    assert "limit" in body["reason"]
