"""Duplicates by message id as a user of pika sends them: confirmed, and once in the queue."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("pika", reason="pika (PyPI) is not installed")
import pika

from tests.support.broker_process import BrokerProcess
from tests.support.broker_thread import BrokerThread
from tests.support.pika_calls import get_all, ready_count

if TYPE_CHECKING:
    from pika.adapters.blocking_connection import BlockingChannel

BY_ID = {"x-message-deduplication": True}


@pytest.fixture
def channel(inside: BrokerThread) -> Iterator[BlockingChannel]:
    host, port = inside.address
    with pika.BlockingConnection(pika.ConnectionParameters(host, port)) as connection:
        yield connection.channel()


def publish(channel: BlockingChannel, *ids: str, queue: str = "orders", **options: bool) -> None:
    for each in ids:
        headers: dict[str, Any] = {"x-deduplication-header": each}
        properties = pika.BasicProperties(headers=headers, delivery_mode=2)
        channel.basic_publish("", queue, each.encode(), properties, **options)


@pytest.mark.row("S13")
def test_a_message_that_is_sent_twice_is_there_once(channel: BlockingChannel) -> None:
    channel.queue_declare("orders", durable=True, arguments=BY_ID)
    channel.confirm_delivery()
    publish(channel, "a", "b", "a", mandatory=True)  # neither nacked nor returned
    assert ready_count(channel, "orders") == 2
    assert get_all(channel, "orders") == [b"a", b"b"]
    publish(channel, "a")  # which has left
    assert get_all(channel, "orders") == [b"a"]


@pytest.mark.row("S13")
def test_a_transaction_sent_again(channel: BlockingChannel) -> None:
    channel.queue_declare("orders", durable=True, arguments={**BY_ID, "x-cache-size": 100})
    channel.tx_select()
    publish(channel, "a", "a")
    channel.tx_rollback()
    for _ in range(2):
        publish(channel, "a", "b", "a")
        channel.tx_commit()
    assert get_all(channel, "orders") == [b"a", b"b"]


@pytest.mark.row("S13")
@pytest.mark.acceptance
@pytest.mark.parametrize("is_killed", [False, True], ids=["stopped", "killed"])
def test_ids_of_waiting_messages_are_known_after_a_restart(
    own_broker: BrokerProcess, is_killed: bool
) -> None:
    with pika.BlockingConnection(pika.URLParameters(own_broker.url)) as connection:
        channel = connection.channel()
        channel.queue_declare("orders", durable=True, arguments=BY_ID)
        channel.confirm_delivery()
        publish(channel, "a", "b", "c")
    if is_killed:
        own_broker.restart_by_kill()
    else:
        own_broker.restart()
    with pika.BlockingConnection(pika.URLParameters(own_broker.url)) as connection:
        channel = connection.channel()
        channel.confirm_delivery()
        publish(channel, "c", "a", "d")
        assert get_all(channel, "orders") == [b"a", b"b", b"c", b"d"]
