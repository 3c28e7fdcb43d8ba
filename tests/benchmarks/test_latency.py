"""The open loops of the latency scenarios, and the counts a Hareline makes of its own turns."""

from __future__ import annotations

import socket
import struct
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from shlex import quote
from typing import cast

import pytest

from benchmarks.macro import machine, turn_watch
from benchmarks.macro.brokers import CompiledHareline, Hareline
from benchmarks.macro.client import Client
from benchmarks.macro.errors import BenchmarkError
from benchmarks.macro.frames import Address, ack_octets
from benchmarks.macro.scenario import LATENCY_SECTION, Bench, Of
from benchmarks.macro.scenarios import latency
from benchmarks.macro.shapes import Shape, ShapedTape
from benchmarks.macro.turn_watch import TurnWatch
from hareline.testing import running_broker

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
SECONDS = 0.2


class Endpoint:
    """The little of a `Client` that a loop uses."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock

    def take_unread(self) -> bytes:
        return b""


Pair = tuple[socket.socket, socket.socket]


@pytest.fixture
def pair() -> Iterator[Pair]:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        theirs.settimeout(60)
        yield ours, theirs


def tape() -> ShapedTape:
    return ShapedTape(Shape.DIFFERING, [Address("q")], latency.BODY_SIZE, 131_072, count=10)


def client_of(sock: socket.socket) -> Client:
    return cast("Client", Endpoint(sock))


class TestScenarios:
    def test_each_kind_runs_at_a_fixed_rate_and_at_half_of_what_the_broker_can(self) -> None:
        scenarios = latency.scenarios()
        assert [scenario.name for scenario in scenarios] == [
            "latency_transient_5000_per_s_100B",
            "latency_transient_half_capacity_100B",
            "latency_persistent_5000_per_s_100B",
            "latency_persistent_half_capacity_100B",
        ]
        for scenario in scenarios:
            assert scenario.section == LATENCY_SECTION
            assert [metric.name for metric in scenario.metrics] == ["p50", "p99", "p99.9"]
            targets = [metric.target for metric in scenario.metrics]
            if "5000" in scenario.name:
                assert targets[1] is not None
                assert targets[1].of is Of.RATIO
            else:
                assert targets == [None] * 3

    @pytest.mark.acceptance
    @pytest.mark.parametrize("scenario", latency.scenarios(), ids=lambda each: str(each.name))
    def test_against_a_broker_of_others_it_gives_what_it_promises(
        self, scenario: latency.Latency, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        readings = iter(range(0, 1 << 50, 1 << 30))  # of a disk; this broker may have none
        monkeypatch.setattr(machine, "written_bytes", lambda pid: next(readings))
        with running_broker() as url:
            outcome = scenario.run(Bench(url, None, SECONDS))
        assert 0 < outcome.values["p50"] <= outcome.values["p99"] <= outcome.values["p99.9"]
        assert outcome.values["p99.9"] <= outcome.details["max latency in ms"]
        assert "long turns" not in outcome.details
        if "half" not in scenario.name:
            assert outcome.details["messages per second"] == 5_000


class TestConfirmLoop:
    def test_each_confirm_counts_from_when_its_publish_was_due(self, pair: Pair) -> None:
        loop = latency.ConfirmLoop(client_of(pair[0]), tape())
        loop.latencies_ns = [0] * 5
        for due_ns in (100, 200, 300, 400, 500):
            loop.note_due(bytearray(), 1, due_ns)
        loop.receive(ack_octets(2), 1_000)
        assert (loop.answered, loop.latencies_ns) == (1, [0, 800, 0, 0, 0])
        loop.receive(ack_octets(4, is_multiple=True)[:-3], 2_000)
        assert loop.has_rest
        loop.receive(ack_octets(4, is_multiple=True)[-3:] + ack_octets(5), 3_000)
        assert (loop.answered, loop.latencies_ns) == (5, [2_900, 800, 2_700, 2_600, 2_500])
        assert not loop.has_rest

    def test_more_confirms_than_publishes_are_told(self, pair: Pair) -> None:
        loop = latency.ConfirmLoop(client_of(pair[0]), tape())
        loop.latencies_ns = [0] * 5
        loop.note_due(bytearray(), 1, 100)
        with pytest.raises(BenchmarkError, match="1 published, but 2 confirmed"):
            loop.receive(ack_octets(2, is_multiple=True), 1_000)


class TestDeliveryLoop:
    def delivered(self, index: int, due_ns: int) -> bytes:
        return b"head" + struct.pack(">I4xQ", index, due_ns) + b"tail"

    def loop(self, sock: socket.socket) -> latency.DeliveryLoop:
        loop = latency.DeliveryLoop(client_of(sock), client_of(sock), tape(), 24, 4)
        loop.latencies_ns = [0] * 12
        return loop

    def test_a_delivery_brings_back_when_it_was_due(self, pair: Pair) -> None:
        loop = self.loop(pair[0])
        octets = b"".join(self.delivered(number % 10, 100 * number) for number in range(12))
        loop.receive(octets[:30], 5_000)
        assert loop.answered == 1
        loop.receive(octets[30:], 6_000)
        assert loop.answered == 12
        assert loop.latencies_ns == [5_000, *(6_000 - 100 * n for n in range(1, 12))]

    def test_another_message_than_the_one_due_is_told(self, pair: Pair) -> None:
        with pytest.raises(BenchmarkError, match="message 3 came where 0 was due"):
            self.loop(pair[0]).receive(self.delivered(3, 0), 1)

    def test_publishes_carry_their_due_time_and_are_sent_over_laps(self, pair: Pair) -> None:
        ours, theirs = pair
        subject = tape()
        loop = latency.DeliveryLoop(client_of(ours), client_of(ours), subject, 24, 4)
        loop.latencies_ns = [0] * 13
        loop._append(13, 777)
        loop._send()
        octets = theirs.recv(1 << 20)
        body_at = subject.frame_size - 101
        bodies = [octets[n * subject.frame_size + body_at :][:16] for n in range(13)]
        assert [struct.unpack(">I4xQ", body) for body in bodies] == [
            (number % 10, 777) for number in range(13)
        ]

    def test_a_broker_that_closes_is_told(self, pair: Pair) -> None:
        loop = self.loop(pair[0])
        pair[1].close()
        with pytest.raises(BenchmarkError, match="closed the connection"):
            loop._receive(1.0)


COUNTED = """
import asyncio, gc, sys, time
sys.path.insert(0, sys.argv[2])
import counting_broker, hareline.cli

async def main():
    await asyncio.sleep(0.02)
    time.sleep(0.05)          # a long turn
    await asyncio.sleep(0.02)
    gc.collect()

def serve():
    print(sys.argv)
    with asyncio.Runner() as runner:
        runner.run(main())

hareline.cli.main = serve
counting_broker.main(counting_broker.Path(sys.argv[1]), ["serve", "--port", "0"])
"""


class TestTurnWatch:
    def test_the_process_counts_its_long_turns_and_collections(self, tmp_path: Path) -> None:
        watch = TurnWatch()
        *_, file = watch.program(tmp_path)
        done = subprocess.run(
            [sys.executable, "-c", COUNTED, file, str(turn_watch.PROGRAM.parent)],
            capture_output=True,
            text=True,
            check=True,
        )
        assert done.stdout == "['hareline', 'serve', '--port', '0']\n"
        counts = watch.read()
        assert counts.long_turns >= 1
        assert counts.longest_turn_ms >= 40
        assert counts.collections >= 1
        assert counts.longest_collection_ms > 0
        watch.clear()
        assert watch.read() == turn_watch.TurnCounts(0, 0.0, 0, 0.0)

    @pytest.mark.acceptance
    def test_a_watched_broker_serves_and_the_next_one_counts_nothing(self) -> None:
        broker = Hareline()
        try:
            turns = broker.watch_turns()
            turns.clear()
            Client(broker.url).close()
            command = Path(f"/proc/{broker.pid}/cmdline").read_text()
            assert "counting_broker.py" in command
            assert turns.read().collections >= 0
            broker.renew()
            command = Path(f"/proc/{broker.pid}/cmdline").read_text()
            assert "counting_broker.py" not in command
        finally:
            broker.stop()


class TestCompiled:
    def test_a_build_that_is_not_compiled_is_refused_before_it_is_started(self) -> None:
        with pytest.raises(BenchmarkError, match=r"is not compiled: .*decoder\.py; install a comp"):
            CompiledHareline(sys.executable).start()

    def test_an_interpreter_that_is_not_there_is_told(self) -> None:
        with pytest.raises(BenchmarkError, match="/no/such/python cannot be run"):
            CompiledHareline("/no/such/python").start()

    def test_an_interpreter_without_hareline_is_told(self, tmp_path: Path) -> None:
        python = tmp_path / "python"
        python.write_text(f'#!/bin/sh\nexec {quote(sys.executable)} -I -S "$@"\n')
        python.chmod(0o755)
        with pytest.raises(BenchmarkError, match="cannot import hareline: ModuleNotFoundError"):
            CompiledHareline(str(python)).start()

    def test_it_is_another_build_and_no_peer(self) -> None:
        assert CompiledHareline("python").is_compiled
        assert not Hareline().is_compiled
