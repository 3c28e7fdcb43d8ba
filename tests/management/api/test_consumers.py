"""Consumers over HTTP: which is stuck and since when, and how full their time is."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.api_broker import ApiBroker, segment


def fill(channel: Any, queue: str, count: int, **declared: Any) -> None:
    channel.queue_declare(queue, **declared)
    for _ in range(count):
        channel.basic_publish("", queue, b"m")


def of_queue(rows: list[dict[str, Any]], queue: str) -> dict[str, Any]:
    [row] = [each for each in rows if each["queue"]["name"] == queue]
    return row


@pytest.mark.acceptance
def test_a_consumer_with_a_full_prefetch_is_slow_while_messages_wait(broker: ApiBroker) -> None:
    channel = broker.connect().channel()
    fill(channel, "stuck", 3, auto_delete=True)
    channel.basic_qos(prefetch_count=2)
    channel.basic_consume("stuck", lambda *_: None, consumer_tag="holder")
    rows = broker.wait_for(
        "/consumers/%2F",
        lambda rows: of_queue(rows, "stuck").get("oldest_unacknowledged_age_s", -1) > 0.2,
        "an age of the oldest delivery",
    )
    row = of_queue(rows, "stuck")
    assert (row["is_slow"], row["slow_reason"]) == (True, "prefetch")
    assert (row["messages_unacknowledged"], row["credit"]) == (2, 0)
    channel.basic_ack(2, multiple=True)
    rows = broker.wait_for(
        "/consumers/%2F",
        lambda rows: of_queue(rows, "stuck")["messages_unacknowledged"] == 1,
        "the last message",
    )
    row = of_queue(rows, "stuck")
    assert (row["is_slow"], row.get("slow_reason")) == (False, None)


@pytest.mark.acceptance
def test_the_list_is_sorted_by_what_consumers_hold_longest(broker: ApiBroker) -> None:
    channel = broker.connect().channel()
    for name in ("older", "idle", "newer"):
        fill(channel, name, 0, auto_delete=True)
        channel.basic_consume(name, lambda *_: None, consumer_tag=name)
    for name in ("older", "newer"):
        channel.basic_publish("", name, b"m")
        broker.wait_for(
            f"/queues/%2F/{name}",
            lambda row: row["oldest_unacknowledged_age_s"] is not None,
            "a sample that has seen the delivery",
        )
    path = "/consumers/%2F?sort=oldest_unacknowledged_age_s&sort_reverse=true&page=1"
    rows = broker.get(path)["items"]
    found = [
        row["consumer_tag"] for row in rows if row["consumer_tag"] in ("older", "idle", "newer")
    ]
    assert found == ["older", "newer", "idle"]
    ages = [row.get("oldest_unacknowledged_age_s") for row in rows]
    assert ages[0] >= ages[1]
    queues = broker.get("/queues/%2F?sort=oldest_unacknowledged_age_s&sort_reverse=true&page=1")
    names = [row["name"] for row in queues["items"]]
    assert names.index("older") < names.index("newer") < names.index("idle")


@pytest.mark.acceptance
def test_a_queue_says_who_has_its_oldest_delivery(broker: ApiBroker) -> None:
    connection = broker.connect()
    channel = connection.channel()
    fill(channel, "held", 2, auto_delete=True)
    row = broker.get("/queues/%2F/held")
    assert (row["oldest_unacknowledged_age_s"], row["oldest_unacknowledged_by"]) == (None, None)
    assert channel.basic_get("held")[0] is not None
    name = broker.name_of(connection)
    by = {"consumer_tag": None, "channel": f"{name} (1)", "connection_name": name, "user": "admin"}
    broker.wait_for(
        "/queues/%2F/held",
        lambda row: row["oldest_unacknowledged_by"] == by,
        "the delivery that was got",
    )
    channel.basic_ack(1)
    channel.basic_consume("held", lambda *_: None, consumer_tag="holder")
    row = broker.wait_for(
        "/queues/%2F/held",
        lambda row: row["oldest_unacknowledged_by"] == {**by, "consumer_tag": "holder"},
        "the delivery to the consumer",
    )
    assert row["oldest_unacknowledged_age_s"] >= 0
    [listed] = [each for each in broker.get("/queues/%2F") if each["name"] == "held"]
    assert listed["oldest_unacknowledged_by"] == row["oldest_unacknowledged_by"]


@pytest.mark.acceptance
def test_the_capacity_of_consumers_is_that_of_the_last_samples(broker: ApiBroker) -> None:
    """A consumer that stops taking messages loses its capacity step by step, and not at once.

    Who looks rarely misses the steps.
    """
    channel = broker.connect().channel()
    fill(channel, "capacity", 0, auto_delete=True)
    assert broker.get("/queues/%2F/capacity")["consumer_capacity"] == 0
    channel.basic_qos(prefetch_count=1)
    channel.basic_consume("capacity", lambda *_: None)
    channel.basic_publish("", "capacity", b"m")
    row = broker.wait_for(
        "/queues/%2F/capacity", lambda row: row["oldest_unacknowledged_age_s"], "a sample"
    )
    assert (row["consumer_capacity"], row["consumer_utilisation"]) == (1, 1)
    channel.basic_publish("", "capacity", b"m")
    seen: list[float] = []

    def is_low(row: dict[str, Any]) -> bool:
        seen.append(row["consumer_capacity"])
        return seen[-1] < 0.3

    row = broker.wait_for("/queues/%2F/capacity", is_low, "a low capacity")
    assert seen == sorted(seen, reverse=True)
    assert any(0.3 < each < 1 for each in seen), seen
    path = "/queues/%2F?sort=consumer_capacity&columns=name,consumer_capacity&page=1&name=capacity"
    [listed] = broker.get(path)["items"]
    assert listed["consumer_capacity"] <= row["consumer_capacity"]
    text = broker.http.ask("GET", "/metrics/detailed?family=queue_metrics").text
    line = next(
        line
        for line in text.splitlines()
        if "queue_consumer_capacity" in line and 'queue="capacity"' in line
    )
    assert 0 <= float(line.rsplit(" ", 1)[1]) < 0.3


@pytest.mark.acceptance
def test_a_consumer_is_found_by_its_connection(broker: ApiBroker) -> None:
    connection = broker.connect()
    channel = connection.channel()
    fill(channel, "of-channel-details", 1, auto_delete=True)
    channel.basic_qos(prefetch_count=1)
    channel.basic_consume("of-channel-details", lambda *_: None, consumer_tag="c")
    row = broker.get(f"/channels/{segment(broker.name_of(connection) + ' (1)')}")
    [consumer] = row["consumer_details"]
    assert (consumer["is_slow"], consumer.get("slow_reason")) == (False, None)
