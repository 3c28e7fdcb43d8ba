"""Targets of the messages of an operation: a queue, an exchange, or where each died first.

``operations.moving`` and imports ask a target for a ``Place`` for each message, and put the message
there in the same callback of the loop. What an operator puts into a queue never pushes out what is
there: a queue at its limits takes no more, whatever it does with publishes (Broker-J), but for the
policies ``none`` and ``flow-to-disk``.

Invariant: nothing is put anywhere until all queues that are to get the message would take it.
"""

from __future__ import annotations

from abc import ABCMeta, abstractmethod
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final, NamedTuple

from hareline.errors import MalformedFrame, PreconditionFailed
from hareline.queues.core.enqueueing import Enqueueing, archive_message, archives_of
from hareline.queues.core.kinds import DUPLICATE, KEEPS_ALL, KEEPS_NONE, TAKEN
from hareline.queues.dead_letters.history import first_death
from hareline.wire.constants import SHORTSTR_MAX_OCTETS

if TYPE_CHECKING:
    from hareline.broker.exchanges.exchange import Exchange
    from hareline.broker.vhost import VirtualHost
    from hareline.message import Address, Message
    from hareline.queues.queue import Queue


#: Why a message stays where it is: a word for programs. ``REASONS`` has the sentences.
FULL: Final = "target_full"
UNUSED: Final = "target_unused"
NOT_STORED: Final = "not_stored"
UNROUTABLE: Final = "unroutable"
GONE: Final = "target_gone"
KNOWN: Final = "duplicate"
NO_ORIGIN: Final = "no_origin"
NOT_ALLOWED: Final = "not_allowed"
ALARM: Final = "alarm"
UNREADABLE: Final = "unreadable"
NO_SCHEDULE: Final = "invalid_schedule"

REASONS: Final = {
    FULL: "a queue that it would come to is at its limits",
    UNUSED: "a queue that it would come to takes nothing while it has no consumers",
    NOT_STORED: "it could not be stored",
    UNROUTABLE: "it would reach no queue",
    GONE: "the queue or exchange is deleted",
    KNOWN: "a queue that it would come to knows its id, and takes no duplicates",
    NO_ORIGIN: "it does not say where it died, stands there, or both queue and exchange are gone",
    NOT_ALLOWED: "the user may not write there",
    ALARM: "memory or disk are short, so nothing may be published",
    UNREADABLE: "its content cannot be read from disk",
    NO_SCHEDULE: "its headers make no schedule, and a delayed exchange is on its way",
}


class Place(NamedTuple):
    """Queues that get a message, and its address there; ``refusal``: or why they do not."""

    queues: tuple[Queue, ...] = ()
    address: Address | None = None
    archives: tuple[Enqueueing, ...] = ()
    refusal: str = ""


class Target(metaclass=ABCMeta):
    """``source`` is the queue that the messages are taken from, None for an import."""

    def __init__(self, vhost: VirtualHost, source: Queue | None) -> None:
        self._vhost = vhost
        self._source = source

    @abstractmethod
    def place_of(self, message: Message) -> Place:
        """Place for this message."""

    def _checked(self, place: Place, message: Message) -> Place:
        """The place, or why its queues do not take the message."""
        store = self._vhost.environment.store
        for queue in place.queues:
            if queue.is_deleted:
                return Place(refusal=GONE)
            if queue.discards_all:
                return Place(refusal=UNUSED)
            if is_full_for(queue, message):
                return Place(refusal=FULL)
        if store.refusal:
            takers = (*place.queues, *archives_of(place.queues, place.archives))
            if any(_is_kept(each, message.position) for each in takers):
                return Place(refusal=NOT_STORED)
        return place

    def put(self, place: Place, message: Message) -> str:
        """Give a message to the queues of its place; why not all of them took it, or nothing.

        A queue that had room may be full by now, by what an earlier one of the place has
        dead-lettered to it. Those that took the message keep it.
        """
        outcomes = [(queue, queue.put(message)) for queue in place.queues]
        takers = [queue for queue, outcome in outcomes if outcome == TAKEN]
        archive_message(message, takers, place.archives if takers else ())
        if any(outcome == DUPLICATE for _, outcome in outcomes):
            return KNOWN
        return "" if len(takers) == len(outcomes) else FULL


class QueueTarget(Target):
    """One queue, whatever the messages say."""

    def __init__(self, vhost: VirtualHost, queue: Queue, source: Queue | None = None) -> None:
        super().__init__(vhost, source)
        self._place = Place((queue,))

    def place_of(self, message: Message) -> Place:
        return self._checked(self._place, message)


class ExchangeTarget(Target):
    """An exchange, by the messages' own routing keys or by one for all.

    Another exchange that is declared under its name meanwhile gets nothing: the user's rights were
    looked at for this one.
    """

    def __init__(
        self, vhost: VirtualHost, exchange: Exchange, routing_key: str | None, source: Queue | None
    ) -> None:
        super().__init__(vhost, source)
        self._exchange = exchange
        self._routing_key = routing_key

    def place_of(self, message: Message) -> Place:
        exchange = self._exchange
        if self._vhost.exchanges.get(exchange.name) is not exchange:
            return Place(refusal=GONE)
        key = message.address.routing_key if self._routing_key is None else self._routing_key
        return self._checked(routed(self._vhost, exchange, [key], message), message)


class OriginTarget(Target):
    """The queue in which a message died first; if that is gone, the exchange that led there.

    Headers say where that was, and any publisher may have written them. ``may_publish``: True if
    the user may publish to an exchange, by its name, with these routing keys.
    """

    def __init__(
        self, vhost: VirtualHost, source: Queue, may_publish: Callable[[str, list[str]], bool]
    ) -> None:
        super().__init__(vhost, source)
        self._may_publish = may_publish

    def place_of(self, message: Message) -> Place:
        try:
            return self._checked(self._origin(message), message)
        except MalformedFrame:
            return Place(refusal=NO_ORIGIN)
        finally:
            message.forget_properties()

    def _origin(self, message: Message) -> Place:
        vhost = self._vhost
        headers = message.headers
        name = headers.get("x-first-death-queue")
        exchange = headers.get("x-first-death-exchange")
        if not isinstance(name, str):
            return Place(refusal=NO_ORIGIN)
        exchange = exchange if isinstance(exchange, str) else ""
        keys = _first_keys(headers) or [name]
        if not all(map(_is_short, (exchange, *keys))):
            return Place(refusal=NO_ORIGIN)
        queue = vhost.routing.queue_by_name(name)
        if queue is not None and queue is not self._source:
            if not self._may_publish("", [name]):
                return Place(refusal=NOT_ALLOWED)
            return Place((queue,), address_of(vhost, exchange, keys[0]))
        found = vhost.exchanges.get(exchange)
        if (
            queue is not None or found is None or not exchange
        ):  # it is there already, or all is gone
            return Place(refusal=NO_ORIGIN)
        if not self._may_publish(exchange, keys):
            return Place(refusal=NOT_ALLOWED)
        place = routed(vhost, found, keys, message)
        if self._source in place.queues:  # it would come back to where it is
            return Place(refusal=NO_ORIGIN)
        return place


def routed(vhost: VirtualHost, exchange: Exchange, keys: list[str], message: Message) -> Place:
    """The queues that an exchange leads to by these keys; the first is the message's own."""
    try:
        queues, _, archives = vhost.routing.route(exchange, keys, message)
    except PreconditionFailed:
        return Place(refusal=NO_SCHEDULE)
    if not queues:
        return Place(refusal=UNROUTABLE)
    return Place(queues, address_of(vhost, exchange.name, keys[0]), archives)


def address_of(vhost: VirtualHost, exchange: str, routing_key: str) -> Address:
    """The address that the virtual host keeps for these names."""
    octets = b"".join(
        bytes((len(each),)) + each
        for each in (name.encode("utf-8", "surrogateescape") for name in (exchange, routing_key))
    )
    return vhost.routing.address(exchange, routing_key, octets)


def is_full_for(queue: Queue, message: Message) -> bool:
    """True if an operator's message would bring the queue above its limits."""
    overflow = queue.overflow
    if overflow is None or overflow.policy in ("none", "flow-to-disk"):
        return False
    if overflow.stops_publishers:
        return True
    if not overflow.would_exceed(message):
        return False
    queue.deliver_due()  # consumers come first, as for any publish
    return overflow.would_exceed(message)


def _is_kept(queue: Enqueueing, position: int) -> bool:
    return queue.keeps == KEEPS_ALL or (position != 0 and queue.keeps != KEEPS_NONE)


def _is_short(name: str) -> bool:
    """True if a name or routing key has room in a frame."""
    return len(name.encode("utf-8", "surrogateescape")) <= SHORTSTR_MAX_OCTETS


def _first_keys(headers: Mapping[str, object]) -> list[str]:
    """The routing keys with which a dead letter came to the queue where it died first."""
    first = first_death(headers)
    keys = None if first is None else first.get("routing-keys")
    return [key for key in keys if isinstance(key, str)] if isinstance(keys, list) else []
