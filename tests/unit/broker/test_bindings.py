"""The binding table: each binding once, found from both of its ends."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from hareline.broker.exchanges.bindings import Binding, BindingTable, DestinationKind, arguments_key


def binding(
    source: str = "x",
    destination: str = "q",
    routing_key: str = "k",
    kind: DestinationKind = "queue",
    arguments: Mapping[str, object] | None = None,
) -> Binding:
    table = arguments or {}
    return Binding(source, kind, destination, routing_key, arguments_key(table), table)


@pytest.fixture
def table() -> BindingTable:
    return BindingTable()


def test_a_binding_is_found_from_both_ends(table: BindingTable) -> None:
    one = binding()
    assert table.add(one)
    assert table.from_source("x") == [one]
    assert table.to_destination("queue", "q") == [one]
    assert table.has_source("x")
    assert len(table) == 1


def test_a_repetition_is_not_added(table: BindingTable) -> None:
    assert table.add(binding(arguments={"a": 1}))
    assert not table.add(binding(arguments={"a": 1}))
    assert len(table) == 1


@pytest.mark.parametrize(
    "other",
    [
        binding(source="y"),
        binding(destination="r"),
        binding(routing_key="l"),
        binding(kind="exchange"),
        binding(arguments={"a": 1}),
    ],
)
def test_whatever_differs_makes_a_binding_of_its_own(table: BindingTable, other: Binding) -> None:
    assert table.add(binding())
    assert table.add(other)
    assert len(table) == 2
    assert table.remove(other) == other
    assert table.remove(binding()) == binding()
    assert len(table) == 0


def test_a_queue_and_an_exchange_of_one_name_are_two_destinations(table: BindingTable) -> None:
    table.add(binding(kind="queue", destination="same"))
    table.add(binding(kind="exchange", destination="same"))
    assert [one.kind for one in table.to_destination("queue", "same")] == ["queue"]
    assert [one.kind for one in table.to_destination("exchange", "same")] == ["exchange"]


def test_removing_gives_back_what_was_stored(table: BindingTable) -> None:
    """The exchange is unbound with the arguments that it was bound with."""
    arguments = {"a": 1}
    stored = binding(arguments=arguments)
    table.add(stored)
    removed = table.remove(binding(arguments={"a": 1}))
    assert removed is stored
    assert removed.arguments is arguments


def test_removing_what_is_not_there_gives_none(table: BindingTable) -> None:
    assert table.remove(binding()) is None
    table.add(binding())
    assert table.remove(binding(routing_key="other")) is None
    assert len(table) == 1


def test_the_last_binding_takes_its_ends_along(table: BindingTable) -> None:
    table.add(binding(routing_key="1"))
    table.add(binding(routing_key="2"))
    table.remove(binding(routing_key="1"))
    assert table.has_source("x")
    table.remove(binding(routing_key="2"))
    assert not table.has_source("x")
    assert table.from_source("x") == []
    assert table.to_destination("queue", "q") == []


def test_bindings_are_listed_in_the_order_in_which_they_were_made(table: BindingTable) -> None:
    bindings = [binding(routing_key=str(number)) for number in (3, 1, 2)]
    for one in bindings:
        table.add(one)
    assert table.from_source("x") == bindings
    assert table.to_destination("queue", "q") == bindings


def test_what_goes_takes_its_groups_along(table: BindingTable) -> None:
    ends = [(source, queue) for source in "xyz" for queue in "qr"]
    for source, queue in ends:
        for key in "12":
            table.add(binding(source=source, destination=queue, routing_key=key))
    taken = table.take_to_destination("queue", "q")
    assert {source: len(group) for source, group in taken.items()} == {"x": 2, "y": 2, "z": 2}
    assert len(table) == table.count_from("x") * 3 == 6
    of_y = table.take_from_source("y")
    assert [(end, len(group)) for end, group in of_y.items()] == [(("queue", "r"), 2)]
    assert {each.source for each in table.to_destination("queue", "r")} == {"x", "z"}
    assert table.between("y", "queue", "r") == []
    assert len(table.between("z", "queue", "r")) == 2
    assert not table.take_from_source("y")
    assert not table.take_to_destination("queue", "q")
    assert not table.has_source("y")
    assert len(table) == 4


def test_a_listing_may_be_walked_while_bindings_are_removed(table: BindingTable) -> None:
    for number in range(5):
        table.add(binding(routing_key=str(number)))
    for one in table.from_source("x"):
        table.remove(one)
    assert len(table) == 0


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}),
        ({"a": [1, "x"]}, {"a": [1, "x"]}),
        ({}, {}),
    ],
)
def test_arguments_are_the_same_whatever_their_order(
    one: dict[str, object], other: dict[str, object]
) -> None:
    assert arguments_key(one) == arguments_key(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"a": 1}, {"a": "1"}),
        ({"a": 1}, {"a": True}),
        ({"a": 1}, {"a": 1.0}),
        ({"a": 1}, {"b": 1}),
        ({"a": 1}, {"a": 1, "b": None}),
        ({"a": b"x"}, {"a": "x"}),
    ],
)
def test_arguments_of_other_names_values_or_types_differ(
    one: dict[str, object], other: dict[str, object]
) -> None:
    assert arguments_key(one) != arguments_key(other)


def test_arguments_that_cannot_be_hashed_have_a_key() -> None:
    assert hash(arguments_key({"list": [1], "table": {"k": [2]}}))
