"""aio-pika (and aiormq below it) against the broker, robust connections included."""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import decimal
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

pytest.importorskip("aio_pika", reason="aio-pika (PyPI) is not installed")
import aio_pika
import aiormq
from aio_pika.abc import (
    AbstractChannel,
    AbstractIncomingMessage,
    AbstractQueue,
    AbstractRobustConnection,
)
from aio_pika.patterns import RPC, Master
from aiormq import exceptions

from tests.support.broker_process import BrokerProcess, BrokerUnderTest
from tests.support.broker_thread import BrokerThread

from .failing_disk import Disk

DEADLINE_S = 60.0
RECONNECT_INTERVAL_S = 0.1


@pytest.fixture
async def connection(broker: BrokerUnderTest) -> AsyncIterator[aio_pika.abc.AbstractConnection]:
    async with await aio_pika.connect(broker.url) as connection:
        yield connection


@pytest.fixture
async def channel(connection: aio_pika.abc.AbstractConnection) -> AbstractChannel:
    return await connection.channel()


@pytest.fixture
async def queue(channel: AbstractChannel) -> AbstractQueue:
    return await channel.declare_queue(exclusive=True)


async def publish(channel: AbstractChannel, routing_key: str, *bodies: bytes) -> None:
    for body in bodies:
        await channel.default_exchange.publish(aio_pika.Message(body), routing_key)


async def take(queue: AbstractQueue, count: int) -> list[bytes]:
    """The next ``count`` bodies of an iterating consumer, acked."""
    bodies: list[bytes] = []
    async with asyncio.timeout(DEADLINE_S), queue.iterator() as messages:
        async for message in messages:
            await message.ack()
            bodies.append(message.body)
            if len(bodies) == count:
                break
    return bodies


async def counts(channel: AbstractChannel, queue: AbstractQueue) -> tuple[int, int]:
    """Ready messages and consumers of the queue, by a passive declare."""
    declared = (await channel.declare_queue(queue.name, passive=True)).declaration_result
    return declared.message_count or 0, declared.consumer_count or 0


async def kick(connection: aio_pika.abc.AbstractConnection) -> None:
    """Have the broker close this connection: immediate=true is 540, NOT_IMPLEMENTED."""
    transport = connection.transport
    assert transport is not None
    culprit = await transport.connection.channel()
    with pytest.raises(exceptions.AMQPError):
        await culprit.basic_publish(b"", routing_key="nobody", immediate=True)


async def test_iterator_receives_in_order(channel: AbstractChannel, queue: AbstractQueue) -> None:
    await publish(channel, queue.name, *(b"%d" % n for n in range(200)))
    assert await take(queue, 200) == [b"%d" % n for n in range(200)]
    assert await counts(channel, queue) == (0, 0)


@pytest.mark.acceptance
async def test_concurrent_publishes_are_each_confirmed(
    channel: AbstractChannel, queue: AbstractQueue
) -> None:
    confirms = await asyncio.gather(
        *(
            channel.default_exchange.publish(aio_pika.Message(b"%d" % n), queue.name)
            for n in range(1000)
        )
    )
    assert all(isinstance(confirm, aiormq.spec.Basic.Ack) for confirm in confirms)
    assert sorted(await take(queue, 1000), key=int) == [b"%d" % n for n in range(1000)]


@pytest.mark.parametrize("size", [0, 131_064, 131_065, 5 * 1024 * 1024])
async def test_body_of_any_size_comes_back_whole(
    channel: AbstractChannel, queue: AbstractQueue, size: int
) -> None:
    body = (bytes(range(256)) * (size // 256 + 1))[:size]
    await publish(channel, queue.name, body)
    assert (await queue.get(no_ack=True)).body == body


async def test_properties_and_headers_come_back_unchanged(
    channel: AbstractChannel, queue: AbstractQueue, broker: BrokerUnderTest
) -> None:
    when = datetime.datetime(2024, 2, 29, 12, 30, 15, tzinfo=datetime.UTC)
    headers: dict[str, Any] = {
        "flag": True,
        "numbers": [1, -1, 255, 65_536, 2**40, -(2**40)],
        "float": 1.5,
        "decimal": decimal.Decimal("-12.75"),
        "when": when,
        "void": None,
        "table": {"a": {"b": [True, {"c": "ü"}]}},
    }
    sent = aio_pika.Message(
        b"x",
        headers=headers,
        content_type="application/json",
        content_encoding="utf-8",
        delivery_mode=aio_pika.DeliveryMode.PERSISTENT,
        priority=3,
        correlation_id="c",
        reply_to="r",
        expiration=600,
        message_id="m",
        timestamp=when,
        type="t",
        user_id=broker.username,
        app_id="a",
    )
    await channel.default_exchange.publish(sent, queue.name)
    received = await queue.get(no_ack=True)
    assert received.properties == sent.properties
    assert received.headers == headers
    assert {k: type(v) for k, v in received.headers.items()} == {
        k: type(v) for k, v in headers.items()
    }


async def test_unroutable_publish_raises_when_asked_to(
    connection: aio_pika.abc.AbstractConnection, name: str
) -> None:
    channel = await connection.channel(on_return_raises=True)
    with pytest.raises(exceptions.PublishError) as raised:
        await publish(channel, name, b"lost")
    assert "NO_ROUTE" in repr(raised.value)
    assert raised.value.message is not None
    assert raised.value.message.body == b"lost"


async def test_unroutable_publish_is_returned_to_the_callback(
    channel: AbstractChannel, name: str
) -> None:
    returned: asyncio.Queue[AbstractIncomingMessage] = asyncio.Queue()
    channel.return_callbacks.add(lambda _, message: returned.put_nowait(message))
    await publish(channel, name, b"lost")
    message = await asyncio.wait_for(returned.get(), DEADLINE_S)
    assert (message.body, message.routing_key) == (b"lost", name)


@pytest.mark.parametrize(
    "limit",
    [
        {"x-max-length": 1, "x-overflow": "reject-publish"},
        {"x-max-length-bytes": 4, "x-overflow": "reject-publish"},
        {"x-max-length": 1, "x-overflow": "reject-publish-dlx"},
    ],
    ids=["messages", "octets", "dead-lettering"],
)
@pytest.mark.parametrize("is_fanned_out", [False, True])
async def test_publish_that_a_full_queue_refuses_raises(
    channel: AbstractChannel, queue: AbstractQueue, limit: dict[str, Any], is_fanned_out: bool
) -> None:
    """aio-pika publishes as mandatory, and aiormq takes a basic.return for a confirm."""
    full = await channel.declare_queue(exclusive=True, arguments=limit)
    await publish(channel, full.name, b"fits")
    exchange, key = channel.default_exchange, full.name
    if is_fanned_out:
        for one in (full, queue):
            await one.bind("amq.fanout", "")
        exchange, key = await channel.get_exchange("amq.fanout"), ""
    with pytest.raises(exceptions.DeliveryError) as raised:
        await exchange.publish(aio_pika.Message(b"refused"), key)
    assert isinstance(raised.value.frame, aiormq.spec.Basic.Nack)
    assert (await full.get(no_ack=True)).body == b"fits"
    await publish(channel, full.name, b"room")
    assert await counts(channel, full) == (1, 0)
    assert await counts(channel, queue) == (1 if is_fanned_out else 0, 0)


PERSISTENT = aio_pika.Message(b"x", delivery_mode=aio_pika.DeliveryMode.PERSISTENT)


@contextlib.asynccontextmanager
async def channel_of(inside: BrokerThread) -> AsyncIterator[AbstractChannel]:
    """A channel of the broker with the disk, where the queue "d" keeps messages."""
    host, port = inside.address
    async with await aio_pika.connect(host=host, port=port) as connection:
        channel = await connection.channel()
        await channel.declare_queue("d", durable=True)
        yield channel


async def test_publish_that_a_failed_disk_cannot_keep_raises(
    inside: BrokerThread, disk: Disk
) -> None:
    async with channel_of(inside) as channel:
        await channel.default_exchange.publish(PERSISTENT, "d")
        disk.is_broken = True
        for _ in range(2):  # the one that finds out, and one that comes later
            with pytest.raises(exceptions.DeliveryError):
                await channel.default_exchange.publish(PERSISTENT, "d")
        await channel.default_exchange.publish(aio_pika.Message(b"not for the disk"), "d")


@pytest.mark.acceptance
async def test_publish_that_a_full_disk_has_no_room_for_waits_until_there_is(
    inside: BrokerThread, disk: Disk
) -> None:
    async with channel_of(inside) as channel, channel_of(inside) as late:
        disk.is_full = True
        waiting = asyncio.create_task(channel.default_exchange.publish(PERSISTENT, "d"))
        await asyncio.to_thread(
            inside.wait_until,
            lambda broker: bool(broker.context.vhosts["/"].environment.store.refusal),
            "no room to write",
        )
        behind = asyncio.create_task(late.default_exchange.publish(PERSISTENT, "d"))
        await asyncio.to_thread(
            inside.wait_until,
            lambda broker: any(each.is_blocked for each in broker.context.connections),
            "the second publisher to be blocked",
        )
        assert not waiting.done()
        assert not behind.done()
        disk.is_full = False
        async with asyncio.timeout(DEADLINE_S):
            assert isinstance(await waiting, aiormq.spec.Basic.Ack)
            assert isinstance(await behind, aiormq.spec.Basic.Ack)


async def test_transaction_commits_or_forgets(
    connection: aio_pika.abc.AbstractConnection, queue: AbstractQueue
) -> None:
    channel = await connection.channel(publisher_confirms=False)
    async with channel.transaction():
        await publish(channel, queue.name, b"kept")

    class Oops(Exception):
        pass

    async def fail_within_a_transaction() -> None:
        async with channel.transaction():
            await publish(channel, queue.name, b"forgotten")
            raise Oops

    with pytest.raises(Oops):
        await fail_within_a_transaction()
    assert (await queue.get(no_ack=True)).body == b"kept"
    with pytest.raises(aio_pika.exceptions.QueueEmpty):
        await queue.get(no_ack=True)


async def test_process_acks_or_requeues(channel: AbstractChannel, queue: AbstractQueue) -> None:
    await publish(channel, queue.name, b"1", b"2")

    async def fail(message: AbstractIncomingMessage) -> None:
        async with message.process(requeue=True):
            raise ValueError(message.body)

    first = await queue.get()
    with pytest.raises(ValueError, match="1"):
        await fail(first)
    again = await queue.get()
    assert (again.body, again.redelivered) == (b"1", True)
    async with again.process():
        pass
    assert (await queue.get(no_ack=True)).body == b"2"


async def test_nack_and_reject_return_messages_to_their_places(
    channel: AbstractChannel, queue: AbstractQueue
) -> None:
    await publish(channel, queue.name, b"1", b"2", b"3", b"4")
    messages = [await queue.get() for _ in range(3)]
    await messages[2].nack(requeue=True)
    await messages[0].reject(requeue=True)
    await messages[1].reject(requeue=False)
    assert await take(queue, 3) == [b"1", b"3", b"4"]


async def test_prefetch_holds_back_until_acked(
    connection: aio_pika.abc.AbstractConnection, channel: AbstractChannel, queue: AbstractQueue
) -> None:
    await publish(channel, queue.name, *(b"%d" % n for n in range(10)))
    worker = await connection.channel()
    await worker.set_qos(prefetch_count=2)
    received: asyncio.Queue[AbstractIncomingMessage] = asyncio.Queue()
    await (await worker.get_queue(queue.name, ensure=False)).consume(received.put)
    async with asyncio.timeout(DEADLINE_S):
        first, second = await received.get(), await received.get()
        assert await counts(channel, queue) == (8, 1)
        await second.ack(multiple=True)
        bodies = [first.body, second.body, (await received.get()).body, (await received.get()).body]
    assert bodies == [b"0", b"1", b"2", b"3"]
    assert await counts(channel, queue) == (6, 1)


async def test_flow_pauses_deliveries(
    channel: AbstractChannel, queue: AbstractQueue, broker: BrokerUnderTest
) -> None:
    # differs: channel-flow
    if broker.is_foreign:
        pytest.skip("RabbitMQ answers channel.flow(active=false) with 540")
    received: asyncio.Queue[AbstractIncomingMessage] = asyncio.Queue()
    await queue.consume(received.put, no_ack=True)
    assert (await channel.flow(active=False)).active is False
    await publish(channel, queue.name, b"waits")
    assert await counts(channel, queue) == (1, 1)
    assert (await channel.flow(active=True)).active is True
    assert (await asyncio.wait_for(received.get(), DEADLINE_S)).body == b"waits"


async def test_exchange_types_and_bindings(channel: AbstractChannel, name: str) -> None:
    source = await channel.declare_exchange(f"{name}-s", "direct", auto_delete=True)
    topic = await channel.declare_exchange(f"{name}-t", "topic", auto_delete=True)
    headers = await channel.declare_exchange(f"{name}-h", "headers", auto_delete=True)
    await topic.bind(source, "in")
    await headers.bind(source, "in")
    by_topic = await channel.declare_queue(exclusive=True)
    by_header = await channel.declare_queue(exclusive=True)
    await by_topic.bind(topic, "#")
    await by_header.bind(headers, "", arguments={"x-match": "any", "k": 1})
    for value in (1, 2):
        await source.publish(aio_pika.Message(b"%d" % value, headers={"k": value}), "in")
    assert await take(by_topic, 2) == [b"1", b"2"]
    assert await take(by_header, 1) == [b"1"]
    await topic.unbind(source, "in")
    await source.publish(aio_pika.Message(b"3", headers={"k": 1}), "in")
    assert await take(by_header, 1) == [b"3"]
    assert await counts(channel, by_topic) == (0, 0)


async def test_cancel_then_consume_again(channel: AbstractChannel, queue: AbstractQueue) -> None:
    received: asyncio.Queue[AbstractIncomingMessage] = asyncio.Queue()
    tag = await queue.consume(received.put)
    assert await counts(channel, queue) == (0, 1)
    await queue.cancel(tag)
    assert await counts(channel, queue) == (0, 0)
    await publish(channel, queue.name, b"x")
    await queue.consume(received.put, consumer_tag=tag)
    assert (await asyncio.wait_for(received.get(), DEADLINE_S)).body == b"x"


async def test_consumer_is_told_when_its_queue_is_deleted(
    connection: aio_pika.abc.AbstractConnection, channel: AbstractChannel, queue: AbstractQueue
) -> None:
    cancelled: asyncio.Queue[aiormq.spec.Basic.Cancel] = asyncio.Queue()
    underlay = await channel.get_underlay_channel()
    underlay.on_consumer_cancel_callbacks.add(cancelled.put_nowait)
    received: asyncio.Queue[AbstractIncomingMessage] = asyncio.Queue()
    tag = await queue.consume(received.put)
    await (await connection.channel()).queue_delete(queue.name)
    frame = await asyncio.wait_for(cancelled.get(), DEADLINE_S)
    assert frame.consumer_tag == tag
    assert not channel.is_closed


@pytest.mark.acceptance
async def test_many_channels_open_concurrently(
    connection: aio_pika.abc.AbstractConnection,
) -> None:
    async def work(n: int) -> bytes:
        async with connection.channel() as channel:
            queue = await channel.declare_queue(exclusive=True)
            await publish(channel, queue.name, b"%d" % n)
            return (await queue.get(no_ack=True)).body

    bodies = await asyncio.gather(*(work(n) for n in range(150)))
    assert bodies == [b"%d" % n for n in range(150)]


async def test_rpc_pattern(connection: aio_pika.abc.AbstractConnection, name: str) -> None:
    async def multiply(*, x: int, y: int) -> int:
        return x * y

    async with connection.channel() as channel:
        rpc = await RPC.create(channel)
        await rpc.register(name, multiply, auto_delete=True)
        async with asyncio.timeout(DEADLINE_S):
            results = await asyncio.gather(*(rpc.call(name, {"x": n, "y": 3}) for n in range(20)))
        await rpc.close()
    assert results == [3 * n for n in range(20)]


async def test_master_and_worker_pattern(
    connection: aio_pika.abc.AbstractConnection, name: str
) -> None:
    done: asyncio.Queue[int] = asyncio.Queue()

    async def work(*, task_id: int) -> None:
        await done.put(task_id)

    async with connection.channel() as channel:
        master = Master(channel)
        worker = await master.create_worker(name, work, auto_delete=True)
        for n in range(10):
            await master.create_task(name, {"task_id": n})
        async with asyncio.timeout(DEADLINE_S):
            assert [await done.get() for _ in range(10)] == list(range(10))
        await worker.close()


@pytest.mark.parametrize(
    ("refused", "expected"),
    [
        (lambda ch: ch.get_queue("nobody"), exceptions.ChannelNotFoundEntity),
        (lambda ch: ch.get_exchange("nowhere"), exceptions.ChannelNotFoundEntity),
        (lambda ch: ch.declare_queue("amq.mine"), exceptions.ChannelAccessRefused),
        (lambda ch: ch.declare_exchange("amq.topic", "direct"), exceptions.ChannelClosed),
        (
            lambda ch: ch.declare_exchange("amq.direct", "direct", durable=False),
            exceptions.ChannelPreconditionFailed,
        ),
    ],
    ids=["queue-404", "exchange-404", "reserved-403", "type-406", "durable-406"],
)
async def test_channel_errors_are_aiormqs_exceptions(
    connection: aio_pika.abc.AbstractConnection,
    refused: Callable[[AbstractChannel], Awaitable[object]],
    expected: type[Exception],
) -> None:
    channel = await connection.channel()
    with pytest.raises(expected):
        await refused(channel)
    assert not connection.is_closed
    await (await connection.channel()).declare_queue(exclusive=True)


async def test_exclusive_queue_of_another_connection_is_locked(
    broker: BrokerUnderTest, queue: AbstractQueue
) -> None:
    async with await aio_pika.connect(broker.url) as stranger:
        channel = await stranger.channel()
        with pytest.raises(exceptions.ChannelLockedResource):
            await channel.get_queue(queue.name)


async def test_ack_of_an_unknown_tag_is_a_precondition_failure(
    connection: aio_pika.abc.AbstractConnection,
) -> None:
    transport = connection.transport
    assert transport is not None
    channel = await transport.connection.channel()
    await channel.basic_ack(99, wait=False)
    with pytest.raises(exceptions.ChannelPreconditionFailed, match="unknown delivery tag 99"):
        await channel.closing


async def test_wrong_password_and_unknown_vhost(broker: BrokerUnderTest) -> None:
    with pytest.raises(exceptions.ProbableAuthenticationError, match="ACCESS_REFUSED"):
        await aio_pika.connect(broker.url_for(password="wrong"))
    with pytest.raises(exceptions.AMQPError, match=r"Connection\.Close"):  # and no text
        await aio_pika.connect(broker.url_for(vhost="nope"))


async def test_update_secret_is_accepted(
    connection: aio_pika.abc.AbstractConnection, broker: BrokerUnderTest
) -> None:
    await connection.update_secret(broker.password, reason="rotated")
    await connection.channel()


# Robust connections


async def robust(url: str) -> AbstractRobustConnection:
    return await aio_pika.connect_robust(url, reconnect_interval=RECONNECT_INTERVAL_S)


async def test_robust_consumer_comes_back_after_the_broker_closed_its_connection(
    broker: BrokerUnderTest, channel: AbstractChannel, name: str
) -> None:
    received: asyncio.Queue[AbstractIncomingMessage] = asyncio.Queue()
    async with await robust(broker.url) as connection, asyncio.timeout(DEADLINE_S):
        restored = asyncio.Event()
        connection.reconnect_callbacks.add(lambda _: restored.set())
        robust_channel = await connection.channel()
        await robust_channel.set_qos(prefetch_count=1)
        exchange = await robust_channel.declare_exchange(name, "topic", auto_delete=True)
        queue = await robust_channel.declare_queue(name, exclusive=True)
        await queue.bind(exchange, "a.#")
        await queue.consume(received.put)
        await exchange.publish(aio_pika.Message(b"before"), "a.b")
        await (await received.get()).ack()

        await kick(connection)
        await restored.wait()
        await exchange.publish(aio_pika.Message(b"after"), "a.b")
        message = await received.get()
        await message.ack()
    assert message.body == b"after"


@pytest.mark.acceptance
async def test_robust_consumer_follows_a_queue_that_was_deleted(
    broker: BrokerUnderTest, channel: AbstractChannel, name: str
) -> None:
    received: asyncio.Queue[AbstractIncomingMessage] = asyncio.Queue()
    async with await robust(broker.url) as connection, asyncio.timeout(DEADLINE_S):
        robust_channel = await connection.channel()
        queue = await robust_channel.declare_queue(name, auto_delete=True)
        await queue.consume(received.put, no_ack=True)
        await channel.queue_delete(name)
        # The client declares and consumes again on its own time: knock until it answers.
        while received.empty():
            await publish(channel, name, b"anybody there?")
    assert (await received.get()).body == b"anybody there?"


@pytest.mark.acceptance
async def test_robust_consumer_survives_a_restart(own_broker: BrokerProcess, name: str) -> None:
    received: asyncio.Queue[AbstractIncomingMessage] = asyncio.Queue()
    async with await robust(own_broker.url) as connection:
        restored = asyncio.Event()
        connection.reconnect_callbacks.add(lambda _: restored.set())
        channel = await connection.channel()
        queue = await channel.declare_queue(name)
        await queue.consume(received.put, no_ack=True)

        loop = asyncio.get_running_loop()
        await loop.run_in_executor(None, own_broker.restart)
        async with asyncio.timeout(DEADLINE_S):
            await restored.wait()
            await publish(channel, name, b"after the restart")
            assert (await received.get()).body == b"after the restart"
