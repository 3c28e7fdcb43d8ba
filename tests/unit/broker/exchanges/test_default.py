from __future__ import annotations

import pytest

from hareline.broker.exchanges.default import DefaultExchange
from hareline.errors import AccessRefused

from .subjects import Place, matched

NO_QUEUES: dict[str, Place] = {}


def test_message_goes_to_the_queue_that_the_routing_key_names() -> None:
    queues = {"orders": Place("orders"), "bills": Place("bills")}
    exchange = DefaultExchange(queues.get)
    assert matched(exchange, "bills") == ["bills"]


def test_message_goes_nowhere_when_no_queue_has_the_name() -> None:
    exchange = DefaultExchange({"orders": Place("orders")}.get)
    assert matched(exchange, "order") == []
    assert matched(exchange, "") == []


def test_queue_is_looked_up_anew_for_every_match() -> None:
    queues: dict[str, Place] = {}
    exchange = DefaultExchange(queues.get)
    assert matched(exchange, "q") == []
    queues["q"] = Place("q")
    assert matched(exchange, "q") == ["q"]
    del queues["q"]
    assert matched(exchange, "q") == []


def test_it_has_no_name_and_is_a_durable_direct_exchange() -> None:
    exchange = DefaultExchange(NO_QUEUES.get)
    assert exchange.name == ""
    assert exchange.type_name == "direct"
    assert exchange.is_durable
    assert not exchange.is_internal
    assert not exchange.is_auto_delete


@pytest.mark.parametrize("operation", ["bind", "unbind"])
def test_binding_and_unbinding_are_refused(operation: str) -> None:
    exchange = DefaultExchange(NO_QUEUES.get)
    with pytest.raises(AccessRefused) as refusal:
        getattr(exchange, operation)(Place("q"), "q", {})
    assert refusal.value.explanation == "operation not permitted on the default exchange"
