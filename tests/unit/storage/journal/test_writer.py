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
from hareline.storage.journal.upkeep import Discard, Finish, Freed, MakeSpare, Prepare, Retention
from hareline.storage.journal.writer import JournalWriter, Sync, SyncLater, Write
from tests.crash.forgetful_files import ForgetfulFiles
from tests.support.segments import Listener, read_all

DIRECTORY = "/data/journal"
NOW_MS = 1_700_000_000_000
RECORD_BYTES = 9 + CLEAN_TIME.size


class Stand:
    """A writer whose works are run by hand."""

    def __init__(self, sync: Sync = "always", segment_bytes: int = 4096) -> None:
        self.files = ForgetfulFiles()
        self.writer = JournalWriter(self.files, DIRECTORY, segment_bytes, sync)
        self.retention = Retention(self.files, DIRECTORY, 0, 0)
        self.live: list[tuple[int, int]] = []
        self.written: list[Write] = []
        self.tickets = 0
        self.prepare()

    def prepare(self) -> None:
        prepare = Prepare(self.writer, self.retention, lambda error: None)
        prepare.run()
        assert not prepare.error

    def make(self, records: int = 1, first_octets: int = 0) -> Write:
        """A batch of records of 17 octets."""
        writer = self.writer
        ends = dict(self.live)
        if writer.number:
            ends[writer.number] = writer.end
        live = sorted(ends.items())
        if writer.make_room(records * RECORD_BYTES, first_octets, live, NOW_MS):
            self.live = live
        parts: list[bytes] = []
        for _ in range(records):
            parts += encode_record(CLEAN, (CLEAN_TIME.pack(NOW_MS),), writer.seed)
        self.tickets += 1
        return writer.write_of(parts, records, self.tickets, NOW_MS, self.written.append, [])

    def write(self, records: int = 1) -> Write:
        work = self.make(records)
        work.run()
        work.finished()
        return work

    def batches(self) -> list[int]:
        """How many records each batch has that can be read."""
        found, _, _ = read_all(self.files, Listener(), directory=DIRECTORY)
        return [len(batch.records) for batch in found]


def test_the_first_batch_begins_a_segment() -> None:
    stand = Stand()
    work = stand.write(3)
    assert work.roll is not None
    assert segment_of(work.position) == 1
    assert offset_of(work.position) == header_size(0)
    assert stand.batches() == [3]


def test_batches_follow_one_another_without_a_gap() -> None:
    stand = Stand()
    first, second = stand.write(), stand.write()
    assert second.position == first.position + first.octets
    assert second.roll is None
    assert stand.batches() == [1, 1]


def test_a_batch_that_just_fits_stays_and_one_octet_more_begins_a_segment() -> None:
    records = (4096 - header_size(0) - 2 * BATCH_SIZE) // RECORD_BYTES
    stand = Stand()
    stand.write(records - 1)
    room = stand.writer.room()
    assert RECORD_BYTES <= room < 2 * RECORD_BYTES
    assert not stand.writer.make_room(room, 0, [], NOW_MS)
    assert stand.write().roll is None
    assert stand.write().roll is not None
    assert stand.writer.number == 2
    assert stand.batches() == [records - 1, 1, 1]


def test_a_batch_longer_than_a_segment_gets_one_of_its_own_size() -> None:
    stand = Stand()
    work = stand.write(1000)
    assert work.roll is not None
    assert work.roll.size_bytes > 4096
    assert stand.batches() == [1000]


def test_a_batch_too_long_for_any_segment_is_an_error_that_says_so() -> None:
    stand = Stand()
    with pytest.raises(ValueError, match="does not fit"):
        stand.writer.make_room(SEGMENT_BYTES_MAX, 0, [], NOW_MS)


@pytest.mark.parametrize("segment_bytes", [0, SEGMENT_BYTES_MAX + 1])
def test_a_size_that_no_segment_can_have_is_refused(segment_bytes: int) -> None:
    with pytest.raises(ValueError, match="segments of"):
        JournalWriter(ForgetfulFiles(), DIRECTORY, segment_bytes, "always")


def test_what_was_written_always_survives_a_crash() -> None:
    stand = Stand()
    stand.write(2)
    stand.write(3)
    assert stand.writer.durable_position == position_of(1, stand.writer.end)
    stand.files.crash()
    assert stand.batches() == [2, 3]


def test_at_intervals_only_what_was_synced_survives() -> None:
    stand = Stand("interval")
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
    stand = Stand("interval")
    stand.write(200)
    stand.write(200)  # does not fit any more
    assert stand.writer.number == 2
    stand.files.crash()
    assert stand.batches() == [200]


def test_never_is_synced_only_where_a_segment_ends() -> None:
    stand = Stand("never")
    stand.write(200)
    assert stand.writer.syncs == 0
    stand.write(200)
    assert (stand.writer.number, stand.writer.syncs) == (2, 1)
    stand.files.crash()  # what was moved into the first one may be nowhere else any more
    assert stand.batches() == [200]


def test_what_must_be_durable_before_is_called_before_the_write() -> None:
    stand = Stand()
    stand.writer.make_room(RECORD_BYTES, 0, [], NOW_MS)
    parts = encode_record(CLEAN, (CLEAN_TIME.pack(1),), stand.writer.seed)
    seen: list[int] = []
    work = stand.writer.write_of(
        parts,
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
    stand = Stand()
    stand.writer.make_room(RECORD_BYTES, 0, [], NOW_MS)
    parts = encode_record(CLEAN, (CLEAN_TIME.pack(1),), stand.writer.seed)

    def fail() -> None:
        raise OSError(errno.EIO, "Input/output error")

    work = stand.writer.write_of(parts, 1, 1, NOW_MS, stand.written.append, [fail])
    work.run()
    work.finished()
    assert "large body failed: Input/output error" in work.error
    assert stand.files.list(DIRECTORY) == []


@pytest.mark.parametrize("name", ["write", "sync", "sync_directory"])
def test_an_error_names_file_and_cause(name: str) -> None:
    stand = Stand()
    stand.files.fail_next(name, errno.EIO)
    work = stand.write()
    assert work.error.startswith(f"{DIRECTORY}/{1:016x}.log: ")
    assert work.error.endswith("failed: Input/output error")
    assert not work.is_out_of_space
    assert stand.writer.in_flight is work


@pytest.mark.parametrize("name", ["allocate", "write"])
def test_no_space_is_no_error_and_the_same_batch_can_be_tried_again(name: str) -> None:
    stand = Stand()
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
    stand = Stand(segment_bytes=4096)
    stand.files.limit_bytes = 1500
    work = stand.write(2)
    assert not work.is_out_of_space
    assert stand.writer.size_bytes == stand.files.used_bytes == 1024
    stand.write(2)
    assert stand.batches() == [2, 2]


def test_a_spare_that_is_too_small_gives_its_room_away() -> None:
    stand = Stand(segment_bytes=4096)
    stand.writer.spares.append(make_spare(stand.files, DIRECTORY, 7, 4096))
    stand.files.limit_bytes = 8192
    work = stand.write(4096 // RECORD_BYTES)
    assert not work.is_out_of_space
    assert stand.writer.spares == []
    assert stand.batches() == [4096 // RECORD_BYTES]


def test_after_a_failure_the_tail_is_left_as_it_is() -> None:
    stand = Stand()
    stand.write(5)
    before = list(stand.files.operations)
    errors: list[str] = []
    finish = Finish(stand.writer, errors.append, has_failed=True)
    finish.run()
    finish.finished()
    assert errors == [""]
    assert stand.files.operations == before
    assert stand.files.open_files == 0


def test_a_bug_in_the_thread_is_an_error_like_any_other() -> None:
    stand = Stand()
    work = stand.make()
    work.parts = [None]  # type: ignore[list-item]
    work.run()
    work.finished()
    assert "write failed: " in work.error


def test_a_batch_can_be_read_while_it_is_in_flight() -> None:
    stand = Stand()
    work = stand.make(2)
    whole = work.octets_from(work.position)
    assert len(whole) == work.octets
    assert work.octets_from(work.position + BATCH_SIZE) == whole[BATCH_SIZE:]
    work.run()
    assert work.octets_from(work.position) == whole
    work.finished()
    assert stand.writer.in_flight is None


def test_a_spare_is_used_for_the_next_segment() -> None:
    stand = Stand()
    stand.write(100)
    make = MakeSpare(stand.writer, lambda work: None)
    make.run()
    assert [name for name in stand.files.list(DIRECTORY) if name.startswith("spare-")]
    stand.files.fail_when(lambda each: errno.ENOSPC if each.name == "allocate" else None)
    stand.write(220)
    assert stand.writer.number == 2
    assert not [name for name in stand.files.list(DIRECTORY) if name.startswith("spare-")]
    stand.files.crash()
    assert stand.batches() == [100, 220]


def test_there_is_one_spare_and_not_more() -> None:
    stand = Stand()
    for _ in range(3):
        MakeSpare(stand.writer, lambda work: None).run()
    assert len(stand.writer.spares) == 1


@pytest.mark.parametrize(("number", "is_space"), [(errno.ENOSPC, True), (errno.EIO, False)])
def test_a_spare_that_cannot_be_made_is_told(number: int, is_space: bool) -> None:
    stand = Stand()
    stand.files.fail_next("allocate", number)
    told: list[MakeSpare] = []
    make = MakeSpare(stand.writer, told.append)
    make.run()
    make.finished()
    assert told == [make]
    assert make.is_out_of_space is is_space
    assert "no spare segment" in make.error


def test_spares_of_an_earlier_run_are_used_and_those_too_many_or_of_another_size_go() -> None:
    stand = Stand()
    for number, size in ((7, 4096), (8, 4096), (9, 4096), (10, 1000)):
        stand.files.put(f"{DIRECTORY}/spare-{number:016x}", bytes(size))
    stand.prepare()
    assert stand.writer.spares == [f"{DIRECTORY}/spare-{number:016x}" for number in (7, 8)]
    assert len(stand.files.list(DIRECTORY)) == 2


def discard(stand: Stand, *freed: Freed, now_ms: int = NOW_MS) -> list[str]:
    work = Discard(stand.writer, stand.retention, list(freed), [], now_ms, lambda work: None)
    work.run()
    return work.errors


def test_freed_segments_become_spares_until_there_are_two() -> None:
    stand = Stand()
    for _ in range(4):
        stand.write(220)
    ends = dict(stand.live)
    freed = [Freed(number, ends[number], 4096, NOW_MS) for number in (1, 2, 3)]
    assert discard(stand, *freed) == []
    assert len(stand.writer.spares) == 2
    assert [name for name in stand.files.list(DIRECTORY) if name.endswith(".log")] == [
        f"{4:016x}.log"
    ]


def test_a_segment_of_another_size_is_unlinked() -> None:
    stand = Stand()
    stand.write(1000)
    stand.write(1)
    assert discard(stand, Freed(1, stand.live[0][1], 20_000, NOW_MS)) == []
    assert stand.writer.spares == []


def test_a_file_that_cannot_be_discarded_is_told_and_the_others_go() -> None:
    stand = Stand()
    for _ in range(3):
        stand.write(220)
    stand.files.fail_next("rename", errno.EACCES)
    errors = discard(stand, Freed(1, 0, 4096, NOW_MS), Freed(2, 0, 4096, NOW_MS))
    assert errors == [f"{DIRECTORY}/{1:016x}.log: Permission denied"]
    assert len(stand.writer.spares) == 1


def retain(stand: Stand, age_s: int, limit_bytes: int) -> list[int]:
    """Which segments are retained when three of them are freed, a second apart."""
    stand.retention = Retention(stand.files, DIRECTORY, age_s, limit_bytes)
    stand.retention.open()
    for _ in range(4):
        stand.write(220)
    ends = dict(stand.live)
    for number in (1, 2, 3):
        freed = Freed(number, ends[number], 4096, NOW_MS + 1000 * number)
        assert discard(stand, freed, now_ms=NOW_MS + 4000) == []
    return [segment.number for segment in stand.retention.segments]


def test_what_is_retained_is_cut_to_what_was_written() -> None:
    stand = Stand()
    assert retain(stand, 3600, 0) == [1, 2, 3]
    path = f"{DIRECTORY}/retained/{2:016x}.log"
    assert len(stand.files.content(path)) == dict(stand.live)[2]
    assert stand.writer.spares == []


def test_retention_trims_by_age() -> None:
    assert retain(Stand(), 2, 0) == [2, 3]  # 3, 2 and 1 seconds old: above two goes


def test_retention_trims_by_size_the_oldest_first() -> None:
    stand = Stand()
    assert retain(stand, 0, 8_000) == [2, 3]
    assert stand.files.list(f"{DIRECTORY}/retained") == [f"{2:016x}.log", f"{3:016x}.log"]


def test_what_an_earlier_run_has_retained_counts() -> None:
    stand = Stand()
    retain(stand, 3600, 0)
    again = Retention(stand.files, DIRECTORY, 3600, 5000)
    again.open()
    assert [segment.number for segment in again.segments] == [1, 2, 3]
    again.trim(NOW_MS)
    assert [segment.number for segment in again.segments] == [3]


def test_no_retention_touches_nothing() -> None:
    stand = Stand()
    assert not stand.retention.is_on
    stand.retention.open()
    assert stand.files.list(DIRECTORY) == []


def test_the_end_cuts_the_tail_to_what_was_written_and_syncs_it() -> None:
    stand = Stand("interval")
    work = stand.write(5)
    errors: list[str] = []
    finish = Finish(stand.writer, errors.append)
    finish.run()
    finish.finished()
    assert errors == [""]
    stand.files.crash()
    octets = stand.files.content(f"{DIRECTORY}/{1:016x}.log")
    assert len(octets) == offset_of(work.position) + work.octets
    assert stand.batches() == [5]


def test_preparing_says_what_is_wrong() -> None:
    stand = Stand()
    stand.files.fail_next("sync_directory", errno.EACCES)
    told: list[str] = []
    prepare = Prepare(stand.writer, stand.retention, told.append)
    prepare.run()
    prepare.finished()
    assert told == [f"{DIRECTORY}: Permission denied"]


def test_a_spare_of_the_same_name_is_not_counted_twice() -> None:
    """An earlier run has made a spare for segment 2, which then came out of another one."""
    stand = Stand()
    for number in (1, 3):
        stand.files.put(f"{DIRECTORY}/spare-{number:016x}", bytes(4096))
    stand.prepare()
    for _ in range(4):
        stand.write(220)
    stand.files.put(f"{DIRECTORY}/spare-{2:016x}", bytes(4096))
    stand.writer.spares.append(f"{DIRECTORY}/spare-{2:016x}")
    ends = dict(stand.live)
    assert discard(stand, Freed(2, ends[2], 4096, NOW_MS)) == []
    assert stand.writer.spares == [f"{DIRECTORY}/spare-{2:016x}"]
    for _ in range(2):
        assert not stand.write(220).error


def test_a_directory_that_cannot_be_synced_is_final_whatever_the_reason() -> None:
    stand = Stand()
    stand.write(220)
    stand.files.fail_next("sync_directory", errno.ENOSPC)
    work = stand.write(220)
    assert not work.is_out_of_space
    assert work.error.endswith("sync failed: No space left on device")


def test_a_full_segment_that_cannot_be_synced_is_final_whatever_the_reason() -> None:
    stand = Stand("interval")
    stand.write(220)
    stand.files.fail_next("sync", errno.ENOSPC)
    work = stand.write(220)
    assert not work.is_out_of_space
    assert "sync failed" in work.error


@pytest.mark.parametrize("sync", ["interval", "never"])
def test_what_is_freed_goes_only_when_that_is_durable(sync: Sync) -> None:
    stand = Stand(sync)
    stand.write(220)
    stand.write(220)
    stand.write(1)
    discard(stand, Freed(1, stand.live[0][1], 4096, NOW_MS))
    names = [each.name for each in stand.files.operations if each.path.startswith(DIRECTORY)]
    assert names.index("rename") > len(names) - 1 - names[::-1].index("sync")


def test_what_a_cut_left_over_goes() -> None:
    stand = Stand()
    stand.write(3)
    stand.files.put(f"{DIRECTORY}/{9:016x}.log", bytes(100))
    path = f"{DIRECTORY}/{1:016x}.log"
    leftovers = [(path, 80), (f"{DIRECTORY}/{9:016x}.log", 0), (f"{DIRECTORY}/gone", 0)]
    work = Discard(stand.writer, stand.retention, [], leftovers, NOW_MS, lambda work: None)
    work.run()
    assert len(stand.files.content(path)) == 80
    assert f"{9:016x}.log" not in stand.files.list(DIRECTORY)
    assert work.errors == [f"{DIRECTORY}/gone: No such file or directory"]
