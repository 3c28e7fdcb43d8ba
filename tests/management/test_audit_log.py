"""The audit log: who did what over HTTP, from where, and what was refused; and no secret in it."""

from __future__ import annotations

import json
from typing import Any

import pika
import pytest
from pika.exceptions import ConnectionClosedByBroker

from tests.support.broker_process import BrokerProcess, StartDaemon
from tests.support.http_api import HttpApi, segment
from tests.support.waiting import wait_for

SECRETS = ("hunter2", "hunter3", "amqp://u:hunter4@host")
CONFIG = """
[log]
format = "json"
[auth]
failure_delay_s = 0
"""


def logged(broker: BrokerProcess, code: str) -> list[dict[str, Any]]:
    assert broker.log_path is not None
    lines = broker.log_path.read_text(encoding="utf-8").splitlines()
    found = [json.loads(line) for line in lines if line.startswith("{")]
    return [each for each in found if each.get("code") == code]


@pytest.mark.acceptance
def test_administrative_acts_are_logged_with_who_when_and_from_where(
    start_daemon: StartDaemon,
) -> None:
    broker = start_daemon(CONFIG)
    http = HttpApi(broker.management_url)
    everything = {"configure": ".*", "write": ".*", "read": ".*"}
    topic = {"exchange": "amq.topic", "write": "^a", "read": "^a"}
    policy = {"pattern": "^q", "definition": {"max-length": 10}}
    acts: list[tuple[str, str, str, object]] = [
        ("user.created", "PUT", "/users/bob", {"password": "hunter2", "tags": "management"}),
        ("user.password.changed", "PUT", "/users/bob", {"password": "hunter3", "tags": ""}),
        ("permission.created", "PUT", "/permissions/%2F/bob", everything),
        ("topic.permission.created", "PUT", "/topic-permissions/%2F/bob", topic),
        ("user.limits.set", "PUT", "/user-limits/bob/max-channels", {"value": 10}),
        ("vhost.created", "PUT", "/vhosts/shop", {}),
        ("vhost.metadata.set", "PUT", "/vhosts/shop", {"description": "of shoes"}),
        ("vhost.limits.set", "PUT", "/vhost-limits/shop/max-queues", {"value": 10}),
        ("policy.set", "PUT", "/policies/%2F/p", policy),
        ("parameter.set", "PUT", "/global-parameters/g", {"value": SECRETS[2]}),
        ("queue.created", "PUT", "/queues/%2F/q", {"durable": True}),
        ("queue.paused", "POST", "/queues/%2F/q/pause", None),
        ("queue.purged", "DELETE", "/queues/%2F/q/contents", None),
        ("definitions.exported", "GET", "/definitions", None),
        ("policy.cleared", "DELETE", "/policies/%2F/p", None),
        ("user.deleted", "DELETE", "/users/bob", None),
        ("vhost.deleted", "DELETE", "/vhosts/shop", None),
        ("queue.deleted", "DELETE", "/queues/%2F/q", None),
    ]
    for _, method, path, body in acts:
        assert http.ask(method, f"/api{path}", body).status_code < 300, (method, path)
    wanted = {act for act, *_ in acts}
    found = wait_for(lambda: _if(logged(broker, "ADM-1001"), wanted), 60, "a message for each act")
    for each in found:
        assert each["user"] == "guest", each
        assert each["via"] == "http", each
        assert each["address"].startswith("127.0.0.1:"), each
    [metadata] = [each for each in found if each["act"] == "vhost.metadata.set"]
    assert metadata["details"]["description"] == "of shoes"
    assert broker.log_path is not None
    texts = [broker.log_path, *broker.data_dir.glob("changes*.jsonl")]
    for file in texts:
        text = file.read_text(encoding="utf-8")
        assert not any(secret in text for secret in SECRETS), file
        assert "password_hash" not in text


def _if(found: list[dict[str, Any]], wanted: set[str]) -> list[dict[str, Any]] | None:
    return found if wanted <= {each["act"] for each in found} else None


@pytest.mark.acceptance
def test_what_ends_connections_of_others_and_takes_their_messages_is_logged(
    start_daemon: StartDaemon,
) -> None:
    broker = start_daemon(CONFIG)
    http = HttpApi(broker.management_url)
    connection = pika.BlockingConnection(pika.URLParameters(broker.url))
    channel = connection.channel()
    channel.queue_declare("q", durable=True)
    channel.confirm_delivery()
    for _ in range(3):
        channel.basic_publish("", "q", b"m")
    got = {"count": 1, "ackmode": "ack_requeue_false", "encoding": "auto"}
    http.done("POST", "/api/queues/%2F/q/get", got)
    assert http.ask("POST", "/api/queues/%2F/q/export", {}).status_code == 200
    [name] = [each["name"] for each in http.get("/api/connections")]
    http.done("DELETE", f"/api/connections/{segment(name)}")
    with pytest.raises(ConnectionClosedByBroker):
        wait_for(lambda: connection.process_data_events(0.1), 60, "the end of the connection")
    found = wait_for(
        lambda: _if(
            logged(broker, "ADM-1001"), {"messages.taken", "messages.exported", "connection.closed"}
        ),
        60,
        "a message for each act",
    )
    told = {each["act"]: each["details"] for each in found}
    assert told["messages.taken"] == {"vhost": "/", "name": "q", "messages": 1}
    assert told["messages.exported"] == {"vhost": "/", "name": "q", "messages": 2}
    assert (told["connection.closed"]["name"], told["connection.closed"]["of_user"]) == (
        name,
        "guest",
    )
    assert not any(each["act"] == "queue.created" for each in found)  # a client's, over AMQP


@pytest.mark.acceptance
def test_acts_that_are_refused_are_logged_and_looks_are_not(start_daemon: StartDaemon) -> None:
    broker = start_daemon(CONFIG)
    http = HttpApi(broker.management_url)
    http.done("PUT", "/api/users/low", {"password": "low", "tags": "management"})
    nothing = {"configure": "^$", "write": "^$", "read": "^$"}
    http.done("PUT", "/api/permissions/%2F/low", nothing)
    low = HttpApi(broker.management_url, "low", "low")
    assert low.ask("PUT", "/api/users/mine", {"password": "x", "tags": ""}).status_code == 401
    assert low.ask("PUT", "/api/queues/%2F/q", {}).status_code == 401
    assert low.ask("POST", "/api/replay", {}).status_code == 403
    assert low.ask("GET", "/api/users").status_code == 401
    stranger = HttpApi(broker.management_url, "low", "wrong")
    assert stranger.ask("PUT", "/api/queues/%2F/q", {}).status_code == 401
    wait_for(lambda: len(logged(broker, "ADM-1006")) >= 3, 60, "refusals")
    found = logged(broker, "ADM-1006")
    assert [(each["user"], each["request"], each["status"]) for each in found] == [
        ("low", "PUT /api/users/mine", 401),
        ("low", "PUT /api/queues/%2F/q", 401),
        ("low", "POST /api/replay", 403),
    ]
    assert all(each["address"].startswith("127.0.0.1:") for each in found)
    assert "configure access to queue 'q'" in found[1]["reason"]
