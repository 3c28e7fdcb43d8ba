"""EntryOrder: the whole contract of a queue type.

An ordering holds the ready entries of one queue and says which is next. It knows nothing of
consumers, credit or messages' lifetimes; the queue and its dispatcher call it and nobody else does.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable

from hareline.broker.queues.entry import QueueEntry


class EntryOrder(ABC):
    """Ready entries in delivery order. ``len()`` is their number."""

    __slots__ = ()

    @property
    @abstractmethod
    def add(self) -> Callable[[QueueEntry], None]:
        """The function that inserts a new entry; a property so that it may be a C method."""

    @abstractmethod
    def peek(self) -> QueueEntry | None:
        """The next entry, left where it is."""

    @abstractmethod
    def take(self, count: int) -> list[QueueEntry]:
        """Remove and return the next ``count`` entries, fewer when there are fewer."""

    @abstractmethod
    def restore(self, entries: Iterable[QueueEntry]) -> None:
        """Put back entries that were taken, each at its own place."""

    @abstractmethod
    def __len__(self) -> int: ...
