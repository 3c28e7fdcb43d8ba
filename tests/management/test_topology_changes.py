"""Queues, exchanges and bindings made and ended over real HTTP, with the statuses of RabbitMQ."""

from __future__ import annotations

from typing import Any

import pika
import pytest

from tests.management.test_messages import declare, new_name, path, publish
from tests.support.http_api import HttpApi, segment
from tests.support.pika_calls import get_all


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


# ------------------------------------------------------------------------------- bindings


@pytest.mark.acceptance
@pytest.mark.parametrize(
    ("key", "location"),
    [("a.b", "a.b"), ("", "~"), ("a~ /b", "a%257E%2B%252Fb"), ("\udcff", "%25FF")],
)
def test_a_binding_is_made_routes_and_ends(
    http: HttpApi, channel: Any, key: str, location: str
) -> None:
    queue = declare(channel)
    path = f"/api/bindings/%2F/e/amq.direct/q/{queue}"
    made = http.ask("POST", path, {"routing_key": key, "arguments": {}})
    assert (made.status_code, made.headers["location"]) == (201, f"{queue}/{location}")
    again = http.ask("POST", path, {"routing_key": key})
    assert (again.status_code, again.headers["location"]) == (201, f"{queue}/{location}")
    if key.isascii():
        channel.basic_publish("amq.direct", key, b"1")
        assert get_all(channel, queue) == [b"1"]
    assert http.ask("DELETE", f"{path}/{location}").status_code == 204
    assert http.ask("DELETE", f"{path}/{location}").status_code == 404


@pytest.mark.acceptance
def test_bindings_of_one_key_are_told_by_their_arguments(http: HttpApi, channel: Any) -> None:
    queue = declare(channel)
    path = f"/api/bindings/%2F/e/amq.headers/q/{queue}"
    locations = [
        http.ask("POST", path, {"routing_key": "k", "arguments": {"x": number}}).headers["location"]
        for number in range(2)
    ]
    assert len(set(locations)) == 2
    assert all(each.startswith(f"{queue}/k~") for each in locations)
    last = locations[0].rpartition("/")[2]
    assert http.ask("DELETE", f"{path}/{last}").status_code == 204
    channel.basic_publish("amq.headers", "k", b"1", pika.BasicProperties(headers={"x": 1}))
    channel.connection.process_data_events()
    assert get_all(channel, queue) == [b"1"]


@pytest.mark.acceptance
def test_exchanges_are_bound_too(http: HttpApi, channel: Any) -> None:
    queue, exchange = declare(channel), new_name("x")
    assert http.ask("PUT", f"/api/exchanges/%2F/{exchange}", {"type": "fanout"}).status_code == 201
    channel.queue_bind(queue, exchange)
    path = f"/api/bindings/%2F/e/amq.topic/e/{exchange}"
    assert http.ask("POST", path, {"routing_key": "#"}).status_code == 201
    channel.basic_publish("amq.topic", "any", b"1")
    assert get_all(channel, queue) == [b"1"]


@pytest.mark.parametrize(
    ("path", "status", "text"),
    [
        ("/api/bindings/%2F/e/nope/q/nope", 404, "no exchange 'nope' in vhost '/'"),
        ("/api/bindings/%2F/e/amq.direct/q/nope", 404, "no queue 'nope' in vhost '/'"),
        ("/api/bindings/%2F/e/amq.default/e/amq.direct", 401, "default exchange"),
        ("/api/bindings/%2F/e/amq.direct/e/amq.default", 401, "default exchange"),
        ("/api/bindings/%2F/e/amq.direct/x/nope", 404, "Not Found"),
        ("/api/bindings/nope/e/amq.direct/q/nope", 404, ""),
    ],
)
def test_a_binding_that_cannot_be(http: HttpApi, path: str, status: int, text: str) -> None:
    answer = http.ask("POST", path, {})
    assert answer.status_code == status
    assert text in answer.json()["reason"]
