from __future__ import annotations

from hareline.broker.exchanges.fanout import FanoutExchange

from .subjects import PLAIN, Place, matched


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
