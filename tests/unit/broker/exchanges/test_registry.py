from __future__ import annotations

import pickle

import pytest

from hareline.broker.exchange_types import EXCHANGE_TYPES, create_exchange
from hareline.errors import PreconditionFailed

from .subjects import Place

#: What a type cannot be declared without.
NEEDED: dict[str, dict[str, object]] = {"x-delayed-message": {"x-delayed-type": "topic"}}


@pytest.mark.parametrize("type_name", list(EXCHANGE_TYPES))
def test_exchange_of_each_type_is_created_with_what_was_declared(type_name: str) -> None:
    arguments = {"alternate-exchange": "spare", **NEEDED.get(type_name, {})}
    exchange = create_exchange(
        type_name,
        "x",
        is_durable=False,
        is_auto_delete=True,
        is_internal=True,
        arguments=arguments,
    )
    assert exchange.type_name == type_name
    assert exchange.name == "x"
    assert not exchange.is_durable
    assert exchange.is_auto_delete
    assert exchange.is_internal
    assert exchange.arguments == arguments
    assert exchange.alternate_exchange == "spare"
    assert repr(exchange) == f"<{type_name} exchange 'x'>"


def test_each_type_is_listed_by_its_own_name() -> None:
    assert set(EXCHANGE_TYPES) >= {
        *("direct", "fanout", "topic", "headers"),
        *("x-consistent-hash", "x-random", "x-local-random", "x-delayed-message", "x-jms-topic"),
    }
    for type_name, exchange_class in EXCHANGE_TYPES.items():
        assert exchange_class.type_name == type_name


@pytest.mark.parametrize("type_name", ["", "Direct", "x-modulus-hash", "nope"])
def test_unknown_type_is_refused_by_name(type_name: str) -> None:
    with pytest.raises(PreconditionFailed) as refusal:
        create_exchange(type_name, "x")
    assert refusal.value.explanation == f"unknown exchange type '{type_name}'"


def test_arguments_that_the_type_refuses_are_refused() -> None:
    with pytest.raises(PreconditionFailed):
        create_exchange("x-consistent-hash", "x", arguments={"hash-property": "body"})


# Not x-jms-topic, whose bindings need a condition and cannot be pickled (test_jms_topic), and not
# x-local-random, which takes no key and keeps bindings as x-random does.
@pytest.mark.parametrize(
    "type_name",
    [
        pytest.param(
            name,
            marks=pytest.mark.pure("pickle sees nothing of its compiled base")
            if name == "x-delayed-message"
            else (),
        )
        for name in EXCHANGE_TYPES
        if name not in ("x-jms-topic", "x-local-random")
    ],
)
def test_nothing_is_left_of_bindings_that_are_gone(type_name: str) -> None:
    exchange = create_exchange(type_name, "x", arguments=NEEDED.get(type_name))
    empty = pickle.dumps(exchange)
    keys = [str(number) for number in range(1, 20)]
    if type_name in ("topic", "x-delayed-message"):
        keys += [f"{a}.{b}.{c}" for a in "x*#" for b in "y*#" for c in "z*#"]
    bindings: list[tuple[Place, str, dict[str, object]]] = []
    for place in (Place("a"), Place("b")):
        for key in keys:
            bindings.append((place, key, {}))
            bindings.append((place, key, {"b": key}))
            bindings.append((place, key, {"x-match": "any", key: key, "a": None}))
    for place, key, arguments in bindings:
        exchange.bind(place, key, arguments)
    assert len(pickle.dumps(exchange)) > len(empty)
    for place, key, arguments in bindings:
        exchange.unbind(place, key, arguments)
    assert len(pickle.dumps(exchange)) == len(empty)
