from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hareline.broker.exchanges.headers import HeadersExchange, comparable
from hareline.errors import PreconditionFailed
from hareline.wire import table
from hareline.wire.table import Array, Table, Timestamp

from .subjects import PLAIN, Place, calls_made_by, matched, message


@pytest.fixture
def exchange() -> HeadersExchange:
    return HeadersExchange("x")


def is_met(arguments: dict[str, object], headers: dict[str, object] | None) -> bool:
    """Whether a message with these headers meets a binding with these arguments."""
    exchange = HeadersExchange("x")
    exchange.bind(Place("q"), "", arguments)
    subject = message(headers=None if headers is None else Table(headers))
    return matched(exchange, "", subject) == ["q"]


# ------------------------------------------------------------------- the four modes


@pytest.mark.parametrize(
    ("arguments", "headers", "expected"),
    [
        ({"a": 1, "b": 2}, {"a": 1, "b": 2}, True),
        ({"a": 1, "b": 2}, {"a": 1, "b": 2, "c": 3}, True),
        ({"a": 1, "b": 2}, {"a": 1}, False),
        ({"a": 1, "b": 2}, {"a": 1, "b": 3}, False),
        ({"a": 1}, {}, False),
        ({"a": 1}, None, False),
        ({"x-match": "all", "a": 1}, {"a": 1}, True),
        ({"x-match": "all", "a": 1}, {"a": 1, "x-match": "any"}, True),
        ({"x-match": "any", "a": 1, "b": 2}, {"a": 1}, True),
        ({"x-match": "any", "a": 1, "b": 2}, {"b": 2, "c": 3}, True),
        ({"x-match": "any", "a": 1, "b": 2}, {"a": 2, "b": 1}, False),
        ({"x-match": "any", "a": 1, "b": 2}, None, False),
        # without conditions: RabbitMQ 3.10.8 answers the same to each
        ({}, None, True),
        ({}, {"y": 1}, True),
        ({"x-match": "all"}, None, True),
        ({"x-match": "all-with-x"}, {"x-a": 1}, True),
        ({"x-match": "any"}, {"y": 1}, False),
        ({"x-match": "any-with-x"}, {"x-match": "any-with-x"}, False),
        # names in x-
        ({"x-match": "all", "x-a": 1}, {}, True),
        ({"x-match": "any", "x-a": 1}, {"x-a": 1}, False),
        ({"x-a": 1, "b": 2}, {"b": 2}, True),
        ({"x-match": "all-with-x", "x-a": 1}, {"x-a": 1}, True),
        ({"x-match": "all-with-x", "x-a": 1}, {"x-a": 2}, False),
        ({"x-match": "all-with-x", "x-a": 1}, {}, False),
        ({"x-match": "all-with-x", "x-a": 1, "b": 2}, {"b": 2}, False),
        ({"x-match": "any-with-x", "x-a": 1, "b": 2}, {"x-a": 1}, True),
        ({"x-match": "any-with-x", "x-a": 1, "b": 2}, {"b": 2}, True),
        ({"x-match": "any-with-x", "x-a": 1}, {"x-a": 2}, False),
        ({"X-a": 1}, {}, False),  # only a small x- is left out
        ({"x": 1}, {}, False),
        # void: the header must be there, whatever its value
        ({"a": None}, {"a": 5}, True),
        ({"a": None}, {"a": None}, True),
        ({"a": None}, {"b": 5}, False),
        ({"a": None, "b": 1}, {"a": "", "b": 1}, True),
        ({"a": None, "b": 1}, {"b": 1}, False),
        ({"a": None, "b": 1}, {"a": 0, "b": 2}, False),
        ({"x-match": "any", "a": None, "b": 1}, {"a": False}, True),
        ({"x-match": "all-with-x", "x-a": None}, {"x-a": 1}, True),
        ({"a": 1}, {"a": None}, False),
    ],
)
def test_binding_is_met_as_in_rabbitmq(
    arguments: dict[str, object], headers: dict[str, object] | None, expected: bool
) -> None:
    assert is_met(arguments, headers) is expected
    assert naive_is_met(arguments, headers or {}) is expected


def test_routing_key_does_not_matter(exchange: HeadersExchange) -> None:
    exchange.bind(Place("q"), "some.key", {"a": 1})
    assert matched(exchange, "other", message(headers=Table(a=1))) == ["q"]


def test_result_must_not_be_cached_and_one_match_serves_all_keys_of_a_message(
    exchange: HeadersExchange,
) -> None:
    assert not exchange.is_static
    assert not exchange.matches_every_key


# ------------------------------------------------------------------- when values are equal

# each line is one class of types, with values that a weaker comparison would mix up
CLASSES: list[list[object]] = [
    [True],
    [False],
    [
        1,
        table.Byte(1),
        table.UnsignedByte(1),
        table.Short(1),
        table.UnsignedShort(1),
        table.SignedInt(1),
        table.UnsignedInt(1),
        table.LongLong(1),
    ],
    [0, table.SignedInt(0)],
    [1.0, table.Float(1.0)],
    [0.0, table.Float(0.0)],
    ["1", b"1"],
    ["true"],
    ["", b""],
    ["\udcff", b"\xff"],
    [Timestamp(1)],
    [Decimal("1")],
    [Decimal("1.0")],
    [Array([1]), [table.Short(1)]],
    [Array([True])],
    [Array([1.0])],
    [Array(["1"])],
    [Array([Array([1])])],
    [Array([])],
    [Table(a=1, b=2), Table(b=table.Byte(2), a=1)],
    [Table(a=1)],
    [Table(a=True)],
    [Table()],
]
VALUES = [(value, index) for index, values in enumerate(CLASSES) for value in values]


@pytest.mark.parametrize(("wanted", "wanted_class"), VALUES)
def test_value_is_equal_to_the_values_of_its_class_only(wanted: object, wanted_class: int) -> None:
    # differs: headers-timestamp, headers-table, old-numbers
    for value, value_class in VALUES:
        assert is_met({"k": wanted}, {"k": value}) is (value_class == wanted_class), value
        assert (comparable(value) == comparable(wanted)) is (value_class == wanted_class)
        # as a condition that is checked after another was hit
        both = {"a": "hit", "k": wanted}
        assert is_met(both, {"a": "hit", "k": value}) is (value_class == wanted_class), value


def test_width_of_a_float_rounds_the_value_that_is_compared() -> None:
    octets = table.encode_table({"k": table.Float(0.1)})
    rounded, _ = table.decode_table(octets, 0)
    assert is_met({"k": 0.5}, {"k": table.Float(0.5)})
    assert not is_met({"k": 0.1}, dict(rounded))


def test_value_of_a_type_that_no_table_holds_is_compared_by_type_and_value() -> None:
    moment = datetime(2026, 1, 1, tzinfo=UTC)
    assert comparable(moment) == comparable(moment)
    assert comparable(moment) != comparable(moment.timestamp())


# ------------------------------------------------------------------- refusals


@pytest.mark.parametrize(
    ("mode", "explanation"),
    [
        (
            "x",
            'Invalid x-match field value <<"x">>; expected all, any, all-with-x, or any-with-x',
        ),
        ("", "Invalid x-match field value <<>>; expected all, any, all-with-x, or any-with-x"),
        (
            "All",
            'Invalid x-match field value <<"All">>; expected all, any, all-with-x, or any-with-x',
        ),
        (table.SignedInt(5), "Invalid x-match field type signedint (value 5); expected longstr"),
        (2**40, "Invalid x-match field type long (value 1099511627776); expected longstr"),
        (True, "Invalid x-match field type bool (value true); expected longstr"),
        (None, "Invalid x-match field type void (value undefined); expected longstr"),
        (b"all", 'Invalid x-match field type binary (value <<"all">>); expected longstr'),
        (
            Array([table.SignedInt(1)]),
            "Invalid x-match field type array (value [{signedint,1}]); expected longstr",
        ),
    ],
)
def test_bad_mode_is_refused_with_the_text_of_rabbitmq(
    exchange: HeadersExchange, mode: object, explanation: str
) -> None:
    with pytest.raises(PreconditionFailed) as refusal:
        exchange.bind(Place("q"), "", {"x-match": mode, "a": 1})
    assert refusal.value.explanation == explanation
    assert matched(exchange, "", message(headers=Table(a=1))) == []


# ------------------------------------------------------------------- unbinding


def test_one_of_two_bindings_of_a_destination_goes_and_the_other_stays(
    exchange: HeadersExchange,
) -> None:
    place = Place("q")
    exchange.bind(place, "", {"a": 1})
    exchange.bind(place, "", {"b": 1})
    exchange.unbind(place, "", {"a": 1})
    assert matched(exchange, "", message(headers=Table(a=1))) == []
    assert matched(exchange, "", message(headers=Table(b=1))) == ["q"]


@pytest.mark.parametrize("arguments", [{}, {"a": 1}, {"x-match": "any", "a": 1}])
def test_same_conditions_under_two_routing_keys_stay_until_both_are_gone(
    exchange: HeadersExchange, arguments: dict[str, object]
) -> None:
    place = Place("q")
    exchange.bind(place, "one", arguments)
    exchange.bind(place, "two", arguments)
    exchange.unbind(place, "one", arguments)
    assert matched(exchange, "", message(headers=Table(a=1))) == ["q"]
    exchange.unbind(place, "two", arguments)
    assert matched(exchange, "", message(headers=Table(a=1))) == []


def test_same_mode_said_and_unsaid_are_two_bindings(exchange: HeadersExchange) -> None:
    place = Place("q")
    exchange.bind(place, "", {"a": 1})
    exchange.bind(place, "", {"a": 1, "x-match": "all"})
    exchange.unbind(place, "", {"a": 1})
    assert matched(exchange, "", message(headers=Table(a=1))) == ["q"]


def test_two_destinations_with_the_same_conditions_do_not_disturb_each_other(
    exchange: HeadersExchange,
) -> None:
    first, second = Place("first"), Place("second")
    exchange.bind(first, "", {"a": 1, "b": 2})
    exchange.bind(second, "", {"a": 1, "b": 2})
    exchange.unbind(first, "", {"a": 1, "b": 2})
    assert matched(exchange, "", message(headers=Table(a=1, b=2))) == ["second"]


# ------------------------------------------------------------------- what a match costs


def test_cost_does_not_grow_with_bindings_that_share_a_condition_and_do_not_match() -> None:
    subject = message(headers=Table(format="pdf", kind="report", number=7))
    assert subject.headers  # decoded before the counting
    costs = []
    for count in (10, 1_000):
        exchange = HeadersExchange("x")
        for number in range(count):
            exchange.bind(
                Place(str(number)), "", {"format": "pdf", "kind": "report", "number": number}
            )
        assert matched(exchange, "", subject) == ["7"]
        costs.append(calls_made_by(lambda: exchange.match("", subject)))  # noqa: B023
    assert costs[0] == costs[1]


def test_cost_does_not_grow_with_headers_that_no_binding_asks_for() -> None:
    exchange = HeadersExchange("x")
    exchange.bind(Place("q"), "", {"a": 1})
    costs = []
    for count in (100, 1_000):
        subject = message(headers=Table({f"h{number}": number for number in range(count)}, a=1))
        _ = subject.properties  # decoded before: that costs more where there are more headers
        assert matched(exchange, "", subject) == ["q"]
        costs.append(calls_made_by(lambda: exchange.match("", subject)))  # noqa: B023
    assert costs[0] == costs[1]


def test_headers_of_a_message_are_not_decoded_when_no_binding_asks_for_one(
    exchange: HeadersExchange,
) -> None:
    exchange.bind(Place("q"), "", {})
    assert matched(exchange, "", PLAIN) == ["q"]
    undecodable = message()
    undecodable.content = b""  # any look at the properties would fail
    assert matched(exchange, "", undecodable) == ["q"]


# ------------------------------------------------------------------- against a naive model


def kind_class(value: object) -> str:
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, Timestamp):
        return "timestamp"
    for python_type in (int, float, str, list, dict):
        if isinstance(value, python_type):
            return python_type.__name__
    if isinstance(value, bytes):
        return "str"
    return type(value).__name__


def naive_equal(one: object, other: object) -> bool:
    if kind_class(one) != kind_class(other):
        return False
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(naive_equal, one, other))
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(naive_equal(one[key], other[key]) for key in one)
    if isinstance(one, str | bytes) and isinstance(other, str | bytes):
        return as_text(one) == as_text(other)
    return one == other


def as_text(value: str | bytes) -> str:
    return value.decode() if isinstance(value, bytes) else value


def naive_is_met(arguments: dict[str, object], headers: dict[str, object]) -> bool:
    """The definition, condition by condition."""
    mode = arguments.get("x-match", "all")
    results = []
    for name, wanted in arguments.items():
        if name == "x-match" or (name.startswith("x-") and mode in ("all", "any")):
            continue
        is_there = name in headers
        results.append(is_there and (wanted is None or naive_equal(wanted, headers[name])))
    return all(results) if mode in ("all", "all-with-x") else any(results)


PLACES = [Place(name) for name in "pqr"]
header_names = st.sampled_from(["a", "b", "c", "x-d", "x-match-not"])
scalars = st.sampled_from(
    [None, True, False, 0, 1, table.Short(1), 1.0, table.Float(1.0), "", "1", b"1", Timestamp(1)]
)
values = st.one_of(
    scalars,
    st.lists(scalars, max_size=2).map(Array),
    st.dictionaries(header_names, scalars, max_size=2).map(Table),
)
header_tables = st.dictionaries(header_names, values, max_size=5)
argument_tables = st.builds(
    lambda conditions, mode: conditions | mode,
    st.dictionaries(header_names, values, max_size=4),
    st.sampled_from(["", "all", "any", "all-with-x", "any-with-x"]).map(
        lambda mode: {"x-match": mode} if mode else {}
    ),
)
steps = st.lists(
    st.tuples(
        st.sampled_from(["bind", "bind", "unbind"]), st.sampled_from(PLACES), argument_tables
    ),
    max_size=25,
)


@given(steps=steps, choice=st.randoms(), published=st.lists(header_tables, min_size=1, max_size=4))
def test_any_sequence_of_bindings_matches_what_the_definition_says(
    steps: list[tuple[str, Place, dict[str, object]]],
    choice: Random,
    published: list[dict[str, object]],
) -> None:
    exchange = HeadersExchange("x")
    bound: list[tuple[Place, dict[str, object]]] = []
    messages = [(headers, message(headers=Table(headers))) for headers in published]
    for step, place, arguments in steps:
        is_new = not any(place is other and naive_equal(arguments, known) for other, known in bound)
        if step == "bind" and is_new:
            exchange.bind(place, "", arguments)
            bound.append((place, arguments))
        elif step == "unbind" and bound:
            position = choice.randrange(len(bound))
            gone, known = bound.pop(position)
            exchange.unbind(gone, "", known)
        for headers, subject in messages:
            expected = {place.name for place, known in bound if naive_is_met(known, headers)}
            assert set(matched(exchange, "", subject)) == expected
