"""Which files a journal consists of, whatever else is in its folder."""

from __future__ import annotations

from zlib import crc32

import pytest

from hareline.storage.journal.damage import Decision, JournalDamaged
from hareline.storage.journal.format.frame import BATCH_SIZE
from hareline.storage.journal.format.header import UnsupportedVersion
from hareline.storage.journal.format.positions import offset_of, segment_name
from hareline.storage.journal.reader import JournalReader
from tests.crash.forgetful_files import ForgetfulFiles
from tests.support.segments import (
    DIRECTORY,
    Listener,
    SegmentWriter,
    free,
    message,
    read_all,
    read_for_newest,
    two_segments,
)


def test_an_empty_directory_is_an_empty_journal(files: ForgetfulFiles) -> None:
    files.make_directory(DIRECTORY)
    assert read_all(files, Listener()) == ([], [], [])


def test_a_missing_newest_segment_is_damage_and_ends_the_one_before_where_that_ends(
    files: ForgetfulFiles, journal: SegmentWriter
) -> None:
    positions = two_segments(journal)
    assert read_for_newest(files, 2) == (positions, [])
    files.unlink(journal.path(2))
    assert read_for_newest(files, 0) == (positions[:3], [])
    assert read_for_newest(files, 1) == (positions[:3], [])
    assert read_for_newest(files, 2) == (
        positions[:3],
        ["the file of the newest segment is missing"],
    )
    (said,) = read_for_newest(files, 5)[1]
    assert said.endswith("is missing, those of earlier ones may be too")
    with pytest.raises(JournalDamaged) as raised:
        read_all(files, Listener(Decision.FAIL), newest=2)
    assert str(raised.value).startswith(f"the journal is damaged: {journal.path(2)}: the file of")


def test_with_all_files_the_newest_is_missed_too(files: ForgetfulFiles) -> None:
    files.make_directory(DIRECTORY)
    assert read_for_newest(files, 7)[1] == [
        "the file of the newest segment is missing, those of earlier ones may be too"
    ]


def test_what_the_newest_manifest_does_not_name_is_a_stray(
    files: ForgetfulFiles, journal: SegmentWriter
) -> None:
    two_segments(journal)
    journal.begin(3, without=[1])
    journal.batch(message((1, 5)))
    batches, numbers, strays = read_all(files, Listener())
    assert len(batches) == 3
    assert (numbers, strays) == ([2, 3], [segment_name(1)])


@pytest.mark.parametrize("is_there", [True, False])
def test_a_freed_segment_is_not_read_be_it_there_or_not(
    files: ForgetfulFiles, journal: SegmentWriter, is_there: bool
) -> None:
    two_segments(journal)
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
    two_segments(journal)
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
        f"{segment.path}: journal format version 99; this build reads version 3"
    )
    assert files.open_files == 2  # the builder's own


@pytest.mark.parametrize("was_durable", [False, True])
def test_a_free_behind_a_torn_batch_frees_nothing_while_the_file_is_there(
    files: ForgetfulFiles, journal: SegmentWriter, was_durable: bool
) -> None:
    """Unless something says that it was durable: then what is before it is no torn tail."""
    two_segments(journal)
    durable = journal.durable
    torn = journal.batch(message((1, 5)))
    journal.durable = durable
    journal.batch(free(1))
    journal.damage(2, offset_of(torn) + BATCH_SIZE + 20)
    if was_durable:
        journal.batch(message((1, 6)))
    _, numbers, _ = read_all(files, Listener(Decision.SKIP))
    assert numbers == ([2] if was_durable else [1, 2])
