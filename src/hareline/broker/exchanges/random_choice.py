"""The ``x-random`` exchange: a message goes to one binding, chosen at random.

As in RabbitMQ's plugin, routing keys have no effect, every binding has the same chance (a queue
bound twice has twice that of a queue bound once), and a message gets one choice for
all of its CC keys. Called by ``broker.routing`` for every message.                  [hot: match]
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from typing import ClassVar

from hareline.broker.exchanges.exchange import Arguments, Destination, Exchange, Headers


class RandomExchange(Exchange):
    """``draw`` gives evenly distributed floats in [0, 1); tests pass their own."""

    type_name: ClassVar[str] = "x-random"
    matches_every_key: ClassVar[bool] = False

    __slots__ = ("_bound", "draw")

    def _begin(self) -> None:
        self.is_static = False
        self._bound: list[Destination] = []  # one item per binding
        self.draw: Callable[[], float] = random.random

    def match(self, routing_key: str, message: Headers) -> Iterable[Destination]:
        bound = self._bound
        if not bound:
            return ()
        return (bound[int(self.draw() * len(bound))],)

    def bind(self, destination: Destination, routing_key: str, arguments: Arguments) -> None:
        self._bound.append(destination)

    def unbind(self, destination: Destination, routing_key: str, arguments: Arguments) -> None:
        self._bound.remove(destination)
