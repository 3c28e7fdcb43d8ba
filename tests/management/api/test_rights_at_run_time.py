"""Rights and access rules that change count for what is open: real clients over real sockets."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest
from pika.exceptions import (
    ChannelClosedByBroker,
    ConnectionClosedByBroker,
    ProbableAccessDeniedError,
)

from hareline.queues.dispatch.reading import ReadingLane
from hareline.server.broker import Broker
from hareline.settings.access import AccessRule
from tests.support.api_broker import PASSWORD, ApiBroker
from tests.support.waiting import wait_for

DEADLINE_S = 60.0


@pytest.fixture(autouse=True)
def anna(broker: ApiBroker) -> Iterator[None]:
    """A user who may do everything, a queue "q" that is bound, and a stream "st"."""
    broker.ask("PUT", "/users/anna", body={"password": PASSWORD, "tags": "management"})
    allow(broker)
    channel = broker.connect().channel()
    channel.queue_declare("q", durable=True)
    channel.queue_declare("st", durable=True, arguments={"x-queue-type": "stream"})
    channel.queue_bind("q", "amq.topic", "#")
    channel.queue_bind("q", "amq.direct", "secret.1")
    yield
    reload(broker)
    broker.disconnect()
    for path in ("/users/anna", "/queues/%2F/q", "/queues/%2F/st"):
        broker.ask("DELETE", path)


def reload(broker: ApiBroker, *rules: dict[str, Any]) -> None:
    """As SIGHUP does with these access rules in the file."""
    given = tuple(map(AccessRule.model_validate, rules))
    broker.thread.ask(
        lambda inside: inside.reload(inside.settings.model_copy(update={"access_rules": given}))
    )


def allow(broker: ApiBroker, **patterns: str) -> None:
    given = {"configure": ".*", "write": ".*", "read": ".*", **patterns}
    assert broker.ask("PUT", "/permissions/%2F/anna", body=given).status_code in (201, 204)


@pytest.mark.acceptance
def test_a_consumer_is_cancelled_and_gets_nothing_more(broker: ApiBroker) -> None:
    connection = broker.connect("anna")
    channel = connection.channel()
    got: list[bytes] = []
    cancelled: list[Any] = []
    channel.add_on_cancel_callback(cancelled.append)
    channel.basic_consume("q", lambda _c, _m, _p, body: got.append(body))
    sender = broker.connect().channel()
    sender.confirm_delivery()
    sender.basic_publish("", "q", b"1")
    wait_for(lambda: connection.process_data_events(0.1) or got, DEADLINE_S, "a delivery")
    allow(broker, read="^other$")
    wait_for(lambda: connection.process_data_events(0.1) or cancelled, DEADLINE_S, "a cancel")
    sender.basic_publish("", "q", b"2")
    connection.process_data_events(0)
    assert got == [b"1"]
    broker.wait_for("/queues/%2F/q", lambda queue: queue["messages_ready"] == 1, "the second")


@pytest.mark.acceptance
def test_a_route_that_is_known_is_asked_for_again(broker: ApiBroker) -> None:
    channel = broker.connect("anna").channel()
    channel.confirm_delivery()
    for _ in range(3):
        channel.basic_publish("amq.topic", "k", b"1")
    bounds = {"exchange": "amq.topic", "write": "^mine", "read": ".*"}
    broker.ask("PUT", "/topic-permissions/%2F/anna", body=bounds)
    with pytest.raises(ChannelClosedByBroker, match="write access to topic 'k'"):
        channel.basic_publish("amq.topic", "k", b"2")
    broker.ask("DELETE", "/topic-permissions/%2F/anna/amq.topic")
    again = broker.connect("anna").channel()
    again.confirm_delivery()
    again.basic_publish("amq.topic", "k", b"3")


@pytest.mark.acceptance
def test_a_connection_ends_with_the_permissions_in_its_virtual_host(broker: ApiBroker) -> None:
    connection = broker.connect("anna")
    connection.channel()
    broker.ask("DELETE", "/permissions/%2F/anna")
    with pytest.raises(ConnectionClosedByBroker) as raised:
        wait_for(lambda: connection.process_data_events(0.1), DEADLINE_S, "the end")
    assert raised.value.reply_code == 530
    assert "access to vhost '/' refused for user 'anna'" in raised.value.reply_text


def is_waited_for(broker: Broker) -> bool:
    """True if a request waits for the stream to grow."""
    lane = broker.context.vhosts["/"].queues["st"].lane
    assert isinstance(lane, ReadingLane)
    return bool(lane.watchers)


@pytest.mark.acceptance
@pytest.mark.parametrize("change", ["pattern", "permissions", "rules"])
def test_a_request_that_waits_for_a_stream_is_not_answered_without_the_right(
    broker: ApiBroker, change: str
) -> None:
    answers: list[Any] = []
    path = "/stream/%2F/st/tail?after=0&wait_ms=30000"
    waiting = threading.Thread(target=lambda: answers.append(broker.ask("GET", path, "anna")))
    waiting.start()
    broker.thread.wait_until(is_waited_for, "a waiting request")
    if change == "permissions":
        broker.ask("DELETE", "/permissions/%2F/anna")
    elif change == "pattern":
        allow(broker, read="^other$")
    else:
        reload(broker, {"rule": "deny", "users": ["anna"], "rights": ["read"]})
    sender = broker.connect().channel()
    sender.confirm_delivery()
    sender.basic_publish("", "st", b"1")
    waiting.join(DEADLINE_S)
    assert [answer.status_code for answer in answers] == [403]
    assert "refused for user 'anna'" in answers[0].json()["reason"]


SLOW = "^team-(a|aa)+$"


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/permissions/%2F/anna", {"configure": SLOW, "write": ".*", "read": ".*"}),
        ("/topic-permissions/%2F/anna", {"exchange": "amq.topic", "write": SLOW, "read": ".*"}),
    ],
)
def test_a_pattern_that_some_names_would_stop_the_broker_with_is_refused(
    broker: ApiBroker, path: str, body: dict[str, str]
) -> None:
    answer = broker.ask("PUT", path, body=body)
    assert answer.status_code == 400
    assert "takes more than 5 ms for some names, such as 'team-aaaa" in answer.json()["reason"]


# ------------------------------------------------------------------------- access rules


def publish(broker: ApiBroker, key: str, **properties: Any) -> Any:
    body = {
        "properties": properties,
        "routing_key": key,
        "payload": "m",
        "payload_encoding": "string",
    }
    return broker.ask("POST", "/exchanges/%2F/amq.direct/publish", "anna", body=body)


@pytest.mark.acceptance
def test_a_rule_bounds_the_keys_of_any_exchange_on_open_channels(broker: ApiBroker) -> None:
    channel = broker.connect("anna").channel()
    channel.confirm_delivery()
    channel.basic_publish("amq.direct", "secret.1", b"before")
    reload(broker, {"rule": "deny", "users": ["anna"], "routing_key": "^secret"})
    with pytest.raises(ChannelClosedByBroker, match=r"routing key 'secret\.1'.*by an access rule"):
        channel.basic_publish("amq.direct", "secret.1", b"after")
    again = channel.connection.channel()
    again.confirm_delivery()
    again.basic_publish("amq.direct", "open", b"m")
    assert "routing key 'secret.1'" in publish(broker, "secret.1").json()["reason"]
    copied = publish(broker, "open", headers={"CC": ["secret.1"]})
    assert "routing key 'secret.1'" in copied.json()["reason"]
    bind = {"routing_key": "secret.2"}
    answer = broker.ask("POST", "/bindings/%2F/e/amq.direct/q/q", "anna", body=bind)
    assert (answer.status_code, "secret.2" in answer.text) == (401, True)
    broker.wait_for("/queues/%2F/q", lambda queue: queue["messages_ready"] == 1, "one message")


@pytest.mark.acceptance
def test_a_rule_allows_what_permissions_do_not(broker: ApiBroker) -> None:
    nothing = {"configure": "^$", "write": "^$", "read": "^$"}
    broker.ask("PUT", "/permissions/%2F/anna", body=nothing)
    reload(broker, {"rule": "allow", "users": ["anna"], "rights": ["read"], "name": "^q$"})
    channel = broker.connect("anna").channel()
    channel.basic_get("q")
    with pytest.raises(ChannelClosedByBroker, match="read access to queue 'other'"):
        channel.basic_get("other")


@pytest.mark.acceptance
def test_a_network_that_is_kept_out_is_closed_and_cannot_come_back(broker: ApiBroker) -> None:
    connection = broker.connect("anna")
    reload(
        broker,
        {"rule": "deny", "rights": ["access"], "tags": ["management"], "from_networks": ["::1"]},
        {"rule": "deny", "rights": ["access"], "users": ["anna"], "from_networks": ["127.0.0.0/8"]},
    )
    with pytest.raises(ConnectionClosedByBroker, match="access to vhost '/' refused"):
        wait_for(lambda: connection.process_data_events(0.1), 60, "the end of the connection")
    with pytest.raises((ConnectionClosedByBroker, ProbableAccessDeniedError)):
        broker.connect("anna")
    assert publish(broker, "open").status_code in (400, 401)
    assert broker.ask("GET", "/stream/%2F", "anna").status_code == 403
    broker.connect("admin")


@pytest.mark.acceptance
def test_a_consumer_ends_by_a_rule_that_is_added(broker: ApiBroker) -> None:
    connection = broker.connect("anna")
    channel = connection.channel()
    cancelled: list[Any] = []
    channel.add_on_cancel_callback(cancelled.append)
    channel.basic_consume("q", print)
    reload(broker, {"rule": "deny-log", "objects": ["queue"], "rights": ["read"]})
    wait_for(lambda: connection.process_data_events(0.1) or cancelled, 60, "a cancel")
