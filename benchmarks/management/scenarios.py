"""What is measured of the HTTP API and the web UI. Used by ``__main__``."""

from __future__ import annotations

import contextlib
import http.client
import json
import time
from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import ClassVar, Final
from urllib.parse import quote, urlsplit

from benchmarks.macro.brokers import Hareline
from benchmarks.macro.errors import BenchmarkError
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
)
from benchmarks.macro.scenarios.latency import RATE_PER_S, TransientLatency
from benchmarks.management import pages, stage
from benchmarks.management.asking import Ask, Asker, request

LISTS_SECTION: Final = "Lists and messages"
PAGES_SECTION: Final = "Pages of the UI"
LATENCY_SECTION: Final = "Publishers"

BROWSED: Final = 25  # as the UI does
#: each number of a list is measured for so much of a round
ANSWERS_SHARE: Final = 1 / 3
DROP_MAX_PERCENT: Final = 10
LIST_MAX_MS: Final = 150
PAGED_MAX_MS: Final = 250
BROWSE_MAX_MS: Final = 100
CONNECTIONS: Final = 500


class ManagementScenario(Scenario):
    """One with the HTTP API of a broker that this run has started."""

    is_for_subject_only: ClassVar[bool] = True
    needs_restart: ClassVar[bool] = True  # the address is known of an own broker only
    needs_pid: ClassVar[bool] = True

    def asker(self, bench: Bench) -> Asker:
        """A process that asks this broker."""
        return Asker(_management_url(bench))


class Answers(ManagementScenario):
    """How long answers take: at the 99th percentile, and the median beside it.

    `is_loaded`: while messages go through the broker as fast as they can.
    """

    section: ClassVar[str] = LISTS_SECTION

    def __init__(
        self, name: str, summary: str, measured: Sequence[str], bound_ms: float, *, is_loaded: bool
    ) -> None:
        target = Target(Of.VALUE, bound_ms)
        metrics = tuple(Metric(f"p99, {each}", "ms", Better.LOWER, target) for each in measured)
        super().__init__(
            f"{name}_{'full_load' if is_loaded else 'idle'}",
            f"{summary}, {'under a full load' if is_loaded else 'idle'}",
            metrics,
        )
        self._measured = measured
        self._is_loaded = is_loaded

    @abstractmethod
    def ready(self, bench: Bench) -> contextlib.AbstractContextManager[list[list[Ask]]]:
        """What has to be there, and the requests of each metric."""

    def run(self, bench: Bench) -> Outcome:
        values: dict[str, float] = {}
        details: dict[str, float] = {}
        watch = Stopwatch(bench.pid)
        rates: list[float] = []
        processor_s = 0.0
        seconds = bench.seconds * ANSWERS_SHARE
        with contextlib.ExitStack() as stack:
            asked = stack.enter_context(self.ready(bench))
            load = stack.enter_context(stage.full_load(bench)) if self._is_loaded else None
            asker = stack.enter_context(self.asker(bench))
            watch.start()
            for name, asks in zip(self._measured, asked, strict=True):
                found: list[float] = []
                for ask in asks:
                    asker.begin([ask], seconds / len(asks))
                    if load is not None:
                        rate, watch = load.run(seconds / len(asks))
                        rates.append(rate)
                    found += asker.end()[0]
                if load is None:
                    watch.stop()
                    processor_s, before_s = watch.cores["broker"] * watch.elapsed_s, processor_s
                    each_ms = 1000 * (processor_s - before_s) / len(found)
                    details[f"{name}: broker's processor time in ms"] = each_ms
                times = sorted(each * 1000 for each in found)
                values[f"p99, {name}"] = percentile(times, 0.99)
                details[f"{name}: p50 in ms"] = percentile(times, 0.5)
                details[f"{name}: requests"] = len(times)
        if load is not None:
            details["messages per second meanwhile"] = sum(rates) / len(rates)
        return watch.outcome(values, details)


class WholeList(Answers):
    """All queues as one array."""

    def __init__(self, count: int, *, is_loaded: bool) -> None:
        super().__init__(
            f"list_{count}_queues",
            f"GET /api/queues with {count:,} queues",
            ["all of them"],
            LIST_MAX_MS,
            is_loaded=is_loaded,
        )
        self._count = count

    @contextlib.contextmanager
    def ready(self, bench: Bench) -> Iterator[list[list[Ask]]]:
        with stage.queues(bench, self._count):
            yield [[Ask("/api/queues")]]


class SortedPages(Answers):
    """The first page of a list by each column that the UI sorts it by, in both directions."""

    def __init__(self, name: str, count: int, *, is_loaded: bool) -> None:
        self._sorts = pages.offered_sorts(name)
        super().__init__(
            f"page_of_{count}_{name}",
            f"a page of {count:,} {name} by each column",
            [f"by {sort}" for sort in self._sorts],
            PAGED_MAX_MS,
            is_loaded=is_loaded,
        )
        self._list = name
        self._count = count

    @contextlib.contextmanager
    def ready(self, bench: Bench) -> Iterator[list[list[Ask]]]:
        is_of_queues = self._list in ("queues", "consumers")
        make = stage.queues if is_of_queues else stage.connections
        with make(bench, self._count):
            yield [
                [
                    Ask(pages.list_path(self._list, sort, is_reversed=is_reversed))
                    for is_reversed in (False, True)
                ]
                for sort in self._sorts
            ]


class Browse(Answers):
    """The newest messages of a deep queue."""

    def __init__(self, depth: int, *, is_loaded: bool) -> None:
        super().__init__(
            f"browse_end_of_{depth}",
            f"the last {BROWSED} messages of a queue with {depth:,}",
            ["the end"],
            BROWSE_MAX_MS,
            is_loaded=is_loaded,
        )
        self._depth = depth

    @contextlib.contextmanager
    def ready(self, bench: Bench) -> Iterator[list[list[Ask]]]:
        with stage.deep_queue(bench, self._depth) as name:
            body = json.dumps({"count": BROWSED, "start": "end", "truncate": 65_536})
            yield [[Ask(f"/api/queues/%2F/{quote(name, safe='')}/browse", body=body)]]


class OpenPage(ManagementScenario):
    """A full message load with a page of the UI open beside it, and without.

    The broker has its core to itself in both cases, so what a page costs is what messages do not
    get of it. The drop is that of messages per second of the broker's processor time: a rate moves
    with everything else on the machine.
    """

    section: ClassVar[str] = PAGES_SECTION

    def __init__(
        self, name: str, summary: str, count: int, asks: Callable[[str, Sequence[str]], list[Ask]]
    ) -> None:
        super().__init__(
            f"open_{name}_{count}_queues",
            f"{summary}, {count:,} queues",
            (
                Metric("drop of the rate", "%", Better.LOWER, Target(Of.VALUE, DROP_MAX_PERCENT)),
                Metric("processor time of the page", "% of a core", Better.LOWER),
            ),
        )
        self._count = count
        self._asks = asks

    @contextlib.contextmanager
    def ready(self, bench: Bench) -> Iterator[list[Ask]]:
        """What has to be there, and the requests of the page."""
        with stage.queues(bench, self._count) as names:
            yield self._asks(_node_of(_management_url(bench)), names)

    def run(self, bench: Bench) -> Outcome:
        with self.ready(bench) as asks, self.asker(bench) as asker:
            asker.times(asks, 0.1)  # what is made once is made
            alone = self._processor_time(bench, asker, [])
            page = self._processor_time(bench, asker, asks)
            with stage.full_load(bench) as load:
                before, without = load.run(bench.seconds)
                asker.begin(asks, bench.seconds + stage.LOAD_WARM_UP_S)
                beside, watch = load.run(bench.seconds)
                times = sorted(1000 * each for answers in asker.end() for each in answers)
        cost_without = without.cores["broker"] / before
        cost = watch.cores["broker"] / beside
        return watch.outcome(
            {
                "drop of the rate": 100 * (1 - cost_without / cost),
                "processor time of the page": page - alone,
            },
            {
                "msg/s without": before,
                "msg/s with the page": beside,
                "us/msg without": cost_without * 1e6,
                "us/msg with the page": cost * 1e6,
                "processor time of an idle broker in % of a core": alone,
                "longest answer in ms": times[-1],
            },
        )

    def _processor_time(self, bench: Bench, asker: Asker, asks: Sequence[Ask]) -> float:
        """What the broker takes of a core, in percent, with no messages."""
        watch = Stopwatch(bench.pid)
        end_s = time.monotonic() + bench.seconds
        if asks:
            asker.times(asks, bench.seconds)
        time.sleep(max(0.0, end_s - time.monotonic()))  # until they would be made once more
        watch.stop()
        return 100 * watch.cores["broker"]


class OpenDeadLetters(OpenPage):
    """The page of dead letters, with a hundred queues of them."""

    @contextlib.contextmanager
    def ready(self, bench: Bench) -> Iterator[list[Ask]]:
        with super().ready(bench) as asks, stage.dead_letters(bench):
            yield asks


class LatencyBesidePage(ManagementScenario):
    """A publisher at a fixed rate, with a page open and without."""

    section: ClassVar[str] = LATENCY_SECTION

    def __init__(self, count: int) -> None:
        super().__init__(
            f"latency_{RATE_PER_S}_per_s_{count}_queues",
            f"publish to delivery at {RATE_PER_S:,} msg/s, open loop, the list of {count:,} queues "
            "open",
            (
                Metric("p99 without", "ms", Better.LOWER),
                Metric("p99 with the page", "ms", Better.LOWER),
            ),
        )
        self._count = count

    def run(self, bench: Bench) -> Outcome:
        broker = bench.broker
        assert isinstance(broker, Hareline)
        turns = broker.watch_turns()
        bench = replace(bench, url=broker.url, pid=broker.pid)
        values: dict[str, float] = {}
        details: dict[str, float] = {}
        load = TransientLatency(RATE_PER_S)
        watch = Stopwatch(bench.pid)
        try:
            with stage.queues(bench, self._count), self.asker(bench) as asker:
                for name in ("without", "with the page"):
                    if name != "without":
                        asker.begin(pages.queues(), bench.seconds)
                    turns.clear()
                    count = int(RATE_PER_S * bench.seconds)
                    loop = load.send(bench, count, 1, RATE_PER_S, watch)
                    counts = turns.read()
                    times = sorted(loop.latencies_ns)
                    values[f"p99 {name}"] = percentile(times, 0.99) / 1e6
                    for share, word in ((0.5, "p50"), (0.999, "p99.9"), (1.0, "max")):
                        details[f"{word} {name}, ms"] = percentile(times, share) / 1e6
                    late = sorted(loop.lateness_ns)
                    details[f"generator late p99 {name}, ms"] = percentile(late, 0.99) / 1e6
                    details[f"long turns {name}"] = counts.long_turns
                    details[f"longest turn {name}, ms"] = counts.longest_turn_ms
                    details[f"longest collection {name}, ms"] = counts.longest_collection_ms
                asker.end()
        finally:
            broker.stop()  # the next scenario is to have a process that counts nothing
        return watch.outcome(values, details)


def scenarios(*, is_quick: bool) -> list[Scenario]:
    """All of them, in the order of the report."""
    few, many, depth = (100, 1_000, 100_000) if is_quick else (1_000, 10_000, 1_000_000)
    open_connections = 50 if is_quick else CONNECTIONS
    lists: list[Scenario] = []
    for is_loaded in (False, True):
        lists += [
            WholeList(few, is_loaded=is_loaded),
            SortedPages("queues", many, is_loaded=is_loaded),
            SortedPages("consumers", many, is_loaded=is_loaded),
            SortedPages("channels", open_connections, is_loaded=is_loaded),
            SortedPages("connections", open_connections, is_loaded=is_loaded),
            Browse(depth, is_loaded=is_loaded),
        ]
    return [
        *lists,
        OpenPage("overview", "the overview", many, lambda node, _: pages.overview(node)),
        OpenPage("queues", "500 queues by their growth", many, lambda *_: pages.queues()),
        OpenPage("consumers", "500 consumers by age", many, lambda *_: pages.consumers()),
        OpenPage("queue", "one queue", many, lambda _, names: pages.one_queue(names[0])),
        OpenDeadLetters("dead_letters", "dead letters", many, lambda *_: pages.dead_letters()),
        OpenPage("near_limits", "limits", many, lambda *_: pages.near_limits()),
        LatencyBesidePage(many),
    ]


def _management_url(bench: Bench) -> str:
    if bench.broker is None:
        raise BenchmarkError("the HTTP address of the broker is not known")
    return bench.broker.management_url


def _node_of(url: str) -> str:
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port)
    with contextlib.closing(connection):
        overview = json.loads(request(connection, Ask("/api/overview?columns=node")))
    return str(overview["node"])
