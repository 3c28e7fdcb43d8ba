"""The ordering of a non-destructive queue: a log, which readers walk without taking anything out.

The queue adds, drops and purges as with any other ordering; ``broker.queues.reading`` walks over
``entries`` by index. Entries that were settled stay where they are, are passed over by whoever
meets them, and are swept out when they are the majority, so a reader's index is good only for one
``version``; its offset is good for ever.                                                    [hot]

Invariant: ``entries`` is sorted by offset; the ones before ``head`` are settled.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable, Iterable, Iterator
from operator import attrgetter
from typing import Final

from hareline.broker.queues.entry import SETTLED, QueueEntry
from hareline.broker.queues.order import EntryOrder

DEAD_ALLOWED: Final = 64  # settled entries left standing besides as many as there are living ones
INSERTED_MAX: Final = 64  # entries put in one by one; for more the whole log is made anew

_offset_of: Final = attrgetter("offset")
_arrival_of: Final = attrgetter("message.arrival_ms")


class LogOrder(EntryOrder):
    """``entries`` is always the same list; ``version`` changes when others than the last move."""

    __slots__ = ("dead_count", "entries", "head", "version")

    def __init__(self) -> None:
        self.entries: list[QueueEntry] = []
        self.head = 0
        self.dead_count = 0
        self.version = 0

    # ------------------------------------------------------------------ the contract

    @property
    def add(self) -> Callable[[QueueEntry], None]:
        return self.entries.append

    def peek(self) -> QueueEntry | None:
        entries = self.entries
        head, end = self.head, len(entries)
        while head < end and entries[head].state == SETTLED:
            head += 1
        self.head = head
        return entries[head] if head < end else None

    def take(self, count: int) -> list[QueueEntry]:
        if count <= 0:
            return []
        entries = self.entries
        if count >= len(self):
            taken = [entry for entry in entries if entry.state != SETTLED]
            self._replace([])
            return taken
        taken = []
        index = self.head
        while len(taken) < count:
            entry = entries[index]
            index += 1
            if entry.state != SETTLED:
                taken.append(entry)
        self._replace([entry for entry in entries[index:] if entry.state != SETTLED])
        return taken

    def restore(self, entries: Iterable[QueueEntry]) -> None:
        known = self.entries
        back = sorted(entries, key=_offset_of)
        if not back:
            return
        if not known or back[0].offset > known[-1].offset:
            known += back
            return
        if len(back) <= INSERTED_MAX:
            for entry in back:
                insort(known, entry, key=_offset_of)
            self.head = 0
            self.version += 1
            return
        self._replace(
            sorted([entry for entry in known if entry.state != SETTLED] + back, key=_offset_of)
        )

    def discard(self, entry: QueueEntry) -> None:
        self.dead_count += 1
        if self.dead_count > len(self) + DEAD_ALLOWED:
            self._replace([entry for entry in self.entries if entry.state != SETTLED])

    def least(self) -> QueueEntry | None:
        return self.peek()

    def rank(self, entry: QueueEntry) -> int:
        return entry.offset

    def _replace(self, living: list[QueueEntry]) -> None:
        self.entries[:] = living  # kept as it is: ``add`` is a method of this very list
        self.head = 0
        self.dead_count = 0
        self.version += 1

    # ----------------------------------------------------------------- for its readers

    def index_of(self, offset: int) -> int:
        """Where the first entry stands whose offset is this or a later one; at most the end."""
        return bisect_left(self.entries, offset, key=_offset_of)

    def index_since(self, arrival_ms: int) -> int:
        """Where the first entry stands that arrived then or later, in epoch milliseconds.

        Arrivals grow with the offset; where the wall clock was set back they do not for a while,
        and the answer is then one of the places where they cross this instant.
        """
        return bisect_left(self.entries, arrival_ms, key=_arrival_of)

    def __len__(self) -> int:
        return len(self.entries) - self.dead_count

    def __iter__(self) -> Iterator[QueueEntry]:
        return (entry for entry in self.entries if entry.state != SETTLED)
