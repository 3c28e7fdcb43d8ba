"""First in, first out.

New entries go to the end of a deque. What was taken and came back waits in a heap by offset: FIFO
takes in offset order, so anything that came back precedes everything that was never taken, and
"its original place" costs O(log n) in the number of returned entries only.               [hot]
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from heapq import heapify, heappop, heappush

from hareline.broker.queues.entry import QueueEntry
from hareline.broker.queues.order import EntryOrder


class FifoOrder(EntryOrder):
    __slots__ = ("_fresh", "_returned")

    def __init__(self) -> None:
        self._fresh: deque[QueueEntry] = deque()
        self._returned: list[tuple[int, QueueEntry]] = []

    @property
    def add(self) -> Callable[[QueueEntry], None]:
        return self._fresh.append

    def peek(self) -> QueueEntry | None:
        if self._returned:
            return self._returned[0][1]
        return self._fresh[0] if self._fresh else None

    def take(self, count: int) -> list[QueueEntry]:
        if self._returned:
            return self._take_returned_first(count)
        fresh = self._fresh
        if count >= len(fresh):
            entries = list(fresh)
            fresh.clear()
            return entries
        popleft = fresh.popleft
        return [popleft() for _ in range(count)]

    def _take_returned_first(self, count: int) -> list[QueueEntry]:
        returned = self._returned
        entries = [heappop(returned)[1] for _ in range(min(count, len(returned)))]
        if len(entries) < count:
            entries += self.take(count - len(entries))
        return entries

    def restore(self, entries: Iterable[QueueEntry]) -> None:
        returned = self._returned
        pairs = [(entry.offset, entry) for entry in entries]
        if len(pairs) * 4 > len(returned):
            returned += pairs
            heapify(returned)
        else:
            for pair in pairs:
                heappush(returned, pair)

    def __len__(self) -> int:
        return len(self._fresh) + len(self._returned)
