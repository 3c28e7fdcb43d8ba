"""Bindings made and ended over real HTTP, and where RabbitMQ says that they are."""

from __future__ import annotations

from typing import Any

import pika
import pytest

from tests.management.test_messages import declare, drain, new_name
from tests.support.api_broker import ApiBroker
from tests.support.http_api import HttpApi


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
        assert drain(channel, queue) == [b"1"]
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
    assert drain(channel, queue) == [b"1"]


@pytest.mark.acceptance
def test_exchanges_are_bound_too(http: HttpApi, channel: Any) -> None:
    queue, exchange = declare(channel), new_name("x")
    assert http.ask("PUT", f"/api/exchanges/%2F/{exchange}", {"type": "fanout"}).status_code == 201
    channel.queue_bind(queue, exchange)
    path = f"/api/bindings/%2F/e/amq.topic/e/{exchange}"
    assert http.ask("POST", path, {"routing_key": "#"}).status_code == 201
    channel.basic_publish("amq.topic", "any", b"1")
    assert drain(channel, queue) == [b"1"]


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


def test_rights_are_those_of_amqp(broker: ApiBroker, channel: Any) -> None:
    queue = declare(channel)
    reader = HttpApi(broker.url, "reader", "reader")
    answer = reader.ask("POST", f"/api/bindings/%2F/e/amq.direct/q/{queue}", {})
    assert answer.status_code == 401
    assert "write access to queue" in answer.json()["reason"]


@pytest.mark.acceptance
@pytest.mark.parametrize("kind", ["q", "e"])
def test_topic_permissions_bound_what_is_bound_and_what_is_ended(
    broker: ApiBroker, http: HttpApi, channel: Any, kind: str
) -> None:
    topics, user = new_name("t"), new_name("user")
    channel.exchange_declare(topics, "topic", durable=True)
    destination = declare(channel)
    if kind == "e":
        destination = new_name("x")
        channel.exchange_declare(destination, "fanout", durable=True)
    http.done("PUT", f"/api/users/{user}", {"password": user, "tags": "management"})
    rights = {"configure": ".*", "write": ".*", "read": ".*"}
    http.done("PUT", f"/api/permissions/%2F/{user}", rights)
    topic_rights = {"exchange": topics, "write": "", "read": "^mine"}
    http.done("PUT", f"/api/topic-permissions/%2F/{user}", topic_rights)
    limited = HttpApi(broker.url, user, user)
    path = f"/api/bindings/%2F/e/{topics}/{kind}/{destination}"
    for key in ("mine.a", "theirs.a"):
        assert http.ask("POST", path, {"routing_key": key}).status_code == 201

    def refused(method: str, path: str, body: object = None) -> str:
        answer = limited.ask(method, path, body)
        assert answer.status_code == 401
        return str(answer.json()["reason"])

    wanted = f"read access to topic 'theirs.a' in exchange '{topics}'"
    assert wanted in refused("DELETE", f"{path}/theirs.a")
    assert wanted in refused("POST", path, {"routing_key": "theirs.a"})
    assert limited.ask("DELETE", f"{path}/mine.a").status_code == 204
    assert limited.ask("POST", path, {"routing_key": "mine.b"}).status_code == 201
    kept = {each["routing_key"] for each in http.get(path)}
    assert kept == {"theirs.a", "mine.b"}
