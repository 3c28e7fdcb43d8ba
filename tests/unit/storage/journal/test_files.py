"""The file layer on the real file system, and the same questions to the one that forgets."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from hareline.storage.journal.files import Files
from tests.crash.forgetful_files import ForgetfulFiles


@pytest.fixture(params=["real", "forgetful"])
def files(request: pytest.FixtureRequest) -> Files:
    return Files() if request.param == "real" else ForgetfulFiles()


@pytest.fixture
def directory(files: Files, tmp_path: Path) -> str:
    path = str(tmp_path / "a" / "b")
    files.make_directory(path)
    files.make_directory(path)
    return path


def _new(files: Files, directory: str, name: str = "x") -> int:
    return files.open(f"{directory}/{name}", create=True)


def test_what_was_written_is_read(files: Files, directory: str) -> None:
    fd = _new(files, directory)
    files.write(fd, [b"abc", b"", b"defg"], 3)
    files.sync(fd)
    assert files.read(fd, 100, 0) == b"\0\0\0abcdefg"
    assert files.read(fd, 3, 4) == b"bcd"
    assert files.read(fd, 3, 10) == b""
    assert files.size(fd) == 10
    files.close(fd)


def test_more_parts_than_one_call_takes(files: Files, directory: str) -> None:
    fd = _new(files, directory)
    parts = [bytes((n % 251,)) * (n % 5) for n in range(5000)]
    files.write(fd, parts, 7)
    assert files.read(fd, 1 << 20, 7) == b"".join(parts)
    files.close(fd)


def test_a_short_write_is_continued(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = Files()
    fd = _new(files, str(tmp_path))
    real = os.pwrite
    monkeypatch.setattr(
        os, "pwritev", lambda fd, parts, offset: real(fd, b"".join(parts)[:5], offset)
    )
    monkeypatch.setattr(os, "pwrite", lambda fd, octets, offset: real(fd, octets[:2], offset))
    files.write(fd, [b"abcd", b"efgh", b"ijk"], 1)
    assert files.read(fd, 100, 0) == b"\0abcdefghijk"
    files.close(fd)


def test_allocation_lengthens_and_keeps(files: Files, directory: str) -> None:
    fd = _new(files, directory)
    files.write(fd, [b"abc"], 0)
    files.allocate(fd, 10_000)
    assert files.size(fd) == 10_000
    assert files.read(fd, 10_000, 0) == b"abc".ljust(10_000, b"\0")
    files.allocate(fd, 10)
    assert files.size(fd) == 10_000
    files.close(fd)


@pytest.mark.parametrize("number", [errno.EOPNOTSUPP, errno.EINVAL])
def test_a_file_system_without_allocation_gets_a_sparse_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    def refuse(fd: int, offset: int, size: int) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "posix_fallocate", refuse)
    files = Files()
    fd = _new(files, str(tmp_path))
    files.allocate(fd, 5000)
    assert files.size(fd) == 5000
    files.close(fd)


def test_a_full_disk_is_not_taken_for_that(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(fd: int, offset: int, size: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "posix_fallocate", refuse)
    files = Files()
    fd = _new(files, str(tmp_path))
    with pytest.raises(OSError, match="No space left"):
        files.allocate(fd, 5000)
    files.close(fd)


def test_truncated_files_have_zeros_when_they_grow_again(files: Files, directory: str) -> None:
    fd = _new(files, directory)
    files.write(fd, [b"abcdef"], 0)
    files.truncate(fd, 2)
    files.truncate(fd, 4)
    assert files.read(fd, 10, 0) == b"ab\0\0"
    files.close(fd)


def test_names(files: Files, directory: str) -> None:
    files.close(_new(files, directory, "b"))
    files.close(_new(files, directory, "a"))
    assert files.list(directory) == ["a", "b"]
    with pytest.raises(FileExistsError):
        _new(files, directory, "a")
    files.rename(f"{directory}/b", f"{directory}/c")
    files.unlink(f"{directory}/a")
    files.sync_directory(directory)
    assert files.list(directory) == ["c"]
    for call in (
        lambda: files.open(f"{directory}/a", create=False),
        lambda: files.open_to_read(f"{directory}/a"),
        lambda: files.unlink(f"{directory}/a"),
        lambda: files.rename(f"{directory}/a", f"{directory}/b"),
        lambda: files.list(f"{directory}/none"),
        lambda: files.sync_directory(f"{directory}/none"),
    ):
        with pytest.raises(FileNotFoundError):
            call()


def test_a_rename_replaces(files: Files, directory: str) -> None:
    for name in ("a", "b"):
        fd = _new(files, directory, name)
        files.write(fd, [name.encode()], 0)
        files.close(fd)
    files.rename(f"{directory}/a", f"{directory}/b")
    fd = files.open_to_read(f"{directory}/b")
    assert files.read(fd, 10, 0) == b"a"
    files.will_need(fd, 0, 1)
    files.close(fd)
    assert files.list(directory) == ["b"]


def test_a_closed_file_is_closed(files: Files, directory: str) -> None:
    fd = _new(files, directory)
    files.close(fd)
    with pytest.raises(OSError, match="Bad file descriptor"):
        files.close(fd)
