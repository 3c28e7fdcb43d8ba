"""What is told of damage: what is lost, as far as it can be known."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

import pytest

from hareline.errors import StoreError
from hareline.storage.journal.damage import Decision
from hareline.storage.journal.format.frame import CHECKPOINT, MESSAGE
from hareline.storage.journal.format.positions import offset_of
from hareline.storage.journal.segment import segment_path
from tests.support.journals import JournalBuilder, checkpoint_payload, settle_payload
from tests.support.recoveries import KeepingListener, Q, damage, damage_at, messages, recovered


def test_a_torn_tail_is_cut_and_nobody_is_told(
    journal: JournalBuilder, listener: KeepingListener
) -> None:
    journal.batch(*messages(0, 2))
    end = journal.segment.end
    journal.batch(*messages(2, 5), durable=0)
    damage(journal, end + 200)
    recovery = recovered(journal, listener)
    assert list(recovery.contents[Q].offsets) == [0, 1]
    assert listener.damage == []
    assert Path(segment_path(journal.directory, 1)).stat().st_size == end


class TestWhatDamageDoesNotShow:
    """Two to four segments; the damaged one had the entries 10 to 19, of which 10 was settled."""

    @pytest.fixture(autouse=True)
    def _segments(self, journal: JournalBuilder) -> None:
        journal.batch(checkpoint_payload(0))
        journal.batch(*messages(0, 10))
        journal.begin(2)
        journal.batch(checkpoint_payload(0, (Q, 10, 0)))
        journal.batch(*messages(10, 20))

    @staticmethod
    def _go_on(journal: JournalBuilder, *, without: Iterable[int] = ()) -> None:
        journal.begin(3, without=without)
        journal.batch(checkpoint_payload(0, (Q, 20, 0)))
        journal.batch(settle_payload((Q, 10, 1), (Q, 3, 2)), *messages(20, 25))

    @staticmethod
    def _path(journal: JournalBuilder, number: int) -> Path:
        return Path(segment_path(journal.directory, number))

    def _said(self, journal: JournalBuilder, listener: KeepingListener, newest: int = 0) -> str:
        """Of the only damage, whatever the policy."""
        with pytest.raises(StoreError) as caught:
            recovered(journal, listener, Decision.FAIL, newest)
        recovered(journal, listener, Decision.SKIP, newest)
        (first, _), (problem, _) = listener.damage
        assert first == problem
        found = re.search(r"; ((how many )?messages (lost: |are ).*)$", problem)
        assert found
        assert f"; {found[1]}. To start without that, set journal.on_corruption" in str(
            caught.value
        )
        return found[1]

    def test_a_missing_segment_is_bounded_by_what_stands_around_it(
        self, journal: JournalBuilder, listener: KeepingListener
    ) -> None:
        self._go_on(journal)
        self._path(journal, 2).unlink()
        said = self._said(journal, listener)
        assert said == "messages lost: at most 9 of queue 'q' in vhost '/' (offsets 11 to 19)"

    def test_what_is_found_of_it_is_not_counted(
        self, journal: JournalBuilder, listener: KeepingListener
    ) -> None:
        path = self._path(journal, 2)
        self._go_on(journal)
        octets = path.read_bytes()
        path.write_bytes(octets[: octets.index(b"x" * 50) + 300])
        problems = self._said_of_each(journal, listener)
        assert len(problems) == 2  # the record that was cut, and what is not there at all
        for problem in problems:
            assert problem.endswith(" of queue 'q' in vhost '/' (offsets 12 to 19)")
            assert "; messages lost: at most 8 of queue" in problem

    def test_a_damaged_header_costs_nothing_if_the_checkpoint_follows_it(
        self, journal: JournalBuilder, listener: KeepingListener
    ) -> None:
        self._go_on(journal)
        damage_at(self._path(journal, 2), 20)
        said = self._said(journal, listener)
        assert said == "messages lost: none, if it is what it seems to be"

    def test_where_nothing_follows_it_cannot_be_told(
        self, journal: JournalBuilder, listener: KeepingListener
    ) -> None:
        self._path(journal, 2).unlink()
        said = self._said(journal, listener, newest=2)
        assert said == "how many messages are lost cannot be told"

    def test_what_may_have_been_moved_there_cannot_be_known(
        self, journal: JournalBuilder, listener: KeepingListener
    ) -> None:
        self._go_on(journal, without=[1])
        self._path(journal, 1).unlink()
        self._path(journal, 2).unlink()
        said = self._said(journal, listener)
        assert said == (
            "messages lost: at most 17 of queue 'q' in vhost '/' (offsets 0 to 19), and older ones "
            "that had been moved there, which cannot be told"
        )

    def test_nothing_was_published_while_it_was_written(
        self, journal: JournalBuilder, listener: KeepingListener
    ) -> None:
        self._go_on(journal)
        journal.begin(4)
        journal.batch(checkpoint_payload(0, (Q, 25, 0)))
        journal.begin(5)
        journal.batch(checkpoint_payload(0, (Q, 25, 0)))
        self._path(journal, 4).unlink()
        assert self._said(journal, listener) == "messages lost: none"

    def test_a_damaged_settle_says_what_comes_back(
        self, journal: JournalBuilder, listener: KeepingListener
    ) -> None:
        self._go_on(journal)
        positions = journal.batch(settle_payload((Q, 20, 1)))
        journal.batch(*messages(25, 26))
        damage(journal, offset_of(positions[0]) + 12)
        assert self._said(journal, listener) == (
            "messages lost: none, if it is what it seems to be; those that it settled come back"
        )

    def test_a_message_that_became_something_else_is_not_taken_for_that(
        self, journal: JournalBuilder, listener: KeepingListener
    ) -> None:
        self._go_on(journal)
        positions = journal.batch(*messages(25, 26))
        journal.batch(*messages(26, 27))
        path = self._path(journal, 3)
        octets = bytearray(path.read_bytes())
        assert octets[offset_of(positions[0]) + 8] == MESSAGE
        octets[offset_of(positions[0]) + 8] = CHECKPOINT
        path.write_bytes(octets)
        said = self._said(journal, listener)
        assert said == "how many messages are lost cannot be told"

    def test_what_is_truncated_is_more_than_the_damage(
        self, journal: JournalBuilder, listener: KeepingListener
    ) -> None:
        self._go_on(journal)
        self._path(journal, 2).unlink()
        recovered(journal, listener, Decision.TRUNCATE)
        ((problem, _),) = listener.damage
        assert problem.endswith(" (offsets 11 to 19), and all that was written behind it")

    def _said_of_each(self, journal: JournalBuilder, listener: KeepingListener) -> list[str]:
        recovered(journal, listener, Decision.SKIP)
        return [problem for problem, _ in listener.damage]
