"""The disk that forgets does forget, and keeps what was promised."""

from __future__ import annotations

import errno
import random

import pytest

from tests.crash.forgetful_files import PAGE_BYTES, ForgetfulFiles, Operation, PowerLoss

PATH = "/d/file"


@pytest.fixture
def files() -> ForgetfulFiles:
    files = ForgetfulFiles()
    files.make_directory("/d")
    return files


def _durable(files: ForgetfulFiles, octets: bytes = b"old") -> int:
    fd = files.open(PATH, create=True)
    files.write(fd, [octets], 0)
    files.sync(fd)
    files.sync_directory("/d")
    return fd


def test_synced_octets_survive_and_others_do_not(files: ForgetfulFiles) -> None:
    fd = _durable(files)
    files.write(fd, [b"new and longer"], 0)
    assert files.content(PATH) == b"new and longer"
    assert files.durable_content(PATH) == b"old"
    files.crash()
    assert files.content(PATH) == b"old"


def test_a_new_name_needs_its_directory_synced(files: ForgetfulFiles) -> None:
    fd = files.open(PATH, create=True)
    files.write(fd, [b"x"], 0)
    files.sync(fd)
    with pytest.raises(FileNotFoundError):
        files.durable_content(PATH)
    files.crash()
    assert files.list("/d") == []


def test_renames_and_unlinks_need_it_too(files: ForgetfulFiles) -> None:
    _durable(files)
    files.rename(PATH, "/d/other")
    files.crash()
    assert files.list("/d") == ["file"]
    files.unlink(PATH)
    files.crash()
    assert files.content(PATH) == b"old"
    files.rename(PATH, "/d/other")
    files.sync_directory("/d")
    files.crash()
    assert files.list("/d") == ["other"]


def test_a_rename_is_never_half_on_the_disk(files: ForgetfulFiles) -> None:
    _durable(files)
    seen = set()
    for seed in range(30):
        files.rename(PATH, "/d/other")
        files.crash(random.Random(seed))
        names = files.list("/d")
        seen.update(names)
        assert len(names) == 1
        if names == ["other"]:
            files.rename("/d/other", PATH)
            files.sync_directory("/d")
    assert seen == {"file", "other"}


def test_size_is_durable_after_a_sync_only(files: ForgetfulFiles) -> None:
    fd = _durable(files)
    files.allocate(fd, 100)
    files.crash()
    assert files.content(PATH) == b"old"
    fd = files.open(PATH, create=False)
    files.allocate(fd, 100)
    files.sync(fd)
    files.truncate(fd, 1)
    files.crash()
    assert files.content(PATH) == b"old".ljust(100, b"\0")
    fd = files.open(PATH, create=False)
    files.truncate(fd, 1)
    files.sync(fd)
    files.crash()
    assert files.content(PATH) == b"o"


def test_any_of_the_unsynced_pages_may_be_there(files: ForgetfulFiles) -> None:
    fd = _durable(files, bytes(3 * PAGE_BYTES))
    kept = set()
    for seed in range(40):
        fd = files.open(PATH, create=False)
        files.write(fd, [b"\1" * 3 * PAGE_BYTES], 0)
        files.crash(random.Random(seed))
        content = files.content(PATH)
        pages = [content[n * PAGE_BYTES : (n + 1) * PAGE_BYTES] for n in range(3)]
        assert all(page in {bytes(PAGE_BYTES), b"\1" * PAGE_BYTES} for page in pages)
        kept.add(tuple(page[0] for page in pages))
        files.put(PATH, bytes(3 * PAGE_BYTES))
    assert len(kept) == 8


def test_a_failed_sync_is_final(files: ForgetfulFiles) -> None:
    fd = _durable(files)
    files.write(fd, [b"new"], 0)
    files.fail_next("sync", errno.EIO)
    with pytest.raises(OSError, match="Input/output error") as raised:
        files.sync(fd)
    assert raised.value.errno == errno.EIO
    files.sync(fd)
    assert files.content(PATH) == b"new"
    files.crash()
    assert files.content(PATH) == b"old"


def test_a_full_disk_refuses_and_can_be_made_larger(files: ForgetfulFiles) -> None:
    files.limit_bytes = 10
    fd = _durable(files, b"12345678")
    with pytest.raises(OSError, match="No space left"):
        files.write(fd, [b"345"], 8)
    with pytest.raises(OSError, match="No space left"):
        files.allocate(fd, 11)
    files.write(fd, [b"over"], 0)
    files.limit_bytes = 20
    files.write(fd, [b"345"], 8)
    assert files.content(PATH) == b"over5678345"


def test_failures_by_what_is_done(files: ForgetfulFiles) -> None:
    fd = _durable(files)
    files.fail_when(lambda each: errno.EIO if each.name == "write" and each.offset >= 5 else None)
    files.write(fd, [b"x"], 4)
    for _ in range(2):
        with pytest.raises(OSError, match="Input/output error"):
            files.write(fd, [b"x"], 5)
    files.heal()
    files.write(fd, [b"x"], 5)


def test_a_crash_after_each_operation(files: ForgetfulFiles) -> None:
    def script() -> None:
        _durable(files)

    script()
    names = [operation.name for operation in files.operations]
    assert names == ["make_directory", "open", "write", "sync", "sync_directory"]
    left = []
    for count in range(1, 5):
        fresh = ForgetfulFiles()
        fresh.make_directory("/d")
        fresh.operations.clear()
        fresh.crash_after = count
        with pytest.raises(PowerLoss):
            _durable(fresh)
        with pytest.raises(PowerLoss):
            fresh.list("/d")
        fresh.crash()
        left.append([fresh.content(f"/d/{name}") for name in fresh.list("/d")])
    assert left == [[], [], [], [b"old"]]


def test_the_log_says_what_was_done(files: ForgetfulFiles) -> None:
    fd = _durable(files)
    files.write(fd, [b"ab", b"c"], 7)
    assert files.operations[-1] == Operation("write", PATH, 7, 3)
    assert files.open_files == 1
    files.crash()
    assert files.operations == []
    assert files.open_files == 0
    with pytest.raises(OSError, match="Bad file descriptor"):
        files.write(fd, [b"x"], 0)
