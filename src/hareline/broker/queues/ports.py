"""What the parts of a queue may call of it, and of each other.

Lanes, policies, paging and dead letters are handed the queue as a ``QueuePort`` and know nothing
else of it, so none of them imports ``queues.queue``. The hot path calls some of these methods:
this is an abstract base class and not a protocol, so that a compiled build can call them directly.

The chain of bases: ``entry.EntryQueue`` (for an entry's holder), ``credit.DispatchedQueue`` (for a
window of credit), ``consumer.ConsumedQueue`` (for a consumer), ``QueuePort`` (for the parts),
``books.QueueBooks`` (states and counters), ``admission.AdmittingQueue`` (new messages), ``Queue``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

from hareline.broker.enqueueing import Enqueueing
from hareline.broker.queues.dead_letters.scheduler import DeadLetterSender
from hareline.broker.queues.dispatch.consumer import ConsumedQueue
from hareline.broker.queues.dispatch.lane import MainLane
from hareline.broker.queues.entry import QueueEntry
from hareline.broker.queues.kinds import DeathReason
from hareline.broker.queues.paging.pages import Page, Pager
from hareline.turn import Dispatching


class PagingPort(Pager):
    """What lanes may call of paging. ``has_stored``: some entries may have lost their content."""

    __slots__ = ()

    has_stored: bool

    @abstractmethod
    def watch(self, entry: QueueEntry) -> None:
        """Let the content of an entry that stands in no ordering leave memory later."""

    @abstractmethod
    def readable(
        self, entries: list[QueueEntry], *, are_in_place: bool = False
    ) -> list[QueueEntry]:
        """These entries, whose contents are about to be read; without those that cannot be.

        ``are_in_place``: they stand in the ordering, or are parked.
        """

    @abstractmethod
    def drop_numbers(self, page: Page) -> None:
        """Settle numbers that have left the pages of a log, without reading them."""


class OverflowPort(ABC):
    """What paging may call of the overflow policy.

    ``counts_unacked``: limits count headers, and what is not settled (Broker-J).
    """

    __slots__ = ()

    counts_unacked: bool

    @property
    @abstractmethod
    def memory_window(self) -> tuple[int, int] | None:
        """Entries and octets that may stay in memory; None: no such limit."""

    @abstractmethod
    def on_pages_dropped(self, stored_bytes: int) -> None:
        """Entries that stood in pages are gone; ``stored_bytes`` as limits count them."""


class HoldPort(ABC):
    """What others may call of the policy that holds entries until they are valid."""

    __slots__ = ()

    @abstractmethod
    def entries(self) -> list[QueueEntry]:
        """All held entries, in no order, left where they are."""


class QueuePort(ConsumedQueue, Enqueueing, Dispatching):
    """The counters are read here and written by ``queues.books`` alone.

    ``ready_bytes``: octets of the ready entries' bodies. ``is_delivering``: entries may be on their
    way from the ordering to consumers, so that the queue looks emptier than it is.
    ``has_entries_to_itself``: only the ordering refers to those of its entries that do not expire.
    ``entry_class``: of new entries.
    """

    __slots__ = ()

    next_offset: int
    ready_bytes: int
    held_count: int
    unacked_count: int
    consumer_count: int
    is_delivering: bool
    has_entries_to_itself: bool
    entry_class: type[QueueEntry]
    lane: MainLane
    hold: HoldPort | None
    overflow: OverflowPort | None
    paging: PagingPort | None
    dead_letters: DeadLetterSender | None

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
    def make_held_ready(self, entries: list[QueueEntry]) -> None:
        """Held entries whose time has come take their own places."""

    @abstractmethod
    def take_due(self, entries: list[QueueEntry]) -> list[QueueEntry]:
        """Settle held entries that are to be sent on; returns those that can be read.

        The ledger is still to be told of each, in the same callback of the loop.
        """

    @abstractmethod
    def on_lost(self, entries: list[QueueEntry], *, are_in_place: bool) -> None:
        """Ready or held entries leave whose messages cannot be read; the store keeps what it has.

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
