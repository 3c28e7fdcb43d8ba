"""A mended journal reads without damage, has all that could be read, and nothing is destroyed."""

from __future__ import annotations

import random
from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hareline.storage.journal.damage import Decision
from hareline.storage.journal.format.frame import BATCH_SIZE, MESSAGE, SETTLE
from hareline.storage.journal.format.header import UnsupportedVersion
from hareline.storage.journal.format.positions import number_of_name, offset_of, segment_name
from hareline.storage.journal.inspect import verify
from hareline.storage.journal.repair import apply, plan
from tests.crash.forgetful_files import ForgetfulFiles
from tests.support.examples import examples
from tests.support.segments import (
    DIRECTORY,
    Listener,
    Plain,
    SegmentWriter,
    free,
    message,
    plain,
    read_all,
    settle,
)

REMOVED = f"{DIRECTORY}/removed-1"


def _three_segments(journal: SegmentWriter) -> list[int]:
    positions = []
    for number in (1, 2, 3):
        journal.begin(number)
        positions += [
            journal.batch(message((1, 10 * number)), message((1, 10 * number + 1), (2, number))),
            journal.batch(settle((1, 10 * number, 1)), message((1, 10 * number + 2))),
        ]
    return positions


def _records(files: ForgetfulFiles, decision: Decision, newest: int = 0) -> list[Plain]:
    batches, _, _ = read_all(files, Listener(decision), newest=newest)
    return [record for batch in plain(batches) for record in batch]


def _mend(files: ForgetfulFiles, way: Decision, newest: int = 0) -> list[Plain]:
    """Repair, and what is read then; a damage that is left fails."""
    expected = _records(files, way, newest)
    apply(files, plan(files, DIRECTORY, way, newest))
    assert not plan(files, DIRECTORY, way, newest).is_needed
    found = _records(files, Decision.FAIL, newest)
    # The zeros behind the end of a file that was cut may make its last record whole again.
    assert [record for record in found if record in expected] == expected
    assert len(found) <= len(expected) + 1
    return found


def test_a_sound_journal_needs_none(files: ForgetfulFiles, journal: SegmentWriter) -> None:
    _three_segments(journal)
    journal.batch(message((1, 99)))
    journal.damage(3, journal.tail.end - 1)
    repair = plan(files, DIRECTORY, Decision.SKIP)
    assert (repair.is_needed, repair.lines) == (False, [])


def test_a_plan_changes_nothing(files: ForgetfulFiles, journal: SegmentWriter) -> None:
    positions = _three_segments(journal)
    journal.damage(2, offset_of(positions[2]) + BATCH_SIZE + 20)
    files.operations.clear()
    for way in (Decision.SKIP, Decision.TRUNCATE):
        assert plan(files, DIRECTORY, way).is_needed
    assert files.operations == []


@pytest.mark.parametrize("way", [Decision.SKIP, Decision.TRUNCATE])
def test_the_old_files_are_kept_as_they_were(
    files: ForgetfulFiles, journal: SegmentWriter, way: Decision
) -> None:
    positions = _three_segments(journal)
    journal.damage(2, offset_of(positions[2]) + BATCH_SIZE + 20)
    before = {number: files.content(journal.path(number)) for number in (1, 2, 3)}
    assert apply(files, plan(files, DIRECTORY, way)) == REMOVED
    files.crash()  # all of it is durable
    for number in (2, 3) if way is Decision.TRUNCATE else (2,):
        assert files.content(f"{REMOVED}/{segment_name(number)}") == before[number]
    assert files.content(journal.path(1)) == before[1]
    assert files.list(REMOVED) == [
        segment_name(number) for number in ((2, 3) if way is Decision.TRUNCATE else (2,))
    ]


@pytest.mark.parametrize("number", [1, 2, 3])
def test_skipping_keeps_positions_and_all_that_is_valid(
    files: ForgetfulFiles, journal: SegmentWriter, number: int
) -> None:
    positions = _three_segments(journal)
    journal.batch(message((1, 99)))
    before, _, _ = read_all(files, Listener(Decision.FAIL))
    whole = {place: record for batch in before for place, *record in batch.records}
    journal.damage(number, offset_of(positions[2 * number - 2]) + BATCH_SIZE + 20)
    _mend(files, Decision.SKIP)
    after, _, _ = read_all(files, Listener(Decision.FAIL))
    kept = {place: record for batch in after for place, *record in batch.records}
    assert kept == {place: record for place, record in whole.items() if place in kept}
    assert len(kept) == len(whole) - 1


def test_skipping_over_a_whole_end_of_a_segment(
    files: ForgetfulFiles, journal: SegmentWriter
) -> None:
    positions = _three_segments(journal)
    start = offset_of(positions[2])
    journal.damage(2, start, bytes(journal.segments[1].end - start))
    assert len(_mend(files, Decision.SKIP)) == 8


def test_skipping_a_damaged_head_of_a_batch(files: ForgetfulFiles, journal: SegmentWriter) -> None:
    positions = _three_segments(journal)
    journal.damage(1, offset_of(positions[0]) + 15)
    assert len(_mend(files, Decision.SKIP)) == 12


@pytest.mark.parametrize("number", [1, 3])
def test_skipping_a_damaged_header(
    files: ForgetfulFiles, journal: SegmentWriter, number: int
) -> None:
    _three_segments(journal)
    header = journal.segments[number - 1].header
    journal.damage(number, 30)
    assert len(_mend(files, Decision.SKIP)) == 12
    batches, numbers, _ = read_all(files, Listener(Decision.FAIL))
    assert (len(batches), numbers) == (6, [1, 2, 3])
    assert files.content(journal.path(number))[44 : header.size_bytes] != b""


def test_skipping_a_missing_file(files: ForgetfulFiles, journal: SegmentWriter) -> None:
    _three_segments(journal)
    files.unlink(journal.path(2))
    assert len(_mend(files, Decision.SKIP)) == 8


def test_skipping_what_a_short_file_has_not(files: ForgetfulFiles, journal: SegmentWriter) -> None:
    positions = _three_segments(journal)
    files.put(journal.path(2), files.content(journal.path(2))[: offset_of(positions[3]) + 60])
    assert len(_mend(files, Decision.SKIP)) == 10


@pytest.mark.parametrize("way", [Decision.SKIP, Decision.TRUNCATE])
def test_a_missing_newest_segment_is_replaced_by_an_empty_one(
    files: ForgetfulFiles, journal: SegmentWriter, way: Decision
) -> None:
    _three_segments(journal)
    files.unlink(journal.path(3))
    assert len(_mend(files, way, 3)) == 8
    assert files.list(DIRECTORY) == [*map(segment_name, (1, 2, 3)), "removed-1"]
    assert _mend(files, way, 9) == _records(files, way)
    assert segment_name(9) in files.list(DIRECTORY)
    files.crash()  # all of it is durable
    assert len(_records(files, Decision.FAIL, 9)) == 8


def test_a_header_without_room_for_its_manifest_makes_a_segment_more(
    files: ForgetfulFiles, journal: SegmentWriter
) -> None:
    """What the damaged header did not have to name, since a damaged batch has freed it."""
    _three_segments(journal)
    position = journal.batch(free(1))
    journal.begin(4, without=[1])
    journal.batch(message((1, 40)))
    journal.batch(message((1, 41)))
    files.unlink(journal.path(1))
    journal.damage(3, offset_of(position) + BATCH_SIZE + 9)
    journal.damage(4, 30)
    assert len(_mend(files, Decision.SKIP, 4)) == 4 + 4 + 2
    assert [name for name in files.list(DIRECTORY) if name.endswith("5.log")] == [segment_name(5)]


def test_truncating_ends_before_the_first_damage(
    files: ForgetfulFiles, journal: SegmentWriter
) -> None:
    positions = _three_segments(journal)
    journal.damage(2, offset_of(positions[3]) + BATCH_SIZE + 20)
    assert len(_mend(files, Decision.TRUNCATE)) == 6
    assert files.list(DIRECTORY) == [segment_name(1), segment_name(2), "removed-1"]


def test_truncating_at_a_header_drops_its_segment(
    files: ForgetfulFiles, journal: SegmentWriter
) -> None:
    _three_segments(journal)
    journal.damage(2, 30)
    assert len(_mend(files, Decision.TRUNCATE)) == 4
    assert files.list(DIRECTORY) == [segment_name(1), "removed-1"]


def test_truncating_at_the_very_first_leaves_an_empty_journal(
    files: ForgetfulFiles, journal: SegmentWriter
) -> None:
    _three_segments(journal)
    files.unlink(journal.path(1))
    assert _mend(files, Decision.TRUNCATE) == []


def test_truncating_does_not_miss_segments_that_were_freed_later(
    files: ForgetfulFiles, journal: SegmentWriter
) -> None:
    _three_segments(journal)
    journal.batch(free(1))
    files.unlink(journal.path(1))
    journal.batch(message((1, 40)))
    journal.damage(3, offset_of(journal.batch(message((1, 41)))) - 2)
    journal.batch(message((1, 42)))
    assert len(_mend(files, Decision.TRUNCATE)) == 4 + 4 + 1


def test_what_is_lost_is_said(files: ForgetfulFiles, journal: SegmentWriter) -> None:
    positions = _three_segments(journal)
    journal.damage(2, offset_of(positions[2]) + BATCH_SIZE + 30)
    skip = plan(files, DIRECTORY, Decision.SKIP)
    assert "lost of queue id 1: 1 entries, offsets 20" in skip.lines
    assert f"{journal.path(2)}: written again" in skip.lines
    cut = plan(files, DIRECTORY, Decision.TRUNCATE)
    octets = journal.segments[1].end - offset_of(positions[2]) + journal.segments[2].end
    assert (
        f"dropped with it: {octets} octets from 2:{offset_of(positions[2])} on, and in them "
        "7 valid records with 7 entries of queues"
    ) in cut.lines
    assert f"{journal.path(3)}: moved away" in cut.lines


def test_a_second_repair_has_a_folder_of_its_own(
    files: ForgetfulFiles, journal: SegmentWriter
) -> None:
    positions = _three_segments(journal)
    for count, position in enumerate(positions[:2], 1):
        octets = bytearray(files.content(journal.path(1)))
        octets[offset_of(position) + BATCH_SIZE + 20] ^= 1
        files.put(journal.path(1), bytes(octets))
        removed = apply(files, plan(files, DIRECTORY, Decision.SKIP))
        assert removed == f"{DIRECTORY}/removed-{count}"


def test_skipping_a_file_of_which_nothing_says_where_it_ended(
    files: ForgetfulFiles, journal: SegmentWriter
) -> None:
    _three_segments(journal)
    journal.damage(2, 0, bytes(journal.segments[1].end))
    journal.damage(3, 30)  # its manifest would say it
    assert len(_mend(files, Decision.SKIP)) == 8


@settings(max_examples=examples(3))
@given(seed=st.integers(0, 1 << 32), changes=st.integers(1, 4), newest=st.sampled_from((0, 3)))
def test_any_damage_can_be_mended(seed: int, changes: int, newest: int) -> None:
    chance = random.Random(seed)
    for way in (Decision.SKIP, Decision.TRUNCATE):
        files = ForgetfulFiles()
        journal = SegmentWriter(files)
        _three_segments(journal)
        if chance.random() < 0.3:
            journal.batch(free(1))
            files.unlink(journal.path(1))
            journal.batch(message((1, 99)))
        numbers = [number_of_name(name) or 0 for name in files.list(DIRECTORY)]
        for number in chance.choices(numbers, k=changes):
            offset = chance.randrange(journal.segments[number - 1].end)
            journal.damage(number, offset, chance.randbytes(chance.choice((1, 4, 100))))
        for number in numbers:
            _damage_file(files, journal.path(number), chance)
        with suppress(UnsupportedVersion):
            _mend(files, way, newest)
            assert not verify(files, DIRECTORY, newest).damages
            assert max(number_of_name(name) or 0 for name in files.list(DIRECTORY)) >= newest


def _damage_file(files: ForgetfulFiles, path: str, chance: random.Random) -> None:
    """As a whole, now and then."""
    octets = files.content(path)
    match chance.randrange(12):
        case 0:
            files.unlink(path)
        case 1:
            files.put(path, b"")
        case 2:
            files.put(path, octets[: chance.randrange(len(octets))])
        case 3:
            files.put(path, bytes(len(octets)))
        case 4:
            kept = chance.randrange(600)
            files.put(path, octets[:kept] + bytes(len(octets) - kept))


def test_a_torn_tail_does_not_come_back_with_a_repair_before_it(
    files: ForgetfulFiles, journal: SegmentWriter
) -> None:
    """Nothing says that the second batch of segment 2 was durable, so it is none of the journal."""
    positions = _three_segments(journal)
    journal.damage(2, offset_of(positions[2]) + BATCH_SIZE + 100)
    journal.damage(2, offset_of(positions[3]) + BATCH_SIZE + 40)
    for position in positions[4:]:
        journal.damage(3, offset_of(position) + 20)
    assert [kind for kind, _ in _mend(files, Decision.SKIP)] == [MESSAGE] * 2 + [SETTLE] + [
        MESSAGE
    ] * 2
