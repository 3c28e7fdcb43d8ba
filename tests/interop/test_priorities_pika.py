"""Priorities, as a user of pika sees them: levels, depth, prefetch, and messages that expire.

The deep queues here are filled over a plain socket, since filling them is not what is tested; pika
reads what comes next.
"""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("pika", reason="pika (PyPI) is not installed")
import pika
from pamqp import commands, header
from pamqp.body import ContentBody
from pamqp.frame import marshal
from pika.adapters.blocking_connection import BlockingChannel

from tests.support.broker_process import BrokerProcess, BrokerUnderTest, StartDaemon
from tests.support.pika_calls import (
    DELIVERY_DEADLINE_S,
    declare,
    get_all,
    publish,
    ready_count,
    receive,
    serve_until,
)
from tests.support.raw_client import RawClient
from tests.support.waiting import wait_for

from .conftest import USERS_CONFIG, PikaConnect

# differs: additions
needs_hareline = pytest.mark.usefixtures("only_hareline")

DEPTH = 200_000
BATCH = 2_000


def publish_priorities(channel: BlockingChannel, queue: str, *priorities: int | None) -> None:
    """The body is the priority, ``-`` for none."""
    for priority in priorities:
        body = "-" if priority is None else str(priority)
        properties = pika.BasicProperties(priority=priority)
        channel.basic_publish("", queue, body.encode(), properties)


def priorities_of(bodies: list[bytes]) -> list[int | None]:
    return [None if body == b"-" else int(body) for body in bodies]


# ------------------------------------------------------------------------------------------ levels


@pytest.mark.row("A4")
@pytest.mark.row("E4")
def test_the_highest_priority_is_next_and_equal_ones_as_they_came(
    channel: BlockingChannel,
) -> None:
    queue = declare(channel, x_max_priority=9)
    for number in range(60):
        properties = pika.BasicProperties(priority=number * 7 % 10)
        channel.basic_publish("", queue, b"%d" % number, properties)
    expected = sorted(range(60), key=lambda number: (-(number * 7 % 10), number))
    assert [int(body) for body in get_all(channel, queue)] == expected


@pytest.mark.row("A4")
def test_rabbitmqs_levels_end_at_the_highest_and_no_priority_is_0(
    channel: BlockingChannel,
) -> None:
    queue = declare(channel, x_max_priority=5)
    publish_priorities(channel, queue, None, 4, 255, 0, 5, 1)
    assert priorities_of(get_all(channel, queue)) == [255, 5, 4, 1, None, 0]


@pytest.mark.row("A4", "C3")
@needs_hareline
def test_qpids_ten_levels_are_0_to_9_and_no_priority_is_4(channel: BlockingChannel) -> None:
    queue = declare(channel, x_qpid_priorities=10)
    publish_priorities(channel, queue, *range(10), None, 200)
    assert priorities_of(get_all(channel, queue)) == [9, 200, 8, 7, 6, 5, 4, None, 3, 2, 1, 0]


@pytest.mark.row("C2")
@needs_hareline
def test_three_levels_are_activemqs_categories(channel: BlockingChannel) -> None:
    queue = declare(channel, x_qpid_priorities=3)
    publish_priorities(channel, queue, *range(10), None)
    assert priorities_of(get_all(channel, queue)) == [5, 6, 7, 8, 9, 4, None, 0, 1, 2, 3]


@pytest.mark.row("C1")
def test_expedited_comes_before_normal_and_their_gradations_hold_too(
    channel: BlockingChannel,
) -> None:
    queue = declare(channel, x_max_priority=9)
    publish_priorities(channel, queue, *(3, 7, 0, 5, 9, 4) * 5)
    expected = [level for level in (9, 7, 5, 4, 3, 0) for _ in range(5)]
    assert priorities_of(get_all(channel, queue)) == expected


@pytest.mark.row("C3")
@needs_hareline
@pytest.mark.parametrize("arguments", [{"x_max_priority": 9}, {"x_qpid_priorities": 10}])
@pytest.mark.parametrize("default", [0, 6, 9])
@pytest.mark.row("E3")
def test_what_a_missing_priority_means_can_be_said(
    channel: BlockingChannel, arguments: dict[str, Any], default: int
) -> None:
    queue = declare(channel, x_default_priority=default, **arguments)
    publish_priorities(channel, queue, *range(10), None)
    place = 10 - default  # behind the one of the same level, which came before
    expected: list[int | None] = [*range(9, -1, -1)]
    assert priorities_of(get_all(channel, queue)) == [*expected[:place], None, *expected[place:]]


@pytest.mark.row("C3")
@pytest.mark.parametrize("priority", [None, 4])
def test_who_uses_no_priorities_sees_first_in_first_out(
    channel: BlockingChannel, priority: int | None
) -> None:
    queue = declare(channel, x_max_priority=9)
    for number in range(50):
        properties = pika.BasicProperties(priority=priority)
        channel.basic_publish("", queue, b"%d" % number, properties)
    assert get_all(channel, queue) == [b"%d" % number for number in range(50)]


@pytest.mark.row("C4", "C8")
@pytest.mark.parametrize("is_durable", [False, True])
def test_the_order_is_strict_however_messages_are_kept(
    connection: pika.BlockingConnection, name: str, is_durable: bool
) -> None:
    """Persistent and transient ones side by side, small and large."""
    channel = connection.channel()
    channel.queue_declare(name, durable=is_durable, arguments={"x-max-priority": 9})
    try:
        for number in range(40):
            properties = pika.BasicProperties(priority=number % 10, delivery_mode=1 + number % 2)
            size = 100_000 if number % 3 else 10
            channel.basic_publish("", name, b"%d" % number + bytes(size), properties)
        got = [int(body.rstrip(b"\0")) for body in get_all(channel, name)]
    finally:
        channel.queue_delete(name)
    assert got == sorted(range(40), key=lambda number: (-(number % 10), number))


# ------------------------------------------------------------------------------------- deep queues


def fill(
    broker: BrokerUnderTest, queue: str, count: int, properties: commands.Basic.Properties
) -> None:
    """Publish so many messages of one body, all alike; returns when the broker has them."""
    address = (broker.host, broker.port)
    with RawClient(address).open(broker.username, broker.password, vhost=broker.vhost) as client:
        client.select_confirms()
        publish_octets = b"".join(
            (
                marshal(commands.Basic.Publish(routing_key=queue), 1),
                marshal(header.ContentHeader(body_size=3, properties=properties), 1),
                marshal(ContentBody(b"low"), 1),
            )
        )
        for sent in range(BATCH, count + 1, BATCH):
            client.send_octets(publish_octets * BATCH)
            client.read_confirms(sent)
        client.close()


@pytest.fixture
def deep(broker: BrokerUnderTest, channel: BlockingChannel, name: str) -> str:
    """A priority queue in which very many messages of priority 1 wait."""
    channel.queue_declare(name, arguments={"x-max-priority": 9, "x-expires": 120_000})
    fill(broker, name, DEPTH, commands.Basic.Properties(priority=1))
    assert ready_count(channel, name) == DEPTH
    return name


@pytest.mark.acceptance
@pytest.mark.row("C6", "C7")
def test_behind_very_many_low_ones_a_high_one_is_next(
    connect: PikaConnect, channel: BlockingChannel, deep: str
) -> None:
    """There is no page or cache of some hundred messages within which alone the order holds."""
    channel.basic_publish("", deep, b"high", pika.BasicProperties(priority=8))
    channel.basic_publish("", deep, b"higher", pika.BasicProperties(priority=9))
    assert channel.basic_get(deep, auto_ack=True)[2] == b"higher"
    working = connect().channel()
    working.basic_qos(prefetch_count=1)
    deliveries: list[bytes] = []

    def work(_: Any, method: Any, _properties: Any, body: bytes) -> None:
        deliveries.append(body)
        if len(deliveries) == 100:  # in the midst of the low ones
            channel.basic_publish("", deep, b"late", pika.BasicProperties(priority=9))
            assert ready_count(channel, deep) == DEPTH - 99 + 1
        if len(deliveries) < 102:
            working.basic_ack(method.delivery_tag)

    working.basic_consume(deep, work)
    serve_until(working.connection, lambda: len(deliveries) >= 102, "102 deliveries")
    assert deliveries == [b"high", *[b"low"] * 99, b"late", b"low"]
    channel.queue_delete(deep)


@pytest.mark.acceptance
@pytest.mark.row("A5", "C6")
@needs_hareline
def test_behind_very_many_a_lower_key_is_next(
    broker: BrokerUnderTest, channel: BlockingChannel, name: str
) -> None:
    channel.queue_declare(name, arguments={"x-sort-key": "k", "x-expires": 120_000})
    fill(broker, name, DEPTH, commands.Basic.Properties(headers={"k": "m"}))
    for key in ("z", "b", "a"):
        properties = pika.BasicProperties(headers={"k": key})
        channel.basic_publish("", name, key.encode(), properties)
    bodies = [channel.basic_get(name, auto_ack=True)[2] for _ in range(3)]
    assert bodies == [b"a", b"b", b"low"]
    assert ready_count(channel, name) == DEPTH
    channel.queue_delete(name)


# ---------------------------------------------------------------------------------------- prefetch


def worked_off(
    connection: pika.BlockingConnection, queue: str, *, prefetch: int, publishing: BlockingChannel
) -> list[int | None]:
    """The order in which a worker does a queue that gets 9, 5 and 7 while it does the second."""
    worker = connection.channel()
    worker.basic_qos(prefetch_count=prefetch)
    done: list[bytes] = []

    def work(_: Any, method: Any, _properties: Any, body: bytes) -> None:
        done.append(body)
        if len(done) == 2:
            publish_priorities(publishing, queue, 9, 5, 7)
            # an answer: by then the broker has them, and has given out all that it may
            ready_count(publishing, queue)
        worker.basic_ack(method.delivery_tag)

    worker.basic_consume(queue, work)
    serve_until(connection, lambda: len(done) == 9, "nine messages")
    return priorities_of(done)


@pytest.mark.row("A27", "C10")
def test_with_a_prefetch_of_1_the_order_is_exact(
    connect: PikaConnect, channel: BlockingChannel, name: str
) -> None:
    channel.queue_declare(name, arguments={"x-max-priority": 9, "x-expires": 60_000})
    publish_priorities(channel, name, 1, 6, 1, 6, 1, 6)
    ready_count(channel, name)
    done = worked_off(connect(), name, prefetch=1, publishing=channel)
    assert done == [6, 6, 9, 7, 6, 5, 1, 1, 1]


@pytest.mark.row("A27", "C10")
def test_what_a_large_prefetch_holds_cannot_be_overtaken(
    connect: PikaConnect, channel: BlockingChannel, name: str
) -> None:
    channel.queue_declare(name, arguments={"x-max-priority": 9, "x-expires": 60_000})
    publish_priorities(channel, name, 1, 6, 1, 6, 1, 6)
    ready_count(channel, name)
    done = worked_off(connect(), name, prefetch=100, publishing=channel)
    assert done[:6] == [6, 6, 6, 1, 1, 1]
    assert sorted(priority or 0 for priority in done[6:]) == [5, 7, 9]


@pytest.fixture
def exact_broker(broker: BrokerUnderTest, start_daemon: StartDaemon) -> BrokerProcess:
    """A daemon whose operator bounds every prefetch."""
    # differs: additions
    if broker.is_foreign:
        pytest.skip("a setting of Hareline's")
    return start_daemon(USERS_CONFIG.replace('name = "/"', 'name = "/"\nprefetch_max = 1', 1))


@pytest.mark.acceptance
@pytest.mark.row("A27")
def test_an_operator_makes_the_order_exact_whatever_clients_ask_for(
    exact_broker: BrokerProcess, name: str
) -> None:
    parameters = pika.URLParameters(exact_broker.url)
    with (
        pika.BlockingConnection(parameters) as working,
        pika.BlockingConnection(parameters) as publishing,
    ):
        channel = publishing.channel()
        channel.queue_declare(name, arguments={"x-max-priority": 9})
        publish_priorities(channel, name, 1, 6, 1, 6, 1, 6)
        ready_count(channel, name)
        done = worked_off(working, name, prefetch=100, publishing=channel)
    assert done == [6, 6, 9, 7, 6, 5, 1, 1, 1]


# ------------------------------------------------------------------------- messages that expire

TYPES = [
    pytest.param({}, id="fifo"),
    pytest.param({"x-max-priority": 9}, id="priority"),
    pytest.param({"x-sort-key": "k"}, id="sorted"),
    pytest.param({"x-last-value-key": "k"}, id="last_value"),
]


@pytest.mark.acceptance
@pytest.mark.row("C9")
@needs_hareline
@pytest.mark.parametrize("arguments", TYPES)
@pytest.mark.parametrize("period_ms", [None, 100, 0], ids=["timely", "period", "lazy"])
def test_what_expires_leaves_the_others_in_their_order(
    channel: BlockingChannel, queue: str, arguments: dict[str, Any], period_ms: int | None
) -> None:
    sweep = {} if period_ms is None else {"x-expiry-check-period": period_ms}
    dead = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": queue}
    swept, untouched = (
        channel.queue_declare("", exclusive=True, arguments={**arguments, **more}).method.queue
        for more in ({**sweep, **dead}, {})
    )
    expiring: list[bytes] = []
    came: list[bytes] = []  # early: a later publish looks, if it is so late
    for number in range(60):
        body = b"%d" % number
        expiration = "60" if number % 3 == 0 else None
        properties = pika.BasicProperties(
            priority=number * 7 % 10, headers={"k": f"{number * 11 % 60:02}"}, expiration=expiration
        )
        channel.basic_publish("", swept, body, properties)
        if expiration:
            expiring.append(body)
        else:
            channel.basic_publish("", untouched, body, properties)
    if period_ms == 0:  # nothing is dropped until somebody looks, so a clock is needed
        clock = channel.queue_declare("", exclusive=True, arguments=dead).method.queue
        channel.basic_publish("", clock, b"time is up", pika.BasicProperties(expiration="70"))

        def is_time_up() -> bool:
            body = channel.basic_get(queue, auto_ack=True)[2]
            if body is not None:
                came.append(body)
            return bool(body == b"time is up")

        wait_for(is_time_up, DELIVERY_DEADLINE_S, "the clock")
        came.pop()
        assert ready_count(channel, queue) == 0
    else:
        wait_for(
            lambda: ready_count(channel, queue) == len(expiring), DELIVERY_DEADLINE_S, "the sweep"
        )
        assert ready_count(channel, swept) == 40
    assert get_all(channel, swept) == get_all(channel, untouched)
    assert sorted([*came, *get_all(channel, queue)]) == sorted(expiring)


@pytest.mark.acceptance
@pytest.mark.row("C9")
@needs_hareline
def test_a_sweep_does_not_move_what_comes_back_meanwhile(
    channel: BlockingChannel, queue: str
) -> None:
    swept = declare(
        channel, x_max_priority=9, x_dead_letter_exchange="", x_dead_letter_routing_key=queue
    )
    publish_priorities(channel, swept, 1, 9, 5)
    taken, _, body = channel.basic_get(swept)
    assert body == b"9"
    for priority in (9, 8, 0):
        properties = pika.BasicProperties(priority=priority, expiration="50")
        channel.basic_publish("", swept, b"gone", properties)
    publish(channel, swept, b"0")
    assert len(receive(channel, queue, 3)) == 3
    channel.basic_nack(taken.delivery_tag, requeue=True)
    assert get_all(channel, swept) == [b"9", b"5", b"1", b"0"]
