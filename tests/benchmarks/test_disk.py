"""Where brokers' data goes, and what is told of files and disks."""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

import pytest

from benchmarks.macro import disk

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")


def mounts_of(tmp_path: Path, *lines: str) -> Path:
    file = tmp_path / "mounts"
    file.write_text("".join(f"{line} rw 0 0\n" for line in lines))
    return file


def test_the_file_system_is_that_of_the_deepest_mount(tmp_path: Path) -> None:
    mounts = mounts_of(tmp_path, "/dev/a / ext4", "none /nowhere tmpfs", "/dev/b /nowhere/in xfs")
    assert disk.file_system_of(Path("/nowhere/in/it"), mounts) == "xfs"
    assert disk.file_system_of(Path("/nowhere/inside"), mounts) == "tmpfs"
    assert disk.file_system_of(Path("/elsewhere"), mounts) == "ext4"


def test_of_two_mounts_at_one_place_the_later_one_counts(tmp_path: Path) -> None:
    mounts = mounts_of(tmp_path, "none / rootfs", "/dev/a / ext4")
    assert disk.file_system_of(Path("/any"), mounts) == "ext4"


def test_a_mount_point_with_a_blank_is_read(tmp_path: Path) -> None:
    mounts = mounts_of(tmp_path, "/dev/a / ext4", r"none /my\040disk tmpfs")
    assert disk.file_system_of(Path("/my disk/data"), mounts) == "tmpfs"


def test_without_a_list_of_mounts_nothing_is_known(tmp_path: Path) -> None:
    assert disk.file_system_of(tmp_path, tmp_path / "missing") == ""


def test_data_goes_elsewhere_where_temporary_files_are_in_memory(tmp_path: Path) -> None:
    fallback = tmp_path / "made" / "here"
    assert disk.data_directory(fallback, mounts_of(tmp_path, "none / tmpfs")) == fallback
    assert fallback.is_dir()


def test_data_goes_to_the_usual_place_on_a_disk(tmp_path: Path) -> None:
    fallback = tmp_path / "never_made"
    found = disk.data_directory(fallback, mounts_of(tmp_path, "/dev/a / ext4"))
    assert found == Path(tempfile.gettempdir())
    assert not fallback.exists()


def test_what_files_occupy_is_counted_below_directories_too(tmp_path: Path) -> None:
    before = disk.used_bytes(tmp_path)
    (tmp_path / "a").mkdir()
    for file in (tmp_path / "one", tmp_path / "a" / "two"):
        with file.open("wb") as opened:
            opened.write(os.urandom(1 << 20))
            os.fsync(opened.fileno())
    with (tmp_path / "hole").open("wb") as opened:
        opened.truncate(1 << 30)
    assert 2 << 20 <= disk.used_bytes(tmp_path) - before < 3 << 20


def test_a_sync_takes_time_and_leaves_no_file(tmp_path: Path) -> None:
    assert disk.fdatasync_ms(tmp_path) > 0
    assert not list(tmp_path.iterdir())


def test_files_are_the_same_after_the_kernel_forgot_them(tmp_path: Path) -> None:
    content = os.urandom(1 << 16)
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "file").write_bytes(content)
    disk.forget_cached(tmp_path)
    assert (tmp_path / "deep" / "file").read_bytes() == content


def test_there_is_room_where_tests_run(tmp_path: Path) -> None:
    assert disk.free_bytes(tmp_path) > 0
