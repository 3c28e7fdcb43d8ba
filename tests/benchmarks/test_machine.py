"""What is read from /proc, and when memory counts as settled."""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks.macro import disk, machine

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")


def test_memory_and_processor_time_of_this_process_are_read() -> None:
    ballast = bytearray(os.urandom(1 << 20))
    assert machine.rss_bytes(os.getpid()) > len(ballast)
    assert machine.processor_seconds(os.getpid()) == pytest.approx(sum(os.times()[:2]), abs=0.5)
    assert machine.busy_seconds() > machine.processor_seconds(os.getpid())


def test_the_peak_of_memory_stays_when_the_memory_is_gone() -> None:
    ballast = bytearray(os.urandom(1 << 24))
    full = machine.rss_bytes(os.getpid())
    size = len(ballast)
    del ballast
    assert machine.peak_rss_bytes(os.getpid()) >= full > size


def test_what_a_process_writes_is_counted(tmp_path: Path) -> None:
    before = machine.written_bytes(os.getpid())
    with (tmp_path / "file").open("wb") as opened:
        opened.write(os.urandom(1 << 20))
        os.fsync(opened.fileno())
    if disk.file_system_of(tmp_path) in disk.IN_MEMORY:
        pytest.skip("temporary files are in memory here, and no disk is written to")
    assert 1 << 20 <= machine.written_bytes(os.getpid()) - before < 2 << 20


def readings(*values: int) -> Iterator[int]:
    yield from values


@pytest.mark.parametrize(
    ("values", "settled"),
    [((1000, 1000, 5), 1000), ((1000, 2000, 3000, 3001, 5), 3001), ((9000, 5000, 4999, 1), 4999)],
)
def test_memory_is_settled_when_two_readings_agree(values: tuple[int, ...], settled: int) -> None:
    source = readings(*values)
    pauses: list[float] = []
    found = machine.settled_rss_bytes(1, 60.0, read=lambda _: next(source), pause=pauses.append)
    assert found == settled


def test_memory_that_never_settles_is_read_for_the_limit_only() -> None:
    source = iter(range(1000, 100_000, 1000))
    pauses: list[float] = []
    machine.settled_rss_bytes(1, 2.0, read=lambda _: next(source), pause=pauses.append)
    assert sum(pauses) == pytest.approx(2.0)


def test_the_description_names_what_numbers_depend_on() -> None:
    described = machine.describe_machine()
    what = {"processor", "cores", "memory_gib", "kernel", "python", "uvloop", "commit"}
    assert what | {"file_system", "fdatasync_ms"} == set(described)
    assert str(described["python"]).endswith(platform.python_version())
