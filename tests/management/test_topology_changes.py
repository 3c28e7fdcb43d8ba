"""Queues and exchanges declared and deleted over real HTTP, with the statuses of RabbitMQ."""

from __future__ import annotations

from typing import Any

import pytest

from tests.management.conftest import CONFIG
from tests.management.test_messages import declare, new_name, path, publish
from tests.support.api_broker import ApiBroker
from tests.support.broker_process import BrokerProcess
from tests.support.http_api import HttpApi, segment


def queue_path(name: str) -> str:
    return f"/api/queues/%2F/{segment(name)}"


def exchange_path(name: str) -> str:
    return f"/api/exchanges/%2F/{segment(name)}"


@pytest.mark.acceptance
@pytest.mark.row("A29")
def test_a_queue_is_made_is_there_and_is_deleted(http: HttpApi, channel: Any) -> None:
    name = new_name()
    body = {"durable": True, "auto_delete": False, "arguments": {"x-max-length": 10}}
    assert http.ask("PUT", queue_path(name), body).status_code == 201
    assert http.ask("PUT", queue_path(name), body).status_code == 204
    declare(channel, name, x_max_length=10)
    answer = http.ask("PUT", queue_path(name), {**body, "arguments": {}})
    assert answer.status_code == 400
    assert answer.json()["error"] == "bad_request"
    assert answer.json()["reason"].startswith(
        f"406 PRECONDITION_FAILED - inequivalent arg 'x-max-length' for queue '{name}'"
    )
    assert http.ask("DELETE", queue_path(name)).status_code == 204
    assert http.ask("DELETE", queue_path(name)).status_code == 404


@pytest.mark.parametrize("name", ["a/b", "Grüße", "100%", "%2F", "sp ace", "\udcff"])
def test_any_name_is_one(http: HttpApi, name: str) -> None:
    for named in (queue_path(name), exchange_path(name)):
        assert http.ask("PUT", named, {"type": "direct"}).status_code == 201
        assert http.ask("DELETE", named).status_code == 204


@pytest.mark.parametrize(
    ("body", "text"),
    [
        ({"arguments": {"x-max-length": -1}}, "406 PRECONDITION_FAILED - invalid arg"),
        ({"arguments": 5}, "arguments: should be an object"),
        ({"arguments": {"n": 2**70}}, "arguments: cannot be sent as arguments"),
        ({"durable": "perhaps"}, "durable: "),
        ({"exclusive": True}, "exclusive: "),
        ([], "body: not a JSON object"),
        (b"{", "body: not JSON"),
    ],
)
def test_a_queue_that_cannot_be(http: HttpApi, body: Any, text: str) -> None:
    answer = http.ask("PUT", queue_path(new_name()), body)
    assert answer.status_code == 400
    assert text in answer.json()["reason"]


def test_forms_of_old_clients_are_understood(http: HttpApi) -> None:
    name = new_name()
    body = {"durable": "true", "auto_delete": "false", "arguments": {}, "vhost": "/", "name": name}
    assert http.ask("PUT", queue_path(name), body).status_code == 201
    other = new_name()  # transient, as in RabbitMQ, where nothing else is asked for
    assert http.ask("PUT", queue_path(other), b"").status_code == 201
    assert (
        http.ask("PUT", queue_path(other), {"arguments": [], "durable": False}).status_code == 204
    )
    exchange = new_name("x")
    assert http.ask("PUT", exchange_path(exchange), {}).status_code == 201
    assert http.ask("PUT", exchange_path(exchange), {"type": "direct"}).status_code == 204


def test_conditions_of_a_deletion(http: HttpApi, channel: Any) -> None:
    name = declare(channel)
    publish(channel, name, b"1")
    answer = http.ask("DELETE", queue_path(name) + "?if-empty=true")
    assert answer.status_code == 400
    assert "not empty" in answer.json()["reason"]
    assert http.ask("DELETE", path(name, "contents")).status_code == 204
    tag = channel.basic_consume(name, lambda *_: None)
    answer = http.ask("DELETE", queue_path(name) + "?if-unused=true")
    assert answer.status_code == 400
    assert "in use" in answer.json()["reason"]
    channel.basic_cancel(tag)
    assert http.ask("DELETE", queue_path(name) + "?if-unused=true&if-empty=true").status_code == 204


def test_an_exchange_is_made_is_there_and_is_deleted(http: HttpApi, channel: Any) -> None:
    name = new_name("x")
    body = {"type": "topic", "durable": True}
    assert http.ask("PUT", exchange_path(name), body).status_code == 201
    assert http.ask("PUT", exchange_path(name), body).status_code == 204
    answer = http.ask("PUT", exchange_path(name), {"type": "fanout"})
    assert answer.status_code == 400
    assert "406 PRECONDITION_FAILED - inequivalent arg 'type'" in answer.json()["reason"]
    queue = declare(channel)
    channel.queue_bind(queue, name, "#")
    answer = http.ask("DELETE", exchange_path(name) + "?if-unused=true")
    assert answer.status_code == 400
    assert "in use" in answer.json()["reason"]
    assert http.ask("DELETE", exchange_path(name)).status_code == 204
    assert http.ask("DELETE", exchange_path(name)).status_code == 404


@pytest.mark.parametrize(
    ("name", "body", "status", "text"),
    [
        ("x", {"type": 5}, 400, "type: "),
        ("x", {"type": "nonsense"}, 400, "nonsense"),
        ("amq.mine", {"type": "direct"}, 401, "reserved prefix"),
        ("amq.default", {"type": "direct"}, 401, "default exchange"),
        ("x" * 256, {"type": "direct"}, 400, "longer than 255 octets"),
    ],
)
def test_an_exchange_that_cannot_be(
    http: HttpApi, name: str, body: Any, status: int, text: str
) -> None:
    answer = http.ask("PUT", exchange_path(name), body)
    assert answer.status_code == status
    assert text in answer.json()["reason"]


def test_predeclared_exchanges_stay(http: HttpApi) -> None:
    for name in ("amq.direct", "amq.default"):
        assert http.ask("DELETE", exchange_path(name)).status_code == 401


def test_rights_of_a_user(broker: ApiBroker) -> None:
    reader = HttpApi(broker.url, "reader", "reader")
    for method, named in (
        ("PUT", queue_path("open-1")),
        ("PUT", exchange_path("open-1")),
        ("DELETE", exchange_path("amq.direct")),
    ):
        answer = reader.ask(method, named, {"type": "direct"})
        assert answer.status_code == 401
        assert answer.json()["error"] == "not_authorised"
        assert "configure access to" in answer.json()["reason"]


@pytest.mark.acceptance
def test_what_was_declared_is_there_after_a_kill(tmp_path: Any) -> None:
    broker = BrokerProcess(tmp_path, CONFIG)
    broker.start()
    try:
        http = HttpApi(broker.management_url)
        assert http.ask("PUT", queue_path("q"), {"durable": True}).status_code == 201
        assert (
            http.ask("PUT", exchange_path("x"), {"type": "fanout", "durable": True}).status_code
            == 201
        )
        broker.restart_by_kill()
        assert http.ask("PUT", queue_path("q"), {"durable": True}).status_code == 204
        body = {"type": "fanout", "durable": True}
        assert http.ask("PUT", exchange_path("x"), body).status_code == 204
    finally:
        broker.stop()
