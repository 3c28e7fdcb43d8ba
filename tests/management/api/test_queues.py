"""Queues over HTTP: what each says of itself, lists, filters, and what tools read of them."""

from __future__ import annotations

from typing import Any, cast

import pika
import pytest
from starlette.requests import Request

from hareline.amqp.connection import Connection
from hareline.management.api.call import Call
from hareline.management.api.connections import (
    describe_channels,
    describe_connections,
    describe_consumer,
)
from hareline.management.api.queues import Queues
from hareline.management.api.rates import Rates
from hareline.net.shell import ConnectionShell
from hareline.server.broker import Broker
from tests.support.api_broker import OTHER, ApiBroker, segment

#: What RabbitMQ 4's clients in Rust take for granted, and what Flower, KEDA and exporters read.
NEEDED = {
    *("name", "vhost", "type", "durable", "auto_delete", "exclusive", "arguments", "node"),
    *("state", "messages", "messages_ready", "messages_unacknowledged", "consumers", "memory"),
    *("messages_ram", "messages_persistent", "message_bytes", "consumer_utilisation"),
    *("head_message_timestamp", "policy", "idle_since", "messages_details"),
}


@pytest.mark.acceptance
def test_a_queue_says_what_is_in_it_and_who_takes_it(broker: ApiBroker) -> None:
    connection = broker.connect(name="shown")
    channel = connection.channel()
    channel.queue_declare("shown", durable=True, arguments={"x-max-length": 10})
    for _ in range(3):
        channel.basic_publish("", "shown", b"12345")
    channel.basic_qos(prefetch_count=1)
    channel.basic_consume("shown", lambda *_: None, consumer_tag="taker")
    found = broker.wait_for(
        "/queues/%2F/shown",
        lambda row: row["messages_unacknowledged"] == 1,
        "a delivery",
    )
    assert set(found) >= NEEDED
    assert (found["messages"], found["messages_ready"]) == (3, 2)
    assert found["message_bytes_ready"] == 10
    assert found["arguments"] == {"x-max-length": 10}
    assert (found["type"], found["durable"], found["exclusive"]) == ("classic", True, False)
    assert (found["consumers"], found["state"]) == (1, "running")
    [consumer] = found["consumer_details"]
    assert consumer["consumer_tag"] == "taker"
    assert consumer["channel_details"]["connection_name"] == broker.name_of(connection)
    assert consumer["queue"] == {"name": "shown", "vhost": "/"}
    assert (found["deliveries"], found["incoming"]) == ([], [])
    stats = found["message_stats"]
    assert (stats["publish"], stats["deliver"], stats["deliver_get"]) == (3, 1, 1)
    assert isinstance(stats["publish_details"]["rate"], float)
    assert isinstance(stats["deliver_get_details"]["rate"], float)


def test_an_exclusive_queue_names_its_connection_and_consumers_their_exclusiveness(
    broker: ApiBroker,
) -> None:
    connection = broker.connect()
    channel = connection.channel()
    name = channel.queue_declare("", exclusive=True).method.queue
    channel.basic_consume(name, lambda *_: None, consumer_tag="only", exclusive=True)
    row = broker.get(f"/queues/%2F/{name}")
    assert row["exclusive"] is True
    assert row["owner_pid_details"]["name"] == broker.name_of(connection)
    assert row["exclusive_consumer_tag"] == "only"
    assert row["consumer_details"][0]["exclusive"] is True


def test_of_a_single_active_consumer_the_others_wait(broker: ApiBroker) -> None:
    channel = broker.connect().channel()
    channel.queue_declare("single", arguments={"x-single-active-consumer": True})
    for tag in ("first", "second"):
        channel.basic_consume("single", lambda *_: None, consumer_tag=tag)
    row = broker.get("/queues/%2F/single")
    assert row["single_active_consumer_tag"] == "first"
    states = {each["consumer_tag"]: each["activity_status"] for each in row["consumer_details"]}
    assert states == {"first": "single_active", "second": "waiting"}


@pytest.mark.parametrize(
    ("kind", "arguments"), [("quorum", {}), ("stream", {"x-max-age": "1D"}), ("classic", {})]
)
def test_the_type_of_a_queue_is_named(
    broker: ApiBroker, kind: str, arguments: dict[str, Any]
) -> None:
    channel = broker.connect().channel()
    channel.queue_declare(f"of-{kind}", durable=True, arguments={"x-queue-type": kind, **arguments})
    row = broker.get(f"/queues/%2F/of-{kind}")
    assert row["type"] == kind
    assert ("incarnation" in row) == (kind == "stream")


@pytest.mark.acceptance
def test_names_with_anything_in_them_are_found(broker: ApiBroker) -> None:
    channel = broker.connect().channel()
    for name in ("a/b", "ä ö", "100%", "q?x=1", "a+b", "#"):
        channel.queue_declare(name, auto_delete=True)
        row = broker.get(f"/queues/%2F/{segment(name)}")
        assert row["name"] == name
        assert name in {each["name"] for each in broker.get("/queues/%2F")}


def test_a_queue_that_is_missing_is_not_found(broker: ApiBroker) -> None:
    assert broker.refused("/queues/%2F/nope") == (
        404,
        {"error": "Object Not Found", "reason": "Not Found"},
    )


@pytest.mark.acceptance
def test_lists_are_of_all_virtual_hosts_or_of_one(broker: ApiBroker) -> None:
    for vhost, user in (("/", "admin"), (OTHER, "elsewhere")):
        broker.connect(user, vhost).channel().queue_declare("listed", auto_delete=True)
    for path in ("/queues", "/queues/", "/queues/detailed"):
        rows = [row for row in broker.get(path) if row["name"] == "listed"]
        assert [row["vhost"] for row in rows] == ["/", OTHER]
    assert {row["vhost"] for row in broker.get(f"/queues/{OTHER}")} == {OTHER}


@pytest.mark.acceptance
def test_a_list_is_of_one_type_if_asked(broker: ApiBroker) -> None:
    for name, kind in (("typed.a", "stream"), ("typed.b", "quorum"), ("typed.c", "classic")):
        arguments = {} if kind == "classic" else {"x-queue-type": kind}
        body = {"durable": True, "arguments": arguments}
        broker.ask("PUT", f"/queues/%2F/{name}", json=body)
    for kind, name in (("stream", "typed.a"), ("quorum", "typed.b"), ("classic", "typed.c")):
        page = broker.get(f"/queues?type={kind}&page=1&name=typed")
        assert [each["name"] for each in page["items"]] == [name]
        assert {each["type"] for each in broker.get(f"/queues/%2F?type={kind}")} == {kind}
    assert broker.get("/queues?type=none") == []


@pytest.mark.acceptance
def test_a_stream_says_how_far_behind_its_readers_are(broker: ApiBroker) -> None:
    channel = broker.connect().channel()
    channel.queue_declare("read", durable=True, arguments={"x-queue-type": "stream"})
    channel.confirm_delivery()
    for _ in range(4):
        channel.basic_publish("", "read", b"x")
    assert _reading(broker) == (0, 0)
    for name, offset in (("near", 3), ("far", 1)):
        broker.ask("PUT", f"/stream/%2F/read/readers/{name}", json={"offset": offset})
    assert _reading(broker) == (2, 3)
    (listed,) = broker.get("/queues?type=stream&name=read&use_regex=false&columns=readers")
    assert listed == {"readers": 2}


def _reading(broker: ApiBroker) -> tuple[int, int]:
    queue = broker.get("/queues/%2F/read")
    return queue["readers"], queue["reader_lag_max"]


def test_a_queue_that_looks_at_ids_shows_how_many_and_its_duplicates(broker: ApiBroker) -> None:
    channel = broker.connect().channel()
    channel.queue_declare("once", arguments={"x-message-deduplication": True})
    channel.confirm_delivery()
    for message_id in ("a", "b", "a"):
        properties = pika.BasicProperties(message_id=message_id)
        channel.basic_publish("", "once", b"x", properties)
    queue = broker.get("/queues/%2F/once")
    assert (queue["known_ids"], queue["duplicates"], queue["messages"]) == (2, 1, 2)


def test_a_list_without_statistics_has_only_what_was_declared(broker: ApiBroker) -> None:
    broker.connect().channel().queue_declare("bare", auto_delete=True)
    query = "/queues/%2F?page=1&name=bare&disable_stats=true"
    [bare] = broker.get(query)["items"]
    assert "messages" not in bare
    assert bare["auto_delete"] is True
    [totals] = broker.get(f"{query}&enable_queue_totals=true")["items"]
    assert totals["messages"] == 0
    assert "message_stats" not in totals
    assert "memory" not in totals


def test_a_list_is_sorted_by_depth_and_by_rate(broker: ApiBroker) -> None:
    channel = broker.connect().channel()
    for depth in (2, 0, 5):
        channel.queue_declare(f"depth-{depth}", auto_delete=True)
        for _ in range(depth):
            channel.basic_publish("", f"depth-{depth}", b"")
    channel.queue_declare("depth-barrier")

    def names(query: str) -> list[str]:
        found = broker.get(f"/queues/%2F?name=depth-%5Cd&use_regex=true&page=1&{query}")
        return [row["name"] for row in found["items"]]

    expected = ["depth-5", "depth-2", "depth-0"]
    assert names("sort=messages&sort_reverse=true") == expected
    assert names("sort=messages_ready&sort_reverse=true") == expected
    assert names("sort=message_bytes") == ["depth-0", "depth-2", "depth-5"]
    assert sorted(names("sort=message_stats.publish_details.rate")) == sorted(expected)


def test_columns_are_chosen_in_lists_and_of_one_queue(broker: ApiBroker) -> None:
    broker.connect().channel().queue_declare("columns", auto_delete=True)
    columns = "columns=name,messages_details.rate"
    assert broker.get(f"/queues/%2F/columns?{columns}") == {
        "name": "columns",
        "messages_details": {"rate": 0.0},
    }
    [row] = broker.get(f"/queues?name=columns&page=1&{columns}")["items"]
    assert set(row) == {"name", "messages_details"}


def _has_published(row: Any) -> bool:
    return bool(row.get("message_stats", {}).get("publish"))


def test_samples_of_a_time_span_come_with_averages(broker: ApiBroker) -> None:
    broker.connect().channel().queue_declare("sampled", auto_delete=True)
    row = broker.get("/queues/%2F/sampled?lengths_age=60&lengths_incr=5")
    assert set(row["messages_details"]) == {"rate", "samples", "avg", "avg_rate"}
    broker.connect().channel().basic_publish("", "sampled", b"x")
    rates = "msg_rates_age=60&msg_rates_incr=5"
    for path in ("/overview", "/queues/%2F/sampled"):
        found = broker.wait_for(f"{path}?{rates}", _has_published, "a sample of the publish")
        details = found["message_stats"]["publish_details"]
        assert set(details) == {"rate", "samples", "avg", "avg_rate"}
        plain = broker.get(path)["message_stats"]["publish_details"]
        assert set(plain) == {"rate"}  # as in RabbitMQ
    status, refusal = broker.refused("/queues/%2F/sampled?lengths_age=x&lengths_incr=5")
    assert (status, refusal["error"]) == (400, "bad_request")
    assert "lengths_age" in refusal["reason"]


def test_what_ends_while_a_list_is_made_is_described_as_it_was(broker: ApiBroker) -> None:
    connection = broker.connect()
    channel = connection.channel()
    channel.queue_declare("ended", exclusive=True, arguments={"x-single-active-consumer": True})
    channel.basic_consume("ended", lambda *_: None)

    def describe_after_the_end(running: Broker) -> list[dict[str, Any]]:
        assert running._management is not None
        site = running._management.site
        request = Request({"type": "http", "query_string": b"", "headers": []})
        call = Call(site, request, cast("Any", None))
        rates = Rates(call)
        [live] = running.context.connections
        assert isinstance(live, Connection)
        [found] = live.channels.by_number.values()
        [consumer] = found.consumers.by_tag.values()
        vhost = running.context.vhosts["/"]
        queue = vhost.queues["ended"]
        shell = live.transport
        assert isinstance(shell, ConnectionShell)
        shell.abort()
        shell.connection_lost(None)
        assert queue.is_deleted
        return [
            Queues(call).describe((vhost, queue)),
            describe_channels(site, rates)(found),
            describe_connections(site, rates)(live),
            describe_consumer(site, live, consumer),
        ]

    rows = broker.thread.ask(describe_after_the_end)
    assert [row.get("name") for row in rows[:2]] == ["ended", f"{broker.name_of(connection)} (1)"]
    assert rows[0]["type"] == "classic"
    assert rows[2]["state"] == "closed"
    assert rows[3]["queue"]["name"] == "ended"


# ------------------------------------------------------------------------------------ tools


def test_keda_reads_one_queue_and_queues_by_an_expression(broker: ApiBroker) -> None:
    channel = broker.connect().channel()
    for name in ("keda-a", "keda-b"):
        channel.queue_declare(name, auto_delete=True)
        channel.basic_publish("", name, b"work")
    channel.queue_declare("keda-barrier", auto_delete=True)
    row = broker.get("/queues/%2F/keda-a", "manager")
    assert (row["messages"], row["messages_ready"], row["messages_unacknowledged"]) == (1, 1, 0)
    assert row["message_stats"]["publish_details"]["rate"] >= 0
    assert "deliver_get" not in row["message_stats"], "as in RabbitMQ, where KEDA takes it for 0"
    # https://keda.sh: useRegex, operation sum
    found = broker.get(
        "/queues/%2F?page=1&use_regex=true&pagination=false&name=%5Ekeda-%5Bab%5D%24&page_size=100",
        "manager",
    )
    assert found["page_count"] == 1
    assert [row["messages"] for row in found["items"]] == [1, 1]


@pytest.mark.acceptance
def test_flower_reads_the_queues_of_a_virtual_host(broker: ApiBroker) -> None:
    broker.connect().channel().queue_declare("celery", durable=True)
    # flower/utils/broker.py
    found = {row["name"]: row for row in broker.get("/queues/%2F", "manager")}
    for key in ("name", "messages", "messages_unacknowledged", "messages_ready", "consumers"):
        assert key in found["celery"]
    assert "T" in found["celery"]["idle_since"]
