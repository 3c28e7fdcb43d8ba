"""Which measurements of Spark there are, what they need, and what is read beside them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.macro.machine import family_seconds, processor_seconds
from benchmarks.macro.report import BEGIN
from benchmarks.macro.scenario import Of
from benchmarks.spark import pika_reader
from benchmarks.spark.__main__ import PROGRAM, main
from benchmarks.spark.scenarios import SparkWatch, scenarios
from benchmarks.spark.stage import Stage
from tests.support.broker_process import BrokerProcess

BUSY = "import time\nend = time.process_time() + 0.3\nwhile time.process_time() < end: pass"


def test_each_bar_is_a_target_of_its_own_number() -> None:
    found = {
        (scenario.name, metric.name): (metric.target.of, metric.target.bound)
        for scenario in scenarios(Stage(1))
        for metric in scenario.metrics
        if metric.target is not None
    }
    assert found == {
        ("read_narrow_200B", "rate"): (Of.VALUE, 200_000),
        ("read_narrow_200B", "by a reader with pika"): (Of.VALUE, 5),
        ("read_all_columns_200B", "rate"): (Of.VALUE, 60_000),
        ("archive_200B", "rate"): (Of.VALUE, 40_000),
        ("replay_200B", "rate"): (Of.VALUE, 15_000),
        ("latency_100_per_s_200B", "p50"): (Of.VALUE, 300),
        ("idle_query", "processor time"): (Of.VALUE, 3),
    }


def test_they_are_listed_without_java(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "")
    assert main(["--list"]) == 0
    listed = [line.split()[0] for line in capsys.readouterr().out.splitlines()]
    assert listed == [scenario.name for scenario in scenarios(Stage(1))]


def test_java_is_asked_for_before_a_broker_is_started(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    pytest.importorskip("pyspark", reason="the extra `spark` is not installed")
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    assert main(["--quick"]) == 1
    captured = capsys.readouterr()
    assert "Spark needs Java" in captured.err
    assert captured.out == ""


def test_the_page_has_room_for_the_tables() -> None:
    assert BEGIN in PROGRAM.page.read_text(encoding="utf-8")


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_the_time_of_a_family_is_that_of_its_processes() -> None:
    before = family_seconds(os.getpid())
    child = subprocess.Popen(
        [sys.executable, "-c", f"{BUSY}\nprint('done', flush=True)\nimport sys; sys.stdin.read()"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert child.stdout is not None
    assert child.stdin is not None
    with child:
        child.stdout.readline()
        of_child = processor_seconds(child.pid)
        alive = family_seconds(os.getpid()) - before
        child.stdin.close()
    assert of_child >= 0.25
    assert alive >= of_child - 0.02
    assert family_seconds(os.getpid()) - before >= alive - 0.05  # waited for, and still counted
    with pytest.raises(ProcessLookupError):
        family_seconds(child.pid)


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_the_broker_and_what_it_starts_do_not_count_as_spark() -> None:
    # As the broker does for ranges, it has another process do the work.
    code = (
        f"import subprocess, sys\ninput()\nsubprocess.run([sys.executable, '-c', {BUSY!r}])\n"
        "print('done', flush=True)\ninput()"
    )
    busy = subprocess.Popen(
        [sys.executable, "-c", code],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert busy.stdin is not None
    assert busy.stdout is not None
    with busy:
        watch = SparkWatch(busy.pid)
        busy.stdin.write(b"\n")
        busy.stdin.flush()
        busy.stdout.readline()
        watch.stop()
        busy.stdin.write(b"\n")
    assert watch.cores["broker"] * watch.elapsed_s >= 0.25
    assert watch.cores["generator"] * watch.elapsed_s < 0.2


@pytest.mark.acceptance
def test_the_reader_with_pika_reads_a_stream(tmp_path: Path) -> None:
    pika = pytest.importorskip("pika", reason="pika (PyPI) is not installed")
    broker = BrokerProcess(tmp_path)
    broker.start()
    try:
        with pika.BlockingConnection(pika.URLParameters(broker.url)) as connection:
            channel = connection.channel()
            channel.confirm_delivery()
            channel.queue_declare("s", durable=True, arguments={"x-queue-type": "stream"})
            for number in range(20):
                channel.basic_publish("", "s", b"%d" % number)
        assert pika_reader.seconds_to_read(broker.url, "s", 20) > 0
    finally:
        broker.stop()
