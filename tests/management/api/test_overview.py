"""Overview, nodes and what the broker is: the keys that tools need, and that numbers add up."""

from __future__ import annotations

import os

import pytest

from tests.support.api_broker import ApiBroker

OVERVIEW_KEYS = {
    *("management_version", "rates_mode", "sample_retention_policies", "exchange_types"),
    *("product_version", "product_name", "rabbitmq_version", "cluster_name", "cluster_tags"),
    *("node_tags", "erlang_version", "erlang_full_version", "crypto_lib_version"),
    *("disable_stats", "default_queue_type", "is_op_policy_updating_enabled"),
    *("enable_queue_totals", "message_stats", "churn_rates", "queue_totals", "object_totals"),
    *("statistics_db_event_queue", "node", "listeners", "contexts"),
}
#: Of RabbitMQ 4.
MEMORY_KEYS = {
    *("connection_readers", "connection_writers", "connection_channels", "connection_other"),
    *("queue_procs", "quorum_queue_procs", "quorum_queue_dlx_procs", "stream_queue_procs"),
    *("stream_queue_replica_reader_procs", "stream_queue_coordinator_procs", "plugins"),
    *("metadata_store", "other_proc", "metrics", "mgmt_db", "mnesia", "quorum_ets"),
    *("metadata_store_ets", "other_ets", "binary", "msg_index", "code", "atom", "other_system"),
    *("allocated_unused", "reserved_unallocated", "strategy", "total"),
}
NODE_KEYS = {
    *("name", "type", "running", "uptime", "run_queue", "processors", "os_pid", "fd_used"),
    *("fd_total", "sockets_used", "sockets_total", "proc_used", "proc_total", "mem_used"),
    *("mem_limit", "mem_alarm", "mem_calculation_strategy", "disk_free", "disk_free_limit"),
    *("disk_free_alarm", "rates_mode", "net_ticktime", "enabled_plugins", "auth_mechanisms"),
    *("applications", "contexts", "partitions", "being_drained", "db_dir", "log_files"),
    "config_files",
}


@pytest.mark.acceptance
def test_the_overview_has_what_tools_need(broker: ApiBroker) -> None:
    found = broker.get("/overview")
    assert set(found) >= OVERVIEW_KEYS
    assert found["rabbitmq_version"] == broker.get("/version")
    assert found["cluster_name"] == broker.get("/cluster-name")["name"]
    protocols = {(each["protocol"], each["port"]) for each in found["listeners"]}
    assert protocols == {
        ("amqp", broker.thread.address[1]),
        ("http", int(broker.url.rpartition(":")[2])),
    }
    assert set(found["churn_rates"]) >= {
        f"{what}{suffix}"
        for what in (
            *("connection_created", "connection_closed", "channel_created", "channel_closed"),
            *("queue_declared", "queue_created", "queue_deleted"),
        )
        for suffix in ("", "_details")
    }
    for name in ("direct", "fanout", "topic", "headers", "x-delayed-message"):
        assert name in {each["name"] for each in found["exchange_types"]}


@pytest.mark.acceptance
def test_feature_flags_are_enabled_already(broker: ApiBroker) -> None:
    for flag in broker.get("/feature-flags"):
        place = f"/feature-flags/{flag['name']}/enable"
        assert broker.ask("PUT", place, json={}).status_code == 204
    assert broker.refused("/feature-flags/nope/enable", method="PUT")[0] == 400
    assert broker.get("/queues/detailed") == broker.get("/queues")
    place = "/feature-flags/stream_queue/enable"
    assert broker.refused(place, "monitor", method="PUT")[0] == 401


def test_totals_are_sums_over_all_objects(broker: ApiBroker) -> None:
    before = broker.get("/overview")
    connection = broker.connect()
    channel = connection.channel()
    channel.queue_declare("counted", durable=True)
    for _ in range(4):
        channel.basic_publish("", "counted", b"")
    channel.basic_get("counted")
    channel.queue_declare("counted", passive=True)
    after = broker.get("/overview")

    def grown(part: str, name: str) -> int:
        return int(after[part][name] - before[part].get(name, 0))

    assert {name: grown("object_totals", name) for name in after["object_totals"]} == {
        "connections": 1,
        "channels": 1,
        "consumers": 0,
        "exchanges": 0,
        "queues": 1,
    }
    assert grown("queue_totals", "messages") == 4
    assert grown("queue_totals", "messages_ready") == 3
    assert grown("queue_totals", "messages_unacknowledged") == 1
    assert "rate" in after["queue_totals"]["messages_details"]
    assert grown("churn_rates", "connection_created") == 1
    assert grown("churn_rates", "queue_created") == 1


@pytest.mark.acceptance
def test_counters_of_messages_are_those_of_the_last_sample(broker: ApiBroker) -> None:
    channel = broker.connect().channel()
    channel.queue_declare("sampled", durable=True)
    before = broker.get("/overview")["message_stats"].get("publish", 0)
    for _ in range(5):
        channel.basic_publish("", "sampled", b"")
    found = broker.wait_for(
        "/overview",
        lambda found: found["message_stats"].get("publish", 0) >= before + 5,
        "a sample",
    )
    assert "rate" in found["message_stats"]["publish_details"]
    of_user = broker.get("/overview", "manager")
    assert of_user["message_stats"]["publish"] >= 5
    assert of_user["churn_rates"] == {}


def test_statistics_can_be_left_out(broker: ApiBroker) -> None:
    found = broker.get("/overview?disable_stats=true")
    assert (found["queue_totals"], found["object_totals"]) == ({}, {})
    assert found["node"]


def test_the_only_node_is_this_process(broker: ApiBroker) -> None:
    [listed] = broker.get("/nodes")
    assert set(listed) >= NODE_KEYS
    assert listed["os_pid"] == str(os.getpid())
    assert listed["mem_used"] > 1_000_000
    assert listed["disk_free"] > 0
    assert "rabbitmq_delayed_message_exchange" in listed["enabled_plugins"]
    assert listed["exchange_types"] == broker.get("/overview")["exchange_types"]
    name = broker.get("/overview")["node"]
    one = broker.get(f"/nodes/{name}?memory=true")
    assert set(one) >= NODE_KEYS
    assert one["memory"]["total"]["rss"] > 1_000_000
    memory = broker.get(f"/nodes/{name}/memory")["memory"]
    assert set(memory) == MEMORY_KEYS
    assert sum(each for each in memory.values() if isinstance(each, int)) == memory["total"]["rss"]
    relative = broker.get(f"/nodes/{name}/memory/relative")["memory"]
    assert set(relative) == MEMORY_KEYS - {"strategy"}
    assert (relative["total"], relative["binary"]) == (100, 0)
    assert 95 <= relative["other_system"] <= 100
    assert broker.refused("/nodes/other@node")[0] == 404


def test_memory_of_queues_is_told_by_their_type(broker: ApiBroker) -> None:
    def parts() -> dict[str, int]:
        return dict(broker.get(f"/nodes/{name}/memory")["memory"])

    name = broker.get("/overview")["node"]
    channel = broker.connect().channel()
    channel.confirm_delivery()
    before = parts()
    kinds = {"classic": "queue_procs", "quorum": "quorum_queue_procs"}
    for kind, part in {**kinds, "stream": "stream_queue_procs"}.items():
        channel.queue_declare(kind, durable=True, arguments={"x-queue-type": kind})
        channel.basic_publish("", kind, b"x" * 20_000)
        after = parts()
        grown = [each for each in MEMORY_KEYS - {"strategy", "total"} if after[each] > before[each]]
        assert set(grown) - {"other_system"} == {part}
        assert after[part] - before[part] >= 20_000
        channel.queue_delete(kind)
        before = parts()


def test_logins_are_counted(broker: ApiBroker) -> None:
    name = broker.get("/overview")["node"]
    [before] = broker.get(f"/auth/attempts/{name}", "monitor")
    broker.connect()
    [after] = broker.get(f"/auth/attempts/{name}", "monitor")
    assert after["auth_attempts_succeeded"] == before["auth_attempts_succeeded"] + 1
    assert after["auth_attempts_failed"] == before["auth_attempts_failed"]
    assert broker.refused(f"/auth/attempts/{name}", "manager")[0] == 401


@pytest.mark.acceptance
def test_flags_and_features_are_true(broker: ApiBroker) -> None:
    flags = {each["name"]: each for each in broker.get("/feature-flags")}
    assert flags["detailed_queues_endpoint"]["state"] == "enabled"
    assert flags["quorum_queue"]["state"] == "enabled"
    features = {each["name"]: each["state"] for each in broker.get("/deprecated-features")}
    assert features["transient_nonexcl_queues"] == "permitted"
    assert features["classic_queue_mirroring"] == "denied"

    def used() -> set[str]:
        return {each["name"] for each in broker.get("/deprecated-features/used")}

    assert "global_qos" not in used()
    channel = broker.connect().channel()
    channel.basic_qos(prefetch_count=5, global_qos=True)
    channel.queue_declare("transient", auto_delete=True)
    assert used() >= {"global_qos", "transient_nonexcl_queues"}


@pytest.mark.parametrize(
    ("path", "expected"), [("/extensions", []), ("/auth", {"oauth_enabled": False})]
)
def test_what_there_is_not_is_said_so(broker: ApiBroker, path: str, expected: object) -> None:
    assert broker.get(path) == expected
