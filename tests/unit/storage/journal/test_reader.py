"""What is read of a journal: whole, torn, damaged, with files missing or too many."""

from __future__ import annotations

import errno
import random
from zlib import crc32

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
    SETTLE,
    Batch,
    MalformedRecord,
    decode_batch,
    encode_batch,
    encode_record,
)
from hareline.storage.journal.format.header import UnsupportedVersion
from hareline.storage.journal.format.message import decode_message
from hareline.storage.journal.format.positions import offset_of, position_of, segment_name
from hareline.storage.journal.reader import JournalReader, read_record
from tests.crash.forgetful_files import ForgetfulFiles
from tests.support.segments import (
    DIRECTORY,
    Listener,
    SegmentWriter,
    clean,
    free,
    message,
    plain,
    read_all,
    settle,
)


@pytest.fixture
def files() -> ForgetfulFiles:
    return ForgetfulFiles()


@pytest.fixture
def journal(files: ForgetfulFiles) -> SegmentWriter:
    return SegmentWriter(files)


def _two_segments(journal: SegmentWriter) -> list[int]:
    """Five batches, three in segment 1 and two in 2; their positions."""
    journal.begin(1)
    positions = [
        journal.batch(message((1, 0)), message((1, 1), (2, 0))),
        journal.batch(settle((1, 0, 1)), message((1, 2))),
        journal.batch(message((1, 3))),
    ]
    journal.begin(2)
    return [*positions, journal.batch(message((1, 4))), journal.batch(settle((1, 2, 2)))]


def test_everything_is_read_in_order_with_positions(
    files: ForgetfulFiles, journal: SegmentWriter
) -> None:
    positions = _two_segments(journal)
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
    _two_segments(journal)
    assert plain(read_all(files, Listener(), chunk_bytes=chunk_bytes)[0]) == plain(
        read_all(files, Listener())[0]
    )


def test_a_record_s_position_is_where_it_can_be_read_alone(
    files: ForgetfulFiles, journal: SegmentWriter
) -> None:
    journal.begin(1, size_bytes=1 << 17)
    journal.batch(message((1, 0)), message((1, 1), body=b"x" * 50_000))
    batches, _, _ = read_all(files, Listener())
    for position, kind, payload in batches[0].records:
        assert read_record(files, journal.tail.fd, offset_of(position), journal.tail.seed) == (
            kind,
            payload,
        )
    position = batches[0].records[0][0]
    with pytest.raises(MalformedRecord, match="checksum does not match"):
        read_record(files, journal.tail.fd, offset_of(position), journal.tail.seed ^ 1)
    with pytest.raises(MalformedRecord, match="beyond the file"):
        read_record(files, journal.tail.fd, offset_of(position) + 1, journal.tail.seed)
    with pytest.raises(MalformedRecord, match="the file ends"):
        read_record(files, journal.tail.fd, (1 << 17) - 2, journal.tail.seed)


def test_the_end_of_the_tail_is_where_its_last_batch_ends(
    files: ForgetfulFiles, journal: SegmentWriter
) -> None:
    _two_segments(journal)
    reader = JournalReader(files, DIRECTORY, Listener())
    list(reader.batches())
    assert [source.end for source in reader.live] == [each.end for each in journal.segments]
    reader.close()
    assert files.open_files == 2  # the builder's own


def test_progress_ends_at_everything(files: ForgetfulFiles, journal: SegmentWriter) -> None:
    _two_segments(journal)
    listener = Listener()
    read_all(files, listener)
    done = [octets for octets, _ in listener.progress]
    assert done == sorted(done)
    assert len(set(listener.progress[-1])) == 1


def test_progress_goes_on_from_segment_to_segment(
    files: ForgetfulFiles, journal: SegmentWriter
) -> None:
    _two_segments(journal)
    listener = Listener()
    read_all(files, listener, chunk_bytes=1)
    ends = [segment.end for segment in journal.segments]
    starts = [octets for octets, _ in listener.progress]
    assert ends[0] + journal.tail.header.size_bytes in starts
    assert starts == sorted(starts)


def test_an_empty_directory_is_an_empty_journal(files: ForgetfulFiles) -> None:
    files.make_directory(DIRECTORY)
    assert read_all(files, Listener()) == ([], [], [])


def test_a_segment_without_a_batch_is_an_empty_journal(
    files: ForgetfulFiles, journal: SegmentWriter
) -> None:
    journal.begin(1)
    listener = Listener()
    assert read_all(files, listener) == ([], [1], [])
    assert not listener.torn


# Torn tails


def test_a_torn_last_batch_is_cut_silently(files: ForgetfulFiles, journal: SegmentWriter) -> None:
    positions = _two_segments(journal)
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
    positions = _two_segments(journal)
    journal.begin(3)
    journal.batch(message((1, 9)))
    journal.damage(3, 30)
    listener = Listener(Decision.FAIL)
    batches, numbers, strays = read_all(files, listener)
    assert [batch.position for batch in batches] == positions
    assert (numbers, strays) == ([1, 2], [segment_name(3)])
    assert [position for _, position, _ in listener.torn] == [position_of(3, 0)]


def test_a_batch_that_stands_where_it_was_not_written_is_none(
    files: ForgetfulFiles, journal: SegmentWriter
) -> None:
    journal.begin(1)
    places = [offset_of(journal.batch(message((1, n)))) for n in range(3)]
    whole = files.content(journal.path(1))
    last = whole[places[2] : journal.tail.end]
    journal.damage(1, places[1], last)
    with pytest.raises(JournalDamaged, match=f"offset {places[1]}, "):
        read_all(files, Listener(Decision.FAIL))
    journal.damage(1, places[2] + 10)
    listener = Listener(Decision.FAIL)
    assert plain(read_all(files, listener)[0]) == [[message((1, 0))]]


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


def test_records_in_a_body_are_not_found_behind_a_torn_batch(
    files: ForgetfulFiles, journal: SegmentWriter
) -> None:
    """Somebody sends a piece of a journal as a message, and the broker dies while writing it."""
    journal.begin(1, salt=1)
    start = journal.tail.end
    place = position_of(1, start + 300)
    forged = Batch(place, 0, 0, 2, place + 1, 0)
    body = b"".join(
        encode_batch(forged._replace(position=place + n), journal.tail.seed ^ 1) for n in range(30)
    )
    journal.batch(message((1, 0), body=body))
    journal.damage(1, journal.tail.end - 1)
    listener = Listener(Decision.FAIL)
    assert read_all(files, listener)[0] == []
    assert len(listener.torn) == 1


# Damage


@pytest.mark.parametrize("index", [0, 1, 2])
def test_damage_before_what_was_durable_is_never_cut_silently(
    files: ForgetfulFiles, journal: SegmentWriter, index: int
) -> None:
    positions = _two_segments(journal)
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


def test_the_report_says_file_offset_octets_and_entries(
    files: ForgetfulFiles, journal: SegmentWriter
) -> None:
    positions = _two_segments(journal)
    start = offset_of(positions[0]) + BATCH_SIZE
    length = RECORD_OVERHEAD + len(message((1, 0))[1])
    second = start + length
    octets = RECORD_OVERHEAD + len(message((1, 1), (2, 0))[1])
    journal.damage(1, second + octets - 1)
    with pytest.raises(JournalDamaged) as raised:
        read_all(files, Listener(Decision.FAIL))
    ends = [segment.end for segment in journal.segments]
    cut = ends[0] - offset_of(positions[0]) + ends[1]
    assert str(raised.value) == (
        f"the journal is damaged: {journal.path(1)}, offset {second}, {octets} octets: checksum "
        "does not match; it seems to be a MESSAGE record that held entry 1 of queue id 1, "
        f"0 of queue id 2; truncating it there would drop {cut} octets from offset "
        f"{offset_of(positions[0])} on"
    )


def test_skip_leaves_out_the_damaged_record_alone(
    files: ForgetfulFiles, journal: SegmentWriter
) -> None:
    positions = _two_segments(journal)
    journal.damage(1, offset_of(positions[1]) + BATCH_SIZE + RECORD_OVERHEAD)
    listener = Listener(Decision.SKIP)
    batches, numbers, _ = read_all(files, listener)
    assert plain(batches)[1] == [message((1, 2))]
    assert [batch.is_whole for batch in batches] == [True, False, True, True, True]
    assert numbers == [1, 2]
    [damage] = listener.damages
    assert (damage.kind, damage.octets) == (SETTLE, RECORD_OVERHEAD + len(settle((1, 0, 1))[1]))


@pytest.mark.parametrize("field", range(RECORD_OVERHEAD))
def test_skip_finds_the_next_record_whatever_is_wrong_with_a_head(
    files: ForgetfulFiles, journal: SegmentWriter, field: int
) -> None:
    journal.begin(1)
    position = journal.batch(*(message((1, n)) for n in range(4)))
    journal.batch(clean())
    length = RECORD_OVERHEAD + len(message((1, 0))[1])
    journal.damage(1, offset_of(position) + BATCH_SIZE + length + field)
    listener = Listener(Decision.SKIP)
    batches, _, _ = read_all(files, listener)
    assert plain(batches) == [
        [message((1, 0)), message((1, 2)), message((1, 3))],
        [clean()],
    ]
    assert [damage.octets for damage in listener.damages] == [length]


def test_skip_reads_the_records_of_a_batch_whose_head_is_damaged(
    files: ForgetfulFiles, journal: SegmentWriter
) -> None:
    positions = _two_segments(journal)
    journal.damage(1, offset_of(positions[0]) + 12)
    listener = Listener(Decision.SKIP)
    batches, _, _ = read_all(files, listener)
    assert plain(batches)[0] == [message((1, 0)), message((1, 1), (2, 0))]
    assert not batches[0].is_whole
    assert [(damage.what, damage.octets) for damage in listener.damages] == [
        ("checksum of the batch's head does not match", BATCH_SIZE)
    ]


def test_skip_over_several_batches_and_the_end_of_a_segment(
    files: ForgetfulFiles, journal: SegmentWriter
) -> None:
    positions = _two_segments(journal)
    start = offset_of(positions[1])
    journal.damage(1, start, bytes(journal.segments[0].end - start))
    listener = Listener(Decision.SKIP)
    batches, numbers, _ = read_all(files, listener)
    assert [batch.position for batch in batches] == [positions[0], *positions[3:]]
    [damage] = listener.damages
    assert (damage.what, damage.octets) == (
        "there are only zeros",
        journal.segments[0].end - start,
    )
    assert numbers == [1, 2]


def test_truncate_ends_at_the_last_batch_before_the_damage(
    files: ForgetfulFiles, journal: SegmentWriter
) -> None:
    positions = _two_segments(journal)
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


def test_two_damages_are_told_one_after_the_other(
    files: ForgetfulFiles, journal: SegmentWriter
) -> None:
    positions = _two_segments(journal)
    for position in (positions[0], positions[2]):
        journal.damage(1, offset_of(position) + BATCH_SIZE + 30)
    listener = Listener(Decision.SKIP)
    read_all(files, listener)
    assert [damage.cut_position for damage in listener.damages] == [positions[0], positions[2]]


def test_a_file_that_is_too_short_is_damaged(files: ForgetfulFiles, journal: SegmentWriter) -> None:
    positions = _two_segments(journal)
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
    positions = _two_segments(journal)
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


def test_a_damaged_header_can_be_passed_by_what_the_first_batch_says(
    files: ForgetfulFiles, journal: SegmentWriter
) -> None:
    positions = _two_segments(journal)
    for number in (1, 2):
        whole = files.content(journal.path(number))
        journal.damage(number, 20)
        listener = Listener(Decision.SKIP)
        batches, numbers, _ = read_all(files, listener)
        assert [batch.position for batch in batches] == positions
        assert numbers == [1, 2]
        assert [damage.what for damage in listener.damages] == [
            "checksum of the segment header does not match"
        ]
        with pytest.raises(JournalDamaged, match="segment header"):
            read_all(files, Listener(Decision.FAIL))
        files.put(journal.path(number), whole)


def test_batches_lost_before_a_damaged_header_are_noticed(
    files: ForgetfulFiles, journal: SegmentWriter
) -> None:
    positions = _two_segments(journal)
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
    positions = _two_segments(journal)
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


# A segment of which is known that it was there, whatever its successors say


def _newest(files: ForgetfulFiles, newest: int) -> tuple[list[int], list[str]]:
    """Positions of the batches that are read, and what is said of damage."""
    listener = Listener(Decision.SKIP)
    batches, _, _ = read_all(files, listener, newest=newest)
    assert listener.torn == []
    return [batch.position for batch in batches], [damage.what for damage in listener.damages]


def test_a_missing_newest_segment_is_damage_and_ends_the_one_before_where_that_ends(
    files: ForgetfulFiles, journal: SegmentWriter
) -> None:
    positions = _two_segments(journal)
    assert _newest(files, 2) == (positions, [])
    files.unlink(journal.path(2))
    assert _newest(files, 0) == (positions[:3], [])
    assert _newest(files, 1) == (positions[:3], [])
    assert _newest(files, 2) == (positions[:3], ["the file of the newest segment is missing"])
    (said,) = _newest(files, 5)[1]
    assert said.endswith("is missing, those of earlier ones may be too")
    with pytest.raises(JournalDamaged) as raised:
        read_all(files, Listener(Decision.FAIL), newest=2)
    assert str(raised.value).startswith(f"the journal is damaged: {journal.path(2)}: the file of")


def test_with_all_files_the_newest_is_missed_too(files: ForgetfulFiles) -> None:
    files.make_directory(DIRECTORY)
    assert _newest(files, 7)[1] == [
        "the file of the newest segment is missing, those of earlier ones may be too"
    ]


@pytest.mark.parametrize("kept", [0, 20, 60, 70])
@pytest.mark.parametrize("is_cut", [True, False])
def test_a_newest_segment_without_header_or_first_batch_is_no_torn_tail(
    files: ForgetfulFiles, journal: SegmentWriter, kept: int, is_cut: bool
) -> None:
    positions = _two_segments(journal)
    path = journal.path(2)
    octets = files.content(path)
    files.put(path, octets[:kept] + (b"" if is_cut else bytes(len(octets) - kept)))
    listener = Listener()
    assert read_all(files, listener)[1] == [1, 2] if kept > 59 else [1]
    assert listener.damages == []  # as long as nothing is known of it
    found, said = _newest(files, 2)
    assert found == positions[:3]
    assert len(said) == 1


def test_its_second_batch_may_be_torn(files: ForgetfulFiles, journal: SegmentWriter) -> None:
    positions = _two_segments(journal)
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
    positions = _two_segments(journal)
    files.unlink(journal.path(2))
    journal.damage(1, offset_of(positions[2]) + at)
    found, said = _newest(files, 2)
    assert (found[:2], len(said)) == (positions[:2], 2)


# Which files belong to it


def test_what_the_newest_manifest_does_not_name_is_a_stray(
    files: ForgetfulFiles, journal: SegmentWriter
) -> None:
    _two_segments(journal)
    journal.begin(3, without=[1])
    journal.batch(message((1, 5)))
    batches, numbers, strays = read_all(files, Listener())
    assert len(batches) == 3
    assert (numbers, strays) == ([2, 3], [segment_name(1)])


@pytest.mark.parametrize("is_there", [True, False])
def test_a_freed_segment_is_not_read_be_it_there_or_not(
    files: ForgetfulFiles, journal: SegmentWriter, is_there: bool
) -> None:
    _two_segments(journal)
    journal.batch(free(1))
    if not is_there:
        files.unlink(journal.path(1))
    listener = Listener(Decision.FAIL)
    batches, numbers, strays = read_all(files, listener)
    assert len(batches) == 3
    assert (numbers, strays) == ([2], [segment_name(1)] if is_there else [])


def test_a_free_in_a_torn_batch_frees_nothing(
    files: ForgetfulFiles, journal: SegmentWriter
) -> None:
    _two_segments(journal)
    journal.batch(free(1), message((1, 5)))
    journal.damage(2, journal.tail.end - 1)
    batches, numbers, _ = read_all(files, Listener(Decision.FAIL))
    assert len(batches) == 5
    assert numbers == [1, 2]


def test_other_files_are_none_of_its_business(
    files: ForgetfulFiles, journal: SegmentWriter
) -> None:
    journal.begin(1)
    journal.batch(message((1, 0)))
    for name in ("spare-0000000000000007", "000000000000000g.log", "7.log", "0" * 16):
        files.put(f"{DIRECTORY}/{name}", b"whatever")
    assert read_all(files, Listener(Decision.FAIL))[1:] == ([1], [])


def test_gaps_that_a_repair_left_are_passed(files: ForgetfulFiles, journal: SegmentWriter) -> None:
    journal.begin(1)
    journal.batch(message((1, 0)), (GAP, b"whatever"), message((1, 1)))
    batches, _, _ = read_all(files, Listener(Decision.FAIL))
    assert plain(batches) == [[message((1, 0)), message((1, 1))]]
    assert batches[0].is_whole


def test_a_segment_of_another_version_is_refused_by_name(
    files: ForgetfulFiles, journal: SegmentWriter
) -> None:
    journal.begin(1)
    segment = journal.begin(2)
    octets = bytearray(files.content(segment.path))
    octets[8:10] = (99).to_bytes(2, "little")
    octets[12:16] = crc32(octets[:12]).to_bytes(4, "little")
    files.put(segment.path, bytes(octets))
    with pytest.raises(UnsupportedVersion) as raised:
        JournalReader(files, DIRECTORY, Listener())
    assert str(raised.value) == (
        f"{segment.path}: journal format version 99; this build reads version 1, 2"
    )
    assert files.open_files == 2  # the builder's own


def test_an_unreadable_disk_is_an_os_error(files: ForgetfulFiles, journal: SegmentWriter) -> None:
    _two_segments(journal)
    files.fail_when(lambda operation: errno.EIO if operation.offset > 100 else None)
    with pytest.raises(OSError, match="Input/output error"):
        read_all(files, Listener())


def test_real_files_are_read_alike(tmp_path_factory: pytest.TempPathFactory) -> None:
    files = Files()
    directory = str(tmp_path_factory.mktemp("journal"))
    journal = SegmentWriter(files, directory)
    positions = _two_segments(journal)
    batches, numbers, _ = read_all(files, Listener(Decision.FAIL), directory=directory)
    assert [batch.position for batch in batches] == positions
    assert numbers == [1, 2]
    _, kind, payload = batches[0].records[1]
    assert kind == MESSAGE
    assert decode_message(payload).address == b"\x00\x05tasks"
    journal.close()


@settings(max_examples=150, deadline=None)
@given(seed=st.integers(0, 1 << 32), changes=st.integers(1, 5))
def test_no_damage_makes_it_raise_anything_else_or_read_what_was_not_written(
    seed: int, changes: int
) -> None:
    chance = random.Random(seed)
    files = ForgetfulFiles()
    journal = SegmentWriter(files)
    _two_segments(journal)
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


@pytest.mark.parametrize("was_durable", [False, True])
def test_a_free_behind_a_torn_batch_frees_nothing_while_the_file_is_there(
    files: ForgetfulFiles, journal: SegmentWriter, was_durable: bool
) -> None:
    """Unless something says that it was durable: then what is before it is no torn tail."""
    _two_segments(journal)
    durable = journal.durable
    torn = journal.batch(message((1, 5)))
    journal.durable = durable
    journal.batch(free(1))
    journal.damage(2, offset_of(torn) + BATCH_SIZE + 20)
    if was_durable:
        journal.batch(message((1, 6)))
    _, numbers, _ = read_all(files, Listener(Decision.SKIP))
    assert numbers == ([2] if was_durable else [1, 2])
