"""What becomes of segment files: spares, freeing, retention, the end."""

from __future__ import annotations

import errno

import pytest

from hareline.storage.journal.format.positions import offset_of
from hareline.storage.journal.upkeep import (
    Freed,
    Retention,
    discard,
    ensure_spare,
    finish,
    prepare,
)
from hareline.storage.journal.writer import Sync, is_out_of_space
from tests.support.writer_stand import DIRECTORY, NOW_MS, WriterStand


def test_there_is_one_spare_and_not_more() -> None:
    stand = WriterStand()
    for _ in range(3):
        assert ensure_spare(stand.writer, stand.writer.next_number) is None
    assert len(stand.writer.spares) == 1


@pytest.mark.parametrize(("number", "is_space"), [(errno.ENOSPC, True), (errno.EIO, False)])
def test_a_spare_that_cannot_be_made_is_told(number: int, is_space: bool) -> None:
    stand = WriterStand()
    stand.files.fail_next("allocate", number)
    error = ensure_spare(stand.writer, stand.writer.next_number)
    assert error is not None
    assert error.errno == number
    assert is_out_of_space(error) is is_space
    assert stand.writer.spares == []


def test_spares_of_an_earlier_run_are_used_and_those_too_many_or_of_another_size_go() -> None:
    stand = WriterStand()
    for number, size in ((7, 4096), (8, 4096), (9, 4096), (10, 1000)):
        stand.files.put(f"{DIRECTORY}/spare-{number:016x}", bytes(size))
    stand.prepare()
    assert stand.writer.spares == [f"{DIRECTORY}/spare-{number:016x}" for number in (7, 8)]
    assert len(stand.files.list(DIRECTORY)) == 2


def discarding(stand: WriterStand, *freed: Freed, now_ms: int = NOW_MS) -> list[str]:
    return discard(stand.writer, stand.retention, list(freed), [], now_ms).errors


def test_freed_segments_become_spares_until_there_are_two() -> None:
    stand = WriterStand()
    for _ in range(4):
        stand.write(220)
    ends = dict(stand.live)
    freed = [Freed(number, ends[number], 4096, NOW_MS) for number in (1, 2, 3)]
    assert discarding(stand, *freed) == []
    assert len(stand.writer.spares) == 2
    assert [name for name in stand.files.list(DIRECTORY) if name.endswith(".log")] == [
        f"{4:016x}.log"
    ]


def test_a_segment_of_another_size_is_unlinked() -> None:
    stand = WriterStand()
    stand.write(1000)
    stand.write(1)
    assert discarding(stand, Freed(1, stand.live[0][1], 20_000, NOW_MS)) == []
    assert stand.writer.spares == []


def test_a_file_that_cannot_be_discarded_is_told_and_the_others_go() -> None:
    stand = WriterStand()
    for _ in range(3):
        stand.write(220)
    stand.files.fail_next("rename", errno.EACCES)
    errors = discarding(stand, Freed(1, 0, 4096, NOW_MS), Freed(2, 0, 4096, NOW_MS))
    assert errors == [f"{DIRECTORY}/{1:016x}.log: Permission denied"]
    assert len(stand.writer.spares) == 1


def retain(stand: WriterStand, age_s: int, limit_bytes: int) -> list[int]:
    """Which segments are retained when three of them are freed, a second apart."""
    stand.retention = Retention(stand.files, DIRECTORY, age_s, limit_bytes)
    stand.retention.open()
    for _ in range(4):
        stand.write(220)
    ends = dict(stand.live)
    for number in (1, 2, 3):
        freed = Freed(number, ends[number], 4096, NOW_MS + 1000 * number)
        assert discarding(stand, freed, now_ms=NOW_MS + 4000) == []
    return [segment.number for segment in stand.retention.segments]


def test_what_is_retained_is_cut_to_what_was_written() -> None:
    stand = WriterStand()
    assert retain(stand, 3600, 0) == [1, 2, 3]
    path = f"{DIRECTORY}/retained/{2:016x}.log"
    assert len(stand.files.content(path)) == dict(stand.live)[2]
    assert stand.writer.spares == []


def test_retention_trims_by_age() -> None:
    assert retain(WriterStand(), 2, 0) == [2, 3]  # 3, 2 and 1 seconds old: above two goes


def test_retention_trims_by_size_the_oldest_first() -> None:
    stand = WriterStand()
    assert retain(stand, 0, 8_000) == [2, 3]
    assert stand.files.list(f"{DIRECTORY}/retained") == [f"{2:016x}.log", f"{3:016x}.log"]


def test_what_an_earlier_run_has_retained_counts() -> None:
    stand = WriterStand()
    retain(stand, 3600, 0)
    again = Retention(stand.files, DIRECTORY, 3600, 5000)
    again.open()
    assert [segment.number for segment in again.segments] == [1, 2, 3]
    again.trim(NOW_MS)
    assert [segment.number for segment in again.segments] == [3]


def test_no_retention_touches_nothing() -> None:
    stand = WriterStand()
    assert not stand.retention.is_on
    stand.retention.open()
    assert stand.files.list(DIRECTORY) == []


def test_the_end_cuts_the_tail_to_what_was_written_and_syncs_it() -> None:
    stand = WriterStand("interval")
    work = stand.write(5)
    assert finish(stand.writer) == ""
    stand.files.crash()
    octets = stand.files.content(f"{DIRECTORY}/{1:016x}.log")
    assert len(octets) == offset_of(work.position) + work.octets
    assert stand.batches() == [5]


def test_preparing_says_what_is_wrong() -> None:
    stand = WriterStand()
    stand.files.fail_next("sync_directory", errno.EACCES)
    assert prepare(stand.writer, stand.retention) == f"{DIRECTORY}: Permission denied"


def test_a_spare_of_the_same_name_is_not_counted_twice() -> None:
    """An earlier run has made a spare for segment 2, which then came out of another one."""
    stand = WriterStand()
    for number in (1, 3):
        stand.files.put(f"{DIRECTORY}/spare-{number:016x}", bytes(4096))
    stand.prepare()
    for _ in range(4):
        stand.write(220)
    stand.files.put(f"{DIRECTORY}/spare-{2:016x}", bytes(4096))
    stand.writer.spares.append(f"{DIRECTORY}/spare-{2:016x}")
    ends = dict(stand.live)
    assert discarding(stand, Freed(2, ends[2], 4096, NOW_MS)) == []
    assert stand.writer.spares == [f"{DIRECTORY}/spare-{2:016x}"]
    for _ in range(2):
        assert not stand.write(220).error


@pytest.mark.parametrize("sync", ["interval", "never"])
def test_what_is_freed_goes_only_when_that_is_durable(sync: Sync) -> None:
    stand = WriterStand(sync)
    stand.write(220)
    stand.write(220)
    stand.write(1)
    discarding(stand, Freed(1, stand.live[0][1], 4096, NOW_MS))
    names = [each.name for each in stand.files.operations if each.path.startswith(DIRECTORY)]
    assert names.index("rename") > len(names) - 1 - names[::-1].index("sync")


def test_what_a_cut_left_over_goes() -> None:
    stand = WriterStand()
    stand.write(3)
    stand.files.put(f"{DIRECTORY}/{9:016x}.log", bytes(100))
    path = f"{DIRECTORY}/{1:016x}.log"
    leftovers = [(path, 80), (f"{DIRECTORY}/{9:016x}.log", 0), (f"{DIRECTORY}/gone", 0)]
    discarded = discard(stand.writer, stand.retention, [], leftovers, NOW_MS)
    assert len(stand.files.content(path)) == 80
    assert f"{9:016x}.log" not in stand.files.list(DIRECTORY)
    assert discarded.errors == [f"{DIRECTORY}/gone: No such file or directory"]
