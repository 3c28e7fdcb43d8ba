"""pika's BlockingConnection against the broker: exchanges, queues, connections and channels."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("pika", reason="pika (PyPI) is not installed")
import pika
from pika.adapters.blocking_connection import BlockingChannel
from pika.exceptions import AMQPConnectionError, ChannelClosedByBroker

from tests.support.broker_process import BrokerProcess, BrokerUnderTest, restarting
from tests.support.pika_calls import DELIVERY_DEADLINE_S, get_all, publish, receive
from tests.support.waiting import wait_for

from .conftest import PikaConnect

# Exchanges and queues


@pytest.mark.parametrize(
    ("kind", "bindings", "routing_key", "expected"),
    [
        ("direct", ["a", "b", "a.b"], "a", ["a"]),
        ("fanout", ["a", "b", ""], "anything", ["a", "b", ""]),
        (
            "topic",
            ["#", "*.b.*", "a.#", "a.*", "a.b.c", "a.b.c.#", "*.*.*.*"],
            "a.b.c",
            ["#", "*.b.*", "a.#", "a.b.c", "a.b.c.#"],
        ),
        ("topic", ["#", "*", "", "a"], "", ["#", ""]),  # the empty key has no word
    ],
)
@pytest.mark.row("E14")
def test_exchange_routes_by_its_type(
    channel: BlockingChannel,
    name: str,
    *,
    kind: str,
    bindings: list[str],
    routing_key: str,
    expected: list[str],
) -> None:
    channel.exchange_declare(name, kind, auto_delete=True)
    queues = {}
    for key in bindings:
        queues[key] = channel.queue_declare("", exclusive=True).method.queue
        channel.queue_bind(queues[key], name, key)
    channel.basic_publish(name, routing_key, b"x")
    assert [key for key in bindings if get_all(channel, queues[key])] == expected


@pytest.mark.parametrize(
    ("arguments", "headers", "matches"),
    [
        ({"x-match": "all", "a": 1, "b": "x"}, {"a": 1, "b": "x", "c": 9}, True),
        ({"x-match": "all", "a": 1, "b": "x"}, {"a": 1}, False),
        ({"x-match": "any", "a": 1, "b": "x"}, {"b": "x"}, True),
        ({"x-match": "any", "a": 1}, {"a": 2}, False),
        ({"a": 1}, {"a": 1}, True),
        ({"a": None}, {"a": "whatever"}, True),
        ({"a": None}, {"b": 1}, False),
        ({}, {"b": 1}, True),
        ({"x-match": "all-with-x", "x-tenant": 1}, {"x-tenant": 2}, False),
        ({"x-match": "any-with-x", "x-tenant": 1}, {"x-tenant": 1}, True),
    ],
)
def test_headers_exchange_matches_by_header_values(
    channel: BlockingChannel,
    queue: str,
    arguments: dict[str, Any],
    headers: dict[str, Any],
    matches: bool,
) -> None:
    channel.queue_bind(queue, "amq.headers", arguments=arguments)
    channel.basic_publish("amq.headers", "", b"x", pika.BasicProperties(headers=headers))
    assert bool(get_all(channel, queue)) is matches


def test_queue_bound_twice_gets_one_copy_and_unbind_stops_it(
    channel: BlockingChannel, queue: str
) -> None:
    for key in ("order.*", "*.created"):
        channel.queue_bind(queue, "amq.topic", key)
    channel.basic_publish("amq.topic", "order.created", b"both")
    channel.queue_unbind(queue, "amq.topic", "order.*")
    channel.basic_publish("amq.topic", "order.created", b"one")
    channel.queue_unbind(queue, "amq.topic", "*.created")
    channel.basic_publish("amq.topic", "order.created", b"none")
    assert get_all(channel, queue) == [b"both", b"one"]


def test_unbinding_what_does_not_exist_is_no_error(
    channel: BlockingChannel, queue: str, name: str
) -> None:
    # aio-pika's RPC.close() relies on it: it unbinds its result queue after that queue has gone.
    channel.queue_unbind(queue, "amq.direct", "never bound")
    channel.queue_unbind(name, "amq.direct", "k")
    channel.queue_unbind(queue, name, "k")
    channel.exchange_unbind("amq.fanout", name, "k")
    channel.exchange_unbind(name, "amq.fanout", "k")
    assert channel.is_open


def test_exchange_bound_to_exchange_passes_messages_on(
    channel: BlockingChannel, queue: str, name: str
) -> None:
    source, destination = name + "-source", name + "-destination"
    channel.exchange_declare(source, "direct", auto_delete=True)
    channel.exchange_declare(destination, "topic", auto_delete=True)
    channel.queue_bind(queue, destination, "#")
    channel.exchange_bind(destination, source, "k")
    channel.basic_publish(source, "k", b"through")
    channel.basic_publish(source, "other", b"not bound")
    assert get_all(channel, queue) == [b"through"]
    channel.exchange_unbind(destination, source, "k")  # the last binding of an auto-delete source
    with pytest.raises(ChannelClosedByBroker, match="no exchange"):
        channel.exchange_declare(source, passive=True)


def test_alternate_exchange_takes_what_nothing_else_matched(
    channel: BlockingChannel, queue: str, name: str
) -> None:
    channel.queue_bind(queue, "amq.fanout")
    channel.exchange_declare(
        name, "direct", auto_delete=True, arguments={"alternate-exchange": "amq.fanout"}
    )
    matched = channel.queue_declare("", exclusive=True).method.queue
    channel.queue_bind(matched, name, "known")
    channel.confirm_delivery()
    channel.basic_publish(name, "known", b"1", mandatory=True)
    channel.basic_publish(name, "unknown", b"2", mandatory=True)
    assert (get_all(channel, matched), get_all(channel, queue)) == ([b"1"], [b"2"])


@pytest.mark.acceptance
@pytest.mark.parametrize("kind", ["x-consistent-hash", "x-random"])
def test_spreading_exchange_gives_each_message_to_one_queue(
    channel: BlockingChannel, name: str, broker: BrokerUnderTest, kind: str
) -> None:
    try:
        channel.exchange_declare(name, kind, auto_delete=True)
    except (ChannelClosedByBroker, pika.exceptions.ConnectionClosedByBroker):
        # differs: plugins
        if not broker.is_foreign:
            raise
        pytest.skip(f"the broker that AMQP_URL_UNDER_TEST names has no plugin for {kind}")
    queues = [channel.queue_declare("", exclusive=True).method.queue for _ in range(3)]
    for queue in queues:
        channel.queue_bind(queue, name, "10")
    for n in range(300):
        channel.basic_publish(name, f"key-{n % 100}", f"key-{n % 100}".encode())
    shares = [get_all(channel, queue) for queue in queues]
    assert sum(map(len, shares)) == 300
    assert min(map(len, shares)) >= 30
    if kind == "x-consistent-hash":  # one key, one queue
        assert sum(len(set(share)) for share in shares) == 100


def test_cc_and_bcc_route_and_only_cc_is_seen(channel: BlockingChannel) -> None:
    queues = [channel.queue_declare("", exclusive=True).method.queue for _ in range(3)]
    headers = {"CC": [queues[1]], "BCC": [queues[2]], "other": 1}
    channel.basic_publish("", queues[0], b"x", pika.BasicProperties(headers=headers))
    for queue in queues:
        _, properties, body = channel.basic_get(queue, auto_ack=True)
        assert body == b"x"
        assert properties.headers == {"CC": [queues[1]], "other": 1}


def test_direct_reply_to_answers_a_request(connect: PikaConnect, queue: str) -> None:
    client, server = connect().channel(), connect().channel()
    requests = server.queue_declare("", auto_delete=True).method.queue
    replies = client.consume("amq.rabbitmq.reply-to", auto_ack=True, inactivity_timeout=0.01)
    next(replies)  # consuming comes first
    client.basic_publish(
        "", requests, b"2+2", pika.BasicProperties(reply_to="amq.rabbitmq.reply-to")
    )
    [(method, properties, _)] = receive(server, requests, 1)
    assert properties.reply_to.startswith("amq.rabbitmq.reply-to.")
    server.basic_publish("", properties.reply_to, b"4")
    server.basic_ack(method.delivery_tag)
    method, _, body = wait_for(
        lambda: next((m for m in replies if m[0]), None), DELIVERY_DEADLINE_S, "the reply"
    )
    assert (body, method.exchange) == (b"4", "")


def test_server_named_queue_is_the_channels_last_queue(channel: BlockingChannel) -> None:
    declared = channel.queue_declare("", exclusive=True).method.queue
    assert declared.startswith("amq.gen-")
    assert channel.queue_declare("", exclusive=True).method.queue != declared
    last = channel.queue_declare("", exclusive=True).method.queue
    channel.queue_bind("", "amq.direct", "to-last")
    channel.basic_publish("amq.direct", "to-last", b"x")
    assert get_all(channel, last) == [b"x"]


def test_declare_purge_and_delete_tell_their_counts(
    connection: pika.BlockingConnection, channel: BlockingChannel, name: str
) -> None:
    channel.queue_declare(name)
    publish(channel, name, b"1", b"2", b"3")
    other = connection.channel()
    other.basic_get(name)
    declared = channel.queue_declare(name).method
    assert (declared.message_count, declared.consumer_count) == (2, 0)
    assert channel.queue_purge(name).method.message_count == 2
    other.close()  # the unacked one was not purged
    assert channel.queue_delete(name).method.message_count == 1
    assert channel.queue_delete(name).method.message_count == 0


@pytest.mark.acceptance
def test_exclusive_queue_goes_before_close_ok(connect: PikaConnect, name: str) -> None:
    for _ in range(20):
        connection = connect()
        connection.channel().queue_declare(name, exclusive=True)
        connection.close()


def test_auto_delete_queue_goes_with_its_last_consumer(
    connection: pika.BlockingConnection, channel: BlockingChannel, name: str
) -> None:
    channel.queue_declare(name, auto_delete=True)
    tags = [channel.basic_consume(name, lambda *_: None) for _ in range(2)]
    channel.basic_cancel(tags[0])
    assert channel.queue_declare(name, passive=True).method.consumer_count == 1
    channel.basic_cancel(tags[1])
    with pytest.raises(ChannelClosedByBroker) as raised:
        channel.queue_declare(name, passive=True)
    assert raised.value.reply_code == 404


# Connections and channels


@pytest.mark.acceptance
def test_many_channels_of_one_connection_work_independently(
    connection: pika.BlockingConnection,
) -> None:
    channels = [connection.channel() for _ in range(200)]
    queues = [ch.queue_declare("", exclusive=True).method.queue for ch in channels]
    for n, ch in enumerate(channels):
        publish(ch, queues[-1 - n], b"%d" % n)
    for n, ch in enumerate(reversed(channels)):
        ch.confirm_delivery()  # a round trip of the channel that published
        assert get_all(channels[n], queues[n]) == [b"%d" % (199 - n)]
    for ch in channels:
        ch.close()
    assert connection.channel(channel_number=1).is_open


@pytest.mark.acceptance
def test_closed_channel_number_can_be_used_again(connection: pika.BlockingConnection) -> None:
    for _ in range(50):
        ch = connection.channel(channel_number=7)
        publish(ch, ch.queue_declare("", exclusive=True).method.queue, b"x")
        ch.close()


def test_channel_beyond_channel_max_is_not_allowed(connect: PikaConnect) -> None:
    connection = connect(channel_max=3)
    for _ in range(3):
        connection.channel()
    with pytest.raises(pika.exceptions.ConnectionClosedByBroker) as raised:
        connection.channel(channel_number=3 + 1)
    assert raised.value.reply_code == 530
    assert raised.value.reply_text == (
        "NOT_ALLOWED - number of channels opened (3) has reached the negotiated channel_max (3)"
    )


def test_update_secret_is_accepted(
    connection: pika.BlockingConnection, broker: BrokerUnderTest
) -> None:
    connection.update_secret(broker.password, "rotated")
    assert connection.channel().is_open


def test_blocked_capability_and_extensions_are_advertised(
    connection: pika.BlockingConnection,
) -> None:
    assert connection.publisher_confirms_supported
    assert connection.basic_nack_supported
    assert connection.consumer_cancel_notify_supported
    assert connection.exchange_exchange_bindings_supported


@pytest.mark.acceptance
@pytest.mark.row("E17")
def test_silent_peer_is_dropped_after_missed_heartbeats(
    connect: PikaConnect, channel: BlockingChannel, connection: pika.BlockingConnection, name: str
) -> None:
    silent = connect(heartbeat=1)  # and never served again: no heartbeat leaves it
    silent.channel().queue_declare(name, exclusive=True)

    def is_gone() -> bool:
        probe = connection.channel()
        try:
            probe.queue_declare(name, passive=True)
        except ChannelClosedByBroker as closed:
            return bool(closed.reply_code == 404)
        return False

    wait_for(is_gone, 60.0, "the broker to drop a silent connection and its exclusive queue")
    with pytest.raises(AMQPConnectionError):
        silent.channel()


@pytest.mark.acceptance
def test_consumer_reconnects_after_a_restart(own_broker: BrokerProcess, name: str) -> None:
    parameters = pika.URLParameters(own_broker.url)
    connection = pika.BlockingConnection(parameters)
    channel = connection.channel()
    channel.queue_declare(name)
    channel.basic_consume(name, lambda *_: None)

    with (
        restarting(own_broker),
        pytest.raises(pika.exceptions.ConnectionClosedByBroker) as raised,
    ):
        channel.start_consuming()
    assert raised.value.reply_code == 320
    assert raised.value.reply_text.startswith("CONNECTION_FORCED - ")

    again = pika.BlockingConnection(parameters)
    channel = again.channel()
    channel.queue_declare(name)
    publish(channel, name, b"after the restart")
    assert receive(channel, name, 1)[0][2] == b"after the restart"
    again.close()
