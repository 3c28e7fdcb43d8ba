"""The end of the journal: where a batch goes, and what becomes of errors."""

from __future__ import annotations

import errno

import pytest

from hareline.storage.journal.format.frame import BATCH_SIZE, CLEAN, encode_record
from hareline.storage.journal.format.header import header_size
from hareline.storage.journal.format.positions import (
    SEGMENT_BYTES_MAX,
    offset_of,
    position_of,
    segment_of,
)
from hareline.storage.journal.format.records import CLEAN_TIME
from hareline.storage.journal.segment import make_spare
from hareline.storage.journal.upkeep import ensure_spare, finish
from hareline.storage.journal.writer import JournalWriter, Sync, SyncLater
from tests.crash.forgetful_files import ForgetfulFiles
from tests.support.writer_stand import DIRECTORY, NOW_MS, RECORD_BYTES, WriterStand


def test_the_first_batch_begins_a_segment() -> None:
    stand = WriterStand()
    work = stand.write(3)
    assert work.roll is not None
    assert segment_of(work.position) == 1
    assert offset_of(work.position) == header_size(0)
    assert stand.batches() == [3]


def test_batches_follow_one_another_without_a_gap() -> None:
    stand = WriterStand()
    first, second = stand.write(), stand.write()
    assert second.position == first.position + first.octets
    assert second.roll is None
    assert stand.batches() == [1, 1]


def test_a_batch_that_just_fits_stays_and_one_octet_more_begins_a_segment() -> None:
    records = (4096 - header_size(0) - 2 * BATCH_SIZE) // RECORD_BYTES
    stand = WriterStand()
    stand.write(records - 1)
    room = stand.writer.room()
    assert RECORD_BYTES <= room < 2 * RECORD_BYTES
    assert not stand.writer.make_room(room, 0, [], NOW_MS)
    assert stand.write().roll is None
    assert stand.write().roll is not None
    assert stand.writer.number == 2
    assert stand.batches() == [records - 1, 1, 1]


def test_a_batch_longer_than_a_segment_gets_one_of_its_own_size() -> None:
    stand = WriterStand()
    work = stand.write(1000)
    assert work.roll is not None
    assert work.roll.size_bytes > 4096
    assert stand.batches() == [1000]


def test_a_batch_too_long_for_any_segment_is_an_error_that_says_so() -> None:
    stand = WriterStand()
    with pytest.raises(ValueError, match="does not fit"):
        stand.writer.make_room(SEGMENT_BYTES_MAX, 0, [], NOW_MS)


@pytest.mark.parametrize("segment_bytes", [0, SEGMENT_BYTES_MAX + 1])
def test_a_size_that_no_segment_can_have_is_refused(segment_bytes: int) -> None:
    with pytest.raises(ValueError, match="segments of"):
        JournalWriter(ForgetfulFiles(), DIRECTORY, segment_bytes, "always")


def test_what_was_written_always_survives_a_crash() -> None:
    stand = WriterStand()
    stand.write(2)
    stand.write(3)
    assert stand.writer.durable_position == position_of(1, stand.writer.end)
    stand.files.crash()
    assert stand.batches() == [2, 3]


def test_at_intervals_only_what_was_synced_survives() -> None:
    stand = WriterStand("interval")
    stand.write(2)
    assert stand.writer.durable_position == 0
    later = SyncLater(stand.writer, lambda work: None)
    later.run()
    later.finished()
    assert stand.writer.durable_position == position_of(1, stand.writer.end)
    stand.write(3)
    stand.files.crash()
    assert stand.batches() == [2]


def test_at_intervals_a_full_segment_is_synced_before_the_next_begins() -> None:
    stand = WriterStand("interval")
    stand.write(200)
    stand.write(200)  # does not fit any more
    assert stand.writer.number == 2
    stand.files.crash()
    assert stand.batches() == [200]


def test_never_is_synced_only_where_a_segment_ends() -> None:
    stand = WriterStand("never")
    stand.write(200)
    assert stand.writer.syncs == 0
    stand.write(200)
    assert (stand.writer.number, stand.writer.syncs) == (2, 1)
    stand.files.crash()  # what was moved into the first one may be nowhere else any more
    assert stand.batches() == [200]


def test_what_must_be_durable_before_is_called_before_the_write() -> None:
    stand = WriterStand()
    stand.writer.make_room(RECORD_BYTES, 0, [], NOW_MS)
    parts = encode_record(CLEAN, (CLEAN_TIME.pack(1),), stand.writer.seed)
    seen: list[int] = []
    work = stand.writer.write_of(
        parts,
        RECORD_BYTES,
        1,
        1,
        NOW_MS,
        stand.written.append,
        [
            lambda: seen.append(
                len([each for each in stand.files.operations if each.name == "write"])
            )
        ],
    )
    work.run()
    assert seen == [0]
    assert not work.error


def test_a_failure_of_what_must_be_durable_before_writes_nothing() -> None:
    stand = WriterStand()
    stand.writer.make_room(RECORD_BYTES, 0, [], NOW_MS)
    parts = encode_record(CLEAN, (CLEAN_TIME.pack(1),), stand.writer.seed)

    def fail() -> None:
        raise OSError(errno.EIO, "Input/output error")

    work = stand.writer.write_of(parts, RECORD_BYTES, 1, 1, NOW_MS, stand.written.append, [fail])
    work.run()
    work.finished()
    assert "large body failed: Input/output error" in work.error
    assert stand.files.list(DIRECTORY) == []


@pytest.mark.parametrize("name", ["write", "sync", "sync_directory"])
def test_an_error_names_file_and_cause(name: str) -> None:
    stand = WriterStand()
    stand.files.fail_next(name, errno.EIO)
    work = stand.write()
    assert work.error.startswith(f"{DIRECTORY}/{1:016x}.log: ")
    assert work.error.endswith("failed: Input/output error")
    assert not work.is_out_of_space
    assert stand.writer.in_flight is work


@pytest.mark.parametrize("name", ["allocate", "write"])
def test_no_space_is_no_error_and_the_same_batch_can_be_tried_again(name: str) -> None:
    stand = WriterStand()
    stand.files.fail_when(lambda operation: errno.ENOSPC if operation.name == name else None)
    work = stand.write(2)
    assert (work.is_out_of_space, work.error) == (True, "")
    assert stand.batches() == []
    stand.files.heal()
    work.run()
    work.finished()
    assert (work.is_out_of_space, work.error) == (False, "")
    assert stand.batches() == [2]


def test_without_room_for_a_segment_a_smaller_one_is_begun() -> None:
    stand = WriterStand(segment_bytes=4096)
    stand.files.limit_bytes = 1500
    work = stand.write(2)
    assert not work.is_out_of_space
    assert stand.writer.size_bytes == stand.files.used_bytes == 1024
    stand.write(2)
    assert stand.batches() == [2, 2]


def test_a_spare_that_is_too_small_gives_its_room_away() -> None:
    stand = WriterStand(segment_bytes=4096)
    stand.writer.spares.append(make_spare(stand.files, DIRECTORY, 7, 4096))
    stand.files.limit_bytes = 8192
    work = stand.write(4096 // RECORD_BYTES)
    assert not work.is_out_of_space
    assert stand.writer.spares == []
    assert stand.batches() == [4096 // RECORD_BYTES]


def test_after_a_failure_the_tail_is_left_as_it_is() -> None:
    stand = WriterStand()
    stand.write(5)
    before = list(stand.files.operations)
    assert finish(stand.writer, has_failed=True) == ""
    assert stand.files.operations == before
    assert stand.files.open_files == 0


def test_a_bug_in_the_thread_is_an_error_like_any_other() -> None:
    stand = WriterStand()
    work = stand.make()
    work.parts = [None]  # type: ignore[list-item]
    work.run()
    work.finished()
    assert "write failed: " in work.error


def test_a_batch_can_be_read_while_it_is_in_flight() -> None:
    stand = WriterStand()
    work = stand.make(2)
    whole = work.octets_from(work.position)
    assert len(whole) == work.octets
    assert work.octets_from(work.position + BATCH_SIZE) == whole[BATCH_SIZE:]
    work.run()
    assert work.octets_from(work.position) == whole
    work.finished()
    assert stand.writer.in_flight is None


def test_a_spare_is_used_for_the_next_segment() -> None:
    stand = WriterStand()
    stand.write(100)
    assert ensure_spare(stand.writer, stand.writer.next_number) is None
    assert [name for name in stand.files.list(DIRECTORY) if name.startswith("spare-")]
    stand.files.fail_when(lambda each: errno.ENOSPC if each.name == "allocate" else None)
    stand.write(220)
    assert stand.writer.number == 2
    assert not [name for name in stand.files.list(DIRECTORY) if name.startswith("spare-")]
    stand.files.crash()
    assert stand.batches() == [100, 220]


def test_a_directory_that_cannot_be_synced_is_final_whatever_the_reason() -> None:
    stand = WriterStand()
    stand.write(220)
    stand.files.fail_next("sync_directory", errno.ENOSPC)
    work = stand.write(220)
    assert not work.is_out_of_space
    assert work.error.endswith("sync failed: No space left on device")


def test_a_full_segment_that_cannot_be_synced_is_final_whatever_the_reason() -> None:
    stand = WriterStand("interval")
    stand.write(220)
    stand.files.fail_next("sync", errno.ENOSPC)
    work = stand.write(220)
    assert not work.is_out_of_space
    assert "sync failed" in work.error


@pytest.mark.parametrize(("sync", "is_synced"), [("always", True), ("interval", False)])
def test_a_batch_on_the_disk_is_told_with_its_times(sync: Sync, is_synced: bool) -> None:
    told: list[tuple[int, float, float | None]] = []
    stand = WriterStand(sync=sync)
    stand.writer.on_measured = lambda *measured: told.append(measured)
    work = stand.write(3)
    ((octets, write_s, sync_s),) = told
    assert octets == work.octets
    assert write_s >= 0
    assert (sync_s is not None) is is_synced


def test_a_batch_that_failed_is_not_told() -> None:
    stand = WriterStand()
    stand.writer.on_measured = lambda *measured: pytest.fail(f"told {measured}")
    stand.files.fail_next("write", errno.EIO)
    assert stand.write().error
