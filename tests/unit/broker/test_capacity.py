"""How many queues, exchanges and bindings there may be, and how large arguments: at the edge."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from hareline.broker.capacity import LOW_ON_MEMORY, BrokerCapacity, is_within
from hareline.broker.vhost import VirtualHost
from hareline.errors import AmqpError, MemoryShort, PreconditionFailed
from hareline.wire.table import Table, encode_table
from tests.support.turns import ManualTurn
from tests.support.vhosts import ME, bind, declare, declare_exchange, make_vhost, unbind

PREDECLARED = 7  # of each virtual host: RabbitMQ counts them too


@pytest.fixture
def whole() -> BrokerCapacity:
    return BrokerCapacity()


@pytest.fixture
def vhost(whole: BrokerCapacity) -> VirtualHost:
    return make_vhost(ManualTurn(), whole=whole)


def refusal(call: Callable[[], object], kind: type[AmqpError] = PreconditionFailed) -> str:
    with pytest.raises(kind) as caught:
        call()
    return caught.value.explanation


def test_queues_of_the_broker_are_those_of_all_virtual_hosts(
    whole: BrokerCapacity, vhost: VirtualHost
) -> None:
    whole.max_queues = 3
    other = make_vhost(ManualTurn(), "other", whole=whole)
    declare(vhost, "a")
    declare(other, "b")
    declare(other, "c")
    text = "cannot declare queue 'd': queue limit in cluster (3) is reached"
    assert refusal(lambda: declare(vhost, "d")) == text
    assert refusal(lambda: declare(other, "d")) == text
    declare(other, "c")  # it is there
    other.delete_queue("b", ME)
    declare(vhost, "d")
    assert whole.queue_count == 3
    assert whole.reached.by_limit == {"max_queues": 2}


def test_the_queues_of_a_deleted_virtual_host_count_no_more(
    whole: BrokerCapacity, vhost: VirtualHost
) -> None:
    whole.max_queues = 1
    other = make_vhost(ManualTurn(), "other", whole=whole)
    declare_exchange(other, "x")
    bind(other, "x", declare(other, "a"))
    counts = (whole.queue_count, whole.exchange_count, whole.binding_count)
    assert counts == (1, 2 * PREDECLARED + 1, 1)
    other.begin_removal()
    assert (whole.queue_count, whole.exchange_count, whole.binding_count) == (0, PREDECLARED, 0)
    while other.forget_a_queue():
        pass
    declare(vhost, "b")
    assert whole.queue_count == 1


def test_exchanges_of_the_broker_with_those_that_are_predeclared(
    whole: BrokerCapacity, vhost: VirtualHost
) -> None:
    whole.max_exchanges = PREDECLARED + 1
    declare_exchange(vhost, "x")
    assert refusal(lambda: declare_exchange(vhost, "y")) == (
        f"cannot declare exchange 'y' in vhost '/': exchange limit of {PREDECLARED + 1} is reached"
    )
    declare_exchange(vhost, "x")
    vhost.delete_exchange("x", if_unused=False)
    declare_exchange(vhost, "y")
    assert whole.reached.by_limit == {"max_exchanges": 1}


def test_exchanges_of_a_virtual_host(whole: BrokerCapacity, vhost: VirtualHost) -> None:
    vhost.capacity.max_exchanges = PREDECLARED + 1
    declare_exchange(make_vhost(ManualTurn(), "other", whole=whole), "elsewhere")
    declare_exchange(vhost, "x")
    assert refusal(lambda: declare_exchange(vhost, "y")) == (
        f"cannot declare exchange 'y': exchange limit in vhost '/' ({PREDECLARED + 1}) is reached"
    )
    declare_exchange(vhost, "amq.topic", "topic", is_durable=True)
    assert whole.reached.by_limit == {"vhost.max-exchanges": 1}


@pytest.mark.parametrize("is_broker_wide", [True, False])
def test_bindings(whole: BrokerCapacity, vhost: VirtualHost, is_broker_wide: bool) -> None:
    if is_broker_wide:
        whole.max_bindings = 2
    else:
        vhost.capacity.max_bindings = 2
    queue, exchange = declare(vhost, "q"), declare_exchange(vhost, "x")
    bind(vhost, "x", queue, "a")
    bind(vhost, "amq.fanout", exchange, "b")
    text = "cannot bind queue 'q' to exchange 'x'"
    limit = "limit of 2 is reached" if is_broker_wide else "limit in vhost '/' (2) is reached"
    for _ in range(2):
        message = refusal(lambda: bind(vhost, "x", queue, "c"))
        assert message.startswith(text)
        assert message.endswith(limit)
    assert refusal(lambda: bind(vhost, "amq.direct", exchange)).startswith(
        "cannot bind exchange 'x' to exchange 'amq.direct'"
    )
    bind(vhost, "x", queue, "a")  # it is there
    unbind(vhost, "x", queue, "a")
    bind(vhost, "x", queue, "c")
    name = "max_bindings" if is_broker_wide else "vhost.max-bindings"
    assert whole.reached.by_limit == {name: 3}
    assert len(vhost.bindings) == 2


def test_a_binding_that_takes_the_place_of_another_is_none_more(
    whole: BrokerCapacity, vhost: VirtualHost
) -> None:
    whole.max_bindings = 1
    queue = declare(vhost, "q")
    for number in range(3):
        arguments = {"x-filter-jms-selector": f"n = {number}"}
        vhost.bind("amq.topic", "queue", queue, "k", arguments, is_by_key=True)
    assert whole.binding_count == 1


def test_a_refused_binding_is_not_counted(whole: BrokerCapacity, vhost: VirtualHost) -> None:
    queue = declare(vhost, "q")
    refusal(lambda: bind(vhost, "amq.topic", queue, "k", {"x-filter-jms-selector": "("}))
    assert whole.binding_count == 0


@pytest.mark.parametrize("what", ["queue", "exchange", "binding"])
def test_octets_of_arguments(whole: BrokerCapacity, vhost: VirtualHost, what: str) -> None:
    """A text of n octets under a name of one has n + 7 in a table."""
    whole.max_arguments_bytes = 107

    def make(name: str, length: int) -> None:
        arguments = {"a": "x" * length}
        if what == "queue":
            declare(vhost, name, arguments=arguments)
        elif what == "exchange":
            declare_exchange(vhost, name, arguments=arguments)
        else:
            bind(vhost, "amq.direct", declare(vhost, name), "k", arguments)

    make("fits", 100)
    named = f"{what} 'big'"
    if what == "binding":
        named = "a binding of queue 'big' to exchange 'amq.direct'"
    assert refusal(lambda: make("big", 101)) == (
        f"the arguments of {named} in vhost '/' have more than 107 octets (max_arguments_bytes)"
    )
    assert whole.reached.by_limit == {"max_arguments_bytes": 1}
    make("fits", 100)


TABLES: list[dict[str, object]] = [
    {},
    {"a": "x"},
    {"ä": "ö" * 9, "b": b"\xff" * 9},
    {"n": 1, "m": 1.5},
    {"deep": {"deeper": {"list": ["a", ["b", {"c": "d"}]]}}},
    {"surrogate": "\udcff" * 3},
]


@pytest.mark.parametrize("table", TABLES)
def test_octets_are_counted_as_in_a_frame(table: dict[str, object]) -> None:
    octets = len(encode_table(Table(table))) - 4
    assert is_within(table, octets)
    assert not table or not is_within(table, octets - 1)


def test_a_table_of_any_depth_and_width_is_measured_no_further_than_the_limit() -> None:
    deep: dict[str, object] = {}
    for _ in range(5000):
        deep = {"d": deep}
    assert not is_within(deep, 1000)
    assert not is_within({"wide": [None] * 1_000_000}, 1000)


def test_nothing_new_is_declared_while_memory_is_far_above_the_watermark(
    whole: BrokerCapacity, vhost: VirtualHost
) -> None:
    queue, _ = declare(vhost, "q"), declare_exchange(vhost, "x")
    bind(vhost, "x", queue, "k")
    whole.on_critical(True)
    low = f"in vhost '/': {LOW_ON_MEMORY}"
    assert (
        refusal(lambda: declare(vhost, "new"), MemoryShort) == f"cannot declare queue 'new' {low}"
    )
    assert (
        refusal(lambda: declare_exchange(vhost, "new"), MemoryShort)
        == f"cannot declare exchange 'new' {low}"
    )
    assert (
        refusal(lambda: bind(vhost, "x", queue, "new"), MemoryShort)
        == f"cannot bind queue 'q' to exchange 'x' {low}"
    )
    assert "new" not in vhost.queues
    assert "new" not in vhost.exchanges
    declare(vhost, "q")  # what is there costs nothing
    declare_exchange(vhost, "x")
    bind(vhost, "x", queue, "k")
    unbind(vhost, "x", queue, "k")
    vhost.delete_queue("q", ME)
    assert whole.reached.by_limit == {"memory": 3}
    whole.on_critical(False)
    declare(vhost, "new")


def test_both_queues_of_an_automatic_dead_letter_queue_or_none(
    whole: BrokerCapacity, vhost: VirtualHost
) -> None:
    whole.max_queues = 1
    refusal(lambda: declare(vhost, "q", arguments={"x-dlq-auto": True}))
    assert not vhost.queues
    whole.max_queues = 2
    declare(vhost, "q", arguments={"x-dlq-auto": True})
