"""A fan-out that no broker keeps up with: what do other clients get, and does the broker stop?

Publishers that never wait send to a fanout exchange with a thousand queues, so each message costs
the broker a thousand times what it costs them. Bystanders on other connections time a passive
queue.declare and a new connection meanwhile. At the end, with the publishers still sending, the
broker gets SIGTERM; none of them answers its connection.close.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Sequence
from typing import ClassVar, Final

from benchmarks.macro import machine
from benchmarks.macro.brokers import Ending
from benchmarks.macro.client import Client
from benchmarks.macro.percentile import percentile
from benchmarks.macro.scenario import (
    FLOOD_SECTION,
    Bench,
    Better,
    Metric,
    Of,
    Outcome,
    OverRounds,
    Scenario,
    Stopwatch,
    Target,
    collector_off,
    unique_name,
)
from benchmarks.macro.scenarios.flood_loads import Bystander, Connector, Declarer, Flood, Worker

BODY_SIZE: Final = 16
DECLARE_TARGET_MS: Final = 750.0
CONNECT_TARGET_MS: Final = 1_100.0
STOP_TARGET_S: Final = 15.0
#: more resident memory than this ends the flood early, and the broker is stopped then
RSS_LIMIT_BYTES: Final = 5_000_000_000
#: more than this while it stops, and it is killed
STOPPING_RSS_LIMIT_BYTES: Final = 6_000_000_000
STOP_LIMIT_S: Final = 60.0
#: how long after its time the flood goes on for calls that are not answered yet
GRACE_S: Final = 5.0
WATCH_INTERVAL_S: Final = 0.02
LEAVE_TIMEOUT_S: Final = 5.0


class FanoutFlood(Scenario):
    """`publishers` connections send to `queues` transient queues for `seconds`."""

    is_long: ClassVar[bool] = True
    section: ClassVar[str] = FLOOD_SECTION
    wants_fresh_broker: ClassVar[bool] = True
    needs_pid: ClassVar[bool] = True
    ends_broker: ClassVar[bool] = True

    def __init__(self, publishers: int, queues: int, seconds: float) -> None:
        worst = OverRounds.WORST
        super().__init__(
            f"fanout_flood_{publishers}_to_{queues}_queues_{seconds:g}s_{BODY_SIZE}B",
            f"{publishers} publishers flood {queues:,} transient queues through a fanout exchange "
            f"for {seconds:g} s, then the broker is stopped",
            (
                Metric("entries routed", "entries/s", Better.HIGHER),
                Metric("declare p50", "ms", Better.LOWER),
                Metric(
                    "declare max", "ms", Better.LOWER, Target(Of.VALUE, DECLARE_TARGET_MS), worst
                ),
                Metric("new connection p50", "ms", Better.LOWER),
                Metric(
                    "new connection max",
                    "ms",
                    Better.LOWER,
                    Target(Of.VALUE, CONNECT_TARGET_MS),
                    worst,
                ),
                Metric("orderly stop", "s", Better.LOWER, Target(Of.VALUE, STOP_TARGET_S), worst),
                Metric("RSS at the end", "MB", Better.LOWER),
            ),
        )
        self._publishers = publishers
        self._queues = queues
        self._seconds = seconds

    def run(self, bench: Bench) -> Outcome:
        assert bench.pid is not None, "the runner gives the process to a scenario that needs it"
        assert bench.broker is not None, "the runner gives the broker to a scenario that ends it"
        with contextlib.ExitStack() as stack:
            control = stack.enter_context(bench.control())
            exchange, queues = self._declare(control)
            base = machine.rss_bytes(bench.pid)
            flooding = [self._silent(stack, bench) for _ in range(self._publishers)]
            flood = Flood(flooding, exchange, BODY_SIZE)
            declarer = Declarer(self._silent(stack, bench), queues)
            connector = Connector(bench.url)
            crowd = _Crowd(bench.pid, flood, (declarer, connector))
            stack.callback(crowd.leave)
            stack.enter_context(collector_off())
            watch = Stopwatch(bench.pid)
            started = time.monotonic()
            crowd.come()
            crowd.stay(self._seconds)
            watch.stop()
            declares, connects = declarer.ascending(), connector.ascending()
            entries_per_s = declarer.entries_per_s(started)
            rss = machine.rss_bytes(bench.pid)
            published = flood.published
            flood.allow_breaks()
            ending = bench.broker.end(STOP_LIMIT_S, STOPPING_RSS_LIMIT_BYTES)
        return watch.outcome(
            {
                "entries routed": entries_per_s,
                "declare p50": percentile(declares, 0.5) * 1e3,
                "declare max": declares[-1] * 1e3,
                "new connection p50": percentile(connects, 0.5) * 1e3,
                "new connection max": connects[-1] * 1e3,
                # killed early is no quick stop
                "orderly stop": ending.seconds
                if ending.killed_because is None
                else max(ending.seconds, STOP_LIMIT_S),
                "RSS at the end": rss / 1e6,
            },
            {
                "seconds of the flood": watch.elapsed_s,
                "messages given to the sockets": float(published),
                "declares": float(len(declares)),
                "new connections": float(len(connects)),
                "RSS before in MB": base / 1e6,
                "peak RSS while it stopped in MB": ending.peak_rss_bytes / 1e6,
            },
            [*crowd.remarks, *_remarks_of(ending)],
        )

    def _declare(self, control: Client) -> tuple[str, list[str]]:
        """The exchange and its queues; nothing deletes them, as the broker does not live on."""
        exchange = unique_name("flood")
        control.declare_exchange(exchange, "fanout")
        queues = [f"{exchange}.{number:05d}" for number in range(self._queues)]
        for queue in queues:
            control.declare_queue(queue)
            control.bind(queue, exchange, nowait=True)
        control.ready_count(queues[-1])  # an answer: all bindings are there
        return exchange, queues

    @staticmethod
    def _silent(stack: contextlib.ExitStack, bench: Bench) -> Client:
        """A connection that is dropped at the end, without a goodbye to wait for."""
        client = Client(bench.url)
        stack.callback(client.sock.close)
        return client


class _Crowd:
    """The flood and the bystanders, and the watch over the time and the broker's memory."""

    def __init__(self, pid: int, flood: Flood, bystanders: Sequence[Bystander]) -> None:
        self.remarks: list[str] = []
        self._pid = pid
        self._bystanders = bystanders
        self._all: list[Worker] = [flood, *bystanders]
        self._begun = 0.0

    def come(self) -> None:
        self._begun = time.monotonic()
        for worker in self._all:
            worker.start()

    def stay(self, seconds: float) -> None:
        """Return when that time is over and the last calls are answered, or when it must end early.

        :raises BenchmarkError: a publisher or bystander failed.
        """
        is_in_bounds = self._watch_until(self._begun + seconds, lambda: False)
        for bystander in self._bystanders:
            bystander.finish()
        if is_in_bounds:
            self._watch_until(self._begun + seconds + GRACE_S, self._has_answers)
        for bystander in self._bystanders:
            bystander.join(WATCH_INTERVAL_S)  # it may have been between two calls
            if bystander.is_alive():
                self.remarks.append(
                    f"{bystander.name} waited for an answer when the broker was stopped; that call "
                    "counts with the time it had waited"
                )

    def leave(self) -> None:
        """The threads end: at once, or with the broker's process where they wait for it."""
        for worker in self._all:
            worker.finish()
        for worker in self._all:
            if worker.is_alive():
                worker.join(LEAVE_TIMEOUT_S)

    def _has_answers(self) -> bool:
        return not any(bystander.is_alive() for bystander in self._bystanders)

    def _watch_until(self, deadline: float, is_done: Callable[[], bool]) -> bool:
        """Wait; False if the broker has grown too large for going on."""
        while True:
            is_over = is_done() or time.monotonic() >= deadline
            for worker in self._all:
                worker.check()
            if machine.rss_bytes(self._pid) > RSS_LIMIT_BYTES:
                self.remarks.append(
                    f"its memory passed {RSS_LIMIT_BYTES / 1e9:g} GB, so the flood ended after "
                    f"{time.monotonic() - self._begun:.1f} s"
                )
                return False
            if is_over:
                return True
            time.sleep(WATCH_INTERVAL_S)


def _remarks_of(ending: Ending) -> list[str]:
    if ending.killed_because is None:
        return []
    return [f"it was killed, which counts as a stop of {STOP_LIMIT_S:g} s: {ending.killed_because}"]
