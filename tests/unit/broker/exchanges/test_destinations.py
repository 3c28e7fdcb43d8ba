from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from hareline.broker.exchanges.destinations import DestinationSet

from .subjects import Place

PLACES = [Place(name) for name in "abcd"]


def test_empty_set_is_false_and_has_no_members() -> None:
    destinations = DestinationSet()
    assert not destinations
    assert destinations.members() == ()
    assert len(destinations) == 0


def test_members_are_the_same_tuple_until_something_changes() -> None:
    destinations = DestinationSet()
    destinations.add(PLACES[0])
    members = destinations.members()
    assert destinations.members() is members
    destinations.add(PLACES[0])  # a second binding changes no member
    assert destinations.members() is members
    destinations.add(PLACES[1])
    assert destinations.members() == (PLACES[0], PLACES[1])


@given(st.lists(st.tuples(st.booleans(), st.sampled_from(PLACES)), max_size=60))
def test_members_are_what_was_added_more_often_than_removed(
    steps: list[tuple[bool, Place]],
) -> None:
    destinations = DestinationSet()
    bound: list[Place] = []
    for is_added, place in steps:
        if is_added:
            destinations.add(place)
            bound.append(place)
        elif place in bound:
            destinations.remove(place)
            bound.remove(place)
        assert set(destinations.members()) == set(bound)
        assert len(destinations.members()) == len(destinations) == len(set(bound))
        assert bool(destinations) == bool(bound)
