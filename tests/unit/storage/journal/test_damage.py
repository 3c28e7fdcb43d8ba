"""What damage says of itself, and what it would cost to cut there."""

from __future__ import annotations

import pytest

from hareline.storage.journal.damage import Decision, JournalDamaged
from hareline.storage.journal.format.frame import BATCH_SIZE, RECORD_OVERHEAD
from hareline.storage.journal.format.positions import offset_of
from tests.crash.forgetful_files import ForgetfulFiles
from tests.support.segments import Listener, SegmentWriter, message, read_all, two_segments


def test_the_report_says_file_offset_octets_and_entries(
    files: ForgetfulFiles, journal: SegmentWriter
) -> None:
    positions = two_segments(journal)
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


def test_two_damages_are_told_one_after_the_other(
    files: ForgetfulFiles, journal: SegmentWriter
) -> None:
    positions = two_segments(journal)
    for position in (positions[0], positions[2]):
        journal.damage(1, offset_of(position) + BATCH_SIZE + 30)
    listener = Listener(Decision.SKIP)
    read_all(files, listener)
    assert [damage.cut_position for damage in listener.damages] == [positions[0], positions[2]]
