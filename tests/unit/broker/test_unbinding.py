"""Bindings of what is gone leave their exchanges in shares, and lead nowhere meanwhile."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from hareline.broker.exchange_types import create_exchange
from hareline.broker.exchanges.bindings import Binding
from hareline.broker.exchanges.exchange import Destination, Exchange
from hareline.broker.unbinding import AT_ONCE, PER_ITEM, Leaving, Unbinding
from hareline.broker.vhost import VirtualHost
from hareline.later import SHARE_S
from hareline.queues.orders.fifo import FifoOrder
from hareline.queues.queue import Queue
from tests.support.messages import make_message
from tests.support.turns import ManualTurn
from tests.support.vhosts import ME, declare

MANY = AT_ONCE + 300 * PER_ITEM


class SlowTurn(ManualTurn):
    """Each look at the clock takes a quarter of a share."""

    def __init__(self) -> None:
        super().__init__()
        self.looks = 0
        self.now = self._look

    def _look(self) -> float:
        self.looks += 1
        return self.looks * SHARE_S / 4


def leaving(source: Exchange, bound: Destination, count: int) -> list[Leaving]:
    bindings = {}
    for number in range(count):
        binding = Binding.of(source.name, "queue", bound.name, f"a.{number}.*", {})
        source.bind(bound, binding.routing_key, {})
        bindings[binding] = binding
    return [Leaving(source, bound, bindings, {})]


def matched(exchange: Exchange, count: int) -> int:
    return sum(bool(list(exchange.match(f"a.{n}.b", make_message()))) for n in range(count))


def test_the_first_are_taken_out_at_once_and_the_rest_in_shares() -> None:
    turn = SlowTurn()
    unbinding = Unbinding(turn)
    exchange = create_exchange("topic", "e")
    queue = Queue("q", FifoOrder(), ManualTurn())
    unbinding.release(leaving(exchange, queue, MANY))
    left = [len(unbinding)]
    assert left == [MANY - AT_ONCE]
    while len(unbinding):
        turn.step()
        assert not turn.is_behind, "publishers are made to pause"
        left.append(len(unbinding))
        assert 0 < left[-2] - left[-1] <= 5 * PER_ITEM, "a share"
    assert matched(exchange, MANY) == 0
    assert not turn.is_armed


def test_what_comes_meanwhile_waits_for_its_turn() -> None:
    turn = SlowTurn()
    unbinding = Unbinding(turn)
    exchange = create_exchange("topic", "e")
    for name in ("q", "r"):
        queue = Queue(name, FifoOrder(), ManualTurn())
        unbinding.release(leaving(exchange, queue, MANY))
    while len(unbinding):
        turn.step()
    assert matched(exchange, MANY) == 0


def test_where_bindings_are_not_matched_one_by_one_all_of_them_go_at_once() -> None:
    unbinding = Unbinding(ManualTurn())
    exchange = create_exchange("x-random", "h")
    queue = Queue("q", FifoOrder(), ManualTurn())
    bindings = {}
    for number in range(AT_ONCE + 1):
        binding = Binding.of("h", "queue", "q", str(number), {})
        exchange.bind(queue, binding.routing_key, {})
        bindings[binding] = binding
    unbinding.release([Leaving(exchange, queue, bindings, {})])
    assert len(unbinding) == 0
    assert not list(exchange.match("", make_message()))


def bind_many(vhost: VirtualHost, queue: Queue, arguments: Mapping[str, object]) -> None:
    for number in range(MANY):
        vhost.bind("amq.topic", "queue", queue, f"a.{number}.*", arguments)


@pytest.mark.parametrize("arguments", [{}, {"x-filter-jms-selector": "TRUE"}])
def test_a_deleted_queue_gets_nothing_and_a_new_one_of_its_name_does(
    vhost: VirtualHost, turn: ManualTurn, arguments: Mapping[str, object]
) -> None:
    queue = declare(vhost, "q")
    bind_many(vhost, queue, arguments)
    vhost.delete_queue("q", ME)
    assert len(vhost.bindings) == 0
    exchange = vhost.exchange("amq.topic")
    key = "a.0.b"
    assert list(exchange.match(key, make_message())), "it is still to be unbound"
    assert vhost.routing.route(exchange, [key], make_message())[0] == ()
    again = declare(vhost, "q")
    vhost.bind("amq.topic", "queue", again, "a.0.*", arguments)
    assert vhost.routing.route(exchange, [key], make_message())[0] == (again,)
    turn.run()
    assert vhost.routing.route(exchange, [key], make_message())[0] == (again,)
    assert len(list(exchange.match(key, make_message()))) == 1
    vhost.delete_queue("q", ME)
    assert not list(exchange.match(key, make_message()))


def test_a_message_that_finds_nothing_but_a_deleted_exchange_takes_the_alternate(
    vhost: VirtualHost,
) -> None:
    queue = declare(vhost, "q")
    for name, alternate in (("rest", None), ("e", "rest")):
        arguments: dict[str, object] = (
            {} if alternate is None else {"alternate-exchange": alternate}
        )
        vhost.declare_exchange(
            name,
            "topic" if alternate else "fanout",
            is_durable=False,
            is_auto_delete=False,
            is_internal=False,
            arguments=arguments,
        )
    vhost.bind("rest", "queue", queue, "", {})
    target = vhost.declare_exchange(
        "x", "fanout", is_durable=False, is_auto_delete=False, is_internal=False, arguments={}
    )
    for number in range(MANY):
        vhost.bind("e", "exchange", target, f"a.{number}.*", {})
    vhost.delete_exchange("x", if_unused=False)
    source, key = vhost.exchange("e"), "a.0.b"
    assert list(source.match(key, make_message())) == [target]
    assert vhost.routing.route(source, [key], make_message())[0] == (queue,)


def test_a_deleted_exchange_lets_go_of_its_bindings_in_shares(
    vhost: VirtualHost, turn: ManualTurn
) -> None:
    def declare_exchange(name: str) -> Exchange:
        return vhost.declare_exchange(
            name, "topic", is_durable=False, is_auto_delete=False, is_internal=False, arguments={}
        )

    queue, source = declare(vhost, "q"), declare_exchange("e")
    for number in range(MANY):
        vhost.bind("e", "queue", queue, f"a.{number}.*", {})
    vhost.bind("e", "exchange", source, "itself", {})
    vhost.delete_exchange("e", if_unused=False)
    assert len(vhost.bindings) == 0
    assert matched(source, MANY) == MANY - AT_ONCE
    again = declare_exchange("e")
    vhost.bind("e", "queue", queue, "a.0.*", {})
    turn.run()
    assert matched(source, MANY) == 0
    assert vhost.routing.route(again, ["a.0.b"], make_message())[0] == (queue,)
    assert vhost.bindings.from_source("e") == vhost.bindings.to_destination("queue", "q")
