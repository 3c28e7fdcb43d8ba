"""Exchanges that choose one of their queues by chance."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from hareline.broker.exchanges.random_choice import RandomExchange
from hareline.wire.methods import Frame, commands
from tests.unit.amqp.peer import Peer, SteppedBroker

from .subjects import PLAIN, Place, matched

# ----------------------------------------------------------------------------------- random choice


def test_message_goes_nowhere_without_bindings() -> None:
    assert matched(RandomExchange("x"), "k") == []


def test_message_goes_to_one_destination_only() -> None:
    exchange = RandomExchange("x")
    for name in "abc":
        exchange.bind(Place(name), "", {})
    for _ in range(50):
        assert len(list(exchange.match("k", PLAIN))) == 1


def test_draw_decides_and_both_its_ends_are_destinations() -> None:
    draws = [0.0, 0.2499, 0.25, 0.5, 0.9999999999999999]
    exchange = RandomExchange("x")
    exchange.draw = iter(draws).__next__
    for name in "abcd":
        exchange.bind(Place(name), "", {})
    assert [matched(exchange, "k") for _ in draws] == [["a"], ["a"], ["b"], ["c"], ["d"]]


def test_destinations_are_chosen_equally_often() -> None:
    exchange = RandomExchange("x")
    for name in "abcd":
        exchange.bind(Place(name), "", {})
    counts = Counter(matched(exchange, "k")[0] for _ in range(8_000))
    # 2,000 each, standard deviation 39; outside of 10 of them once in 10**22 runs
    assert all(1_610 < counts[name] < 2_390 for name in "abcd")


def test_destination_bound_twice_has_two_chances_and_one_when_a_binding_goes() -> None:
    exchange = RandomExchange("x")
    exchange.draw = iter([0.1, 0.5, 0.9, 0.25, 0.75]).__next__
    twice, once = Place("twice"), Place("once")
    exchange.bind(twice, "1", {})
    exchange.bind(once, "1", {})
    exchange.bind(twice, "2", {})
    assert Counter(matched(exchange, "k")[0] for _ in range(3)) == {"twice": 2, "once": 1}
    exchange.unbind(twice, "2", {})
    assert Counter(matched(exchange, "k")[0] for _ in range(2)) == {"twice": 1, "once": 1}


def test_unbound_destination_is_never_chosen() -> None:
    exchange = RandomExchange("x")
    gone = Place("gone")
    exchange.bind(gone, "", {})
    exchange.bind(Place("here"), "", {})
    exchange.unbind(gone, "", {})
    assert {matched(exchange, "k")[0] for _ in range(50)} == {"here"}


def test_result_must_not_be_cached_and_a_message_gets_one_choice() -> None:
    exchange = RandomExchange("x")
    assert not exchange.is_static
    assert not exchange.matches_every_key


# ------------------------------------------------------------------------------------ local random


@pytest.fixture
def peer() -> Peer:
    peer = SteppedBroker().connect()
    peer.declare_exchange("dice", "x-local-random")
    return peer


def test_each_message_goes_to_one_of_the_queues(peer: Peer) -> None:
    for name in "abc":
        peer.declare(name, exclusive=True)
        peer.bind(name, "dice")
    for number in range(60):
        peer.publish(1, "any", b"%d" % number, exchange="dice")
    shares = [peer.drain(name) for name in "abc"]
    assert sorted(int(body) for share in shares for body in share) == list(range(60))
    assert all(shares)  # one of them empty: once in 10**10 runs


@pytest.mark.parametrize(
    ("method_class", "fields", "text"),
    [
        (commands.Queue.Bind, {"queue": "c"}, "Non empty binding 'k' key not permitted"),
        (
            commands.Queue.Bind,
            {"queue": "q", "routing_key": ""},
            "Queue type rabbit_quorum_queue not valid for this exchange type",
        ),
        (
            commands.Queue.Bind,
            {"queue": "s", "routing_key": "", "arguments": {"x-filter-jms-selector": "a = 1"}},
            "Queue type rabbit_stream_queue not valid for this exchange type",
        ),
        (
            commands.Exchange.Bind,
            {"destination": "amq.direct", "routing_key": ""},
            "Destination not found",
        ),
    ],
)
def test_it_binds_classic_queues_without_a_key_only(
    peer: Peer, method_class: type[Frame], fields: dict[str, Any], text: str
) -> None:
    peer.declare("c")
    for name, queue_type in (("q", "quorum"), ("s", "stream")):
        peer.declare(name, durable=True, arguments={"x-queue-type": queue_type})
    end = "exchange" if method_class is commands.Queue.Bind else "source"
    refusal = peer.refused(1, method_class, **{"routing_key": "k", end: "dice", **fields})
    assert refusal == (406, f"PRECONDITION_FAILED - {text}")
