"""The fanout exchange: a message goes to every bound destination, with any key.

AMQP 0-9-1 section 3.1.3.2. Called by ``broker.routing``.                            [hot: match]
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

from hareline.broker.exchanges.destinations import DestinationSet
from hareline.broker.exchanges.exchange import Arguments, Destination, Exchange, Headers


class FanoutExchange(Exchange):
    """One set of destinations; routing keys only distinguish bindings."""

    type_name: ClassVar[str] = "fanout"
    matches_every_key: ClassVar[bool] = False

    __slots__ = ("_destinations",)

    def _begin(self) -> None:
        self._destinations = DestinationSet()

    def match(self, routing_key: str, message: Headers) -> Iterable[Destination]:
        return self._destinations.members()

    def bind(self, destination: Destination, routing_key: str, arguments: Arguments) -> None:
        self._destinations.add(destination)

    def unbind(self, destination: Destination, routing_key: str, arguments: Arguments) -> None:
        self._destinations.remove(destination)
