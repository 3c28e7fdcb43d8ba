"""``hareline migrate`` from what LavinMQ answers, replayed: no LavinMQ is run here.

Its HTTP API is scripted after LavinMQ 2.9: pages of queues, definitions with its version and no
RabbitMQ's, delayed exchanges by its own name, operator policies as parameters, bcrypt hashes. Its
AMQP port is played by a second Hareline.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pika
import pytest

from tests.support.broker_process import BrokerProcess, StartDaemon
from tests.support.command_line import CommandLine
from tests.support.http_api import HttpApi
from tests.support.scripted_api import ScriptedApi, scripted_api

QUEUE = {"vhost": "/", "durable": True, "auto_delete": False, "exclusive": False}
DEFINITIONS: dict[str, Any] = {
    "lavinmq_version": "2.9.1",
    "users": [
        {
            "name": "ann",
            "password_hash": "$2a$05$abcdefghijklmnopqrstuv",
            "hashing_algorithm": "lavinmq_bcrypt",
            "tags": ["management"],
        },
    ],
    "vhosts": [{"name": "/", "dir": "42099b4af021e53fd8fd4e056c2568d7c2e3ffa8"}],
    "permissions": [
        {"user": "guest", "vhost": "/", "configure": ".*", "read": ".*", "write": ".*"}
    ],
    "queues": [
        {**QUEUE, "name": "orders", "arguments": {"x-max-length": 100}},
        {**QUEUE, "name": "log", "arguments": {"x-queue-type": "stream"}},
    ],
    "exchanges": [
        {
            "name": "later",
            "vhost": "/",
            "type": "x-delayed-exchange",
            "durable": True,
            "auto_delete": False,
            "internal": False,
            "arguments": {"x-delayed-type": "topic"},
        },
    ],
    "bindings": [
        {
            "source": "",
            "vhost": "/",
            "destination": "orders",
            "destination_type": "queue",
            "routing_key": "orders",
            "arguments": {},
            "properties_key": "orders",
        },
        {
            "source": "later",
            "vhost": "/",
            "destination": "orders",
            "destination_type": "queue",
            "routing_key": "a.#",
            "arguments": None,
            "properties_key": "a.#",
        },
    ],
    "policies": [
        {
            "vhost": "/",
            "name": "p",
            "pattern": "^orders",
            "apply-to": "queues",
            "definition": {"message-ttl": 3_600_000},
            "priority": 1,
        }
    ],
    "parameters": [
        {
            "component": "operator_policy",
            "vhost": "/",
            "name": "cap",
            "value": {
                "pattern": "^orders",
                "definition": {"max-length": 50},
                "priority": 0,
                "apply-to": "queues",
            },
        },
        {"component": "vhost-limits", "vhost": "/", "name": "limits", "value": {"max-queues": 9}},
    ],
    "global_parameters": [],
}


@pytest.fixture
def brokers(start_daemon: StartDaemon) -> tuple[BrokerProcess, BrokerProcess]:
    """What plays LavinMQ's AMQP port, and the Hareline to migrate to."""
    return start_daemon(), start_daemon()


@pytest.fixture
def lavinmq() -> Iterator[ScriptedApi]:
    rows = [
        {**each, "messages": 3, "ready": 3, "unacked": 0, "state": "running", "internal": False}
        for each in DEFINITIONS["queues"]
    ]
    page = {
        "items": rows,
        "filtered_count": 2,
        "item_count": 2,
        "page": 1,
        "page_count": 1,
        "page_size": 500,
        "total_count": 2,
    }
    with scripted_api() as made:
        made.will("GET", "/queues", page)
        empty = {**page, "items": [{**each, "messages": 0} for each in rows]}
        made.will("GET", "/queues/%2F", empty)
        made.will("GET", "/definitions", DEFINITIONS)
        yield made


@pytest.mark.acceptance
def test_definitions_messages_and_streams_come_over(
    brokers: tuple[BrokerProcess, BrokerProcess], lavinmq: ScriptedApi
) -> None:
    old, new = brokers
    with pika.BlockingConnection(pika.URLParameters(old.url)) as connection:
        channel = connection.channel()
        channel.confirm_delivery()
        for queue in DEFINITIONS["queues"]:
            channel.queue_declare(queue["name"], durable=True, arguments=queue["arguments"])
            for number in range(3):
                properties = pika.BasicProperties(headers={"n": number}, delivery_mode=2)
                channel.basic_publish("", queue["name"], b"%d" % number, properties)
    command = CommandLine(
        HARELINE_URL=new.management_url,
        HARELINE_AMQP_URL=f"amqp://127.0.0.1:{new.port}",
        HARELINE_SOURCE_AMQP_URL=f"amqp://127.0.0.1:{old.port}",
        HARELINE_SOURCE_URL=lavinmq.url,
    )
    done = command("migrate", "--json")
    assert done.status == 0, done
    report = done.json
    assert {row["name"]: row["moved"] for row in report["queues"]} == {"orders": 3, "log": 3}
    (left_out,) = report["left_out"]
    assert (left_out["what"], left_out["name"]) == ("user", "ann")
    assert "lavinmq_bcrypt" in left_out["reason"]
    api = HttpApi(new.management_url)
    later = api.get("/api/exchanges/%2F/later")
    assert (later["type"], later["arguments"]) == ("x-delayed-message", {"x-delayed-type": "topic"})
    orders = api.get("/api/queues/%2F/orders")
    assert (orders["policy"], orders["operator_policy"]) == ("p", "cap")
    assert api.get("/api/vhost-limits/%2F")[0]["value"] == {"max-queues": 9}
    assert [
        each["routing_key"] for each in api.get("/api/exchanges/%2F/later/bindings/source")
    ] == ["a.#"]
    with pika.BlockingConnection(pika.URLParameters(new.url)) as connection:
        channel = connection.channel()
        taken = [channel.basic_get("orders", auto_ack=True) for _ in range(3)]
        assert [body for _, _, body in taken] == [b"0", b"1", b"2"]
        assert [properties.headers for _, properties, _ in taken] == [{"n": n} for n in range(3)]
        assert channel.queue_declare("log", passive=True).method.message_count == 3
