"""What the durable store goes on with agrees with the files."""

from __future__ import annotations

from pathlib import Path

from hareline.storage.journal.damage import Decision
from hareline.storage.journal.format.positions import offset_of
from hareline.storage.journal.segment import segment_path
from tests.support.journals import JournalBuilder, settle_payload
from tests.support.recoveries import KeepingListener, Q, damage, messages, recovered


def test_the_state_says_which_files_there_are_and_what_lives_in_them(
    journal: JournalBuilder, listener: KeepingListener
) -> None:
    journal.batch(*messages(0, 4))
    ends = [journal.segment.end]
    journal.begin(2)
    journal.batch(*messages(4, 6), settle_payload((Q, 1, 2)))
    ends.append(journal.segment.end)
    state = recovered(journal, listener).state
    assert [(s.number, s.end, s.total) for s in state.segments] == [
        (1, ends[0], 4),
        (2, ends[1], 2),
    ]
    assert state.segments[0].created_ms < state.segments[1].created_ms
    assert state.next_segment == 3
    assert state.queues[Q].live == {1: 2, 2: 2}
    assert list(state.settled[1][2]) == [Q, 1, 2]
    done, all_work = listener.progress[-1]
    assert done == all_work - 1 > 0, "there is always something left before the end"


def test_what_is_truncated_goes_only_once_a_new_segment_is_durable(
    journal: JournalBuilder, listener: KeepingListener
) -> None:
    journal.batch(*messages(0, 1))
    (position,) = journal.batch(*messages(1, 2))
    damage(journal, offset_of(position) + 30)
    journal.begin(2)
    journal.batch(*messages(2, 3))
    recovery = recovered(journal, listener, Decision.TRUNCATE)
    assert list(recovery.contents[Q].offsets) == [0]
    assert [s.number for s in recovery.state.segments] == [1]
    first, second = (segment_path(journal.directory, number) for number in (1, 2))
    assert recovery.state.leftovers == [(first, recovery.state.segments[0].end), (second, 0)]
    assert Path(second).exists()
    assert recovery.state.next_segment == 3
