"""Access rules of the settings, over AMQP and HTTP, and changed while clients are connected."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from pika.exceptions import (
    ChannelClosedByBroker,
    ConnectionClosedByBroker,
    ProbableAccessDeniedError,
)

from hareline.settings.access import AccessRule
from tests.support.api_broker import PASSWORD, ApiBroker, api_broker, api_settings
from tests.support.waiting import wait_for


def rules(*given: dict[str, Any]) -> tuple[AccessRule, ...]:
    return tuple(AccessRule.model_validate(each) for each in given)


@pytest.fixture(scope="module")
def running() -> Iterator[ApiBroker]:
    with api_broker(api_settings()) as made:
        yield made


@pytest.fixture
def broker(running: ApiBroker) -> Iterator[ApiBroker]:
    """A queue "q", and a user "anna" who may do everything by her permissions."""
    running.ask("PUT", "/users/anna", body={"password": PASSWORD, "tags": "management"})
    everything = {"configure": ".*", "write": ".*", "read": ".*"}
    running.ask("PUT", "/permissions/%2F/anna", body=everything)
    running.ask("PUT", "/queues/%2F/q", body={"durable": True})
    running.ask("POST", "/bindings/%2F/e/amq.direct/q/q", body={"routing_key": "secret.1"})
    yield running
    reload(running)
    running.disconnect()
    running.ask("DELETE", "/queues/%2F/q")


def reload(broker: ApiBroker, *given: dict[str, Any]) -> None:
    """As SIGHUP does with these rules in the file."""
    changed = api_settings(access_rules=rules(*given))
    broker.thread.ask(
        lambda found: found.reload(
            found.settings.model_copy(update={"access_rules": changed.access_rules})
        )
    )


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
