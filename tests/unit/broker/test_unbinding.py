"""Bindings of what is gone leave their exchanges in shares, and lead nowhere meanwhile."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from hareline.broker.exchange_types import create_exchange
from hareline.broker.exchanges.bindings import Binding
from hareline.broker.exchanges.exchange import Destination, Exchange
from hareline.broker.unbinding import AT_ONCE, PER_LOOK, SHARE_S, Leaving, Unbinding
from hareline.broker.vhost import VirtualHost
from hareline.clock import ManualClock
from hareline.queues.orders.fifo import FifoOrder
from hareline.queues.queue import Queue
from tests.support.messages import make_message
from tests.support.timers import ManualTimers
from tests.support.turns import ManualTurn
from tests.support.vhosts import ME, declare, make_vhost

MANY = AT_ONCE + 20 * PER_LOOK


class Calls(ManualTimers):
    """Calls that a test makes one by one."""

    def step(self) -> None:
        timer = self.pending[0]
        timer.is_pending = False
        timer.callback()


class SlowClock(ManualClock):
    """Each look takes a quarter of a share."""

    def running_s(self) -> float:
        self.monotonic_s += SHARE_S / 4
        return self.monotonic_s


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
    clock = SlowClock()
    timers = Calls(clock)
    unbinding = Unbinding(clock, timers)
    exchange = create_exchange("topic", "e")
    queue = Queue("q", FifoOrder(), ManualTurn())
    unbinding.release(leaving(exchange, queue, MANY))
    left = [len(unbinding)]
    assert left == [MANY - AT_ONCE]
    while len(unbinding):
        assert len(timers.pending) == 1
        timers.step()
        left.append(len(unbinding))
        assert 0 < left[-2] - left[-1] <= 4 * PER_LOOK, "a share"
    assert matched(exchange, MANY) == 0
    assert not timers.pending


def test_what_comes_meanwhile_waits_for_its_turn() -> None:
    clock = SlowClock()
    timers = Calls(clock)
    unbinding = Unbinding(clock, timers)
    exchange = create_exchange("topic", "e")
    for name in ("q", "r"):
        queue = Queue(name, FifoOrder(), ManualTurn())
        unbinding.release(leaving(exchange, queue, MANY))
    assert len(timers.pending) == 1
    while len(unbinding):
        timers.step()
    assert matched(exchange, MANY) == 0


def test_where_bindings_are_not_matched_one_by_one_all_of_them_go_at_once() -> None:
    clock = SlowClock()
    unbinding = Unbinding(clock, ManualTimers(clock))
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


@pytest.fixture
def timers() -> ManualTimers:
    return ManualTimers(ManualClock())


@pytest.fixture
def vhost(timers: ManualTimers) -> VirtualHost:
    return make_vhost(ManualTurn(), timers=timers)


def bind_many(vhost: VirtualHost, queue: Queue, arguments: Mapping[str, object]) -> None:
    for number in range(MANY):
        vhost.bind("amq.topic", "queue", queue, f"a.{number}.*", arguments)


@pytest.mark.parametrize("arguments", [{}, {"x-filter-jms-selector": "TRUE"}])
def test_a_deleted_queue_gets_nothing_and_a_new_one_of_its_name_does(
    vhost: VirtualHost, timers: ManualTimers, arguments: Mapping[str, object]
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
    timers.advance(0)
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
    vhost: VirtualHost, timers: ManualTimers
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
    timers.advance(0)
    assert matched(source, MANY) == 0
    assert vhost.routing.route(again, ["a.0.b"], make_message())[0] == (queue,)
    assert vhost.bindings.from_source("e") == vhost.bindings.to_destination("queue", "q")
