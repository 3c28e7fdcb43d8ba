"""First in, first out.

New entries go to the end of a deque. What was taken and came back waits in a heap by offset, so
"its original place" costs O(log n) in the number of returned entries only. Entries that were
settled where they stand are passed over when they surface, and swept out when they are the
majority or keep too much memory.                                                            [hot]

Invariant: ``_fresh`` is sorted by offset.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from heapq import heapify, heappop, heappush, merge
from typing import Final

from hareline.broker.queues.entry import SETTLED, QueueEntry
from hareline.broker.queues.order import EntryOrder

DEAD_ALLOWED: Final = 64  # settled entries left standing, besides as many as are living
# Octets that they may keep from being freed. Above it, a sixteenth as many as are living are
# enough to sweep, so that each pays for a look at 16 entries and no more.
DEAD_BYTES_ALLOWED: Final = 4_194_304


class FifoOrder(EntryOrder):
    __slots__ = ("_dead", "_dead_bytes", "_fresh", "_returned")

    def __init__(self) -> None:
        self._fresh: deque[QueueEntry] = deque()
        self._returned: list[tuple[int, QueueEntry]] = []
        self._dead = 0
        self._dead_bytes = 0  # since the last sweep, those passed over included

    @property
    def add(self) -> Callable[[QueueEntry], None]:
        return self._fresh.append

    def peek(self) -> QueueEntry | None:
        if self._dead:
            self._pass_dead()
        fresh, returned = self._fresh, self._returned
        if returned and (not fresh or returned[0][0] < fresh[0].offset):
            return returned[0][1]
        return fresh[0] if fresh else None

    def take(self, count: int) -> list[QueueEntry]:
        if self._returned or self._dead:
            return self._take_one_by_one(count)
        fresh = self._fresh
        if count >= len(fresh):
            entries = list(fresh)
            fresh.clear()
            return entries
        popleft = fresh.popleft
        return [popleft() for _ in range(count)]

    def _take_one_by_one(self, count: int) -> list[QueueEntry]:
        fresh, returned = self._fresh, self._returned
        entries: list[QueueEntry] = []
        while len(entries) < count and (fresh or returned):
            if returned and (not fresh or returned[0][0] < fresh[0].offset):
                entry = heappop(returned)[1]
            elif returned or self._dead:
                entry = fresh.popleft()
            else:
                return entries + self.take(count - len(entries))
            if entry.state == SETTLED:
                self._dead -= 1
            else:
                entries.append(entry)
        return entries

    def restore(self, entries: Iterable[QueueEntry]) -> None:
        returned, fresh = self._returned, self._fresh
        pairs = sorted([(entry.offset, entry) for entry in entries])
        if not returned and pairs and (not fresh or pairs[-1][0] < fresh[0].offset):
            fresh.extendleft([entry for _, entry in reversed(pairs)])
        elif len(pairs) * 4 > len(returned):
            returned += pairs
            heapify(returned)
        else:
            for pair in pairs:
                heappush(returned, pair)

    def discard(self, entry: QueueEntry) -> None:
        self._dead += 1
        fresh = self._fresh
        if fresh and fresh[0] is entry:
            self._pass_dead()
            return
        self._dead_bytes += entry.message.size
        living = len(self)
        if self._dead > living + DEAD_ALLOWED or (
            self._dead_bytes > DEAD_BYTES_ALLOWED and self._dead * 16 > living
        ):
            self._sweep()

    def least(self) -> QueueEntry | None:
        return self.peek()

    def rank(self, entry: QueueEntry) -> int:
        return entry.offset

    def _pass_dead(self) -> None:
        fresh, returned = self._fresh, self._returned
        while fresh and fresh[0].state == SETTLED:
            fresh.popleft()
            self._dead -= 1
        while returned and returned[0][1].state == SETTLED:
            heappop(returned)
            self._dead -= 1

    def _sweep(self) -> None:
        living = [entry for entry in self._fresh if entry.state != SETTLED]
        self._fresh.clear()  # kept as it is: ``add`` is a method of this very deque
        self._fresh.extend(living)
        self._returned = [pair for pair in self._returned if pair[1].state != SETTLED]
        heapify(self._returned)
        self._dead = 0
        self._dead_bytes = 0

    def __len__(self) -> int:
        return len(self._fresh) + len(self._returned) - self._dead

    def __iter__(self) -> Iterator[QueueEntry]:
        returned = (entry for _, entry in sorted(self._returned))
        for entry in merge(returned, self._fresh, key=lambda entry: entry.offset):
            if entry.state != SETTLED:
                yield entry
