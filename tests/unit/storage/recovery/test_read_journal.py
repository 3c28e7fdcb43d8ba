"""Reading a journal at the start: the files afterwards, and what the policy for damage does."""

from __future__ import annotations

from pathlib import Path

import pytest

from hareline.errors import StoreError
from hareline.storage.journal.damage import Decision
from hareline.storage.journal.format.positions import offset_of
from hareline.storage.journal.segment import segment_path
from hareline.storage.store.state import RecoveredQueue
from tests.support.journals import (
    JournalBuilder,
    checkpoint_payload,
    commit_payload,
    free_payload,
    part_payload,
)
from tests.support.recoveries import KeepingListener, Q, damage, make_recovery, messages, recovered


def test_a_directory_that_is_not_there_yet_is_an_empty_journal(
    tmp_path: Path, listener: KeepingListener
) -> None:
    recovery = make_recovery(str(tmp_path / "data" / "journal"), listener)
    assert list(recovery.read()) == []
    assert recovery.state.segments == []
    assert recovery.state.next_segment == 1
    assert recovery.state.queues == {Q: RecoveredQueue()}


def test_the_last_file_is_cut_to_its_end_and_the_others_are_left(
    journal: JournalBuilder, listener: KeepingListener
) -> None:
    journal.batch(*messages(0, 2))
    journal.begin(2)
    journal.batch(*messages(2, 4))
    state = recovered(journal, listener).state
    sizes = [Path(segment_path(journal.directory, number)).stat().st_size for number in (1, 2)]
    assert sizes == [1 << 16, state.segments[1].end]
    assert [s.size_bytes for s in state.segments] == sizes


def test_freed_files_that_are_still_there_go_and_say_nothing(
    journal: JournalBuilder, listener: KeepingListener
) -> None:
    journal.batch(*messages(0, 2))
    journal.begin(2)
    journal.batch(*messages(2, 3), free_payload(1))
    recovery = recovered(journal, listener)
    assert list(recovery.contents[Q].offsets) == [2]
    assert not Path(segment_path(journal.directory, 1)).exists()
    assert [s.number for s in recovery.state.segments] == [2]


def test_numbers_go_on_above_all_that_ever_were(
    journal: JournalBuilder, listener: KeepingListener
) -> None:
    retained = Path(journal.directory) / "retained"
    retained.mkdir()
    (retained / f"{9:016x}.log").write_bytes(b"")
    (retained / "notes.txt").write_bytes(b"")
    assert recovered(journal, listener).state.next_segment == 10


class TestDamage:
    @pytest.fixture(autouse=True)
    def _damaged_in_the_middle(self, journal: JournalBuilder) -> None:
        """Entry 3 of 0 to 9; what stands before the damage was durable when 6 to 9 were written."""
        journal.batch(*messages(0, 2))
        positions = journal.batch(*messages(2, 6))
        journal.batch(*messages(6, 10))
        damage(journal, offset_of(positions[1]) + 100)

    def test_fail_is_an_error_that_says_all_and_touches_nothing(
        self, journal: JournalBuilder, listener: KeepingListener
    ) -> None:
        path = Path(segment_path(journal.directory, 1))
        before = path.read_bytes()
        with pytest.raises(StoreError) as caught:
            recovered(journal, listener)
        text = str(caught.value)
        assert f"{path}, offset " in text
        assert "checksum does not match" in text
        assert "1 of queue 'q' in vhost '/' (offsets 3 to 3)" in text
        assert 'journal.on_corruption to "skip" or "truncate"' in text
        ((problem, action),) = listener.damage
        assert "octets: checksum does not match" in problem
        assert action == "the broker does not start"
        assert path.read_bytes() == before

    def test_skip_leaves_out_what_is_damaged_and_no_more(
        self, journal: JournalBuilder, listener: KeepingListener
    ) -> None:
        recovery = recovered(journal, listener, Decision.SKIP)
        assert list(recovery.contents[Q].offsets) == [0, 1, 2, 4, 5, 6, 7, 8, 9]
        ((problem, action),) = listener.damage
        assert "1 of queue 'q' in vhost '/' (offsets 3 to 3)" in problem
        assert action == "left out"

    def test_truncate_drops_everything_from_there_on(
        self, journal: JournalBuilder, listener: KeepingListener
    ) -> None:
        recovery = recovered(journal, listener, Decision.TRUNCATE)
        assert list(recovery.contents[Q].offsets) == [0, 1]
        ((_, action),) = listener.damage
        assert action.startswith("the journal is cut there, ")
        path = segment_path(journal.directory, 1)
        assert recovery.state.leftovers == [(path, recovery.state.segments[0].end)]

    def test_queues_that_are_deleted_are_named_as_such(
        self, journal: JournalBuilder, listener: KeepingListener
    ) -> None:
        recovery = make_recovery(journal.directory, listener, Decision.SKIP, {})
        list(recovery.read())
        assert "1 of a queue that is deleted" in listener.damage[0][0]


@pytest.mark.parametrize(
    ("policy", "offsets"),
    [(Decision.SKIP, [0, 1, 2, 3]), (Decision.TRUNCATE, [])],
)
def test_a_transaction_whose_end_is_damaged_is_kept_if_the_rest_is(
    journal: JournalBuilder, listener: KeepingListener, policy: Decision, offsets: list[int]
) -> None:
    journal.batch(*messages(0, 3), part_payload(1, (Q, 0, 3)))
    (position,) = journal.batch(commit_payload(1))
    journal.batch(*messages(3, 4))
    damage(journal, offset_of(position) + 10)
    recovery = recovered(journal, listener, policy)
    assert list(recovery.contents[Q].offsets) == offsets


def test_a_reading_that_is_given_up_closes_its_files(
    journal: JournalBuilder, listener: KeepingListener
) -> None:
    for number in (2, 3, 4):
        journal.batch(*messages(number * 10, number * 10 + 3))
        journal.begin(number)
    opened = len(list(Path("/proc/self/fd").iterdir()))
    reading = make_recovery(journal.directory, listener).read()
    next(reading)
    reading.close()
    assert len(list(Path("/proc/self/fd").iterdir())) == opened


def test_offsets_go_on_where_a_checkpoint_says(
    journal: JournalBuilder, listener: KeepingListener
) -> None:
    journal.batch(checkpoint_payload(0, (Q, 1000, 0)))
    assert recovered(journal, listener).state.queues[Q].next_offset == 1000
