"""One message at a time: a consumer with prefetch 1, and basic.get.

Both are bound by round trips, so the generator uses plain blocking calls on one connection: send,
receive, again. A publisher on another connection tops the queue up, a batch in one send, before
it runs low.
"""

from __future__ import annotations

import socket
import struct
import time
from abc import abstractmethod
from typing import ClassVar, Final

from pamqp import commands, frame

from benchmarks.macro.client import Client
from benchmarks.macro.errors import BenchmarkError
from benchmarks.macro.frames import (
    Address,
    DeliveryMeter,
    DeliveryShape,
    SingleAcks,
    Tape,
    publish_octets,
    stamped_body,
)
from benchmarks.macro.scenario import (
    Bench,
    Better,
    Metric,
    Outcome,
    Scenario,
    Stopwatch,
    collector_off,
    temporary_queue,
)
from benchmarks.macro.traffic import Publisher

BATCH: Final = 500
BACKLOG_AT_LEAST: Final = 1_000
PROBE_INDEX: Final = 0xFFFF_FFFF
SETTLE_TIMEOUT_S: Final = 30.0


class OneAtATime(Scenario):
    """What the two have in common: a queue that is never empty, and a request for each message."""

    #: the tag of the first delivery that is counted; the one before is the probe
    first_tag: ClassVar[int] = 2

    def __init__(self, name: str, summary: str) -> None:
        super().__init__(name, summary, (Metric("messages", "msg/s", Better.HIGHER),))

    def run(self, bench: Bench) -> Outcome:
        with (
            bench.control() as control,
            temporary_queue(control, "single") as queue,
            Client(bench.url) as publishing,
            Client(bench.url) as taking,
        ):
            body = stamped_body(100, PROBE_INDEX)
            publishing.sock.sendall(publish_octets(Address(queue), body, publishing.frame_max))
            _wait_until_ready(control, queue, 1)
            shape = self.start(taking, queue, body)
            tape = Tape([Address(queue)], 100, publishing.frame_max, count=BATCH)
            publisher = Publisher(publishing, tape, (), confirms=False)
            publishing.sock.setblocking(True)
            publisher.publish_up_to(BACKLOG_AT_LEAST)
            _wait_until_ready(control, queue, BACKLOG_AT_LEAST)
            _wait_in_kernel(taking.sock)
            meter = DeliveryMeter(shape, self.first_tag, tape.count)
            with collector_off():
                self._take_for(bench.warm_up_s, taking, publisher, meter)
                before = meter.count
                watch = Stopwatch(bench.pid)
                self._take_for(bench.seconds, taking, publisher, meter)
                watch.stop()
            taken = meter.count - before
            self._take_until(publisher.published, taking, meter)
            left = control.ready_count(queue)
            if left:
                raise BenchmarkError(f"{left} messages left after all {publisher.published}")
            return watch.outcome({"messages": taken / watch.elapsed_s})

    @abstractmethod
    def start(self, client: Client, queue: str, body: bytes) -> DeliveryShape:
        """Take the probe, and arrange that each `request` brings one more message."""

    @abstractmethod
    def request(self, sequence: int) -> bytes | memoryview:
        """What to send to get delivery `sequence`, counted from 0 after the probe."""

    def _take_for(
        self, seconds: float, client: Client, publisher: Publisher, meter: DeliveryMeter
    ) -> None:
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            if publisher.published - meter.count < BACKLOG_AT_LEAST:
                publisher.publish_up_to(publisher.published + BACKLOG_AT_LEAST)
            self._take_until(meter.count + 50, client, meter)

    def _take_until(self, count: int, client: Client, meter: DeliveryMeter) -> None:
        """Take messages until `count` are taken in all, each only after the one before."""
        sock = client.sock
        size = meter.shape.size
        view = memoryview(bytearray(2 * size))
        for sequence in range(meter.count, count):
            sock.send(self.request(sequence))
            received = 0
            while received < size:
                received += _receive_more(sock, view[received:], bytes(view[:received]))
            meter.feed(view[:received])
            if received != size:
                raise BenchmarkError(f"{received} octets for one message of {size}")


class PrefetchOne(OneAtATime):
    """Acks each delivery by itself; with prefetch 1 the ack is what brings the next one."""

    def __init__(self) -> None:
        super().__init__(
            "ack_single_prefetch_1_100B", "each delivery acked by itself, prefetch 1: round trips"
        )
        self._acks = SingleAcks()

    def start(self, client: Client, queue: str, body: bytes) -> DeliveryShape:
        client.consume(queue, prefetch=1, no_ack=False)
        content = client.read_content()
        if content.body != body:
            raise BenchmarkError("the first delivery is not what was published")
        return content.shape

    def request(self, sequence: int) -> bytes | memoryview:
        return self._acks.pieces(sequence + 1, sequence + 1)[0]


class GetPolling(OneAtATime):
    """basic.get with no-ack, one after the other, on a queue that is never empty."""

    def __init__(self) -> None:
        super().__init__("get_polling_100B", "basic.get one after the other, auto-ack: round trips")
        self._get = b""

    def start(self, client: Client, queue: str, body: bytes) -> DeliveryShape:
        self._get = frame.marshal(commands.Basic.Get(queue=queue, no_ack=True), 1)
        client.sock.sendall(self._get)
        content = client.read_content()
        if content.body != body:
            raise BenchmarkError("the first message is not what was published")
        return content.shape

    def request(self, sequence: int) -> bytes | memoryview:
        return self._get


def _wait_in_kernel(sock: socket.socket) -> None:
    """Block with the kernel's own time limit: Python's would cost a second call each time."""
    sock.setblocking(True)
    limit = struct.pack("ll", int(SETTLE_TIMEOUT_S), 0)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, limit)


def _receive_more(sock: socket.socket, into: memoryview, before: bytes) -> int:
    try:
        size = sock.recv_into(into)
    except BlockingIOError as error:
        raise BenchmarkError(f"no whole message within the time limit, only {before!r}") from error
    if not size:
        raise BenchmarkError("the broker closed the connection")
    return size


def _wait_until_ready(control: Client, queue: str, count: int) -> None:
    deadline = time.monotonic() + SETTLE_TIMEOUT_S
    while control.ready_count(queue) < count:
        if time.monotonic() > deadline:
            raise BenchmarkError(f"{count} messages did not arrive in the queue")
        time.sleep(0.001)


def scenarios() -> list[Scenario]:
    return [PrefetchOne(), GetPolling()]
