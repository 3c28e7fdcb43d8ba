"""What is found behind damage: every valid record, and nothing else."""

from __future__ import annotations

import pytest

from hareline.storage.journal.damage import Decision, JournalDamaged
from hareline.storage.journal.format.frame import (
    BATCH_SIZE,
    PRODUCERS,
    RECORD_OVERHEAD,
    SETTLE,
    Batch,
    encode_batch,
)
from hareline.storage.journal.format.positions import offset_of, position_of
from hareline.storage.journal.format.records import KeptSequence
from tests.crash.forgetful_files import ForgetfulFiles
from tests.support.encoders import encode_producers
from tests.support.segments import (
    Listener,
    SegmentWriter,
    clean,
    message,
    plain,
    read_all,
    settle,
    two_segments,
)


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


def test_skip_leaves_out_the_damaged_record_alone(
    files: ForgetfulFiles, journal: SegmentWriter
) -> None:
    positions = two_segments(journal)
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


def test_skip_finds_producers_behind_a_damaged_record(
    files: ForgetfulFiles, journal: SegmentWriter
) -> None:
    journal.begin(1)
    producers = (PRODUCERS, encode_producers(b"/", False, [KeptSequence(b"orders", 7, 0)]))
    position = journal.batch(message((1, 0)), producers)
    journal.batch(clean())
    # a length that leads nowhere: what follows is searched octet by octet
    journal.damage(1, offset_of(position) + BATCH_SIZE + 3, b"\x0e")
    batches, _, _ = read_all(files, Listener(Decision.SKIP))
    assert plain(batches) == [[producers], [clean()]]


def test_skip_reads_the_records_of_a_batch_whose_head_is_damaged(
    files: ForgetfulFiles, journal: SegmentWriter
) -> None:
    positions = two_segments(journal)
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
    positions = two_segments(journal)
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


def test_a_damaged_header_can_be_passed_by_what_the_first_batch_says(
    files: ForgetfulFiles, journal: SegmentWriter
) -> None:
    positions = two_segments(journal)
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
