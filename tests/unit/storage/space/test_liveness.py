"""What is counted of segments, and where moved records are found."""

from __future__ import annotations

import pytest

from hareline.storage.journal.format.positions import position_of
from hareline.storage.store.liveness import Liveness, Moves
from hareline.storage.store.state import RecoveredQueue, RecoveredSegment, RecoveredState


def sealed(live: int, total: int, end: int = 1000) -> Liveness:
    liveness = Liveness()
    books = liveness.begin(1, 4096)
    books.live, books.total = live, total
    liveness.seal(1, end, 5)
    return liveness


def test_the_tail_has_no_share_until_it_is_sealed() -> None:
    liveness = Liveness()
    liveness.begin(1, 4096).live = 10
    assert liveness.share == 1.0
    assert liveness.sealed() == []
    liveness.take(1, 10)
    assert not liveness.has_dead


def test_the_share_goes_with_the_entries() -> None:
    liveness = sealed(10, 10)
    assert liveness.share == 1.0
    liveness.take(1, 6)
    assert (round(liveness.share, 6), liveness.has_dead) == (0.4, False)
    liveness.take(1, 4)
    assert (liveness.share, liveness.has_dead) == (0.0, True)
    assert liveness.remove(1).number == 1
    assert (liveness.sealed_bytes, liveness.live_bytes) == (0, 0)


def test_a_segment_without_entries_is_dead_when_it_is_sealed() -> None:
    liveness = sealed(0, 0)
    assert liveness.has_dead
    assert liveness.segments[1].weight_bytes == 0


def test_more_cannot_leave_than_was_there() -> None:
    liveness = sealed(1, 5)
    with pytest.raises(AssertionError):
        liveness.take(1, 2)


def test_moved_records_are_found_over_several_moves() -> None:
    liveness = Liveness()
    liveness.begin(9, 4096)
    first, second = Moves(), Moves()
    first.add(100, position_of(2, 200), [1])
    first.add(300, position_of(2, 400), [1, 2])
    second.add(200, position_of(9, 800), [1])
    liveness.moves = {1: first, 2: second}
    assert liveness.current(position_of(1, 100)) == position_of(9, 800)
    assert liveness.current(position_of(1, 300)) == position_of(2, 400)
    assert liveness.current(position_of(1, 200)) == position_of(1, 200)
    assert liveness.current(position_of(1, 999)) == position_of(1, 999)
    liveness.forget_moves(position_of(1, 100), 1)
    assert list(liveness.moves) == [1]
    liveness.forget_moves(position_of(1, 300), 2)
    liveness.forget_moves(position_of(1, 300), 1)
    assert liveness.moves == {}


def test_moves_out_of_a_living_segment_stay_until_it_is_freed() -> None:
    liveness = sealed(0, 5)
    moves = liveness.moves[1] = Moves()
    moves.add(100, position_of(2, 200), [1])
    liveness.forget_moves(position_of(1, 100), 1)
    assert 1 in liveness.moves
    liveness.remove(1)
    assert liveness.moves == {}


def test_a_deleted_queue_asks_for_no_record() -> None:
    liveness = Liveness()
    moves = liveness.moves[1] = Moves()
    moves.add(100, position_of(2, 200), [1, 2])
    liveness.forget_queue(1)
    assert moves.live == {2: 1}
    liveness.forget_queue(2)
    assert liveness.moves == {}


def test_what_a_replay_found_is_taken_over() -> None:
    state = RecoveredState(
        segments=[RecoveredSegment(3, 900, 4096, 10, 77), RecoveredSegment(5, 500, 500, 2, 78)],
        queues={1: RecoveredQueue(live={3: 2, 5: 1}), 2: RecoveredQueue(live={3: 1})},
    )
    liveness = Liveness()
    liveness.restore(state)
    assert [(books.number, books.live) for books in liveness.sealed()] == [(3, 3), (5, 1)]
    assert liveness.sealed_bytes == 1400
    assert liveness.live_bytes == 3 * 90 + 250
