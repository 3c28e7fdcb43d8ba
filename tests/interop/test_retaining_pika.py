"""Exchanges with ``x-retain`` as a user of pika has them."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("pika", reason="pika (PyPI) is not installed")
import pika
from pika.exceptions import ChannelClosedByBroker

from tests.support.broker_process import BrokerProcess
from tests.support.broker_thread import BrokerThread
from tests.support.pika_calls import channel_to, get_all, receive

if TYPE_CHECKING:
    from pika.adapters.blocking_connection import BlockingChannel

PAGE = Path(__file__).resolve().parents[2] / "docs" / "exchanges.md"
PERSISTENT = pika.BasicProperties(delivery_mode=2)


@pytest.fixture
def channel(inside: BrokerThread) -> Iterator[BlockingChannel]:
    with pika.BlockingConnection(parameters_of(inside)) as connection:
        yield connection.channel()


def parameters_of(inside: BrokerThread) -> pika.ConnectionParameters:
    host, port = inside.address
    return pika.ConnectionParameters(host, port)


def declare(channel: BlockingChannel, retain: str, name: str = "prices", **options: Any) -> None:
    arguments = {"x-retain": retain}
    channel.exchange_declare(name, "topic", durable=True, arguments=arguments, **options)


def publish(channel: BlockingChannel, *bodies: bytes, exchange: str = "prices") -> None:
    """The key of each is its first octet."""
    for body in bodies:
        channel.basic_publish(exchange, body[:1].decode(), body, PERSISTENT)


def bound(channel: BlockingChannel, key: str = "#", exchange: str = "prices") -> str:
    name = str(channel.queue_declare("", exclusive=True).method.queue)
    channel.queue_bind(name, exchange, key)
    return name


@pytest.mark.row("E29")
@pytest.mark.acceptance
def test_the_example_of_the_page(channel: BlockingChannel) -> None:
    text = PAGE.read_text(encoding="utf-8").partition("\n## Retained messages\n")[2]
    code = re.search(r"```python\n(.*?)```", text, re.DOTALL)
    assert code is not None
    channel.queue_declare("screen")
    exec(code.group(1), {"channel": channel, "pika": pika})
    assert get_all(channel, "screen") == [b"71.2", b"18.9"]


@pytest.mark.row("E29")
@pytest.mark.parametrize(
    ("retain", "expected"),
    [
        ("last", [b"b1", b"a2"]),
        ("count:2", [b"b1", b"a2"]),
        ("bytes:4", [b"b1", b"a2"]),
        ("age:600000", [b"a1", b"b1", b"a2"]),
    ],
)
@pytest.mark.parametrize("is_killed", [False, True], ids=["stopped", "killed"])
def test_a_restart_brings_back_what_is_retained_and_doubles_nothing(
    own_broker: BrokerProcess, retain: str, expected: list[bytes], is_killed: bool
) -> None:
    with channel_to(own_broker.url) as channel:
        declare(channel, retain)
        channel.queue_declare("early", durable=True)
        channel.queue_bind("early", "prices", "a")
        publish(channel, b"a1", b"b1", b"a2")
        if retain == "last":
            publish(channel, b"c1")
            channel.basic_publish("prices", "c", b"", PERSISTENT)
    if is_killed:
        own_broker.restart_by_kill()
    else:
        own_broker.restart()
    with channel_to(own_broker.url) as channel:
        declare(channel, retain)
        channel.queue_bind("early", "prices", "a")
        assert get_all(channel, "early") == [b"a1", b"a2"]
        assert get_all(channel, bound(channel)) == expected
        publish(channel, b"a3")
        assert get_all(channel, "early") == [b"a3"]
        assert get_all(channel, bound(channel, "a"))[-1] == b"a3"


@pytest.mark.row("E29")
@pytest.mark.acceptance
def test_a_binding_in_the_middle_of_the_traffic_loses_and_doubles_nothing(
    inside: BrokerThread, channel: BlockingChannel
) -> None:
    declare(channel, "count:1000000")
    count, begun = 6_000, threading.Event()

    def send() -> None:
        with pika.BlockingConnection(parameters_of(inside)) as connection:
            sender = connection.channel()
            for number in range(count):
                sender.basic_publish("prices", "k", b"%d" % number)
                if number == count // 3:
                    begun.set()

    thread = threading.Thread(target=send)
    thread.start()
    try:
        assert begun.wait(60)
        queues = [bound(channel) for _ in range(3)]
    finally:
        thread.join(60)
    for queue in queues:
        got = [int(body) for *_, body in receive(channel, queue, count, auto_ack=True)]
        channel.cancel()
        assert got == list(range(count))


@pytest.mark.row("E29")
def test_a_stream_and_a_consumer_that_is_there_already(channel: BlockingChannel) -> None:
    declare(channel, "count:10")
    publish(channel, b"a1", b"b1")
    arguments = {"x-queue-type": "stream"}
    channel.queue_declare("log", durable=True, arguments=arguments)
    channel.queue_bind("log", "prices", "#")
    publish(channel, b"a2")
    channel.basic_qos(prefetch_count=10)
    got = receive(channel, "log", 3, arguments={"x-stream-offset": "first"})
    assert [body for *_, body in got] == [b"a1", b"b1", b"a2"]


@pytest.mark.row("E29")
def test_refusals(channel: BlockingChannel, inside: BrokerThread) -> None:
    declare(channel, "last")
    kept = "amq.retained.prices"

    def refused(call: Any) -> tuple[int, str]:
        with pika.BlockingConnection(parameters_of(inside)) as connection:
            opened = connection.channel()
            with pytest.raises(ChannelClosedByBroker) as refusal:
                call(opened)
            return refusal.value.reply_code, refusal.value.reply_text

    code, text = refused(lambda opened: declare(opened, "every", "other"))
    assert code == 406
    assert "invalid arg 'x-retain' for exchange 'other'" in text
    assert refused(lambda opened: declare(opened, "count:1"))[0] == 406
    assert {
        refused(call)[0]
        for call in (
            lambda opened: opened.queue_declare(kept, passive=True),
            lambda opened: opened.queue_declare(kept),
            lambda opened: opened.basic_get(kept),
            lambda opened: opened.basic_consume(kept, print),
            lambda opened: opened.queue_purge(kept),
            lambda opened: opened.queue_bind(kept, "amq.fanout"),
            lambda opened: opened.queue_delete(kept),
        )
    } == {405}
