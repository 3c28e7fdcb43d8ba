"""The changes on disk: over restarts, damage, a disk that fails, and no more than allowed."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from hareline import events
from hareline.events import Event
from hareline.management import change_log
from hareline.management.change_log import (
    FILE_NAME,
    OLDER_NAME,
    ChangeFile,
    ChangeKeeper,
    ChangeLog,
)
from tests.support.waiting import until


class Stand:
    """A log with its keeper. ``settings``: those in force. ``reported``: events of the broker."""

    def __init__(self, directory: Path | None) -> None:
        self.settings = object()
        self.reported: list[Event] = []
        self.log = ChangeLog(lambda: 1_000, {})
        self.keeper = ChangeKeeper(self.log, directory, lambda: self.settings, self._report)

    def _report(self, event: Event, **_: object) -> None:
        self.reported.append(event)

    def names(self) -> list[object]:
        """The kept changes, the oldest first."""
        return [each.details.get("name") for each in self.log.newest_first()][::-1]

    def note(self, *names: str) -> None:
        for name in names:
            self.log.note("user.created", {"name": name})


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(change_log, "WRITE_S", 0.001)


async def test_what_is_noted_is_there_after_a_restart(tmp_path: Path) -> None:
    before = Stand(tmp_path)
    before.keeper.start()
    before.note("a", "b")
    await before.keeper.stop()
    await before.keeper.stop()
    after = Stand(tmp_path)
    after.keeper.start()
    after.note("c")
    await after.keeper.stop()
    assert after.names() == ["a", "b", "c"]
    assert [each.number for each in after.log.newest_first()] == [3, 2, 1]
    umask = os.umask(0)
    os.umask(umask)
    assert (tmp_path / FILE_NAME).stat().st_mode & 0o777 == 0o640 & ~umask


@pytest.mark.usefixtures("at_once")
async def test_it_is_written_while_the_broker_runs(tmp_path: Path) -> None:
    stand = Stand(tmp_path)
    stand.keeper.start()
    stand.note("a")
    await until(lambda: not stand.log.unwritten, "the write")
    after = Stand(tmp_path)  # of a broker that is killed
    after.keeper.start()
    assert after.names() == ["a"]
    for each in (stand, after):
        await each.keeper.stop()


async def test_half_a_line_costs_that_line_alone(tmp_path: Path) -> None:
    stand = Stand(tmp_path)
    stand.keeper.start()
    stand.note("a", "b", "c")
    await stand.keeper.stop()
    path = tmp_path / FILE_NAME
    first, second, third = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(first + b"\xff{}\n" + second[:9] + b"\n" + third[:-20])
    stand = Stand(tmp_path)
    stand.keeper.start()
    assert stand.names() == ["a"]
    stand.note("d")
    await stand.keeper.stop()
    stand = Stand(tmp_path)
    stand.keeper.start()
    assert stand.names() == ["a", "d"]
    await stand.keeper.stop()


def test_the_files_do_not_grow_for_ever(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stand = Stand(None)
    stand.note(*"abcdefghij")
    lines = list(stand.log.unwritten)
    monkeypatch.setattr(change_log, "KEPT_MAX", 4)
    file = ChangeFile(tmp_path)
    list(file.read())
    for line in lines:
        file.append([line])
    assert (tmp_path / OLDER_NAME).read_bytes() == b"".join(lines[4:8])
    assert (tmp_path / FILE_NAME).read_bytes() == b"".join(lines[8:])
    again = ChangeFile(tmp_path)
    assert [each.details["name"] for each in again.read()] == list("efghij")
    assert again.count == 2


async def test_a_disk_that_fails_is_reported_once_and_tried_again(tmp_path: Path) -> None:
    directory = tmp_path / "gone"
    stand = Stand(directory)
    stand.keeper.start()
    for name in ("a", "b"):
        stand.note(name)
        await stand.keeper.write()
    assert stand.reported == [events.CHANGES_NOT_KEPT]
    directory.mkdir()
    await stand.keeper.stop()
    after = Stand(directory)
    after.keeper.start()
    assert after.names() == ["a", "b"]
    await after.keeper.stop()


async def test_without_a_directory_they_are_in_memory_alone() -> None:
    stand = Stand(None)
    stand.keeper.start()
    stand.note("a")
    await stand.keeper.stop()
    assert (stand.names(), list(stand.log.unwritten)) == (["a"], [])


async def test_settings_that_were_read_again_are_a_change(tmp_path: Path) -> None:
    stand = Stand(tmp_path)
    stand.keeper.look_at_settings()
    assert list(stand.log.newest_first()) == []
    stand.settings = object()
    stand.keeper.look_at_settings()
    stand.keeper.look_at_settings()
    (change,) = stand.log.newest_first()
    assert (change.event, change.by.via) == ("settings.changed", "settings")
