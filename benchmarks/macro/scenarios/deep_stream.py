"""A stream far deeper than memory: what it takes, how fast any place is found, many readers.

It runs only on this tree's broker, whose process has done nothing before.
"""

from __future__ import annotations

import contextlib
import json
import random
import time
from base64 import b64encode
from collections.abc import Callable
from http.client import HTTPConnection
from typing import ClassVar, Final
from urllib.parse import quote, urlsplit

from benchmarks.macro import machine
from benchmarks.macro.client import BrokerUrl, Client
from benchmarks.macro.errors import BenchmarkError
from benchmarks.macro.percentile import percentile
from benchmarks.macro.scenario import (
    DURABLE_SECTION,
    Bench,
    Better,
    Metric,
    Of,
    Outcome,
    Scenario,
    Target,
    unique_name,
)
from benchmarks.macro.scenarios.durable_loads import fill

BODY_SIZE: Final = 200
LOOKUPS: Final = 200
READERS: Final = 50
READ_BY_EACH: Final = 1_000
MEMORY_TARGET_MB: Final = 300.0
FIND_TARGET_MS: Final = 50.0
SETTLE_S: Final = 15.0


class Finder:
    """Asks the management port for places of one stream, over one connection."""

    def __init__(self, bench: Bench, queue: str) -> None:
        assert bench.broker is not None
        at = BrokerUrl.parse(bench.url)
        parts = urlsplit(bench.broker.management_url)
        login = b64encode(f"{at.user}:{at.password}".encode()).decode()
        self._headers = {"Authorization": f"Basic {login}"}
        self._base = f"/api/stream/{quote(at.vhost, safe='')}/{quote(queue, safe='')}"
        self._connection = HTTPConnection(parts.hostname or "", parts.port, timeout=60)

    def ask(self, path: str) -> bytes:
        """The answer. :raises BenchmarkError: it is a refusal."""
        self._connection.request("GET", self._base + path, headers=self._headers)
        answer = self._connection.getresponse()
        octets = answer.read()
        if answer.status != 200:
            raise BenchmarkError(f"{path}: {answer.status} {octets[:200]!r}")
        return octets

    def close(self) -> None:
        self._connection.close()


class DeepStream(Scenario):
    """`depth` messages of 200 octets in one stream."""

    is_long: ClassVar[bool] = True
    section: ClassVar[str] = DURABLE_SECTION
    is_for_subject_only: ClassVar[bool] = True
    wants_fresh_broker: ClassVar[bool] = True
    needs_pid: ClassVar[bool] = True
    needs_restart: ClassVar[bool] = True  # its management port is known only for an own broker
    rounds_max: ClassVar[int | None] = 1

    def __init__(self, depth: int) -> None:
        find = Target(Of.VALUE, FIND_TARGET_MS)
        super().__init__(
            f"persistent_deep_stream_{depth}_200B",
            f"{depth:,} messages in one stream: memory, any offset, any time, {READERS} readers",
            (
                Metric("RSS of the broker", "MB", Better.LOWER, Target(Of.VALUE, MEMORY_TARGET_MB)),
                Metric("find an offset, p99", "ms", Better.LOWER, find),
                Metric("find a time, p99", "ms", Better.LOWER, find),
                Metric(f"{READERS} readers at different places", "msg/s", Better.HIGHER),
            ),
        )
        self._depth = depth

    def run(self, bench: Bench) -> Outcome:
        assert bench.pid is not None
        queue = unique_name("stream")
        with bench.control() as control:
            control.declare_queue(queue, {"x-queue-type": "stream"}, is_durable=True)
            begun_ms = time.time() * 1000
            fill_s = fill(bench, control, queue, BODY_SIZE, self._depth)
            rss = machine.settled_rss_bytes(bench.pid, SETTLE_S)
            chance = random.Random(1)
            with contextlib.closing(Finder(bench, queue)) as finder:
                offsets = _times(
                    lambda: _read_one(finder, chance.randrange(self._depth)),
                )
                instants = _times(
                    lambda: _find_time(finder, begun_ms + chance.random() * fill_s * 1000)
                )
            with_readers, rate = self._read_everywhere(bench, queue)
            control.delete_queue(queue)
        return Outcome(
            {
                "RSS of the broker": rss / 1e6,
                "find an offset, p99": percentile(offsets, 0.99),
                "find a time, p99": percentile(instants, 0.99),
                f"{READERS} readers at different places": rate,
            },
            {
                "fill in msg/s": self._depth / fill_s,
                "find an offset, p50 in ms": percentile(offsets, 0.5),
                "find a time, p50 in ms": percentile(instants, 0.5),
                "RSS with the readers in MB": with_readers / 1e6,
            },
        )

    def _read_everywhere(self, bench: Bench, queue: str) -> tuple[int, float]:
        """Resident memory with readers all over the stream, and what they get together."""
        assert bench.pid is not None
        count = min(READ_BY_EACH, self._depth // READERS)
        with contextlib.ExitStack() as stack:
            readers = [stack.enter_context(Client(bench.url)) for _ in range(READERS)]
            begun = time.perf_counter()
            for number, reader in enumerate(readers):
                start = number * (self._depth // READERS)
                reader.consume(
                    queue, prefetch=count, no_ack=False, arguments={"x-stream-offset": start}
                )
            for reader in readers:
                for _ in range(count):
                    reader.read_content()
            seconds = time.perf_counter() - begun
            return machine.rss_bytes(bench.pid), READERS * count / seconds


def _times(ask: Callable[[], None]) -> list[float]:
    """How long each of many questions took, in ms, ascending; the first is not counted."""
    ask()
    found = []
    for _ in range(LOOKUPS):
        begun = time.perf_counter()
        ask()
        found.append((time.perf_counter() - begun) * 1000)
    return sorted(found)


def _read_one(finder: Finder, offset: int) -> None:
    if len(finder.ask(f"/range?start={offset}&end={offset + 1}")) < BODY_SIZE:
        raise BenchmarkError(f"offset {offset} came without its body")


def _find_time(finder: Finder, instant_ms: float) -> None:
    json.loads(finder.ask(f"/offset-for-timestamp?timestamp_ms={round(instant_ms)}"))["offset"]
