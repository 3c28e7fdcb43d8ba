"""Latency at a fixed rate, free of coordinated omission, and what held the broker up meanwhile.

The sender is an open loop: a message is due at a fixed instant and its latency counts from there,
not from when it was really sent, so that a stall of broker or generator counts against every
message that had to wait for it. How late the generator itself was is reported beside it.

Messages are due in bursts, 5,000 times a second or less often, so that the generator wakes up no
more often at a high rate. At 5,000 messages a second a burst is one message.
"""

from __future__ import annotations

import select
import socket
import struct
import time
from abc import ABC, abstractmethod
from dataclasses import replace
from typing import ClassVar, Final

from benchmarks.macro.brokers import Hareline
from benchmarks.macro.client import Client
from benchmarks.macro.errors import BenchmarkError
from benchmarks.macro.frames import (
    SETTLE_FRAME_SIZE,
    STAMP_SIZE,
    Address,
    ConfirmMeter,
    stamped_body,
)
from benchmarks.macro.percentile import percentile
from benchmarks.macro.scenario import (
    LATENCY_SECTION,
    Bench,
    Better,
    Metric,
    Of,
    Outcome,
    Scenario,
    Stopwatch,
    Target,
    collector_off,
    temporary_queue,
)
from benchmarks.macro.scenarios.durable_loads import (
    durable_queue,
    expect_ready,
    persistent_address,
)
from benchmarks.macro.scenarios.persistent import ConfirmedPublishes
from benchmarks.macro.scenarios.throughput import Throughput, default_exchange
from benchmarks.macro.shapes import Shape, ShapedTape
from benchmarks.macro.turn_watch import TurnWatch

BODY_SIZE: Final = 100
RATE_PER_S: Final = 5_000
BURSTS_PER_S_MAX: Final = 5_000
#: a p99.9 wants more messages than a rate
STRETCH: Final = 3
DRAIN_TIMEOUT_S: Final = 30.0
PERCENTILES: Final = {"p50": 0.50, "p99": 0.99, "p99.9": 0.999}

_RECEIVE_OCTETS: Final = 1 << 20
_INDEX_AND_DUE: Final = struct.Struct(">I4xQ")
_DUE: Final = struct.Struct(">Q")
_SETTLE_FRAME: Final = struct.Struct(">BHIIQBB")


class Latency(Scenario):
    """One publisher of messages that differ, at `rate_per_s`, or at half of what the broker can.

    Where the run has started a Hareline, it counts its long turns and collections meanwhile; that
    process is stopped at the end.
    """

    section: ClassVar[str] = LATENCY_SECTION
    #: what is waited for, for people
    waits_for: ClassVar[str]

    def __init__(self, kind: str, rate_per_s: int | None) -> None:
        at = "half_capacity" if rate_per_s is None else f"{rate_per_s}_per_s"
        spoken = "half of capacity" if rate_per_s is None else f"{rate_per_s:,} msg/s"
        bound = None if rate_per_s is None else Target(Of.RATIO, 1.0)
        super().__init__(
            f"latency_{kind}_{at}_100B",
            f"{self.waits_for} at {spoken}, open loop",
            (
                Metric("p50", "ms", Better.LOWER),
                Metric("p99", "ms", Better.LOWER, bound),
                Metric("p99.9", "ms", Better.LOWER),
            ),
        )
        self._rate_per_s = rate_per_s

    def run(self, bench: Bench) -> Outcome:
        broker = bench.broker
        if not isinstance(broker, Hareline):
            return self._run(bench, None)
        turns = broker.watch_turns()
        try:
            return self._run(replace(bench, url=broker.url, pid=broker.pid), turns)
        finally:
            broker.stop()  # the next scenario is to have a process that counts nothing

    def _run(self, bench: Bench, turns: TurnWatch | None) -> Outcome:
        rate = self._rate_per_s or self.capacity(bench) / 2
        burst = max(1, round(rate / BURSTS_PER_S_MAX))
        bursts_per_s = rate / burst
        warm_up = burst * int(bursts_per_s * bench.warm_up_s)
        count = warm_up + burst * max(1, int(bursts_per_s * bench.seconds * STRETCH))
        watch = Stopwatch(bench.pid)
        if turns is not None:
            turns.clear()
        loop = self.send(bench, count, burst, bursts_per_s, watch)
        latencies = sorted(loop.latencies_ns[warm_up:])
        lateness = sorted(loop.lateness_ns[warm_up // burst :])
        details: dict[str, float] = {
            "messages per second": rate,
            "max latency in ms": latencies[-1] / 1e6,
            "generator late p50 in ms": percentile(lateness, 0.50) / 1e6,
            "generator late p99 in ms": percentile(lateness, 0.99) / 1e6,
        }
        if turns is not None:
            counts = turns.read()
            details |= {
                "long turns": counts.long_turns,
                "longest of these in ms": counts.longest_turn_ms,
                "garbage collections": counts.collections,
                "longest collection in ms": counts.longest_collection_ms,
            }
        return watch.outcome(
            {name: percentile(latencies, share) / 1e6 for name, share in PERCENTILES.items()},
            details,
        )

    @abstractmethod
    def capacity(self, bench: Bench) -> float:
        """Messages per second that the broker moves in this way if nothing limits the publisher."""

    @abstractmethod
    def send(
        self, bench: Bench, count: int, burst: int, bursts_per_s: float, watch: Stopwatch
    ) -> OpenLoop:
        """Send `count` messages; returns when all that is waited for has come."""


class TransientLatency(Latency):
    """From the instant a publish is due to its delivery to an auto-ack consumer."""

    waits_for: ClassVar[str] = "publish to delivery"

    def __init__(self, rate_per_s: int | None) -> None:
        super().__init__("transient", rate_per_s)

    def capacity(self, bench: Bench) -> float:
        flow = Throughput("", "", declare=default_exchange(), shape=Shape.DIFFERING)
        return flow.run(bench).values["deliveries"]

    def send(
        self, bench: Bench, count: int, burst: int, bursts_per_s: float, watch: Stopwatch
    ) -> OpenLoop:
        with (
            bench.control() as control,
            temporary_queue(control, "latency") as queue,
            Client(bench.url) as publishing,
            Client(bench.url) as consuming,
        ):
            consuming.consume(queue)
            tape = _tape(Address(queue), publishing)
            publishing.sock.sendall(tape.piece(0, 1))
            content = consuming.read_content()
            if content.body != stamped_body(BODY_SIZE, 0):
                raise BenchmarkError("the first delivery is not what was published")
            size, body_at = content.shape.size, content.shape.body_offset
            loop = DeliveryLoop(publishing, consuming, tape, size, body_at)
            loop.run(count, burst, bursts_per_s, watch)
        return loop


class PersistentLatency(Latency):
    """From the instant a publish is due to its confirm, into a durable queue without a consumer."""

    waits_for: ClassVar[str] = "persistent publish to confirm"

    def __init__(self, rate_per_s: int | None) -> None:
        super().__init__("persistent", rate_per_s)

    def capacity(self, bench: Bench) -> float:
        confirmed = ConfirmedPublishes(BODY_SIZE, "", Shape.DIFFERING)
        return confirmed.run(bench).values["confirms"]

    def send(
        self, bench: Bench, count: int, burst: int, bursts_per_s: float, watch: Stopwatch
    ) -> OpenLoop:
        with (
            bench.control() as control,
            durable_queue(control, "latency") as queue,
            Client(bench.url) as publishing,
        ):
            publishing.select_confirms()
            loop = ConfirmLoop(publishing, _tape(persistent_address(queue), publishing))
            loop.run(count, burst, bursts_per_s, watch)
            expect_ready(control, queue, count)
        return loop


class OpenLoop(ABC):
    """Sends what is due, receives what is there, and sleeps until the earlier of the two."""

    def __init__(self, publishing: Client, receiving: socket.socket, tape: ShapedTape) -> None:
        #: by the place of the message in the stream
        self.latencies_ns: list[int] = []
        #: by burst
        self.lateness_ns: list[int] = []
        self.answered = 0
        self.tape = tape
        self._out, self._in = publishing.sock, receiving
        self._sent = 0
        self._unsent = bytearray()
        self._out.setblocking(False)
        self._in.setblocking(False)

    def run(self, count: int, burst: int, bursts_per_s: float, watch: Stopwatch) -> None:
        """Send `count` messages on time and wait for the answers to all.

        :raises BenchmarkError: one is lost, surplus or out of order.
        """
        self.latencies_ns = [0] * count
        interval_ns = int(1e9 / bursts_per_s)
        with collector_off():
            watch.start()
            due_ns = time.monotonic_ns() + interval_ns
            give_up_ns = due_ns + count // burst * interval_ns + int(DRAIN_TIMEOUT_S * 1e9)
            while self.answered < count:
                now_ns = time.monotonic_ns()
                while self._sent < count and due_ns <= now_ns:
                    self._append(min(burst, count - self._sent), due_ns)
                    self.lateness_ns.append(now_ns - due_ns)
                    due_ns += interval_ns
                self._send()
                wait_s = 0.1
                if self._sent < count:
                    wait_s = max(0.0, (due_ns - time.monotonic_ns()) / 1e9)
                self._receive(wait_s)
                if now_ns > give_up_ns:
                    raise BenchmarkError(f"only {self.answered} of {count} came back")
            watch.stop()
        if self.answered > count or self.has_rest:
            raise BenchmarkError("more came back than was published")

    @abstractmethod
    def receive(self, octets: bytes, now_ns: int) -> None:
        """Note the latencies of what is answered in there, and count it."""

    @property
    @abstractmethod
    def has_rest(self) -> bool:
        """Whether octets came that are no whole answer yet."""

    @abstractmethod
    def note_due(self, octets: bytearray, count: int, due_ns: int) -> None:
        """Remember when these publishes, `count` of them, are due."""

    def _append(self, count: int, due_ns: int) -> None:
        while count:
            number = min(count, self.tape.count - self._sent % self.tape.count)
            octets = bytearray(self.tape.piece(self._sent, number))
            self.note_due(octets, number, due_ns)
            self._unsent += octets
            self._sent += number
            count -= number

    def _send(self) -> None:
        if self._unsent:
            try:
                sent = self._out.send(self._unsent)
            except BlockingIOError:
                return
            del self._unsent[:sent]

    def _receive(self, wait_s: float) -> None:
        # select() and not epoll: its time limit counts microseconds, not milliseconds
        writing = [self._out] if self._unsent else []
        if select.select([self._in], writing, [], wait_s)[0]:
            octets = self._in.recv(_RECEIVE_OCTETS)
            if not octets:
                raise BenchmarkError("the broker closed the connection")
            self.receive(octets, time.monotonic_ns())


class DeliveryLoop(OpenLoop):
    """The answer to a publish is its delivery, which brings back when it was due.

    A delivery has `size` octets, its body begins at `body_at`.
    """

    def __init__(
        self, publishing: Client, consuming: Client, tape: ShapedTape, size: int, body_at: int
    ) -> None:
        super().__init__(publishing, consuming.sock, tape)
        self._due_at = tape.frame_size - 1 - BODY_SIZE + STAMP_SIZE
        self._size, self._body_at = size, body_at
        self._rest = consuming.take_unread()

    @property
    def has_rest(self) -> bool:
        return bool(self._rest)

    def note_due(self, octets: bytearray, count: int, due_ns: int) -> None:
        for at in range(self._due_at, len(octets), self.tape.frame_size):
            _DUE.pack_into(octets, at, due_ns)

    def receive(self, octets: bytes, now_ns: int) -> None:
        if self._rest:
            octets = self._rest + octets
        whole = len(octets) - len(octets) % self._size
        tape_count, latencies = self.tape.count, self.latencies_ns
        number = self.answered
        for at in range(self._body_at, whole, self._size):
            index, due_ns = _INDEX_AND_DUE.unpack_from(octets, at)
            if index != number % tape_count or number >= len(latencies):
                raise BenchmarkError(f"message {index} came where {number} was due")
            latencies[number] = now_ns - due_ns
            number += 1
        self.answered = number
        self._rest = octets[whole:]


class ConfirmLoop(OpenLoop):
    """The answer to a publish is its confirm, in whatever order, by single and multiple acks."""

    def __init__(self, publishing: Client, tape: ShapedTape) -> None:
        super().__init__(publishing, publishing.sock, tape)
        self._meter = ConfirmMeter()
        self._due_ns: list[int] = []
        self._low = 0  # all before it are confirmed
        self._rest = b""

    @property
    def has_rest(self) -> bool:
        return bool(self._rest)

    def note_due(self, octets: bytearray, count: int, due_ns: int) -> None:
        self._due_ns += [due_ns] * count

    def receive(self, octets: bytes, now_ns: int) -> None:
        octets = self._rest + octets
        usable = len(octets) - len(octets) % SETTLE_FRAME_SIZE
        self._rest = octets[usable:]
        self.answered = self._meter.feed(octets[:usable])  # which refuses all but confirms
        latencies, dues = self.latencies_ns, self._due_ns
        if self.answered > len(dues):
            raise BenchmarkError(f"{len(dues)} published, but {self.answered} confirmed")
        for *_, tag, is_multiple, _ in _SETTLE_FRAME.iter_unpack(octets[:usable]):
            for number in range(self._low if is_multiple else tag - 1, tag):
                if not latencies[number]:
                    latencies[number] = now_ns - dues[number]
            while self._low < len(latencies) and latencies[self._low]:
                self._low += 1


def _tape(address: Address, client: Client) -> ShapedTape:
    return ShapedTape(Shape.DIFFERING, [address], BODY_SIZE, client.frame_max)


def scenarios() -> list[Scenario]:
    return [
        TransientLatency(RATE_PER_S),
        TransientLatency(None),
        PersistentLatency(RATE_PER_S),
        PersistentLatency(None),
    ]


assert _INDEX_AND_DUE.size == STAMP_SIZE + _DUE.size <= BODY_SIZE
