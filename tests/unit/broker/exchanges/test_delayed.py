from __future__ import annotations

import pytest

from hareline.broker.delayed_exchange import DelayedExchange
from hareline.broker.exchange_types import create_exchange
from hareline.errors import PreconditionFailed
from hareline.wire.table import Table

from .subjects import PLAIN, Place, matched, message

DELAYED = message(headers=Table({"x-delay": 1000, "a": 1}))
WAS_DELAYED = message(headers=Table({"x-delay": -1000, "a": 1}))


def delayed_exchange(type_name: str = "direct", **arguments: object) -> DelayedExchange:
    exchange = create_exchange(
        "x-delayed-message", "x", arguments={"x-delayed-type": type_name, **arguments}
    )
    assert isinstance(exchange, DelayedExchange)
    exchange.delay_queue = Place("delay queue")
    return exchange


# ----------------------------------------------------------------------------- declaring


@pytest.mark.row("S9")
@pytest.mark.parametrize("arguments", [{}, {"x-delayed-type": 5}, {"x-delayed-type": None}])
def test_type_to_route_by_must_be_given(arguments: dict[str, object]) -> None:
    with pytest.raises(PreconditionFailed) as refusal:
        create_exchange("x-delayed-message", "x", arguments=arguments)
    assert refusal.value.explanation == (
        "Invalid argument, 'x-delayed-type' must be an existing exchange type"
    )


def test_type_to_route_by_must_be_known() -> None:
    with pytest.raises(PreconditionFailed) as refusal:
        delayed_exchange("fnord")
    assert refusal.value.explanation == "unknown exchange type 'fnord'"


def test_type_to_route_by_cannot_be_this_one() -> None:
    with pytest.raises(PreconditionFailed) as refusal:
        delayed_exchange("x-delayed-message")
    assert refusal.value.explanation == (
        "Invalid argument, 'x-delayed-message' can't be used for 'x-delayed-type'"
    )


def test_arguments_that_the_inner_type_refuses_are_refused() -> None:
    with pytest.raises(PreconditionFailed) as refusal:
        delayed_exchange("x-consistent-hash", **{"hash-property": "body"})
    assert refusal.value.explanation == "Unsupported property: body"


def test_binding_arguments_that_the_inner_type_refuses_are_refused() -> None:
    with pytest.raises(PreconditionFailed, match="The binding key must be an integer"):
        delayed_exchange("x-consistent-hash").bind(Place("q"), "heavy", {})


# ------------------------------------------------------------------------------ matching


@pytest.mark.row("S9")
@pytest.mark.parametrize("type_name", ["direct", "fanout", "topic", "headers", "x-random"])
def test_message_with_a_delay_matches_the_delay_queue_alone(type_name: str) -> None:
    exchange = delayed_exchange(type_name)
    exchange.bind(Place("q"), "k", {})
    assert matched(exchange, "k", DELAYED) == ["delay queue"]
    assert matched(exchange, "elsewhere", DELAYED) == ["delay queue"]


@pytest.mark.row("S9")
@pytest.mark.parametrize("subject", [PLAIN, WAS_DELAYED], ids=["no delay", "delayed before"])
@pytest.mark.parametrize(
    ("type_name", "binding_key", "routing_key", "expected"),
    [
        ("direct", "a.b", "a.b", ["q"]),
        ("direct", "a.b", "a.c", []),
        ("fanout", "a.b", "a.c", ["q"]),
        ("topic", "a.*", "a.c", ["q"]),
        ("topic", "b.*", "a.c", []),
        ("headers", "a.b", "a.c", ["q"]),
        ("x-consistent-hash", "1", "a.c", ["q"]),
        ("x-random", "a.b", "a.c", ["q"]),
    ],
)
def test_other_messages_are_matched_as_the_inner_type_does(
    type_name: str, binding_key: str, routing_key: str, expected: list[str], subject: object
) -> None:
    exchange = delayed_exchange(type_name)
    place = Place("q")
    exchange.bind(place, binding_key, {})
    assert matched(exchange, routing_key, subject) == expected  # type: ignore[arg-type]
    exchange.unbind(place, binding_key, {})
    assert matched(exchange, routing_key, subject) == []  # type: ignore[arg-type]


def test_headers_are_the_conditions_of_inner_headers() -> None:
    exchange = delayed_exchange("headers")
    exchange.bind(Place("one"), "", {"a": 1})
    exchange.bind(Place("two"), "", {"a": 2})
    assert matched(exchange, "", WAS_DELAYED) == ["one"]


@pytest.mark.parametrize(
    ("type_name", "looks_at_each"),
    [("direct", True), ("topic", True), ("headers", False), ("x-consistent-hash", False)],
)
def test_copies_are_matched_as_the_inner_type_does(type_name: str, looks_at_each: bool) -> None:
    assert delayed_exchange(type_name).matches_every_key is looks_at_each


def test_nothing_that_it_matches_may_be_remembered() -> None:
    assert not delayed_exchange("fanout").is_static
