"""The scenarios of durable messages, run against a broker in this process.

It may keep messages in memory: what is checked here is that the scenarios count right and that they
notice a broker that loses, refuses or repeats something.
"""

from __future__ import annotations

import contextlib
import os
import socket
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import cast

import pytest
from pamqp import commands

from benchmarks.macro import disk, machine, runner, scenarios
from benchmarks.macro.brokers import Broker, RemoteBroker
from benchmarks.macro.client import Client
from benchmarks.macro.errors import BenchmarkError
from benchmarks.macro.frames import ack_octets
from benchmarks.macro.scenario import DURABLE_SECTION, Bench, Better, Of, Scenario, unique_name
from benchmarks.macro.scenarios import durable_loads, durable_store, persistent
from benchmarks.macro.scenarios.durable_loads import (
    confirmed_publisher,
    drain,
    durable_queue,
    expect_ready,
    fill,
    persistent_address,
    publish_confirmed,
)
from benchmarks.macro.shapes import Shape
from hareline.testing import running_broker

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
SECONDS = 0.2
SIZE = 100


class Here(Broker):
    """The broker of this process; halting it only writes down that it was asked to."""

    is_restartable = True

    def __init__(self, url: str, directory: Path) -> None:
        super().__init__("here")
        self.halts: list[bool] = []
        self._url = url
        self._directory = directory

    @property
    def url(self) -> str:
        return self._url

    @property
    def pid(self) -> int:
        return os.getpid()

    @property
    def data_dir(self) -> Path:
        return self._directory

    def start(self) -> None: ...

    def stop(self) -> None: ...

    def halt(self, *, is_killed: bool) -> None:
        self.halts.append(is_killed)

    def resume(self) -> float:
        return 1.5


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with running_broker() as url:
        yield url


@pytest.fixture
def here(url: str, tmp_path: Path) -> Here:
    return Here(url, tmp_path)


@pytest.fixture
def bench(here: Here) -> Bench:
    return Bench(here.url, here.pid, SECONDS, here)


@pytest.fixture
def all_counts_as_written(monkeypatch: pytest.MonkeyPatch) -> None:
    """A disk that has always a gigabyte more than it had."""
    readings = iter(range(0, 1 << 50, 1 << 30))
    monkeypatch.setattr(machine, "written_bytes", lambda pid: next(readings))


def run(scenario: Scenario, bench: Bench) -> dict[str, float]:
    outcome = scenario.run(bench)
    assert set(outcome.values) == {metric.name for metric in scenario.metrics}
    return outcome.values


class TestLoads:
    @pytest.mark.acceptance
    def test_what_is_filled_in_is_persistent_and_drained_once(self, bench: Bench) -> None:
        with bench.control() as control, durable_queue(control, "test") as queue:
            fill(bench, control, queue, SIZE, 1)
            with Client(bench.url) as client:
                client.consume(queue)
                assert client.read_content().properties.delivery_mode == 2
            fill(bench, control, queue, SIZE, 2_345)
            assert drain(bench, control, queue, SIZE, 2_345) > 0
            expect_ready(control, queue, 0)

    def test_the_queue_is_durable(self, bench: Bench) -> None:
        with bench.control() as control, durable_queue(control, "test") as queue:
            control.declare_queue(queue, is_durable=True)
            with Client(bench.url) as client, pytest.raises(BenchmarkError, match="406"):
                client.declare_queue(queue)

    @pytest.mark.acceptance
    def test_publishing_goes_on_where_it_was(self, bench: Bench) -> None:
        with bench.control() as control, durable_queue(control, "test") as queue:
            with Client(bench.url) as client:
                publisher = confirmed_publisher(client, [persistent_address(queue)], SIZE)
                for count in (1_000, 1, 777):
                    publish_confirmed(publisher, count)
            drain(bench, control, queue, SIZE, 1_778)

    def test_more_or_fewer_messages_than_expected_are_told(self, bench: Bench) -> None:
        with bench.control() as control, durable_queue(control, "test") as queue:
            fill(bench, control, queue, SIZE, 10)
            with pytest.raises(BenchmarkError, match=r"9 messages are to be ready .* 10 are"):
                expect_ready(control, queue, 9)
            with pytest.raises(BenchmarkError, match="more came than the 9"):
                drain(bench, control, queue, SIZE, 9)

    def test_a_message_that_is_missing_is_told(
        self, bench: Bench, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(durable_loads, "DRAIN_TIMEOUT_S", 0.05)
        with bench.control() as control, durable_queue(control, "test") as queue:
            fill(bench, control, queue, SIZE, 10)
            with pytest.raises(BenchmarkError, match="11 queued, 10 delivered"):
                drain(bench, control, queue, SIZE, 11)

    def test_messages_out_of_their_order_are_told(self, bench: Bench) -> None:
        with bench.control() as control, durable_queue(control, "test") as queue:
            fill(bench, control, queue, SIZE, 300)
            with Client(bench.url) as client:
                client.call(commands.Basic.Get(queue=queue, no_ack=True), commands.Basic.GetOk)
            with pytest.raises(BenchmarkError, match="is not the one expected"):
                drain(bench, control, queue, SIZE, 299)

    def test_confirms_that_stay_away_are_told(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(durable_loads, "STALL_TIMEOUT_S", -1.0)
        ours, theirs = socket.socketpair()
        with ours, theirs:
            publisher = confirmed_publisher(silent_client(ours), [persistent_address("q")], SIZE)
            theirs.sendall(ack_octets(3, is_multiple=True))
            with pytest.raises(BenchmarkError, match="10 published, 3 confirmed, and no more"):
                publish_confirmed(publisher, 10)

    @pytest.mark.parametrize(("written", "is_enough"), [(999, False), (1_000, True)])
    def test_confirms_of_what_was_not_written_are_not_taken(
        self, written: int, is_enough: bool
    ) -> None:
        if is_enough:
            durable_loads.expect_written(written, 10, 100)
        else:
            with pytest.raises(BenchmarkError, match="written 999 octets"):
                durable_loads.expect_written(written, 10, 100)


def silent_client(sock: socket.socket) -> Client:
    class Endpoint:
        frame_max = 131_072

        def __init__(self) -> None:
            self.sock = sock

        def select_confirms(self) -> None: ...

    return cast("Client", Endpoint())


class TestBesideRabbitMQ:
    @pytest.mark.acceptance
    @pytest.mark.parametrize(
        "scenario", persistent.scenarios(), ids=lambda scenario: str(scenario.name)
    )
    @pytest.mark.usefixtures("all_counts_as_written")
    def test_a_scenario_gives_the_numbers_it_promises(
        self, scenario: Scenario, bench: Bench
    ) -> None:
        assert all(number > 0 for number in run(scenario, bench).values())

    @pytest.mark.acceptance
    @pytest.mark.parametrize("shape", Shape)
    def test_confirms_of_a_broker_that_writes_nothing_fail(
        self, shape: Shape, bench: Bench, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(machine, "written_bytes", lambda pid: 0)
        with pytest.raises(BenchmarkError, match="not durable"):
            persistent.ConfirmedPublishes(SIZE, "100B", shape).run(bench)

    def test_the_bars_are_those_of_the_project(self) -> None:
        bars = {
            (scenario.name, metric.name): (metric.target.of, metric.target.bound, metric.better)
            for scenario in scenarios.full()
            if scenario.section == DURABLE_SECTION
            for metric in scenario.metrics
            if metric.target
        }
        assert bars == {
            **{
                (f"persistent_confirm_window_5000_{size}_{shape}", "confirms"): (
                    Of.RATIO,
                    5.0,
                    Better.HIGHER,
                )
                for size in ("100B", "1KiB")
                for shape in ("differing", "alike")
            },
            ("persistent_confirm_round_trips_100B", "p50"): (Of.RATIO, 1.0, Better.LOWER),
            **{
                (f"persistent_consume_ack_every_100_{size}_{shape}", "deliveries"): (
                    Of.RATIO,
                    3.0,
                    Better.HIGHER,
                )
                for size in ("100B", "1KiB")
                for shape in ("differing", "any", "alike")
            },
            ("recovery_1000000_1KiB", "after SIGKILL"): (Of.VALUE, 15.0, Better.LOWER),
            ("recovery_1000000_1KiB", "after a stop, nothing cached"): (
                Of.VALUE,
                15.0,
                Better.LOWER,
            ),
            ("persistent_deep_stream_10000000_200B", "RSS of the broker"): (
                Of.VALUE,
                300.0,
                Better.LOWER,
            ),
            ("persistent_deep_stream_10000000_200B", "find an offset, p99"): (
                Of.VALUE,
                50.0,
                Better.LOWER,
            ),
            ("persistent_deep_stream_10000000_200B", "find a time, p99"): (
                Of.VALUE,
                50.0,
                Better.LOWER,
            ),
            ("persistent_deep_queue_10000000_1KiB", "peak RSS"): (
                Of.VALUE,
                1_000.0,
                Better.LOWER,
            ),
            ("persistent_deep_queue_10000000_1KiB", "deep drain / shallow drain"): (
                Of.VALUE,
                0.6,
                Better.HIGHER,
            ),
        }


class TestOnTheStore:
    @pytest.mark.acceptance
    def test_recovery_is_timed_after_a_kill_and_after_a_stop(self, bench: Bench) -> None:
        values = run(durable_store.Recovery(500), bench)
        assert list(values.values()) == [1.5, 1.5]
        assert isinstance(bench.broker, Here)
        assert bench.broker.halts == [True, False]

    @pytest.mark.acceptance
    def test_recovery_without_all_messages_fails(
        self, bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        class Forgetful(Here):
            def resume(self) -> float:
                with Client(self.url) as client:
                    client.call(commands.Queue.Purge(queue=names[0]), commands.Queue.PurgeOk)
                return 1.0

        names: list[str] = []

        def noted_name(stem: str) -> str:
            names.append(unique_name(stem))
            return names[-1]

        monkeypatch.setattr(durable_store, "unique_name", noted_name)
        broker = Forgetful(bench.url, tmp_path)
        with pytest.raises(BenchmarkError, match=r"500 messages are to be ready .* 0 are"):
            durable_store.Recovery(500).run(Bench(bench.url, None, SECONDS, broker))
        with bench.control() as control:
            control.delete_queue(names[0])

    @pytest.mark.acceptance
    def test_a_deep_queue_is_drained_and_memory_is_watched(
        self, bench: Bench, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(durable_store, "SHALLOW_DEPTH", 500)
        monkeypatch.setattr(durable_store, "SHALLOW_REPEATS", 2)
        outcome = durable_store.DurableDeepQueue(3_000).run(bench)
        deep, shallow = (outcome.values[f"drain of {q} queue"] for q in ("the deep", "a shallow"))
        assert outcome.values["deep drain / shallow drain"] == pytest.approx(deep / shallow)
        peak = outcome.values["peak RSS"]
        assert 0 < outcome.details["peak RSS while filled in MB"] <= peak
        assert 0 < outcome.details["peak RSS while drained in MB"] <= peak

    def test_a_disk_that_is_too_small_is_told_before_it_is_full(self, bench: Bench) -> None:
        with pytest.raises(BenchmarkError, match="GB on disk; there are"):
            durable_store.DurableDeepQueue(10**15).run(bench)

    @pytest.mark.acceptance
    def test_what_old_messages_cost_is_what_is_written_beyond_the_rest(
        self, bench: Bench, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(durable_store, "HALF_SEGMENT_MESSAGES", 500)
        monkeypatch.setattr(durable_store, "SETTLE_S", 0.0)
        published = 2 * 2 * 500 * 1024
        # before and after the traffic; settled is two equal readings
        readings = iter([0, 2 * published, 2 * published, 2 * published] + [5 * published] * 2)
        monkeypatch.setattr(machine, "written_bytes", lambda pid: next(readings))
        monkeypatch.setattr(
            machine, "settled_rss_bytes", lambda pid, limit_s, read: max(read(pid), read(pid))
        )
        values = run(durable_store.OldMessages(2), bench)
        assert values["written / published without old ones"] == pytest.approx(2.0)
        assert values["written / published"] == pytest.approx(3.0)
        assert values["extra for old ones / published"] == pytest.approx(1.0)

    @pytest.mark.acceptance
    def test_old_messages_stay_unacked_while_the_traffic_goes_on(
        self, bench: Bench, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(durable_store, "HALF_SEGMENT_MESSAGES", 200)
        names: dict[str, str] = {}
        seen: list[tuple[int | None, int | None]] = []

        @contextlib.contextmanager
        def noted_queue(control: Client, stem: str) -> Iterator[str]:
            with durable_queue(control, stem) as queue:
                names[stem] = queue
                yield queue

        def look(directory: Path) -> int:
            with Client(bench.url) as client:
                found = client.call(
                    commands.Queue.Declare(queue=names["old"], passive=True),
                    commands.Queue.DeclareOk,
                )
            seen.append((found.message_count, found.consumer_count))
            return 7_000_000

        monkeypatch.setattr(durable_store, "durable_queue", noted_queue)
        monkeypatch.setattr(disk, "used_bytes", look)
        assert run(durable_store.OldMessages(1), bench)["on disk afterwards"] == 7.0
        assert seen == [(0, 1)]  # none ready: the consumer has them, and it never acks

    @pytest.mark.usefixtures("all_counts_as_written")
    def test_a_fanout_is_counted_by_message_and_not_by_queue(self, bench: Bench) -> None:
        values = run(durable_store.DurableFanout(), bench)
        count = durable_store.FANOUT_PER_S * SECONDS
        assert values["written per message"] == (1 << 30) / count


class TestRunning:
    def test_what_needs_a_broker_of_ours_is_skipped_on_another(self) -> None:
        recovery = durable_store.Recovery(10)
        remote = RemoteBroker("elsewhere", "amqp://127.0.0.1:1/", pid=os.getpid())
        said: list[str] = []
        found = runner.run([recovery], [remote], rounds=1, seconds=1.0, say=said.append)
        assert "must have started the broker" in (found.scenarios[0].skipped or "")
        assert not found.scenarios[0].errors

    @pytest.mark.acceptance
    def test_a_peer_that_cannot_be_restarted_does_not_matter(self, here: Here) -> None:
        recovery = durable_store.Recovery(10)
        remote = RemoteBroker("elsewhere", "amqp://127.0.0.1:1/")
        found = runner.run([recovery], [here, remote], rounds=1, seconds=1.0, say=lambda _: None)
        assert found.scenarios[0].skipped is None
        assert found.scenarios[0].metrics[0].runs == {"here": [1.5]}

    @pytest.mark.acceptance
    def test_a_scenario_that_takes_minutes_is_run_once(
        self, here: Here, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(durable_store, "SHALLOW_DEPTH", 100)
        deep = durable_store.DurableDeepQueue(200)
        found = runner.run([deep], [here], rounds=3, seconds=1.0, say=lambda _: None)
        assert len(found.scenarios[0].metrics[0].runs["here"]) == 1
