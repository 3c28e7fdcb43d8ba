"""pika's BlockingConnection against the broker: messages, as its users move them.

Exchanges, queues and connections are in ``test_pika_topology.py``, refusals in
``test_pika_errors.py``, the callback adapters in ``test_pika_callbacks.py``.
"""

from __future__ import annotations

import datetime
import decimal
from typing import Any

import pytest

pytest.importorskip("pika", reason="pika (PyPI) is not installed")
import pika
from pika.adapters.blocking_connection import BlockingChannel

from tests.support.broker_process import BrokerUnderTest
from tests.support.pika_calls import (
    DELIVERY_DEADLINE_S,
    get_all,
    publish,
    ready_count,
    receive,
    serve_until,
)

from .conftest import PikaConnect

DEFAULT_FRAME_MAX = 131_072
FRAME_OVERHEAD_OCTETS = 8


# Publishing and consuming


def test_callback_consumer_receives_in_order_what_was_published(
    channel: BlockingChannel, queue: str
) -> None:
    received: list[bytes] = []

    def on_message(ch: BlockingChannel, method: Any, _: Any, body: bytes) -> None:
        received.append(body)
        ch.basic_ack(method.delivery_tag)
        if len(received) == 100:
            ch.stop_consuming()

    publish(channel, queue, *(b"%d" % n for n in range(100)))
    channel.basic_consume(queue, on_message)
    channel.start_consuming()

    assert received == [b"%d" % n for n in range(100)]
    assert ready_count(channel, queue) == 0


def test_delivery_names_its_origin(channel: BlockingChannel, queue: str) -> None:
    channel.queue_bind(queue, "amq.topic", "stock.*")
    channel.basic_publish("amq.topic", "stock.nyse", b"x")
    [(method, _, _)] = receive(channel, queue, 1)
    assert (method.exchange, method.routing_key) == ("amq.topic", "stock.nyse")
    assert (method.delivery_tag, method.redelivered) == (1, False)
    assert method.consumer_tag in channel.consumer_tags


@pytest.mark.parametrize(
    "size",
    [
        0,
        1,
        DEFAULT_FRAME_MAX - FRAME_OVERHEAD_OCTETS - 1,
        DEFAULT_FRAME_MAX - FRAME_OVERHEAD_OCTETS,
        DEFAULT_FRAME_MAX - FRAME_OVERHEAD_OCTETS + 1,
        1024 * 1024,
        16 * 1024 * 1024,
    ],
)
def test_body_of_any_size_comes_back_whole(channel: BlockingChannel, queue: str, size: int) -> None:
    pattern = bytes(range(256))
    body = (pattern * (size // 256 + 1))[:size]
    publish(channel, queue, body)
    [(_, _, received)] = receive(channel, queue, 1)
    assert len(received) == size
    assert received == body


def test_small_frames_split_and_join_a_large_body(connect: PikaConnect) -> None:
    channel = connect(frame_max=8192).channel()
    queue = channel.queue_declare("", exclusive=True).method.queue
    body = bytes(range(256)) * 1024
    publish(channel, queue, body)
    assert receive(channel, queue, 1)[0][2] == body


def test_every_property_comes_back_unchanged(
    channel: BlockingChannel, queue: str, broker: BrokerUnderTest
) -> None:
    sent = pika.BasicProperties(
        content_type="text/plain",
        content_encoding="gzip",
        headers={"a": 1},
        delivery_mode=2,
        priority=7,
        correlation_id="corr-1",
        reply_to="replies",
        expiration="600000",
        message_id="id-1",
        timestamp=1_700_000_000,
        type="order",
        user_id=broker.username,
        app_id="interop",
        cluster_id="c1",
    )
    channel.basic_publish("", queue, b"x", sent)
    [(_, received, _)] = receive(channel, queue, 1)
    assert received == sent


def test_message_without_properties_arrives_without_properties(
    channel: BlockingChannel, queue: str
) -> None:
    publish(channel, queue, b"x")
    [(_, received, _)] = receive(channel, queue, 1)
    assert received == pika.BasicProperties()


def test_header_values_keep_their_types(channel: BlockingChannel, queue: str) -> None:
    headers = {
        "yes": True,
        "no": False,
        "int": -5,
        "long": 2**53,
        "text": "Grüße, 世界",
        "octets": b"\x00\xff",
        "decimal": decimal.Decimal("3.14"),
        "when": datetime.datetime(2024, 2, 29, 12, 0, tzinfo=datetime.UTC),
        "void": None,
        "table": {"inner": {"deep": [1, "two", None, True]}},
        "array": [{"x": 1}, [2, 3], "four"],
        "empty-table": {},
        "empty-array": [],
        "": "an empty name",
    }
    channel.basic_publish("", queue, b"", pika.BasicProperties(headers=headers))
    [(_, received, _)] = receive(channel, queue, 1)
    assert received.headers == headers
    for key, value in headers.items():  # equality alone would take 1 for True
        assert isinstance(received.headers[key], type(value)), key


# Confirms, returns and transactions


def test_confirmed_publish_returns_when_the_broker_has_the_message(
    channel: BlockingChannel, queue: str
) -> None:
    channel.confirm_delivery()
    for n in range(50):
        channel.basic_publish("", queue, b"%d" % n, mandatory=True)
    assert ready_count(channel, queue) == 50


def test_unroutable_mandatory_publish_raises_with_the_whole_message(
    channel: BlockingChannel, name: str
) -> None:
    channel.confirm_delivery()
    properties = pika.BasicProperties(message_id="m1", headers={"k": [1, 2]})
    with pytest.raises(pika.exceptions.UnroutableError) as raised:
        channel.basic_publish("", name, b"lost", properties, mandatory=True)
    [returned] = raised.value.messages
    assert (returned.method.reply_code, returned.method.reply_text) == (312, "NO_ROUTE")
    assert (returned.method.exchange, returned.method.routing_key) == ("", name)
    assert (returned.properties, returned.body) == (properties, b"lost")


def test_unroutable_publish_that_is_not_mandatory_is_confirmed(
    channel: BlockingChannel, name: str
) -> None:
    channel.confirm_delivery()
    channel.basic_publish("", name, b"dropped")
    assert channel.is_open


def test_return_callback_gets_the_message_without_confirms(
    connection: pika.BlockingConnection, channel: BlockingChannel, name: str
) -> None:
    returned: list[tuple[int, str, bytes]] = []
    channel.add_on_return_callback(
        lambda _ch, method, _props, body: returned.append(
            (method.reply_code, method.routing_key, body)
        )
    )
    channel.basic_publish("amq.direct", name, b"first", mandatory=True)
    channel.basic_publish("amq.direct", name, b"second", mandatory=True)
    serve_until(connection, lambda: len(returned) == 2, "two returned messages")
    assert returned == [(312, name, b"first"), (312, name, b"second")]


def test_commit_publishes_and_rollback_forgets(
    connection: pika.BlockingConnection, channel: BlockingChannel, queue: str
) -> None:
    tx = connection.channel()
    tx.tx_select()
    publish(tx, queue, b"kept-1", b"kept-2")
    assert ready_count(channel, queue) == 0
    tx.tx_commit()
    assert ready_count(channel, queue) == 2
    publish(tx, queue, b"forgotten")
    tx.tx_rollback()
    tx.tx_commit()
    assert get_all(channel, queue) == [b"kept-1", b"kept-2"]


def test_acks_take_effect_at_commit(
    connection: pika.BlockingConnection, channel: BlockingChannel, queue: str
) -> None:
    publish(channel, queue, b"a", b"b")
    tx = connection.channel()
    tx.tx_select()
    first, _, _ = tx.basic_get(queue)
    tx.basic_ack(first.delivery_tag)
    tx.tx_commit()
    second, _, _ = tx.basic_get(queue)
    tx.basic_ack(second.delivery_tag)
    tx.tx_rollback()
    tx.close()
    method, _, body = channel.basic_get(queue, auto_ack=True)
    assert (body, method.redelivered, method.message_count) == (b"b", True, 0)


# get, settling, recover and qos


def test_get_counts_what_remains_ready(channel: BlockingChannel, queue: str) -> None:
    assert channel.basic_get(queue) == (None, None, None)
    publish(channel, queue, b"1", b"2", b"3")
    counts = [channel.basic_get(queue)[0].message_count for _ in range(3)]
    assert counts == [2, 1, 0]
    assert channel.basic_get(queue) == (None, None, None)


def test_unacked_messages_return_when_their_channel_closes(
    connection: pika.BlockingConnection, channel: BlockingChannel, queue: str
) -> None:
    publish(channel, queue, b"1", b"2", b"3", b"4")
    other = connection.channel()
    tags = [other.basic_get(queue)[0].delivery_tag for _ in range(3)]
    other.basic_ack(tags[1])
    other.close()
    taken = [channel.basic_get(queue, auto_ack=True) for _ in range(3)]
    assert [(body, method.redelivered) for method, _, body in taken] == [
        (b"1", True),
        (b"3", True),
        (b"4", False),
    ]


@pytest.mark.parametrize("method_name", ["basic_nack", "basic_reject"])
def test_requeued_message_returns_to_its_place(
    channel: BlockingChannel, queue: str, method_name: str
) -> None:
    publish(channel, queue, b"1", b"2", b"3", b"4", b"5")
    tags = [channel.basic_get(queue)[0].delivery_tag for _ in range(4)]
    for position in (2, 0):
        getattr(channel, method_name)(tags[position], requeue=True)
    assert get_all(channel, queue) == [b"1", b"3", b"5"]


def test_rejected_message_without_requeue_is_gone(channel: BlockingChannel, queue: str) -> None:
    publish(channel, queue, b"1", b"2", b"3")
    channel.basic_reject(channel.basic_get(queue)[0].delivery_tag, requeue=False)
    channel.basic_nack(channel.basic_get(queue)[0].delivery_tag, requeue=False)
    assert get_all(channel, queue) == [b"3"]


def test_multiple_covers_all_earlier_tags(
    connection: pika.BlockingConnection, channel: BlockingChannel, queue: str
) -> None:
    publish(channel, queue, *(b"%d" % n for n in range(9)))
    worker = connection.channel()
    tags = [worker.basic_get(queue)[0].delivery_tag for _ in range(9)]
    worker.basic_ack(tags[2], multiple=True)
    worker.basic_nack(tags[5], multiple=True, requeue=True)
    assert get_all(channel, queue) == [b"3", b"4", b"5"]
    worker.basic_ack(0, multiple=True)
    worker.close()
    assert get_all(channel, queue) == []


def test_recover_delivers_again_in_order(channel: BlockingChannel, queue: str) -> None:
    publish(channel, queue, b"1", b"2", b"3")
    tags = [channel.basic_get(queue)[0].delivery_tag for _ in range(3)]
    channel.basic_ack(tags[1])
    channel.basic_recover(requeue=True)
    taken = [channel.basic_get(queue) for _ in range(2)]
    assert [(body, method.redelivered) for method, _, body in taken] == [
        (b"1", True),
        (b"3", True),
    ]


def test_prefetch_count_limits_a_consumer_until_it_acks(
    connection: pika.BlockingConnection, channel: BlockingChannel, queue: str
) -> None:
    publish(channel, queue, *(b"%d" % n for n in range(10)))
    worker = connection.channel()
    worker.basic_qos(prefetch_count=3)
    tags: list[int] = []
    worker.basic_consume(queue, lambda _ch, method, *_: tags.append(method.delivery_tag))
    serve_until(connection, lambda: len(tags) >= 3, "three deliveries")
    assert ready_count(channel, queue) == 7
    worker.basic_ack(tags[1], multiple=True)
    serve_until(connection, lambda: len(tags) >= 5, "two more deliveries after two acks")
    assert ready_count(channel, queue) == 5
    assert tags == [1, 2, 3, 4, 5]


def test_global_prefetch_is_shared_by_the_channels_consumers(
    connection: pika.BlockingConnection, channel: BlockingChannel, queue: str
) -> None:
    publish(channel, queue, *(b"%d" % n for n in range(10)))
    worker = connection.channel()
    worker.basic_qos(prefetch_count=4, global_qos=True)
    seen: dict[str, list[int]] = {"a": [], "b": []}
    for tag in seen:
        worker.basic_consume(
            queue,
            lambda _ch, method, *_: seen[method.consumer_tag].append(method.delivery_tag),
            consumer_tag=tag,
        )
    serve_until(
        connection, lambda: sum(map(len, seen.values())) >= 4, "four deliveries over both consumers"
    )
    assert ready_count(channel, queue) == 6


@pytest.mark.acceptance
def test_consumers_of_one_queue_take_turns(
    connection: pika.BlockingConnection, channel: BlockingChannel, queue: str
) -> None:
    counts = {"a": 0, "b": 0, "c": 0}

    def on_message(ch: BlockingChannel, method: Any, *_: Any) -> None:
        counts[method.consumer_tag] += 1
        ch.basic_ack(method.delivery_tag)

    channel.basic_qos(prefetch_count=1)
    for tag in counts:
        channel.basic_consume(queue, on_message, consumer_tag=tag)
    publish(connection.channel(), queue, *(b"x" for _ in range(90)))
    serve_until(connection, lambda: sum(counts.values()) == 90, "ninety deliveries")
    assert min(counts.values()) >= 20


# Cancelling


def test_cancelled_consumer_leaves_the_rest_in_the_queue(
    channel: BlockingChannel, queue: str
) -> None:
    publish(channel, queue, b"1", b"2", b"3")
    [(first, _, _)] = receive(channel, queue, 1)
    channel.basic_ack(first.delivery_tag)
    channel.cancel()  # pika gives back what it holds
    assert get_all(channel, queue) == [b"2", b"3"]


def test_unacked_deliveries_outlive_their_consumer(
    connection: pika.BlockingConnection, channel: BlockingChannel, queue: str
) -> None:
    worker = connection.channel()
    taken: list[int] = []
    tag = worker.basic_consume(queue, lambda _ch, method, *_: taken.append(method.delivery_tag))
    publish(channel, queue, b"1")
    serve_until(connection, lambda: taken, "a delivery")
    worker.basic_cancel(tag)
    assert ready_count(channel, queue) == 0
    worker.basic_ack(taken[0])
    worker.close()
    assert ready_count(channel, queue) == 0


def test_consumer_is_told_when_its_queue_is_deleted(
    connection: pika.BlockingConnection, channel: BlockingChannel, queue: str
) -> None:
    cancelled: list[str] = []
    channel.add_on_cancel_callback(lambda frame: cancelled.append(frame.method.consumer_tag))
    tag = channel.basic_consume(queue, lambda *_: None)
    connection.channel().queue_delete(queue)
    serve_until(connection, lambda: cancelled, "basic.cancel from the broker")
    assert cancelled == [tag]
    assert channel.is_open


def test_consume_generator_ends_when_its_queue_is_deleted(
    connection: pika.BlockingConnection, channel: BlockingChannel, queue: str
) -> None:
    publish(channel, queue, b"1")
    seen = []
    for method, _, body in channel.consume(queue, inactivity_timeout=DELIVERY_DEADLINE_S):
        assert method is not None, "the generator waits for ever"
        seen.append(body)
        connection.channel().queue_delete(queue)
    assert seen == [b"1"]
