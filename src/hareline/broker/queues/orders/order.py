"""EntryOrder: the whole contract of a queue type.

An ordering holds the ready entries of one queue and says which is next. It knows nothing of
consumers, credit or messages' lifetimes; the queue and its dispatcher call it and nobody else does.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from typing import Any, ClassVar

from hareline.broker.queues.entry import QueueEntry, RankedEntry


class EntryOrder(ABC):
    """Ready entries in delivery order. ``len()`` is their number, iteration shows them in order.

    ``entry_class``: what its entries must be at least.
    """

    __slots__ = ()

    entry_class: ClassVar[type[QueueEntry]] = RankedEntry

    @property
    @abstractmethod
    def add(self) -> Callable[[Any], None]:
        """The function that inserts a new entry; a property so that it may be a C method."""

    @abstractmethod
    def peek(self) -> QueueEntry | None:
        """The next entry, left where it is."""

    @abstractmethod
    def take(self, count: int) -> list[QueueEntry]:
        """Remove and return the next ``count`` entries, fewer when there are fewer."""

    @abstractmethod
    def restore(self, entries: Iterable[QueueEntry]) -> None:
        """Put in entries that were taken, each at its own place."""

    @abstractmethod
    def discard(self, entry: QueueEntry) -> None:
        """An entry that stands here has just been settled: it counts no more and never comes out.

        Called once for it, with its state already SETTLED, so an ordering may leave it where it is
        and pass over it later.
        """

    @abstractmethod
    def least(self) -> QueueEntry | None:
        """The entry that a full queue gives up first, left where it is."""

    def worth(self, entry: QueueEntry) -> Any:
        """What ``least`` goes by, as a value: of all entries the smallest goes first.

        The offset unless the ordering says otherwise. For entries that have been added, in the
        ordering or not.
        """
        return entry.offset

    @abstractmethod
    def rank(self, entry: QueueEntry) -> Any:
        """The entry's place as a value: the smallest is next, no two are equal, it never changes.

        For entries that have been added, in the ordering or not.
        """

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def __iter__(self) -> Iterator[QueueEntry]: ...
