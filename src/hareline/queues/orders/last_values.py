"""Older values that new ones replace: the book of a queue with ``x-last-value-key``.

The queue keeps it, whatever its ordering: a ``LastValueOrder`` where messages are taken, a log
where they are only read. A new value stands in the ordering like any other entry, at the end, and
the queue drops the older one of its key; one that a consumer has stays until it is settled, and is
dropped when it comes back. Source: Broker-J's conflation queues.                            [hot]
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from decimal import Decimal
from functools import partial

from hareline.compiled import mypyc_attr
from hareline.message import Message
from hareline.queues.core.entry import ACQUIRED, QueueEntry, RankedEntry
from hareline.queues.core.property_cache import PropertyCache
from hareline.queues.orders.fifo import FifoOrder


@mypyc_attr(allow_interpreted_subclasses=True)
class LastValues:
    """``key_header`` is the header that names what a message is the value of; a message without it,
    or with a void there, is never replaced and replaces nothing.

    The queue calls ``replaced_by`` for an entry that becomes ready for the first time, ``is_stale``
    for entries that come back, and ``forget`` when one was settled. ``_newest`` is bounded by the
    keys that are in the queue, ``_stale`` by the entries that consumers have. The key of an entry
    stands in its ``rank``, so the ordering must not use that itself.

    Keys are the same when their wire type and their value are: the integer 1, the text "1", 1.0 and
    true are four keys, and so are integers of different widths (only ``l`` and ``L``, two letters
    for one width, are not told apart).
    """

    __slots__ = ("_key_of", "_newest", "_stale", "key_header")

    def __init__(self, key_header: str) -> None:
        self.key_header = key_header
        # a partial of a function: a method of this object would make a reference cycle
        self._key_of: Callable[[Message], object] = PropertyCache(partial(_read_key, key_header))
        self._newest: dict[object, QueueEntry] = {}
        self._stale: set[QueueEntry] = set()

    def replaced_by(self, entry: QueueEntry) -> QueueEntry | None:
        """Make the entry the newest of its key; returns the older one that the queue must drop.

        None if there is none, or if a consumer has the older one, which is stale from now on.
        """
        key = self._key_of(entry.message)
        if key is None:
            return None
        assert isinstance(entry, RankedEntry), entry
        entry.rank = key
        newest = self._newest
        previous = newest.get(key)
        newest[key] = entry
        if previous is None or previous is entry:
            return None
        if previous.state == ACQUIRED:
            self._stale.add(previous)
            return None
        return previous

    def is_stale(self, entry: QueueEntry) -> bool:
        """True if a newer value of its key came while it was acquired, even one that has left."""
        return entry in self._stale

    def forget(self, entry: QueueEntry) -> None:
        """Forget a settled entry, and its key if it was the newest."""
        key = entry.rank
        if self._newest.get(key) is entry:
            del self._newest[key]
        elif self._stale:
            self._stale.discard(entry)

    def forget_all(self) -> None:
        """Forget everything; the queue is deleted, though consumers may still have entries."""
        self._newest.clear()
        self._stale.clear()

    @property
    def key_count(self) -> int:
        """The number of keys with a value."""
        return len(self._newest)


class RetainedValues(LastValues):
    """The last value of each routing key; a message without a body only ends that of its key."""

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__("")
        self._key_of = _routing_key


class LastValueOrder(FifoOrder):
    """First in, first out, with the book of its last values; entries have to be RankedEntry.

    Those that ``values`` knows stay objects in its pages.
    """

    __slots__ = ("values",)

    def __init__(self, key_header: str) -> None:
        super().__init__()
        self.values = LastValues(key_header)


def _read_key(header: str, message: Message) -> object:
    return last_value_key(message.header(header))


def _routing_key(message: Message) -> object:
    return message.address.routing_key


def last_value_key(value: object) -> object:
    """A header's value as a dictionary key, equal for equal type and value; None for None."""
    if value is None or type(value) is str:
        return value
    if isinstance(value, Mapping):
        items = frozenset((name, last_value_key(item)) for name, item in value.items())
        return (Mapping, items)
    if isinstance(value, list | tuple):
        return (list, tuple(last_value_key(item) for item in value))
    if value != value:  # noqa: PLR0124 -- NaN, which as a key would never be found again
        return (type(value), "nan")
    if isinstance(value, Decimal):
        return (Decimal, value.as_tuple())  # 1.0 and 1.00 have different scales on the wire
    is_long = getattr(value, "kind", "l") == "L"
    return (int if is_long else type(value), value)
