"""Connections, channels and consumers over HTTP, and closing connections with a reason."""

from __future__ import annotations

import pika
import pika.exceptions
import pytest

from hareline.server.broker import Broker
from tests.support.api_broker import ApiBroker, segment
from tests.support.waiting import wait_for

CONNECTION_KEYS = {
    *("name", "node", "user", "vhost", "protocol", "state", "type", "ssl", "channels"),
    *("peer_host", "peer_port", "host", "port", "auth_mechanism", "connected_at", "timeout"),
    *("frame_max", "channel_max", "client_properties", "recv_oct", "recv_cnt", "send_oct"),
    *("send_cnt", "send_pend", "recv_oct_details", "send_oct_details"),
}
CHANNEL_KEYS = {
    *("name", "number", "node", "user", "vhost", "state", "connection_details", "confirm"),
    *("transactional", "prefetch_count", "global_prefetch_count", "consumer_count"),
    *("messages_unacknowledged", "messages_unconfirmed", "messages_uncommitted"),
    "acks_uncommitted",
}
CONSUMER_KEYS = {
    *("consumer_tag", "active", "activity_status", "ack_required", "prefetch_count"),
    *("exclusive", "arguments", "consumer_timeout", "queue", "channel_details"),
}


@pytest.mark.acceptance
def test_a_connection_says_who_it_is(broker: ApiBroker) -> None:
    connection = broker.connect("manager", name="my program")
    connection.channel()
    name = broker.name_of(connection)
    row = broker.get(f"/connections/{segment(name)}")
    assert set(row) >= CONNECTION_KEYS
    assert (row["name"], row["user"], row["vhost"]) == (name, "manager", "/")
    assert row["user_provided_name"] == "my program"
    assert row["client_properties"]["connection_name"] == "my program"
    assert row["client_properties"]["capabilities"]["basic.nack"] is True
    assert (row["state"], row["channels"], row["auth_mechanism"]) == ("running", 1, "PLAIN")
    assert row["recv_oct"] > 0
    assert row["send_oct"] > 0
    assert row["connected_at"] > 1_600_000_000_000
    assert row in [
        {**each, **{key: row[key] for key in each if key.startswith(("recv", "send"))}}
        for each in broker.get("/connections")
    ]
    [named] = broker.get("/connections/username/manager")
    assert named["name"] == name


@pytest.mark.acceptance
def test_a_channel_says_what_it_is_doing(broker: ApiBroker) -> None:
    connection = broker.connect()
    channel = connection.channel()
    channel.confirm_delivery()
    channel.basic_qos(prefetch_count=7)
    channel.queue_declare("of-channel", durable=True)
    channel.basic_publish("", "of-channel", b"")
    channel.basic_consume("of-channel", lambda *_: None, consumer_tag="c")
    name = f"{broker.name_of(connection)} (1)"
    row = broker.wait_for(
        f"/channels/{segment(name)}", lambda row: row["messages_unacknowledged"], "a delivery"
    )
    assert set(row) >= CHANNEL_KEYS
    assert (row["number"], row["confirm"], row["transactional"]) == (1, True, False)
    assert (row["prefetch_count"], row["consumer_count"]) == (7, 1)
    assert row["connection_details"]["name"] == broker.name_of(connection)
    assert row["consumer_details"][0]["consumer_tag"] == "c"
    assert row["message_stats"]["publish"] == 1
    [listed] = broker.get(f"/connections/{segment(broker.name_of(connection))}/channels")
    assert listed["name"] == name
    assert name in {each["name"] for each in broker.get("/channels")}
    assert broker.refused(f"/channels/{segment(broker.name_of(connection))} (2)")[0] == 404


@pytest.mark.acceptance
def test_consumers_are_listed_with_queue_and_channel(broker: ApiBroker) -> None:
    connection = broker.connect()
    channel = connection.channel()
    channel.queue_declare("of-consumer", auto_delete=True)
    channel.basic_qos(prefetch_count=3)
    channel.basic_consume(
        "of-consumer", lambda *_: None, consumer_tag="it", arguments={"x-priority": 5}
    )
    [row] = [each for each in broker.get("/consumers/%2F") if each["consumer_tag"] == "it"]
    assert set(row) >= CONSUMER_KEYS
    assert row["queue"] == {"name": "of-consumer", "vhost": "/"}
    assert row["channel_details"] == {
        "name": f"{broker.name_of(connection)} (1)",
        "number": 1,
        "user": "admin",
        "connection_name": broker.name_of(connection),
        "user_provided_name": "",
        "peer_host": "127.0.0.1",
        "peer_port": row["channel_details"]["peer_port"],
        "node": broker.thread.ask(_node_name),
    }
    assert (row["prefetch_count"], row["arguments"], row["active"]) == (3, {"x-priority": 5}, True)
    assert row["activity_status"] == "up"
    assert row in broker.get("/consumers")
    assert None not in row.values(), "rabbitmqadmin cannot print a null in a table"


def _node_name(running: Broker) -> str:
    assert running._management is not None
    return running._management.site.node.name


# ----------------------------------------------------------------------------------- closing


def closed_by(connection: pika.BlockingConnection) -> tuple[int, str]:
    """What the broker said as it closed this connection."""
    with pytest.raises(pika.exceptions.ConnectionClosedByBroker) as closed:
        wait_for(lambda: connection.process_data_events(0.05), 60.0, "connection.close")
    return closed.value.reply_code, closed.value.reply_text


@pytest.mark.acceptance
def test_a_connection_is_closed_with_the_reason_of_the_header(
    broker: ApiBroker, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    connection = broker.connect()
    path = f"/connections/{segment(broker.name_of(connection))}"
    answer = broker.ask("DELETE", path, headers={"X-Reason": "mended — go".encode()})
    assert (answer.status_code, answer.content) == (204, b"")
    assert closed_by(connection) == (320, "CONNECTION_FORCED - mended — go")
    assert "user 'admin' closes the connection over HTTP: mended — go" in caplog.text
    broker.thread.wait_until(lambda running: not running.context.connections, "its end")
    assert broker.refused(path)[0] == 404
    assert broker.refused(path, method="DELETE")[0] == 404


@pytest.mark.acceptance
def test_a_reason_is_made_up_where_none_is_given_and_cut_where_it_is_long(
    broker: ApiBroker,
) -> None:
    first, second = broker.connect(), broker.connect()
    path = f"/connections/{segment(broker.name_of(first))}"
    assert broker.ask("DELETE", path).status_code == 204
    assert closed_by(first) == (320, "CONNECTION_FORCED - Closed via management plugin")
    path = f"/connections/{segment(broker.name_of(second))}"
    assert broker.ask("DELETE", path, headers={"X-Reason": "x" * 999}).status_code == 204
    code, text = closed_by(second)
    assert (code, len(text)) == (320, 255)


@pytest.mark.acceptance
def test_all_connections_of_a_user_are_closed(broker: ApiBroker) -> None:
    connections = [broker.connect("manager") for _ in range(3)]
    other = broker.connect("monitor")
    answer = broker.ask("DELETE", "/connections/username/manager", headers={"X-Reason": "all"})
    assert answer.status_code == 204
    for connection in connections:
        assert closed_by(connection) == (320, "CONNECTION_FORCED - all")
    other.process_data_events()
    assert other.is_open


@pytest.mark.acceptance
def test_users_close_their_own_connections_and_no_others(broker: ApiBroker) -> None:
    own, other = broker.connect("manager"), broker.connect("admin")
    path = f"/connections/{segment(broker.name_of(other))}"
    for user, status in (("manager", 404), ("monitor", 401)):
        assert broker.refused(path, user, "DELETE")[0] == status
    assert broker.refused("/connections/username/admin", "manager", "DELETE")[0] == 401
    other.process_data_events()
    assert other.is_open
    path = f"/connections/{segment(broker.name_of(own))}"
    assert broker.ask("DELETE", path, "manager").status_code == 204
    assert closed_by(own)[0] == 320
