"""Exchanges and queues that end: by a client, by themselves, and what goes with them."""

from __future__ import annotations

from itertools import pairwise

from hareline.broker.vhost import VirtualHost
from tests.support.consumers import RecordingConsumer
from tests.support.turns import ManualTurn
from tests.support.vhosts import (
    ME,
    MESSAGE,
    bind,
    declare,
    declare_exchange,
    routed,
    unbind,
)


def test_a_new_virtual_host_has_the_predeclared_exchanges(vhost: VirtualHost) -> None:
    types = {name: exchange.type_name for name, exchange in vhost.exchanges.items()}
    assert types == {
        "": "direct",
        "amq.direct": "direct",
        "amq.fanout": "fanout",
        "amq.topic": "topic",
        "amq.headers": "headers",
        "amq.match": "headers",
        "amq.rabbitmq.trace": "topic",
    }
    assert all(exchange.is_durable for exchange in vhost.exchanges.values())
    assert [name for name, exchange in vhost.exchanges.items() if exchange.is_internal] == [
        "amq.rabbitmq.trace"
    ]


def test_a_deleted_exchange_takes_its_bindings_along(vhost: VirtualHost) -> None:
    source, target = declare_exchange(vhost, "source", "fanout"), declare_exchange(vhost, "target")
    bind(vhost, "source", target)
    bind(vhost, "target", declare(vhost))
    vhost.delete_exchange("target", if_unused=False)
    assert len(vhost.bindings) == 0
    assert list(source.match("k", MESSAGE)) == []


def test_an_auto_delete_exchange_goes_with_its_last_binding(vhost: VirtualHost) -> None:
    declare_exchange(vhost, is_auto_delete=True)
    queues = [declare(vhost, name) for name in ("a", "b")]
    for queue in queues:
        bind(vhost, "x", queue)
    unbind(vhost, "x", queues[0])
    assert "x" in vhost.exchanges
    vhost.delete_queue("b", ME)
    assert "x" not in vhost.exchanges


def test_an_auto_delete_exchange_that_was_never_bound_stays(vhost: VirtualHost) -> None:
    declare_exchange(vhost, is_auto_delete=True)
    unbind(vhost, "x", declare(vhost))
    assert "x" in vhost.exchanges


def test_auto_delete_exchanges_go_one_after_the_other(vhost: VirtualHost) -> None:
    """Each is the last destination of the one before it."""
    names = [f"x{number}" for number in range(5)]
    for name in names:
        declare_exchange(vhost, name, "fanout", is_auto_delete=True)
    for source, target in pairwise(names):
        bind(vhost, source, vhost.exchange(target))
    queue = declare(vhost)
    bind(vhost, names[-1], queue)
    vhost.delete_queue("q", ME)
    assert not set(names) & set(vhost.exchanges)
    assert len(vhost.bindings) == 0


def test_consumers_of_a_deleted_queue_are_told(vhost: VirtualHost, turn: ManualTurn) -> None:
    queue = declare(vhost)
    consumer = RecordingConsumer(queue)
    queue.add_consumer(consumer)
    vhost.delete_queue("q", ME)
    assert consumer.is_told_of_end
    assert queue.is_deleted


def test_a_deleted_queue_takes_its_bindings_along(vhost: VirtualHost) -> None:
    queue = declare(vhost)
    bind(vhost, "amq.topic", queue, "a.*")
    bind(vhost, "amq.fanout", queue)
    vhost.delete_queue("q", ME)
    assert len(vhost.bindings) == 0
    assert list(vhost.exchange("amq.topic").match("a.b", MESSAGE)) == []
    declare(vhost)
    assert routed(vhost, "amq.fanout") == []


def test_an_auto_delete_queue_goes_with_its_last_consumer(vhost: VirtualHost) -> None:
    queue = declare(vhost, is_auto_delete=True)
    consumers = [RecordingConsumer(queue, f"c{index}") for index in range(2)]
    for consumer in consumers:
        queue.add_consumer(consumer)
    queue.remove_consumer(consumers[0])
    assert "q" in vhost.queues
    queue.remove_consumer(consumers[1])
    assert "q" not in vhost.queues
    assert queue.is_deleted


def test_an_auto_delete_queue_that_never_had_a_consumer_stays(vhost: VirtualHost) -> None:
    declare(vhost, is_auto_delete=True)
    assert "q" in vhost.queues


def test_other_queues_outlive_their_consumers(vhost: VirtualHost) -> None:
    queue = declare(vhost)
    consumer = RecordingConsumer(queue)
    queue.add_consumer(consumer)
    queue.remove_consumer(consumer)
    assert "q" in vhost.queues
