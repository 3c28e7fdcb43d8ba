"""The base of all exchanges: a name and bindings, and a match from routing keys to destinations.

Each type supplies only ``_begin``, ``bind``, ``unbind`` and ``match``; ``broker.routing`` does the
walk over exchange-to-exchange bindings, alternate exchanges, CC/BCC and the de-duplication of
queues, once for all types. It calls ``match`` only on a miss of a connection's route
cache, unless ``is_static`` is False; then it calls it for every message.               [hot: match]
"""

from __future__ import annotations

from abc import ABCMeta, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from typing import ClassVar, Protocol

from hareline.broker.exchanges.alternate import ALTERNATE_BINDING, ALTERNATE_EXCHANGE
from hareline.compiled import mypyc_attr
from hareline.counts import ExchangeCounts
from hareline.message import Message
from hareline.queues.core.enqueueing import Enqueueing
from hareline.queues.core.ports import QueuePort

Arguments = Mapping[str, object]


class Destination(Protocol):
    """The target of a binding: a queue or another exchange."""

    name: str


class MessageProperties(Protocol):
    """The properties that a routing decision may read; None if the message has none of them."""

    @property
    def correlation_id(self) -> object: ...

    @property
    def message_id(self) -> object: ...

    @property
    def timestamp(self) -> object: ...


class Headers(Protocol):
    """The part of a message that a match may read.

    Both properties are decoded on first use, and then kept; headers may be empty. ``header``
    decodes only one header; None if it is absent.
    """

    @property
    def headers(self) -> Arguments: ...

    @property
    def properties(self) -> MessageProperties: ...

    @property
    def property_octets(self) -> bytes: ...

    def header(self, name: str) -> object: ...


@mypyc_attr(allow_interpreted_subclasses=True)
class Exchange(metaclass=ABCMeta):
    """One exchange of a virtual host.

    ``type_name`` is the wire name ("direct"). ``is_static``: the result of ``match`` depends only
    on the routing key and the bindings, so it may be cached; some types know it only from their
    arguments. ``matches_every_key``: a message with CC or BCC is matched with each of its keys; if
    False, once, with the key it was published with (RabbitMQ passes the message to those types as
    a whole, so that a random choice is made once). ``alternate_queue``: the queue that is used if
    there is no exchange ``alternate_exchange``, or None. ``archive``: the stream that gets what is
    published here, or None. ``retained``: the queue that keeps some of it for bindings to come, or
    None. ``counts``: what its publishers have counted, at the last tick.
    """

    type_name: ClassVar[str]
    matches_every_key: ClassVar[bool] = True

    __slots__ = (
        "alternate_exchange",
        "alternate_queue",
        "archive",
        "arguments",
        "counts",
        "is_auto_delete",
        "is_durable",
        "is_internal",
        "is_static",
        "name",
        "retained",
    )

    def __init__(
        self,
        name: str,
        *,
        is_durable: bool = True,
        is_auto_delete: bool = False,
        is_internal: bool = False,
        arguments: Arguments | None = None,
    ) -> None:
        self.name = name
        self.is_durable = is_durable
        self.is_auto_delete = is_auto_delete
        self.is_internal = is_internal
        self.is_static = True
        self.arguments: Arguments = arguments or {}
        alternate = self.arguments.get(ALTERNATE_EXCHANGE)
        self.alternate_exchange = alternate if isinstance(alternate, str) else None
        self.alternate_queue = (
            self.alternate_exchange if ALTERNATE_BINDING in self.arguments else None
        )
        self.archive: Enqueueing | None = None
        self.retained: QueuePort | None = None
        self.counts = ExchangeCounts()
        self._begin()

    def _begin(self) -> None:  # noqa: B027 - the default exchange has nothing of its own
        """Make this type's empty structures for matching; the exchange is otherwise complete."""

    @classmethod  # noqa: B027 - most types take any arguments
    def validate_arguments(cls, arguments: Arguments) -> None:
        """Raise PreconditionFailed if this type cannot be declared with these arguments."""

    @abstractmethod
    def bind(self, destination: Destination, routing_key: str, arguments: Arguments) -> None:
        """Add a binding. The binder has already dropped exact repetitions.

        Raises PreconditionFailed if the arguments are invalid for this type.
        """

    @abstractmethod
    def unbind(self, destination: Destination, routing_key: str, arguments: Arguments) -> None:
        """Remove exactly the binding that was added by ``bind``; it is known to exist."""

    @abstractmethod
    def match(self, routing_key: str, message: Headers) -> Iterable[Destination]:
        """The destinations for a message.

        Repetitions are allowed; the order depends only on the bindings and their history.
        """

    def __repr__(self) -> str:
        return f"<{self.type_name} exchange {self.name!r}>"


# exchange, routing keys, message -> the queues that it reaches by the bindings there are now, and
# the archives of other exchanges on its way
Route = Callable[
    [Exchange, list[str], Message], tuple[tuple[QueuePort, ...], tuple[Enqueueing, ...]]
]
