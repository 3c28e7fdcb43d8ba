"""Exchanges that route by the key alone, or to all: default, direct and fanout."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hareline.broker.exchanges.default import DefaultExchange
from hareline.broker.exchanges.destinations import DestinationSet
from hareline.broker.exchanges.direct import DirectExchange
from hareline.broker.exchanges.fanout import FanoutExchange
from hareline.errors import AccessRefused

from .subjects import PLAIN, Place, matched

# ----------------------------------------------------------------------------------------- default


NO_QUEUES: dict[str, Place] = {}


def test_message_goes_to_the_queue_that_the_routing_key_names() -> None:
    queues = {"orders": Place("orders"), "bills": Place("bills")}
    exchange = DefaultExchange(queues.get)
    assert matched(exchange, "bills") == ["bills"]


def test_message_goes_nowhere_when_no_queue_has_the_name() -> None:
    exchange = DefaultExchange({"orders": Place("orders")}.get)
    assert matched(exchange, "order") == []
    assert matched(exchange, "") == []


def test_queue_is_looked_up_anew_for_every_match() -> None:
    queues: dict[str, Place] = {}
    exchange = DefaultExchange(queues.get)
    assert matched(exchange, "q") == []
    queues["q"] = Place("q")
    assert matched(exchange, "q") == ["q"]
    del queues["q"]
    assert matched(exchange, "q") == []


def test_it_has_no_name_and_is_a_durable_direct_exchange() -> None:
    exchange = DefaultExchange(NO_QUEUES.get)
    assert exchange.name == ""
    assert exchange.type_name == "direct"
    assert exchange.is_durable
    assert not exchange.is_internal
    assert not exchange.is_auto_delete


@pytest.mark.parametrize("operation", ["bind", "unbind"])
def test_binding_and_unbinding_are_refused(operation: str) -> None:
    exchange = DefaultExchange(NO_QUEUES.get)
    with pytest.raises(AccessRefused) as refusal:
        getattr(exchange, operation)(Place("q"), "q", {})
    assert refusal.value.explanation == "operation not permitted on the default exchange"


# ------------------------------------------------------------------------------------------ direct


@pytest.fixture
def exchange() -> DirectExchange:
    return DirectExchange("x")


def test_message_goes_where_the_binding_key_equals_the_routing_key(
    exchange: DirectExchange,
) -> None:
    exchange.bind(Place("red"), "colour.red", {})
    exchange.bind(Place("blue"), "colour.blue", {})
    assert matched(exchange, "colour.red") == ["red"]
    assert matched(exchange, "colour.blue") == ["blue"]


def test_wildcards_are_ordinary_words(exchange: DirectExchange) -> None:
    exchange.bind(Place("q"), "#", {})
    assert matched(exchange, "anything") == []
    assert matched(exchange, "#") == ["q"]


def test_empty_key_is_a_key(exchange: DirectExchange) -> None:
    exchange.bind(Place("q"), "", {})
    assert matched(exchange, "") == ["q"]
    assert matched(exchange, "x") == []


def test_every_destination_of_a_key_is_found_in_binding_order(exchange: DirectExchange) -> None:
    places = [Place(name) for name in "cab"]
    for place in places:
        exchange.bind(place, "k", {})
    assert list(exchange.match("k", PLAIN)) == places


def test_unbound_destination_is_not_found_any_more(exchange: DirectExchange) -> None:
    left, stays = Place("left"), Place("stays")
    exchange.bind(left, "k", {})
    exchange.bind(stays, "k", {})
    exchange.unbind(left, "k", {})
    assert matched(exchange, "k") == ["stays"]
    exchange.unbind(stays, "k", {})
    assert matched(exchange, "k") == []


def test_destination_bound_with_two_sets_of_arguments_stays_until_both_are_gone(
    exchange: DirectExchange,
) -> None:
    place = Place("q")
    exchange.bind(place, "k", {"a": 1})
    exchange.bind(place, "k", {"a": 2})
    exchange.unbind(place, "k", {"a": 1})
    assert matched(exchange, "k") == ["q"]
    exchange.unbind(place, "k", {"a": 2})
    assert matched(exchange, "k") == []


def test_destination_bound_with_two_keys_loses_the_unbound_one_only(
    exchange: DirectExchange,
) -> None:
    place = Place("q")
    exchange.bind(place, "one", {})
    exchange.bind(place, "two", {})
    exchange.unbind(place, "one", {})
    assert matched(exchange, "one") == []
    assert matched(exchange, "two") == ["q"]


def test_result_that_was_handed_out_does_not_change_with_the_bindings(
    exchange: DirectExchange,
) -> None:
    first = Place("first")
    exchange.bind(first, "k", {})
    result = exchange.match("k", PLAIN)
    exchange.bind(Place("second"), "k", {})
    exchange.unbind(first, "k", {})
    assert list(result) == [first]


def test_unbinding_what_was_never_bound_is_a_bug_and_says_so(exchange: DirectExchange) -> None:
    with pytest.raises(KeyError):
        exchange.unbind(Place("q"), "k", {})


def test_result_may_be_cached(exchange: DirectExchange) -> None:
    assert exchange.is_static
    assert exchange.matches_every_key


# ------------------------------------------------------------------------------------------ fanout


def test_message_goes_to_every_destination_whatever_the_keys() -> None:
    exchange = FanoutExchange("x")
    exchange.bind(Place("a"), "", {})
    exchange.bind(Place("b"), "some.key", {})
    assert matched(exchange, "") == ["a", "b"]
    assert matched(exchange, "other") == ["a", "b"]


def test_message_goes_nowhere_without_bindings() -> None:
    assert matched(FanoutExchange("x"), "") == []


def test_destination_bound_twice_is_found_once_and_stays_until_both_bindings_are_gone() -> None:
    exchange = FanoutExchange("x")
    place = Place("q")
    exchange.bind(place, "one", {})
    exchange.bind(place, "two", {})
    assert list(exchange.match("", PLAIN)) == [place]
    exchange.unbind(place, "two", {})
    assert list(exchange.match("", PLAIN)) == [place]
    exchange.unbind(place, "one", {})
    assert list(exchange.match("", PLAIN)) == []


def test_result_may_be_cached_and_one_match_serves_all_keys_of_a_message() -> None:
    exchange = FanoutExchange("x")
    assert exchange.is_static
    assert not exchange.matches_every_key


# ------------------------------------------------------------------------------------ destinations


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
