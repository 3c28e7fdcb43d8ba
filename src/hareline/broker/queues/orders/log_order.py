"""The ordering of a non-destructive queue: a log, which readers walk without taking anything out.

The queue adds, drops and purges as with any other ordering; ``queues.dispatch.readers`` walks over
``entries`` by index. Entries that were settled stay where they are and are passed over, until they
are the majority and are removed, so a reader's index is valid for one ``version`` only; its offset
is always valid.                                                                             [hot]

Invariant: ``entries`` is sorted by offset from ``head`` on; what is before it is settled, or stands
for an entry that was taken. ``dead_count`` counts these, and the settled ones behind ``head``.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, insort
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from operator import attrgetter
from typing import TYPE_CHECKING, Final, cast

from hareline.broker.queues.entry import SETTLED, EntryQueue, QueueEntry
from hareline.broker.queues.orders.order import EntryOrder
from hareline.storage.interface import SPOOLED

if TYPE_CHECKING:
    from hareline.message import Message

DEAD_ALLOWED: Final = 64  # settled entries left standing, beyond as many as are live
INSERTED_MAX: Final = 64  # entries put in one by one; for more the whole log is rebuilt

_TAKEN: Final = QueueEntry(cast("EntryQueue", None), cast("Message", None), -1)
_TAKEN.state = SETTLED
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
        if count >= len(self):
            taken = self._live()
            self._replace([])
            return taken
        entries = self.entries
        taken = []
        index = self.head
        while len(taken) < count:
            entry = entries[index]
            index += 1
            if entry.state != SETTLED:
                taken.append(entry)
        entries[self.head : index] = [_TAKEN] * (index - self.head)
        self.head = index
        self.dead_count += len(taken)
        if 2 * index > len(entries):  # so the rest is moved only as often as it has halved
            self._cut_head_off()
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
            self._cut_head_off()
            for entry in back:
                insort(known, entry, key=_offset_of)
            return
        self._replace(sorted(self._live() + back, key=_offset_of))

    def discard(self, entry: QueueEntry) -> None:
        self.dead_count += 1
        if self.dead_count > len(self) + DEAD_ALLOWED:
            self._replace(self._live())

    def least(self) -> QueueEntry | None:
        return self.peek()

    def rank(self, entry: QueueEntry) -> int:
        return entry.offset

    def _live(self) -> list[QueueEntry]:
        return [entry for entry in self.entries[self.head :] if entry.state != SETTLED]

    def _cut_head_off(self) -> None:
        del self.entries[: self.head]
        self.dead_count -= self.head
        self.head = 0
        self.version += 1

    def _replace(self, live: list[QueueEntry]) -> None:
        self.entries[:] = live  # kept as it is: ``add`` is a method of this very list
        self.head = 0
        self.dead_count = 0
        self.version += 1

    # ----------------------------------------------------------------- for its readers

    def index_of(self, offset: int) -> int:
        """Index of the first entry with this offset or a later one; at most the end."""
        return bisect_left(self.entries, offset, lo=self.head, key=_offset_of)

    def index_since(self, arrival_ms: int) -> int:
        """Index of the first entry that arrived then or later, in epoch milliseconds.

        Arrivals grow with the offset; where the wall clock was set back they do not for a while,
        and the answer is then one of the places where they cross this instant.
        """
        return bisect_left(self.entries, arrival_ms, lo=self.head, key=_arrival_of)

    # ---------------------------------------------------------- for reads of ranges

    @property
    def first_offset(self) -> int | None:
        """The lowest offset that is there; None if nothing is."""
        entry = self.peek()
        return None if entry is None else entry.offset

    def positions(self, start: int, end: int) -> tuple[array[int], array[int]]:
        """Offsets and journal positions of the entries from offset ``start`` to before ``end``.

        Position 0: not in the journal. For some 100,000 entries at most, which are all looked at.
        """
        offsets, positions = array("Q"), array("Q")
        for entry in islice(self.entries, self.index_of(start), self.index_of(end)):
            if entry.state != SETTLED:
                offsets.append(entry.offset)
                position = entry.message.position
                positions.append(position if 0 < position < SPOOLED else 0)
        return offsets, positions

    def entries_between(self, start: int, end: int) -> list[QueueEntry]:
        """The entries from offset ``start`` to before ``end``."""
        some = islice(self.entries, self.index_of(start), self.index_of(end))
        return [entry for entry in some if entry.state != SETTLED]

    def offset_since(self, arrival_ms: int) -> int | None:
        """The offset of the first entry that arrived then or later; None if none did.

        ``arrival_ms``: epoch milliseconds, see ``index_since``.
        """
        for entry in islice(self.entries, self.index_since(arrival_ms), None):
            if entry.state != SETTLED:
                return entry.offset
        return None

    def __len__(self) -> int:
        return len(self.entries) - self.dead_count

    def __iter__(self) -> Iterator[QueueEntry]:
        rest = islice(self.entries, self.head, None)
        return (entry for entry in rest if entry.state != SETTLED)
