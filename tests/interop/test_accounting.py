"""Many connections at once, each message accounted for: none lost, none twice, none out of order.

Publishers confirm every message; consumers acknowledge, reject, and drop whole channels with
deliveries unanswered. What was acknowledged must be what was confirmed, once each.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pytest

pytest.importorskip("pika", reason="pika (PyPI) is not installed")
import pika
from pika.adapters.blocking_connection import BlockingChannel

from tests.support.broker_process import BrokerUnderTest

from .conftest import PikaConnect

PUBLISHERS = 4
CONSUMERS = 4
MESSAGES_EACH = 750
IDLE_S = 60.0


class Ledger:
    """What was acknowledged, by all consumers together; ``complete`` is set by the last one."""

    def __init__(self, expected: int) -> None:
        self.expected = expected
        self.acked: Counter[str] = Counter()
        self.complete = threading.Event()
        self._lock = threading.Lock()

    def add(self, message_id: str) -> None:
        with self._lock:
            self.acked[message_id] += 1
            if self.acked.total() >= self.expected:
                self.complete.set()


def publish_all(broker: BrokerUnderTest, exchange: str, publisher: int) -> None:
    connection = pika.BlockingConnection(pika.URLParameters(broker.url))
    channel = connection.channel()
    channel.confirm_delivery()
    for n in range(MESSAGES_EACH):
        channel.basic_publish(
            exchange, f"p.{publisher}", f"{publisher}:{n}".encode() * (n % 7 + 1), mandatory=True
        )
    connection.close()


def message_id(body: bytes) -> str:
    """``publisher:number``, which a body repeats one to seven times."""
    text = body.decode()
    for times in range(7, 0, -1):
        unit = text[: len(text) // times]
        if len(text) % times == 0 and unit.count(":") == 1 and unit * times == text:
            publisher, number = unit.split(":")
            if int(number) % 7 + 1 == times:
                return f"{publisher}:{number}"
    raise AssertionError(f"a body nobody published: {text[:40]!r}")


def consume_until(broker: BrokerUnderTest, queue: str, ledger: Ledger, restless: bool) -> None:
    """Settle deliveries until the ledger is complete; ``restless`` consumers misbehave on the way.

    Every 13th delivery is rejected with requeue, every 9th message first seen here is left
    unanswered until the channel is closed and opened again after 50 deliveries.
    """
    connection = pika.BlockingConnection(pika.URLParameters(broker.url))
    while not ledger.complete.is_set():
        channel = connection.channel()
        channel.basic_qos(prefetch_count=20)
        for count, (method, _, body) in enumerate(
            channel.consume(queue, inactivity_timeout=0.05), start=1
        ):
            if ledger.complete.is_set() or (restless and count > 50):
                break
            if method is None:
                continue
            if restless and count % 13 == 0:
                channel.basic_reject(method.delivery_tag, requeue=True)
            elif not restless or method.redelivered or count % 9 != 0:
                channel.basic_ack(method.delivery_tag)
                ledger.add(message_id(body))
        channel.close()
    connection.close()


def run_all(tasks: Sequence[Callable[[], None]]) -> None:
    """Run each task in a thread of its own, and raise what any of them raised."""
    with ThreadPoolExecutor(max_workers=len(tasks)) as pool:
        for future in [pool.submit(task) for task in tasks]:
            future.result()


@pytest.mark.acceptance
def test_nothing_is_lost_or_doubled_by_eight_connections(
    broker: BrokerUnderTest, channel: BlockingChannel, name: str
) -> None:
    channel.queue_declare(name, auto_delete=False)
    channel.exchange_declare(name, "topic", auto_delete=True)
    channel.queue_bind(name, name, "p.*")
    ledger = Ledger(PUBLISHERS * MESSAGES_EACH)
    run_all(
        [partial(publish_all, broker, name, n) for n in range(PUBLISHERS)]
        + [partial(consume_until, broker, name, ledger, n % 2 == 0) for n in range(CONSUMERS)]
    )
    assert channel.queue_delete(name).method.message_count == 0
    expected = {f"{p}:{n}" for p in range(PUBLISHERS) for n in range(MESSAGES_EACH)}
    assert set(ledger.acked) == expected
    assert {i: c for i, c in ledger.acked.items() if c != 1} == {}


@pytest.mark.acceptance
def test_one_consumer_sees_each_publisher_in_order(
    broker: BrokerUnderTest, connect: PikaConnect, name: str
) -> None:
    channel = connect().channel()
    channel.exchange_declare(name, "topic", auto_delete=True)
    queue = channel.queue_declare("", exclusive=True).method.queue
    channel.queue_bind(queue, name, "#")
    seen: dict[str, list[int]] = {str(p): [] for p in range(8)}

    def consume() -> None:
        total = 8 * MESSAGES_EACH
        for method, _, body in channel.consume(queue, inactivity_timeout=IDLE_S):
            assert method is not None, f"silence after {sum(map(len, seen.values()))} messages"
            publisher, _, number = message_id(body).partition(":")
            seen[publisher].append(int(number))
            if method.delivery_tag % 100 == 0:
                channel.basic_ack(method.delivery_tag, multiple=True)
            if sum(map(len, seen.values())) == total:
                break

    run_all([consume] + [partial(publish_all, broker, name, n) for n in range(8)])
    assert all(numbers == list(range(MESSAGES_EACH)) for numbers in seen.values())


@pytest.mark.acceptance
def test_fan_out_copies_to_every_queue(
    broker: BrokerUnderTest, channel: BlockingChannel, name: str
) -> None:
    channel.exchange_declare(name, "fanout", auto_delete=True)
    queues = [f"{name}-{n}" for n in range(4)]
    for queue in queues:
        channel.queue_declare(queue)
        channel.queue_bind(queue, name)
    ledgers = [Ledger(2 * MESSAGES_EACH) for _ in queues]
    run_all(
        [partial(publish_all, broker, name, n) for n in range(2)]
        + [
            partial(consume_until, broker, queue, ledger, False)
            for queue, ledger in zip(queues, ledgers, strict=True)
        ]
    )
    for queue, ledger in zip(queues, ledgers, strict=True):
        assert channel.queue_delete(queue).method.message_count == 0
        assert ledger.acked == Counter(f"{p}:{n}" for p in range(2) for n in range(MESSAGES_EACH))
