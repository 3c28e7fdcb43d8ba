"""The exchange behind the topics of RabbitMQ's JMS client."""

from __future__ import annotations

import pytest

from hareline.broker.exchanges.jms_topic import CONDITION_ARGUMENT, JmsTopicExchange
from hareline.errors import PreconditionFailed
from hareline.wire.table import SignedInt, Table

from .subjects import PLAIN, Place, calls_made_by, matched, message

BOOLEAN = "{'ident',<<\"boolVal\">>}."
LARGE = "{'>',{'ident',<<\"size\">>},10}"
SMALL = "{'<=',{'ident',<<\"size\">>},10}"


def condition(text: str, **others: object) -> dict[str, object]:
    return {CONDITION_ARGUMENT: text, "rjms_version": "3.7.0", **others}


@pytest.mark.row("M17")
def test_a_message_goes_where_its_headers_meet_the_condition() -> None:
    exchange = JmsTopicExchange("x")
    exchange.bind(Place("large"), "T", condition(LARGE))
    exchange.bind(Place("small"), "T", condition(SMALL))
    exchange.bind(Place("flagged"), "T", condition(BOOLEAN))
    both = message(headers=Table(size=SignedInt(11), boolVal=True))
    assert matched(exchange, "T", both) == ["flagged", "large"]
    assert matched(exchange, "T", message(headers=Table(size=5.5, boolVal=False))) == ["small"]
    assert matched(exchange, "T", message(headers=Table(size="large"))) == ["large"]
    assert matched(exchange, "T", PLAIN) == []


@pytest.mark.row("M17")
def test_neither_routing_key_nor_properties_matter() -> None:
    exchange = JmsTopicExchange("x")
    exchange.bind(Place("q"), "T", condition("{'not_null',{'ident',<<\"JMSPriority\">>}}"))
    assert matched(exchange, "T", message(priority=4, headers=Table(other=1))) == []
    assert matched(exchange, "other", message(headers=Table(JMSPriority=SignedInt(4)))) == ["q"]


def test_every_message_is_looked_at_once_for_all_of_its_keys() -> None:
    exchange = JmsTopicExchange("x")
    assert not exchange.is_static
    assert not exchange.matches_every_key


def test_destinations_of_one_condition_are_found_together_and_leave_one_by_one() -> None:
    exchange = JmsTopicExchange("x")
    places = [Place(name) for name in "abc"]
    for place in places:
        exchange.bind(place, "T", condition("true"))
    assert matched(exchange, "", PLAIN) == ["a", "b", "c"]
    exchange.unbind(places[1], "T", condition("true"))
    assert matched(exchange, "", PLAIN) == ["a", "c"]
    exchange.unbind(places[0], "T", condition("true"))
    exchange.unbind(places[2], "T", condition("true"))
    assert matched(exchange, "", PLAIN) == []


@pytest.mark.row("M17")
def test_a_destination_has_one_condition_for_each_key_the_last_one() -> None:
    exchange = JmsTopicExchange("x")
    place = Place("q")
    exchange.bind(place, "T", condition("true"))
    exchange.bind(place, "T", condition("false"))
    assert matched(exchange, "T", PLAIN) == []
    exchange.bind(place, "other", condition("true"))
    assert matched(exchange, "T", PLAIN) == ["q"]
    exchange.unbind(place, "other", condition("true"))
    assert matched(exchange, "T", PLAIN) == []


def test_the_condition_before_counts_again_when_the_last_one_goes() -> None:
    exchange = JmsTopicExchange("x")
    # differs: jms-older-binding
    place = Place("q")
    for version, text in enumerate(("true", "false", "true")):
        exchange.bind(place, "T", condition(text, rjms_version=str(version)))
    exchange.unbind(place, "T", condition("true", rjms_version="0"))
    assert matched(exchange, "T", PLAIN) == ["q"]
    exchange.unbind(place, "T", condition("true", rjms_version="2"))
    assert matched(exchange, "T", PLAIN) == []
    exchange.bind(place, "T", condition("true", rjms_version="0"))
    assert matched(exchange, "T", PLAIN) == ["q"]
    exchange.unbind(place, "T", condition("false", rjms_version="1"))
    assert matched(exchange, "T", PLAIN) == ["q"]
    exchange.unbind(place, "T", condition("true", rjms_version="0"))
    assert matched(exchange, "T", PLAIN) == []


def test_the_same_condition_with_other_arguments_is_one_binding_more() -> None:
    exchange = JmsTopicExchange("x")
    place = Place("q")
    exchange.bind(place, "T", condition("true", a=1))
    exchange.bind(place, "T", condition("true", a=2))
    exchange.unbind(place, "T", condition("true", a=2))
    assert list(exchange.match("T", PLAIN)) == [place]
    exchange.unbind(place, "T", condition("true", a=1))
    assert list(exchange.match("T", PLAIN)) == []


def test_nothing_is_left_of_bindings_that_are_gone() -> None:
    exchange = JmsTopicExchange("x")
    bindings = [
        (place, key, condition(text))
        for place in (Place("a"), Place("b"))
        for key in ("T", "U")
        for text in ("true", "false", BOOLEAN)
    ]
    for place, key, arguments in bindings:
        exchange.bind(place, key, arguments)
    for place, key, arguments in bindings:
        exchange.unbind(place, key, arguments)
    assert exchange._conditions == {}
    assert exchange._places == {}


@pytest.mark.row("M17")
@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ({}, "expected a string, not void"),
        ({"rjms_version": "1"}, "expected a string, not void"),
        ({CONDITION_ARGUMENT: 5}, "expected a string, not long"),
        ({CONDITION_ARGUMENT: True}, "expected a string, not bool"),
        ({CONDITION_ARGUMENT: ""}, "invalid selector: expected a term, at the end"),
        (
            {CONDITION_ARGUMENT: "{'and',fun,true}"},
            "invalid selector: an unknown atom `fun`, at character 8, near `fun,true}`",
        ),
        (
            {CONDITION_ARGUMENT: '{\'like\',{\'ident\',<<"a">>},<<"%">>,<<"ab">>}'},
            'invalid selector: like ends with no_escape or one character in <<"...">>, '
            'at character 35, near `<<"ab">>}`',
        ),
    ],
)
def test_a_binding_that_has_no_condition_is_refused(
    arguments: dict[str, object], problem: str
) -> None:
    exchange = JmsTopicExchange("x")
    place = Place("q")
    exchange.bind(place, "T", condition("true"))
    with pytest.raises(PreconditionFailed) as refusal:
        exchange.bind(place, "T", arguments)
    assert refusal.value.explanation == f"invalid arg 'rjms_erlang_selector': {problem}"
    assert matched(exchange, "T", PLAIN) == ["q"]  # the condition before is still in force


def test_headers_are_decoded_once_for_a_hundred_conditions() -> None:
    exchange = JmsTopicExchange("x")
    for number in range(100):
        exchange.bind(
            Place(f"q{number}"), "T", condition(f"{{'=',{{'ident',<<\"n\">>}},{number}}}")
        )
    headers = Table({f"header{number}": number for number in range(50)})
    headers["n"] = 7
    fresh, decoded = message(headers=headers), message(headers=headers)
    assert decoded.headers["n"] == 7
    decoding = calls_made_by(lambda: message(headers=headers).headers)
    matching = calls_made_by(lambda: list(exchange.match("T", decoded)))
    both = calls_made_by(lambda: list(exchange.match("T", fresh)))
    assert both - matching < 2 * decoding
    assert matched(exchange, "T", fresh) == ["q7"]


def test_bindings_of_the_same_condition_cost_one_look() -> None:
    def work(texts: list[str]) -> int:
        exchange = JmsTopicExchange("x")
        for number, text in enumerate(texts):
            exchange.bind(Place(f"q{number}"), "T", condition(text))
        return calls_made_by(lambda: exchange.match("T", PLAIN))

    assert work([LARGE] * 100) == work([LARGE])
    assert work([f"{{'>',{{'ident',<<\"size\">>}},{n}}}" for n in range(100)]) > 100
