"""Calls that the parts of a queue may make of it; ``part_ports`` has those of each other.

Lanes, policies, paging and dead letters are handed the queue as a ``QueuePort`` and know nothing
else of it, so none of them imports ``queues.queue``. The hot path calls some of these methods:
this is an abstract base class and not a protocol, so that a compiled build can call them directly.

The chain of bases: ``entry.EntryQueue`` (for an entry's holder), ``credit.ConsumedQueue`` (for a
consumer and its windows), ``QueuePort`` (for the parts), ``books.QueueBooks`` (states and
counters), ``Queue``.
"""

from __future__ import annotations

from abc import abstractmethod

from hareline.compiled import mypyc_attr
from hareline.queues.core.credit import ConsumedQueue
from hareline.queues.core.enqueueing import Enqueueing
from hareline.queues.core.entry import QueueEntry
from hareline.queues.core.kinds import DeathReason
from hareline.queues.core.lane import Lane
from hareline.queues.core.part_ports import QueueParts
from hareline.turn import Dispatching


@mypyc_attr(allow_interpreted_subclasses=True)
class QueuePort(ConsumedQueue, Enqueueing, QueueParts, Dispatching):
    """The counters are read here and written by ``queues.books`` alone.

    ``ready_bytes``: octets of the ready entries' bodies. ``is_delivering``: entries may be on their
    way from the ordering to consumers, so that the queue looks emptier than it is.
    ``is_paused``: nothing is delivered, but to browsers.
    ``has_entries_to_itself``: only the ordering refers to those of its entries that do not expire.
    ``entry_class``: of new entries.
    """

    __slots__ = ()

    next_offset: int
    ready_bytes: int
    held_count: int
    delivered_count: int
    unacked_count: int
    consumer_count: int
    is_delivering: bool
    is_paused: bool
    has_entries_to_itself: bool
    entry_class: type[QueueEntry]
    lane: Lane

    # ------------------------------------------------------------------------- for lanes

    @abstractmethod
    def acquire(self, count: int) -> list[QueueEntry]:
        """Take the next ``count`` entries of the ordering; fewer only if it is empty then."""

    @abstractmethod
    def count_acquired(self, entries: list[QueueEntry]) -> None:
        """Count entries that a lane itself took out of the ordering, or that were parked."""

    @abstractmethod
    def restore(self, entries: list[QueueEntry]) -> None:
        """Put acquired entries that were never delivered back as they were."""

    @abstractmethod
    def set_header(self, entry: QueueEntry, name: str, number: int) -> None:
        """Show consumers the entry's message with this header; the store keeps it as it came."""

    @abstractmethod
    def settle_delivered(self, entries: list[QueueEntry]) -> None:
        """Settle entries handed to a consumer that does not acknowledge."""

    @abstractmethod
    def count_readings(
        self, count: int, *, unacked_count: int, acked: QueueEntry | None = None
    ) -> None:
        """Count deliveries to readers, which take nothing; ``unacked_count`` of them to ack.

        Of readings that have ended that number is below 0; ``acked``: of the one that its reader
        has acknowledged.
        """

    # ---------------------------------------------------------- for policies and for paging

    @abstractmethod
    def drop(self, entries: list[QueueEntry], reason: DeathReason) -> None:
        """Ready or held entries leave the queue: expired, pushed out or replaced."""

    @abstractmethod
    def purge(self) -> int:
        """Settle all ready and held entries; returns how many. Unacked ones are not touched."""

    @abstractmethod
    def make_held_ready(self, entries: list[QueueEntry]) -> None:
        """Held entries whose time has come take their own places."""

    @abstractmethod
    def take_due(self, entries: list[QueueEntry]) -> list[QueueEntry]:
        """Settle held entries that are to be sent on; returns those that can be read.

        The ledger is still to be told of each, in the same callback of the loop.
        """

    @abstractmethod
    def on_lost(self, entries: list[QueueEntry], *, are_in_place: bool) -> None:
        """Entries leave whose messages cannot be read; the store keeps what it has.

        ``are_in_place``: ready ones stand in the ordering, or are parked.
        """

    @abstractmethod
    def on_pages_left(self, count: int, size_bytes: int, stored_bytes: int, *, reason: str) -> None:
        """Numbers have left their pages, unread: "retention", or "unreadable".

        ``stored_bytes``: as limits count them.
        """


def with_content(
    queue: QueuePort, entries: list[QueueEntry], *, are_in_place: bool = False
) -> list[QueueEntry]:
    """These entries, whose contents are about to be read; without those that cannot be.

    ``are_in_place``: they stand in the ordering, or are parked.
    """
    paging = queue.paging
    if paging is None or not paging.has_stored:
        return entries
    return paging.readable(entries, are_in_place=are_in_place)
