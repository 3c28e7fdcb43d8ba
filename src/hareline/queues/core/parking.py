"""Parking of ready entries that no consumer may have now, and the search for the best one.

``placing`` parks an entry when its group has another owner, or when no ready consumer's selector is
true of it. Entries that match the same selectors and belong to the same group wait in one
``ParkedRun``, by rank; the heads of the runs stand in heaps by who may have them: one owner, or any
consumer where the group has none. So the best parked entry for a consumer is found in O(log n),
whatever waits.                                                                              [hot]

Invariant: the head of a run stands in the heap of its group's owner. Older heads may stand there
too, or in heaps of former owners; they do not match any more and are dropped when they surface.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from heapq import heapify, heappop, heappush, heapreplace
from itertools import count as counter
from operator import attrgetter
from typing import Any, Final

from hareline.queues.core.entry import PARKED, QueueEntry
from hareline.queues.core.groups import Group, ParkedRun, Ranked

Head = tuple[Any, ParkedRun]

HEADS_SWEPT_AT: Final = 64  # a heap of heads that grows beyond this is cleared of old ones
DEAD_ALLOWED: Final = 64  # settled entries left in their runs, beyond as many as there are parked


class Heads:
    """Heads of the runs whose groups have one owner, the best first; some of them are old."""

    __slots__ = ("_heap", "_sweep_at")

    def __init__(self) -> None:
        self._heap: list[Head] = []
        self._sweep_at = HEADS_SWEPT_AT

    def add(self, rank: Any, run: ParkedRun, owner: object | None) -> None:
        heap = self._heap
        heappush(heap, (rank, run))
        if len(heap) > self._sweep_at:
            living = {run: head for _, run in heap if (head := _head(run, owner)) is not None}
            heap[:] = [(head[0], run) for run, head in living.items()]
            heapify(heap)
            self._sweep_at = max(HEADS_SWEPT_AT, 2 * len(heap))

    def top(self, owner: object | None) -> Head | None:
        """The best head that is still one and belongs to this owner's groups."""
        heap = self._heap
        while heap:
            rank, run = heap[0]
            head = _head(run, owner)
            if head is None:
                heappop(heap)
            elif head[0] == rank:
                return heap[0]
            else:
                heapreplace(heap, (head[0], run))
        return None

    def runs(self) -> list[ParkedRun]:
        return [run for _, run in self._heap]

    def all(self) -> list[Head]:
        """Heads of runs, old ones too, and some runs more than once: a copy, for operators."""
        return self._heap.copy()


def _head(run: ParkedRun, owner: object | None) -> Ranked | None:
    """The head of a run; None if it is empty, or its group has another owner."""
    group = run.group
    assert group is not None, "only groups have owners"
    if group.owner is not owner:
        return None
    head = run.head()
    if head is None and group.runs.get(run.mask) is run:
        del group.runs[run.mask]  # they would keep each other alive
    return head


class Parking:
    """All parked entries of one queue; ``count`` is their number.

    An entry's ``mask`` has one bit for each selector that is true. ``worth``: the function of the
    queue's ordering by which a full queue gives entries up. ``clearings``: how often all were
    removed at once, to be parked in other runs.
    """

    __slots__ = (
        "_by_worth",
        "_dead",
        "_heads",
        "_loose",
        "_numbers",
        "_worth",
        "clearings",
        "count",
    )

    def __init__(self, worth: Callable[[QueueEntry], Any]) -> None:
        self._loose: dict[int, ParkedRun] = {}  # of no group, by mask
        self._heads: dict[object | None, dict[int, Heads]] = {}  # of groups, by owner and mask
        self.count = 0
        self.clearings = 0
        self._dead = 0  # settled since the last sweep, also those that have surfaced
        self._worth = worth
        # heap by worth, with a number for entries that were parked twice; made for a full queue
        self._by_worth: list[tuple[Any, int, QueueEntry]] | None = None
        self._numbers = counter()

    def park(self, rank: Any, entry: QueueEntry, mask: int, group: Group | None) -> None:
        """Add an entry with this rank in the queue's ordering."""
        self.count += 1
        if self._by_worth is not None:
            heappush(self._by_worth, (self._worth(entry), next(self._numbers), entry))
            self._check_by_worth(self._by_worth)
        runs = self._loose if group is None else group.runs
        run = runs.get(mask)
        if run is None:
            run = runs[mask] = ParkedRun(mask, group)
        run.add(rank, entry)
        if group is not None:
            head = run.head()
            if head is not None and head[1] is entry:
                self._show(group.owner, rank, run)

    def _show(self, owner: object | None, rank: Any, run: ParkedRun) -> None:
        by_mask = self._heads.get(owner)
        if by_mask is None:
            by_mask = self._heads[owner] = {}
        heads = by_mask.get(run.mask)
        if heads is None:
            heads = by_mask[run.mask] = Heads()
        heads.add(rank, run, owner)

    def on_owner_changed(self, group: Group) -> bool:
        """Show its parked entries to the new owner, or to all; True if there are any."""
        has_parked = False
        for run in list(group.runs.values()):
            head = run.head()
            if head is None:
                del group.runs[run.mask]
            else:
                has_parked = True
                self._show(group.owner, head[0], run)
        return has_parked

    def forget_owner(self, owner: object) -> None:
        """Drop the heads of an owner that has no groups any more."""
        self._heads.pop(owner, None)

    def best(self, bit: int, owner: object | None) -> Head | None:
        """Rank and run of the best entry for a consumer with this bit, or for basic.get."""
        best: Head | None = None
        for mask, run in self._loose.items():
            if mask & bit:
                head = run.head()
                if head is not None and (best is None or head[0] < best[0]):
                    best = (head[0], run)
        for holder in (None,) if owner is None else (None, owner):
            by_mask = self._heads.get(holder)
            if by_mask:
                for mask, heads in by_mask.items():
                    if mask & bit:
                        top = heads.top(holder)
                        if top is not None and (best is None or top[0] < best[0]):
                            best = top
        return best

    def take(self, run: ParkedRun) -> QueueEntry:
        """Remove and return the head of a run that ``best`` has just given."""
        self.count -= 1
        if self._by_worth is not None:
            self._check_by_worth(self._by_worth)
        entry = run.take()
        head = run.head()
        group = run.group
        if head is not None:
            if group is not None:
                self._show(group.owner, head[0], run)
        elif group is None:
            del self._loose[run.mask]
        else:
            del group.runs[run.mask]
        return entry

    def least(self) -> QueueEntry | None:
        """The parked entry that a full queue gives up first, left where it is."""
        by_worth = self._by_worth
        if by_worth is None:
            worth, numbers = self._worth, self._numbers
            by_worth = [(worth(entry), next(numbers), entry) for entry in self.entries()]
            heapify(by_worth)
            self._by_worth = by_worth
        while by_worth and by_worth[0][2].state != PARKED:
            heappop(by_worth)
        return by_worth[0][2] if by_worth else None

    def _check_by_worth(self, by_worth: list[tuple[Any, int, QueueEntry]]) -> None:
        if len(by_worth) > 2 * self.count + DEAD_ALLOWED:
            self._by_worth = None  # most have left; ``least`` makes it again

    def on_dropped(self) -> None:
        """A parked entry was settled; it leaves its run when it surfaces or by a sweep."""
        assert self.count > 0, "nothing is parked here"
        self.count -= 1
        self._dead += 1
        if self._dead > self.count + DEAD_ALLOWED:
            self._sweep()

    def _sweep(self) -> None:
        for run in self._all_runs():
            run.sweep()
            runs = self._loose if run.group is None else run.group.runs
            if run.is_empty and runs.get(run.mask) is run:
                del runs[run.mask]
        self._dead = 0
        self._by_worth = None

    def _all_runs(self) -> dict[ParkedRun, None]:
        runs = dict.fromkeys(self._loose.values())
        for by_mask in self._heads.values():
            for heads in by_mask.values():
                runs.update(dict.fromkeys(heads.runs()))
        return runs

    def entries(self) -> list[QueueEntry]:
        """Every parked entry, in no order, left where it is."""
        return [entry for run in self._all_runs() for entry in run.entries()]

    def ranked(self) -> list[Ranked]:
        """Rank and entry of all, in no order, settled ones too: copied at once, for operators."""
        ranked: list[Ranked] = []
        for run in self._all_runs():
            ranked += run.ranked()
        return ranked

    def runs(self) -> Iterator[ParkedRun]:
        """The runs that there are at the first of them, each once, in no order: for operators."""
        loose = list(self._loose.values())
        heaps = [heads.all() for by_mask in self._heads.values() for heads in by_mask.values()]
        yield from loose
        seen: set[ParkedRun] = set()
        for heap in heaps:
            for _, run in heap:
                if run not in seen:
                    seen.add(run)
                    yield run

    def take_all(self) -> list[QueueEntry]:
        """Remove and return every parked entry, in no order."""
        self.clearings += 1
        entries = self.entries()
        for run in self._all_runs():
            run.clear()
            if run.group is not None:
                run.group.runs.clear()
        self._loose.clear()
        self._heads.clear()
        self.count = self._dead = 0
        self._by_worth = None
        return entries


NO_PARKING: Final = Parking(attrgetter("offset"))  # of all lanes that park nothing
