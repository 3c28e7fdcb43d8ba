"""AMQPStorm's client of the management API, the one on PyPI that is kept, against this broker."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.broker_process import BrokerProcess
from tests.support.waiting import wait_for

pytest.importorskip("amqpstorm", reason="amqpstorm (PyPI) is not installed")
import amqpstorm
from amqpstorm.management.api import ManagementApi
from amqpstorm.management.exception import ApiError

pytestmark = [pytest.mark.acceptance, pytest.mark.daemon("[auth]\nfailure_delay_s = 0\n")]

DEADLINE_S = 60.0


@pytest.fixture
def api(broker: BrokerProcess) -> Any:
    return ManagementApi(f"http://127.0.0.1:{broker.management_port}", "guest", "guest")


def refused(status: int, call: Any, *arguments: Any, **options: Any) -> None:
    with pytest.raises(ApiError) as caught:
        call(*arguments, **options)
    assert caught.value.error_code == status


def test_the_broker_is_seen(api: Any) -> None:
    assert api.aliveness_test() == {"status": "ok"}
    assert api.whoami()["name"] == "guest"
    [node] = api.nodes()
    assert api.node(node["name"])["running"] is True
    assert api.overview()["node"] == node["name"]
    assert api.healthchecks.get() == {"status": "ok"}


def test_queues_exchanges_and_bindings(api: Any) -> None:
    api.exchange.declare("x", exchange_type="topic", durable=True)
    api.queue.declare("q", durable=True, arguments={"x-max-length": 5})
    api.queue.bind(queue="q", exchange="x", routing_key="a.#")
    assert api.queue.get("q")["arguments"] == {"x-max-length": 5}
    assert api.exchange.get("x")["type"] == "topic"
    assert "q" in {each["name"] for each in api.queue.list()}
    assert "x" in {each["name"] for each in api.exchange.list()}
    keys = {each["routing_key"] for each in api.queue.bindings("q")}
    assert keys == {"q", "a.#"}
    refused(400, api.queue.declare, "q", durable=False)
    api.queue.unbind(queue="q", exchange="x", routing_key="a.#", properties_key="a.%23")
    assert {each["routing_key"] for each in api.queue.bindings("q")} == {"q"}
    api.queue.delete("q")
    api.exchange.delete("x")
    refused(404, api.queue.get, "q")


def test_messages(api: Any) -> None:
    api.queue.declare("m")
    assert api.basic.publish("hello", "m", properties={"headers": {"n": 1}}) == {"routed": True}
    [shown] = api.basic.get("m", requeue=True)
    [taken] = api.basic.get("m", requeue=False)
    assert shown.body == taken.body == "hello"
    assert taken.properties["headers"] == {"n": 1}
    assert api.basic.get("m") == []
    api.basic.publish("gone", "m")
    api.queue.purge("m")
    assert api.basic.get("m") == []
    api.queue.delete("m")


def test_connections_are_seen_and_closed(api: Any, broker: BrokerProcess) -> None:
    with amqpstorm.connection.Connection(
        broker.host, "guest", "guest", port=broker.port
    ) as connection:
        channel = connection.channel()
        [found] = api.connection.list()
        assert api.connection.get(found["name"])["user"] == "guest"
        [of_channel] = api.channel.list()
        assert api.channel.get(of_channel["name"])["number"] == int(channel)
        api.connection.close(found["name"], reason="maintenance")
        wait_for(lambda: not api.connection.list(), DEADLINE_S, "the connection's end")


def test_users_and_virtual_hosts(api: Any) -> None:
    api.virtual_host.create("shop")
    api.user.create("ann", "secret", tags="management")
    api.user.set_permission("ann", "shop", "^c", "^w", "^r")
    assert api.user.get_permission("ann", "shop")["write"] == "^w"
    assert [each["vhost"] for each in api.user.get_permissions("ann")] == ["shop"]
    assert "ann" in {each["user"] for each in api.virtual_host.get_permissions("shop")}
    assert api.virtual_host.get("shop")["name"] == "shop"
    assert {each["name"] for each in api.user.list()} == {"ann", "guest"}
    api.user.delete_permission("ann", "shop")
    api.user.delete("ann")
    api.virtual_host.delete("shop")
    refused(404, api.user.get, "ann")
    refused(404, api.virtual_host.get, "shop")
