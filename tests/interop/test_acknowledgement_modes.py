"""How clients acknowledge: the modes of JMS clients, and of Qpid's besides, done with pika.

tests/transcripts has a story for each mode, frame by frame; here a real client uses it over TCP.
tests/crash tests durability; the tests here check that the mode comes back as it was sent.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

pytest.importorskip("pika", reason="pika (PyPI) is not installed")
import pika
from pika import spec
from pika.adapters.blocking_connection import BlockingChannel

from tests.support.broker_process import BrokerUnderTest
from tests.support.pika_calls import DELIVERY_DEADLINE_S, get_all, publish, ready_count, serve_until
from tests.support.waiting import wait_for

from .conftest import PikaConnect

#: Prefetch of Qpid's JMS client, and the half of it at which it lets deliveries go on.
QPID_PREFETCH = 500
QPID_LOW_WATER = 250

Delivery = tuple[Any, pika.BasicProperties, bytes]


class Worker:
    """A consumer on a channel of its own connection that keeps what it was given.

    ``on_message`` is the application: what it does with each delivery, if anything.
    """

    def __init__(
        self, connection: pika.BlockingConnection, queue: str, *, prefetch: int = 0
    ) -> None:
        self.connection = connection
        self.channel = connection.channel()
        self.queue = queue
        self.deliveries: list[Delivery] = []
        if prefetch:
            self.channel.basic_qos(prefetch_count=prefetch)

    def start(
        self, on_message: Callable[[Any, bytes], None] | None = None, *, no_ack: bool = False
    ) -> Worker:
        def receive(_: Any, method: Any, properties: pika.BasicProperties, body: bytes) -> None:
            self.deliveries.append((method, properties, body))
            if on_message is not None:
                on_message(method, body)

        self.channel.basic_consume(self.queue, receive, auto_ack=no_ack)
        return self

    @property
    def bodies(self) -> list[bytes]:
        return [body for _, _, body in self.deliveries]

    @property
    def tags(self) -> list[int]:
        return [method.delivery_tag for method, _, _ in self.deliveries]

    @property
    def redelivered(self) -> list[bool]:
        return [method.redelivered for method, _, _ in self.deliveries]

    def wait_for(self, count: int) -> None:
        serve_until(
            self.connection, lambda: len(self.deliveries) >= count, f"delivery number {count}"
        )
        assert len(self.deliveries) == count

    def die(self) -> None:
        """The application fails: its connection goes, and with it all it has not acknowledged."""
        self.connection.close()


def numbered(count: int, first: int = 0) -> list[bytes]:
    return [b"%d" % number for number in range(first, first + count)]


@pytest.fixture
def worker(connect: PikaConnect, queue: str, name: str) -> Callable[..., Worker]:
    """``worker(prefetch=0)`` has a connection to itself, and reads from the queue ``name``."""
    return lambda **options: Worker(connect(), name, **options)


@pytest.fixture
def jobs(channel: BlockingChannel, name: str) -> str:
    """A queue that the worker's connection may read too."""
    channel.queue_declare(name, arguments={"x-expires": 60_000})
    return name


def left(channel: BlockingChannel, queue: str, count: int) -> None:
    """Wait until so many messages are ready: what other connections did takes its time."""
    wait_for(
        lambda: ready_count(channel, queue) == count or None,
        DELIVERY_DEADLINE_S,
        f"{count} ready messages",
    )


# ---------------------------------------------------------------------------- who says when


@pytest.mark.row("D1")
def test_each_message_is_acked_alone_once_it_was_processed(
    channel: BlockingChannel, jobs: str, worker: Callable[..., Worker]
) -> None:
    publish(channel, jobs, *numbered(300))
    first = worker(prefetch=100)

    def work(method: Any, _: bytes) -> None:
        if len(first.deliveries) <= 250:  # the application throws at the others: no ack
            first.channel.basic_ack(method.delivery_tag)

    first.start(work)
    serve_until(first.connection, lambda: len(first.deliveries) == 300, "all deliveries")
    assert first.bodies == numbered(300)
    assert not any(first.redelivered)
    first.die()
    left(channel, jobs, 50)
    second = worker().start()
    second.wait_for(50)
    assert second.bodies == numbered(50, 250)
    assert all(second.redelivered)


@pytest.mark.row("D2")
def test_a_run_of_single_acks_makes_room_for_as_many(
    channel: BlockingChannel, jobs: str, worker: Callable[..., Worker]
) -> None:
    publish(channel, jobs, *numbered(500))
    client = worker(prefetch=100).start()
    for block in range(5):
        client.wait_for(100 * (block + 1))
        assert ready_count(channel, jobs) == 400 - 100 * block  # it must ack to get more
        for tag in client.tags[-100:]:  # message.acknowledge() of Qpid's client
            client.channel.basic_ack(tag)
    assert client.bodies == numbered(500)
    client.die()
    assert ready_count(channel, jobs) == 0


@pytest.mark.row("D2")
@pytest.mark.parametrize("is_everything", [False, True])
def test_one_ack_may_stand_for_all_before_it(
    channel: BlockingChannel, jobs: str, worker: Callable[..., Worker], is_everything: bool
) -> None:
    publish(channel, jobs, *numbered(500))
    client = worker(prefetch=100).start()
    for block in range(5):
        client.wait_for(100 * (block + 1))
        client.channel.basic_ack(0 if is_everything else client.tags[-1], multiple=True)
    client.die()
    assert ready_count(channel, jobs) == 0


@pytest.mark.row("D2")
def test_an_ack_for_many_leaves_later_ones_unacked(
    channel: BlockingChannel, jobs: str, worker: Callable[..., Worker]
) -> None:
    publish(channel, jobs, *numbered(10))
    client = worker().start()
    client.wait_for(10)
    client.channel.basic_ack(3)
    client.channel.basic_ack(7, multiple=True)
    client.die()
    left(channel, jobs, 3)
    assert get_all(channel, jobs) == numbered(3, 7)


@pytest.mark.row("D2")
def test_the_limit_may_be_raised_for_a_while(
    channel: BlockingChannel, jobs: str, worker: Callable[..., Worker]
) -> None:
    publish(channel, jobs, *numbered(10))
    client = worker()
    client.channel.basic_qos(prefetch_count=2, global_qos=True)
    client.start().wait_for(2)
    client.channel.basic_qos(prefetch_count=3, global_qos=True)
    client.wait_for(3)
    client.channel.basic_qos(prefetch_count=2, global_qos=True)
    client.channel.basic_ack(client.tags[0])
    client.channel.basic_qos(prefetch_count=2, global_qos=True)  # answered after the ack
    assert ready_count(channel, jobs) == 7
    client.channel.basic_ack(client.tags[1])
    client.wait_for(4)


@pytest.mark.row("D3")
def test_who_may_have_seen_a_message_is_told(
    channel: BlockingChannel, jobs: str, worker: Callable[..., Worker]
) -> None:
    publish(channel, jobs, *numbered(6))
    lazy = worker(prefetch=4).start()
    lazy.wait_for(4)
    lazy.channel.basic_ack(lazy.tags[1], multiple=True)  # acks late, and dies before the others
    lazy.wait_for(6)
    lazy.die()
    left(channel, jobs, 4)
    publish(channel, jobs, b"new")
    other = worker().start()
    other.wait_for(5)
    assert other.bodies == [*numbered(4, 2), b"new"]
    assert other.redelivered == [True, True, True, True, False]


@pytest.mark.row("D4")
def test_what_was_acked_before_the_work_is_lost_with_it(
    channel: BlockingChannel, jobs: str, worker: Callable[..., Worker]
) -> None:
    publish(channel, jobs, *numbered(5))
    client = worker(prefetch=1)
    worked_on: list[bytes] = []

    def work(method: Any, body: bytes) -> None:
        client.channel.basic_ack(method.delivery_tag)
        worked_on.append(body)

    client.start(work)
    serve_until(client.connection, lambda: len(worked_on) == 5, "five messages")
    client.die()
    assert ready_count(channel, jobs) == 0


@pytest.mark.acceptance
@pytest.mark.row("D5")
def test_without_acks_no_limit_counts_and_delivered_is_gone(
    channel: BlockingChannel, jobs: str, worker: Callable[..., Worker]
) -> None:
    publish(channel, jobs, *numbered(1000))
    client = worker(prefetch=1).start(no_ack=True)
    client.wait_for(1000)
    assert client.bodies == numbered(1000)
    client.die()
    assert ready_count(channel, jobs) == 0


@pytest.mark.acceptance
@pytest.mark.row("D5")
def test_without_acks_a_client_that_does_not_read_is_waited_for(
    channel: BlockingChannel, jobs: str, worker: Callable[..., Worker]
) -> None:
    """No prefetch holds the broker back here, only the socket: the rest stays in the queue."""
    count, octets = 300, 100_000  # more than the sockets of both sides take
    client = worker().start(no_ack=True)  # and then its application hangs
    publish(channel, jobs, *[b"%06d" % number + bytes(octets) for number in range(count)])
    seen: list[int] = []

    def is_at_rest() -> bool:
        seen.append(ready_count(channel, jobs))
        return len(seen) >= 20 and len(set(seen[-20:])) == 1

    wait_for(is_at_rest, DELIVERY_DEADLINE_S, "the queue to come to rest")
    assert seen[-1] > 50
    client.wait_for(count)
    assert [int(body[:6]) for body in client.bodies] == list(range(count))
    assert ready_count(channel, jobs) == 0


# ------------------------------------------------------------------- transactions and recover


@pytest.mark.row("D6")
def test_acks_of_a_transaction_count_at_its_commit(
    channel: BlockingChannel, jobs: str, worker: Callable[..., Worker]
) -> None:
    publish(channel, jobs, *numbered(20))
    client = worker(prefetch=10)
    client.channel.tx_select()
    client.start().wait_for(10)
    for tag in client.tags:
        client.channel.basic_ack(tag)
    client.channel.tx_rollback()
    assert ready_count(channel, jobs) == 10  # the client's still, and not given out again
    for tag in client.tags:
        client.channel.basic_ack(tag)
    client.channel.tx_commit()
    client.wait_for(20)
    for tag in client.tags[10:]:
        client.channel.basic_ack(tag)
    client.die()  # before the commit
    left(channel, jobs, 10)
    assert get_all(channel, jobs) == numbered(10, 10)


@pytest.mark.row("D6")
def test_acks_and_publishes_of_a_transaction_go_together(
    channel: BlockingChannel, jobs: str, queue: str, worker: Callable[..., Worker]
) -> None:
    publish(channel, jobs, b"question")
    channel.queue_declare(f"{jobs}-out", arguments={"x-expires": 60_000})
    client = worker()
    client.channel.tx_select()
    client.start().wait_for(1)
    publish(client.channel, f"{jobs}-out", b"answer")
    client.channel.basic_ack(client.tags[0])
    client.channel.tx_rollback()
    assert ready_count(channel, f"{jobs}-out") == 0
    publish(client.channel, f"{jobs}-out", b"answer")
    client.channel.basic_ack(client.tags[0])
    client.channel.tx_commit()
    client.die()
    assert get_all(channel, f"{jobs}-out") == [b"answer"]
    assert ready_count(channel, jobs) == 0


@pytest.mark.row("D7")
def test_recover_brings_back_what_is_unacked_in_order(
    channel: BlockingChannel, jobs: str, worker: Callable[..., Worker]
) -> None:
    publish(channel, jobs, *numbered(5))
    client = worker().start()
    client.wait_for(5)
    client.channel.basic_ack(client.tags[2])
    client.channel.basic_recover(requeue=True)
    client.wait_for(9)
    assert client.bodies[5:] == [b"0", b"1", b"3", b"4"]
    assert client.redelivered[5:] == [True] * 4
    assert client.tags == list(range(1, 10))


@pytest.mark.row("D7")
def test_recover_without_an_answer_does_the_same(
    channel: BlockingChannel, jobs: str, worker: Callable[..., Worker]
) -> None:
    publish(channel, jobs, *numbered(3))
    client = worker().start()
    client.wait_for(3)
    client.channel._impl._send_method(spec.Basic.RecoverAsync(requeue=True))
    client.wait_for(6)
    assert client.bodies[3:] == numbered(3)
    assert client.redelivered[3:] == [True] * 3


@pytest.mark.row("D7")
def test_recover_to_the_same_consumer_is_not_implemented(
    channel: BlockingChannel, jobs: str, worker: Callable[..., Worker]
) -> None:
    """As in RabbitMQ. Qpid's JMS client needs it; a switch for such clients comes with them."""
    publish(channel, jobs, b"x")
    client = worker().start()
    client.wait_for(1)
    with pytest.raises(pika.exceptions.ConnectionClosedByBroker) as closed:
        client.channel.basic_recover(requeue=False)
    assert (closed.value.reply_code, closed.value.reply_text) == (
        540,
        "NOT_IMPLEMENTED - requeue=false",
    )
    left(channel, jobs, 1)  # what it had comes back all the same


# -------------------------------------------------------------------------- modes and flow


@pytest.mark.row("D8", "D9")
@pytest.mark.parametrize(
    "mode",
    [
        pytest.param(2, id="persistent"),
        pytest.param(1, id="non_persistent"),
        pytest.param(None, id="unsaid"),
    ],
)
@pytest.mark.parametrize("is_durable", [False, True])
def test_a_delivery_mode_is_kept(
    connection: pika.BlockingConnection, name: str, mode: int | None, is_durable: bool
) -> None:
    """On queues of either kind; that mode 2 outlives the broker is for the journal to keep."""
    channel = connection.channel()
    channel.confirm_delivery()
    channel.queue_declare(name, durable=is_durable)
    try:
        channel.basic_publish("", name, b"x", pika.BasicProperties(delivery_mode=mode))
        first, properties, _ = channel.basic_get(name)
        assert properties.delivery_mode == mode
        channel.basic_nack(first.delivery_tag, requeue=True)
        again, properties, _ = channel.basic_get(name)
        assert (again.redelivered, properties.delivery_mode) == (True, mode)
    finally:
        channel.queue_delete(name)


@pytest.mark.row("D10")
def test_a_producer_may_mix_the_modes(
    channel: BlockingChannel, jobs: str, worker: Callable[..., Worker]
) -> None:
    """The default of a producer and the exception for a message are the client's; both arrive."""
    modes = [2, 2, 1, 2, 1, None]
    for mode in modes:
        channel.basic_publish("", jobs, b"x", pika.BasicProperties(delivery_mode=mode))
    client = worker().start()
    client.wait_for(len(modes))
    assert [properties.delivery_mode for _, properties, _ in client.deliveries] == modes


@pytest.mark.acceptance
@pytest.mark.row("D11")
def test_flow_stops_a_channel_with_a_prefetch_and_lets_it_go_on(
    broker: BrokerUnderTest, channel: BlockingChannel, jobs: str, worker: Callable[..., Worker]
) -> None:
    # differs: channel-flow
    if broker.is_foreign:
        pytest.skip("RabbitMQ answers channel.flow(active=false) with 540")
    publish(channel, jobs, *numbered(2 * QPID_PREFETCH))
    client = worker(prefetch=QPID_PREFETCH).start()
    client.wait_for(QPID_PREFETCH)
    assert client.channel.flow(active=False) is False
    for tag in client.tags[:QPID_LOW_WATER]:
        client.channel.basic_ack(tag)
    client.connection.channel().close()  # answered after the acks
    assert len(client.deliveries) == QPID_PREFETCH
    assert ready_count(channel, jobs) == QPID_PREFETCH
    assert client.channel.flow(active=True) is True
    client.wait_for(QPID_PREFETCH + QPID_LOW_WATER)
    client.channel.basic_ack(0, multiple=True)
    client.wait_for(2 * QPID_PREFETCH)
    assert client.bodies == numbered(2 * QPID_PREFETCH)


@pytest.mark.acceptance
@pytest.mark.row("D11")
def test_flow_stops_no_other_channel(
    broker: BrokerUnderTest, channel: BlockingChannel, jobs: str, worker: Callable[..., Worker]
) -> None:
    # differs: channel-flow
    if broker.is_foreign:
        pytest.skip("RabbitMQ answers channel.flow(active=false) with 540")
    stopped = worker().start()
    other = Worker(stopped.connection, jobs).start()
    stopped.channel.flow(active=False)
    publish(channel, jobs, *numbered(10))
    other.wait_for(10)
    assert stopped.deliveries == []
