"""What is near a limit, in which order, and who sees it."""

from __future__ import annotations

from typing import Any

import pytest

from hareline.settings import Limits
from tests.support.api_broker import ApiBroker, api_broker, api_settings


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


@pytest.mark.acceptance
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


# ----------------------------------------------------------------------- limits of other objects


def place_of(broker: ApiBroker, user: str, kind: str, name: str, limit: str) -> dict[str, Any]:
    """The row of this limit; {} without one."""
    items = broker.get("/hareline/near-limits?threshold=0", user)["items"]
    wanted = (kind, name, limit)
    found = [each for each in items if (each["kind"], each["name"], each["limit_name"]) == wanted]
    return found[0] if found else {}


@pytest.mark.acceptance
def test_connections_and_channels_of_users_and_virtual_hosts(limited: ApiBroker) -> None:
    for path, value in (
        ("/user-limits/manager/max-connections", 4),
        ("/user-limits/manager/max-channels", 5),
        ("/vhost-limits/other/max-connections", 2),
        ("/vhost-limits/other/max-queues", 3),
    ):
        assert limited.ask("PUT", path, json={"value": value}).status_code == 204
    connections = [limited.connect("manager") for _ in range(2)]
    for connection in (connections[0], connections[0], connections[1]):
        connection.channel()
    limited.connect("elsewhere", "other").channel().queue_declare("one", exclusive=True)

    def used(user: str, kind: str, name: str, limit: str) -> tuple[int, int] | None:
        row = place_of(limited, user, kind, name, limit)
        return (row["value"], row["limit"]) if row else None

    for user in ("manager", "monitor"):
        assert used(user, "user", "manager", "max-connections") == (2, 4)
        assert used(user, "user", "manager", "max-channels") == (3, 5)
    assert used("elsewhere", "user", "manager", "max-channels") is None
    assert used("elsewhere", "vhost", "other", "max-connections") == (1, 2)
    assert used("elsewhere", "vhost", "other", "max-queues") == (1, 3)
    assert used("manager", "vhost", "other", "max-queues") is None
    row = place_of(limited, "manager", "user", "manager", "max-connections")
    assert (row["part"], row["vhost"], row["unit"]) == (0.5, None, "count")
    name = limited.name_of(connections[0])
    found = used("manager", "connection", name, "channel_max")
    assert found is not None
    assert found[0] == 2
    limited.disconnect()


@pytest.mark.acceptance
def test_the_process_has_limits_too(limited: ApiBroker) -> None:
    name = limited.get("/overview")["node"]
    row = place_of(limited, "monitor", "broker", name, "file_descriptors")
    assert 0 < row["value"] < row["limit"]
    for limit in ("memory.watermark", "disk.free_watermark"):
        assert place_of(limited, "monitor", "broker", name, limit)["limit"] > 0
    assert place_of(limited, "monitor", "broker", name, "limits.max_connections") == {}
    assert place_of(limited, "manager", "broker", name, "file_descriptors") == {}


@pytest.mark.acceptance
def test_the_connections_of_the_broker_and_consumers_of_channels() -> None:
    limits = Limits(
        max_connections=4,
        max_consumers_per_channel=2,
        max_unacked_per_channel=10,
        max_queues=5,
        max_channels_per_user=8,
    )
    with api_broker(api_settings(limits=limits)) as broker:
        connection = broker.connect()
        channel = connection.channel()
        channel.queue_declare("q", arguments={"x-max-consumers": 5})
        channel.basic_consume("q", lambda *_: None)
        name = broker.get("/overview")["node"]
        row = place_of(broker, "monitor", "broker", name, "limits.max_connections")
        assert (row["value"], row["limit"]) == (1, 4)
        assert row["consequence"] == "further connections are refused"
        row = place_of(broker, "monitor", "broker", name, "limits.max_queues")
        assert (row["title"], row["value"], row["limit"]) == ("Queues", 1, 5)
        row = place_of(broker, "monitor", "user", "admin", "limits.max_channels_per_user")
        assert row["limit"] == 8
        name = f"{broker.name_of(connection)} (1)"
        row = place_of(broker, "admin", "channel", name, "limits.max_unacked_per_channel")
        assert (row["value"], row["limit"]) == (0, 10)
        row = place_of(broker, "admin", "channel", name, "limits.max_consumers_per_channel")
        assert (row["value"], row["limit"], row["vhost"]) == (1, 2, "/")
        row = place_of(broker, "admin", "queue", "q", "x-max-consumers")
        assert (row["value"], row["limit"]) == (1, 5)


def test_a_stream_that_keeps_all_it_may_is_near_no_limit(limited: ApiBroker) -> None:
    channel = limited.connect().channel()
    arguments = {"x-queue-type": "stream", "x-max-length-bytes": 1}
    channel.queue_declare("kept", durable=True, arguments=arguments)
    channel.basic_publish("", "kept", b"12345")
    limited.wait_for("/queues/%2F/kept", lambda row: row["messages"] >= 1, "a message")
    assert "kept" not in dict(queues(limited, "?threshold=0"))
    channel.queue_delete("kept")


@pytest.mark.acceptance
def test_a_policy_limits_as_an_argument_does_and_bytes_count(limited: ApiBroker) -> None:
    channel = limited.connect().channel()
    channel.queue_declare("by-policy")
    body = {"pattern": "^by-policy$", "definition": {"max-length-bytes": 8}}
    assert limited.ask("PUT", "/policies/%2F/bytes", json=body).status_code == 201
    channel.basic_publish("", "by-policy", b"123456")

    def has_come(row: Any) -> bool:
        return bool(row["messages_ready"] == 1)

    limited.wait_for("/queues/%2F/by-policy", has_come, "a message")
    row = place_of(limited, "admin", "queue", "by-policy", "x-max-length-bytes")
    assert (row["value"], row["limit"], row["unit"]) == (6, 8, "bytes")
    assert row["consequence"] == "the oldest message is dropped or dead-lettered"
    limited.ask("DELETE", "/policies/%2F/bytes")
