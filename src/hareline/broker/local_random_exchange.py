"""The ``x-local-random`` exchange: a message goes to one bound classic queue, chosen at random.

In RabbitMQ, one of the queues on the publisher's node; here all queues are. A binding has the empty
key and leads to a classic queue, as RabbitMQ demands; a match is that of ``x-random``. [hot: match]
"""

from __future__ import annotations

from typing import ClassVar

from hareline.broker.exchanges.exchange import Arguments, Destination, Exchange
from hareline.broker.exchanges.random_choice import RandomExchange
from hareline.broker.filtered_exchange import FilteredDestination
from hareline.errors import PreconditionFailed
from hareline.queues.queue import Queue


class LocalRandomExchange(RandomExchange):
    """``RandomExchange`` that checks its bindings."""

    type_name: ClassVar[str] = "x-local-random"

    __slots__ = ()

    def bind(self, destination: Destination, routing_key: str, arguments: Arguments) -> None:
        """Raises PreconditionFailed with RabbitMQ's texts."""
        if routing_key:
            raise PreconditionFailed(f"Non empty binding '{routing_key}' key not permitted")
        _check_classic(destination)
        super().bind(destination, routing_key, arguments)


def _check_classic(destination: Destination) -> None:
    if isinstance(destination, FilteredDestination):
        destination = destination.destination
    if isinstance(destination, Exchange):
        raise PreconditionFailed("Destination not found")
    if isinstance(destination, Queue):
        queue_type = destination.arguments.get("x-queue-type", "classic")
        if queue_type != "classic":
            raise PreconditionFailed(
                f"Queue type rabbit_{queue_type}_queue not valid for this exchange type"
            )
