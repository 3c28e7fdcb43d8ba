"""Counts and samples of a broker with real clients, before and after a restart."""

from __future__ import annotations

from typing import Any

import pika
import pytest

from hareline.counts import QueueCounts
from hareline.queues.queue import Queue
from hareline.server.broker import Broker
from hareline.settings import Management, Settings
from hareline.statistics.readings import connection_facts, queue_facts
from tests.support.broker_thread import BrokerThread, StartBroker, broker_in_thread


@pytest.fixture
def settings(durable: Settings) -> Settings:
    return durable.model_copy(update={"management": Management(sample_interval_s=0.1)})


@pytest.fixture
def broker(start_broker: StartBroker, settings: Settings) -> BrokerThread:
    return start_broker(settings, has_http=True)


def connect(broker: BrokerThread) -> pika.BlockingConnection:
    return pika.BlockingConnection(pika.URLParameters(broker.ask(lambda inside: inside.url)))


def totals(inside: Broker) -> dict[str, int]:
    assert inside.statistics is not None
    return inside.statistics.sampler.latest("overview", ())


def counts(queue: Queue) -> QueueCounts:
    """But for the contents that the recovery has read."""
    found = queue.counts
    found.disk_reads = 0
    return found


def publish(channel: Any, count: int) -> None:
    durable = pika.BasicProperties(delivery_mode=2)
    for _ in range(count):
        channel.basic_publish("", "q", b"body", durable)


@pytest.mark.acceptance
def test_what_a_client_did_is_in_the_totals_when_it_is_gone(broker: BrokerThread) -> None:
    connection = connect(broker)
    channel = connection.channel()
    channel.confirm_delivery()
    channel.queue_declare("q", durable=True)
    publish(channel, 5)
    method, _, _ = channel.basic_get("q")
    channel.basic_ack(method.delivery_tag)
    channel.basic_get("q")
    (facts,) = broker.ask(
        lambda inside: [connection_facts(each) for each in inside.context.connections]
    )
    peer, own = facts.name.split(" -> ")
    assert own == broker.ask(lambda inside: inside.url).removeprefix("amqp://")
    assert peer == f"127.0.0.1:{facts.peer_port}"
    assert facts.counts.recv_oct > 5 * len(b"body")
    assert facts.counts.recv_cnt > 1
    expected = {"publish": 5, "confirm": 5, "get": 2, "ack": 1, "messages": 4, "disk_writes": 5}
    broker.wait_until(lambda inside: expected.items() <= totals(inside).items(), "a sample")
    connection.close()
    gone = {**expected, "connection_closed": 1, "channel_closed": 1, "messages_ready": 4}
    broker.wait_until(lambda inside: gone.items() <= totals(inside).items(), "the end")


@pytest.mark.acceptance
def test_after_a_restart_depths_are_back_and_counters_begin_anew(settings: Settings) -> None:
    with broker_in_thread(settings, has_http=True) as before:
        connection = connect(before)
        channel = connection.channel()
        channel.queue_declare("q", durable=True)
        channel.tx_select()
        publish(channel, 3)
        channel.basic_get("q")
        channel.tx_commit()
        channel.basic_get("q")  # comes back as redelivered
        publish(channel, 1)  # never committed
        connection.close()
    with broker_in_thread(settings, has_http=True) as after:
        assert after.ask_queue("q", counts) == QueueCounts()
        facts = after.ask_queue("q", queue_facts)
        assert (facts.ready, facts.persistent, facts.ready_bytes) == (3, 3, 12)
        depths = {"messages": 3, "messages_ready": 3, "publish": 0}
        after.wait_until(lambda inside: depths.items() <= totals(inside).items(), "a sample")
        channel = connect(after).channel()
        assert channel.basic_get("q", auto_ack=True)[0].redelivered
        assert after.ask_queue("q", counts) == QueueCounts(get_no_ack=1, redeliver=1)
        channel.connection.close()
