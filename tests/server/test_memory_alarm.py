"""The memory alarm: publishers are told and not read from, consumers go on, and then all do."""

from __future__ import annotations

from pathlib import Path

import pika
import pytest
from pamqp import commands

from hareline.settings import Limits, Settings
from tests.support.broker_process import StartDaemon
from tests.support.broker_thread import BrokerThread, StartBroker
from tests.support.raw_client import RawClient
from tests.support.waiting import wait_for

DEADLINE_S = 60.0
MIB = 1 << 20

needs_proc = pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="needs Linux's /proc")


@pytest.mark.acceptance
@needs_proc
def test_publishers_wait_above_the_watermark_until_consumers_have_freed_memory(
    start_daemon: StartDaemon,
) -> None:
    config = '[memory]\nspool_share = 1\ncheck_interval_s = 0.05\nwatermark = "64GiB"\n'
    daemon = start_daemon(config)
    publisher = pika.BlockingConnection(pika.URLParameters(daemon.url))
    told: list[str] = []
    publisher.add_on_connection_blocked_callback(lambda _, f: told.append(f.method.reason))
    publisher.add_on_connection_unblocked_callback(lambda *_: told.append("unblocked"))
    channel = publisher.channel()
    channel.queue_declare("q")
    daemon.reload(config.replace('"64GiB"', str(daemon.resident_bytes + 30 * MIB)))

    published = 0

    def is_blocked() -> bool:
        nonlocal published
        for _ in range(20):
            channel.basic_publish("", "q", bytes(20_000))
            published += 1
        publisher.process_data_events(0)
        return bool(told)

    wait_for(is_blocked, DEADLINE_S, "connection.blocked")
    assert told == ["low on memory"]
    for _ in range(50):  # these stay in the socket
        channel.basic_publish("", "q", b"afterwards")

    with RawClient((daemon.host, daemon.port)) as consumer:
        consumer.open()
        consumer.consume("q", no_ack=True)
        bodies = consumer.read_bodies(published)
        assert set(bodies) == {bytes(20_000)}

        def is_unblocked() -> bool:
            publisher.process_data_events(0.05)
            return len(told) > 1

        wait_for(is_unblocked, DEADLINE_S, "connection.unblocked")
        assert consumer.read_bodies(50) == [b"afterwards"] * 50
    assert told == ["low on memory", "unblocked"]
    publisher.close()
    codes = [
        code
        for code in ("MEM-1001", "CON-1009", "MEM-1002", "CON-1010")
        if code in daemon.log_path.read_text()
    ]
    assert len(codes) == 4


@pytest.mark.acceptance
@needs_proc
@pytest.mark.acceptance("the disk has to keep pace with the publisher")
def test_what_nobody_acknowledges_leaves_memory_and_raises_no_alarm(
    start_daemon: StartDaemon, tmp_path: Path
) -> None:
    config = f'data_dir = "{tmp_path / "data"}"\n[memory]\ncheck_interval_s = 0.05\n'
    daemon = start_daemon(config + 'watermark = "64GiB"\n')
    connection = pika.BlockingConnection(pika.URLParameters(daemon.url))
    told: list[object] = []
    connection.add_on_connection_blocked_callback(lambda *_: told.append("blocked"))
    before = daemon.resident_bytes
    watermark = before + 80 * MIB
    spool_share = (before + 40 * MIB) / watermark
    daemon.reload(f"{config}watermark = {watermark}\nspool_share = {spool_share}\n")
    channel = connection.channel()
    channel.confirm_delivery()
    channel.queue_declare("q", durable=True)
    taken: list[bytes] = []
    channel.basic_consume("q", lambda *delivery: taken.append(delivery[3][:8]))
    numbers = [b"%08d" % number for number in range(1_500)]  # 150 MB
    for number in numbers:
        channel.basic_publish(
            "", "q", number + bytes(100_000), pika.BasicProperties(delivery_mode=2)
        )
    wait_for(
        lambda: connection.process_data_events(0.05) or len(taken) == len(numbers),
        DEADLINE_S,
        "all deliveries",
    )
    assert told == []
    channel.close()
    again = connection.channel()
    taken.clear()
    again.basic_consume("q", lambda *delivery: taken.append(delivery[3][:8]), auto_ack=True)
    wait_for(
        lambda: connection.process_data_events(0.05) or len(taken) == len(numbers),
        DEADLINE_S,
        "all of them once more",
    )
    assert taken == numbers
    connection.close()


def test_a_channel_above_the_limit_of_unacknowledged_deliveries_is_closed(
    start_broker: StartBroker,
) -> None:
    broker = start_broker(Settings(limits=Limits(max_unacked_per_channel=4)))
    connection = pika.BlockingConnection(pika.URLParameters(broker.ask(lambda inside: inside.url)))
    channel = connection.channel()
    channel.queue_declare("q")
    channel.basic_consume("q", lambda *_: None)
    for _ in range(5):
        channel.basic_publish("", "q", b"")
    with pytest.raises(pika.exceptions.ChannelClosedByBroker, match="max_unacked_per_channel"):
        channel.start_consuming()
    assert connection.channel().queue_declare("q", passive=True).method.message_count == 5
    connection.close()


def test_a_blocked_publisher_is_not_read_from_and_loses_nothing(broker: BrokerThread) -> None:
    publisher, observer = broker.client().open(), broker.client().open()
    observer.declare("q")
    broker.ask(lambda inside: inside.context.alarms.set("memory"))
    octets = publisher.publish_octets("q", bytes(100_000))
    count = publisher.send_until_nobody_reads(octets)
    publisher.expect(commands.Connection.Blocked)
    assert count > 1
    assert observer.ready_count("q") == 0
    broker.ask(lambda inside: inside.context.alarms.clear("memory"))
    publisher.expect(commands.Connection.Unblocked)
    publisher.send_the_rest()
    wait_for(lambda: observer.ready_count("q") == count + 1, DEADLINE_S, "all its publishes")


def test_who_does_not_publish_is_not_blocked(broker: BrokerThread) -> None:
    publisher, consumer = broker.client().open(), broker.client().open()
    consumer.declare("q")
    publisher.publish("q", b"before")
    broker.wait_until(
        lambda inside: inside.context.vhosts["/"].queues["q"].ready_count == 1, "the message"
    )
    broker.ask(lambda inside: inside.context.alarms.set("memory"))
    consumer.consume("q", no_ack=False)
    assert consumer.read_bodies(1) == [b"before"]
    consumer.send(commands.Basic.Ack(delivery_tag=1))
    assert consumer.declare("other") == "other"
    broker.wait_until(
        lambda inside: inside.context.vhosts["/"].queues["q"].unacked_count == 0, "the ack"
    )
    assert broker.ask(
        lambda inside: [connection.is_blocked for connection in inside.context.connections]
    ) == [False, False]


def test_a_blocked_client_that_cannot_be_told_is_held_all_the_same(broker: BrokerThread) -> None:
    publisher, observer = broker.client().open(capabilities={}), broker.client().open()
    observer.declare("q")
    broker.ask(lambda inside: inside.context.alarms.set("memory"))
    octets = publisher.publish_octets("q", bytes(100_000))
    count = publisher.send_until_nobody_reads(octets)
    broker.ask(lambda inside: inside.context.alarms.clear("memory"))
    publisher.send_the_rest()
    wait_for(lambda: observer.ready_count("q") == count + 1, DEADLINE_S, "all its publishes")
    assert publisher.declare("next-frame") == "next-frame"


def test_a_blocked_client_that_goes_away_is_noticed_when_the_alarm_ends(
    broker: BrokerThread,
) -> None:
    publisher = broker.client().open()
    broker.ask(lambda inside: inside.context.alarms.set("memory"))
    publisher.publish("nowhere", b"x")
    publisher.expect(commands.Connection.Blocked)
    publisher.drop()
    broker.ask(lambda inside: inside.context.alarms.clear("memory"))
    broker.wait_until(lambda inside: not inside.context.connections, "it to be gone")
