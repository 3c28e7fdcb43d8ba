"""Persistent messages into durable queues and out again, with nothing left to chance.

Used by ``persistent`` (beside RabbitMQ) and ``durable_store`` (what the journal costs and can do).
A message counts as published when it is confirmed, and as consumed when its ack is sent; what is in
a queue before and after is asked of the broker.
"""

from __future__ import annotations

import contextlib
import os
import selectors
import time
from collections.abc import Iterator, Sequence
from typing import Final

from pamqp import commands

from benchmarks.macro.client import Client
from benchmarks.macro.errors import BenchmarkError
from benchmarks.macro.frames import Address, ack_octets
from benchmarks.macro.scenario import Bench, Stopwatch, collector_off, temporary_queue
from benchmarks.macro.shapes import Shape, make_tape
from benchmarks.macro.traffic import (
    NO_LIMIT,
    POLL_INTERVAL_S,
    AckMode,
    Consumer,
    Limits,
    Publisher,
    Reach,
    TrafficLoop,
)

PERSISTENT: Final = commands.Basic.Properties(delivery_mode=2)
CONFIRM_WINDOW: Final = 5_000
PREFETCH: Final = 1_000
STALL_TIMEOUT_S: Final = 60.0
DRAIN_TIMEOUT_S: Final = 60.0


def persistent_address(queue: str, exchange: str = "") -> Address:
    """To a queue through the default exchange, or to an exchange with that routing key."""
    return Address(queue, exchange, properties=PERSISTENT)


@contextlib.contextmanager
def durable_queue(control: Client, stem: str) -> Iterator[str]:
    """A durable queue for one run, begun with a disk that has nothing left to do."""
    os.sync()  # else the other broker's last pages are written while this one is measured
    with temporary_queue(control, stem, is_durable=True) as queue:
        yield queue


def confirmed_publisher(
    client: Client, addresses: Sequence[Address], body_size: int, shape: Shape = Shape.ALIKE
) -> Publisher:
    """A publisher that only its confirms pace, so that no consumer is needed."""
    client.select_confirms()
    tape = make_tape(shape, addresses, body_size, client.frame_max)
    return Publisher(client, tape, (), confirms=True, reach=Reach.AT_MOST_ONE)


def publish_confirmed(publisher: Publisher, count: int) -> float:
    """Publish `count` more and wait until all are confirmed; the seconds it took.

    :raises BenchmarkError: the broker refuses one, or confirms none for a minute.
    """
    goal = publisher.published + count
    batch = CONFIRM_WINDOW // 20  # few and large pieces, as in `TrafficLoop`
    started = moved = time.monotonic()
    confirmed = publisher.confirmed
    with collector_off(), selectors.DefaultSelector() as selector:
        selector.register(publisher.sock, selectors.EVENT_READ)
        while publisher.confirmed < goal:
            allowed = min(goal, publisher.confirmed + CONFIRM_WINDOW)
            missing = allowed - publisher.published
            if publisher.is_blocked or missing >= batch or allowed == goal:
                publisher.publish_up_to(max(allowed, publisher.published))
            for _ in selector.select(0.01 if publisher.is_blocked else 1.0):
                publisher.receive()
            now = time.monotonic()
            if publisher.confirmed != confirmed:
                confirmed, moved = publisher.confirmed, now
            elif now - moved > STALL_TIMEOUT_S:
                raise BenchmarkError(
                    f"{publisher.published} published, {confirmed} confirmed, and no more of them "
                    f"for {STALL_TIMEOUT_S:.0f} s"
                )
            time.sleep(POLL_INTERVAL_S)
    return time.monotonic() - started


def fill(
    bench: Bench,
    control: Client,
    queue: str,
    body_size: int,
    count: int,
    shape: Shape = Shape.ALIKE,
) -> float:
    """Publish `count` messages with confirms into an empty queue; the seconds it took."""
    with Client(bench.url) as client:
        publisher = confirmed_publisher(client, [persistent_address(queue)], body_size, shape)
        elapsed_s = publish_confirmed(publisher, count)
    expect_ready(control, queue, count)
    return elapsed_s


def expect_ready(control: Client, queue: str, count: int) -> None:
    """:raises BenchmarkError: another number of messages is ready."""
    ready = control.ready_count(queue)
    if ready != count:
        raise BenchmarkError(f"{count} messages are to be ready in {queue}, but {ready} are")


def expect_written(written: int, count: int, body_size: int) -> None:
    """Confirms of a broker that keeps messages in memory say nothing of its disk.

    :raises BenchmarkError: less was written than `count` bodies have.
    """
    if written < count * body_size:
        raise BenchmarkError(
            f"{count} persistent messages of {body_size} octets are confirmed, but the broker has "
            f"written {written} octets: either they are not durable, or the kernel does not count "
            "what it writes"
        )


def drain(
    bench: Bench,
    control: Client,
    queue: str,
    body_size: int,
    count: int,
    shape: Shape = Shape.ALIKE,
    *,
    tape_count: int = 0,
) -> float:
    """Consume the first `count` messages, an ack each hundred.

    Returns the seconds from basic.consume to the last delivery. The messages must be those that one
    publisher put there in order with a tape of that shape and count, the usual one if it is 0.

    :raises BenchmarkError: one is missing, surplus or out of its place, or comes back after its ack
    """
    with Client(bench.url) as client, collector_off(), selectors.DefaultSelector() as selector:
        address = persistent_address(queue)
        tape = make_tape(shape, [address], body_size, client.frame_max, count=tape_count)
        selector.register(client.sock, selectors.EVENT_READ)
        started = time.monotonic()
        client.consume(queue, prefetch=PREFETCH, no_ack=False)
        meter = tape.meter(client.read_content().shape, first_tag=1)
        meter.skip(1)
        consumer = Consumer(client, meter, AckMode.EVERY_100)
        consumer.settle(consumer.received)  # all that may be unacked can be here already
        while consumer.received < count:
            if not selector.select(DRAIN_TIMEOUT_S):
                raise BenchmarkError(f"{count} queued, {consumer.received} delivered")
            consumer.receive()
        elapsed_s = time.monotonic() - started
        if meter.octets != meter.octets_of(count) or selector.select(0.02):
            raise BenchmarkError(f"more came than the {count} messages queued")
        client.sock.setblocking(True)
        while not consumer.send_rest():
            pass  # the socket blocks, so this waits
        if consumer.acked < count:
            client.sock.sendall(ack_octets(count, is_multiple=True))
        client.call(commands.Basic.Cancel(consumer_tag="bench"), commands.Basic.CancelOk)
    expect_ready(control, queue, 0)  # what was not acked would be back by now
    return elapsed_s


class ConfirmLoop(TrafficLoop):
    """Publishers without consumers; confirms are measured."""

    def __init__(self, publishers: Sequence[Publisher]) -> None:
        super().__init__(publishers, (), Limits(NO_LIMIT, CONFIRM_WINDOW))
        self._confirming = publishers

    @property
    def confirmed(self) -> int:
        return sum([publisher.confirmed for publisher in self._confirming])

    def measure_confirms(self, warm_up_s: float, seconds: float, watch: Stopwatch) -> float:
        """Confirms per second; all that was published is confirmed at the end.

        :raises BenchmarkError: it is not, or the broker refuses a publish.
        """
        self._run_for(warm_up_s)
        before = self.confirmed
        watch.start()
        self._run_for(seconds)
        watch.stop()
        confirmed = self.confirmed - before
        self._drain()
        return confirmed / watch.elapsed_s
