"""The books of one queue: both sides of each entry, that of the queue and that of the segment."""

from __future__ import annotations

from array import array

import pytest

from hareline.storage.store.ledger import JournalBooks
from hareline.storage.store.liveness import Liveness
from hareline.storage.store.state import RecoveredQueue

HOME, TAIL = 1, 2


@pytest.fixture
def liveness() -> Liveness:
    liveness = Liveness()
    liveness.begin(HOME, 4096)
    liveness.begin(TAIL, 4096)
    return liveness


@pytest.fixture
def books(liveness: Liveness) -> JournalBooks:
    """Ten entries at home, from offset 0."""
    books = JournalBooks(7, liveness)
    books.add(liveness.segments[HOME], 10)
    return books


def live(books: JournalBooks, liveness: Liveness) -> dict[int, int]:
    """By segment; the same on both sides."""
    of_segments = {each.number: each.live for each in liveness.segments.values() if each.live}
    assert books.live == of_segments
    return of_segments


def test_entries_are_added_on_both_sides(books: JournalBooks, liveness: Liveness) -> None:
    assert live(books, liveness) == {HOME: 10}
    books.add(liveness.segments[HOME], 2)
    books.add(liveness.segments[TAIL], 1)
    assert live(books, liveness) == {HOME: 12, TAIL: 1}


def test_a_run_leaves_and_the_segment_knows_which_record_says_so(
    books: JournalBooks, liveness: Liveness
) -> None:
    assert books.settle(HOME, 2, 5, TAIL) == []
    assert live(books, liveness) == {HOME: 7}
    assert list(liveness.segments[HOME].settled[TAIL]) == [7, 2, 3]
    assert books.settle(HOME, 5, 12, TAIL) == []
    assert live(books, liveness) == {}


def test_many_runs_leave_at_once(books: JournalBooks, liveness: Liveness) -> None:
    books.large = {1: 101, 5: 105}
    triples = array("Q", [7, 0, 2, 7, 4, 1])
    assert books.settle_runs(HOME, 3, triples, TAIL) == [101]
    assert live(books, liveness) == {HOME: 7}
    assert list(liveness.segments[HOME].settled[TAIL]) == list(triples)
    assert books.large == {5: 105}


@pytest.mark.parametrize("count", [2, 9])
def test_what_leaves_takes_its_count_and_its_large_body_along(
    books: JournalBooks, liveness: Liveness, count: int
) -> None:
    for offset in range(10):
        books.note_return(offset, 3, liveness.segments[TAIL])
        books.large[offset] = 100 + offset
    released = books.settle(HOME, 0, count, TAIL)  # by the shorter way, whichever that is
    assert sorted(released) == [100 + offset for offset in range(count)]
    assert list(books.returns) == list(books.large) == list(range(count, 10))
    assert list(liveness.segments[TAIL].returned[7]) == list(range(10))


def test_an_entry_moves_and_its_count_is_in_its_new_record(
    books: JournalBooks, liveness: Liveness
) -> None:
    books.note_return(3, 2, liveness.segments[HOME])
    assert books.returns == {3: (2, HOME)}
    books.move(3, HOME, liveness.segments[TAIL])
    assert live(books, liveness) == {HOME: 9, TAIL: 1}
    assert books.returns == {}


def test_a_deleted_queue_has_nothing_left(books: JournalBooks, liveness: Liveness) -> None:
    books.add(liveness.segments[TAIL], 4)
    books.large = {1: 101, 2: 102}
    books.note_return(3, 2, liveness.segments[TAIL])
    assert books.clear() == [101, 102]
    assert live(books, liveness) == {}
    assert (books.returns, books.large) == ({}, {})


def test_recovered_entries_are_in_the_books_of_the_segments_already(liveness: Liveness) -> None:
    liveness.segments[HOME].live = 3
    found = RecoveredQueue()
    found.live, found.returns, found.large = {HOME: 3}, {1: (2, HOME)}, {2: 102}
    books = JournalBooks(7, liveness)
    books.restore(found)
    assert live(books, liveness) == {HOME: 3}
    assert books.settle(HOME, 0, 3, TAIL) == [102]
    assert live(books, liveness) == {}


def test_more_than_there_is_cannot_leave(books: JournalBooks) -> None:
    with pytest.raises(AssertionError, match="of 7> has -1 entries in segment 1"):
        books.settle(HOME, 0, 11, TAIL)
