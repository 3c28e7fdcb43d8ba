"""Calls that parts of a queue may make of its paging, its overflow policy and its hold.

``ports.QueuePort`` inherits these types, and the queue gives each the class of the part. The
compiled build leaves this module out: an attribute of a compiled class is declared once, with one
type.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

from hareline.queues.core.dead_letter_scheduler import DeadLetterSender
from hareline.queues.core.entry import QueueEntry
from hareline.queues.core.pages import Page, Pager


class PagingPort(Pager):
    """Calls of lanes to paging. ``has_stored``: some entries may have lost their content."""

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
    """Calls of paging to the overflow policy.

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
    """Calls of others to the policy that holds entries until they are valid."""

    __slots__ = ()

    @abstractmethod
    def entries(self) -> list[QueueEntry]:
        """All held entries, in no order, left where they are."""


class QueueParts:
    """The parts of a queue by their ports; the queue itself knows them by their classes."""

    __slots__ = ()

    hold: HoldPort | None
    overflow: OverflowPort | None
    paging: PagingPort | None
    dead_letters: DeadLetterSender | None
