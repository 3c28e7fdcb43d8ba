"""The default exchange: nameless, with every queue bound to it by its own name.

AMQP 0-9-1 section 3.1.2.2. The bindings are not kept: a match looks the queue up.
``broker.registry`` makes one and passes the lookup, and drops cached routes when a queue is made or
deleted, because that changes a route here as a binding does elsewhere.
[hot: match]
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import ClassVar, NoReturn

from hareline.broker.exchanges.exchange import Arguments, Destination, Exchange, Headers
from hareline.errors import AccessRefused


class DefaultExchange(Exchange):
    """``queue_by_name`` returns None if no queue has the name."""

    type_name: ClassVar[str] = "direct"  # as RabbitMQ lists it

    __slots__ = ("_queue_by_name",)

    def __init__(self, queue_by_name: Callable[[str], Destination | None]) -> None:
        super().__init__("")
        self._queue_by_name = queue_by_name

    def match(self, routing_key: str, message: Headers) -> Iterable[Destination]:
        queue = self._queue_by_name(routing_key)
        if queue is None:
            return ()
        return (queue,)

    def bind(self, destination: Destination, routing_key: str, arguments: Arguments) -> NoReturn:
        """Always AccessRefused: the bindings of this exchange are the names of the queues."""
        raise AccessRefused("operation not permitted on the default exchange")

    def unbind(self, destination: Destination, routing_key: str, arguments: Arguments) -> NoReturn:
        """Always AccessRefused, like ``bind``."""
        raise AccessRefused("operation not permitted on the default exchange")
