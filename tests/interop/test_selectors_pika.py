"""Consumers with selectors, as users of pika see them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("pika", reason="pika (PyPI) is not installed")
import pika
from pika.exceptions import ChannelClosedByBroker

from tests.support.pika_calls import get_all, ready_count, serve_until

from .inbox import SELECTOR, Inbox, put

if TYPE_CHECKING:
    from pika.adapters.blocking_connection import BlockingChannel

    from tests.support.broker_process import BrokerUnderTest

    from .conftest import PikaConnect, StartBroker


Declare = Callable[..., str]


@pytest.fixture(autouse=True)
def only_here(broker: BrokerUnderTest) -> None:
    # differs: additions
    if broker.is_foreign:
        pytest.skip("RabbitMQ has no selectors on queues")


@pytest.fixture
def declare(channel: BlockingChannel) -> Declare:
    def declare_one(**arguments: Any) -> str:
        named = {key.replace("_", "-"): value for key, value in arguments.items()}
        return str(channel.queue_declare("", exclusive=True, arguments=named).method.queue)

    return declare_one


def colours(channel: BlockingChannel, queue: str, *bodies: bytes) -> None:
    """``r1`` is red, ``b1`` is blue and ``g1`` is green."""
    for body in bodies:
        colour = {b"r": "red", b"b": "blue", b"g": "green"}[body[:1]]
        put(channel, queue, body, headers={"colour": colour})


def test_two_consumers_each_take_their_own_and_the_rest_stays(
    connection: pika.BlockingConnection, channel: BlockingChannel, declare: Declare
) -> None:
    queue = declare()
    red = Inbox(connection, queue, "colour = 'red'")
    blue = Inbox(connection, queue, "colour IN ('blue', 'black')")
    colours(channel, queue, b"r1", b"g1", b"b1", b"r2", b"g2")
    red.wait(b"r1", b"r2")
    blue.wait(b"b1")
    assert ready_count(channel, queue) == 2
    assert get_all(channel, queue) == [b"g1", b"g2"]


def test_a_selector_and_a_plain_consumer_beside_each_other(
    connection: pika.BlockingConnection, channel: BlockingChannel, declare: Declare
) -> None:
    queue = declare()
    plain = Inbox(connection, queue)
    red = Inbox(connection, queue, "colour = 'red'", arguments={"x-priority": 1})
    colours(channel, queue, b"r1", b"g1", b"b1", b"r2")
    red.wait(b"r1", b"r2")
    plain.wait(b"g1", b"b1")
    red.channel.basic_cancel(red.tag)
    colours(channel, queue, b"r3")
    plain.wait(b"g1", b"b1", b"r3")
    red.channel.basic_nack(red.tags[-1], multiple=True, requeue=True)
    plain.wait(b"g1", b"b1", b"r3", b"r1", b"r2")
    assert plain.redelivered == [False, False, False, True, True]


@pytest.mark.row("C12")
def test_a_selector_by_priority(
    connection: pika.BlockingConnection, channel: BlockingChannel, declare: Declare
) -> None:
    """The example of the article: expedited messages have a consumer of their own."""
    queue = declare()
    urgent = Inbox(connection, queue, "JMSPriority > 6")
    for number, priority in enumerate([4, 9, None, 7, 6, 0, 8]):
        put(channel, queue, b"%d" % number, priority=priority)
    urgent.wait(b"1", b"3", b"6")
    assert get_all(channel, queue) == [b"0", b"2", b"4", b"5"]


@pytest.mark.row("C12")
def test_a_selector_by_priority_in_a_queue_with_priorities(
    connection: pika.BlockingConnection, channel: BlockingChannel, declare: Declare
) -> None:
    queue = declare(x_max_priority=9)
    for number, priority in enumerate([7, 1, 9, 8, 5]):
        put(channel, queue, b"%d" % number, priority=priority)
    urgent = Inbox(connection, queue, "JMSPriority > 6")
    rest = Inbox(connection, queue, "JMSPriority <= 6")
    urgent.wait(b"2", b"3", b"0")
    rest.wait(b"4", b"1")


@pytest.mark.acceptance
def test_100_000_others_in_front_do_not_hold_up_a_match(
    connection: pika.BlockingConnection, channel: BlockingChannel, declare: Declare
) -> None:
    queue = declare()
    properties = pika.BasicProperties(headers={"colour": "grey"})
    for _ in range(100_000):
        channel.basic_publish("", queue, b"x", properties)
    colours(channel, queue, b"r1")
    red = Inbox(connection, queue, "colour = 'red'", prefetch_count=1)
    red.wait(b"r1")
    expected = [b"r%d" % number for number in range(1, 30)]
    colours(channel, queue, *expected[1:])
    for count in range(2, 30):
        red.channel.basic_ack(red.tags[-1])
        red.wait(*expected[:count])
    assert ready_count(channel, queue) == 100_000
    assert channel.queue_purge(queue).method.message_count == 100_000


def test_the_backlog_of_a_selector_that_comes_late(
    connection: pika.BlockingConnection, channel: BlockingChannel, declare: Declare
) -> None:
    queue = declare()
    red = Inbox(connection, queue, "colour = 'red'", auto_ack=True)
    colours(channel, queue, b"b1", b"r1", b"g1", b"b2")
    red.wait(b"r1")
    blue = Inbox(connection, queue, "colour = 'blue'", auto_ack=True)
    blue.wait(b"b1", b"b2")
    Inbox(connection, queue, auto_ack=True).wait(b"g1")
    assert ready_count(channel, queue) == 0


def test_what_was_delivered_before_may_have_a_consumer_of_its_own(
    connection: pika.BlockingConnection, channel: BlockingChannel, declare: Declare
) -> None:
    queue = declare()
    first = Inbox(connection, queue, "NOT JMSRedelivered")
    again = Inbox(connection, queue, "JMSRedelivered = TRUE")
    colours(channel, queue, b"r1", b"r2")
    first.wait(b"r1", b"r2")
    first.channel.basic_nack(first.tags[0], requeue=True)
    again.wait(b"r1")
    assert again.redelivered == [True]
    again.channel.basic_reject(again.tags[0], requeue=True)
    again.wait(b"r1", b"r1")
    first.wait(b"r1", b"r2")


def test_what_is_requeued_keeps_its_place_among_the_selected(
    connection: pika.BlockingConnection, channel: BlockingChannel, declare: Declare
) -> None:
    queue = declare()
    Inbox(connection, queue, "colour = 'none'")
    red = Inbox(connection, queue, "colour = 'red'", prefetch_count=2)
    colours(channel, queue, b"r1", b"b1", b"r2", b"r3")
    serve_until(connection, lambda: len(red.bodies) == 2, "two")
    red.channel.basic_nack(red.tags[1], multiple=True, requeue=True)
    serve_until(connection, lambda: len(red.bodies) == 4, "the same again")
    red.channel.basic_ack(red.tags[3], multiple=True)
    red.wait(b"r1", b"r2", b"r1", b"r2", b"r3")


@pytest.mark.acceptance
@pytest.mark.parametrize("is_shared", [False, True], ids=["unlimited", "shared limit"])
def test_a_channel_s_consumers_are_served_in_the_order_of_the_queue(
    connection: pika.BlockingConnection,
    channel: BlockingChannel,
    declare: Declare,
    is_shared: bool,
) -> None:
    queue = declare()
    both = connection.channel()
    bodies: list[bytes] = []

    def on_message(_: Any, method: Any, __: Any, body: bytes) -> None:
        bodies.append(body)
        both.basic_ack(method.delivery_tag)

    both.basic_qos(prefetch_count=1 if is_shared else 0, global_qos=True)
    both.basic_consume(queue, on_message, arguments={SELECTOR: "colour = 'red'"})
    both.basic_consume(queue, on_message, arguments={SELECTOR: "colour = 'blue'"})
    expected = [b"%s%d" % (letter, number) for number in range(100) for letter in (b"r", b"b")]
    colours(channel, queue, *expected)
    serve_until(connection, lambda: len(bodies) == len(expected), "all of them")
    for letter in (b"r", b"b"):
        own = [body for body in bodies if body[:1] == letter]
        assert own == [body for body in expected if body[:1] == letter]
    if not is_shared:
        assert bodies == expected


@pytest.mark.parametrize(
    ("selector", "problem"),
    [
        ("colour = ", "at the end"),
        ("colour & size", "near `& size`"),
        ("a = 1 / 0", "near `/ 0`"),
        (7, "expected a string"),
    ],
)
def test_a_selector_that_is_none_is_refused(
    connection: pika.BlockingConnection, declare: Declare, selector: Any, problem: str
) -> None:
    queue = declare()
    with pytest.raises(ChannelClosedByBroker) as caught:
        Inbox(connection, queue, selector)
    assert caught.value.reply_code == 406
    assert "x-filter-jms-selector" in caught.value.reply_text
    assert problem in caught.value.reply_text
    assert ready_count(connection.channel(), queue) == 0


def test_a_blank_selector_takes_everything(
    connection: pika.BlockingConnection, channel: BlockingChannel, declare: Declare
) -> None:
    queue = declare()
    all_ = Inbox(connection, queue, "  ")
    colours(channel, queue, b"r1", b"b1")
    all_.wait(b"r1", b"b1")


@pytest.mark.row("A9")
def test_a_selector_and_groups_both_count(
    connection: pika.BlockingConnection, channel: BlockingChannel, declare: Declare
) -> None:
    queue = declare(x_message_group_type="shared")
    red = Inbox(connection, queue, "colour = 'red'")
    plain = Inbox(connection, queue, prefetch_count=10)
    for body, group, colour in (
        (b"a1", "a", "red"),
        (b"a2", "a", "blue"),
        (b"b1", "b", "blue"),
        (b"a3", "a", "red"),
    ):
        put(channel, queue, body, headers={"JMSXGroupID": group, "colour": colour})
    red.wait(b"a1", b"a3")
    plain.wait(b"b1")
    red.channel.basic_ack(red.tags[-1], multiple=True)
    plain.wait(b"b1", b"a2")


@pytest.mark.acceptance
def test_one_selector_more_than_a_queue_takes_is_refused_by_the_setting(
    start_broker: StartBroker,
) -> None:
    daemon = start_broker("[limits]\nmax_selectors_per_queue = 2\n")
    connection = pika.BlockingConnection(pika.URLParameters(daemon.url))
    channel = connection.channel()
    channel.queue_declare("q")
    red, blue = (Inbox(connection, "q", f"colour = '{one}'") for one in ("red", "blue"))
    Inbox(connection, "q", "colour = 'red'")
    with pytest.raises(ChannelClosedByBroker, match="maximum of 2 different selectors") as refusal:
        Inbox(connection, "q", "colour = 'green'")
    assert refusal.value.reply_code == 406
    blue.channel.basic_cancel(blue.tag)
    green = Inbox(connection, "q", "colour = 'green'")
    colours(channel, "q", b"g1", b"b1", b"r1")
    green.wait(b"g1")
    red.wait(b"r1")
    connection.close()


@pytest.mark.acceptance
def test_a_cancelled_selector_leaves_nothing_behind(
    connect: PikaConnect, channel: BlockingChannel, declare: Declare
) -> None:
    """The queue goes on in order as if nothing had been, after a connection that goes away."""
    name = str(channel.queue_declare("", auto_delete=False).method.queue)
    try:
        leaving = connect()
        red = Inbox(leaving, name, "colour = 'red'")
        colours(channel, name, b"b1", b"r1", b"g1", b"r2", b"b2")
        red.wait(b"r1", b"r2")
        leaving.close()
        assert get_all(channel, name) == [b"b1", b"r1", b"g1", b"r2", b"b2"]
    finally:
        channel.queue_delete(name)
