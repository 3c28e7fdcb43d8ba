"""Sorted by a header (``x-sort-key``), whatever the order of arrival.

Entries with the same key stand in one *pile*, first in, first out, and a heap holds the places of
the piles. So an entry whose key is there already costs one look-up, at any depth, and only new keys
are compared with others. A pile of one is the entry itself and a usual pile a bare deque, which
keeps a million different keys small, and deep piles in the processor's cache; one that entries came
back into, or were settled in, is a FifoOrder. ``sort_keys`` says what is compared.

Which entry arrived first, for a full queue, is in a deque beside it, and in a heap for those that
came back. These exist only after ``least`` was called; entries that have left are passed over
there, and both are dropped when those are the majority.

Invariant: every place that has a pile stands in the heap. It may stand there twice, or have no pile
any more; that is seen when it surfaces, and removed when it is the majority.                [hot]
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from heapq import heapify, heappop, heappush, merge
from operator import attrgetter
from typing import Any, Final

from hareline.queues.core.entry import QueueEntry, RankedEntry
from hareline.queues.core.property_cache import PropertyCache
from hareline.queues.orders.fifo import FifoOrder
from hareline.queues.orders.order import WALKED_AT_ONCE, EntryOrder, shares_of
from hareline.queues.orders.sort_keys import Place, place_reader

STALE_ALLOWED: Final = 64
SORTED_AT_ONCE: Final = 4_096  # places, for operators: a millisecond or two

_offset: Final = attrgetter("offset")

Rank = tuple[Place, int]  # place, then offset
Pile = QueueEntry | deque[QueueEntry] | FifoOrder


class SortedOrder(EntryOrder):
    """By the header ``key``: as text, or with ``numeric`` as a number; without it first of all.

    Equal keys are in the order of their arrival, with ``descending`` as well. ``rank`` of an entry
    holds its place.
    """

    __slots__ = (
        "_arrivals",
        "_count",
        "_late_arrivals",
        "_piles",
        "_place_of",
        "_places",
        "_standing",
        "key",
    )

    def __init__(self, key: str, descending: bool = False, numeric: bool = False) -> None:
        self.key = key
        self._place_of: PropertyCache[Place] = PropertyCache(
            place_reader(key, descending=descending, numeric=numeric)
        )
        self._piles: dict[Place, Pile] = {}
        self._places: list[Place] = []
        self._count = 0
        self._arrivals: deque[QueueEntry] | None = None
        self._late_arrivals: list[tuple[int, QueueEntry]] = []
        self._standing: set[int] = set()  # offsets of all entries here, while there are arrivals

    @property
    def add(self) -> Callable[[RankedEntry], None]:
        return self._add

    def _add(self, entry: RankedEntry) -> None:
        place = entry.rank = self._place_of(entry.message)
        piles = self._piles
        pile = piles.get(place)
        if pile is None:
            piles[place] = entry
            heappush(self._places, place)
            if len(self._places) > 2 * len(piles) + STALE_ALLOWED:
                self._sweep_places()
        elif isinstance(pile, deque):
            pile.append(entry)
        elif isinstance(pile, FifoOrder):
            add = pile.add  # mypyc would take ``pile.add(entry)`` for a call of the property itself
            add(entry)
        else:
            piles[place] = deque((pile, entry))
        self._count += 1
        if self._arrivals is not None:
            self._arrivals.append(entry)
            self._standing.add(entry.offset)
            self._limit_arrivals()

    def _sweep_places(self) -> None:
        self._places = list(self._piles)
        heapify(self._places)

    def _first(self) -> Pile | None:
        """The pile of the lowest place; places without one are dropped on the way."""
        places, piles = self._places, self._piles
        while places:
            pile = piles.get(places[0])
            if pile is not None:
                return pile
            heappop(places)
        return None

    def peek(self) -> QueueEntry | None:
        first = self._first()
        if isinstance(first, deque):
            return first[0]
        return first.peek() if isinstance(first, FifoOrder) else first

    def take(self, count: int) -> list[QueueEntry]:
        taken: list[QueueEntry] = []
        while len(taken) < count:
            pile = self._first()
            if pile is None:
                break
            if isinstance(pile, deque):
                wanted = count - len(taken)
                if wanted < len(pile):
                    popleft = pile.popleft
                    taken += [popleft() for _ in range(wanted)]
                    break
                taken += pile
            elif isinstance(pile, FifoOrder):
                taken += pile.take(count - len(taken))
                if len(pile):
                    break
            else:
                taken.append(pile)
            del self._piles[heappop(self._places)]
        self._count -= len(taken)
        if self._arrivals is not None:
            self._standing.difference_update([entry.offset for entry in taken])
            self._limit_arrivals()
        return taken

    def take_unsorted(self) -> list[QueueEntry]:
        taken: list[QueueEntry] = []
        for pile in self._piles.values():
            if isinstance(pile, deque):
                taken += pile
            elif isinstance(pile, FifoOrder):
                taken += pile.take(len(pile))
            else:
                taken.append(pile)
        self._piles.clear()
        self._places.clear()
        self._count = 0
        self._arrivals = None
        self._late_arrivals = []
        self._standing.clear()
        return taken

    def restore(self, entries: Iterable[QueueEntry]) -> None:
        by_place: dict[Place, list[QueueEntry]] = {}
        for entry in entries:
            by_place.setdefault(self._place(entry), []).append(entry)
            self._count += 1
            if self._arrivals is not None:
                heappush(self._late_arrivals, (entry.offset, entry))
                self._standing.add(entry.offset)
                self._limit_arrivals()
        for place, returned in by_place.items():
            pile = self._piles.get(place)
            if pile is None:
                heappush(self._places, place)
            returned.sort(key=_offset)
            if pile is None and len(returned) == 1:
                self._piles[place] = returned[0]
            elif isinstance(pile, deque) and returned[-1].offset < pile[0].offset:
                pile.extendleft(reversed(returned))
            else:
                self._as_order(place, pile).restore(returned)
        if (
            len(self._places) > 2 * len(self._piles) + STALE_ALLOWED
        ):  # held ones may never have been added
            self._sweep_places()

    def _as_order(self, place: Place, pile: Pile | None) -> FifoOrder:
        """The pile of this place as one that entries may come back to."""
        if isinstance(pile, FifoOrder):
            return pile
        order = self._piles[place] = FifoOrder()
        if isinstance(pile, deque):
            order.restore(pile)
        elif pile is not None:
            order.restore((pile,))
        return order

    def discard(self, entry: QueueEntry) -> None:
        place = self._place(entry)
        pile = self._piles[place]
        if pile is entry:
            del self._piles[place]
        else:
            order = self._as_order(place, pile)
            order.discard(entry)
            if not len(order):
                del self._piles[place]
        self._count -= 1
        if self._arrivals is not None:
            self._standing.discard(entry.offset)
            self._limit_arrivals()

    def _place(self, entry: QueueEntry) -> Place:
        """Its place; given now to an entry that was held and has none yet."""
        if type(entry.rank) is not tuple:
            entry.rank = self._place_of(entry.message)
        place: Place = entry.rank
        return place

    def rank(self, entry: QueueEntry) -> Rank:
        return self._place(entry), entry.offset

    # ----------------------------------------------------------------- for operators

    def walk(self, after: Any = None, *, is_backwards: bool = False) -> Iterator[list[QueueEntry]]:
        """Places are sorted a share at a time, so that many of them are no long wait."""
        places = list(self._piles)
        sorted_places: list[list[Place]] = []
        for start in range(0, len(places), SORTED_AT_ONCE):
            some = places[start : start + SORTED_AT_ONCE]
            some.sort(reverse=is_backwards)
            sorted_places.append(some)
            yield []
        share: list[QueueEntry] = []
        for place in merge(*sorted_places, reverse=is_backwards):
            pile = self._piles.get(place)
            if pile is None or (after is not None and _is_past(place, after[0], is_backwards)):
                continue
            entries = [pile] if isinstance(pile, QueueEntry) else list(pile)
            ranked = [((place, entry.offset), entry) for entry in entries]
            for some_entries in shares_of(ranked, after, is_backwards):
                share += some_entries
                if len(share) >= WALKED_AT_ONCE:
                    yield share
                    share = []
        yield share

    # ------------------------------------------------------- which arrived first

    def least(self) -> QueueEntry | None:
        """The entry that arrived first, as no key is worth less than another."""
        arrivals = self._arrivals
        if arrivals is None:
            arrivals = self._arrivals = deque(sorted(self, key=_offset))
            self._standing = {entry.offset for entry in arrivals}
        standing = self._standing
        while arrivals and arrivals[0].offset not in standing:
            arrivals.popleft()
        late = self._late_arrivals
        while late and late[0][0] not in standing:
            heappop(late)
        if late and (not arrivals or late[0][0] < arrivals[0].offset):
            return late[0][1]
        return arrivals[0] if arrivals else None

    def _limit_arrivals(self) -> None:
        """Forget the arrivals if most have left; the next call of ``least`` collects them again."""
        assert self._arrivals is not None
        known = len(self._arrivals) + len(self._late_arrivals)
        if known > 2 * self._count + STALE_ALLOWED or self._count == 0:
            self._arrivals = None
            self._late_arrivals.clear()
            self._standing.clear()

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[QueueEntry]:
        for place in sorted(self._piles):
            pile = self._piles[place]
            if isinstance(pile, QueueEntry):
                yield pile
            else:
                yield from pile


def _is_past(place: Place, limit: Place, is_backwards: bool) -> bool:
    """True if no entry of this place is still to be shown, from the place ``limit`` on."""
    return place > limit if is_backwards else place < limit
