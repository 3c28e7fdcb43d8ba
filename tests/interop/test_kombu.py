"""kombu against the broker: producers, consumers, simple queues, mailboxes and reconnecting."""

# kombu ships inline types for some of its functions only.
# mypy: disable-error-code="no-untyped-call"

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

pytest.importorskip("kombu", reason="kombu (PyPI) is not installed")
import amqp
from kombu.common import Broadcast
from kombu.connection import Connection
from kombu.entity import Exchange, Queue, binding
from kombu.message import Message
from kombu.messaging import Consumer, Producer
from kombu.mixins import ConsumerMixin
from kombu.pidbox import Mailbox
from kombu.pools import producers, reset

from tests.support.broker_process import BrokerProcess, BrokerUnderTest, restarting
from tests.support.waiting import wait_for

DEADLINE_S = 60.0

Received = list[tuple[Any, Message]]


@pytest.fixture
def connection(broker: BrokerUnderTest) -> Iterator[Connection]:
    with Connection(broker.url) as connection:
        yield connection


@pytest.fixture
def queue(connection: Connection, broker: BrokerUnderTest, name: str) -> Iterator[Queue]:
    """A declared queue on an exchange of its own, deleted in the end."""
    exchange = Exchange(name, "direct", durable=False, auto_delete=True)
    queue = Queue(name, exchange, routing_key="k", durable=False)
    bound = queue(connection.default_channel)
    bound.declare()
    yield bound
    with Connection(broker.url) as other:  # a test may have lost the first connection
        queue(other.default_channel).delete()


def drain_until(connection: Connection, condition: Callable[[], object], what: str) -> None:
    """Serve the connection until ``condition`` holds; fails naming ``what``."""

    def served() -> bool:
        if not condition():
            try:
                connection.drain_events(timeout=0.1)
            except TimeoutError:
                return False
        return bool(condition())

    wait_for(served, DEADLINE_S, what)


@pytest.mark.parametrize("serializer", ["json", "pickle"])
@pytest.mark.parametrize("compression", [None, "gzip", "bzip2"])
def test_payload_survives_serializer_and_compression(
    connection: Connection, queue: Queue, serializer: str, compression: str | None
) -> None:
    payload = {"text": "Grüße", "numbers": [1, 2.5, None, True], "nested": {"k": ["v"] * 100}}
    received: Received = []
    connection.Producer().publish(
        payload,
        exchange=queue.exchange,
        routing_key="k",
        serializer=serializer,
        compression=compression,
        headers={"x-own": {"a": [1, 2]}},
    )
    with connection.Consumer(
        queue, callbacks=[lambda *got: received.append(got)], accept=[serializer]
    ):
        drain_until(connection, lambda: received, "a message")
    [(body, message)] = received
    assert body == payload
    assert message.headers["x-own"] == {"a": [1, 2]}
    assert message.content_type == message.properties["content_type"]


def test_consumer_acks_rejects_and_requeues(connection: Connection, queue: Queue) -> None:
    seen: list[tuple[Any, bool]] = []

    def on_message(body: Any, message: Message) -> None:
        seen.append((body, message.delivery_info["redelivered"]))
        if body == "requeue" and not message.delivery_info["redelivered"]:
            message.requeue()
        elif body == "reject":
            message.reject()
        else:
            message.ack()

    producer = connection.Producer(exchange=queue.exchange, routing_key="k")
    for body in ("requeue", "reject", "ack"):
        producer.publish(body)
    with connection.Consumer(queue, callbacks=[on_message], prefetch_count=1):
        drain_until(connection, lambda: len(seen) == 4, "four deliveries")
    assert seen == [("requeue", False), ("requeue", True), ("reject", False), ("ack", False)]
    assert queue.get() is None


def test_prefetch_and_cancel(connection: Connection, queue: Queue) -> None:
    received: Received = []
    with connection.channel() as channel:
        producer = Producer(channel, queue.exchange, "k")
        for n in range(10):
            producer.publish(n)
        consumer = Consumer(
            channel, queue, callbacks=[lambda *got: received.append(got)], prefetch_count=3
        )
        consumer.consume()
        drain_until(connection, lambda: len(received) == 3, "three deliveries")
        assert queue.queue_declare(passive=True).message_count == 7
        consumer.cancel()
        for _, message in received:
            message.ack()
        assert [body for body, _ in received] == [0, 1, 2]
        consumer.recover(requeue=True)
    assert queue.queue_declare(passive=True).message_count == 7


def test_recover_redelivers_what_was_not_acked(connection: Connection, queue: Queue) -> None:
    received: Received = []
    producer = connection.Producer(exchange=queue.exchange, routing_key="k")
    for n in range(3):
        producer.publish(n)
    with connection.Consumer(queue, callbacks=[lambda *got: received.append(got)]) as consumer:
        drain_until(connection, lambda: len(received) == 3, "three deliveries")
        received[1][1].ack()
        consumer.recover(requeue=True)
        drain_until(connection, lambda: len(received) == 5, "two redeliveries")
        assert [(b, m.delivery_info["redelivered"]) for b, m in received[3:]] == [
            (0, True),
            (2, True),
        ]


def test_simple_queue_behaves_like_a_queue(connection: Connection, name: str) -> None:
    with connection.SimpleQueue(name, queue_opts={"durable": False}) as simple:
        for n in range(5):
            simple.put({"n": n})
        first = simple.get(timeout=DEADLINE_S)
        assert first.payload == {"n": 0}
        first.requeue()
        rest = [simple.get(timeout=DEADLINE_S) for _ in range(5)]
        assert sorted(message.payload["n"] for message in rest) == [0, 1, 2, 3, 4]
        for message in rest:
            message.ack()
        with pytest.raises(simple.Empty):
            simple.get_nowait()
    connection.channel().queue_delete(name)


@pytest.mark.parametrize(
    ("kind", "binding_key", "keys", "expected"),
    [
        ("direct", "a", ["a", "b", "a"], 2),
        ("fanout", "", ["a", "b"], 2),
        ("topic", "stock.#", ["stock", "stock.usd.nyse", "bond.usd"], 2),
    ],
)
def test_exchange_types(
    connection: Connection,
    name: str,
    *,
    kind: str,
    binding_key: str,
    keys: list[str],
    expected: int,
) -> None:
    exchange = Exchange(name, kind, durable=False, auto_delete=True)
    queue = Queue(name, exchange, routing_key=binding_key, exclusive=True)
    queue = queue(connection.default_channel)
    queue.declare()
    with connection.channel() as channel:
        producer = Producer(channel, exchange)
        for key in keys:
            producer.publish(key, routing_key=key)
    got = list(iter(lambda: queue.get(no_ack=True), None))
    assert len(got) == expected


def test_several_bindings_and_exchange_bindings(connection: Connection, name: str) -> None:
    channel = connection.default_channel
    inner = Exchange(f"{name}-inner", "topic", durable=False, auto_delete=True)
    outer = Exchange(f"{name}-outer", "direct", durable=False, auto_delete=True)
    queue = Queue(
        name,
        exclusive=True,
        bindings=[
            binding(inner, routing_key="a.*"),
            binding(inner, routing_key="*.b"),
        ],
    )(channel)
    queue.declare()
    outer(channel).declare()
    inner(channel).bind_to(outer, routing_key="a.b")
    Producer(channel, outer).publish("once", routing_key="a.b")
    assert queue.get(no_ack=True).payload == "once"
    assert queue.get(no_ack=True) is None
    inner(channel).unbind_from(outer, routing_key="a.b")


def test_broadcast_reaches_every_consumer(connection: Connection, name: str) -> None:
    received: list[str] = []
    consumers = []
    for n in range(3):
        channel = connection.channel()
        consumer = Consumer(
            channel,
            Broadcast(name, unique=True),
            callbacks=[lambda body, _, n=n: received.append(f"{n}:{body}")],
            no_ack=True,
        )
        consumer.consume()
        consumers.append(consumer)
    connection.Producer().publish("hello", exchange=Exchange(name, "fanout"))
    drain_until(connection, lambda: len(received) == 3, "three copies")
    assert sorted(received) == ["0:hello", "1:hello", "2:hello"]
    connection.default_channel.exchange_delete(name)


def test_pidbox_mailbox_answers_a_call(broker: BrokerUnderTest, name: str) -> None:
    mailbox = Mailbox(name, type="direct", accept=["json"])
    stopping = threading.Event()

    def serve() -> None:
        with Connection(broker.url) as connection:
            node = mailbox(connection).Node("node-1")
            node.handler(add)
            node.channel = connection.default_channel
            node.listen(callback=node.handle_message)
            listening.set()
            while not stopping.is_set():
                try:
                    connection.drain_events(timeout=0.05)
                except TimeoutError:
                    continue

    def add(_: Any, x: int, y: int) -> int:
        return x + y

    listening = threading.Event()
    with ThreadPoolExecutor(1) as pool, Connection(broker.url) as connection:
        served = pool.submit(serve)
        try:
            assert listening.wait(DEADLINE_S)
            answer = mailbox(connection).call(
                ["node-1"], "add", {"x": 2, "y": 3}, timeout=DEADLINE_S
            )
        finally:
            stopping.set()
        served.result(DEADLINE_S)
        assert answer == [{"node-1": 5}]
        connection.default_channel.exchange_delete(f"{name}.pidbox")
        connection.default_channel.exchange_delete(f"reply.{name}.pidbox")


def test_unroutable_mandatory_publish_comes_back(connection: Connection, name: str) -> None:
    returned: list[tuple[Any, ...]] = []
    producer = connection.Producer(on_return=lambda *args: returned.append(args))
    producer.publish("lost", exchange="amq.direct", routing_key=name, mandatory=True)
    drain_until(connection, lambda: returned, "a return")
    [(error, exchange, routing_key, message)] = returned
    assert (error.reply_code, exchange, routing_key) == (312, "amq.direct", name)
    assert message.body == "lost"


def test_confirming_connection_raises_what_the_broker_refuses(
    broker: BrokerUnderTest, name: str
) -> None:
    options = {"confirm_publish": True}
    with Connection(broker.url, transport_options=options) as connection:
        producer = connection.Producer()
        producer.publish("fine", exchange="amq.fanout", declare=[Exchange("amq.fanout")])
        with pytest.raises(amqp.NotFound, match="no exchange"):
            producer.publish("refused", exchange=name, routing_key="k")


def test_transactional_channel(connection: Connection, queue: Queue) -> None:
    channel = connection.channel()
    channel.tx_select()
    producer = Producer(channel, queue.exchange, "k")
    producer.publish("forgotten")
    channel.tx_rollback()
    producer.publish("kept")
    assert queue.get() is None
    channel.tx_commit()
    assert queue.get(no_ack=True).payload == "kept"


def test_queue_arguments_are_accepted_and_compared(connection: Connection, name: str) -> None:
    def declared(**arguments: Any) -> None:
        Queue(name, exclusive=True, channel=connection.default_channel, **arguments).declare()

    declared(max_length=10, message_ttl=60, expires=60, max_priority=5)
    declared(max_length=10, message_ttl=60, expires=60, max_priority=5)
    with pytest.raises(amqp.PreconditionFailed, match="inequivalent arg 'x-max-length'"):
        declared(max_length=11, message_ttl=60, expires=60, max_priority=5)


def test_deleted_queue_cancels_the_consumer(
    connection: Connection, queue: Queue, broker: BrokerUnderTest
) -> None:
    connection.Consumer(queue, callbacks=[print]).consume()
    with Connection(broker.url) as other:
        other.default_channel.queue_delete(queue.name)
    with pytest.raises(amqp.exceptions.ConsumerCancelled):
        connection.drain_events(timeout=DEADLINE_S)


def test_large_and_empty_bodies(connection: Connection, queue: Queue) -> None:
    producer = connection.Producer(exchange=queue.exchange, routing_key="k")
    for body in (b"", b"\x00\xff" * (1024 * 1024)):
        producer.publish(body, content_type="application/data", content_encoding="binary")
        received = queue.get(no_ack=True).body
        assert (received.encode() if isinstance(received, str) else received) == body


def test_wrong_password_and_unknown_vhost(broker: BrokerUnderTest) -> None:
    with (
        pytest.raises(amqp.AccessRefused, match="Login was refused"),
        Connection(broker.url_for(password="wrong")) as connection,
    ):
        connection.connect()
    with (
        pytest.raises(amqp.NotAllowed, match="vhost nope not found"),
        Connection(broker.url_for(vhost="nope")) as connection,
    ):
        connection.connect()


@pytest.mark.acceptance
def test_pool_gives_every_thread_a_producer(
    broker: BrokerUnderTest, connection: Connection, queue: Queue
) -> None:
    def publish(n: int) -> None:
        with producers[pooled].acquire(block=True) as producer:
            producer.publish(n, exchange=queue.exchange, routing_key="k")

    with Connection(broker.url) as pooled:
        with ThreadPoolExecutor(8) as pool:
            list(pool.map(publish, range(200)))
        reset()  # closes the pooled connections
        received: list[int] = []
        with connection.Consumer(queue, callbacks=[lambda n, _: received.append(n)], no_ack=True):
            drain_until(connection, lambda: len(received) == 200, "200 messages")
    assert sorted(received) == list(range(200))


class Echo(ConsumerMixin):
    """A worker that notes what it gets, and reconnects as kombu does by itself."""

    def __init__(self, connection: Connection, queue: Queue) -> None:
        self.connection = connection
        self.queue = queue
        self.received: list[Any] = []
        self.consuming_since: list[int] = []

    def get_consumers(self, Consumer: Any, channel: Any) -> list[Any]:  # noqa: N803
        return [Consumer(self.queue, callbacks=[self.on_message])]

    def on_consume_ready(self, *_: Any, **__: Any) -> None:
        self.consuming_since.append(len(self.received))

    def on_message(self, body: Any, message: Message) -> None:
        self.received.append(body)
        message.ack()


@pytest.mark.acceptance
def test_consumer_mixin_and_ensure_survive_a_restart(own_broker: BrokerProcess, name: str) -> None:
    queue = Queue(name, Exchange(name, durable=False), routing_key="k", durable=False)
    with (
        ThreadPoolExecutor(1) as pool,
        Connection(own_broker.url) as connection,
        Connection(own_broker.url) as consumers_connection,
    ):
        echo = Echo(consumers_connection, queue)
        running = pool.submit(echo.run)
        producer = connection.Producer()

        def publish(body: str) -> None:
            producer.publish(
                body,
                exchange=queue.exchange,
                routing_key="k",
                declare=[queue],
                retry=True,
                retry_policy={"interval_start": 0.1, "interval_max": 0.2, "max_retries": 50},
            )

        try:
            wait_for(lambda: len(echo.consuming_since) == 1, DEADLINE_S, "the consumer")
            publish("before")
            wait_for(lambda: echo.received == ["before"], DEADLINE_S, "the first message")
            with restarting(own_broker):
                pass
            wait_for(lambda: len(echo.consuming_since) == 2, DEADLINE_S, "it to consume again")
            publish("after")
            wait_for(lambda: echo.received == ["before", "after"], DEADLINE_S, "the second")
        finally:
            echo.should_stop = True
        running.result(DEADLINE_S)
