"""The watch over memory: when the alarm is set, and how much this process may use."""

from __future__ import annotations

import asyncio
import os
import resource
from collections.abc import Callable
from pathlib import Path

import pytest

from hareline import events
from hareline.amqp.alarms import Alarms
from hareline.events import Event
from hareline.net import memory
from hareline.net.memory import MemoryWatch, available_bytes, used_bytes

MIB = 1 << 20


class Log:
    """What a MemoryWatch reports."""

    def __init__(self) -> None:
        self.codes: list[str] = []

    def __call__(self, event: Event, **fields: object) -> None:
        assert set(fields) == set(event.fields)
        self.codes.append(event.code)


@pytest.fixture
def make_watch() -> Callable[[], tuple[MemoryWatch, Alarms, Log]]:
    def make() -> tuple[MemoryWatch, Alarms, Log]:
        alarms, log = Alarms([]), Log()
        return MemoryWatch(alarms, log, 1000, 1.0), alarms, log

    return make


def test_the_alarm_is_set_above_the_watermark_and_cleared_well_below(
    make_watch: Callable[[], tuple[MemoryWatch, Alarms, Log]],
) -> None:
    watch, alarms, log = make_watch()
    states: list[bool] = []
    for used in (999, 1000, 1001, 5000, 1000, 960, 950, 949, 1000, 1001):
        watch.check(used)
        states.append(alarms.is_on)
    assert states == [False, False, True, True, True, True, True, False, False, True]
    set_code, cleared_code = events.MEMORY_ALARM_SET.code, events.MEMORY_ALARM_CLEARED.code
    assert log.codes == [set_code, cleared_code, set_code]


def test_a_new_watermark_counts_at_the_next_look(
    make_watch: Callable[[], tuple[MemoryWatch, Alarms, Log]],
) -> None:
    watch, alarms, _ = make_watch()
    watch.check(900)
    watch.watermark_bytes = 800
    watch.check(900)
    assert alarms.is_on
    assert alarms.reason == "low on memory"


def test_pressure_comes_before_the_alarm_and_goes_after_it() -> None:
    alarms, pressed = Alarms([]), list[bool]()
    watch = MemoryWatch(alarms, Log(), 1000, 1.0, spool_share=0.7, on_pressure=pressed.append)
    states: list[tuple[bool, bool]] = []
    for used in (700, 701, 670, 1001, 900, 666, 664, 700):
        watch.check(used)
        states.append((pressed[-1] if pressed else False, alarms.is_on))
    on, off = (True, False), (False, False)
    assert states == [off, on, on, (True, True), on, on, off, off]
    assert pressed == [True, False]


def test_clients_are_kept_out_half_way_between_the_watermark_and_all_memory() -> None:
    alarms, log, critical = Alarms([]), Log(), list[bool]()
    watch = MemoryWatch(alarms, log, 1000, 1.0, total_bytes=3000, on_critical=critical.append)
    assert watch.critical_bytes == 2000
    states: list[bool] = []
    for used in (1001, 2000, 2001, 1950, 1901, 1899, 2000):
        watch.check(used)
        states.append(bool(critical and critical[-1]))
    assert states == [False, False, True, True, True, False, False]
    assert log.codes == [
        events.MEMORY_ALARM_SET.code,
        events.MEMORY_CRITICAL.code,
        events.MEMORY_NOT_CRITICAL.code,
    ]
    watch.watermark_bytes = 4000  # more than there is
    assert watch.critical_bytes == 4000


def test_a_share_of_all_is_no_pressure_ever() -> None:
    pressed: list[bool] = []
    watch = MemoryWatch(Alarms([]), Log(), 1000, 1.0, on_pressure=pressed.append)
    watch.check(5000)
    assert pressed == []
    watch.spool_share = 0.5
    watch.check(5000)
    watch.spool_share = 1.0
    watch.check(5000)
    assert pressed == [True, False]


def test_used_memory_is_that_of_this_process() -> None:
    before = used_bytes()
    block = bytearray(64 * MIB)
    block[::4096] = b"x" * len(block[::4096])
    assert 60 * MIB < used_bytes() - before < 100 * MIB
    assert MIB < before < available_bytes()


@pytest.mark.parametrize(
    ("membership", "file", "text", "expected"),
    [
        ("0::/\n", "memory.max", "104857600\n", 100 * MIB),
        ("0::/system.slice/h.service\n", "system.slice/h.service/memory.max", "1048576\n", MIB),
        ("0::/system.slice/h.service\n", "system.slice/memory.max", "1048576\n", MIB),
        ("0::/elsewhere\n", "system.slice/memory.max", "1048576\n", None),
        ("4:cpu,memory:/a/b\n", "memory/a/memory.limit_in_bytes", "1048576\n", MIB),
        ("4:cpu:/a\n", "memory/a/memory.limit_in_bytes", "1048576\n", None),
        ("0::/\n", "memory.max", "max\n", None),
        ("0::/\n", "memory/memory.limit_in_bytes", "9223372036854771712\n", None),
        ("0::/\n", "memory.max", "", None),
    ],
)
def test_a_cgroup_limit_counts_if_it_is_below_the_machines_memory(
    tmp_path: Path, membership: str, file: str, text: str, expected: int | None
) -> None:
    machine = available_bytes(tmp_path / "missing", tmp_path / "missing")
    assert machine == os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    member = tmp_path / "cgroup"
    member.write_text(membership)
    limit = tmp_path / "root" / file
    limit.parent.mkdir(parents=True)
    limit.write_text(text)
    assert available_bytes(member, tmp_path / "root") == (expected or machine)


# -------------------------------------------------------------------------- over time


class Process:
    """A process of which a test says how much it uses, and how much of that is kept free."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.used = 0
        self.kept = 0
        self.has_looked = asyncio.Event()
        monkeypatch.setattr(memory, "used_bytes", self._look)
        monkeypatch.setattr(memory, "release_freed_memory", self._release)

    def _look(self) -> int:
        self.has_looked.set()
        return self.used + self.kept

    def _release(self) -> None:
        self.kept = 0

    async def next_look(self) -> None:
        self.has_looked.clear()
        async with asyncio.timeout(60):
            await self.has_looked.wait()


async def test_it_looks_at_once_and_again_and_again(monkeypatch: pytest.MonkeyPatch) -> None:
    process, alarms = Process(monkeypatch), Alarms([])
    watch = MemoryWatch(alarms, Log(), 1000, 0.001)
    process.used = 1001
    watch.start()
    assert alarms.resources == ["memory"]
    process.used = 10
    await process.next_look()
    assert alarms.resources == []
    watch.stop()
    watch.stop()
    process.has_looked.clear()
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(process.has_looked.wait(), 0.02)


async def test_what_the_allocator_keeps_is_given_back_before_it_counts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    process, alarms = Process(monkeypatch), Alarms([])
    watch = MemoryWatch(alarms, Log(), 1000, 1.0, spool_share=0.5)
    process.used, process.kept = 400, 75  # exactly at the share from which it is released
    watch.start()
    assert process.kept == 75
    process.used, process.kept = 400, 700
    watch.start()
    assert process.kept == 0
    assert alarms.resources == []
    watch.stop()


def test_the_peak_of_use_stands_in_where_there_is_no_proc(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    now = used_bytes()
    monkeypatch.setattr(memory, "_STATM", tmp_path / "missing")
    assert used_bytes() >= now * 0.9


def test_a_limit_of_the_address_space_counts_less_what_is_only_reserved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    statm = tmp_path / "statm"
    statm.write_text("300 100 50 1 0 200 0\n")
    page = os.sysconf("SC_PAGE_SIZE")
    monkeypatch.setattr(memory, "_STATM", statm)
    limits: dict[int, int] = {resource.RLIMIT_AS: 1000 * page}
    monkeypatch.setattr(resource, "getrlimit", lambda which: (limits[which], 0))
    missing = tmp_path / "missing"
    assert available_bytes(missing, missing) == 800 * page
    limits[resource.RLIMIT_AS] = 100 * page
    assert available_bytes(missing, missing) == 0, "all of it is reserved by now"
    limits[resource.RLIMIT_AS] = resource.RLIM_INFINITY
    assert available_bytes(missing, missing) == page * os.sysconf("SC_PHYS_PAGES")
