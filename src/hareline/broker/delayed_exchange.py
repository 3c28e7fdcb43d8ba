"""The ``x-delayed-message`` exchange: routes messages with an x-delay header that much later.

As in RabbitMQ's plugin, ``x-delayed-type`` names the type of exchange that it routes by, and
bindings are those of that type. A message with a delay or a schedule matches only the exchange's
own queue (``broker.delayed_queues``), which returns it when its time has come, with a delay below
0; so it is routed by the bindings that exist then. Called by ``broker.routing`` for every message.

Invariant: ``match`` returns only the delay queue, or what the inner type returns.
                                                                                    [hot: match]
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar, Final

from hareline.broker.exchanges.exchange import Arguments, Destination, Exchange, Headers
from hareline.errors import PreconditionFailed
from hareline.queues.policies.delay import DELAY_HEADER, delay_ms_of
from hareline.queues.policies.schedule import check_schedule, has_schedule

DELAYED_MESSAGE: Final = "x-delayed-message"
TYPE_ARGUMENT: Final = "x-delayed-type"


class DelayedExchange(Exchange):
    """``broker.making`` sets ``delay_queue``; ``registry`` calls ``route_as`` before all else."""

    type_name: ClassVar[str] = DELAYED_MESSAGE

    __slots__ = ("_inner", "delay_queue", "matches_every_key")

    _inner: Exchange
    delay_queue: Destination

    def _begin(self) -> None:
        self.is_static = False

    @classmethod
    def validate_arguments(cls, arguments: Arguments) -> None:
        """PreconditionFailed unless the arguments name another type.

        Whether that type exists and accepts the arguments is checked when its exchange is made.
        """
        inner_type_of(arguments)

    def route_as(self, inner: Exchange) -> None:
        """``inner``: an exchange without bindings, of the type ``inner_type_of(arguments)``."""
        self._inner = inner
        self.matches_every_key = inner.matches_every_key  # type: ignore[misc] # known only now

    def match(self, routing_key: str, message: Headers) -> Iterable[Destination]:
        """Raises PreconditionFailed for headers that make no schedule."""
        if is_delayed(message):
            return (self.delay_queue,)
        return self._inner.match(routing_key, message)

    def bind(self, destination: Destination, routing_key: str, arguments: Arguments) -> None:
        """Raises the errors of the inner type."""
        self._inner.bind(destination, routing_key, arguments)

    def unbind(self, destination: Destination, routing_key: str, arguments: Arguments) -> None:
        self._inner.unbind(destination, routing_key, arguments)


def is_delayed(message: Headers) -> bool:
    """True if an exchange keeps this message until its time, or sends it at several.

    Raises PreconditionFailed for headers that make no schedule, MalformedFrame for headers that are
    no table.
    """
    if has_schedule(message.property_octets) and check_schedule(message.headers):
        return True
    return delay_ms_of(message.header(DELAY_HEADER)) > 0


def inner_type_of(arguments: Arguments) -> str:
    """The type to route by.

    Raises PreconditionFailed, with the plugin's text, if it is not a name, or names this type.
    """
    type_name = arguments.get(TYPE_ARGUMENT)
    if not isinstance(type_name, str):
        raise PreconditionFailed(
            f"Invalid argument, '{TYPE_ARGUMENT}' must be an existing exchange type"
        )
    if type_name == DELAYED_MESSAGE:
        raise PreconditionFailed(
            f"Invalid argument, '{DELAYED_MESSAGE}' can't be used for '{TYPE_ARGUMENT}'"
        )
    return type_name
