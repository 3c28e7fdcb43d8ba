"""End-to-end latency at a fixed rate, free of coordinated omission.

The sender is an open loop: message i is due at start + i / rate and carries that instant, not the
one when it was really sent, so that a stall of broker or generator counts against every message
that had to wait for it. How late the generator itself was is reported beside it.
"""

from __future__ import annotations

import select
import struct
import time
from typing import Final

from benchmarks.macro.client import Client
from benchmarks.macro.errors import BenchmarkError
from benchmarks.macro.frames import (
    STAMP_SIZE,
    Address,
    DeliveryShape,
    publish_octets,
    stamped_body,
)
from benchmarks.macro.percentile import percentile
from benchmarks.macro.scenario import (
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

BODY_SIZE: Final = 100
PROBE_INDEX: Final = 0xFFFF_FFFF
DRAIN_TIMEOUT_S: Final = 30.0

_RECEIVE_OCTETS: Final = 1 << 20
_INDEX_AND_DUE: Final = struct.Struct(">I4xQ")


class Latency(Scenario):
    """One publisher, one auto-ack consumer, 100-byte bodies."""

    def __init__(self, rate_per_s: int) -> None:
        super().__init__(
            f"latency_{rate_per_s}_per_s_100B",
            f"publish to delivery at {rate_per_s:,} msg/s, open loop, auto-ack",
            (
                Metric("p50", "ms", Better.LOWER),
                Metric("p99", "ms", Better.LOWER, Target(Of.RATIO, 1.0)),
            ),
        )
        self._rate_per_s = rate_per_s

    def run(self, bench: Bench) -> Outcome:
        with (
            bench.control() as control,
            temporary_queue(control, "latency") as queue,
            Client(bench.url) as publishing,
            Client(bench.url) as consuming,
        ):
            consuming.consume(queue)
            probe = stamped_body(BODY_SIZE, PROBE_INDEX)
            octets = publish_octets(Address(queue), probe, publishing.frame_max)
            publishing.sock.sendall(octets)
            content = consuming.read_content()
            if content.body != probe:
                raise BenchmarkError("the first delivery is not what was published")
            loop = _OpenLoop(publishing, consuming, octets, content.shape, self._rate_per_s)
            warm_up = int(self._rate_per_s * bench.warm_up_s)
            measured = int(self._rate_per_s * bench.seconds)
            with collector_off():
                watch = Stopwatch(bench.pid)
                loop.run(warm_up + measured)
                watch.stop()
            latencies = sorted(loop.latencies_ns[warm_up:])
            lateness = sorted(loop.lateness_ns[warm_up:])
            return watch.outcome(
                {
                    "p50": percentile(latencies, 0.50) / 1e6,
                    "p99": percentile(latencies, 0.99) / 1e6,
                },
                {
                    "max latency in ms": latencies[-1] / 1e6,
                    "generator late p50 in ms": percentile(lateness, 0.50) / 1e6,
                    "generator late p99 in ms": percentile(lateness, 0.99) / 1e6,
                },
            )


class _OpenLoop:
    """Sends what is due, receives what is there, and sleeps until the earlier of the two."""

    def __init__(
        self,
        publishing: Client,
        consuming: Client,
        publish: bytes,
        shape: DeliveryShape,
        rate_per_s: int,
    ) -> None:
        self.latencies_ns: list[int] = []
        self.lateness_ns: list[int] = []
        self._out, self._in = publishing.sock, consuming.sock
        self._template = bytearray(publish)
        self._body_at = len(publish) - BODY_SIZE - 1
        self._shape = shape
        self._interval_ns = 1_000_000_000 // rate_per_s
        self._unsent = bytearray()
        self._unread = bytearray(consuming.take_unread())
        self._out.setblocking(False)
        self._in.setblocking(False)

    def run(self, count: int) -> None:
        """Send `count` messages on time and receive them all.

        :raises BenchmarkError: one is lost, surplus or out of order.
        """
        due_ns = time.monotonic_ns() + self._interval_ns
        sent = 0
        give_up_ns = due_ns + count * self._interval_ns + int(DRAIN_TIMEOUT_S * 1e9)
        while len(self.latencies_ns) < count:
            now_ns = time.monotonic_ns()
            while sent < count and due_ns <= now_ns:
                self._append(sent, due_ns, now_ns)
                sent += 1
                due_ns += self._interval_ns
            if self._unsent:
                self._send()
            wait_s = max(0.0, (due_ns - time.monotonic_ns()) / 1e9) if sent < count else 0.1
            # select() and not epoll: its time limit counts microseconds, not milliseconds
            readable, _, _ = select.select(
                [self._in], [self._out] if self._unsent else [], [], wait_s
            )
            if readable:
                self._receive()
            if now_ns > give_up_ns:
                raise BenchmarkError(f"only {len(self.latencies_ns)} of {count} came back")
        if self._unread or len(self.latencies_ns) > count:
            raise BenchmarkError("more came back than was published")

    def _append(self, index: int, due_ns: int, now_ns: int) -> None:
        _INDEX_AND_DUE.pack_into(self._template, self._body_at, index, due_ns)
        self._unsent += self._template
        self.lateness_ns.append(now_ns - due_ns)

    def _send(self) -> None:
        try:
            sent = self._out.send(self._unsent)
        except BlockingIOError:
            return
        del self._unsent[:sent]

    def _receive(self) -> None:
        octets = self._in.recv(_RECEIVE_OCTETS)
        now_ns = time.monotonic_ns()
        if not octets:
            raise BenchmarkError("the broker closed the connection")
        if self._unread:
            octets = bytes(self._unread) + octets
        size, body_at = self._shape.size, self._shape.body_offset
        whole = len(octets) - len(octets) % size
        expected = len(self.latencies_ns)
        for at in range(body_at, whole, size):
            index, due_ns = _INDEX_AND_DUE.unpack_from(octets, at)
            if index != expected:
                raise BenchmarkError(f"message {index} came where {expected} was due")
            expected += 1
            self.latencies_ns.append(now_ns - due_ns)
        self._unread = bytearray(octets[whole:])


assert _INDEX_AND_DUE.size == STAMP_SIZE + 8 <= BODY_SIZE
