"""The firehose switched by a reload, and the event exchange over a restart and a crash."""

from __future__ import annotations

from typing import Any, Final

import pytest

from tests.support.broker_process import BrokerProcess, StartDaemon
from tests.support.http_api import HttpApi
from tests.support.waiting import wait_for

pika = pytest.importorskip("pika", reason="pika (PyPI) is not installed")

DEADLINE_S: Final = 60.0
UNTRACED: Final = '[[vhosts]]\nname = "/"\n'
EVENTS: Final = '[events]\nvhost = "/"\n'


def connect(broker: BrokerProcess) -> Any:
    return pika.BlockingConnection(pika.URLParameters(broker.url))


def keys_in(channel: Any, queue: str) -> list[str]:
    keys = []
    while (method := channel.basic_get(queue, auto_ack=True)[0]) is not None:
        keys.append(method.routing_key)
    return keys


@pytest.mark.acceptance
def test_a_reload_switches_the_firehose_for_channels_that_are_open(
    start_daemon: StartDaemon,
) -> None:
    broker = start_daemon(UNTRACED)
    with connect(broker) as connection:
        channel = connection.channel()
        channel.queue_declare("copies", exclusive=True)
        channel.queue_bind("copies", "amq.rabbitmq.trace", "publish.#")
        channel.basic_publish("amq.direct", "before", b"")

        def has_changed_to(is_traced: bool) -> bool:
            channel.basic_publish("amq.direct", "k", b"")
            return bool(keys_in(channel, "copies")) is is_traced

        assert keys_in(channel, "copies") == []
        broker.reload(UNTRACED + "tracing = true\n")
        wait_for(lambda: has_changed_to(True), DEADLINE_S, "copies of publishes")
        broker.reload(UNTRACED)
        wait_for(lambda: has_changed_to(False), DEADLINE_S, "no more copies")


@pytest.mark.acceptance
def test_the_api_switches_the_firehose_for_channels_and_consumers_that_are_there(
    start_daemon: StartDaemon,
) -> None:
    broker = start_daemon(UNTRACED)
    api = HttpApi(f"http://127.0.0.1:{broker.management_port}")
    with connect(broker) as connection:
        channel = connection.channel()
        channel.queue_declare("copies", durable=True)
        channel.queue_bind("copies", "amq.rabbitmq.trace", "#")
        channel.queue_declare("work")
        channel.basic_consume("work", lambda *_: None, auto_ack=True)

        def copies_of_one() -> list[str]:
            channel.basic_publish("", "work", b"m")
            connection.process_data_events(time_limit=0)
            return keys_in(channel, "copies")

        def has_changed_to(is_traced: bool) -> bool:
            keys = copies_of_one()
            if is_traced:
                return {"publish.", "deliver.work"} <= set(keys)
            return not keys

        assert api.get("/api/vhosts/%2F")["tracing"] is False
        assert copies_of_one() == []
        assert api.call("PUT", "/api/vhosts/%2F", {"tracing": True}) == (204, None)
        assert api.get("/api/vhosts/%2F")["tracing"] is True
        wait_for(lambda: has_changed_to(True), DEADLINE_S, "copies of publishes and deliveries")
        assert api.call("PUT", "/api/vhosts/%2F", {"tracing": False}) == (204, None)
        wait_for(lambda: has_changed_to(False), DEADLINE_S, "no more copies")
        assert api.call("PUT", "/api/vhosts/%2F", {"tracing": "true"}) == (204, None)
    broker.restart()
    assert api.get("/api/vhosts/%2F")["tracing"] is True
    with connect(broker) as connection:
        channel = connection.channel()
        keys_in(channel, "copies")
        channel.basic_publish("amq.direct", "k", b"")
        wait_for(lambda: "publish.amq.direct" in keys_in(channel, "copies"), DEADLINE_S, "copies")


@pytest.mark.acceptance
def test_the_api_does_not_switch_off_what_the_settings_switch_on(start_daemon: StartDaemon) -> None:
    broker = start_daemon(UNTRACED + "tracing = true\n")
    api = HttpApi(f"http://127.0.0.1:{broker.management_port}")
    assert api.get("/api/vhosts/%2F")["tracing"] is True
    status, body = api.call("PUT", "/api/vhosts/%2F", {"tracing": False})
    assert (status, body["error"]) == (409, "conflict")
    assert "[[vhosts]] tracing" in body["reason"]
    assert api.get("/api/vhosts/%2F")["tracing"] is True
    assert api.call("PUT", "/api/vhosts/%2F", {"tracing": True}) == (204, None)
    with connect(broker) as connection:
        channel = connection.channel()
        channel.queue_declare("copies", exclusive=True)
        channel.queue_bind("copies", "amq.rabbitmq.trace", "publish.#")
        channel.basic_publish("amq.direct", "k", b"")
        wait_for(lambda: keys_in(channel, "copies"), DEADLINE_S, "a copy")


@pytest.mark.acceptance
@pytest.mark.parametrize("is_killed", [False, True])
def test_a_queue_stays_bound_to_the_events_and_what_is_restored_is_no_event(
    start_daemon: StartDaemon, is_killed: bool
) -> None:
    broker = start_daemon(EVENTS)
    with connect(broker) as connection:
        channel = connection.channel()
        channel.queue_declare("events", durable=True)
        channel.queue_bind("events", "amq.rabbitmq.event", "queue.#")
        channel.queue_declare("kept", durable=True)
        wait_for(
            lambda: channel.queue_declare("events", passive=True).method.message_count == 1,
            DEADLINE_S,
            "the event of the second queue",
        )
        channel.confirm_delivery()  # what is confirmed behind it is on the disk, and so is it
        channel.basic_publish("", "kept", b"x", pika.BasicProperties(delivery_mode=2))
    if is_killed:
        broker.restart_by_kill()
    else:
        broker.restart()
    with connect(broker) as connection:
        channel = connection.channel()
        assert keys_in(channel, "events") == ["queue.created"]
        channel.queue_delete("kept")
        found: list[str] = []

        def has_heard() -> bool:
            found.extend(keys_in(channel, "events"))
            return bool(found)

        wait_for(has_heard, DEADLINE_S, "the event of the deletion")
        assert found == ["queue.deleted"]


@pytest.mark.acceptance
def test_where_it_is_switched_off_there_is_no_event_exchange(start_daemon: StartDaemon) -> None:
    with connect(start_daemon()) as connection:
        channel = connection.channel()
        with pytest.raises(pika.exceptions.ChannelClosedByBroker, match="no exchange"):
            channel.exchange_declare("amq.rabbitmq.event", passive=True)
