"""The flood against a broker in this process, its threads alone, and who may be stopped by it."""

from __future__ import annotations

import os
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import cast

import pytest

from benchmarks.macro import machine, runner, scenarios
from benchmarks.macro.brokers import Broker, Ending, RemoteBroker
from benchmarks.macro.client import Client
from benchmarks.macro.errors import BenchmarkError
from benchmarks.macro.scenario import (
    FLOOD_SECTION,
    Bench,
    Better,
    Of,
    Outcome,
    OverRounds,
    unique_name,
)
from benchmarks.macro.scenarios import fanout_flood
from benchmarks.macro.scenarios.fanout_flood import FanoutFlood
from benchmarks.macro.scenarios.flood_loads import Bystander, Declarer, Flood
from hareline.testing import running_broker

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
PUBLISHERS = 3
QUEUES = 5
SECONDS = 1.0
GRACE_S = 0.2
PATIENCE_S = 60.0

SilentAfter = Callable[[int], None]


class Here(Broker):
    """The broker of this process; ending it only counts what is in its queues."""

    is_renewable = True

    def __init__(self, url: str, ending: Ending) -> None:
        super().__init__("here")
        self.ending = ending
        self.queues: list[str] = []
        self.depths: list[int] = []
        self.stops = 0
        self._url = url

    @property
    def url(self) -> str:
        return self._url

    @property
    def pid(self) -> int:
        return os.getpid()

    def start(self) -> None: ...

    def stop(self) -> None:
        self.stops += 1

    def end(self, limit_s: float, rss_limit_bytes: int) -> Ending:
        with Client(self._url) as client:
            self.depths = [client.ready_count(queue) for queue in self.queues]
        return self.ending


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with running_broker() as url:
        yield url


@pytest.fixture
def here(url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Here]:
    broker = Here(url, Ending(1.5, 70_000_000, None))
    exchanges: list[str] = []

    def noted_name(stem: str) -> str:
        exchanges.append(unique_name(stem))
        broker.queues += [f"{exchanges[-1]}.{number:05d}" for number in range(QUEUES)]
        return exchanges[-1]

    monkeypatch.setattr(fanout_flood, "unique_name", noted_name)
    monkeypatch.setattr(fanout_flood, "GRACE_S", PATIENCE_S)
    yield broker
    with Client(url) as client:  # it lives on here, for the next test
        for exchange in exchanges:
            client.delete_exchange(exchange)
        for queue in broker.queues:
            client.delete_queue(queue)


@pytest.fixture
def silent_after(monkeypatch: pytest.MonkeyPatch) -> Iterator[SilentAfter]:
    """Lets the bystander's declares get that many answers, and the next one none until the end.

    The flood lasts as long as it should after that one, however late it was.
    """
    end, is_silent = threading.Event(), threading.Event()
    read, stay = Client.ready_count, fanout_flood._Crowd.stay

    def arrange(answers: int) -> None:
        left = [answers]

        def answer_or_wait(client: Client, queue: str) -> int:
            if isinstance(threading.current_thread(), Declarer):
                left[0] -= 1
                if left[0] < 0:
                    is_silent.set()
                    assert end.wait(PATIENCE_S)
            return read(client, queue)

        def stay_in_silence(crowd: fanout_flood._Crowd, seconds: float) -> None:
            assert is_silent.wait(PATIENCE_S)
            crowd._begun = time.monotonic()
            stay(crowd, seconds)

        monkeypatch.setattr(Client, "ready_count", answer_or_wait)
        monkeypatch.setattr(fanout_flood._Crowd, "stay", stay_in_silence)
        monkeypatch.setattr(fanout_flood, "GRACE_S", GRACE_S)
        monkeypatch.setattr(fanout_flood, "LEAVE_TIMEOUT_S", 0.0)

    yield arrange
    end.set()


def flood(broker: Here) -> Outcome:
    scenario = FanoutFlood(PUBLISHERS, QUEUES, SECONDS)
    outcome = scenario.run(Bench(broker.url, broker.pid, 1.0, broker))
    assert set(outcome.values) == {metric.name for metric in scenario.metrics}
    return outcome


class TestScenario:
    @pytest.mark.acceptance
    def test_a_flood_gives_the_numbers_it_promises(self, here: Here) -> None:
        outcome = flood(here)
        assert outcome.remarks == []
        assert outcome.values["orderly stop"] == 1.5
        for call in ("declare", "new connection"):
            assert 0 < outcome.values[f"{call} p50"] <= outcome.values[f"{call} max"]
        assert outcome.values["RSS at the end"] > 1
        assert outcome.values["entries routed"] > 0
        assert outcome.details["seconds of the flood"] >= SECONDS
        assert outcome.details["peak RSS while it stopped in MB"] == 70

    @pytest.mark.acceptance
    def test_every_queue_has_messages_when_the_broker_is_stopped(self, here: Here) -> None:
        flood(here)
        assert len(here.depths) == QUEUES
        assert min(here.depths) > 0

    @pytest.mark.acceptance
    def test_too_much_memory_ends_the_flood_early(
        self, here: Here, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        asked: list[int] = []
        read = Client.ready_count

        def noted_count(client: Client, queue: str) -> int:
            asked.append(read(client, queue))
            return asked[-1]

        monkeypatch.setattr(Client, "ready_count", noted_count)
        monkeypatch.setattr(machine, "rss_bytes", lambda _: 7_000_000_000 * (len(asked) > 3))
        scenario = FanoutFlood(PUBLISHERS, QUEUES, PATIENCE_S)
        outcome = scenario.run(Bench(here.url, here.pid, 1.0, here))
        assert outcome.details["seconds of the flood"] < PATIENCE_S
        assert "memory passed 5 GB, so the flood ended after" in outcome.remarks[0]

    @pytest.mark.acceptance
    def test_a_killed_broker_is_told_and_was_not_quick(self, here: Here) -> None:
        here.ending = Ending(0.5, 7_000_000_000, "its memory passed 6 GB while it stopped")
        outcome = flood(here)
        assert outcome.values["orderly stop"] == fanout_flood.STOP_LIMIT_S
        assert outcome.remarks == [
            "it was killed, which counts as a stop of 60 s: its memory passed 6 GB while it stopped"
        ]

    @pytest.mark.acceptance
    def test_a_call_without_an_answer_counts_with_the_time_it_waited(
        self, here: Here, silent_after: SilentAfter
    ) -> None:
        silent_after(1)
        outcome = flood(here)
        assert outcome.details["declares"] == 2
        assert outcome.values["declare max"] >= GRACE_S * 1e3
        assert "the client that declares queues waited for an answer" in outcome.remarks[0]

    @pytest.mark.acceptance
    def test_without_any_answer_there_is_no_count_of_entries(
        self, here: Here, silent_after: SilentAfter
    ) -> None:
        silent_after(0)
        with pytest.raises(BenchmarkError, match=r"no queue\.declare was answered during"):
            flood(here)

    def test_the_bars_are_those_of_the_project(self) -> None:
        [scenario] = [s for s in scenarios.full() if s.section == FLOOD_SECTION]
        assert scenario.name == "fanout_flood_20_to_1000_queues_8s_16B"
        bars = {m.name: (m.target.bound, m.unit) for m in scenario.metrics if m.target}
        assert bars == {
            "declare max": (750.0, "ms"),
            "new connection max": (1_100.0, "ms"),
            "orderly stop": (15.0, "s"),
        }
        for metric in scenario.metrics:
            if metric.target:
                assert metric.target.of is Of.VALUE
                assert (metric.better, metric.over_rounds) == (Better.LOWER, OverRounds.WORST)


class Waiting(Bystander):
    """Its first call is quick; the second waits to be let go."""

    def __init__(self) -> None:
        super().__init__("the client that waits")
        self.release = threading.Event()
        self.is_second = threading.Event()
        self._count = 0

    def call(self) -> None:
        self._count += 1
        with self.timed():
            if self._count == 2:
                self.is_second.set()
                assert self.release.wait(PATIENCE_S)
                raise OSError("connection reset")


class TestBystander:
    def test_a_call_that_waits_counts_with_the_time_so_far(self) -> None:
        bystander = Waiting()
        bystander.start()
        assert bystander.is_second.wait(PATIENCE_S)
        first, second = bystander.ascending(), bystander.ascending()
        assert len(first) == len(second) == 2
        assert second[-1] > first[-1]
        bystander.check()
        bystander.finish()
        bystander.release.set()
        bystander.join(PATIENCE_S)
        with pytest.raises(BenchmarkError, match="the client that waits: connection reset"):
            bystander.check()

    def test_it_begins_no_call_once_it_is_to_finish(self) -> None:
        bystander = Waiting()
        bystander.finish()
        bystander.start()
        bystander.join(PATIENCE_S)
        assert bystander.ascending() == []


def test_the_queue_asked_last_stands_for_all_of_them() -> None:
    class Endpoint:
        def __init__(self) -> None:
            self.depths = iter((30, 40))

        def ready_count(self, queue: str) -> int:
            return next(self.depths)

    declarer = Declarer(cast("Client", Endpoint()), ["a", "b", "c"])
    begun = time.monotonic() - 2.0
    declarer.call()
    declarer.call()
    assert declarer.entries_per_s(begun) == pytest.approx(40 * 3 / 2.0, rel=0.5)


@pytest.fixture
def pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        yield ours, theirs


def flood_on(sock: socket.socket) -> Flood:
    class Endpoint:
        frame_max = 131_072

        def __init__(self) -> None:
            self.sock = sock

    return Flood([cast("Client", Endpoint())], "flooded", fanout_flood.BODY_SIZE)


class TestFlood:
    def test_it_sends_without_end_and_reads_nothing(
        self, pair: tuple[socket.socket, socket.socket]
    ) -> None:
        ours, theirs = pair
        load = flood_on(ours)
        theirs.sendall(b"connection.close, say")
        load.start()
        received = 0
        while received < 5_000_000:
            octets = theirs.recv(1 << 20)
            assert octets
            received += len(octets)
        load.finish()
        load.join(PATIENCE_S)
        load.check()
        assert load.published > received // 100
        ours.setblocking(True)
        assert ours.recv(100) == b"connection.close, say"

    @pytest.mark.parametrize("is_expected", [True, False])
    def test_a_connection_that_breaks_is_a_failure_until_the_broker_is_stopped(
        self, pair: tuple[socket.socket, socket.socket], is_expected: bool
    ) -> None:
        ours, theirs = pair
        load = flood_on(ours)
        if is_expected:
            load.allow_breaks()
        load.start()
        theirs.close()
        load.join(PATIENCE_S)
        assert not load.is_alive()
        if is_expected:
            load.check()
        else:
            with pytest.raises(BenchmarkError, match=r"a flooding publisher: .*Broken pipe"):
                load.check()


class TestRunning:
    def test_a_broker_that_is_not_ours_is_not_flooded(self) -> None:
        remote = RemoteBroker("elsewhere", "amqp://127.0.0.1:1/", pid=os.getpid())
        found = runner.run(
            [FanoutFlood(1, 1, 1.0)], [remote], rounds=1, seconds=1.0, say=lambda _: None
        )
        assert "must have started the broker" in (found.scenarios[0].skipped or "")

    def test_the_broker_is_stopped_even_if_the_flood_fails(self) -> None:
        class Failing(FanoutFlood):
            def run(self, bench: Bench) -> Outcome:
                assert broker.stops == before
                raise BenchmarkError("no flood")

        broker = Here("amqp://127.0.0.1:1/", Ending(1.0, 1, None))
        before = 1  # it was renewed
        found = runner.run(
            [Failing(1, 1, 1.0)], [broker], rounds=1, seconds=1.0, say=lambda _: None
        )
        assert found.scenarios[0].errors == {"here": ["no flood"]}
        assert broker.stops == before + 1

    def test_remarks_are_kept_and_said(self) -> None:
        class Remarkable(FanoutFlood):
            def run(self, bench: Bench) -> Outcome:
                values = {metric.name: 1.0 for metric in self.metrics}
                return Outcome(values, remarks=["it was killed"])

        broker = Here("amqp://127.0.0.1:1/", Ending(1.0, 1, None))
        said: list[str] = []
        found = runner.run(
            [Remarkable(1, 1, 1.0)], [broker], rounds=2, seconds=1.0, say=said.append
        )
        assert found.scenarios[0].remarks == {"here": ["it was killed", "it was killed"]}
        assert sum(line.endswith("here: it was killed") for line in said) == 2
