"""What changed, over HTTP: by clients of AMQP and of HTTP, filtered, and who may see it."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.api_broker import ApiBroker


def events(broker: ApiBroker, query: str = "", user: str = "admin") -> list[tuple[str, str]]:
    items = broker.get(f"/hareline/changes{query}", user)["items"]
    return [(each["event"], each["details"].get("name", "")) for each in items]


def changes(broker: ApiBroker, text: str, user: str = "admin") -> list[dict[str, Any]]:
    """Those that contain this, the oldest first."""
    return list(reversed(broker.get(f"/hareline/changes?limit=500&filter={text}", user)["items"]))


@pytest.mark.acceptance
def test_what_a_client_declares_binds_purges_and_deletes(broker: ApiBroker) -> None:
    connection = broker.connect("manager")
    address = broker.name_of(connection).split(" -> ")[0]
    channel = connection.channel()
    channel.exchange_declare("changes.x", "topic", durable=True)
    channel.queue_declare("changes.q", durable=True, arguments={"x-max-length": 9})
    channel.queue_declare("changes.q", durable=True, arguments={"x-max-length": 9})
    channel.queue_bind("changes.q", "changes.x", "a.*")
    channel.basic_publish("", "changes.q", b"m")
    channel.queue_purge("changes.q")
    channel.queue_unbind("changes.q", "changes.x", "a.*")
    channel.queue_delete("changes.q")
    channel.exchange_delete("changes.x")
    found = changes(broker, "changes.")
    assert [each["event"] for each in found] == [
        "exchange.created",
        "queue.created",
        "binding.created",
        "queue.purged",
        "binding.deleted",
        "queue.deleted",
        "exchange.deleted",
    ]
    by = {"via": "amqp", "user": "manager", "address": address}
    assert [each["by"] for each in found] == [by] * 7
    assert found[1]["details"]["arguments"] == {"x-max-length": 9}
    assert found[2]["details"]["routing_key"] == "a.*"
    assert found[3]["details"] == {"vhost": "/", "name": "changes.q", "messages": 1}
    assert changes(broker, address) == found


@pytest.mark.acceptance
def test_what_is_done_over_http(broker: ApiBroker) -> None:
    queue = "/queues/%2F/changes-http"
    policy = {"pattern": "^none$", "definition": {"expires": 1}}
    nothing = {"configure": "", "write": "", "read": ""}
    steps: list[tuple[str, str, str, Any]] = [
        ("queue.created", "PUT", queue, {"durable": True}),
        (
            *("binding.created", "POST", "/bindings/%2F/e/amq.direct/q/changes-http"),
            {"routing_key": "k"},
        ),
        ("queue.changed", "PATCH", queue, {"arguments": {"x-max-length": 5}}),
        ("queue.paused", "POST", f"{queue}/pause", None),
        ("queue.resumed", "POST", f"{queue}/resume", None),
        ("policy.set", "PUT", "/policies/%2F/changes-http", policy),
        ("policy.cleared", "DELETE", "/policies/%2F/changes-http", None),
        ("queue.purged", "DELETE", f"{queue}/contents", None),
        ("queue.deleted", "DELETE", queue, None),
        ("user.created", "PUT", "/users/changes-http", {"password": "very-secret", "tags": ""}),
        ("vhost.created", "PUT", "/vhosts/changes-http", {}),
        ("permission.created", "PUT", "/permissions/changes-http/changes-http", nothing),
        ("vhost.limits.set", "PUT", "/vhost-limits/changes-http/max-queues", {"value": 3}),
        ("vhost.deleted", "DELETE", "/vhosts/changes-http", None),
        ("user.deleted", "DELETE", "/users/changes-http", None),
    ]
    for _, method, path, body in steps:
        answer = broker.ask(method, path, json=body)
        assert answer.status_code < 300, (path, answer.text)
    found = changes(broker, "changes-http")
    own = [each for each in found if each["details"].get("user") != "admin"]  # its own permission
    assert [each["event"] for each in own] == [event for event, *_ in steps]
    for each in found:
        assert (each["by"]["via"], each["by"]["user"]) == ("http", "admin")
        assert each["by"]["address"].startswith("127.0.0.1:")
    assert found[2]["details"]["changes"] == {"x-max-length": 5}
    assert "very-secret" not in str(broker.get("/hareline/changes?limit=500"))
    assert changes(broker, "user.created", "manager") == []


@pytest.mark.acceptance
def test_an_import_is_one_change_and_an_operation_tells_how_many(broker: ApiBroker) -> None:
    queues = [{"vhost": "/", "name": f"changes-in{number}", "durable": True} for number in range(3)]
    assert broker.ask("POST", "/definitions", json={"queues": queues}).status_code == 204
    [imported] = changes(broker, "definitions.imported")
    assert imported["details"] == {"counts": {"queues": 3}, "left_out": 0}
    assert imported["by"]["user"] == "admin"
    assert changes(broker, "changes-in") == []
    channel = broker.connect().channel()
    for _ in range(4):
        channel.basic_publish("", "changes-in0", b"m")
    broker.wait_for("/queues/%2F/changes-in0", lambda row: row["messages"] == 4, "messages")
    path = "/queues/%2F/changes-in0"
    assert broker.ask("POST", f"{path}/purge", json={"limit": 1}).status_code == 200
    moved = broker.ask("POST", f"{path}/move", json={"to_queue": "changes-in1", "all": True})
    assert moved.status_code == 200, moved.text
    found = changes(broker, "changes-in0")
    told = [(each["event"], each["details"]["messages"]) for each in found]
    assert told == [("queue.purged", 1), ("messages.moved", 3)]


@pytest.mark.acceptance
def test_a_declaration_is_filtered_and_seen_by_those_who_see_the_virtual_host(
    broker: ApiBroker,
) -> None:
    broker.connect().channel().queue_declare("changes.made", durable=True)
    assert events(broker, "?filter=changes.made") == [("queue.created", "changes.made")]
    assert events(broker, "?filter=changes.made", "manager") != []
    assert events(broker, "?filter=changes.made", "elsewhere") == []
    assert events(broker, "?filter=no+such+thing") == []


@pytest.mark.acceptance
def test_a_queue_that_ends_by_itself_is_nobodys_doing(broker: ApiBroker) -> None:
    channel = broker.connect().channel()
    channel.queue_declare("changes.leased", durable=True, arguments={"x-expires": 50})
    found = broker.wait_for(
        "/hareline/changes?filter=changes.leased",
        lambda found: len(found["items"]) == 2,
        "the end of the lease",
    )
    assert [each["by"]["via"] for each in found["items"]] == ["broker", "amqp"]
    assert found["items"][0]["by"] == {"via": "broker", "user": None, "address": None}


def test_alarms_need_monitoring_and_the_start_is_a_change(broker: ApiBroker) -> None:
    broker.thread.ask(lambda each: each.context.alarms.set("memory"))
    try:
        found = broker.get("/hareline/changes?filter=alarm.set")
        assert found["items"][0]["details"] == {"name": "memory"}
        assert events(broker, "?filter=alarm.set", "manager") == []
    finally:
        broker.thread.ask(lambda each: each.context.alarms.clear("memory"))
    started = changes(broker, "broker.started")[0]
    assert started["by"]["via"] == "broker"
    assert broker.get("/hareline/changes")["since_ms"] <= started["at_ms"]


@pytest.mark.acceptance
def test_changes_are_shown_to_whom_the_objects_are(broker: ApiBroker) -> None:
    """Permissions and users to administrators, parameters to policymakers, and no value at all."""
    secret = {"value": {"src-uri": "amqp://user:secret@elsewhere", "dest-uri": "amqp://"}}
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
    of_policymaker = broker.get("/hareline/changes?filter=parameter.set", "policymaker")["items"]
    assert {each["details"]["component"] for each in of_policymaker} == {"shovel", "global"}
    assert not any("value" in each["details"] for each in found)


@pytest.mark.acceptance
def test_who_and_from_where_is_told_as_connections_are_shown(broker: ApiBroker) -> None:
    """A user without monitoring sees its own connections only, and whose a change is likewise."""
    addresses = {}
    for user in ("manager", "monitor"):
        connection = broker.connect(user)
        addresses[user] = broker.name_of(connection).split(" -> ")[0]
        connection.channel().queue_declare(f"changes.by-{user}", durable=True)

    def told(user: str, text: str) -> list[tuple[str, str | None, str | None]]:
        items = broker.get(f"/hareline/changes?filter={text}", user)["items"]
        return [(e["details"]["name"], e["by"]["user"], e["by"]["address"]) for e in items]

    of_monitor = ("changes.by-monitor", "monitor", addresses["monitor"])
    of_manager = ("changes.by-manager", "manager", addresses["manager"])
    assert told("monitor", "changes.by-") == [of_monitor, of_manager]
    assert told("admin", "changes.by-") == [of_monitor, of_manager]
    assert told("manager", "changes.by-") == [("changes.by-monitor", None, None), of_manager]
    assert told("policymaker", "changes.by-") == [
        ("changes.by-monitor", None, None),
        ("changes.by-manager", None, None),
    ]
    assert told("monitor", addresses["monitor"]) == [of_monitor]
    assert told("manager", addresses["monitor"]) == []  # no probing for addresses by the filter
    assert told("manager", addresses["manager"]) == [of_manager]


@pytest.mark.parametrize("limit", ["0", "501", "x", "000000501", "9" * 5_000, "-1", "\u0663"])
def test_a_limit_is_bounded(broker: ApiBroker, limit: str) -> None:
    status, body = broker.refused(f"/hareline/changes?limit={limit}")
    assert status == 400
    assert "limit" in body["reason"]


@pytest.mark.acceptance
def test_older_changes_are_asked_for_by_number(broker: ApiBroker) -> None:
    channel = broker.connect().channel()
    for number in range(5):
        channel.queue_declare(f"changes.older{number}", durable=True)
    path = "/hareline/changes?filter=changes.older&limit=2"
    pages = [broker.get(path)]
    while pages[-1]["before"] is not None:
        pages.append(broker.get(f"{path}&before={pages[-1]['before']}"))
        channel.queue_declare(f"changes.older.new{len(pages)}", durable=True)  # on no later page
    names = [[each["details"]["name"][-1] for each in page["items"]] for page in pages]
    assert names == [["4", "3"], ["2", "1"], ["0"]]
    exact = broker.get("/hareline/changes?filter=changes.older0&limit=1")
    assert (len(exact["items"]), exact["before"]) == (1, None)
    status, refusal = broker.refused("/hareline/changes?before=0")
    assert (status, refusal["reason"].split(":")[0]) == (400, "before")
