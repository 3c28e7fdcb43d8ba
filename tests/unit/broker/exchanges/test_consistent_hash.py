from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hareline.broker.exchanges.consistent_hash import ConsistentHashExchange
from hareline.broker.exchanges.fanout import FanoutExchange
from hareline.errors import PreconditionFailed
from hareline.message import Message
from hareline.wire import table
from hareline.wire.table import Table, Timestamp
from tests.support.examples import examples

from .subjects import PLAIN, Place, matched, message

KEYS = [f"user-{number}" for number in range(20_000)]


def spread(weights: dict[str, str]) -> tuple[ConsistentHashExchange, dict[str, Place]]:
    """An exchange with a destination of each name, bound with its weight."""
    exchange = ConsistentHashExchange("x")
    places = {name: Place(name) for name in weights}
    for name, weight in weights.items():
        exchange.bind(places[name], weight, {})
    return exchange, places


def routes(exchange: ConsistentHashExchange, keys: list[str] = KEYS) -> list[str]:
    """For each key the name of the one destination it goes to."""
    return [next(iter(exchange.match(key, PLAIN))).name for key in keys]


# ------------------------------------------------------------------- spread


def test_message_goes_nowhere_without_bindings() -> None:
    assert matched(ConsistentHashExchange("x"), "k") == []


def test_equal_keys_go_to_one_destination() -> None:
    exchange, _ = spread({"a": "1", "b": "1", "c": "1"})
    assert len(list(exchange.match("k", PLAIN))) == 1
    assert routes(exchange, ["k"] * 20) == routes(exchange, ["k"]) * 20


@pytest.mark.parametrize(
    "weights",
    [
        {f"queue-{number}": "1" for number in range(10)},
        {f"queue-{number}": "20" for number in range(10)},
        {"light": "1", "middle": "2", "heavy": "5"},
        {"light": "1", "huge": "3"},
    ],
)
def test_keys_are_spread_in_proportion_to_the_weights(weights: dict[str, str]) -> None:
    exchange, _ = spread(weights)
    counts = Counter(routes(exchange))
    total = sum(map(int, weights.values()))
    for name, weight in weights.items():
        # slots and keys each scatter by 2.5% at ten destinations, less with fewer
        assert counts[name] == pytest.approx(len(KEYS) * int(weight) / total, rel=0.12)


@pytest.mark.parametrize(
    "keys",
    [
        [str(number) for number in range(20_000)],
        [f"{number:08x}" for number in range(0, 20_000 * 4096, 4096)],
        [f"00000000-0000-4000-8000-{number:012x}" for number in range(20_000)],
        [f"sensor.{number % 100}.{number // 100}.temperature" for number in range(20_000)],
        ["x" * number for number in range(1, 251)] * 80,
    ],
    ids=["numbers", "hexadecimal", "uuid", "topics", "lengths"],
)
def test_keys_that_look_alike_are_spread_evenly_too(keys: list[str]) -> None:
    exchange, _ = spread(dict.fromkeys("abcd", "1"))
    counts = Counter(routes(exchange, keys))
    distinct = len(set(keys))
    # four standard deviations of a fair draw of the distinct keys, and the slots' own 2%
    tolerance = 4 * (distinct * 3 / 16) ** 0.5 / (distinct / 4) + 0.05
    assert all(counts[name] == pytest.approx(len(keys) / 4, rel=tolerance) for name in "abcd")


def test_weight_of_any_size_is_taken() -> None:
    exchange, _ = spread({"a": "9" * 255, "b": "9" * 255, "c": "1"})
    counts = Counter(routes(exchange))
    assert counts["c"] == 0
    assert counts["a"] == pytest.approx(len(KEYS) / 2, rel=0.1)


def test_queue_and_exchange_of_one_name_share_the_keys() -> None:
    exchange = ConsistentHashExchange("x")
    exchange.bind(Place("same"), "1", {})
    exchange.bind(FanoutExchange("same"), "1", {})
    kinds = Counter(type(next(iter(exchange.match(key, PLAIN)))).__name__ for key in KEYS[:4000])
    assert kinds["Place"] == pytest.approx(2000, rel=0.15)


# ------------------------------------------------------------------- what moves, what stays


def test_new_binding_only_takes_its_share() -> None:
    exchange, _ = spread({f"queue-{number}": "1" for number in range(9)})
    before = routes(exchange)
    exchange.bind(Place("new"), "1", {})
    after = routes(exchange)
    moved = [(old, new) for old, new in zip(before, after, strict=True) if old != new]
    assert {new for _, new in moved} == {"new"}
    assert len(moved) == pytest.approx(len(KEYS) / 10, rel=0.12)


def test_lost_binding_only_gives_its_share_away_and_evenly() -> None:
    exchange, places = spread({f"queue-{number}": "1" for number in range(10)})
    # differs: hash-unbind
    before = routes(exchange)
    exchange.unbind(places["queue-3"], "1", {})
    after = routes(exchange)
    moved = [(old, new) for old, new in zip(before, after, strict=True) if old != new]
    assert {old for old, _ in moved} == {"queue-3"}
    assert len(moved) == before.count("queue-3")
    heirs = Counter(new for _, new in moved)
    assert len(heirs) == 9
    assert all(count == pytest.approx(len(moved) / 9, rel=0.4) for count in heirs.values())


def test_heavier_destination_only_takes_and_lighter_again_gives_back_the_same() -> None:
    exchange, places = spread({"a": "1", "b": "1", "c": "2"})
    # differs: hash-weights
    before = routes(exchange)
    exchange.bind(places["a"], "3", {})
    heavier = routes(exchange)
    assert {new for old, new in zip(before, heavier, strict=True) if old != new} == {"a"}
    assert heavier.count("a") == pytest.approx(len(KEYS) * 4 / 7, rel=0.05)
    exchange.unbind(places["a"], "3", {})
    assert routes(exchange) == before


def test_routes_do_not_depend_on_the_order_of_binding_or_on_history() -> None:
    weights = {"a": "1", "b": "2", "c": "3", "d": "1"}
    # differs: hash-routes
    exchange, _ = spread(weights)
    other, places = spread(dict(reversed(weights.items())))
    for _ in range(2):
        other.bind(places["b"], "7", {})
        other.unbind(places["d"], "1", {})
        other.unbind(places["b"], "7", {})
        other.bind(places["d"], "1", {})
    assert routes(other) == routes(exchange)


def test_routes_are_those_of_any_other_process_and_day() -> None:
    # written down once; when these change, a restart with a new version moves users' keys
    exchange, _ = spread({"a": "1", "b": "1", "c": "2"})
    keys = ["", "größe", "\udcff", "a.b.c", *KEYS[:40]]
    assert "".join(routes(exchange, keys)) == "caacacccbccccbaacccbabcccabccacacacacabcbcaa"


def test_queue_that_is_deleted_and_declared_again_gets_its_keys_back() -> None:
    exchange, places = spread({"a": "1", "b": "1", "c": "1"})
    before = routes(exchange)
    exchange.unbind(places["b"], "1", {})
    exchange.bind(Place("b"), "1", {})
    assert routes(exchange) == before


def test_last_binding_may_go_and_another_come() -> None:
    exchange, places = spread({"a": "1"})
    exchange.unbind(places["a"], "1", {})
    assert matched(exchange, "k") == []
    exchange.bind(Place("b"), "1", {})
    assert set(routes(exchange)) == {"b"}


def test_destination_bound_twice_keeps_the_keys_of_the_binding_that_stays() -> None:
    exchange, places = spread({"a": "1", "b": "1"})
    exchange.bind(places["a"], "1", {"argument": 1})
    exchange.unbind(places["a"], "1", {})
    assert set(routes(exchange)) == {"a", "b"}
    exchange.unbind(places["a"], "1", {"argument": 1})
    assert set(routes(exchange)) == {"b"}


@settings(max_examples=examples(0.15))
@given(
    st.lists(
        st.tuples(st.booleans(), st.sampled_from("abcde"), st.sampled_from(["1", "2", "9"])),
        max_size=12,
    )
)
def test_any_history_ends_in_the_routes_of_a_fresh_exchange(
    steps: list[tuple[bool, str, str]],
) -> None:
    exchange = ConsistentHashExchange("x")
    places = {name: Place(name) for name in "abcde"}
    bound: dict[tuple[str, str], None] = {}
    for is_bind, name, weight in steps:
        if is_bind and (name, weight) not in bound:
            exchange.bind(places[name], weight, {})
            bound[name, weight] = None
        elif not is_bind and (name, weight) in bound:
            exchange.unbind(places[name], weight, {})
            del bound[name, weight]
    fresh = ConsistentHashExchange("x")
    for name, weight in sorted(bound):
        fresh.bind(places[name], weight, {})
    keys = KEYS[:300]
    if bound:
        assert routes(exchange, keys) == routes(fresh, keys)
    else:
        assert matched(exchange, "k") == []


# ------------------------------------------------------------------- what is hashed


def by_key(value: object) -> Message:
    return message(headers=Table(user=value))


def test_routing_key_is_hashed_unless_something_else_is_declared() -> None:
    exchange, _ = spread({"a": "1", "b": "1"})
    assert exchange.is_static
    assert set(routes(exchange)) == {"a", "b"}
    assert {matched(exchange, "k", message(message_id=key))[0] for key in KEYS[:50]} == set(
        routes(exchange, ["k"])
    )


@pytest.mark.parametrize("hashed", ["hash-header", "hash-property"])
def test_result_must_not_be_cached_when_the_message_decides(hashed: str) -> None:
    exchange = ConsistentHashExchange("x", arguments={hashed: "message_id"})
    assert not exchange.is_static
    assert not exchange.matches_every_key


def test_header_is_hashed_like_a_routing_key() -> None:
    plain, _ = spread({"a": "1", "b": "1", "c": "1"})
    exchange = ConsistentHashExchange("x", arguments={"hash-header": "user"})
    for name in "abc":
        exchange.bind(Place(name), "1", {})
    for key in KEYS[:200]:
        assert matched(exchange, "other", by_key(key)) == matched(plain, key)


@pytest.mark.parametrize("name", ["message_id", "correlation_id"])
def test_property_is_hashed_like_a_routing_key(name: str) -> None:
    plain, _ = spread({"a": "1", "b": "1", "c": "1"})
    exchange = ConsistentHashExchange("x", arguments={"hash-property": name})
    for place in "abc":
        exchange.bind(Place(place), "1", {})
    for key in KEYS[:200]:
        assert matched(exchange, "other", message(**{name: key})) == matched(plain, key)


def test_timestamp_is_hashed_as_a_number() -> None:
    plain, _ = spread({"a": "1", "b": "1", "c": "1"})
    exchange = ConsistentHashExchange("x", arguments={"hash-property": "timestamp"})
    for place in "abc":
        exchange.bind(Place(place), "1", {})
    for second in range(1_700_000_000, 1_700_000_100):
        subject = message(timestamp=Timestamp(second))
        assert matched(exchange, "other", subject) == matched(plain, str(second))


@pytest.mark.parametrize(
    "value",
    [5, table.Short(-5), True, 1.5, b"octets", "", "text", Timestamp(7), ["a", 1], Table(a=1)],
)
def test_header_of_any_type_is_hashed_the_same_way_each_time(value: object) -> None:
    exchange = ConsistentHashExchange("x", arguments={"hash-header": "user"})
    for name in "abcdefgh":
        exchange.bind(Place(name), "1", {})
    first = matched(exchange, "k", by_key(value))
    assert len(first) == 1
    assert matched(exchange, "other", by_key(value)) == first


def test_integer_header_goes_to_one_destination_whatever_its_width() -> None:
    exchange = ConsistentHashExchange("x", arguments={"hash-header": "user"})
    for name in "abcdefgh":
        exchange.bind(Place(name), "1", {})
    for number in range(100):
        widths = [number, table.Byte(number), table.SignedInt(number), table.LongLong(number)]
        assert len({matched(exchange, "k", by_key(width))[0] for width in widths}) == 1


@pytest.mark.parametrize(
    ("arguments", "subject"),
    [
        ({"hash-header": "user"}, message(headers=Table(other="x"))),
        ({"hash-header": "user"}, PLAIN),
        ({"hash-property": "message_id"}, PLAIN),
        ({"hash-property": "timestamp"}, message(message_id="m")),
    ],
)
def test_messages_without_the_hashed_value_all_go_to_one_destination(
    arguments: dict[str, object], subject: Message
) -> None:
    exchange = ConsistentHashExchange("x", arguments=arguments)
    for name in "abcd":
        exchange.bind(Place(name), "1", {})
    assert len({matched(exchange, key, subject)[0] for key in KEYS[:50]}) == 1


# ------------------------------------------------------------------- refusals


@pytest.mark.parametrize(
    ("key", "explanation"),
    [
        ("", "The binding key must be an integer: <<>>"),
        ("abc", 'The binding key must be an integer: <<"abc">>'),
        (" 5", 'The binding key must be an integer: <<" 5">>'),
        ("1_0", 'The binding key must be an integer: <<"1_0">>'),
        ("1.5", 'The binding key must be an integer: <<"1.5">>'),
        ("-", 'The binding key must be an integer: <<"-">>'),
        ("٣", 'The binding key must be an integer: <<"٣">>'),
        ("²", 'The binding key must be an integer: <<"²">>'),
        ('a"b', 'The binding key must be an integer: <<"a\\"b">>'),
        ("0", "The binding key must be greater than 0"),
        ("-1", "The binding key must be greater than 0"),
    ],
)
def test_binding_key_that_is_no_weight_is_refused_with_the_text_of_rabbitmq(
    key: str, explanation: str
) -> None:
    exchange, _ = spread({"a": "1"})
    with pytest.raises(PreconditionFailed) as refusal:
        exchange.bind(Place("q"), key, {})
    assert refusal.value.explanation == explanation
    assert set(routes(exchange)) == {"a"}


def test_weight_may_have_a_sign_and_leading_zeros_as_in_rabbitmq() -> None:
    exchange, _ = spread({"a": "+5", "b": "005"})
    assert Counter(routes(exchange))["a"] == pytest.approx(len(KEYS) / 2, rel=0.05)


@pytest.mark.parametrize(
    ("arguments", "explanation"),
    [
        (
            {"hash-header": "a", "hash-property": "message_id"},
            "hash-header and hash-property are mutually exclusive",
        ),
        ({"hash-property": "body"}, "Unsupported property: body"),
        (
            {"hash-header": table.SignedInt(5)},
            "invalid type 'signedint' for arg 'hash-header': expected longstr",
        ),
        (
            {"hash-property": True},
            "invalid type 'bool' for arg 'hash-property': expected longstr",
        ),
    ],
)
def test_arguments_that_make_no_sense_are_refused(
    arguments: dict[str, object], explanation: str
) -> None:
    with pytest.raises(PreconditionFailed) as refusal:
        ConsistentHashExchange.validate_arguments(arguments)
    # differs: hash-header
    assert refusal.value.explanation == explanation


@pytest.mark.parametrize(
    "arguments",
    [{}, {"hash-header": "user"}, {"hash-header": ""}, {"hash-property": "timestamp"}],
)
def test_arguments_that_make_sense_are_taken(arguments: dict[str, object]) -> None:
    ConsistentHashExchange.validate_arguments(arguments)
