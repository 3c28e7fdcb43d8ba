"""Prefetch, as a user of pika sees it: who has how many messages, and when more come.

The odd cases are in tests/unit/amqp/test_prefetch.py; here each row of docs/features.md is seen
through a client library and a socket.
"""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("pika", reason="pika (PyPI) is not installed")
import pika
from pika.adapters.blocking_connection import BlockingChannel

from tests.support.broker_process import BrokerProcess, BrokerUnderTest, StartDaemon
from tests.support.pika_calls import DELIVERY_DEADLINE_S, declare, publish, ready_count, serve_until
from tests.support.waiting import wait_for

from .conftest import USERS_CONFIG, PikaConnect

# differs: additions
needs_hareline = pytest.mark.usefixtures("only_hareline")

COUNT = 40


def numbered(count: int, first: int = 0) -> list[bytes]:
    return [b"%d" % number for number in range(first, first + count)]


class Inbox:
    """A consumer that acknowledges when it is told to."""

    def __init__(self, channel: BlockingChannel, queue: str, **options: Any) -> None:
        self.channel = channel
        self.bodies: list[bytes] = []
        self.tags: list[int] = []
        self.consumer_tag = channel.basic_consume(queue, self._receive, **options)

    def _receive(self, _: Any, method: Any, _properties: Any, body: bytes) -> None:
        self.bodies.append(body)
        self.tags.append(method.delivery_tag)

    def settled_count(self) -> int:
        """How many it got, once all that the broker had to send is here."""
        self.channel.connection.channel().close()  # answered behind what is on the way
        self.channel.connection.process_data_events(0)
        return len(self.bodies)

    def wait_for(self, count: int) -> None:
        """It gets so many and no more."""
        serve_until(
            self.channel.connection, lambda: len(self.bodies) >= count, f"delivery number {count}"
        )
        assert self.settled_count() == count

    def ack(self, count: int) -> None:
        """The oldest so many, one by one."""
        for tag in self.tags[:count]:
            self.channel.basic_ack(tag)
        del self.tags[:count]


@pytest.fixture
def jobs(channel: BlockingChannel, name: str) -> str:
    """A queue of 40 messages, and for everybody."""
    channel.queue_declare(name, arguments={"x-expires": 60_000})
    publish(channel, name, *numbered(COUNT))
    assert ready_count(channel, name) == COUNT
    return name


@pytest.mark.row("B1")
def test_messages_are_pushed_and_without_a_limit_all_of_them(
    connect: PikaConnect, channel: BlockingChannel, jobs: str
) -> None:
    inbox = Inbox(connect().channel(), jobs)
    inbox.wait_for(COUNT)
    publish(channel, jobs, b"new")
    inbox.wait_for(COUNT + 1)
    assert inbox.bodies == [*numbered(COUNT), b"new"]


@pytest.mark.row("B2")
def test_each_consumer_has_a_limit_of_its_own(connect: PikaConnect, jobs: str) -> None:
    channel = connect().channel()
    channel.basic_qos(prefetch_count=3)
    first, second = Inbox(channel, jobs), Inbox(channel, jobs)
    first.wait_for(3)
    second.wait_for(3)
    first.ack(2)
    first.wait_for(5)
    assert second.settled_count() == 3


@pytest.mark.row("B3")
@needs_hareline
@pytest.mark.parametrize(("percent", "acked", "more"), [(50, 4, 0), (50, 5, 5), (100, 4, 4)])
def test_the_top_up_may_wait_for_half_of_it(
    connect: PikaConnect, jobs: str, percent: int, acked: int, more: int
) -> None:
    channel = connect().channel()
    channel.basic_qos(prefetch_count=10)
    inbox = Inbox(channel, jobs, arguments={"x-prefetch-refill": percent})
    inbox.wait_for(10)
    inbox.ack(acked)
    inbox.wait_for(10 + more)


@pytest.mark.row("B5")
@needs_hareline
def test_a_consumer_may_bring_its_own_limit(connect: PikaConnect, jobs: str) -> None:
    channel = connect().channel()
    channel.basic_qos(prefetch_count=3)
    own = Inbox(channel, jobs, arguments={"x-prefetch-count": 10})
    own.wait_for(10)
    Inbox(channel, jobs).wait_for(3)


@pytest.mark.row("B7")
def test_who_wants_one_for_each_request_gets_one(channel: BlockingChannel, jobs: str) -> None:
    bodies = [channel.basic_get(jobs, auto_ack=True)[2] for _ in range(COUNT)]
    assert bodies == numbered(COUNT)
    assert channel.basic_get(jobs) == (None, None, None)


@pytest.mark.row("B8", "B9")
@pytest.mark.parametrize("prefetch", [1, 5])
def test_a_slow_consumer_delays_no_more_than_its_prefetch(
    connect: PikaConnect, channel: BlockingChannel, jobs: str, prefetch: int
) -> None:
    """Its prefetch is full, and messages wait: they are the others'."""
    working = connect().channel()
    working.basic_qos(prefetch_count=prefetch)
    slow = Inbox(working, jobs)
    slow.wait_for(prefetch)
    quick = Inbox(connect().channel(), jobs)
    quick.wait_for(COUNT - prefetch)
    assert slow.settled_count() == prefetch
    quick.ack(COUNT)
    publish(channel, jobs, b"new")
    quick.wait_for(COUNT - prefetch + 1)


@pytest.mark.row("B11")
def test_what_an_idle_consumer_hoards_comes_back_with_its_channel(
    connect: PikaConnect, channel: BlockingChannel, jobs: str
) -> None:
    pooled = connect().channel()
    hoard = Inbox(pooled, jobs)
    hoard.wait_for(COUNT)
    assert ready_count(channel, jobs) == 0
    pooled.basic_cancel(hoard.consumer_tag)  # the pool keeps the channel for later
    assert ready_count(channel, jobs) == 0
    pooled.close()
    wait_for(lambda: ready_count(channel, jobs) == COUNT, DELIVERY_DEADLINE_S, "all to come back")


# differs: consumer-timeout
@pytest.mark.row("B8", "B11")
@needs_hareline
def test_what_a_consumer_holds_for_too_long_goes_to_another_one(
    connect: PikaConnect, channel: BlockingChannel, name: str
) -> None:
    channel.queue_declare(name, arguments={"x-expires": 60_000})
    working = connect().channel()
    cancelled: list[str] = []
    working.add_on_cancel_callback(lambda frame: cancelled.append(frame.method.consumer_tag))
    stuck = Inbox(working, name, arguments={"x-consumer-timeout": 100})
    publish(channel, name, b"1")
    stuck.wait_for(1)
    steady = Inbox(working, name)
    serve_until(working.connection, lambda: bool(cancelled), "basic.cancel")
    assert cancelled == [stuck.consumer_tag]
    steady.wait_for(1)  # on the same channel, which lives on
    assert steady.bodies == [b"1"]
    stuck.ack(1)  # late, of a message that another consumer has by now
    assert ready_count(channel, name) == 0
    steady.ack(1)
    publish(channel, name, b"2")
    steady.wait_for(2)


@pytest.mark.row("B13")
@needs_hareline
def test_the_limit_may_be_one_of_octets(
    connect: PikaConnect, channel: BlockingChannel, name: str
) -> None:
    channel.queue_declare(name, arguments={"x-expires": 60_000})
    publish(channel, name, *[bytes(400)] * 10)
    ready_count(channel, name)
    working = connect().channel()
    working.basic_qos(prefetch_size=1000)
    inbox = Inbox(working, name)
    inbox.wait_for(2)
    inbox.ack(2)
    inbox.wait_for(4)


# -------------------------------------------------------------------------- what an operator sets


@pytest.fixture
def set_up_broker(
    broker: BrokerUnderTest, request: Any, start_daemon: StartDaemon
) -> BrokerProcess:
    """A daemon whose virtual host has the setting that the test is parametrized with."""
    # differs: additions
    if broker.is_foreign:
        pytest.skip("settings of Hareline's")
    return start_daemon(USERS_CONFIG.replace('name = "/"', f'name = "/"\n{request.param}', 1))


@pytest.mark.acceptance
@pytest.mark.row("B6")
@pytest.mark.parametrize("set_up_broker", ["default_prefetch = 7"], indirect=True)
def test_who_asks_for_no_limit_gets_the_default(set_up_broker: BrokerProcess, name: str) -> None:
    with pika.BlockingConnection(pika.URLParameters(set_up_broker.url)) as connection:
        channel = connection.channel()
        channel.queue_declare(name)
        publish(channel, name, *numbered(COUNT))
        Inbox(channel, name).wait_for(7)
        unlimited = connection.channel()
        unlimited.basic_qos(prefetch_count=0)
        Inbox(unlimited, name).wait_for(COUNT - 7)


@pytest.mark.acceptance
@pytest.mark.row("B10")
@pytest.mark.parametrize("set_up_broker", ['prefetch_profile = "activemq"'], indirect=True)
@pytest.mark.parametrize(
    ("options", "is_exclusive", "expected"),
    [
        pytest.param({"durable": True}, False, 1000, id="durable_queue"),
        pytest.param({}, False, 1000, id="transient_queue"),
        pytest.param({"durable": True}, True, 100, id="durable_subscription"),
        pytest.param({"queue": "", "auto_delete": True}, False, 32_766, id="subscription"),
        pytest.param({"arguments": {"x-non-destructive": True}}, False, 500, id="browser"),
    ],
)
def test_the_defaults_may_be_activemqs(
    set_up_broker: BrokerProcess,
    name: str,
    options: dict[str, Any],
    is_exclusive: bool,
    expected: int,
) -> None:
    with pika.BlockingConnection(pika.URLParameters(set_up_broker.url)) as connection:
        channel = connection.channel()
        queue = channel.queue_declare(**{"queue": name, **options}).method.queue
        publish(channel, queue, *[b"x"] * (expected + 10))
        Inbox(channel, queue, exclusive=is_exclusive).wait_for(expected)


# ------------------------------------------------------------------- shared by a channel


@pytest.mark.acceptance
def test_a_limit_for_the_channel_serves_its_queues_in_turn(channel: BlockingChannel) -> None:
    """What Celery's workers ask for (kombu before 5.7)."""
    queues = [declare(channel) for _ in range(3)]
    for queue in queues:
        publish(channel, queue, *numbered(100))
    channel.basic_qos(prefetch_count=1, global_qos=True)
    acked = 0

    def acknowledge(receiver: BlockingChannel, method: Any, _: Any, _body: bytes) -> None:
        nonlocal acked
        if acked < 99:
            acked += 1
            receiver.basic_ack(method.delivery_tag)

    for queue in queues:
        channel.basic_consume(queue, acknowledge)
    serve_until(channel.connection, lambda: acked == 99, "acknowledgement number 99")
    left = [ready_count(channel, queue) for queue in queues]
    assert sum(left) == 200
    # differs: prefetch-turns
    assert max(left) - min(left) <= 20, left  # RabbitMQ asks them in random order


@pytest.mark.acceptance
def test_who_does_not_acknowledge_waits_for_the_channels_limit_too(
    channel: BlockingChannel,
) -> None:
    limited, free = declare(channel), declare(channel)
    channel.basic_qos(prefetch_count=2, global_qos=True)
    holder = Inbox(channel, limited)
    publish(channel, limited, *numbered(2))
    holder.wait_for(2)
    taker = Inbox(channel, free, auto_ack=True)
    publish(channel, free, *numbered(5))
    assert taker.settled_count() == 0
    channel.basic_ack(holder.tags[0])
    taker.wait_for(5)
