"""The firehose switched by a reload, and the event exchange over a restart and a crash."""

from __future__ import annotations

from typing import Any, Final

import pytest

from tests.support.broker_process import BrokerProcess
from tests.support.waiting import wait_for

from .conftest import StartDaemon

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


def test_where_it_is_switched_off_there_is_no_event_exchange(start_daemon: StartDaemon) -> None:
    with connect(start_daemon()) as connection:
        channel = connection.channel()
        with pytest.raises(pika.exceptions.ChannelClosedByBroker, match="no exchange"):
            channel.exchange_declare("amq.rabbitmq.event", passive=True)
