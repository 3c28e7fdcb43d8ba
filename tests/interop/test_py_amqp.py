"""py-amqp against the broker: the client below kombu and Celery, method by method.

It sends what others do not: AMQPLAIN, nowait forms, immediate publishes, recover-async.
"""

from __future__ import annotations

import contextlib
import datetime
import decimal
import socket
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

pytest.importorskip("amqp", reason="amqp (py-amqp, PyPI) is not installed")
import amqp
from amqp import spec

from tests.support.broker_process import BrokerProcess, BrokerUnderTest, restarting
from tests.support.waiting import wait_for

DEADLINE_S = 60.0

Connect = Callable[..., amqp.Connection]


@pytest.fixture
def connect(broker: BrokerUnderTest) -> Iterator[Connect]:
    """``connect(**options)`` opens a py-amqp connection; all are closed at the end."""
    opened: list[amqp.Connection] = []

    def open_connection(**options: Any) -> amqp.Connection:
        connection = amqp.Connection(
            **{
                "host": f"{broker.host}:{broker.port}",
                "userid": broker.username,
                "password": broker.password,
                "virtual_host": broker.vhost,
                **options,
            }
        )
        opened.append(connection)
        connection.connect()
        return connection

    yield open_connection
    for connection in opened:
        if connection.connected:
            connection.close()


@pytest.fixture
def connection(connect: Connect) -> amqp.Connection:
    return connect()


@pytest.fixture
def channel(connection: amqp.Connection) -> amqp.Channel:
    return connection.channel()


@pytest.fixture
def queue(channel: amqp.Channel) -> str:
    return str(channel.queue_declare(exclusive=True, auto_delete=False).queue)


def drain_until(connection: amqp.Connection, condition: Callable[[], object], what: str) -> None:
    """Serve the connection until ``condition`` holds; fails naming ``what``."""

    def served() -> bool:
        if not condition():
            with contextlib.suppress(TimeoutError):
                connection.drain_events(timeout=0.1)
        return bool(condition())

    wait_for(served, DEADLINE_S, what)


@pytest.mark.parametrize("method", ["PLAIN", "AMQPLAIN"])
def test_login_mechanisms(connect: Connect, broker: BrokerUnderTest, method: str) -> None:
    assert connect(login_method=method).connected
    with pytest.raises(amqp.AccessRefused, match=f"using authentication mechanism {method}"):
        connect(login_method=method, password="wrong")


def test_server_properties_are_what_clients_look_at(connection: amqp.Connection) -> None:
    properties = connection.server_properties
    assert properties["product"] == "RabbitMQ"
    assert tuple(map(int, properties["version"].split("."))) >= (3, 3, 0)
    assert all(
        properties["capabilities"][name]
        for name in (
            "publisher_confirms",
            "exchange_exchange_bindings",
            "basic.nack",
            "consumer_cancel_notify",
            "connection.blocked",
            "authentication_failure_close",
            "per_consumer_qos",
            "direct_reply_to",
        )
    )
    assert {"PLAIN", "AMQPLAIN"} <= {name.decode() for name in connection.mechanisms}


def test_unknown_vhost_is_not_allowed(connect: Connect) -> None:
    with pytest.raises(amqp.NotAllowed, match="vhost nope not found"):
        connect(virtual_host="nope")


def test_tuning_offers_usable_limits_and_the_lower_heartbeat_wins(connect: Connect) -> None:
    connection = connect(heartbeat=7)
    assert connection.heartbeat == 7
    assert connection.frame_max == 131_072
    assert 255 <= connection.channel_max <= 65_535


def test_immediate_is_not_implemented(channel: amqp.Channel, queue: str) -> None:
    channel.basic_publish(amqp.Message("x"), routing_key=queue, immediate=True)
    with pytest.raises(amqp.AMQPNotImplementedError) as raised:
        channel.basic_qos(0, 0, False)
    assert raised.value.reply_text == "NOT_IMPLEMENTED - immediate=true"
    assert raised.value.reply_code == 540
    assert tuple(raised.value.method_sig) == spec.Basic.Publish
    assert raised.value.method_name == "Basic.publish"


def test_properties_come_back_exactly(channel: amqp.Channel, queue: str) -> None:
    properties = {
        "content_type": "text/plain",
        "content_encoding": "utf-8",
        "application_headers": {
            "foo": 7,
            "bar": "baz",
            "d": decimal.Decimal("7.25"),
            "t": datetime.datetime(2024, 1, 2, 3, 4, 5),
            "n": None,
            "f": 1.5,
            "b": True,
            "nested": {"list": [1, "two", {"three": 3}]},
        },
        "delivery_mode": 2,
        "priority": 5,
        "correlation_id": "c",
        "reply_to": "r",
        "expiration": "600000",
        "message_id": "m",
        "timestamp": 1_704_164_645,
        "type": "t",
        "app_id": "a",
    }
    channel.basic_publish(amqp.Message("unittest message", **properties), routing_key=queue)
    received = channel.basic_get(queue, no_ack=True)
    assert received.properties == properties
    assert received.body == "unittest message"


@pytest.mark.parametrize("size", [0, 1, 20_000, 4 * 1024 * 1024])
def test_body_of_any_size_comes_back_whole(channel: amqp.Channel, queue: str, size: int) -> None:
    body = bytes(n % 251 for n in range(1000)) * (size // 1000 + 1)
    channel.basic_publish(amqp.Message(body[:size]), routing_key=queue)
    received = channel.basic_get(queue, no_ack=True)
    octets = received.body if isinstance(received.body, bytes) else received.body.encode()
    assert octets == body[:size]


def test_delivery_and_get_describe_the_message(
    connection: amqp.Connection, channel: amqp.Channel, queue: str
) -> None:
    received: list[amqp.Message] = []
    channel.queue_bind(queue, "amq.direct", "k")
    tag = channel.basic_consume(queue, callback=received.append)
    assert tag.startswith("amq.ctag-")
    channel.basic_publish(amqp.Message("1"), "amq.direct", "k")
    drain_until(connection, lambda: received, "a delivery")
    assert received[0].delivery_info == {
        "consumer_tag": tag,
        "delivery_tag": 1,
        "redelivered": False,
        "exchange": "amq.direct",
        "routing_key": "k",
    }
    channel.basic_cancel(tag)
    channel.basic_reject(1, requeue=True)
    got = channel.basic_get(queue)
    assert got.delivery_info == {
        "delivery_tag": 2,
        "redelivered": True,
        "exchange": "amq.direct",
        "routing_key": "k",
        "message_count": 0,
    }
    assert channel.basic_get(queue) is None


def test_nowait_methods_are_obeyed_in_silence(
    connection: amqp.Connection, channel: amqp.Channel, name: str
) -> None:
    received: list[amqp.Message] = []
    channel.exchange_declare(name, "fanout", auto_delete=True, nowait=True)
    channel.queue_declare(name, exclusive=True, nowait=True)
    channel.queue_bind(name, name, nowait=True)
    channel.confirm_select(nowait=True)
    channel.basic_publish(amqp.Message("purged"), name)
    channel.queue_purge(name, nowait=True)
    channel.basic_consume(
        name, consumer_tag="mine", callback=received.append, no_ack=True, nowait=True
    )
    channel.basic_publish(amqp.Message("seen"), name)
    drain_until(connection, lambda: received, "a delivery")
    assert [message.body for message in received] == ["seen"]
    channel.basic_cancel("mine", nowait=True)
    channel.queue_delete(name, nowait=True)
    with pytest.raises(amqp.NotFound):
        channel.queue_declare(name, passive=True)


def test_confirmed_publish_waits_for_the_ack(connect: Connect) -> None:
    channel = connect(confirm_publish=True).channel()
    name = channel.queue_declare(exclusive=True).queue
    for n in range(20):
        channel.basic_publish(amqp.Message(str(n)), routing_key=name)
    assert channel.queue_declare(name, passive=True).message_count == 20


def test_returned_message_reaches_the_return_event(
    connection: amqp.Connection, channel: amqp.Channel, name: str
) -> None:
    returned: list[tuple[Any, ...]] = []
    channel.events["basic_return"].add(lambda *args: returned.append(args))
    message = amqp.Message("lost", message_id="m1")
    channel.basic_publish(message, "amq.direct", name, mandatory=True)
    drain_until(connection, lambda: returned, "a return")
    [(error, exchange, routing_key, back)] = returned
    assert (error.reply_code, error.reply_text) == (312, "NO_ROUTE")
    assert (exchange, routing_key) == ("amq.direct", name)
    assert (back.body, back.properties["message_id"]) == ("lost", "m1")


def test_transactions(connection: amqp.Connection, channel: amqp.Channel, queue: str) -> None:
    tx = connection.channel()
    tx.tx_select()
    tx.basic_publish(amqp.Message("forgotten"), routing_key=queue)
    tx.tx_rollback()
    tx.basic_publish(amqp.Message("kept"), routing_key=queue)
    assert channel.basic_get(queue, no_ack=True) is None
    tx.tx_commit()
    assert channel.basic_get(queue, no_ack=True).body == "kept"


@pytest.mark.parametrize("method", ["basic_recover", "basic_recover_async"])
def test_recover_requeues(
    connection: amqp.Connection, channel: amqp.Channel, queue: str, method: str
) -> None:
    for body in "ab":
        channel.basic_publish(amqp.Message(body), routing_key=queue)
    for _ in range(2):
        channel.basic_get(queue)
    getattr(channel, method)(requeue=True)
    again = [channel.basic_get(queue) for _ in range(2)]
    assert [m.body for m in again] == ["a", "b"]
    assert all(m.delivery_info["redelivered"] for m in again)


def test_deleted_queue_cancels_its_consumer(
    connection: amqp.Connection, channel: amqp.Channel, queue: str
) -> None:
    cancelled: list[str] = []
    channel.basic_consume(queue, consumer_tag="mine", on_cancel=cancelled.append)
    connection.channel().queue_delete(queue)
    drain_until(connection, lambda: cancelled, "basic.cancel")
    assert cancelled == ["mine"]


def test_prefetch_over_one_consumer(
    connection: amqp.Connection, channel: amqp.Channel, queue: str
) -> None:
    received: list[amqp.Message] = []
    for n in range(5):
        channel.basic_publish(amqp.Message(str(n)), routing_key=queue)
    worker = connection.channel()
    worker.basic_qos(0, 2, False)
    worker.basic_consume(queue, callback=received.append)
    drain_until(connection, lambda: len(received) == 2, "two deliveries")
    assert channel.queue_declare(queue, passive=True).message_count == 3
    worker.basic_ack(received[0].delivery_tag)
    drain_until(connection, lambda: len(received) == 3, "a third delivery after one ack")
    assert channel.queue_declare(queue, passive=True).message_count == 2


def test_prefetch_size_in_octets(
    connection: amqp.Connection, channel: amqp.Channel, queue: str, broker: BrokerUnderTest
) -> None:
    # differs: prefetch-size
    if broker.is_foreign:
        pytest.skip("RabbitMQ answers a prefetch size with 540")
    received: list[amqp.Message] = []
    for _ in range(5):
        channel.basic_publish(amqp.Message("x" * 400), routing_key=queue)
    worker = connection.channel()
    worker.basic_qos(1000, 0, False)
    worker.basic_consume(queue, callback=received.append)
    drain_until(connection, lambda: len(received) == 2, "two deliveries of 400 octets")
    assert channel.queue_declare(queue, passive=True).message_count == 3
    worker.basic_ack(2, multiple=True)
    drain_until(connection, lambda: len(received) == 4, "two more after both were acked")


def test_exchange_bound_to_exchange(channel: amqp.Channel, queue: str, name: str) -> None:
    channel.exchange_declare(name, "topic", auto_delete=True)
    channel.exchange_bind(destination="amq.fanout", source=name, routing_key="a.*")
    channel.queue_bind(queue, "amq.fanout")
    channel.basic_publish(amqp.Message("1"), name, "a.b")
    channel.exchange_unbind(destination="amq.fanout", source=name, routing_key="a.*")
    channel.queue_unbind(queue, "amq.fanout")
    assert channel.basic_get(queue, no_ack=True).body == "1"


def test_flow_is_answered(channel: amqp.Channel, broker: BrokerUnderTest) -> None:
    channel.flow(True)
    # differs: channel-flow
    if not broker.is_foreign:  # RabbitMQ: 540, active=false
        channel.flow(False)
        channel.flow(True)
    assert channel.is_open


@pytest.mark.parametrize(
    ("refused", "expected"),
    [
        (lambda ch: ch.queue_declare("nobody", passive=True), amqp.NotFound),
        (lambda ch: ch.exchange_declare("nowhere", "direct", passive=True), amqp.NotFound),
        (lambda ch: ch.basic_consume("nobody"), amqp.NotFound),
        (lambda ch: ch.queue_declare("amq.mine"), amqp.AccessRefused),
        (lambda ch: ch.exchange_delete("amq.direct"), amqp.AccessRefused),
        (
            lambda ch: ch.exchange_declare("amq.direct", "topic", durable=True, auto_delete=False),
            amqp.PreconditionFailed,
        ),
        (lambda ch: ch.tx_commit(), amqp.PreconditionFailed),
        (lambda ch: (ch.tx_select(), ch.confirm_select()), amqp.PreconditionFailed),
    ],
    ids=[
        "passive-queue-404",
        "passive-exchange-404",
        "consume-404",
        "reserved-403",
        "system-exchange-403",
        "exchange-type-406",
        "commit-406",
        "confirm-after-tx-406",
    ],
)
def test_channel_errors_are_py_amqps_exceptions(
    connection: amqp.Connection,
    refused: Callable[[amqp.Channel], object],
    expected: type[Exception],
) -> None:
    channel = connection.channel()
    with pytest.raises(expected) as raised:
        refused(channel)
    assert isinstance(raised.value, connection.channel_errors)
    assert channel.queue_declare(exclusive=True).queue  # py-amqp opens its number again


def test_locked_queue_is_a_resource_locked_error(connect: Connect, queue: str) -> None:
    with pytest.raises(amqp.exceptions.ResourceLocked):
        connect().channel().queue_declare(queue, passive=True)


def test_second_use_of_a_consumer_tag_is_not_allowed(channel: amqp.Channel, queue: str) -> None:
    channel.basic_consume(queue, consumer_tag="mine")
    with pytest.raises(amqp.NotAllowed, match="attempt to reuse consumer tag 'mine'"):
        channel.basic_consume(queue, consumer_tag="mine")


def test_unknown_exchange_type(channel: amqp.Channel, name: str, broker: BrokerUnderTest) -> None:
    expected: tuple[type[Exception], ...] = (amqp.PreconditionFailed,)
    # differs: old-exchange-type
    if broker.is_foreign:
        expected += (amqp.InvalidCommand,)  # RabbitMQ up to 3.13.0
    with pytest.raises(expected, match="unknown exchange type"):
        channel.exchange_declare(name, "x-nonsense")


@pytest.mark.acceptance
def test_heartbeats_arrive_and_keep_the_connection(connect: Connect) -> None:
    connection = connect(heartbeat=1)
    assert connection.heartbeat == 1
    end = time.monotonic() + 3 * connection.heartbeat  # longer than a silent client would live
    received = connection.bytes_recv
    while time.monotonic() < end:
        connection.heartbeat_tick()  # raises when the broker misses its beats
        with contextlib.suppress(TimeoutError):
            connection.drain_events(timeout=0.1)
    assert connection.bytes_recv - received >= 3
    assert connection.channel().is_open


def test_connection_without_heartbeats_is_accepted(connect: Connect) -> None:
    assert connect(heartbeat=0).heartbeat in {0, None}


def test_client_that_vanishes_frees_its_exclusive_queue(
    connect: Connect, channel: amqp.Channel, connection: amqp.Connection, name: str
) -> None:
    doomed = connect()
    doomed.channel().queue_declare(name, exclusive=True)
    doomed.sock.shutdown(socket.SHUT_RDWR)
    doomed.collect()

    def is_gone() -> bool:
        probe = connection.channel()
        try:
            probe.queue_declare(name, passive=True)
        except amqp.NotFound:
            return True
        except amqp.exceptions.ResourceLocked:
            return False
        return False

    wait_for(is_gone, DEADLINE_S, "the exclusive queue of a dropped connection to go")


@pytest.mark.acceptance
def test_shutdown_is_a_recoverable_connection_error(own_broker: BrokerProcess) -> None:
    with amqp.Connection(host=f"{own_broker.host}:{own_broker.port}") as connection:
        connection.channel()
        with restarting(own_broker), pytest.raises(amqp.ConnectionForced) as raised:
            connection.drain_events(timeout=DEADLINE_S)
        assert raised.value.reply_code == 320
        assert isinstance(raised.value, connection.recoverable_connection_errors)
        connection.collect()
