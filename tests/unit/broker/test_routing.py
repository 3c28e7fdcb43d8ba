"""The walk from an exchange to its queues, when a route changes, and interned addresses."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hareline.broker import routing as routing_module
from hareline.broker.vhost import VirtualHost
from tests.support.turns import ManualTurn
from tests.support.vhosts import (
    ME,
    MESSAGE,
    bind,
    declare,
    declare_exchange,
    make_vhost,
    routed,
    unbind,
)


def test_the_default_exchange_routes_by_queue_name(vhost: VirtualHost) -> None:
    declare(vhost, "a")
    assert routed(vhost, "", "a") == ["a"]
    assert routed(vhost, "", "b") == []


def test_a_queue_reached_in_many_ways_gets_one_copy(vhost: VirtualHost) -> None:
    queue = declare(vhost)
    inner = declare_exchange(vhost, "inner", "fanout")
    bind(vhost, "inner", queue)
    bind(vhost, "amq.topic", queue, "#")
    bind(vhost, "amq.topic", queue, "k")
    bind(vhost, "amq.topic", inner, "k")
    assert routed(vhost, "amq.topic", "k", "k", "other") == ["q"]


def test_every_routing_key_of_a_message_counts(vhost: VirtualHost) -> None:
    for name in ("a", "b", "c"):
        declare(vhost, name)
    assert routed(vhost, "", "c", "a", "c") == ["c", "a"]


def test_a_random_exchange_chooses_once_for_a_message_with_many_keys(vhost: VirtualHost) -> None:
    declare_exchange(vhost, "dice", "x-random")
    for number in range(20):
        bind(vhost, "dice", declare(vhost, f"q{number}"))
    assert len(routed(vhost, "dice", *[f"k{number}" for number in range(20)])) == 1


def test_exchange_bindings_are_followed(vhost: VirtualHost) -> None:
    bind(vhost, "amq.direct", declare_exchange(vhost, "x", "topic"), "a.b")
    bind(vhost, "x", declare(vhost), "*.b")
    assert routed(vhost, "amq.direct", "a.b") == ["q"]
    assert routed(vhost, "amq.direct", "b.b") == []


def test_an_internal_exchange_is_reached_by_bindings(vhost: VirtualHost) -> None:
    bind(vhost, "amq.fanout", declare_exchange(vhost, "x", "fanout", is_internal=True))
    bind(vhost, "x", declare(vhost))
    assert routed(vhost, "amq.fanout") == ["q"]


def test_a_cycle_of_exchanges_ends(vhost: VirtualHost) -> None:
    exchanges = [declare_exchange(vhost, name, "fanout") for name in ("a", "b", "c")]
    for index, exchange in enumerate(exchanges):
        bind(vhost, exchange.name, exchanges[(index + 1) % 3])
        bind(vhost, exchange.name, exchange)
        bind(vhost, exchange.name, declare(vhost, f"q{index}"))
    assert sorted(routed(vhost, "b")) == ["q0", "q1", "q2"]


def test_an_alternate_exchange_takes_what_was_matched_by_nothing(vhost: VirtualHost) -> None:
    declare_exchange(vhost, "x", arguments={"alternate-exchange": "amq.fanout"})
    bind(vhost, "x", declare(vhost, "matched"), "known")
    bind(vhost, "amq.fanout", declare(vhost, "rest"))
    assert routed(vhost, "x", "known") == ["matched"]
    assert routed(vhost, "x", "unknown") == ["rest"]
    assert routed(vhost, "x", "unknown", "known") == ["matched"]


def test_alternate_exchanges_are_followed_one_after_the_other(vhost: VirtualHost) -> None:
    declare_exchange(vhost, "a", arguments={"alternate-exchange": "b"})
    declare_exchange(vhost, "b", arguments={"alternate-exchange": "c"})
    declare_exchange(vhost, "c", "fanout")
    bind(vhost, "c", declare(vhost))
    assert routed(vhost, "a") == ["q"]


def test_alternate_exchanges_in_a_circle_end(vhost: VirtualHost) -> None:
    declare_exchange(vhost, "a", arguments={"alternate-exchange": "b"})
    declare_exchange(vhost, "b", arguments={"alternate-exchange": "a"})
    assert routed(vhost, "a") == []


def test_an_alternate_binding_may_lead_to_a_queue_and_to_an_exchange_of_that_name_first(
    vhost: VirtualHost,
) -> None:
    declare_exchange(vhost, "x", arguments={"alternateBinding": {"destination": "rest"}})
    declare_exchange(vhost, "y", arguments={"alternateExchange": "rest"})
    assert routed(vhost, "x") == []
    declare(vhost, "rest")
    assert routed(vhost, "x") == ["rest"]
    assert routed(vhost, "y") == []
    declare_exchange(vhost, "rest", "fanout")
    assert routed(vhost, "x") == []


def test_an_alternate_exchange_that_does_not_exist_drops(vhost: VirtualHost) -> None:
    declare_exchange(vhost, "a", arguments={"alternate-exchange": "nix"})
    assert routed(vhost, "a") == []


def test_an_alternate_exchange_of_an_inner_exchange_counts(vhost: VirtualHost) -> None:
    inner = declare_exchange(vhost, "inner", arguments={"alternate-exchange": "amq.fanout"})
    bind(vhost, "amq.topic", inner, "#")
    bind(vhost, "amq.fanout", declare(vhost))
    assert routed(vhost, "amq.topic", "whatever") == ["q"]


@pytest.mark.parametrize(
    ("type_name", "arguments", "is_static"),
    [
        ("direct", {}, True),
        ("topic", {}, True),
        ("headers", {}, False),
        ("x-random", {}, False),
        ("x-consistent-hash", {}, True),
        ("x-consistent-hash", {"hash-header": "h"}, False),
    ],
)
def test_a_route_may_be_cached_if_no_exchange_on_it_looks_at_the_message(
    vhost: VirtualHost, type_name: str, arguments: dict[str, object], is_static: bool
) -> None:
    inner = declare_exchange(vhost, "inner", type_name, arguments=arguments)
    bind(vhost, "amq.fanout", inner)
    assert vhost.routing.route(vhost.exchange("amq.fanout"), ["k"], MESSAGE)[1] == is_static


def test_whatever_changes_a_route_changes_the_routing_version(vhost: VirtualHost) -> None:
    queue = declare(vhost)
    seen = {vhost.routing.version}

    def changed() -> bool:
        is_new = vhost.routing.version not in seen
        seen.add(vhost.routing.version)
        return is_new

    exchange = declare_exchange(vhost)
    assert changed()
    bind(vhost, "x", queue)
    assert changed()
    unbind(vhost, "x", queue)
    assert changed()
    bind(vhost, "amq.fanout", exchange)
    assert changed()
    vhost.delete_exchange("x", if_unused=False)
    assert changed()
    declare(vhost, "another")
    assert changed()
    vhost.delete_queue("q", ME)
    assert changed()
    declare(vhost, "exclusive", is_exclusive=True)
    assert changed()
    vhost.delete_queues_of(ME)
    assert changed()


def test_what_changes_no_route_keeps_the_routing_version(vhost: VirtualHost) -> None:
    queue = declare(vhost)
    declare_exchange(vhost)
    bind(vhost, "x", queue)
    version = vhost.routing.version
    declare(vhost)
    declare_exchange(vhost)
    bind(vhost, "x", queue)
    unbind(vhost, "x", queue, "other key")
    vhost.delete_queue("nix", ME)
    vhost.delete_exchange("nix", if_unused=False)
    assert vhost.routing.version == version


exchange_numbers = st.integers(0, 7)


@given(
    edges=st.sets(st.tuples(exchange_numbers, exchange_numbers), max_size=30),
    queues=st.dictionaries(st.integers(0, 9), exchange_numbers, max_size=10),
    alternates=st.dictionaries(exchange_numbers, exchange_numbers, max_size=4),
    start=exchange_numbers,
)
def test_a_route_leads_to_what_can_be_reached_and_nothing_else(
    edges: set[tuple[int, int]],
    queues: dict[int, int],
    alternates: dict[int, int],
    start: int,
) -> None:
    vhost = make_vhost(ManualTurn())
    for number in range(8):
        arguments = {"alternate-exchange": f"x{alternates[number]}"} if number in alternates else {}
        declare_exchange(vhost, f"x{number}", "fanout", arguments=arguments)
    for source, target in edges:
        bind(vhost, f"x{source}", vhost.exchange(f"x{target}"))
    for number, source in queues.items():
        bind(vhost, f"x{source}", declare(vhost, f"q{number}"))

    reached, ahead = set[int](), [start]
    while ahead:
        current = ahead.pop()
        if current in reached:
            continue
        reached.add(current)
        following = [target for source, target in edges if source == current]
        ahead += following
        if not following and current not in queues.values() and current in alternates:
            ahead.append(alternates[current])

    expected = sorted(f"q{number}" for number, source in queues.items() if source in reached)
    assert sorted(routed(vhost, f"x{start}")) == expected


def test_equal_addresses_are_one_object(vhost: VirtualHost) -> None:
    octets = b"\x01x\x01k"
    address = vhost.routing.address("x", "k", octets)
    assert vhost.routing.address("x", "k", octets) is address
    assert (address.exchange, address.routing_key, address.octets) == ("x", "k", octets)


@pytest.mark.pure("replaces a constant, which is compiled in")
def test_addresses_are_kept_up_to_a_limit(
    vhost: VirtualHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(routing_module, "ADDRESSES_MAX", 10)
    for number in range(100):
        vhost.routing.address("x", str(number), b"\x01x" + str(number).encode())
        assert vhost.routing.address_count <= 10
