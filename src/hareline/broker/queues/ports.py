"""What the parts of a queue may call of it.

Lanes, policies, paging and dead letters are handed the queue as a ``QueuePort`` and know nothing
else of it, so none of them imports ``queues.queue``. The hot path calls some of these methods:
this is an abstract base class and not a protocol, so that a compiled build can call them directly.

The chain of bases: ``entry.EntryQueue`` (for whoever has an entry), ``consumer.ConsumedQueue`` (for
a consumer), ``QueuePort`` (for the parts). ``queues.queue.Queue`` is the one queue behind them.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING

from hareline.broker.queues.dispatch.consumer import ConsumedQueue
from hareline.broker.queues.entry import QueueEntry
from hareline.broker.queues.kinds import DeathReason

if TYPE_CHECKING:
    from hareline.message import Message


class QueuePort(ConsumedQueue):
    """The counters are read here and written by ``queues.books`` alone.

    ``ready_bytes``: octets of the ready entries' bodies. ``is_delivering``: entries may be on their
    way from the ordering to consumers, so that the queue looks emptier than it is.
    """

    __slots__ = ()

    next_offset: int
    ready_bytes: int
    held_count: int
    unacked_count: int
    consumer_count: int
    has_entries_to_itself: bool
    entry_class: type[QueueEntry]
    is_deleted: bool
    is_delivering: bool

    @abstractmethod
    def put(self, message: Message) -> bool:
        """Take in a message with all that this queue does to new ones; False: refused.

        A message that is silently dropped at once (overflow "discard") was not refused.
        """

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
    def count_readings(self, count: int, *, unacked_count: int) -> None:
        """Count deliveries to readers, which take nothing; ``unacked_count`` of them to ack."""

    @abstractmethod
    def count_reading_settled(self) -> None:
        """Count one reading less that is not acknowledged."""

    @abstractmethod
    def ready_entries(self) -> list[QueueEntry]:
        """Every ready entry, in order, left where it is."""

    @abstractmethod
    def watch(self, entry: QueueEntry) -> None:
        """Let the content of an entry that stands in no ordering leave memory later."""

    @property
    @abstractmethod
    def has_stored_contents(self) -> bool:
        """True if there may be entries whose content has to be read first."""

    @abstractmethod
    def with_content(
        self, entries: list[QueueEntry], *, are_in_place: bool = False
    ) -> list[QueueEntry]:
        """These entries, whose contents are about to be read; without those that cannot be.

        ``are_in_place``: they stand in the ordering, or are parked.
        """

    # ---------------------------------------------------------------------- for policies

    @abstractmethod
    def drop(self, entries: list[QueueEntry], reason: DeathReason) -> None:
        """Ready or held entries leave the queue: expired, pushed out or replaced."""

    @abstractmethod
    def dead_letter_refused(self, message: Message) -> None:
        """Publish a message that a full queue refuses where its dead letters go, if anywhere."""

    @abstractmethod
    def make_held_ready(self, entries: list[QueueEntry]) -> None:
        """Held entries whose time has come take their own places."""

    @abstractmethod
    def take_due(self, entries: list[QueueEntry]) -> list[QueueEntry]:
        """Settle held entries that are to be sent on; returns those that can be read.

        The ledger is still to be told of each, in the same callback of the loop.
        """

    @property
    @abstractmethod
    def is_holding(self) -> bool:
        """True if entries may be held until they are valid."""

    @abstractmethod
    def may_deliver(self, entry: QueueEntry) -> bool:
        """True if a dispatch now could hand this ready entry to a consumer."""

    @abstractmethod
    def least_ready(self) -> QueueEntry | None:
        """The ready entry that a full queue gives up first."""

    # ------------------------------------------------------------------------ for paging

    @property
    @abstractmethod
    def memory_window(self) -> tuple[int, int] | None:
        """Entries and octets that the overflow policy leaves in memory; None: no such limit."""

    @property
    @abstractmethod
    def counts_stored_bytes(self) -> bool:
        """True if limits count headers, and what is not settled (Broker-J)."""

    @abstractmethod
    def unordered_entries(self) -> list[QueueEntry]:
        """Every parked or held entry, in no order, left where it is."""

    @abstractmethod
    def on_lost(self, entries: list[QueueEntry], *, are_in_place: bool) -> None:
        """Ready or held entries leave whose messages cannot be read; the store keeps what it has.

        ``are_in_place``: ready ones stand in the ordering, or are parked.
        """

    @abstractmethod
    def on_lost_pages(self, count: int, size_bytes: int, stored_bytes: int) -> None:
        """Entries that stood in pages cannot be read; ``stored_bytes`` as limits count them."""

    @abstractmethod
    def on_pages_dropped(self, stored_bytes: int) -> None:
        """Entries that stood in pages were settled; ``stored_bytes`` as limits count them."""
