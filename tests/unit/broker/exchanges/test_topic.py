from __future__ import annotations

from collections.abc import Callable
from functools import cache

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hareline.broker.exchanges.topic import ANY_WORDS_MAX, TopicExchange
from hareline.errors import PreconditionFailed

from .subjects import PLAIN, Place, calls_made_by, matched


@pytest.fixture
def exchange() -> TopicExchange:
    return TopicExchange("x")


# ------------------------------------------------------------------- what a pattern matches


@pytest.mark.parametrize(
    ("pattern", "key", "is_match"),
    [
        ("stock.usd.nyse", "stock.usd.nyse", True),
        ("stock.usd.nyse", "stock.usd", False),
        ("stock", "stock.usd", False),
        ("*.usd.*", "stock.usd.nyse", True),
        ("*.usd.*", "usd.nyse", False),
        ("*", "stock", True),
        ("*", "stock.usd", False),
        ("*.*", "stock", False),
        ("#", "stock.usd.nyse", True),
        ("#", "stock", True),
        ("stock.#", "stock", True),
        ("stock.#", "stock.usd.nyse", True),
        ("stock.#", "stocks", False),
        ("#.nyse", "nyse", True),
        ("#.nyse", "stock.usd.nyse", True),
        ("#.nyse", "stock.nyse.usd", False),
        ("a.#.b", "a.b", True),
        ("a.#.b", "a.x.y.b", True),
        ("a.#.b", "a.b.c", False),
        ("a.#.b", "a.b.c.b", True),
        ("#.a.#", "a", True),
        ("#.a.#", "x.a.y", True),
        ("#.a.#", "x.y", False),
        ("*.#", "a", True),
        ("#.*", "a.b.c", True),
        ("*.#.*", "a", False),
        ("*.#.*", "a.b", True),
        ("#.#", "a.b", True),
        ("a.#.#.#.b", "a.b", True),
        # the empty key has no word, other keys have empty words where dots meet
        ("", "", True),
        ("#", "", True),
        ("#.#", "", True),
        ("*", "", False),
        ("#.*", "", False),
        ("", "a", False),
        (".", ".", True),
        ("*.*", ".", True),
        ("*", ".", False),
        ("a.*", "a.", True),
        ("a.*", "a", False),
        ("a.#", "a.", True),
        (".#", "", False),
        (".*", ".a", True),
        ("..", "..", True),
        ("*..*", "a..b", True),
        # wildcards stand alone in a word, and mean nothing in a routing key
        ("a*", "ab", False),
        ("a*", "a*", True),
        ("##", "a", False),
        ("##", "##", True),
        ("a.b", "a.*", False),
        ("a.b", "#", False),
        ("a.*", "a.*", True),
        ("a.*", "a.#", True),
        ("*", "#", True),
        ("#", "*.#", True),
        # other letters and other cases are other words
        ("Stock", "stock", False),
        ("größe.*", "größe.münchen", True),
        ("\udcff.*", "\udcff.a", True),  # octets that are no UTF-8
    ],
)
def test_pattern_matches_as_in_rabbitmq(pattern: str, key: str, is_match: bool) -> None:
    exchange = TopicExchange("x")
    exchange.bind(Place("q"), pattern, {})
    assert matched(exchange, key) == (["q"] if is_match else [])
    assert naive_match(pattern, key) is is_match


def test_patterns_with_and_without_wildcards_are_found_together(exchange: TopicExchange) -> None:
    for pattern in ("a.b", "a.*", "#", "*.b", "a.b.#", "b.#", "a.c"):
        exchange.bind(Place(pattern), pattern, {})
    assert matched(exchange, "a.b") == ["#", "*.b", "a.*", "a.b", "a.b.#"]


def test_nothing_matches_without_bindings(exchange: TopicExchange) -> None:
    assert matched(exchange, "a.b") == []
    assert matched(exchange, "") == []


def test_result_may_be_cached_and_every_key_of_a_message_is_matched(
    exchange: TopicExchange,
) -> None:
    assert exchange.is_static
    assert exchange.matches_every_key


# ------------------------------------------------------------------- unbinding


@pytest.mark.parametrize("pattern", ["a.b", "a.*", "a.#", "#"])
def test_destination_bound_twice_with_a_pattern_stays_until_both_bindings_are_gone(
    exchange: TopicExchange, pattern: str
) -> None:
    place = Place("q")
    exchange.bind(place, pattern, {"a": 1})
    exchange.bind(place, pattern, {"a": 2})
    exchange.unbind(place, pattern, {"a": 2})
    assert matched(exchange, "a.b") == ["q"]
    exchange.unbind(place, pattern, {"a": 1})
    assert matched(exchange, "a.b") == []


def test_patterns_that_mean_the_same_are_bindings_of_their_own(exchange: TopicExchange) -> None:
    place = Place("q")
    exchange.bind(place, "a.#", {})
    exchange.bind(place, "a.#.#", {})
    exchange.unbind(place, "a.#", {})
    assert matched(exchange, "a.b") == ["q"]
    exchange.unbind(place, "a.#.#", {})
    assert matched(exchange, "a.b") == []


def test_longer_and_shorter_patterns_survive_the_one_between(exchange: TopicExchange) -> None:
    places = {pattern: Place(pattern) for pattern in ("*", "*.b", "*.b.#")}
    for pattern, place in places.items():
        exchange.bind(place, pattern, {})
    exchange.unbind(places["*.b"], "*.b", {})
    assert matched(exchange, "a") == ["*"]
    assert matched(exchange, "a.b") == ["*.b.#"]


def test_unbinding_what_was_never_bound_is_a_bug_and_says_so(exchange: TopicExchange) -> None:
    exchange.bind(Place("q"), "a.*", {})
    for pattern in ("a.b", "b.*", "a.*", "#"):
        with pytest.raises(KeyError):
            exchange.unbind(Place("other"), pattern, {})
    assert matched(exchange, "a.b") == ["q"]


def test_nothing_is_left_of_unbound_patterns() -> None:
    used, fresh = TopicExchange("used"), TopicExchange("fresh")
    kept, place = Place("kept"), Place("q")
    for exchange in (used, fresh):
        exchange.bind(kept, "x.*.keep", {})
    patterns = [f"{a}.{b}.{c}" for a in "x*#" for b in "y*#" for c in "z*#"]
    for pattern in patterns:
        used.bind(place, pattern, {})
    assert len(matched(used, "x.y.z")) == 1
    for pattern in patterns:
        used.unbind(place, pattern, {})
    assert matched(used, "x.y.z") == []
    assert calls_made_by(_matching(used, "x.y.z")) == calls_made_by(_matching(fresh, "x.y.z"))
    used.unbind(kept, "x.*.keep", {})
    unused = TopicExchange("unused")
    assert calls_made_by(_matching(used, "x.y.z")) == calls_made_by(_matching(unused, "x.y.z"))


# ------------------------------------------------------------------- what a match costs


def test_cost_does_not_grow_with_bindings_that_do_not_match() -> None:
    costs = []
    for count in (10, 3_000):
        exchange = TopicExchange("x")
        for number in range(count):
            exchange.bind(Place("q"), f"stock.*.item{number}.#", {})
            exchange.bind(Place("q"), f"#.item{number}", {})
            exchange.bind(Place("q"), f"stock.a.item{number}", {})
        costs.append(calls_made_by(_matching(exchange, "stock.a.item7")))
        assert len(list(exchange.match("stock.a.item7", PLAIN))) == 3
    assert costs[0] == costs[1]


def test_many_hashes_neither_repeat_the_destination_nor_take_for_ever(
    exchange: TopicExchange,
) -> None:
    place = Place("q")
    exchange.bind(place, "a.#." * ANY_WORDS_MAX + "a", {})
    exchange.bind(Place("never"), "#.a." * ANY_WORDS_MAX + "b", {})
    exchange.bind(Place("star"), "#.*." * ANY_WORDS_MAX + "*", {})
    key = ".".join("a" * 128)
    assert sorted(found.name for found in exchange.match(key, PLAIN)) == ["q", "star"]
    # 128 words, three patterns with at most two live nodes for each "#", two lookups for a node
    assert calls_made_by(_matching(exchange, key)) < 128 * 3 * 2 * ANY_WORDS_MAX * 2


def test_as_many_hashes_as_allowed_can_be_bound_and_one_more_is_refused(
    exchange: TopicExchange,
) -> None:
    exchange.bind(Place("q"), ".".join(["#", "a"] * ANY_WORDS_MAX), {})
    # differs: topic-hashes
    pattern = ".".join(["#", "a"] * (ANY_WORDS_MAX + 1))
    with pytest.raises(PreconditionFailed) as refusal:
        exchange.bind(Place("q"), pattern, {})
    assert refusal.value.explanation == (
        f"the binding key has 17 '#' words, at most 16 are allowed: '{pattern}'"
    )


def test_hashes_side_by_side_count_as_one(exchange: TopicExchange) -> None:
    exchange.bind(Place("q"), ".".join(["#"] * 128), {})
    assert matched(exchange, "") == ["q"]
    assert matched(exchange, "a.b") == ["q"]


def test_hash_inside_a_word_does_not_count(exchange: TopicExchange) -> None:
    key = ".".join(["#a"] * 40)
    exchange.bind(Place("q"), key, {})
    assert matched(exchange, key) == ["q"]


# ------------------------------------------------------------------- against a naive matcher


def naive_match(pattern: str, key: str) -> bool:
    """The definition, word by word; exponential but for the cache."""
    pattern_words = tuple(pattern.split(".")) if pattern else ()
    key_words = tuple(key.split(".")) if key else ()

    @cache
    def matches(pattern_at: int, key_at: int) -> bool:
        if pattern_at == len(pattern_words):
            return key_at == len(key_words)
        word = pattern_words[pattern_at]
        if word == "#":
            return any(matches(pattern_at + 1, end) for end in range(key_at, len(key_words) + 1))
        if key_at == len(key_words):
            return False
        return word in ("*", key_words[key_at]) and matches(pattern_at + 1, key_at + 1)

    return matches(0, 0)


PLACES = [Place(name) for name in "xyz"]
pattern_texts = st.lists(st.sampled_from(["a", "b", "*", "#", ""]), max_size=6).map(".".join)
key_texts = st.lists(st.sampled_from(["a", "b", "c", "", "*", "#"]), max_size=7).map(".".join)
steps = st.lists(
    st.tuples(
        st.sampled_from(["bind", "bind", "unbind"]),
        st.sampled_from(PLACES),
        pattern_texts,
        st.integers(1, 2),
        st.integers(0, 1000),
    ),
    max_size=40,
)


@given(steps=steps, keys=st.lists(key_texts, min_size=1, max_size=8))
def test_any_sequence_of_bindings_matches_what_the_definition_says(
    steps: list[tuple[str, Place, str, int, int]], keys: list[str]
) -> None:
    exchange = TopicExchange("x")
    bound: dict[tuple[Place, str, int], None] = {}
    for step, place, pattern, argument, choice in steps:
        if step == "bind" and (place, pattern, argument) not in bound:
            exchange.bind(place, pattern, {"argument": argument})
            bound[place, pattern, argument] = None
        elif step == "unbind" and bound:
            binding = list(bound)[choice % len(bound)]
            exchange.unbind(binding[0], binding[1], {"argument": binding[2]})
            del bound[binding]
        for key in keys:
            expected = {place.name for place, pattern, _ in bound if naive_match(pattern, key)}
            assert set(matched(exchange, key)) == expected


@given(patterns=st.lists(pattern_texts, max_size=12, unique=True), key=key_texts)
def test_each_pattern_is_found_once(patterns: list[str], key: str) -> None:
    exchange = TopicExchange("x")
    for pattern in patterns:
        exchange.bind(Place(pattern), pattern, {})
    found = [place.name for place in exchange.match(key, PLAIN)]
    assert len(found) == len(set(found))


def _matching(exchange: TopicExchange, key: str) -> Callable[[], object]:
    return lambda: exchange.match(key, PLAIN)
