"""Where ready entries wait that nobody may have now: the best for whoever asks, at any depth."""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hareline.queues.core import parking as parking_module
from hareline.queues.core.entry import ACQUIRED, PARKED, SETTLED, QueueEntry, RankedEntry
from hareline.queues.core.groups import Group, ParkedRun
from hareline.queues.core.parking import Parking
from hareline.queues.orders.fifo import FifoOrder
from hareline.queues.queue import Queue
from tests.support.freed import all_freed
from tests.support.messages import make_message
from tests.support.turns import ManualTurn

RED, BLUE = 2, 4  # bits of two selectors
ALL = 1

ANN, BOB = "ann", "bob"  # owners: any object will do

Park = Callable[..., RankedEntry]


@pytest.fixture
def parking(queue: Queue) -> Parking:
    return Parking(queue.order.worth)


@pytest.fixture
def park(queue: Queue, parking: Parking) -> Park:
    """``park(rank, mask, group)`` gives the entry."""

    def park_one(rank: int, mask: int = ALL, group: Group | None = None) -> RankedEntry:
        entry = RankedEntry(queue, make_message(b"%d" % rank), rank)
        entry.state = PARKED
        parking.park(rank, entry, mask, group)
        return entry

    return park_one


def take_all_for(parking: Parking, bit: int, owner: object | None = None) -> list[int]:
    """The ranks of what one consumer with this bit would be given, one after the other."""
    ranks: list[int] = []
    while (best := parking.best(bit, owner)) is not None:
        entry = parking.take(best[1])
        assert best[0] == entry.offset
        entry.state = ACQUIRED
        ranks.append(best[0])
    return ranks


def owned(owner: object | None, key: str = "g") -> Group:
    group = Group(key)
    group.owner = owner
    return group


def drop(parking: Parking, *entries: QueueEntry) -> None:
    """As the queue does it: they are settled where they stand."""
    for entry in entries:
        entry.state = SETTLED
        parking.on_dropped()


def living_entries() -> int:
    gc.collect()
    return sum(isinstance(thing, RankedEntry) for thing in gc.get_objects())


# ------------------------------------------------------------------------- of no group


def test_the_best_is_the_lowest_rank_whatever_came_first(parking: Parking, park: Park) -> None:
    for rank in (5, 1, 9, 3):
        park(rank)
    assert take_all_for(parking, ALL) == [1, 3, 5, 9]


def test_each_is_given_what_its_selector_is_true_of(parking: Parking, park: Park) -> None:
    park(1, ALL | BLUE)
    park(2, ALL | RED)
    park(3, ALL | RED | BLUE)
    park(4, ALL)
    assert take_all_for(parking, RED) == [2, 3]
    assert take_all_for(parking, BLUE) == [1]
    assert take_all_for(parking, ALL) == [4]


def test_there_is_nothing_for_a_selector_that_nothing_matches(parking: Parking, park: Park) -> None:
    park(1, ALL | RED)
    assert parking.best(BLUE, None) is None
    assert Parking(FifoOrder().worth).best(ALL, ANN) is None


def test_what_was_settled_where_it_stands_is_passed_over(parking: Parking, park: Park) -> None:
    entries = [park(rank) for rank in range(6)]
    drop(parking, entries[0], entries[3], entries[5])
    assert take_all_for(parking, ALL) == [1, 2, 4]


# --------------------------------------------------------------------------- of groups


def test_a_group_of_nobody_is_anybody_s(parking: Parking, park: Park) -> None:
    group = owned(None)
    park(1, ALL, group)
    best = parking.best(ALL, ANN)
    assert best is not None
    assert best[1].group is group
    assert take_all_for(parking, ALL) == [1]


def test_an_owned_group_is_its_owner_s_alone(parking: Parking, park: Park) -> None:
    group = owned(ANN)
    park(1, ALL, group)
    park(2)
    assert take_all_for(parking, ALL, BOB) == [2]
    assert take_all_for(parking, ALL, None) == []
    assert take_all_for(parking, ALL, ANN) == [1]


def test_an_owner_is_given_what_is_its_and_what_is_anybody_s_in_order(
    parking: Parking, park: Park
) -> None:
    park(4, ALL, owned(ANN, "a"))
    park(1, ALL, owned(ANN, "b"))
    park(3, ALL, owned(None, "c"))
    park(2)
    park(0, ALL, owned(BOB, "d"))
    assert take_all_for(parking, ALL, ANN) == [1, 2, 3, 4]


@pytest.mark.parametrize("successor", [None, BOB])
def test_a_change_of_owner_shows_the_group_to_the_new_one(
    parking: Parking, park: Park, successor: str | None
) -> None:
    group = owned(ANN)
    park(1, ALL, group)
    park(2, ALL | RED, group)
    group.owner = successor
    assert parking.on_owner_changed(group)
    assert parking.best(ALL, ANN) == (None if successor else parking.best(ALL, None))
    assert take_all_for(parking, ALL, BOB) == [1, 2]


def test_a_group_that_comes_back_to_its_owner_is_given_once(parking: Parking, park: Park) -> None:
    group = owned(ANN)
    park(1, ALL, group)
    park(2, ALL, group)
    for owner in (None, BOB, ANN, None, ANN):
        group.owner = owner
        parking.on_owner_changed(group)
    assert take_all_for(parking, ALL, BOB) == []
    assert take_all_for(parking, ALL, ANN) == [1, 2]


def test_a_change_of_owner_tells_when_nothing_is_parked(parking: Parking, park: Park) -> None:
    group = owned(ANN)
    assert not parking.on_owner_changed(group)
    drop(parking, park(1, ALL, group))
    group.owner = None
    assert not parking.on_owner_changed(group)
    assert not group.runs


def test_a_better_one_that_is_parked_later_comes_first(parking: Parking, park: Park) -> None:
    group = owned(ANN)
    park(7, ALL, group)
    assert take_all_for(parking, ALL, BOB) == []
    park(3, ALL, group)
    park(5, ALL, group)
    assert take_all_for(parking, ALL, ANN) == [3, 5, 7]


def test_a_group_whose_head_was_dropped_is_still_found(parking: Parking, park: Park) -> None:
    """The new entry is not the first of its run when it is parked."""
    group = owned(ANN)
    head = park(1, ALL, group)
    drop(parking, head)
    park(2, ALL, group)
    assert take_all_for(parking, ALL, ANN) == [2]


def test_a_group_that_was_emptied_by_drops_takes_new_entries(parking: Parking, park: Park) -> None:
    group = owned(ANN)
    drop(parking, park(1, ALL, group))
    assert parking.best(ALL, ANN) is None
    assert not group.runs
    park(2, ALL, group)
    assert take_all_for(parking, ALL, ANN) == [2]


def test_an_owner_that_is_forgotten_has_nothing(parking: Parking, park: Park) -> None:
    group = owned(ANN)
    park(1, ALL, group)
    group.owner = None
    parking.on_owner_changed(group)
    parking.forget_owner(ANN)
    parking.forget_owner("nobody")
    assert take_all_for(parking, ALL, BOB) == [1]


# --------------------------------------------------------------- all of them, and the least


def test_the_least_is_found_in_every_run(parking: Parking, park: Park) -> None:
    entries = [
        park(3),
        park(2, ALL | RED, owned(None, "a")),
        park(1, ALL, owned(ANN, "b")),
        park(0, ALL | BLUE),
    ]
    for expected in reversed(entries):
        assert parking.least() is expected
        drop(parking, expected)
    assert parking.least() is None


def test_the_least_follows_what_is_taken_and_what_comes(parking: Parking, park: Park) -> None:
    for rank in (4, 5, 6):
        park(rank)
    least = parking.least()
    assert least is not None
    assert least.offset == 4
    best = parking.best(ALL, None)
    assert best is not None
    parking.take(best[1]).state = ACQUIRED
    assert (parking.least() or least).offset == 5
    newer = park(1)
    assert parking.least() is newer


def test_who_is_asked_for_the_least_once_does_not_keep_what_has_left(
    parking: Parking, park: Park
) -> None:
    before = living_entries()
    for rank in range(500):
        park(rank)
    assert parking.least() is not None
    assert len(take_all_for(parking, ALL)) == 500
    assert living_entries() - before <= parking_module.DEAD_ALLOWED + 1


def test_taking_all_empties_every_run_and_group(parking: Parking, park: Park) -> None:
    group = owned(ANN)
    entries = {park(1), park(2, RED), park(3, ALL, group), park(4, BLUE, group)}
    dropped = park(5)
    drop(parking, dropped)
    assert set(parking.entries()) == entries
    assert set(parking.take_all()) == entries
    assert not group.runs
    assert parking.entries() == []
    assert parking.best(ALL | RED | BLUE, ANN) is None
    assert parking.least() is None


def test_entries_are_listed_once_though_their_group_has_changed_hands(
    parking: Parking, park: Park
) -> None:
    group = owned(ANN)
    entry = park(1, ALL, group)
    for owner in (BOB, None, ANN):
        group.owner = owner
        parking.on_owner_changed(group)
    assert parking.entries() == [entry]


# ------------------------------------------------------------------------ what stays behind


def test_heads_of_former_owners_do_not_pile_up(parking: Parking, park: Park) -> None:
    """``ann`` never asks, so nothing of hers surfaces."""
    for number in range(2_000):
        group = owned(ANN, str(number))
        park(number, ALL, group)
        group.owner = BOB
        parking.on_owner_changed(group)
    heads = parking._heads[ANN][ALL]
    assert len(heads.runs()) <= parking_module.HEADS_SWEPT_AT
    assert take_all_for(parking, ALL, BOB) == list(range(2_000))
    assert len(parking._heads[BOB][ALL].runs()) == 0


def test_every_run_is_listed_once_as_they_were_at_the_first(parking: Parking, park: Park) -> None:
    group = owned(ANN)
    for rank in (3, 2, 1):  # each is a new head
        park(rank, ALL, group)
    park(4, RED, group)
    park(5, BLUE)
    runs = parking.runs()
    first = next(runs)
    park(6, RED)
    found = [first, *runs]
    assert len(found) == len(set(found))
    assert sorted(rank for run in found for rank, _ in run.ranked()) == [1, 2, 3, 4, 5]
    assert parking.clearings == 0
    parking.take_all()
    assert (parking.clearings, list(parking.runs())) == (1, [])


def test_heads_do_not_pile_up_while_one_group_is_taken(parking: Parking, park: Park) -> None:
    group = owned(ANN)
    for rank in range(1_000):
        park(rank, ALL, group)
    for rank in range(1_000):
        best = parking.best(ALL, ANN)
        assert best is not None
        assert best[0] == rank
        parking.take(best[1])
        assert len(parking._heads[ANN][ALL].runs()) <= parking_module.HEADS_SWEPT_AT


def test_dropped_entries_are_swept_out_before_they_surface(parking: Parking, park: Park) -> None:
    park(0)
    group = owned(ANN)
    park(1, ALL, group)
    before = living_entries()
    for rank in range(2, 1_000):
        drop(parking, park(rank, ALL, group if rank % 2 else None))
    assert living_entries() - before <= 2 * parking_module.DEAD_ALLOWED
    assert take_all_for(parking, ALL, ANN) == [0, 1]


def test_a_run_is_freed_with_its_entries_and_not_by_the_collector(
    parking: Parking, park: Park
) -> None:
    with all_freed(ParkedRun, Group):
        group = Group("g")
        drop(parking, park(1, ALL, group))
        assert parking.best(ALL, None) is None
        del group


# ------------------------------------------------------------------------- against a list

STEPS = st.lists(
    st.one_of(
        st.tuples(
            st.just("park"),
            st.integers(1, 7),
            st.sampled_from([None, "a", "b", "c"]),
        ),
        st.tuples(st.just("take"), st.sampled_from([1, 2, 4]), st.sampled_from([None, ANN, BOB])),
        st.tuples(
            st.just("own"), st.sampled_from(["a", "b", "c"]), st.sampled_from([None, ANN, BOB])
        ),
        st.tuples(st.just("drop"), st.integers(0, 100), st.none()),
        st.tuples(st.just("least"), st.none(), st.none()),
    ),
    max_size=60,
)


@given(ranks=st.permutations(range(60)), steps=STEPS, swept_at=st.sampled_from([2, 64]))
def test_parking_behaves_like_a_list(
    ranks: list[int], steps: list[tuple[Any, ...]], swept_at: int
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(parking_module, "HEADS_SWEPT_AT", swept_at)
        patch.setattr(parking_module, "DEAD_ALLOWED", swept_at)
        queue = Queue("q", FifoOrder(), ManualTurn())
        parking = Parking(queue.order.worth)
        groups = {key: owned(None, key) for key in "abc"}
        unused = list(ranks)
        model: dict[RankedEntry, tuple[int, Group | None]] = {}
        for step, one, other in steps:
            if step == "park":
                entry = RankedEntry(queue, make_message(b"x"), unused.pop())
                entry.state = PARKED
                group = None if other is None else groups[other]
                parking.park(entry.offset, entry, one, group)
                model[entry] = (one, group)
            elif step == "own":
                groups[one].owner = other
                has_parked = any(group is groups[one] for _, group in model.values())
                assert parking.on_owner_changed(groups[one]) == has_parked
            elif step == "drop" and model:
                entry = list(model)[one % len(model)]
                del model[entry]
                drop(parking, entry)
            elif step == "take":
                candidates = [
                    entry
                    for entry, (mask, group) in model.items()
                    if mask & one and (group is None or group.owner in (None, other))
                ]
                best = parking.best(one, other)
                expected = min(candidates, key=lambda entry: entry.offset, default=None)
                taken = None if best is None else parking.take(best[1])
                assert taken is expected
                if expected is not None:
                    expected.state = ACQUIRED
                    del model[expected]
            elif step == "least":
                assert parking.least() is min(model, key=lambda entry: entry.offset, default=None)
            assert set(parking.entries()) == set(model)
