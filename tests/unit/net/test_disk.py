"""One alarm for the disk: free space below the watermark, or a store that the system refuses."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from hareline import events
from hareline.amqp.alarms import Alarms
from hareline.events import Event
from hareline.net import disk
from hareline.net.disk import DiskSpace, DiskWatch, disk_space

WATERMARK = 1000


class Watched:
    """A watch whose events are kept, over a disk of which a test says how full it is."""

    def __init__(self, directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.free = 5000
        self.reported: list[tuple[Event, dict[str, object]]] = []
        self.has_looked = asyncio.Event()
        self.alarms = Alarms(())
        self.watch = DiskWatch(
            self.alarms, self._report, directory, WATERMARK, 0.001, 0.1, 16 << 20
        )
        monkeypatch.setattr(disk, "disk_space", self._space)

    def _space(self, directory: Path) -> DiskSpace:
        self.has_looked.set()
        if self.free < 0:
            raise OSError(5, "Input/output error", str(directory))
        return DiskSpace(self.free, 10_000)

    def _report(self, event: Event, **fields: object) -> None:
        self.reported.append((event, fields))

    async def next_look(self) -> None:
        self.has_looked.clear()
        async with asyncio.timeout(60):
            await self.has_looked.wait()

    @property
    def codes(self) -> list[str]:
        return [event.code for event, _ in self.reported]


@pytest.fixture
def watched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Watched:
    return Watched(tmp_path, monkeypatch)


def test_the_space_of_a_directory_is_that_of_its_file_system(tmp_path: Path) -> None:
    space = disk_space(tmp_path)
    assert 0 < space.free_bytes <= space.total_bytes


def test_below_the_watermark_the_alarm_is_set_once_and_cleared_well_above_it(
    watched: Watched,
) -> None:
    for free in (WATERMARK, WATERMARK - 1, 10, WATERMARK + 49):
        watched.watch.check(free)
    assert watched.alarms.resources == ["disk"]
    assert watched.reported == [
        (
            events.DISK_ALARM_SET,
            {
                "reason": "999 B are free on the disk, 1000 B are needed "
                "(disk.free_watermark = 0.1)",
                "free_bytes": 999,
                "watermark_bytes": WATERMARK,
            },
        )
    ]
    assert "1.0 KiB are free on the disk, 1.0 KiB are needed" in watched.alarms.why["disk"]
    watched.watch.check(WATERMARK + 50)
    assert (watched.alarms.resources, watched.alarms.why) == ([], {})
    assert watched.codes == ["DSK-1001", "DSK-1002"]


def test_a_store_without_room_sets_the_alarm_however_much_is_free(watched: Watched) -> None:
    watched.watch.on_store_full(True)
    assert watched.alarms.resources == ["disk"]
    need = "no room for the journal's next file of 16.0 MiB"
    assert watched.alarms.why == {"disk": f"4.9 KiB are free on the disk, {need}"}
    watched.watch.check(WATERMARK * 3)
    assert watched.alarms.resources == ["disk"]
    watched.watch.on_store_full(False)
    assert watched.alarms.resources == []
    assert watched.codes == ["DSK-1001", "DSK-1002"]


def test_the_alarm_stays_until_both_reasons_are_gone(watched: Watched) -> None:
    watched.free = 10
    watched.watch.on_store_full(True)
    watched.watch.check(10)
    watched.watch.on_store_full(False)
    assert watched.alarms.resources == ["disk"]
    watched.watch.check(WATERMARK * 2)
    assert watched.alarms.resources == []
    assert watched.codes == ["DSK-1001", "DSK-1002"]


def test_an_alarm_for_memory_is_not_touched(watched: Watched) -> None:
    watched.alarms.set("memory")
    watched.watch.check(0)
    watched.watch.check(WATERMARK * 2)
    assert watched.alarms.resources == ["memory"]


async def test_it_looks_at_once_and_again_and_again(watched: Watched) -> None:
    watched.free = 10
    watched.watch.start()
    assert watched.alarms.resources == ["disk"]
    watched.free = -1  # a look that fails says nothing
    await watched.next_look()
    assert watched.alarms.resources == ["disk"]
    watched.free = 5000
    await watched.next_look()
    assert watched.alarms.resources == []
    watched.watch.stop()
    watched.free = 10
    watched.has_looked.clear()
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(watched.has_looked.wait(), 0.02)


async def test_a_directory_that_cannot_be_looked_at_is_an_error_at_the_start(
    watched: Watched,
) -> None:
    watched.free = -1
    with pytest.raises(OSError, match="Input/output"):
        watched.watch.start()
