"""Numbered publishes as a user of pika sends them: again after every doubt, once in the queue."""

from __future__ import annotations

import contextlib
import re
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("pika", reason="pika (PyPI) is not installed")
import pika
from pika.exceptions import AMQPError, ChannelClosedByBroker, NackError, UnroutableError

from tests.support.broker_process import BrokerProcess
from tests.support.broker_thread import BrokerThread
from tests.support.pika_calls import get_all, ready_count

from .failing_disk import Disk

if TYPE_CHECKING:
    from pika.adapters.blocking_connection import BlockingChannel

    Open = Callable[[], BlockingChannel]


PAGE = Path(__file__).resolve().parents[2] / "docs" / "deduplication.md"


@pytest.fixture
def open_channel(inside: BrokerThread) -> Iterator[Open]:
    """A channel on a connection of its own."""
    connections: list[pika.BlockingConnection] = []

    def connect() -> BlockingChannel:
        connections.append(pika.BlockingConnection(parameters_of(inside)))
        return connections[-1].channel()

    yield connect
    for connection in connections:
        with contextlib.suppress(AMQPError):  # some were lost, which is not noticed before
            connection.close()


def parameters_of(inside: BrokerThread) -> pika.ConnectionParameters:
    host, port = inside.address
    return pika.ConnectionParameters(host, port)


def publish(
    channel: BlockingChannel, *numbers: int, queue: str = "orders", **options: bool
) -> None:
    for number in numbers:
        headers: dict[str, Any] = {"x-producer-id": "importer", "x-producer-seq": number}
        properties = pika.BasicProperties(headers=headers, delivery_mode=2)
        channel.basic_publish("", queue, b"%d" % number, properties, **options)


def numbers_in(channel: BlockingChannel, queue: str = "orders") -> list[int]:
    return [int(body) for body in get_all(channel, queue)]


def drop_all(broker: Any) -> None:
    """Break the socket of every client, as a network does."""
    for connection in list(broker.context.connections):
        connection.transport.abort()


@pytest.mark.acceptance
def test_the_example_of_the_page_sends_each_message_once(
    inside: BrokerThread, open_channel: Open
) -> None:
    code = re.search(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    assert code is not None
    example: dict[str, Any] = {}
    exec(code.group(1), example)
    open_channel().queue_declare("orders", durable=True)
    bodies = [b"%d" % number for number in range(600)]
    sender = threading.Thread(target=example["send_all"], args=(parameters_of(inside), bodies))
    sender.start()
    for count in range(100, 600, 100):

        def has_come(broker: Any, count: int = count) -> bool:
            return bool(broker.context.vhosts["/"].queues["orders"].ready_count >= count)

        inside.wait_until(has_come, "some messages")
        inside.ask(drop_all)
    sender.join()
    assert numbers_in(open_channel()) == list(range(600))


@pytest.mark.acceptance
def test_all_sent_again_after_a_connection_was_lost_in_the_middle(
    inside: BrokerThread, open_channel: Open
) -> None:
    channel = open_channel()
    channel.queue_declare("orders", durable=True)
    publish(channel, *range(300))  # of these nobody knows which have arrived
    inside.ask(drop_all)
    again = open_channel()
    again.confirm_delivery()
    publish(again, *range(400))
    assert numbers_in(again) == list(range(400))


def test_a_transaction_whose_commit_was_not_answered_is_sent_again(
    inside: BrokerThread, open_channel: Open
) -> None:
    channel = open_channel()
    channel.queue_declare("orders", durable=True)
    channel.tx_select()
    publish(channel, *range(50))
    inside.ask(drop_all)  # before the commit
    for _ in range(2):  # and once more, as if commit-ok had been lost
        channel = open_channel()
        channel.tx_select()
        publish(channel, *range(50))
        channel.tx_commit()
    publish(channel, 50, 50, 49)
    channel.tx_rollback()
    publish(channel, 50, 50, 49)
    channel.tx_commit()
    assert numbers_in(open_channel()) == list(range(51))


def test_what_was_returned_or_refused_may_come_again(open_channel: Open) -> None:
    channel = open_channel()
    channel.confirm_delivery()
    with pytest.raises(UnroutableError):
        publish(channel, 0, queue="later", mandatory=True)
    arguments = {"x-max-length": 1, "x-overflow": "reject-publish"}
    channel.queue_declare("later", durable=True, arguments=arguments)
    publish(channel, 0, queue="later", mandatory=True)
    with pytest.raises(NackError):
        publish(channel, 1, queue="later")
    publish(channel, 0, queue="later", mandatory=True)  # a duplicate is not refused
    assert numbers_in(channel, "later") == [0]
    publish(channel, 1, queue="later")
    assert numbers_in(channel, "later") == [1]


@pytest.mark.parametrize("in_transaction", [False, True], ids=["confirms", "tx"])
def test_what_only_an_archive_takes_is_there_once(
    inside: BrokerThread, open_channel: Open, in_transaction: bool
) -> None:
    channel = open_channel()
    channel.queue_declare("history", durable=True, arguments={"x-queue-type": "stream"})
    channel.exchange_declare("x", "fanout", arguments={"x-archive-to": "history"})
    for numbers in (range(5), range(3, 8)):
        channel = open_channel()
        if in_transaction:
            channel.tx_select()
        else:
            channel.confirm_delivery()
        for number in numbers:
            headers: dict[str, Any] = {"x-producer-id": "importer", "x-producer-seq": number}
            channel.basic_publish("x", "", b"%d" % number, pika.BasicProperties(headers=headers))
        if in_transaction:
            channel.tx_commit()

    def archived(broker: Any) -> list[bytes]:
        stream = broker.context.vhosts["/"].queues["history"]
        return [entry.message.body for entry in stream.order]

    assert inside.ask(archived) == [b"%d" % number for number in range(8)]


def test_a_number_without_a_producer_closes_the_channel(open_channel: Open) -> None:
    channel = open_channel()
    channel.confirm_delivery()
    properties = pika.BasicProperties(headers={"x-producer-seq": 1})
    with pytest.raises(ChannelClosedByBroker) as raised:
        channel.basic_publish("", "orders", b"", properties)
    assert raised.value.reply_code == 406
    assert "header 'x-producer-seq' needs 'x-producer-id' beside it" in raised.value.reply_text


def test_a_duplicate_of_what_the_disk_did_not_take_is_not_confirmed(
    disk: Disk, open_channel: Open
) -> None:
    channel = open_channel()
    channel.queue_declare("orders", durable=True)
    channel.confirm_delivery()
    publish(channel, 0)
    disk.is_broken = True
    with pytest.raises(NackError):
        publish(channel, 1)
    with pytest.raises(NackError):
        publish(channel, 1)
    assert ready_count(channel, "orders") == 2  # in memory


@pytest.mark.acceptance
def test_numbers_are_known_after_a_restart(own_broker: BrokerProcess) -> None:
    for is_killed in (False, True, False):
        with pika.BlockingConnection(pika.URLParameters(own_broker.url)) as connection:
            channel = connection.channel()
            channel.queue_declare("orders", durable=True)
            channel.confirm_delivery()
            start = ready_count(channel, "orders")
            publish(channel, *range(start + 20))
            assert ready_count(channel, "orders") == start + 20
        if is_killed:
            own_broker.restart_by_kill()
        else:
            own_broker.restart()
    with pika.BlockingConnection(pika.URLParameters(own_broker.url)) as connection:
        channel = connection.channel()
        publish(channel, *range(60))
        assert numbers_in(channel) == list(range(60))
