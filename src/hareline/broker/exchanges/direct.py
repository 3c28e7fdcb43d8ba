"""The direct exchange: a message goes where a binding key equals its routing key.

AMQP 0-9-1 section 3.1.3.1. One dictionary lookup per match, for any number of bindings.
Called by ``broker.routing``.                                                        [hot: match]
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

from hareline.broker.exchanges.destinations import DestinationSet
from hareline.broker.exchanges.exchange import Arguments, Destination, Exchange, Headers


class DirectExchange(Exchange):
    """``_routes`` has a key for each bound routing key, and no other."""

    type_name: ClassVar[str] = "direct"

    __slots__ = ("_routes",)

    def _begin(self) -> None:
        self._routes: dict[str, DestinationSet] = {}

    def match(self, routing_key: str, message: Headers) -> Iterable[Destination]:
        destinations = self._routes.get(routing_key)
        if destinations is None:
            return ()
        return destinations.members()

    def bind(self, destination: Destination, routing_key: str, arguments: Arguments) -> None:
        destinations = self._routes.get(routing_key)
        if destinations is None:
            destinations = self._routes[routing_key] = DestinationSet()
        destinations.add(destination)

    def unbind(self, destination: Destination, routing_key: str, arguments: Arguments) -> None:
        destinations = self._routes[routing_key]
        destinations.remove(destination)
        if not destinations:
            del self._routes[routing_key]
