"""Durability as a user of pika sees it: confirms, transactions, refusals, and a disk that fails."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("pika", reason="pika (PyPI) is not installed")
import pika
from pika.exceptions import ChannelClosedByBroker, NackError, UnroutableError

from tests.support.broker_process import BrokerProcess
from tests.support.broker_thread import BrokerThread
from tests.support.pika_calls import get_all, ready_count, receive, serve_until
from tests.support.waiting import wait_for

from .conftest import StartBroker
from .failing_disk import Disk

if TYPE_CHECKING:
    from pika.adapters.blocking_connection import BlockingChannel

    Open = Callable[[], BlockingChannel]


DEADLINE_S = 60.0
PERSISTENT = pika.BasicProperties(delivery_mode=2)
TRANSIENT = pika.BasicProperties(delivery_mode=1)
LOW_DISK = "[disk]\nfree_watermark = 1.0\ncheck_interval_s = 0.05\n"
ENOUGH_DISK = LOW_DISK.replace("1.0", '"1KiB"')


@pytest.fixture
def open_channel(inside: BrokerThread) -> Iterator[Open]:
    """A channel on a connection of its own."""
    connections: list[pika.BlockingConnection] = []

    def connect() -> BlockingChannel:
        host, port = inside.address
        connection = pika.BlockingConnection(pika.ConnectionParameters(host, port))
        connections.append(connection)
        return connection.channel()

    yield connect
    for connection in connections:
        if connection.is_open:
            connection.close()


def keep(channel: BlockingChannel, *bodies: bytes, queue: str = "d", **options: bool) -> None:
    for body in bodies:
        channel.basic_publish("", queue, body, PERSISTENT, **options)


def break_disk(inside: BrokerThread, disk: Disk, channel: BlockingChannel) -> None:
    """The next sync fails; returns when the broker knows."""
    disk.is_broken = True
    with pytest.raises(NackError):
        keep(channel, b"lost")
    assert inside.ask(
        lambda broker: "Input/output error" in broker.context.vhosts["/"].environment.store.failure
    )


# --------------------------------------------------------------------------- all is well


@pytest.mark.acceptance
def test_persistent_publishes_are_confirmed_and_there_after_a_restart(
    start_broker: StartBroker,
) -> None:
    daemon = start_broker()
    with pika.BlockingConnection(pika.URLParameters(daemon.url)) as connection:
        channel = connection.channel()
        channel.queue_declare("d", durable=True)
        channel.confirm_delivery()
        keep(channel, b"1", b"2", b"3")
        method, _, _ = channel.basic_get("d")
        channel.basic_ack(method.delivery_tag)
        channel.basic_get("d")
        connection.process_data_events(0)
    daemon.stop()
    daemon.start()
    with pika.BlockingConnection(pika.URLParameters(daemon.url)) as connection:
        channel = connection.channel()
        first, _, body = channel.basic_get("d", auto_ack=True)
        assert (body, first.redelivered) == (b"2", True)
        second, _, body = channel.basic_get("d", auto_ack=True)
        assert (body, second.redelivered) == (b"3", False)
        assert channel.basic_get("d")[0] is None


def test_a_transaction_is_there_when_it_is_committed(open_channel: Open) -> None:
    channel, other = open_channel(), open_channel()
    channel.queue_declare("d", durable=True)
    channel.tx_select()
    keep(channel, *(b"%d" % number for number in range(100)))
    assert ready_count(other, "d") == 0
    channel.tx_commit()
    assert ready_count(other, "d") == 100
    keep(channel, b"never")
    channel.tx_rollback()
    assert len(get_all(other, "d")) == 100


def test_a_mandatory_publish_to_nowhere_is_returned(open_channel: Open) -> None:
    channel = open_channel()
    channel.confirm_delivery()
    with pytest.raises(UnroutableError) as caught:
        keep(channel, b"x", queue="nowhere", mandatory=True)
    assert caught.value.messages[0].method.reply_code == 312


# --------------------------------------------------------------------------- the disk has failed


def test_after_a_failed_sync_publishes_are_refused_and_reads_go_on(
    inside: BrokerThread, disk: Disk, open_channel: Open
) -> None:
    channel = open_channel()
    channel.queue_declare("d", durable=True)
    channel.queue_declare("t")
    channel.confirm_delivery()
    keep(channel, b"1", b"2")
    break_disk(inside, disk, channel)
    with pytest.raises(NackError):
        keep(channel, b"refused")
    keep(channel, b"t1", queue="t")
    channel.basic_publish("", "d", b"transient", TRANSIENT)
    reader = open_channel()
    received = receive(reader, "d", 4)
    assert [body for _, _, body in received] == [b"1", b"2", b"lost", b"transient"]
    reader.basic_ack(received[-1][0].delivery_tag, multiple=True)
    reader.cancel()
    assert get_all(channel, "t") == [b"t1"]
    inside.wait_until(
        lambda broker: broker.context.vhosts["/"].queues["d"].settled_count == 4, "the ack"
    )


def test_without_confirms_the_channel_says_why(
    inside: BrokerThread, disk: Disk, open_channel: Open
) -> None:
    confirming, channel = open_channel(), open_channel()
    confirming.queue_declare("d", durable=True)
    confirming.confirm_delivery()
    break_disk(inside, disk, confirming)
    keep(channel, b"refused")
    with pytest.raises(ChannelClosedByBroker) as caught:
        channel.queue_declare("d", passive=True)
    assert caught.value.reply_code == 506
    assert "cannot be stored" in caught.value.reply_text
    assert "Input/output error" in caught.value.reply_text
    again = channel.connection.channel()
    assert ready_count(again, "d") == 1  # what was nacked when the disk failed


def test_a_mandatory_publish_under_confirms_is_nacked_and_not_returned(
    inside: BrokerThread, disk: Disk, open_channel: Open
) -> None:
    channel = open_channel()
    channel.queue_declare("d", durable=True)
    channel.confirm_delivery()
    break_disk(inside, disk, channel)
    with pytest.raises(NackError) as caught:
        keep(channel, b"x", mandatory=True)
    assert caught.value.messages == []


def test_a_mandatory_publish_without_confirms_is_returned_with_the_reason(
    inside: BrokerThread, disk: Disk, open_channel: Open
) -> None:
    confirming, channel = open_channel(), open_channel()
    confirming.queue_declare("d", durable=True)
    confirming.confirm_delivery()
    break_disk(inside, disk, confirming)
    returned: list[tuple[int, str]] = []
    channel.add_on_return_callback(
        lambda _channel, method, _properties, _body: returned.append(
            (method.reply_code, method.reply_text)
        )
    )
    keep(channel, b"x", mandatory=True)
    serve_until(channel.connection, lambda: returned, "basic.return")
    ((code, text),) = returned
    assert code == 506
    assert "Input/output error" in text


def test_a_commit_is_refused_with_the_reason(
    inside: BrokerThread, disk: Disk, open_channel: Open
) -> None:
    confirming, channel = open_channel(), open_channel()
    confirming.queue_declare("d", durable=True)
    channel.tx_select()
    keep(channel, b"1")
    channel.tx_commit()
    disk.is_broken = True
    keep(channel, b"2")
    with pytest.raises(ChannelClosedByBroker) as caught:
        channel.tx_commit()
    assert caught.value.reply_code == 506
    assert "unknown whether" in caught.value.reply_text
    channel = channel.connection.channel()
    channel.tx_select()
    keep(channel, b"3")
    with pytest.raises(ChannelClosedByBroker) as caught:
        channel.tx_commit()
    assert caught.value.reply_code == 506
    assert "not committed" in caught.value.reply_text


# --------------------------------------------------------------------------- the disk is full


@pytest.mark.acceptance
def test_a_publisher_waits_until_the_disk_has_room_again(
    inside: BrokerThread, disk: Disk, open_channel: Open
) -> None:
    channel, reader = open_channel(), open_channel()
    channel.queue_declare("d", durable=True)
    channel.confirm_delivery()
    keep(channel, b"1")
    disk.is_full = True
    is_confirmed = threading.Event()

    def publish() -> None:
        keep(channel, b"2")
        is_confirmed.set()

    publisher = threading.Thread(target=publish, daemon=True)
    publisher.start()
    inside.wait_until(lambda broker: broker.context.alarms.is_on, "the alarm")
    assert inside.ask(lambda broker: broker.context.alarms.reason) == "low on disk"
    received = receive(reader, "d", 2)
    reader.basic_ack(received[0][0].delivery_tag)
    inside.wait_until(
        lambda broker: broker.context.vhosts["/"].queues["d"].settled_count == 1, "the ack"
    )
    assert not is_confirmed.is_set()
    disk.is_full = False
    publisher.join(DEADLINE_S)
    assert is_confirmed.is_set()
    inside.wait_until(lambda broker: not broker.context.alarms.is_on, "the end of the alarm")


@pytest.mark.acceptance
def test_publishers_are_told_that_the_disk_is_low(start_broker: StartBroker) -> None:
    daemon: BrokerProcess = start_broker(LOW_DISK)
    wait_for(lambda: "DSK-1001" in daemon.log_tail(), DEADLINE_S, "DSK-1001 in its log")
    connection = pika.BlockingConnection(pika.URLParameters(daemon.url))
    told: list[str] = []
    connection.add_on_connection_blocked_callback(lambda _, frame: told.append(frame.method.reason))
    connection.add_on_connection_unblocked_callback(lambda *_: told.append("unblocked"))
    channel = connection.channel()
    channel.queue_declare("d", durable=True)
    keep(channel, b"held back")
    serve_until(connection, lambda: told, "connection.blocked")
    assert told == ["low on disk"]
    daemon.reload(daemon.config_path.read_text().replace(LOW_DISK, ENOUGH_DISK))
    serve_until(connection, lambda: len(told) > 1, "connection.unblocked")
    assert told == ["low on disk", "unblocked"]
    assert receive(channel, "d", 1)[0][2] == b"held back"
    connection.close()
