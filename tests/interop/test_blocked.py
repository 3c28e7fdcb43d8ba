"""connection.blocked and unblocked, as pika and py-amqp tell their users.

The daemon is started with a memory watermark below what it uses anyway, so that its alarm is on
from the start; a reload with a higher one ends the alarm.
"""

from __future__ import annotations

import pytest

pytest.importorskip("pika", reason="pika (PyPI) is not installed")
import pika

from tests.support.broker_process import BrokerProcess
from tests.support.pika_calls import publish, receive, serve_until
from tests.support.waiting import wait_for

from .conftest import StartBroker

DEADLINE_S = 60.0
ALARM = '[memory]\nwatermark = "1MiB"\ncheck_interval_s = 0.05\n'
ALARM_CODE = "MEM-1001"
NO_ALARM = ALARM.replace('"1MiB"', "1.0")


@pytest.fixture
def alarmed(start_broker: StartBroker) -> BrokerProcess:
    """A daemon that is short of memory, and knows it."""
    daemon = start_broker(ALARM)
    wait_for(lambda: ALARM_CODE in daemon.log_tail(), DEADLINE_S, f"{ALARM_CODE} in its log")
    return daemon


def end_the_alarm(daemon: BrokerProcess) -> None:
    daemon.reload(daemon.config_path.read_text().replace(ALARM, NO_ALARM))


@pytest.mark.acceptance
def test_publisher_is_told_that_it_is_blocked_and_unblocked(
    alarmed: BrokerProcess, name: str
) -> None:
    connection = pika.BlockingConnection(pika.URLParameters(alarmed.url))
    events: list[str] = []
    connection.add_on_connection_blocked_callback(
        lambda _, frame: events.append(frame.method.reason)
    )
    connection.add_on_connection_unblocked_callback(lambda *_: events.append("unblocked"))
    channel = connection.channel()
    channel.queue_declare(name)
    publish(channel, name, b"held back")
    serve_until(connection, lambda: events, "connection.blocked")
    assert events == ["low on memory"]

    end_the_alarm(alarmed)
    serve_until(connection, lambda: len(events) > 1, "connection.unblocked")
    assert events == ["low on memory", "unblocked"]
    assert receive(channel, name, 1)[0][2] == b"held back"
    connection.close()


@pytest.mark.acceptance
def test_consumers_go_on_while_publishers_are_blocked(start_broker: StartBroker, name: str) -> None:
    daemon = start_broker(NO_ALARM)
    publisher = pika.BlockingConnection(pika.URLParameters(daemon.url))
    consumer = pika.BlockingConnection(pika.URLParameters(daemon.url))
    told: list[object] = []
    blocked: list[object] = []
    consumer.add_on_connection_blocked_callback(lambda *args: told.append(args))
    publisher.add_on_connection_blocked_callback(lambda *args: blocked.append(args))
    publishing, consuming = publisher.channel(), consumer.channel()
    publishing.queue_declare(name)
    publish(publishing, name, *(b"%d" % n for n in range(20)))

    daemon.reload(daemon.config_path.read_text().replace(NO_ALARM, ALARM))

    def is_blocked() -> bool:
        publish(publishing, name, b"more")
        publisher.process_data_events(0.02)
        return bool(blocked)

    wait_for(is_blocked, DEADLINE_S, "the publisher to be blocked")
    received = [body for _, _, body in receive(consuming, name, 20)]
    assert received == [b"%d" % n for n in range(20)]
    assert consuming.queue_declare("", exclusive=True).method.queue
    assert told == []

    end_the_alarm(daemon)
    for connection in (publisher, consumer):
        connection.close()


@pytest.mark.acceptance
def test_blocked_connection_timeout_ends_a_blocked_publisher(
    alarmed: BrokerProcess, name: str
) -> None:
    parameters = pika.URLParameters(alarmed.url)
    parameters.blocked_connection_timeout = 0.5
    connection = pika.BlockingConnection(parameters)
    channel = connection.channel()
    channel.confirm_delivery()

    def publish_for_ever() -> None:
        while True:  # the publish that meets the alarm may still pass
            channel.basic_publish("", name, b"x")

    with pytest.raises(pika.exceptions.ConnectionBlockedTimeout):
        publish_for_ever()


@pytest.mark.acceptance
def test_py_amqp_calls_on_blocked_and_on_unblocked(alarmed: BrokerProcess, name: str) -> None:
    amqp = pytest.importorskip("amqp", reason="amqp (py-amqp, PyPI) is not installed")
    events: list[str] = []
    with amqp.Connection(
        host=f"{alarmed.host}:{alarmed.port}",
        on_blocked=events.append,
        on_unblocked=lambda: events.append("unblocked"),
    ) as connection:
        channel = connection.channel()
        channel.basic_publish(amqp.Message("held back"), routing_key=name)
        connection.drain_events(timeout=DEADLINE_S)
        assert len(events) == 1  # py-amqp does not decode the reason
        end_the_alarm(alarmed)
        connection.drain_events(timeout=DEADLINE_S)
        assert events[1:] == ["unblocked"]
