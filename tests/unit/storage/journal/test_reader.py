"""What is read of a journal: whole, torn, damaged, with files missing."""

from __future__ import annotations

import errno
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hareline.storage.journal.damage import Decision, JournalDamaged
from hareline.storage.journal.files import Files
from hareline.storage.journal.format.frame import (
    BATCH_SIZE,
    GAP,
    MESSAGE,
    RECORD_OVERHEAD,
    decode_batch,
    encode_batch,
    encode_record,
)
from hareline.storage.journal.format.header import UnsupportedVersion
from hareline.storage.journal.format.message import decode_message
from hareline.storage.journal.format.positions import offset_of, position_of, segment_name
from hareline.storage.journal.reader import JournalReader
from tests.crash.forgetful_files import ForgetfulFiles
from tests.support.examples import examples
from tests.support.segments import (
    DIRECTORY,
    Listener,
    SegmentWriter,
    clean,
    message,
    plain,
    read_all,
    read_for_newest,
    settle,
    two_segments,
)


def test_everything_is_read_in_order_with_positions(
    files: ForgetfulFiles, journal: SegmentWriter
) -> None:
    positions = two_segments(journal)
    listener = Listener()
    batches, numbers, strays = read_all(files, listener)
    assert [batch.position for batch in batches] == positions
    assert plain(batches) == [
        [message((1, 0)), message((1, 1), (2, 0))],
        [settle((1, 0, 1)), message((1, 2))],
        [message((1, 3))],
        [message((1, 4))],
        [settle((1, 2, 2))],
    ]
    assert all(batch.is_whole for batch in batches)
    assert [batch.end for batch in batches[:2]] == positions[1:3]
    assert (numbers, strays, listener.damages, listener.torn) == ([1, 2], [], [], [])


@pytest.mark.parametrize("chunk_bytes", [1, 61, 100, 200, 1000, 1 << 20])
def test_size_of_the_chunks_makes_no_difference(
    files: ForgetfulFiles, journal: SegmentWriter, chunk_bytes: int
) -> None:
    two_segments(journal)
    assert plain(read_all(files, Listener(), chunk_bytes=chunk_bytes)[0]) == plain(
        read_all(files, Listener())[0]
    )


def test_the_end_of_the_tail_is_where_its_last_batch_ends(
    files: ForgetfulFiles, journal: SegmentWriter
) -> None:
    two_segments(journal)
    reader = JournalReader(files, DIRECTORY, Listener())
    list(reader.batches())
    assert [source.end for source in reader.live] == [each.end for each in journal.segments]
    reader.close()
    assert files.open_files == 2  # the builder's own


def test_progress_ends_at_everything(files: ForgetfulFiles, journal: SegmentWriter) -> None:
    two_segments(journal)
    listener = Listener()
    read_all(files, listener)
    done = [octets for octets, _ in listener.progress]
    assert done == sorted(done)
    assert len(set(listener.progress[-1])) == 1


def test_progress_goes_on_from_segment_to_segment(
    files: ForgetfulFiles, journal: SegmentWriter
) -> None:
    two_segments(journal)
    listener = Listener()
    read_all(files, listener, chunk_bytes=1)
    ends = [segment.end for segment in journal.segments]
    starts = [octets for octets, _ in listener.progress]
    assert ends[0] + journal.tail.header.size_bytes in starts
    assert starts == sorted(starts)


def test_a_segment_without_a_batch_is_an_empty_journal(
    files: ForgetfulFiles, journal: SegmentWriter
) -> None:
    journal.begin(1)
    listener = Listener()
    assert read_all(files, listener) == ([], [1], [])
    assert not listener.torn


def test_a_torn_last_batch_is_cut_silently(files: ForgetfulFiles, journal: SegmentWriter) -> None:
    positions = two_segments(journal)
    journal.damage(2, journal.tail.end - 1)
    listener = Listener(Decision.FAIL)
    batches, numbers, _ = read_all(files, listener)
    assert [batch.position for batch in batches] == positions[:-1]
    assert numbers == [1, 2]
    assert not listener.damages
    last = offset_of(positions[-1])
    assert listener.torn == [(journal.path(2), positions[-1], journal.tail.end - last)]


def test_every_length_of_the_tail_reads_as_the_whole_batches_in_it(
    files: ForgetfulFiles, journal: SegmentWriter
) -> None:
    journal.begin(1, size_bytes=2048)
    starts = [offset_of(journal.batch(message((1, n)))) for n in range(4)]
    ends = [*starts[1:], journal.tail.end]
    whole = files.content(journal.path(1))
    for size in range(journal.tail.header.size_bytes, journal.tail.end + 1):
        files.put(journal.path(1), whole[:size])
        listener = Listener(Decision.FAIL)
        batches, _, _ = read_all(files, listener)
        assert len(batches) == sum(end <= size for end in ends), size
        files.put(journal.path(1), whole[:size].ljust(2048, b"\0"))
        assert len(read_all(files, Listener(Decision.FAIL))[0]) == len(batches), size


def test_batches_of_unsynced_pages_that_came_out_of_order_are_a_torn_tail(
    files: ForgetfulFiles, journal: SegmentWriter
) -> None:
    journal.begin(1)
    first = journal.batch(message((1, 0)))
    durable = journal.durable
    second = journal.batch(message((1, 1)))
    journal.durable = durable  # as without a sync in between
    journal.batch(message((1, 2)))
    journal.damage(1, offset_of(second) + BATCH_SIZE + 3)
    listener = Listener(Decision.FAIL)
    batches, _, _ = read_all(files, listener)
    assert [batch.position for batch in batches] == [first]
    assert not listener.damages
    assert [position for _, position, _ in listener.torn] == [second]


def test_a_whole_segment_of_unsynced_batches_goes_with_the_torn_one_before_it(
    files: ForgetfulFiles, journal: SegmentWriter
) -> None:
    journal.begin(1)
    first = journal.batch(message((1, 0)))
    durable = journal.durable
    second = journal.batch(message((1, 1)))
    journal.begin(2)
    journal.durable = durable
    journal.batch(message((1, 2)))
    journal.damage(1, offset_of(second) + 20)
    listener = Listener(Decision.FAIL)
    batches, numbers, strays = read_all(files, listener)
    assert [batch.position for batch in batches] == [first]
    assert (numbers, strays) == ([1], [segment_name(2)])


def test_a_new_segment_whose_header_was_not_written_is_a_torn_tail(
    files: ForgetfulFiles, journal: SegmentWriter
) -> None:
    journal.begin(1)
    journal.batch(message((1, 0)))
    path = f"{DIRECTORY}/{segment_name(2)}"
    files.put(path, bytes(4096))
    listener = Listener(Decision.FAIL)
    batches, numbers, strays = read_all(files, listener)
    assert len(batches) == 1
    assert (numbers, strays) == ([1], [segment_name(2)])
    assert listener.torn == [(path, position_of(2, 0), 4096)]


def test_a_recycled_file_with_the_header_of_its_former_life_is_a_torn_tail(
    files: ForgetfulFiles, journal: SegmentWriter
) -> None:
    journal.begin(1)
    journal.batch(message((1, 0)))
    journal.begin(2)
    journal.batch(message((1, 1)))
    files.put(f"{DIRECTORY}/{segment_name(3)}", files.content(journal.path(1)))
    listener = Listener(Decision.FAIL)
    batches, numbers, strays = read_all(files, listener)
    assert len(batches) == 2
    assert (numbers, strays) == ([1, 2], [segment_name(3)])


def test_a_first_batch_that_came_without_its_header_is_a_torn_tail(
    files: ForgetfulFiles, journal: SegmentWriter
) -> None:
    positions = two_segments(journal)
    journal.begin(3)
    journal.batch(message((1, 9)))
    journal.damage(3, 30)
    listener = Listener(Decision.FAIL)
    batches, numbers, strays = read_all(files, listener)
    assert [batch.position for batch in batches] == positions
    assert (numbers, strays) == ([1, 2], [segment_name(3)])
    assert [position for _, position, _ in listener.torn] == [position_of(3, 0)]


def test_what_a_file_holds_of_its_former_life_is_not_read(
    files: ForgetfulFiles, journal: SegmentWriter
) -> None:
    journal.begin(1, size_bytes=1024)
    while journal.tail.end < 900:
        journal.batch(message((1, 7)))
    former = files.content(journal.path(1))
    files.unlink(journal.path(1))
    journal.segments.clear()
    journal.durable = 0
    journal.begin(2, size_bytes=1024)
    journal.batch(message((9, 9)))
    end = journal.tail.end
    journal.damage(2, end, former[end:])
    listener = Listener(Decision.FAIL)
    batches, _, _ = read_all(files, listener)
    assert plain(batches) == [[message((9, 9))]]
    assert not listener.torn


@pytest.mark.parametrize("index", [0, 1, 2])
def test_damage_before_what_was_durable_is_never_cut_silently(
    files: ForgetfulFiles, journal: SegmentWriter, index: int
) -> None:
    positions = two_segments(journal)
    start, end = offset_of(positions[index]), [*positions, 0][index + 1]
    stop = offset_of(end) if index < 2 else journal.segments[0].end
    whole = files.content(journal.path(1))
    for offset in range(start, stop):
        journal.damage(1, offset)
        with pytest.raises(JournalDamaged, match=journal.path(1)) as raised:
            read_all(files, Listener(Decision.FAIL))
        damage = raised.value.damage
        assert start <= offset_of(damage.position) <= offset < stop
        files.put(journal.path(1), whole)


def test_truncate_ends_at_the_last_batch_before_the_damage(
    files: ForgetfulFiles, journal: SegmentWriter
) -> None:
    positions = two_segments(journal)
    journal.damage(1, offset_of(positions[1]) + BATCH_SIZE + 80)
    reader = JournalReader(files, DIRECTORY, Listener(Decision.TRUNCATE))
    assert [batch.position for batch in reader.batches()] == positions[:1]
    assert [(source.number, source.end) for source in reader.live] == [(1, offset_of(positions[1]))]
    assert reader.strays == [journal.path(2)]
    reader.close()


def test_a_batch_with_fewer_records_than_it_says_is_damaged(
    files: ForgetfulFiles, journal: SegmentWriter
) -> None:
    journal.begin(1)
    position = journal.batch(message((1, 0)), message((1, 1)))
    journal.batch(clean())
    octets = files.content(journal.path(1))
    head = decode_batch(octets, offset_of(position), journal.tail.seed)
    assert head is not None
    wrong = encode_batch(head._replace(records=3), journal.tail.seed)
    journal.damage(1, offset_of(position), wrong)
    listener = Listener(Decision.SKIP)
    batches, _, _ = read_all(files, listener)
    assert plain(batches) == [[message((1, 0)), message((1, 1))], [clean()]]
    assert [damage.what for damage in listener.damages] == [
        "a batch has not the records it should have"
    ]


def test_a_file_that_is_too_short_is_damaged(files: ForgetfulFiles, journal: SegmentWriter) -> None:
    positions = two_segments(journal)
    end = journal.segments[0].end
    files.put(journal.path(1), files.content(journal.path(1))[: offset_of(positions[2])])
    listener = Listener(Decision.SKIP)
    batches, numbers, _ = read_all(files, listener)
    assert len(batches) == 4
    assert numbers == [1, 2]
    [damage] = listener.damages
    assert damage.octets == end - offset_of(positions[2])
    assert "the file ends at" in damage.what


def test_a_missing_file_is_damage(files: ForgetfulFiles, journal: SegmentWriter) -> None:
    positions = two_segments(journal)
    files.unlink(journal.path(1))
    listener = Listener(Decision.SKIP)
    batches, numbers, strays = read_all(files, listener)
    assert [batch.position for batch in batches] == positions[3:]
    assert (numbers, strays) == ([2], [])
    [damage] = listener.damages
    assert (damage.path, damage.what) == (journal.path(1), "the file is missing")
    assert damage.octets == journal.segments[0].end
    with pytest.raises(JournalDamaged, match="the file is missing"):
        read_all(files, Listener(Decision.FAIL))
    assert read_all(files, Listener(Decision.TRUNCATE)) == ([], [], [segment_name(2)])


def test_batches_lost_before_a_damaged_header_are_noticed(
    files: ForgetfulFiles, journal: SegmentWriter
) -> None:
    positions = two_segments(journal)
    journal.damage(2, 20)
    start = offset_of(positions[2])
    journal.damage(1, start, bytes(journal.segments[0].end - start))
    listener = Listener(Decision.SKIP)
    batches, _, _ = read_all(files, listener)
    assert [batch.position for batch in batches] == [*positions[:2], *positions[3:]]
    assert [offset_of(damage.position) for damage in listener.damages] == [start, 0]


def test_damage_before_a_damaged_header_ends_where_the_octets_end(
    files: ForgetfulFiles, journal: SegmentWriter
) -> None:
    positions = two_segments(journal)
    journal.damage(2, 20)
    start = offset_of(positions[2])
    journal.damage(1, start + BATCH_SIZE + 20)
    listener = Listener(Decision.SKIP)
    batches, _, _ = read_all(files, listener)
    assert [batch.position for batch in batches] == [*positions[:2], *positions[3:]]
    octets = RECORD_OVERHEAD + len(message((1, 3))[1])
    assert [damage.octets for damage in listener.damages] == [
        octets,
        journal.tail.header.size_bytes,
    ]


@pytest.mark.parametrize("kept", [0, 20, 60, 70])
@pytest.mark.parametrize("is_cut", [True, False])
def test_a_newest_segment_without_header_or_first_batch_is_no_torn_tail(
    files: ForgetfulFiles, journal: SegmentWriter, kept: int, is_cut: bool
) -> None:
    positions = two_segments(journal)
    path = journal.path(2)
    octets = files.content(path)
    files.put(path, octets[:kept] + (b"" if is_cut else bytes(len(octets) - kept)))
    listener = Listener()
    assert read_all(files, listener)[1] == [1, 2] if kept > 59 else [1]
    assert listener.damages == []  # as long as nothing is known of it
    found, said = read_for_newest(files, 2)
    assert found == positions[:3]
    assert len(said) == 1


def test_its_second_batch_may_be_torn(files: ForgetfulFiles, journal: SegmentWriter) -> None:
    positions = two_segments(journal)
    journal.damage(2, offset_of(positions[4]) + BATCH_SIZE + 3)
    listener = Listener()
    batches, _, _ = read_all(files, listener, newest=2)
    assert [batch.position for batch in batches] == positions[:4]
    assert (listener.damages, len(listener.torn)) == ([], 1)


@pytest.mark.parametrize("at", [15, BATCH_SIZE + 3])
def test_before_a_missing_newest_segment_nothing_is_torn(
    files: ForgetfulFiles, journal: SegmentWriter, at: int
) -> None:
    """The last batch of the one before: its head, and what it has."""
    positions = two_segments(journal)
    files.unlink(journal.path(2))
    journal.damage(1, offset_of(positions[2]) + at)
    found, said = read_for_newest(files, 2)
    assert (found[:2], len(said)) == (positions[:2], 2)


def test_gaps_that_a_repair_left_are_passed(files: ForgetfulFiles, journal: SegmentWriter) -> None:
    journal.begin(1)
    journal.batch(message((1, 0)), (GAP, b"whatever"), message((1, 1)))
    batches, _, _ = read_all(files, Listener(Decision.FAIL))
    assert plain(batches) == [[message((1, 0)), message((1, 1))]]
    assert batches[0].is_whole


def test_an_unreadable_disk_is_an_os_error(files: ForgetfulFiles, journal: SegmentWriter) -> None:
    two_segments(journal)
    files.fail_when(lambda operation: errno.EIO if operation.offset > 100 else None)
    with pytest.raises(OSError, match="Input/output error"):
        read_all(files, Listener())


def test_real_files_are_read_alike(tmp_path_factory: pytest.TempPathFactory) -> None:
    files = Files()
    directory = str(tmp_path_factory.mktemp("journal"))
    journal = SegmentWriter(files, directory)
    positions = two_segments(journal)
    batches, numbers, _ = read_all(files, Listener(Decision.FAIL), directory=directory)
    assert [batch.position for batch in batches] == positions
    assert numbers == [1, 2]
    _, kind, payload = batches[0].records[1]
    assert kind == MESSAGE
    assert decode_message(payload).address == b"\x00\x05tasks"
    journal.close()


@settings(max_examples=examples(1.5))
@given(seed=st.integers(0, 1 << 32), changes=st.integers(1, 5))
def test_no_damage_makes_it_raise_anything_else_or_read_what_was_not_written(
    seed: int, changes: int
) -> None:
    chance = random.Random(seed)
    files = ForgetfulFiles()
    journal = SegmentWriter(files)
    two_segments(journal)
    written = [record for batch in plain(read_all(files, Listener())[0]) for record in batch]
    for _ in range(changes):
        number = chance.choice((1, 2))
        offset = chance.randrange(journal.segments[number - 1].end)
        journal.damage(number, offset, chance.randbytes(chance.choice((1, 4, 100))))
    for decision in (Decision.SKIP, Decision.TRUNCATE):
        try:
            batches, _, _ = read_all(files, Listener(decision))
        except UnsupportedVersion:
            return
        for record in (record for batch in plain(batches) for record in batch):
            assert record in written


def test_the_helper_s_records_are_what_the_format_says(journal: SegmentWriter) -> None:
    journal.begin(1)
    kind, payload = settle((1, 2, 3))
    parts = encode_record(kind, (payload,), journal.tail.seed)
    assert sum(map(len, parts)) == RECORD_OVERHEAD + 16
