"""A message's place in one queue.

=========  ====================================  =============================================
state      meaning                               leaves it by
=========  ====================================  =============================================
READY      in the ordering, anyone may take it   acquire -> ACQUIRED, drop or purge -> SETTLED;
                                                 no consumer may have it -> PARKED
PARKED     ready, but waits for its group or a   as READY; back to the ordering -> READY
           consumer whose selector is true
HELD       not valid yet, in no ordering         its time comes -> READY, drop or purge -> SETTLED
ACQUIRED   one consumer or basic.get has it      settle -> SETTLED, release -> READY
SETTLED    gone from the queue                   nothing
=========  ====================================  =============================================

Only ``queues.books`` and the lanes change the state.                                        [hot]
"""

from __future__ import annotations

from abc import ABCMeta, abstractmethod
from typing import TYPE_CHECKING, Any, Final

from hareline.compiled import mypyc_attr
from hareline.queues.core.kinds import RETURNED
from hareline.storage.interface import StoredEntry

if TYPE_CHECKING:
    from hareline.message import Message

READY: Final = 0
ACQUIRED: Final = 1
SETTLED: Final = 2
HELD: Final = 3
PARKED: Final = 4

# ``delivery_count`` is a number of returns, which stops at the first, and perhaps the second: the
# entry has also come back in ways that do not count (``Queue.release``). Both fit the journal.
RETURNS_MAX: Final = 0x7FFF
UNCOUNTED: Final = 0x8000

#: The header that shows how often a message came back; RabbitMQ's quorum queues have it.
DELIVERY_COUNT: Final = "x-delivery-count"
STATE_NAMES: Final = ("ready", "acquired", "settled", "held", "parked")


@mypyc_attr(allow_interpreted_subclasses=True)
class EntryQueue(metaclass=ABCMeta):
    """The place an acquired entry goes back to: its queue, or the counter of one's readings.

    ``shows_delivery_count``: redelivered messages carry it in the header x-delivery-count.
    """

    __slots__ = ()

    name: str
    shows_delivery_count: bool

    @abstractmethod
    def settle(self, entry: QueueEntry) -> None:
        """The acquired entry leaves the queue for good."""

    @abstractmethod
    def release(
        self, entries: list[QueueEntry], *, is_counted: bool = True, cause: int = RETURNED
    ) -> None:
        """Delivered entries become available again; ``is_counted``: as one return more.

        ``cause``: why they come back, one of ``kinds``.
        """

    @abstractmethod
    def reject(self, entries: list[QueueEntry]) -> None:
        """Delivered entries that the client does not want leave, dead-lettered if that is set."""


@mypyc_attr(allow_interpreted_subclasses=True)
class EntryHolder(metaclass=ABCMeta):
    """The consumer that acquired an entry, as far as the entry's channel goes by it."""

    __slots__ = ()

    is_cancelled: bool

    @abstractmethod
    def restore_credit(self, size: int) -> None:
        """One delivery of ``size`` octets was settled or released."""

    @abstractmethod
    def deliver(self, entries: list[QueueEntry]) -> int:
        """Hand over the entries, in order; returns how many were taken, at least one.

        The rest (the connection's output is full) stays with the caller.
        """


@mypyc_attr(allow_interpreted_subclasses=True)
class QueueEntry(StoredEntry):
    """``offset`` only grows within a queue and fixes the entry's place in it.

    ``delivery_count``, above 0, says that the next delivery is "redelivered"; ``returns`` is how
    often the entry came back as far as that counts.
    ``consumer`` is who acquired it; None while ready and for basic.get. ``group`` is the selective
    lane's ``Group``, or None.

    The entries of a plain FIFO queue need no more; ``rank``, ``group`` and ``expires_at_ms`` are
    then these constants and cost no memory.
    """

    __slots__ = ("consumer", "delivery_count", "message", "offset", "queue", "state")

    rank: Any = 0
    group: Any = None
    expires_at_ms: int = 0

    def __init__(self, queue: EntryQueue, message: Message, offset: int) -> None:
        self.queue = queue
        self.message = message
        self.offset = offset
        self.state = READY
        self.delivery_count = 0
        self.consumer: EntryHolder | None = None

    @property
    def returns(self) -> int:
        return self.delivery_count & RETURNS_MAX

    def __repr__(self) -> str:
        return f"<QueueEntry {self.offset} of {self.queue.name!r}, {STATE_NAMES[self.state]}>"


@mypyc_attr(allow_interpreted_subclasses=True)
class RankedEntry(QueueEntry):
    """An entry of a queue that does more than FIFO.

    ``rank``: its place among the others, set by the ordering when it is added. ``group``: its
    message group, once the lane has looked at it. ``expires_at_ms``: epoch milliseconds,
    0 = never.
    """

    __slots__ = ("expires_at_ms", "group", "rank")

    def __init__(self, queue: EntryQueue, message: Message, offset: int) -> None:
        # written out: a call of the other __init__ would cost as much as all of this
        self.queue = queue
        self.message = message
        self.offset = offset
        self.state = READY
        self.delivery_count = 0
        self.consumer = None
        self.rank = offset
        self.group = None
        self.expires_at_ms = 0


class NumberedEntry(RankedEntry):
    """A number of a page, made to show it to an operator; it stands in no ordering."""

    __slots__ = ()


def mark_redelivered(entries: list[QueueEntry]) -> None:
    """Acquired entries are about to be sent again to the consumer that has them.

    That is no return as the delivery limit counts them, and nothing that the store has to know:
    what was delivered once is redelivered after a crash.
    """
    for entry in entries:
        entry.delivery_count |= UNCOUNTED
