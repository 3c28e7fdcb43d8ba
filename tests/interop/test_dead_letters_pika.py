"""Dead letters as pika sees them, and as RabbitMQ writes them.

Each story runs here, and its outcome is told; where Debian's rabbitmq-server (3.10) is installed it
runs there too and must come out the same, types included. Left out of the comparison are the time
of a death, the x-last-death headers, which RabbitMQ has since 3.13, and the order of the deaths
before the latest, which is right there since 3.13.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import pytest

pytest.importorskip("pika", reason="pika (PyPI) is not installed")
import pika
from pika.adapters.blocking_connection import BlockingChannel
from pika.exceptions import ChannelClosedByBroker

from benchmarks.macro.brokers import RabbitMQ
from tests.support.pika_calls import DELIVERY_DEADLINE_S, publish
from tests.support.rabbitmq_management import installed_rabbitmq
from tests.support.waiting import wait_for

Headers = dict[str, Any]
Died = tuple[str, str, Headers]  # exchange, routing key, headers


@pytest.fixture(scope="module")
def rabbitmq() -> Iterator[BlockingChannel]:
    """A channel to RabbitMQ."""
    with RabbitMQ(installed_rabbitmq()) as server:
        connection = pika.BlockingConnection(pika.URLParameters(server.url))
        yield connection.channel()
        connection.close()


# ------------------------------------------------------------------------------- stories


def declare(channel: BlockingChannel, queue: str, **arguments: object) -> str:
    """``dead_letter_exchange="x"`` is the argument x-dead-letter-exchange."""
    named = {f"x-{name.replace('_', '-')}": value for name, value in arguments.items()}
    channel.queue_declare(queue, exclusive=True, arguments=named)
    return queue


def take(channel: BlockingChannel, queue: str) -> tuple[Any, pika.BasicProperties]:
    """The next message of the queue, unacknowledged, when it comes."""
    found: list[tuple[Any, pika.BasicProperties]] = []

    def is_there() -> bool:
        method, properties, _ = channel.basic_get(queue)
        if method is not None:
            found.append((method, properties))
        return bool(found)

    wait_for(is_there, DELIVERY_DEADLINE_S, f"a message in {queue}")
    return found[0]


def reject(channel: BlockingChannel, queue: str) -> None:
    method, _ = take(channel, queue)
    channel.basic_reject(method.delivery_tag, requeue=False)


def autopsy(channel: BlockingChannel, queue: str) -> Died:
    method, properties = take(channel, queue)
    channel.basic_ack(method.delivery_tag)
    assert properties.expiration is None
    return method.exchange, method.routing_key, properties.headers


def rejected(channel: BlockingChannel, name: str) -> Died:
    dead = declare(channel, f"{name}-dead")
    channel.queue_bind(dead, "amq.fanout")
    work = declare(channel, name, dead_letter_exchange="amq.fanout")
    channel.basic_publish("", work, b"x", pika.BasicProperties(headers={"n": 1, "text": "t"}))
    reject(channel, work)
    return autopsy(channel, dead)


def expired_by_itself(channel: BlockingChannel, name: str) -> Died:
    dead = declare(channel, f"{name}-dead")
    work = declare(channel, name, dead_letter_exchange="", dead_letter_routing_key=dead)
    channel.basic_publish("", work, b"x", pika.BasicProperties(expiration="5"))
    return autopsy(channel, dead)


def expired_by_the_queue_with_copies(channel: BlockingChannel, name: str) -> Died:
    dead = declare(channel, f"{name}-dead")
    work = declare(channel, name, dead_letter_exchange="amq.direct", message_ttl=5)
    channel.queue_bind(dead, "amq.direct", "copy")
    channel.basic_publish("", work, b"x", pika.BasicProperties(headers={"CC": ["copy", "more"]}))
    return autopsy(channel, dead)


def copies_dropped_by_a_new_key(channel: BlockingChannel, name: str) -> Died:
    dead = declare(channel, f"{name}-dead")
    work = declare(channel, name, dead_letter_exchange="", dead_letter_routing_key=dead)
    channel.basic_publish("", work, b"x", pika.BasicProperties(headers={"CC": ["copy"], "n": 1}))
    reject(channel, work)
    return autopsy(channel, dead)


def pushed_out(channel: BlockingChannel, name: str) -> Died:
    dead = declare(channel, f"{name}-dead")
    work = declare(
        channel, name, dead_letter_exchange="", dead_letter_routing_key=dead, max_length=1
    )
    publish(channel, work, b"1", b"2")
    return autopsy(channel, dead)


def retried_twice(channel: BlockingChannel, name: str) -> Died:
    """Rejected, waiting, rejected again: the usual retry."""
    wait = f"{name}-wait"
    work = declare(channel, name, dead_letter_exchange="", dead_letter_routing_key=wait)
    declare(channel, wait, dead_letter_exchange="", dead_letter_routing_key=work, message_ttl=1)
    channel.basic_publish("", work, b"x", pika.BasicProperties(headers={"n": 1}))
    reject(channel, work)
    reject(channel, work)
    return autopsy(channel, work)


def died_of_everything(channel: BlockingChannel, name: str) -> Died:
    """Four queues in a row, and each of them loses it in another way."""
    last = declare(channel, f"{name}-last")
    full = declare(
        channel, f"{name}-full", dead_letter_exchange="", dead_letter_routing_key=last, max_length=0
    )
    stale = declare(
        channel, f"{name}-stale", dead_letter_exchange="", dead_letter_routing_key=full,
        message_ttl=1,
    )  # fmt: skip
    work = declare(channel, name, dead_letter_exchange="", dead_letter_routing_key=stale)
    channel.basic_publish("", work, b"x", pika.BasicProperties(expiration="60000"))
    reject(channel, work)
    return autopsy(channel, last)


def rejected_into_itself(channel: BlockingChannel, name: str) -> Died:
    work = declare(channel, name, dead_letter_exchange="", dead_letter_routing_key=name)
    publish(channel, work, b"x")
    for _ in range(3):
        reject(channel, work)
    return autopsy(channel, work)


def ended_in_a_cycle(channel: BlockingChannel, name: str) -> Died:
    """Two queues in which it expires; only the copy that left the cycle is found."""
    there, back, out = f"{name}-there", f"{name}-back", f"{name}-out"
    channel.exchange_declare(name, "fanout", auto_delete=True)
    declare(channel, there, dead_letter_exchange="", dead_letter_routing_key=back, message_ttl=1)
    declare(channel, back, dead_letter_exchange=name, message_ttl=1)
    declare(channel, out)
    channel.queue_bind(there, name)
    channel.queue_bind(out, name)
    publish(channel, there, b"x")
    died = autopsy(channel, out)
    assert channel.queue_declare(there, passive=True).method.message_count == 0
    return died


STORIES: Final[dict[str, Callable[[BlockingChannel, str], Died]]] = {
    story.__name__: story
    for story in (
        rejected,
        expired_by_itself,
        expired_by_the_queue_with_copies,
        copies_dropped_by_a_new_key,
        pushed_out,
        retried_twice,
        died_of_everything,
        rejected_into_itself,
        ended_in_a_cycle,
    )
}


# ---------------------------------------------------------------------------- comparison


def comparable(value: object) -> object:
    """With the types that pika tells apart (long from other integers), without the time."""
    if isinstance(value, dict):
        return {
            key: comparable(item)
            for key, item in value.items()
            if not key.startswith("x-last-death-")
        }
    if isinstance(value, list):
        return [comparable(item) for item in value]
    return (type(value).__name__, "" if isinstance(value, datetime) else value)


def by_recency_and_name(headers: Headers) -> Headers:
    """Before 3.13, RabbitMQ puts the latest death first and mixes up those before it."""
    latest, *others = headers["x-death"]
    # differs: old-deaths
    others.sort(key=lambda death: (death["queue"], death["reason"]))
    return headers | {"x-death": [latest, *others]}


@pytest.mark.acceptance
@pytest.mark.parametrize("story", STORIES)
def test_a_dead_letter_is_what_rabbitmq_makes_of_it(
    story: str, name: str, channel: BlockingChannel, rabbitmq: BlockingChannel
) -> None:
    ours = STORIES[story](channel, name)
    theirs = STORIES[story](rabbitmq, name)
    assert ours[:2] == theirs[:2]
    assert comparable(by_recency_and_name(ours[2])) == comparable(by_recency_and_name(theirs[2]))


# -------------------------------------------------------------------------------- values


def deaths(headers: Headers) -> list[tuple[str, str, int]]:
    return [(death["queue"], death["reason"], death["count"]) for death in headers["x-death"]]


def test_a_rejected_message_tells_where_and_when(name: str, channel: BlockingChannel) -> None:
    before = datetime.now(UTC).replace(tzinfo=None, microsecond=0)
    exchange, routing_key, headers = rejected(channel, name)
    assert (exchange, routing_key) == ("amq.fanout", name)
    (death,) = headers.pop("x-death")
    time = death.pop("time")
    assert timedelta(0) <= time.replace(tzinfo=None) - before < timedelta(minutes=1)
    assert death == {
        "count": 1,
        "reason": "rejected",
        "queue": name,
        "exchange": "",
        "routing-keys": [name],
    }
    assert headers == {
        "n": 1,
        "text": "t",
        "x-first-death-reason": "rejected",
        "x-first-death-queue": name,
        "x-first-death-exchange": "",
        "x-last-death-reason": "rejected",
        "x-last-death-queue": name,
        "x-last-death-exchange": "",
    }


def test_an_expiration_is_remembered_and_removed(name: str, channel: BlockingChannel) -> None:
    _, _, headers = expired_by_itself(channel, name)
    assert headers["x-death"][0]["original-expiration"] == "5"
    assert headers["x-last-death-reason"] == "expired"


def test_retries_are_counted(name: str, channel: BlockingChannel) -> None:
    _, _, headers = retried_twice(channel, name)
    assert deaths(headers) == [(f"{name}-wait", "expired", 2), (name, "rejected", 2)]
    assert headers["x-first-death-queue"] == name
    assert headers["x-last-death-queue"] == f"{name}-wait"


def test_deaths_of_all_kinds_are_listed_the_latest_first(
    name: str, channel: BlockingChannel
) -> None:
    _, _, headers = died_of_everything(channel, name)
    assert deaths(headers) == [
        (f"{name}-full", "maxlen", 1),
        (f"{name}-stale", "expired", 1),
        (name, "rejected", 1),
    ]


@pytest.mark.row("E7")
def test_a_delivery_limit_ends_in_the_dead_letter_queue(
    name: str, channel: BlockingChannel
) -> None:
    """RabbitMQ has it for quorum queues only; here also for these."""
    # differs: delivery-limit
    dead = declare(channel, f"{name}-dead")
    work = declare(
        channel, name, dead_letter_exchange="", dead_letter_routing_key=dead, delivery_limit=2
    )
    publish(channel, work, b"poison")
    counts = []
    for _ in range(3):
        method, properties = take(channel, work)
        counts.append((properties.headers or {}).get("x-delivery-count"))
        channel.basic_nack(method.delivery_tag, requeue=True)
    assert counts == [None, 1, 2]
    _, _, headers = autopsy(channel, dead)
    assert deaths(headers) == [(work, "delivery_limit", 1)]
    assert "x-delivery-count" not in headers


@pytest.mark.row("E7")
def test_what_a_deleted_queue_held_goes_to_its_alternate_binding(
    name: str, channel: BlockingChannel
) -> None:
    dead = declare(channel, f"{name}-dead")
    channel.queue_declare(name, arguments={"alternateExchange": dead})
    publish(channel, name, b"left")
    channel.queue_delete(name)
    exchange, routing_key, headers = autopsy(channel, dead)
    assert (exchange, routing_key) == ("", dead)
    assert deaths(headers) == [(name, "deleted", 1)]


def test_a_routing_key_that_no_message_could_have_is_refused(
    name: str, channel: BlockingChannel
) -> None:
    """RabbitMQ takes it, and closes the connection of whoever is to get the dead letter."""
    with pytest.raises(ChannelClosedByBroker, match="longer than 255 octets") as refusal:
        declare(channel, name, dead_letter_exchange="", dead_letter_routing_key="k" * 256)
    # differs: dead-letter-key
    assert refusal.value.reply_code == 406


@pytest.mark.acceptance
def test_many_at_once_come_in_order(name: str, channel: BlockingChannel) -> None:
    """More than are published in one go."""
    count = 6_000
    dead = declare(channel, f"{name}-dead")
    work = declare(channel, name, dead_letter_exchange="", dead_letter_routing_key=dead)
    publish(channel, work, *[b"%d" % number for number in range(count)])
    last_tag = 0
    for _ in range(count):
        method, _, _ = channel.basic_get(work)
        last_tag = method.delivery_tag
    channel.basic_nack(last_tag, multiple=True, requeue=False)
    for number in range(count):
        method, _, body = channel.basic_get(dead, auto_ack=True)
        while method is None:
            method, _, body = channel.basic_get(dead, auto_ack=True)
        assert body == b"%d" % number
