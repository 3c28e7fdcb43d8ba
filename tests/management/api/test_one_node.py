"""What tools ask of clusters, over real HTTP: done at once by one node, for those who may ask."""

from __future__ import annotations

from typing import Any

import pika
import pytest

from hareline.settings import Identity
from tests.support.api_broker import PASSWORD, ApiBroker, api_broker, api_settings, segment
from tests.support.raw_client import RawClient
from tests.support.waiting import wait_for


@pytest.mark.acceptance
def test_queues_are_balanced_already(broker: ApiBroker) -> None:
    assert broker.ask("POST", "/rebalance/queues").status_code == 204
    assert broker.ask("POST", "/rebalance/queues", "monitor").status_code == 401


def test_mirrors_are_synchronised_already(broker: ApiBroker) -> None:
    broker.connect().channel().queue_declare("acted-on", durable=True)
    path = "/queues/%2F/acted-on/actions"
    for action in ("sync", "cancel_sync"):
        assert broker.ask("POST", path, json={"action": action}).status_code == 204
    refused = broker.ask("POST", path, json={"action": "dance"})
    assert refused.status_code == 400
    assert refused.json()["reason"] == "action: 'dance' is not one of sync and cancel_sync"
    assert broker.ask("POST", path, json={}).status_code == 400
    assert broker.ask("POST", path, "manager", json={"action": "sync"}).status_code == 401
    missing = broker.ask("POST", "/queues/%2F/nope/actions", json={"action": "sync"})
    assert missing.status_code == 404


def test_the_settings_in_force_are_shown_without_passwords(broker: ApiBroker) -> None:
    found = broker.get("/config/effective")
    assert found["limits"]["channel_max"] == 2047
    assert found["management"]["sample_interval_s"] == 0.2
    assert [each["name"] for each in found["vhosts"]] == ["/", "other"]
    assert "users" not in found
    assert PASSWORD not in broker.ask("GET", "/config/effective").text
    assert broker.get("/config/effective?columns=auth.failure_delay_s") == {
        "auth": {"failure_delay_s": 0}
    }
    assert broker.refused("/config/effective", "monitor")[0] == 401


def test_logins_are_not_told_by_address(broker: ApiBroker) -> None:
    node = segment(broker.get("/overview")["node"])
    assert broker.get(f"/auth/attempts/{node}/source") == []
    assert broker.refused(f"/auth/attempts/{node}/source", "manager")[0] == 401
    assert broker.refused("/auth/attempts/nope/source")[0] == 404


@pytest.mark.acceptance
def test_the_old_check_finds_the_node_by_its_name(broker: ApiBroker) -> None:
    node = segment(broker.get("/overview")["node"])
    assert broker.get(f"/healthchecks/node/{node}", "manager") == {"status": "ok"}
    assert broker.refused("/healthchecks/node/nope")[0] == 404


# ------------------------------------------------------------------------ the cluster's name


def server_properties(connection: pika.BlockingConnection) -> dict[str, Any]:
    properties: dict[str, Any] = connection._impl.server_properties
    return properties


@pytest.mark.acceptance
def test_a_new_name_is_told_to_tools_and_new_connections(broker: ApiBroker) -> None:
    before = broker.get("/cluster-name")["name"]
    assert broker.ask("PUT", "/cluster-name", json={"name": "harbour"}).status_code == 204
    try:
        assert broker.get("/cluster-name") == {"name": "harbour"}
        assert broker.get("/overview")["cluster_name"] == "harbour"
        assert server_properties(broker.connect())["cluster_name"] == "harbour"
        exported = broker.get("/definitions")
        assert exported["original_cluster_name"] == "harbour"
        assert {"name": "cluster_name", "value": "harbour"} in exported["global_parameters"]
    finally:
        assert broker.ask("DELETE", "/global-parameters/cluster_name").status_code == 204
    assert broker.get("/cluster-name")["name"] == before
    for body in ({}, {"name": ""}, {"name": 5}):
        assert broker.ask("PUT", "/cluster-name", json=body).status_code == 400
    refused = broker.ask("PUT", "/cluster-name", "monitor", json={"name": "quay"})
    assert refused.status_code == 401


@pytest.mark.acceptance
def test_a_name_of_the_settings_stays() -> None:
    with api_broker(api_settings(identity=Identity(cluster_name="quay"))) as broker:
        refused = broker.ask("PUT", "/cluster-name", json={"name": "harbour"})
        assert refused.status_code == 409
        assert "[identity] cluster_name" in refused.json()["reason"]
        assert broker.ask("PUT", "/cluster-name", json={"name": "quay"}).status_code == 204
        assert broker.get("/cluster-name") == {"name": "quay"}


# ------------------------------------------------------------------------ the end of a consumer


def place_of(broker: ApiBroker, connection: pika.BlockingConnection, tag: str) -> str:
    return f"/consumers/%2F/{segment(broker.name_of(connection))}/1/{tag}"


@pytest.mark.acceptance
def test_a_cancelled_consumer_is_told_and_its_messages_stay(broker: ApiBroker) -> None:
    connection = broker.connect("manager")
    channel = connection.channel()
    channel.queue_declare("cancelled-on")
    told: list[str] = []
    channel.add_on_cancel_callback(lambda frame: told.append(frame.method.consumer_tag))
    tag = channel.basic_consume("cancelled-on", lambda *_: None)
    kept = channel.basic_consume("cancelled-on", lambda *_: None)
    place = place_of(broker, connection, tag)
    assert broker.ask("DELETE", place, "policymaker").status_code == 404
    assert broker.ask("DELETE", place, "monitor").status_code == 401
    assert broker.ask("DELETE", place).status_code == 204
    assert broker.ask("DELETE", place).status_code == 404
    wait_for(lambda: _after_events(connection, told), 60.0, "basic.cancel")
    assert told == [tag]
    left = broker.get("/queues/%2F/cancelled-on")["consumer_details"]
    assert [each["consumer_tag"] for each in left] == [kept]
    assert broker.ask("DELETE", place_of(broker, connection, kept), "manager").status_code == 204
    channel.basic_publish("", "cancelled-on", b"x")
    assert channel.basic_get("cancelled-on", auto_ack=True)[2] == b"x"


def _after_events(connection: pika.BlockingConnection, told: list[str]) -> list[str]:
    connection.process_data_events(0.1)
    return told


def test_the_last_consumer_of_an_auto_delete_queue_takes_it_along(broker: ApiBroker) -> None:
    connection = broker.connect()
    channel = connection.channel()
    channel.queue_declare("goes-too", auto_delete=True)
    tag = channel.basic_consume("goes-too", lambda *_: None)
    assert broker.ask("DELETE", place_of(broker, connection, tag)).status_code == 204
    assert broker.refused("/queues/%2F/goes-too")[0] == 404
    assert channel.is_open


@pytest.mark.parametrize("place", ["nope/1/t", "{name}/2/{tag}", "{name}/1/nope"])
def test_a_consumer_that_is_not_there_is_not_found(broker: ApiBroker, place: str) -> None:
    connection = broker.connect()
    channel = connection.channel()
    channel.queue_declare("not-found", exclusive=True)
    tag = channel.basic_consume("not-found", lambda *_: None)
    path = place.format(name=segment(broker.name_of(connection)), tag=tag)
    assert broker.refused(f"/consumers/%2F/{path}", method="DELETE")[0] == 404
    there = f"{segment(broker.name_of(connection))}/1/{tag}"
    assert broker.refused(f"/consumers/other/{there}", method="DELETE")[0] == 404


@pytest.mark.acceptance
def test_a_client_that_does_not_take_basic_cancel_is_not_left_waiting(broker: ApiBroker) -> None:
    with RawClient(broker.thread.address) as client:
        client.open("admin", PASSWORD, capabilities={})
        client.declare("not-told", exclusive=True)
        client.consume("not-told", tag="t")
        [consumer] = broker.get("/consumers/%2F?name=not-told")
        name = consumer["channel_details"]["connection_name"]
        status, body = broker.refused(f"/consumers/%2F/{segment(name)}/1/t", method="DELETE")
        assert status == 400
        assert "close the connection instead" in body["reason"]
        assert broker.get("/consumers/%2F?name=not-told")
