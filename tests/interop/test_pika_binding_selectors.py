"""Bindings with a message selector, through pika: every exchange type, and their end."""

from __future__ import annotations

import pytest

pytest.importorskip("pika", reason="pika (PyPI) is not installed")
import pika
from pika.adapters.blocking_connection import BlockingChannel
from pika.exceptions import ChannelClosedByBroker

from tests.support.broker_process import BrokerUnderTest
from tests.support.pika_calls import get_all

SELECTOR = "x-filter-jms-selector"


@pytest.fixture(autouse=True)
def _only_here(broker: BrokerUnderTest) -> None:
    # differs: additions
    if broker.is_foreign:
        pytest.skip("selectors on bindings are not RabbitMQ's")


def _publish(channel: BlockingChannel, exchange: str, body: bytes, size: int | None) -> None:
    headers = None if size is None else {"size": size, "kind": "box"}
    channel.basic_publish(exchange, "key", body, pika.BasicProperties(headers=headers))


@pytest.mark.parametrize("kind", ["direct", "topic", "fanout", "headers"])
def test_a_binding_passes_what_its_selector_selects(
    channel: BlockingChannel, name: str, kind: str
) -> None:
    channel.exchange_declare(name, kind)
    large, rest = (channel.queue_declare("", exclusive=True).method.queue for _ in range(2))
    channel.queue_bind(large, name, "key", {SELECTOR: "size > 10", "kind": "box"})
    channel.queue_bind(rest, name, "key", {SELECTOR: "NOT size > 10", "kind": "box"})
    for number, size in enumerate((5, 11, 10, 99)):
        _publish(channel, name, str(number).encode(), size)
    assert get_all(channel, large) == [b"1", b"3"]
    assert get_all(channel, rest) == [b"0", b"2"]


def test_a_plain_binding_beside_one_with_a_selector_brings_one_copy(
    channel: BlockingChannel, name: str
) -> None:
    channel.exchange_declare(name, "direct")
    queue = channel.queue_declare("", exclusive=True).method.queue
    channel.queue_bind(queue, name, "key", {SELECTOR: "size > 10"})
    channel.queue_bind(queue, name, "key")
    _publish(channel, name, b"large", 11)
    _publish(channel, name, b"unknown", None)
    assert get_all(channel, queue) == [b"large", b"unknown"]
    channel.queue_unbind(queue, name, "key")
    _publish(channel, name, b"large", 11)
    _publish(channel, name, b"small", 1)
    assert get_all(channel, queue) == [b"large"]
    channel.queue_unbind(queue, name, "key", {SELECTOR: "size > 10"})
    _publish(channel, name, b"large", 11)
    assert get_all(channel, queue) == []


def test_a_selector_between_exchanges_and_an_alternate_for_the_rest(
    channel: BlockingChannel, name: str
) -> None:
    channel.exchange_declare(f"{name}-rest", "fanout")
    channel.exchange_declare(name, "direct", arguments={"alternate-exchange": f"{name}-rest"})
    channel.exchange_declare(f"{name}-large", "fanout")
    channel.exchange_bind(f"{name}-large", name, "key", {SELECTOR: "size > 10"})
    queues = {}
    for exchange in (f"{name}-large", f"{name}-rest"):
        queues[exchange] = channel.queue_declare("", exclusive=True).method.queue
        channel.queue_bind(queues[exchange], exchange)
    _publish(channel, name, b"large", 11)
    _publish(channel, name, b"small", 1)
    assert get_all(channel, queues[f"{name}-large"]) == [b"large"]
    assert get_all(channel, queues[f"{name}-rest"]) == [b"small"]


def test_a_deleted_queue_takes_its_selecting_binding_along(
    channel: BlockingChannel, name: str
) -> None:
    channel.exchange_declare(name, "topic", auto_delete=True)
    channel.queue_declare(name)
    channel.queue_bind(name, name, "#", {SELECTOR: "size > 10"})
    channel.queue_delete(name)
    with pytest.raises(ChannelClosedByBroker, match="no exchange"):
        channel.exchange_declare(name, passive=True)


@pytest.mark.parametrize(
    ("selector", "problem"),
    [("size >", "x-filter-jms-selector"), (7, "expected a string"), ("1 + 1", "selector")],
)
def test_a_bad_selector_is_refused_with_what_is_wrong(
    channel: BlockingChannel, selector: object, problem: str
) -> None:
    queue = channel.queue_declare("", exclusive=True).method.queue
    with pytest.raises(ChannelClosedByBroker) as refused:
        channel.queue_bind(queue, "amq.direct", "key", {SELECTOR: selector})
    assert refused.value.reply_code == 406
    assert problem in refused.value.reply_text


@pytest.mark.acceptance
def test_a_blank_selector_is_none(channel: BlockingChannel) -> None:
    queue = channel.queue_declare("", exclusive=True).method.queue
    channel.queue_bind(queue, "amq.direct", queue, {SELECTOR: " "})
    channel.basic_publish("amq.direct", queue, b"anything")
    assert get_all(channel, queue) == [b"anything"]
