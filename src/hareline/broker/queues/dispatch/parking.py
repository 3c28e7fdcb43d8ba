"""Where ready entries wait that nobody may have now, and how the best of them is found.

``selective`` parks an entry when its group is another's, or when no ready consumer's selector is
true of it. Entries that match the same selectors and belong to the same group wait in one *run*, by
rank; the heads of the runs stand in heaps by who may have them: nobody's group, or one
owner's. So finding the best parked entry for a consumer costs O(log n), whatever waits.    [hot]

Invariant: a head of a run stands in the heap of its group's owner. Older heads may stand there too,
or in heaps of former owners; they are known by not matching and are dropped when they surface.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from heapq import heapify, heappop, heappush, heapreplace
from itertools import count
from typing import TYPE_CHECKING, Any, Final

from hareline.broker.queues.entry import PARKED, SETTLED, QueueEntry

if TYPE_CHECKING:
    from hareline.broker.queues.dispatch.groups import Group

Head = tuple[Any, "ParkedRun"]
Ranked = tuple[Any, QueueEntry]

HEADS_SWEPT_AT: Final = 64  # a heap of heads that grows beyond this is cleared of old ones
HEAP_ALONE_MAX: Final = 32  # entries of a run that has no line yet, which small groups never need
DEAD_ALLOWED: Final = 64  # settled entries left in their runs, besides as many as are living


class ParkedRun:
    """Parked entries of one group (None: of no group) that match the same selectors.

    A few stand in a heap by rank. What comes to many others and behind them all, as in FIFO nearly
    everything does, stands in a line: its end costs the same at any depth.
    """

    __slots__ = ("_heap", "_line", "group", "mask")

    def __init__(self, mask: int, group: Group | None) -> None:
        self.mask = mask
        self.group = group
        self._heap: list[Ranked] = []
        self._line: deque[Ranked] | None = None

    def add(self, rank: Any, entry: QueueEntry) -> None:
        line = self._line
        if line is None:
            if len(self._heap) < HEAP_ALONE_MAX:
                heappush(self._heap, (rank, entry))
                return
            line = self._line = deque()
        if not line or rank > line[-1][0]:
            line.append((rank, entry))
        else:
            heappush(self._heap, (rank, entry))

    def head(self) -> Ranked | None:
        """Rank and entry of the first that is still there."""
        heap, line = self._heap, self._line
        while heap and heap[0][1].state == SETTLED:
            heappop(heap)
        if not line:
            return heap[0] if heap else None
        while line and line[0][1].state == SETTLED:
            line.popleft()
        if heap and (not line or heap[0][0] < line[0][0]):
            return heap[0]
        return line[0] if line else None

    def take(self) -> QueueEntry:
        """Remove what ``head`` has just shown."""
        heap, line = self._heap, self._line
        if line and not (heap and heap[0][0] < line[0][0]):
            return line.popleft()[1]
        return heappop(heap)[1]

    @property
    def is_empty(self) -> bool:
        return self.head() is None

    def entries(self) -> list[QueueEntry]:
        """Those that are still there, in no order."""
        return [entry for _, entry in (*self._heap, *(self._line or ())) if entry.state != SETTLED]

    def sweep(self) -> None:
        """Let go of settled entries."""
        self._heap = [pair for pair in self._heap if pair[1].state != SETTLED]
        heapify(self._heap)
        if self._line is not None:
            self._line = deque([pair for pair in self._line if pair[1].state != SETTLED])

    def clear(self) -> None:
        self._heap.clear()
        self._line = None

    def __lt__(self, other: ParkedRun) -> bool:
        """For heads of the same rank, all but one of which are old; so any order will do."""
        return id(self) < id(other)


class Heads:
    """Heads of runs of groups with one owner, the best first; some of them are old."""

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
        """The first of these heads that is one, and this owner's."""
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


def _head(run: ParkedRun, owner: object | None) -> Ranked | None:
    """The head of a run whose group this owner has."""
    group = run.group
    assert group is not None, "only groups have owners"
    if group.owner is not owner:
        return None
    head = run.head()
    if head is None and group.runs.get(run.mask) is run:
        del group.runs[run.mask]  # they would keep each other alive
    return head


class Parking:
    """All runs of one queue. An entry's ``mask`` has one bit for each selector that is true.

    ``worth``: the function of the queue's ordering by which a full queue gives entries up.
    """

    __slots__ = ("_by_worth", "_dead", "_heads", "_living", "_loose", "_numbers", "_worth")

    def __init__(self, worth: Callable[[QueueEntry], Any]) -> None:
        self._loose: dict[int, ParkedRun] = {}  # of no group, by mask
        self._heads: dict[object | None, dict[int, Heads]] = {}  # of groups, by owner and mask
        self._living = 0
        self._dead = 0  # since the last sweep, those that have surfaced included
        self._worth = worth
        # entries by worth and, for those that were parked twice, a number; made for a full queue
        self._by_worth: list[tuple[Any, int, QueueEntry]] | None = None
        self._numbers = count()

    def park(self, rank: Any, entry: QueueEntry, mask: int, group: Group | None) -> None:
        self._living += 1
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
        """Show its parked entries to the new owner, or to all; True when there are any."""
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
        """It owns nothing any more."""
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
        """Remove the head of a run that ``best`` has just given."""
        self._living -= 1
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
        """Of all parked entries the one that is worth least."""
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
        if len(by_worth) > 2 * self._living + DEAD_ALLOWED:
            self._by_worth = None  # most have left; it is made anew when somebody asks

    def on_dropped(self) -> None:
        """An entry was settled where it is; it leaves its run when it surfaces or by a sweep."""
        self._living -= 1
        self._dead += 1
        if self._dead > self._living + DEAD_ALLOWED:
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

    def take_all(self) -> list[QueueEntry]:
        """Every parked entry, in no order."""
        entries = self.entries()
        for run in self._all_runs():
            run.clear()
            if run.group is not None:
                run.group.runs.clear()
        self._loose.clear()
        self._heads.clear()
        self._living = self._dead = 0
        self._by_worth = None
        return entries
