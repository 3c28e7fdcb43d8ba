"""Octets that are not UTF-8, in names, arguments and headers: strict readers get every answer."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import orjson
import pytest

from hareline.broker.vhost import VirtualHost
from hareline.server.broker import Broker
from hareline.wire.table import Table
from tests.support.api_broker import ApiBroker
from tests.support.http_api import HttpApi, segment

ODD = "\udcff\udcfe"
SHOWN = "Not UTF-8, base64 is: //4="
#: What only looks like it.
LITERAL = "Not UTF-8, base64 is: /w=="
ARGUMENTS = Table({"x-odd": ODD, ODD: "key", "x-literal": LITERAL})
VHOST = "odd"


def strict(http: HttpApi, path: str) -> Any:
    """The JSON of an answer, by a reader that refuses half a character."""
    answer = http.ask("GET", path)
    assert answer.status_code == 200, answer.text
    return orjson.loads(answer.content)


def vhost_of(broker: Broker) -> VirtualHost:
    return broker.context.vhosts[VHOST]


@pytest.fixture
def filled(broker: ApiBroker, http: HttpApi) -> Iterator[HttpApi]:
    """A virtual host whose only queue, binding and consumer have such names and arguments."""
    http.done("PUT", f"/api/vhosts/{VHOST}")
    http.done("PUT", f"/api/permissions/{VHOST}/guest", dict.fromkeys(RIGHTS, ".*"))

    def declare(running: Broker) -> None:
        vhost = vhost_of(running)
        queue = vhost.declare_queue(
            ODD, is_durable=True, is_auto_delete=False, owner=None, arguments=ARGUMENTS
        )
        vhost.bind("amq.headers", "queue", queue, ODD, ARGUMENTS)

    broker.thread.ask(declare)
    yield http
    broker.disconnect()
    http.done("DELETE", f"/api/vhosts/{VHOST}")


RIGHTS = ("configure", "write", "read")


def test_lists_and_single_objects(filled: HttpApi) -> None:
    shown = {"x-odd": SHOWN, SHOWN: "key", "x-literal": LITERAL}
    (queue,) = strict(filled, f"/api/queues/{VHOST}")
    assert (queue["name"], queue["arguments"]) == (SHOWN, shown)
    bindings = strict(filled, f"/api/bindings/{VHOST}")
    assert [each["arguments"] for each in bindings if each["source"]] == [shown]
    assert [each["routing_key"] for each in bindings] == [SHOWN, SHOWN]
    assert strict(filled, f"/api/queues/{VHOST}/{segment(ODD)}")["name"] == SHOWN
    assert strict(filled, f"/api/queues/{VHOST}/{segment(SHOWN)}")["name"] == SHOWN


def test_consumers(filled: HttpApi, broker: ApiBroker) -> None:
    channel = broker.connect("guest", VHOST, password="guest").channel()
    channel.queue_declare("q")
    channel.basic_consume("q", lambda *_: None, arguments={"x-odd": b"\xff\xfe"})
    (consumer,) = strict(filled, f"/api/consumers/{VHOST}")
    assert consumer["arguments"] == {"x-odd": SHOWN}


def test_headers_of_messages(filled: HttpApi) -> None:
    path = f"/api/queues/{VHOST}/{segment(ODD)}"
    sent = {"properties": {"headers": {"h": ODD, "n": [ODD]}, "message_id": ODD}, "payload": "p"}
    exchange = f"/api/exchanges/{VHOST}/amq.default/publish"
    body = {**sent, "routing_key": ODD, "payload_encoding": "string"}
    assert filled.done("POST", exchange, body) == {"routed": True}
    asked = {"count": 1, "ackmode": "ack_requeue_true", "encoding": "auto"}
    answer = filled.ask("POST", f"{path}/get", asked)
    (message,) = orjson.loads(answer.content)
    headers = message["properties"]["headers"]
    assert (headers, message["routing_key"]) == ({"h": SHOWN, "n": [SHOWN]}, SHOWN)
    assert message["properties"]["message_id"] == SHOWN
    lines = filled.ask("POST", f"{path}/export").content.splitlines()
    assert orjson.loads(lines[1])["properties"]["headers"]["h"] == ["S", SHOWN]
    filled.done("POST", f"/api/queues/{VHOST}/{segment(SHOWN)}/import", b"\n".join(lines))
    first, second = filled.ask("POST", f"{path}/export").content.splitlines()[1:3]
    assert orjson.loads(first)["properties"] == orjson.loads(second)["properties"]


def test_an_export_of_definitions_loses_nothing(filled: HttpApi, broker: ApiBroker) -> None:
    exported = strict(filled, f"/api/definitions/{VHOST}")
    assert exported["queues"][0]["name"] == SHOWN
    filled.done("DELETE", f"/api/queues/{VHOST}/{segment(SHOWN)}")
    assert filled.call("POST", f"/api/definitions/{VHOST}", exported) == (204, None)

    def restored(running: Broker) -> tuple[Any, Any]:
        vhost = vhost_of(running)
        (binding,) = vhost.bindings.from_source("amq.headers")
        return vhost.queues[ODD].arguments, (binding.routing_key, binding.arguments)

    assert broker.thread.ask(restored) == (ARGUMENTS, (ODD, ARGUMENTS))
    assert strict(filled, f"/api/definitions/{VHOST}")["queues"] == exported["queues"]


def test_changes(filled: HttpApi) -> None:
    changes = strict(filled, "/api/hareline/changes")
    rows = changes["items"] if isinstance(changes, dict) else changes
    assert SHOWN in [each["details"].get("name") for each in rows]
