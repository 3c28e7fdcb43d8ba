"""What the durable store can do and what it costs: recovery, deep queues, octets written.

These run only on this tree's broker. Each gets a process that has done nothing before, because they
read its memory and everything it has written.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import ClassVar, Final

from benchmarks.macro import disk, machine
from benchmarks.macro.brokers import Broker
from benchmarks.macro.client import Client
from benchmarks.macro.errors import BenchmarkError
from benchmarks.macro.scenario import (
    DURABLE_SECTION,
    Bench,
    Better,
    Metric,
    Of,
    Outcome,
    Scenario,
    Stopwatch,
    Target,
    unique_name,
)
from benchmarks.macro.scenarios.durable_loads import (
    PREFETCH,
    confirmed_publisher,
    drain,
    durable_queue,
    expect_ready,
    expect_written,
    fill,
    persistent_address,
    publish_confirmed,
)

KIB: Final = 1024
RECOVERY_TARGET_S: Final = 15.0
DEEP_MEMORY_TARGET_MB: Final = 1_000.0
DEEP_DRAIN_TARGET: Final = 0.6
SHALLOW_DEPTH: Final = 20_000
SHALLOW_REPEATS: Final = 10
SAMPLE_EVERY_S: Final = 0.05
SETTLE_S: Final = 15.0
SEGMENT_BYTES: Final = 64 << 20  # the default of journal.segment_bytes
#: so many messages of 1 KiB with what stands around each fill half a segment or less
HALF_SEGMENT_MESSAGES: Final = 29_000
FANOUT_QUEUES: Final = 10
FANOUT_PER_S: Final = 10_000  # messages for each second that a rate would be measured
#: what a message of 1 KiB may take on disk, with room for files that are kept ready
DISK_BYTES_PER_MESSAGE: Final = 1_500


class OnStore(Scenario):
    """A fresh broker of this tree with its journal in `Bench.broker.data_dir`."""

    is_long: ClassVar[bool] = True
    section: ClassVar[str] = DURABLE_SECTION
    is_for_subject_only: ClassVar[bool] = True
    wants_fresh_broker: ClassVar[bool] = True
    needs_pid: ClassVar[bool] = True


class Recovery(OnStore):
    """From starting `hareline serve` on a filled directory until a client is connected.

    After SIGKILL the kernel still has the files in memory, as it has when a broker dies; after an
    orderly stop they are dropped from there, as if the machine had been restarted.
    """

    needs_restart: ClassVar[bool] = True

    def __init__(self, count: int) -> None:
        target = Target(Of.VALUE, RECOVERY_TARGET_S)
        super().__init__(
            f"recovery_{count}_1KiB",
            f"{count:,} persistent messages ready again after a restart",
            (
                Metric("after SIGKILL", "s", Better.LOWER, target),
                Metric("after a stop, nothing cached", "s", Better.LOWER, target),
            ),
        )
        self._count = count

    def run(self, bench: Bench) -> Outcome:
        broker, data_dir = _own(bench)
        _need_disk(data_dir, self._count)
        queue = unique_name("recovery")
        with bench.control() as control:
            control.declare_queue(queue, is_durable=True)
            fill_s = fill(bench, control, queue, KIB, self._count)
        killed_s = self._restart(broker, queue, is_killed=True)
        stopped_s = self._restart(broker, queue, is_killed=False)
        bench = replace(bench, url=broker.url, pid=broker.pid)
        assert bench.pid is not None
        rss = machine.rss_bytes(bench.pid)
        with bench.control() as control:
            drain_s = drain(bench, control, queue, KIB, self._count)
            control.delete_queue(queue)
        return Outcome(
            {"after SIGKILL": killed_s, "after a stop, nothing cached": stopped_s},
            {
                "fill in msg/s": self._count / fill_s,
                "RSS after recovery in MB": rss / 1e6,
                "drain after recovery in msg/s": self._count / drain_s,
            },
        )

    def _restart(self, broker: Broker, queue: str, *, is_killed: bool) -> float:
        """Seconds of the start; all messages are ready after it."""
        broker.halt(is_killed=is_killed)
        if not is_killed and broker.data_dir is not None:
            disk.forget_cached(broker.data_dir)
        seconds = broker.resume()
        with Client(broker.url) as control:
            expect_ready(control, queue, self._count)
        return seconds


class DurableDeepQueue(OnStore):
    """`depth` messages published with confirms, then drained by a consumer that acks."""

    needs_restart: ClassVar[bool] = True  # it looks at the data directory
    rounds_max: ClassVar[int | None] = 1

    def __init__(self, depth: int) -> None:
        super().__init__(
            f"persistent_deep_queue_{depth}_1KiB",
            f"{depth:,} persistent messages in one queue, then drained, an ack each 100, "
            f"prefetch {PREFETCH:,}",
            (
                Metric("peak RSS", "MB", Better.LOWER, Target(Of.VALUE, DEEP_MEMORY_TARGET_MB)),
                Metric("drain of the deep queue", "msg/s", Better.HIGHER),
                Metric("drain of a shallow queue", "msg/s", Better.HIGHER),
                Metric(
                    "deep drain / shallow drain",
                    "x",
                    Better.HIGHER,
                    Target(Of.VALUE, DEEP_DRAIN_TARGET),
                ),
            ),
        )
        self._depth = depth

    def run(self, bench: Bench) -> Outcome:
        assert bench.pid is not None, "the runner gives the process to a scenario that needs it"
        _, data_dir = _own(bench)
        _need_disk(data_dir, self._depth)
        with bench.control() as control, durable_queue(control, "deep") as deep:
            shallow_rate = _shallow_rate(bench, control)
            base = machine.rss_bytes(bench.pid)
            with watched_rss(bench.pid) as filling:
                fill_s = fill(bench, control, deep, KIB, self._depth)
            on_disk = disk.used_bytes(data_dir)
            watch = Stopwatch(bench.pid)
            with watched_rss(bench.pid) as draining:
                deep_rate = self._depth / drain(bench, control, deep, KIB, self._depth)
            watch.stop()
            peak = machine.peak_rss_bytes(bench.pid)
        return watch.outcome(
            {
                "peak RSS": peak / 1e6,
                "drain of the deep queue": deep_rate,
                "drain of a shallow queue": shallow_rate,
                "deep drain / shallow drain": deep_rate / shallow_rate,
            },
            {
                "fill in msg/s": self._depth / fill_s,
                "RSS before in MB": base / 1e6,
                "peak RSS while filled in MB": filling.peak / 1e6,
                "peak RSS while drained in MB": draining.peak / 1e6,
                "on disk when full in MB": on_disk / 1e6,
            },
        )


def _shallow_rate(bench: Bench, control: Client) -> float:
    """Deliveries per second of a queue that is filled and drained again and again."""
    with durable_queue(control, "shallow") as queue:
        drain_s = 0.0
        for number in range(1 + SHALLOW_REPEATS):
            fill(bench, control, queue, KIB, SHALLOW_DEPTH)
            seconds = drain(bench, control, queue, KIB, SHALLOW_DEPTH)
            drain_s += seconds if number else 0.0  # what is set up once is paid in the first
    return SHALLOW_DEPTH * SHALLOW_REPEATS / drain_s


class OldMessages(OnStore):
    """Traffic that leaves an unacked message of another queue in each segment of the journal.

    The traffic is the same with and without them: fill a queue with about a segment, drain it,
    again. What is written beyond the traffic without them is what it costs to keep old messages
    from holding whole segments. On the disk there must be room for a few segments only.
    """

    needs_restart: ClassVar[bool] = True  # it looks at the data directory

    def __init__(self, segments: int) -> None:
        super().__init__(
            f"journal_old_unacked_in_{segments}_segments_1KiB",
            f"{segments} x {2 * HALF_SEGMENT_MESSAGES:,} persistent messages filled and drained, "
            "one old unacked message in each segment",
            (
                Metric("written / published", "x", Better.LOWER),
                Metric("written / published without old ones", "x", Better.LOWER),
                Metric("extra for old ones / published", "x", Better.LOWER),
                Metric("on disk afterwards", "MB", Better.LOWER),
            ),
        )
        self._segments = segments

    def run(self, bench: Bench) -> Outcome:
        assert bench.pid is not None, "the runner gives the process to a scenario that needs it"
        _, data_dir = _own(bench)
        published = self._segments * 2 * HALF_SEGMENT_MESSAGES * KIB
        _need_disk(data_dir, published // KIB)
        with bench.control() as control:
            without = self._written(bench, control, holding=None)
            with Client(bench.url) as holder, durable_queue(control, "old") as old:
                holder.consume(old, no_ack=False)
                watch = Stopwatch(bench.pid)
                with_old = self._written(bench, control, holding=old)
                watch.stop()
                on_disk = disk.used_bytes(data_dir)
        return watch.outcome(
            {
                "written / published": with_old / published,
                "written / published without old ones": without / published,
                "extra for old ones / published": (with_old - without) / published,
                "on disk afterwards": on_disk / 1e6,
            },
            {
                "published in MB": published / 1e6,
                "old messages": float(2 * self._segments),
                "seconds, with old ones": watch.elapsed_s,
            },
        )

    def _written(self, bench: Bench, control: Client, *, holding: str | None) -> int:
        """What the broker writes for the traffic; `holding` is the queue of old messages."""
        assert bench.pid is not None
        before = machine.written_bytes(bench.pid)
        with durable_queue(control, "traffic") as queue, contextlib.ExitStack() as stack:
            keep = None
            if holding is not None:
                client = stack.enter_context(Client(bench.url))
                keep = confirmed_publisher(client, [persistent_address(holding)], KIB)
            for _ in range(self._segments):
                with Client(bench.url) as client:
                    traffic = confirmed_publisher(client, [persistent_address(queue)], KIB)
                    for _ in range(2):
                        publish_confirmed(traffic, HALF_SEGMENT_MESSAGES)
                        if keep is not None:
                            publish_confirmed(keep, 1)
                drain(bench, control, queue, KIB, 2 * HALF_SEGMENT_MESSAGES)
            settled = machine.settled_rss_bytes(bench.pid, SETTLE_S, read=machine.written_bytes)
        return settled - before


class DurableFanout(OnStore):
    """One persistent message to ten durable queues: how often is it written?"""

    def __init__(self) -> None:
        super().__init__(
            f"persistent_fanout_1_to_{FANOUT_QUEUES}_1KiB",
            f"fanout exchange to {FANOUT_QUEUES} durable queues, confirms, no consumers",
            (
                Metric("written per message", "bytes", Better.LOWER),
                Metric("written per message to one queue", "bytes", Better.LOWER),
                Metric("confirms", "msg/s", Better.HIGHER),
            ),
        )

    def run(self, bench: Bench) -> Outcome:
        count = int(FANOUT_PER_S * bench.seconds)
        watch = Stopwatch(bench.pid)
        with bench.control() as control:
            _, one = self._publish(bench, control, 1, count)
            watch.start()
            elapsed_s, all_of_them = self._publish(bench, control, FANOUT_QUEUES, count)
            watch.stop()
        return watch.outcome(
            {
                "written per message": all_of_them / count,
                "written per message to one queue": one / count,
                "confirms": count / elapsed_s,
            }
        )

    def _publish(
        self, bench: Bench, control: Client, queue_count: int, count: int
    ) -> tuple[float, int]:
        """Seconds until all was confirmed, and the octets written by then."""
        assert bench.pid is not None, "the runner gives the process to a scenario that needs it"
        exchange = unique_name("fanout")
        control.declare_exchange(exchange, "fanout", is_durable=True)
        with contextlib.ExitStack() as stack:
            stack.callback(_delete_exchange, control, exchange)
            queues = [
                stack.enter_context(durable_queue(control, f"fan{number:02d}"))
                for number in range(queue_count)
            ]
            for queue in queues:
                control.bind(queue, exchange)
            with Client(bench.url) as client:
                addresses = [persistent_address("fan", exchange)]
                publisher = confirmed_publisher(client, addresses, KIB)
                before = machine.written_bytes(bench.pid)
                elapsed_s = publish_confirmed(publisher, count)
                written = machine.written_bytes(bench.pid) - before
            expect_written(written, count, KIB)
            for queue in queues:
                expect_ready(control, queue, count)
        return elapsed_s, written


def _delete_exchange(control: Client, exchange: str) -> None:
    """A broker that is gone must not hide why it went."""
    with contextlib.suppress(BenchmarkError, OSError):
        control.delete_exchange(exchange)


class RssWatch(threading.Thread):
    """Reads the resident memory of a process again and again; `peak` is the most it saw."""

    def __init__(self, pid: int) -> None:
        super().__init__(name="rss", daemon=True)
        self.peak = machine.rss_bytes(pid)
        self._pid = pid
        self._is_over = threading.Event()

    def run(self) -> None:
        with contextlib.suppress(OSError):  # a process that is gone fails the scenario itself
            while not self._is_over.wait(SAMPLE_EVERY_S):
                self.peak = max(self.peak, machine.rss_bytes(self._pid))

    def end(self) -> None:
        self._is_over.set()
        self.join()


@contextlib.contextmanager
def watched_rss(pid: int) -> Iterator[RssWatch]:
    watch = RssWatch(pid)
    watch.start()
    try:
        yield watch
    finally:
        watch.end()


def _own(bench: Bench) -> tuple[Broker, Path]:
    """The broker and its data directory. :raises BenchmarkError: this run did not start it."""
    if bench.broker is None or bench.broker.data_dir is None:
        raise BenchmarkError("where the broker keeps its data is not known")
    return bench.broker, bench.broker.data_dir


def _need_disk(directory: Path, messages: int) -> None:
    """:raises BenchmarkError: so many messages of 1 KiB do not fit."""
    free, needed = disk.free_bytes(directory), messages * DISK_BYTES_PER_MESSAGE
    if free < needed:
        raise BenchmarkError(
            f"{messages:,} messages of 1 KiB need {needed / 1e9:.1f} GB on disk; there are "
            f"{free / 1e9:.1f} GB"
        )


def scenarios(recovered: int, depth: int, segments: int) -> list[Scenario]:
    """`recovered` and `depth` are numbers of messages."""
    return [
        Recovery(recovered),
        DurableDeepQueue(depth),
        OldMessages(segments),
        DurableFanout(),
    ]
