"""Exchanges over HTTP: lists, one, the default one, and what passed through them."""

from __future__ import annotations

import pytest

from tests.support.api_broker import OTHER, ApiBroker


@pytest.mark.acceptance
def test_a_list_has_the_predeclared_and_the_own_ones(broker: ApiBroker) -> None:
    channel = broker.connect().channel()
    channel.exchange_declare("own", "topic", durable=True, arguments={"alternate-exchange": "x"})
    found = {row["name"]: row for row in broker.get("/exchanges/%2F")}
    assert set(found) >= {"", "amq.direct", "amq.topic", "amq.rabbitmq.trace", "own"}
    own = found["own"]
    assert (own["type"], own["durable"], own["internal"]) == ("topic", True, False)
    assert own["arguments"] == {"alternate-exchange": "x"}
    assert found["amq.rabbitmq.trace"]["internal"] is True
    assert {row["vhost"] for row in broker.get("/exchanges")} == {"/", OTHER}


def test_the_default_exchange_has_a_name_in_paths(broker: ApiBroker) -> None:
    row = broker.get("/exchanges/%2F/amq.default")
    assert (row["name"], row["type"]) == ("", "direct")
    assert (row["incoming"], row["outgoing"]) == ([], [])


def test_an_exchange_that_is_missing_is_not_found(broker: ApiBroker) -> None:
    assert broker.refused("/exchanges/%2F/nope")[0] == 404


@pytest.mark.acceptance
def test_an_exchange_counts_what_passes(broker: ApiBroker) -> None:
    channel = broker.connect().channel()
    channel.exchange_declare("passed", "fanout", auto_delete=True)
    for name in ("passed-1", "passed-2"):
        channel.queue_declare(name, auto_delete=True)
        channel.queue_bind(name, "passed")
    for _ in range(3):
        channel.basic_publish("passed", "", b"")
    found = broker.wait_for(
        "/exchanges/%2F/passed",
        lambda row: row.get("message_stats", {}).get("publish_in") == 3,
        "a sample",
    )
    assert found["message_stats"]["publish_out"] == 6
    assert "rate" in found["message_stats"]["publish_in_details"]
    query = "/exchanges/%2F?sort=message_stats.publish_in_details.rate&columns=name"
    assert "passed" in {row["name"] for row in broker.get(query)}
