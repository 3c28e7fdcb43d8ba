from __future__ import annotations

import pytest

from hareline.broker.exchanges.direct import DirectExchange

from .subjects import PLAIN, Place, matched


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
