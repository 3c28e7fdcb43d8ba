"""First in, first out.

New entries go to the end of a deque. What was taken and came back waits in a heap by offset, so
"its original place" costs O(log n) in the number of returned entries only. Entries that were
settled where they stand are passed over when they surface, and removed when they are the majority
or keep too much memory.

A deep one is in three parts: ``_line``, the entries that are next, then ``_pages``, those that
have left memory, then ``_fresh``, where new ones are added. When the line is used up, it gets the
entries of the next page; when there is none, the line is ``_fresh`` itself again.           [hot]

Invariant: ``_line``, ``_pages`` and ``_fresh`` are sorted by offset, each before the next, and
``_line`` is ``_fresh`` exactly while ``_pages`` is None.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from heapq import heapify, heappop, heappush, merge, nlargest, nsmallest
from itertools import chain, islice
from operator import attrgetter
from sys import maxsize
from typing import Any, Final

from hareline.compiled import mypyc_attr
from hareline.queues.core.entry import READY, SETTLED, NumberedEntry, QueueEntry
from hareline.queues.core.pages import PAGE_ENTRIES, Page, Pager, Pages
from hareline.queues.orders.order import SHARES_MAX, WALKED_AT_ONCE, PagedOrder

DEAD_ALLOWED: Final = 64  # settled entries left standing, beyond as many as are live
# Octets that they may keep from being freed. Above it, a sixteenth as many as are live are enough
# to sweep, so that each pays for a look at 16 entries and no more.
DEAD_BYTES_ALLOWED: Final = 4_194_304

_offset_of: Final = attrgetter("offset")


def _share_of(line: deque[QueueEntry]) -> int:
    """Return the entries to show at once: to come to the middle of a deque costs its length."""
    return max(WALKED_AT_ONCE, len(line) // SHARES_MAX)


@mypyc_attr(allow_interpreted_subclasses=True)
class FifoOrder(PagedOrder):
    """``lost``: how many entries have left because they could not be read from disk.

    An ordering that counts the entries of its FIFOs itself subtracts them, and sets it back to 0.
    """

    __slots__ = ("_dead", "_dead_bytes", "_fresh", "_line", "_pages", "_returned", "lost")

    entry_class = QueueEntry

    def __init__(self) -> None:
        self._fresh: deque[QueueEntry] = deque()
        self._line = self._fresh
        self._pages: Pages | None = None
        self._returned: list[tuple[int, QueueEntry]] = []
        self._dead = 0
        self._dead_bytes = 0  # since the last sweep, those passed over included
        self.lost = 0

    @property
    def add(self) -> Callable[[QueueEntry], None]:
        return self._fresh.append

    @property
    def add_run(self) -> Callable[[list[QueueEntry]], None]:
        return self._fresh.extend

    def peek(self) -> QueueEntry | None:
        if self._dead:
            self._pass_dead()
        line, returned = self._line, self._returned
        if not line and self._pages is not None:
            line = self._turn_page()
        if returned and (not line or returned[0][0] < line[0].offset):
            return returned[0][1]
        return line[0] if line else None

    def take(self, count: int) -> list[QueueEntry]:
        if self._returned or self._dead or self._pages is not None:
            return self._take_one_by_one(count)
        fresh = self._fresh
        if count >= len(fresh):
            entries = list(fresh)
            fresh.clear()
            return entries
        popleft = fresh.popleft
        return [popleft() for _ in range(count)]

    def _take_one_by_one(self, count: int) -> list[QueueEntry]:
        line, returned = self._line, self._returned
        entries: list[QueueEntry] = []
        while len(entries) < count:
            if not line:
                if self._pages is not None:
                    line = self._turn_page()
                if not line and not returned:
                    break
            if returned and (not line or returned[0][0] < line[0].offset):
                entry = heappop(returned)[1]
            elif returned or self._dead:
                entry = line.popleft()
            elif len(line) <= count - len(entries):
                entries += line
                line.clear()
                continue
            else:
                popleft = line.popleft
                entries += [popleft() for _ in range(count - len(entries))]
                break
            if entry.state == SETTLED:
                self._dead -= 1
            else:
                entries.append(entry)
        return entries

    def _turn_page(self) -> deque[QueueEntry]:
        """Fill the line, which is used up, from the next page; returns what is the line now."""
        line, pages = self._line, self._pages
        assert pages is not None
        while not line and pages.count:
            line.extend(pages.turn())
            self._count_lost(pages)
        if not line:
            self._pages = None
            self._line = line = self._fresh
        return line

    def _count_lost(self, pages: Pages) -> None:
        self.lost += pages.lost
        pages.lost = 0

    def restore(self, entries: Iterable[QueueEntry]) -> None:
        returned = self._returned
        pairs = sorted([(entry.offset, entry) for entry in entries])
        if not returned and pairs and pairs[-1][0] < self._first_offset():
            self._line.extendleft([entry for _, entry in reversed(pairs)])
        elif len(pairs) * 4 > len(returned):
            returned += pairs
            heapify(returned)
        else:
            for pair in pairs:
                heappush(returned, pair)

    def _first_offset(self) -> int:
        """The lowest offset of entries that did not come back; above any offset if none."""
        if self._line:
            return self._line[0].offset
        if self._pages is not None and self._pages.count:
            return self._pages.first_offset
        return self._fresh[0].offset if self._fresh else maxsize

    def discard(self, entry: QueueEntry) -> None:
        self._dead += 1
        line = self._line
        if line and line[0] is entry:
            self._pass_dead()
            return
        self._dead_bytes += entry.message.size
        live = len(self)
        if self._dead > live + DEAD_ALLOWED or (
            self._dead_bytes > DEAD_BYTES_ALLOWED and self._dead * 16 > live
        ):
            self._sweep()

    def least(self) -> QueueEntry | None:
        return self.peek()

    def rank(self, entry: QueueEntry) -> int:
        return entry.offset

    def _pass_dead(self) -> None:
        line, returned = self._line, self._returned
        while True:
            if not line and self._pages is not None:
                line = self._turn_page()  # whose first ones may be settled too
            if not line or line[0].state != SETTLED:
                break
            line.popleft()
            self._dead -= 1
        while returned and returned[0][1].state == SETTLED:
            heappop(returned)
            self._dead -= 1

    def _sweep(self) -> None:
        # the deques stay the same objects, since ``add`` is a method of one
        for line in (self._fresh,) if self._pages is None else (self._line, self._fresh):
            live = [entry for entry in line if entry.state != SETTLED]
            line.clear()
            line.extend(live)
        if self._pages is not None:
            self._pages.sweep()
        self._returned = [pair for pair in self._returned if pair[1].state != SETTLED]
        heapify(self._returned)
        self._dead = 0
        self._dead_bytes = 0

    # ------------------------------------------------------------------ for operators

    def walk(self, after: Any = None, *, is_backwards: bool = False) -> Iterator[list[QueueEntry]]:
        next_share = self._before if is_backwards else self._behind
        offset: int = (maxsize if is_backwards else -1) if after is None else after
        while share := next_share(offset):
            offset = share[-1].offset
            yield [entry for entry in share if entry.state == READY]

    def _behind(self, offset: int) -> list[QueueEntry]:
        """A share of the entries behind an offset, in order, settled ones too; empty: no more."""
        share = self._standing_behind(offset)
        if not self._returned:
            return share
        end = share[-1].offset if share else maxsize
        back = [entry for at, entry in self._returned if offset < at <= end]
        count = max(len(share), WALKED_AT_ONCE)
        if len(back) > count:
            back = nsmallest(count, back, key=_offset_of)
            share = [entry for entry in share if entry.offset <= back[-1].offset]
        return sorted(share + back, key=_offset_of)

    def _before(self, offset: int) -> list[QueueEntry]:
        """The same before an offset, the nearest first."""
        share = self._standing_before(offset)
        if not self._returned:
            return share
        end = share[-1].offset if share else -1
        back = [entry for at, entry in self._returned if end <= at < offset]
        count = max(len(share), WALKED_AT_ONCE)
        if len(back) > count:
            back = nlargest(count, back, key=_offset_of)
            share = [entry for entry in share if entry.offset >= back[-1].offset]
        return sorted(share + back, key=_offset_of, reverse=True)

    def _standing_behind(self, offset: int) -> list[QueueEntry]:
        """As ``_behind``, of what did not come back."""
        pages = self._pages
        for line in (self._line,) if pages is None else (self._line, None, self._fresh):
            if line is None:
                share = [] if pages is None else pages.shown_behind(offset)
            elif line and line[-1].offset > offset:
                start = bisect_right(line, offset, key=_offset_of)
                share = list(islice(line, start, start + _share_of(line)))
            else:
                continue
            if share:
                return share
        return []

    def _standing_before(self, offset: int) -> list[QueueEntry]:
        pages = self._pages
        for line in (self._line,) if pages is None else (self._fresh, None, self._line):
            if line is None:
                share = [] if pages is None else pages.shown_before(offset)[::-1]
            elif line and line[0].offset < offset:
                start = len(line) - bisect_left(line, offset, key=_offset_of)
                share = list(islice(reversed(line), start, start + _share_of(line)))
            else:
                continue
            if share:
                return share
        return []

    def standing(self, entry: QueueEntry) -> QueueEntry | None:
        if not isinstance(entry, NumberedEntry):
            return entry if entry.state == READY else None
        offset = entry.offset
        found: QueueEntry | None = None
        if self._pages is not None:
            found = self._pages.standing(offset)
            self._count_lost(self._pages)
        if found is None:  # its page was turned meanwhile
            found = self._loaded_at(offset)
        return found if found is not None and found.state == READY else None

    def _loaded_at(self, offset: int) -> QueueEntry | None:
        for line in (self._line, self._fresh):
            at = bisect_left(line, offset, key=_offset_of)
            if at < len(line) and line[at].offset == offset:
                return line[at]
        for pair in self._returned:
            if pair[0] == offset:
                return pair[1]
        return None

    # ------------------------------------------------------------------------- paging

    def page_out(self, pager: Pager, keep: int, limit: int) -> int:
        fresh, pages = self._fresh, self._pages
        if len(self) <= keep:
            return 0
        if pages is None:
            if len(fresh) <= keep:
                return 0
            popleft = fresh.popleft
            self._line = deque([popleft() for _ in range(keep)])
            pages = self._pages = Pages(pager)
        taken, dead = pages.fill(fresh, limit)
        self._dead -= dead
        # what came back, or was kept while more was to be kept
        excess = len(self._line) - keep - PAGE_ENTRIES
        if excess > 0 and taken < limit:
            count = min(excess, limit - taken)
            self._dead -= pages.take_back(self._line, count)
            taken += count
        return taken

    def add_page(self, pager: Pager, page: Page, _level: int) -> None:
        # before any entry is added otherwise
        assert not self._fresh, self
        if self._pages is None:
            self._line = deque()
            self._pages = Pages(pager)
        self._pages.append(page)

    def drop_pages(self, on_dropped: Callable[[Page], None]) -> int:
        if self._pages is None:
            return 0
        kept, count = self._pages.drop(on_dropped)
        self._fresh.extendleft(reversed(kept))
        self._fresh.extendleft(reversed(self._line))
        self._pages = None
        self._line = self._fresh
        return count

    @property
    def has_levels(self) -> bool:
        return False

    @property
    def paged_count(self) -> int:
        return 0 if self._pages is None else self._pages.count

    def kept_entries(self) -> list[QueueEntry]:
        return [] if self._pages is None else self._pages.kept()

    def __len__(self) -> int:
        count = len(self._fresh) + len(self._returned) - self._dead
        if self._pages is not None:
            count += len(self._line) + self._pages.count
        return count

    def __iter__(self) -> Iterator[QueueEntry]:
        # of entries that have left memory, all but the content of their messages comes back
        returned = [entry for _, entry in sorted(self._returned)]
        for entry in merge(returned, self._entries(), key=lambda entry: entry.offset):
            if entry.state != SETTLED:
                yield entry

    def _entries(self) -> Iterator[QueueEntry]:
        """All entries that did not come back, settled ones too, in order."""
        if self._pages is None:
            return iter(self._fresh)
        return chain(self._line, self._paged_entries(self._pages), self._fresh)

    def _paged_entries(self, pages: Pages) -> Iterator[QueueEntry]:
        try:
            yield from pages.entries()
        finally:
            self._count_lost(pages)
