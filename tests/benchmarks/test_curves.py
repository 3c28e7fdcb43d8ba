"""The curves: each point against a broker in this process, and what they are drawn from."""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import cast

import pytest

from benchmarks.macro import machine, plot, report
from benchmarks.macro.client import Client
from benchmarks.macro.errors import BenchmarkError
from benchmarks.macro.frames import Address
from benchmarks.macro.results import BrokerFacts, MetricResult, Results, ScenarioResult
from benchmarks.macro.scenario import CURVES_SECTION, Bench
from benchmarks.macro.scenarios import curves, queue_backlog
from benchmarks.macro.shapes import Shape, ShapedTape
from benchmarks.macro.traffic import Consumer
from hareline.testing import running_broker

SECONDS = 0.25


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with running_broker() as url:
        yield url


@pytest.fixture
def bench(url: str, monkeypatch: pytest.MonkeyPatch) -> Bench:
    # ticks of 10 ms are too coarse for so short a run
    seconds = iter(range(1_000_000))
    monkeypatch.setattr(machine, "processor_seconds", lambda pid: float(next(seconds)))
    return Bench(url, os.getpid(), SECONDS)


linux_only = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")


@linux_only
class TestMeasuring:
    @pytest.mark.acceptance
    @pytest.mark.parametrize(
        "curve",
        curves.scenarios(4, 3, (20, 50)),
        ids=lambda each: str(each.name),
    )
    def test_each_point_has_its_cost(
        self, curve: curves.Curve, bench: Bench, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(curve, "points", curve.points[-2:])
        monkeypatch.setattr(curve, "metrics", curve.metrics[-3:])
        monkeypatch.setattr(curves, "MESSAGES", 500)
        monkeypatch.setattr(queue_backlog, "PREFETCH_OF_ALL", 500)
        values = curve.run(bench).values
        assert list(values) == [metric.name for metric in curve.metrics]
        first, last, growth = values.values()
        assert first > 0
        assert growth == pytest.approx(last / first)

    def test_its_queues_are_gone_afterwards(
        self, bench: Bench, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(curves, "unique_name", lambda stem: f"test.{stem}")
        curves.QueuesCurve("queues", (2,), "").cost(bench, 2)
        with Client(bench.url) as control, pytest.raises(BenchmarkError, match="404"):
            control.ready_count("test.curve.00001")

    def test_a_file_limit_that_is_too_low_is_told(
        self, bench: Bench, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(machine, "raise_file_limit", lambda wanted: 10)
        with pytest.raises(BenchmarkError, match="may not open 203 files: raise the file limit"):
            curves.ConnectionsCurve("connections", (3,), "").cost(bench, 3)


class Endpoint:
    """The little of a `Client` that traffic uses."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock


def test_bursts_go_over_the_connections_in_turn() -> None:
    pairs = [socket.socketpair() for _ in range(3)]
    tape = ShapedTape(Shape.DIFFERING, [Address("q")], 100, 131_072, count=200)
    publisher = curves.RotatingPublisher(
        [cast("Client", Endpoint(ours)) for ours, _ in pairs], tape, cast("Consumer", None)
    )
    publisher.publish_up_to(150)
    assert publisher.published == 150
    publisher.burst = 100
    publisher.publish_up_to(249)
    assert publisher.published == 150  # only whole bursts
    publisher.publish_up_to(250)
    assert publisher.published == 200  # and no further than a lap goes
    publisher.publish_up_to(450)
    assert publisher.published == 400
    sizes = []
    for ours, theirs in pairs:
        ours.close()
        received = b""
        while octets := theirs.recv(1 << 20):
            received += octets
        sizes.append(len(received) // tape.frame_size)
        theirs.close()
    assert sizes == [100, 150, 150]


def measured(*, with_compiled: bool = True) -> Results:
    curve = curves.scenarios(10_000, 1_000, (1_000, 100_000))[1]
    runs = {"hareline": [6.0], "hareline-compiled": [2.0]}
    if not with_compiled:
        del runs["hareline-compiled"]
    brokers = [BrokerFacts("hareline", "Hareline 0.1.0"), BrokerFacts("rabbitmq", "RabbitMQ 3.10")]
    if with_compiled:
        brokers.insert(1, BrokerFacts("hareline-compiled", "Hareline 0.1.0", is_compiled=True))
    return Results(
        started="2026-01-02T03:04:05+00:00",
        finished="",
        machine={},
        options={"rounds": 1, "seconds": 1.0},
        brokers=brokers,
        scenarios=[
            ScenarioResult(
                curve.name,
                curve.summary,
                [MetricResult(metric, dict(runs)) for metric in curve.metrics],
                section=curve.section,
            )
        ],
    )


class TestPicture:
    def test_each_build_has_a_line_over_the_points(self) -> None:
        lines = plot.curves(measured())["curve_queues"]
        assert lines == [
            plot.Line("hareline", [(1.0, 6.0), (100.0, 6.0), (10_000.0, 6.0)]),
            plot.Line("hareline-compiled", [(1.0, 2.0), (100.0, 2.0), (10_000.0, 2.0)]),
        ]
        assert len(plot.curves(measured(with_compiled=False))["curve_queues"]) == 1

    def test_it_is_drawn_and_stands_below_its_table(self, tmp_path: Path) -> None:
        pytest.importorskip("matplotlib")
        file = tmp_path / "curves.svg"
        assert plot.draw_curves(measured(), file)
        text = file.read_text()
        assert ">queues<" in text
        assert ">Hareline compiled<" in text
        page = report.render(measured(), None, "curves.svg")
        own = page[page.index(f"## {CURVES_SECTION}") :]
        assert "| `curve_queues` | 10,000, us/msg | 6 | 2 |" in own
        assert own.index("10,000, us/msg") < own.index("](curves.svg)")

    def test_without_curves_there_is_none(self, tmp_path: Path) -> None:
        results = measured()
        results.scenarios.clear()
        assert not plot.draw_curves(results, tmp_path / "curves.svg")
        assert not list(tmp_path.iterdir())
