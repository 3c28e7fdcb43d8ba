"""One broker at a time has a data directory."""

from __future__ import annotations

import errno
import fcntl
import os
from pathlib import Path

import pytest

from hareline.errors import StoreError
from hareline.storage.disk.directory import LOCK_NAME, DataDirectory


def test_a_directory_is_made_with_those_above_it(tmp_path: Path) -> None:
    directory = DataDirectory(tmp_path / "a" / "b")
    assert (tmp_path / "a" / "b").is_dir()
    assert directory.definitions == tmp_path / "a" / "b" / "definitions.sqlite"
    places = [directory.journal, directory.large, directory.spool]
    assert [Path(place).name for place in places] == ["journal", "large", "spool"]
    directory.close()


def test_who_comes_second_is_told_who_has_it(tmp_path: Path) -> None:
    first = DataDirectory(tmp_path)
    with pytest.raises(StoreError) as caught:
        DataDirectory(tmp_path)
    assert str(caught.value) == f"{tmp_path}: in use by the broker with process id {os.getpid()}"
    first.close()
    DataDirectory(tmp_path).close()


def test_a_lock_that_says_nothing_is_a_lock_all_the_same(tmp_path: Path) -> None:
    first = DataDirectory(tmp_path)
    (tmp_path / LOCK_NAME).write_text("")
    with pytest.raises(StoreError, match="in use by another broker"):
        DataDirectory(tmp_path)
    first.close()


def test_what_a_crash_left_in_the_lock_is_no_hindrance(tmp_path: Path) -> None:
    (tmp_path / LOCK_NAME).write_text("1\n")
    DataDirectory(tmp_path).close()


def test_a_path_that_is_a_file_is_the_system_s_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(FileExistsError):
        DataDirectory(tmp_path / "file")


@pytest.mark.parametrize("name", ["", "journal"])
def test_without_the_lock_file_the_directories_are_locked_all_the_same(
    tmp_path: Path, name: str
) -> None:
    first = DataDirectory(tmp_path)
    (tmp_path / LOCK_NAME).unlink()
    elsewhere = tmp_path
    if name:  # the same journal in another data directory
        elsewhere = tmp_path / "other"
        elsewhere.mkdir()
        (elsewhere / name).symlink_to(tmp_path / name)
    for _ in range(2):  # the one that was refused has made a lock file
        with pytest.raises(StoreError) as caught:
            DataDirectory(elsewhere)
        assert str(caught.value) == (
            f"{elsewhere / name}: in use by another process, probably a broker whose file 'lock' "
            "was removed; stop that first"
        )
    first.close()
    DataDirectory(elsewhere).close()


@pytest.mark.parametrize("reason", [errno.EBADF, errno.EIO])
def test_a_file_system_that_locks_files_only_will_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reason: int
) -> None:
    lock = fcntl.flock

    def flock(fd: int, operation: int) -> None:
        if Path(f"/proc/self/fd/{fd}").readlink().is_dir():
            raise OSError(reason, os.strerror(reason))
        lock(fd, operation)

    monkeypatch.setattr(fcntl, "flock", flock)
    if reason == errno.EIO:
        with pytest.raises(OSError, match=os.strerror(reason)):
            DataDirectory(tmp_path)
        return
    first = DataDirectory(tmp_path)
    with pytest.raises(StoreError, match="in use by the broker with process id"):
        DataDirectory(tmp_path)
    first.close()


def test_a_refused_one_leaves_no_file_open(tmp_path: Path) -> None:
    first = DataDirectory(tmp_path)
    opened = len(list(Path("/proc/self/fd").iterdir()))
    for _ in range(2):
        with pytest.raises(StoreError):
            DataDirectory(tmp_path)
        assert len(list(Path("/proc/self/fd").iterdir())) == opened
        (tmp_path / LOCK_NAME).unlink(missing_ok=True)
    first.close()
    assert len(list(Path("/proc/self/fd").iterdir())) == opened - 3
