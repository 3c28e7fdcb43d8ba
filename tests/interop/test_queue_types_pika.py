"""What each queue type gives out next, as a user of pika sees it.

Priorities have a file of their own, test_priorities_pika.py, and Qpid's names for all of it are in
test_qpid_names_pika.py.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations
from typing import Any

import pytest

pytest.importorskip("pika", reason="pika (PyPI) is not installed")
import pika
from pika.adapters.blocking_connection import BlockingChannel
from pika.exceptions import ChannelClosedByBroker

from tests.support.broker_process import BrokerUnderTest
from tests.support.pika_calls import (
    DELIVERY_DEADLINE_S,
    declare,
    get_all,
    publish,
    ready_count,
    receive,
    serve_until,
)
from tests.support.waiting import wait_for

from .conftest import PikaConnect

# differs: additions
needs_hareline = pytest.mark.usefixtures("only_hareline")


def publish_keyed(channel: BlockingChannel, queue: str, *bodies_and_keys: tuple[str, Any]) -> None:
    """Each with its key in the header ``k``; without the header where the key is ``...``."""
    for body, key in bodies_and_keys:
        headers = {} if key is ... else {"k": key}
        properties = pika.BasicProperties(headers=headers)
        channel.basic_publish("", queue, body.encode(), properties)


def texts(bodies: list[bytes]) -> list[str]:
    return [body.decode() for body in bodies]


# ------------------------------------------------------------------- the way into a queue, FIFO


@pytest.mark.row("A1")
def test_a_message_reaches_a_queue_through_an_exchange_only(
    connection: pika.BlockingConnection, channel: BlockingChannel, queue: str, name: str
) -> None:
    returned: list[bytes] = []
    channel.add_on_return_callback(lambda _c, _m, _p, body: returned.append(body))
    channel.exchange_declare(name, "direct", auto_delete=True)
    channel.basic_publish("", queue, b"by its name")  # the default exchange has every queue
    channel.basic_publish(name, queue, b"unbound", mandatory=True)
    serve_until(connection, lambda: returned, "basic.return")
    channel.queue_bind(queue, name, "key")
    channel.basic_publish(name, queue, b"by its name elsewhere", mandatory=True)
    channel.basic_publish(name, "key", b"by its binding", mandatory=True)
    assert get_all(channel, queue) == [b"by its name", b"by its binding"]
    serve_until(connection, lambda: len(returned) == 2, "two returns")
    assert returned == [b"unbound", b"by its name elsewhere"]
    with pytest.raises(ChannelClosedByBroker) as refusal:
        channel.queue_bind(queue, "", "key")
    assert refusal.value.reply_code == 403


@pytest.mark.row("A3")
def test_what_comes_first_goes_first(channel: BlockingChannel, queue: str) -> None:
    """Nothing that other types look at makes a difference here."""
    for number in range(100):
        properties = pika.BasicProperties(priority=number % 10, headers={"k": -number})
        channel.basic_publish("", queue, b"%d" % number, properties)
    assert get_all(channel, queue) == [b"%d" % number for number in range(100)]


# ------------------------------------------------------------------------------ four types, or 406

ORDERINGS: dict[str, object] = {
    "x-max-priority": 9,
    "x-qpid-priorities": 10,
    "priorities": 10,
    "x-sort-key": "k",
    "qpid.queue_sort_key": "k",
    "sortKey": "k",
    "x-last-value-key": "k",
    "qpid.last_value_queue_key": "k",
    "lvqKey": "k",
    "qpid.last_value_queue": True,
}
SAME = (
    {"x-qpid-priorities", "priorities"},
    {"x-sort-key", "qpid.queue_sort_key", "sortKey"},
    {"x-last-value-key", "qpid.last_value_queue_key", "lvqKey", "qpid.last_value_queue"},
)
CONTRADICTORY = [
    pair for pair in combinations(ORDERINGS, 2) if not any(set(pair) <= names for names in SAME)
]


@pytest.mark.acceptance
@pytest.mark.row("A2")
@needs_hareline
def test_a_queue_with_two_orderings_is_refused_and_both_are_named(
    broker: BrokerUnderTest, connection: pika.BlockingConnection, name: str
) -> None:
    assert len(CONTRADICTORY) == 35
    for first, second in CONTRADICTORY:
        channel = connection.channel()
        with pytest.raises(ChannelClosedByBroker) as refusal:
            channel.queue_declare(name, arguments={n: ORDERINGS[n] for n in (first, second)})
        assert (refusal.value.reply_code, refusal.value.reply_text) == (
            406,
            f"PRECONDITION_FAILED - contradictory args '{first}' and '{second}' for queue "
            f"'{name}' in vhost '{broker.vhost}': a queue has one ordering",
        )
    with pytest.raises(ChannelClosedByBroker) as missing:
        connection.channel().queue_declare(name, passive=True)
    assert missing.value.reply_code == 404


@pytest.mark.row("A2")
@needs_hareline
def test_the_argument_that_is_given_chooses_the_type(channel: BlockingChannel) -> None:
    queues = {
        "fifo": declare(channel),
        "priority": declare(channel, x_max_priority=9),
        "sorted": declare(channel, x_sort_key="k"),
        "last value": declare(channel, x_last_value_key="k"),
    }
    for queue in queues.values():
        for body, priority, key in [("1", 0, "b"), ("2", 9, "b"), ("3", 5, "a")]:
            properties = pika.BasicProperties(priority=priority, headers={"k": key})
            channel.basic_publish("", queue, body.encode(), properties)
    assert {type_: "".join(texts(get_all(channel, queue))) for type_, queue in queues.items()} == {
        "fifo": "123",
        "priority": "231",
        "sorted": "312",
        "last value": "23",
    }


@pytest.mark.row("A2")
@pytest.mark.parametrize("queue_type", ["classic", "quorum", "stream"])
def test_rabbitmqs_queue_types_are_taken(
    channel: BlockingChannel, name: str, queue_type: str
) -> None:
    channel.queue_declare(name, durable=True, arguments={"x-queue-type": queue_type})
    try:
        publish(channel, name, b"1", b"2")
        if queue_type == "stream":
            channel.basic_qos(prefetch_count=10)
            start: dict[str, Any] = {"arguments": {"x-stream-offset": "first"}}
        else:
            start = {}
        received = receive(channel, name, 2, **start)
        assert [body for _, _, body in received] == [b"1", b"2"]
    finally:
        channel.cancel()
        channel.queue_delete(name)


@pytest.mark.row("A2")
@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"x-queue-type": "heap"}, "unsupported queue type 'heap'"),
        ({"x-max-priority": 256}, "{max_value_exceeded,256}"),
        ({"x-max-priority": -1}, "{value_negative,-1}"),
        ({"x-qpid-priorities": 0}, "{value_zero,0}"),
        ({"x-sort-key": ""}, "value_blank"),
        ({"x-sort-key": "k", "x-sort-order": "up"}, "invalid_sort_order"),
        ({"x-sort-order": "asc"}, "sort_order_but_no_sort_key_defined"),
        ({"x-sort-key": "k", "x-sort-type": "date"}, "invalid_sort_type"),
        ({"x-last-value-key": 7}, "{unacceptable_type,signedint}"),
        ({"x-queue-type": "quorum", "x-sort-key": "k"}, "of queue type rabbit_quorum_queue"),
    ],
)
@needs_hareline
def test_a_type_that_cannot_be_is_refused_with_its_argument(
    channel: BlockingChannel, name: str, arguments: dict[str, Any], text: str
) -> None:
    with pytest.raises(ChannelClosedByBroker) as refusal:
        channel.queue_declare(name, durable=True, arguments=arguments)
    assert refusal.value.reply_code == 406
    assert f"invalid arg '{list(arguments)[-1]}' for queue '{name}'" in refusal.value.reply_text
    assert text in refusal.value.reply_text


# ------------------------------------------------------------------------------------------ sorted


@pytest.mark.row("A5")
@needs_hareline
@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({}, ["none", "void", "10", "9", "B", "a1", "a2", "b"]),
        ({"x_sort_order": "asc", "x_sort_type": "string"}, None),
        ({"x_sort_order": "desc"}, ["none", "void", "b", "a1", "a2", "B", "9", "10"]),
    ],
)
def test_messages_are_in_the_order_of_their_texts(
    channel: BlockingChannel, arguments: dict[str, Any], expected: list[str] | None
) -> None:
    sorted_ = declare(channel, x_sort_key="k", **arguments)
    keys: list[tuple[str, Any]] = [("b", "b"), ("a1", "a"), ("9", 9), ("none", ...), ("a2", "a")]
    publish_keyed(channel, sorted_, *keys, ("10", 10), ("B", "B"), ("void", None))
    ascending = ["none", "void", "10", "9", "B", "a1", "a2", "b"]
    assert texts(get_all(channel, sorted_)) == (expected or ascending)


@pytest.mark.row("A5")
@needs_hareline
@pytest.mark.parametrize("is_descending", [False, True])
def test_messages_are_in_the_order_of_their_numbers(
    channel: BlockingChannel, is_descending: bool
) -> None:
    order = "desc" if is_descending else "asc"
    sorted_ = declare(channel, x_sort_key="k", x_sort_type="number", x_sort_order=order)
    keys: list[tuple[str, Any]] = [("10", 10), ("text", "soon"), ("9", "9"), ("-1", -1)]
    publish_keyed(channel, sorted_, *keys, ("9 too", 9), ("none", ...), ("2^40", 2**40))
    numbers = ["-1", "9", "9 too", "10", "2^40"]
    if is_descending:
        numbers = ["2^40", "10", "9", "9 too", "-1"]  # equal ones as they came, here too
    assert texts(get_all(channel, sorted_)) == ["text", "none", *numbers]


@pytest.mark.acceptance
@pytest.mark.row("A5")
@needs_hareline
def test_a_lower_key_that_comes_late_is_next(channel: BlockingChannel) -> None:
    sorted_ = declare(channel, x_sort_key="k")
    publish_keyed(channel, sorted_, *((f"{n:03}", f"{n:03}") for n in range(100, 300)))
    assert channel.basic_get(sorted_, auto_ack=True)[2] == b"100"
    publish_keyed(channel, sorted_, ("001", "001"), ("250 too", "250"))
    expected = ["001", *(f"{n}" for n in range(101, 251)), "250 too"]
    assert texts(get_all(channel, sorted_)) == [*expected, *(f"{n}" for n in range(251, 300))]


# -------------------------------------------------------------------------------------- last value


@pytest.mark.row("A6")
@needs_hareline
def test_only_the_newest_of_each_key_is_kept_and_all_without_one(
    channel: BlockingChannel,
) -> None:
    latest = declare(channel, x_last_value_key="k")
    first: list[tuple[str, Any]] = [("a1", "a"), ("-1", ...), ("b1", "b"), ("-2", None)]
    publish_keyed(channel, latest, *first, ("a2", "a"), ("1", 1), ("text 1", "1"), ("-3", ...))
    publish_keyed(channel, latest, ("a3", "a"))
    assert ready_count(channel, latest) == 7
    expected = ["-1", "b1", "-2", "1", "text 1", "-3", "a3"]  # the newest goes to the end
    assert texts(get_all(channel, latest)) == expected
    publish_keyed(channel, latest, ("a4", "a"))  # its key is forgotten with the last of it
    assert texts(get_all(channel, latest)) == ["a4"]


@pytest.mark.row("A6")
@needs_hareline
@pytest.mark.parametrize("is_newer_gone", [False, True])
def test_a_value_that_somebody_has_stays_and_is_stale_when_it_returns(
    channel: BlockingChannel, queue: str, is_newer_gone: bool
) -> None:
    latest = declare(
        channel,
        x_last_value_key="k",
        x_dead_letter_exchange="",
        x_dead_letter_routing_key=queue,
        x_dead_letter_reasons="replaced",
    )
    publish_keyed(channel, latest, ("a1", "a"), ("b1", "b"))
    kept, *_ = channel.basic_get(latest)
    acked, *_ = channel.basic_get(latest)
    publish_keyed(channel, latest, ("a2", "a"), ("b2", "b"))
    assert ready_count(channel, queue) == 0  # nothing is taken away from a client
    channel.basic_ack(acked.delivery_tag)
    newer = texts(get_all(channel, latest)) if is_newer_gone else []
    channel.basic_nack(kept.delivery_tag, requeue=True)
    assert newer + texts(get_all(channel, latest)) == ["a2", "b2"]
    _, properties, body = channel.basic_get(queue, auto_ack=True)
    assert body == b"a1"
    assert properties is not None
    assert properties.headers["x-death"][0]["reason"] == "replaced"
    assert get_all(channel, queue) == []


@pytest.mark.row("A6")
@needs_hareline
def test_the_newest_value_returns_to_its_place_and_can_be_replaced_there(
    channel: BlockingChannel,
) -> None:
    latest = declare(channel, x_last_value_key="k")
    publish_keyed(channel, latest, ("a1", "a"), ("b1", "b"), ("c1", "c"))
    taken, *_ = channel.basic_get(latest)
    channel.basic_nack(taken.delivery_tag, requeue=True)
    again, _, body = channel.basic_get(latest)
    assert (body, again.redelivered) == (b"a1", True)
    channel.basic_nack(again.delivery_tag, requeue=True)
    publish_keyed(channel, latest, ("a2", "a"))
    assert texts(get_all(channel, latest)) == ["b1", "c1", "a2"]


# ---------------------------------------------------------------------- back to its place, anywhere

#: For each type what is published, as (body, priority, key), and the order it goes out in.
PUBLISHED = [("0", 1, "e"), ("1", 5, "d"), ("2", 5, "c"), ("3", 9, "b"), ("4", 0, "a")]
TYPES = [
    pytest.param({}, "01234", id="fifo"),
    pytest.param({"x-max-priority": 9}, "31204", id="priority"),
    pytest.param({"x-sort-key": "k"}, "43210", id="sorted"),
    pytest.param({"x-last-value-key": "k"}, "01234", id="last_value"),
]


def nack_all(channel: BlockingChannel) -> None:
    channel.basic_nack(0, multiple=True, requeue=True)


def reject_backwards(channel: BlockingChannel) -> None:
    for tag in (3, 2, 1):
        channel.basic_reject(tag, requeue=True)


def recover(channel: BlockingChannel) -> None:
    channel.basic_recover(requeue=True)


def close(channel: BlockingChannel) -> None:
    channel.close()


def disconnect(channel: BlockingChannel) -> None:
    channel.connection.close()


@pytest.mark.row("A3", "A4", "A5", "A6")
@needs_hareline
@pytest.mark.parametrize(("arguments", "order"), TYPES)
@pytest.mark.parametrize(
    "give_back", [nack_all, reject_backwards, recover, close, disconnect], ids=lambda f: f.__name__
)
def test_what_comes_back_returns_to_its_own_place(
    connect: PikaConnect,
    channel: BlockingChannel,
    name: str,
    arguments: dict[str, Any],
    order: str,
    give_back: Callable[[BlockingChannel], None],
) -> None:
    channel.queue_declare(name, arguments={**arguments, "x-expires": 60_000})
    for body, priority, key in PUBLISHED:
        properties = pika.BasicProperties(priority=priority, headers={"k": key})
        channel.basic_publish("", name, body.encode(), properties)
    assert ready_count(channel, name) == 5
    taking = connect().channel()
    taken = [taking.basic_get(name)[2].decode() for _ in range(3)]
    assert taken == list(order[:3])
    give_back(taking)
    wait_for(lambda: ready_count(channel, name) == 5, DELIVERY_DEADLINE_S, "all five to be ready")
    received = receive(channel, name, 5, auto_ack=True)
    assert "".join(body.decode() for _, _, body in received) == order
    assert [method.redelivered for method, _, _ in received] == [True] * 3 + [False] * 2


@pytest.mark.acceptance
@pytest.mark.row("A3", "A4", "A5", "A6")
@needs_hareline
@pytest.mark.parametrize(("arguments", "order"), TYPES)
def test_one_that_comes_back_from_the_middle_is_no_sooner_than_those_before_it(
    channel: BlockingChannel, name: str, arguments: dict[str, Any], order: str
) -> None:
    channel.queue_declare(name, exclusive=True, arguments=arguments)
    for body, priority, key in PUBLISHED:
        properties = pika.BasicProperties(priority=priority, headers={"k": key})
        channel.basic_publish("", name, body.encode(), properties)
    tags = [channel.basic_get(name)[0].delivery_tag for _ in range(4)]
    channel.basic_nack(tags[3], requeue=True)
    channel.basic_nack(tags[1], requeue=True)
    assert "".join(texts(get_all(channel, name))) == order[1] + order[3] + order[4]
