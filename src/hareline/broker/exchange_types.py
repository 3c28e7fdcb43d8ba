"""The exchange types, by the name that exchange.declare uses.

``broker`` calls ``create_exchange`` for a new exchange, from a client or from the definitions
store; ``amqp`` asks ``exchange_class`` whether a declare names one. The default exchange
is not here, because clients do not declare it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from hareline.broker.delayed_exchange import DelayedExchange, inner_type_of
from hareline.broker.exchanges.consistent_hash import ConsistentHashExchange
from hareline.broker.exchanges.direct import DirectExchange
from hareline.broker.exchanges.exchange import Arguments, Exchange
from hareline.broker.exchanges.fanout import FanoutExchange
from hareline.broker.exchanges.headers import HeadersExchange
from hareline.broker.exchanges.jms_topic import JmsTopicExchange
from hareline.broker.exchanges.random_choice import RandomExchange
from hareline.broker.exchanges.topic import TopicExchange
from hareline.broker.local_random_exchange import LocalRandomExchange
from hareline.errors import PreconditionFailed

EXCHANGE_TYPES: Final[Mapping[str, type[Exchange]]] = {
    exchange_class.type_name: exchange_class
    for exchange_class in (
        DirectExchange,
        FanoutExchange,
        TopicExchange,
        HeadersExchange,
        ConsistentHashExchange,
        RandomExchange,
        LocalRandomExchange,
        JmsTopicExchange,
        DelayedExchange,
    )
}


def exchange_class(type_name: str) -> type[Exchange]:
    """Raises PreconditionFailed for an unknown type; the text is RabbitMQ 4's."""
    known = EXCHANGE_TYPES.get(type_name)
    if known is None:
        raise PreconditionFailed(f"unknown exchange type '{type_name}'")
    return known


def create_exchange(
    type_name: str,
    name: str,
    *,
    is_durable: bool = True,
    is_auto_delete: bool = False,
    is_internal: bool = False,
    arguments: Arguments | None = None,
) -> Exchange:
    """A new exchange without bindings.

    Raises PreconditionFailed for an unknown type, and for arguments that the type refuses.
    """
    of_type = exchange_class(type_name)
    of_type.validate_arguments(arguments or {})
    exchange = of_type(
        name,
        is_durable=is_durable,
        is_auto_delete=is_auto_delete,
        is_internal=is_internal,
        arguments=arguments,
    )
    if isinstance(exchange, DelayedExchange):
        inner_type = inner_type_of(exchange.arguments)
        exchange.route_as(create_exchange(inner_type, name, arguments=arguments))
    return exchange
