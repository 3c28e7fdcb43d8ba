"""The ordering of a non-destructive queue: a log, which readers walk without taking anything out.

The queue adds, drops and purges as with any other ordering; ``queues.dispatch.reading`` walks over
``entries`` by index. Entries that were settled stay where they are and are passed over, until they
are the majority and are removed, so a reader's index is valid for one ``version`` only; its offset
is always valid.

Only the newest entries of a deep log are in ``entries``. Those before them are numbers in ``pages``
(``queues.orders.log_pages``), which readers walk by offset.                                   [hot]

Invariant: ``entries`` is sorted by offset from ``head`` on, and behind ``pages.end``; what is
before ``head`` is settled, or stands for an entry that was taken. ``dead_count`` counts these, and
the settled ones behind ``head``.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, insort
from collections.abc import Callable, Iterable, Iterator
from itertools import islice, takewhile
from operator import attrgetter
from sys import maxsize
from typing import Any, Final

from hareline.queues.core.entry import READY, SETTLED, QueueEntry
from hareline.queues.core.pages import PAGE_ENTRIES, Page, Pager
from hareline.queues.orders.log_pages import LogPages, journal_position
from hareline.queues.orders.order import WALKED_AT_ONCE, PagedOrder

DEAD_ALLOWED: Final = 64  # settled entries left standing, beyond as many as are live
INSERTED_MAX: Final = 64  # entries put in one by one; for more the whole log is rebuilt
POSITIONS_AT_ONCE: Final = 65_536

_TAKEN: Final = QueueEntry.__new__(QueueEntry)  # of no queue, and without a message
_TAKEN.offset = -1
_TAKEN.state = SETTLED
_offset_of: Final = attrgetter("offset")
_arrival_of: Final = attrgetter("message.arrival_ms")


class LogOrder(PagedOrder):
    """``entries`` is always the same list; ``version`` changes when others than the last move.

    Cutting settled or paged entries off the left end is no such change: ``cut_count`` counts those
    that were, so ``index + cut_count`` stays the same. ``pages``: None until something was paged
    out. ``is_paged``: its entries may become numbers.
    """

    __slots__ = ("_is_paged", "cut_count", "dead_count", "entries", "head", "pages", "version")

    def __init__(self, *, is_paged: bool = True) -> None:
        self.entries: list[QueueEntry] = []
        self.head = 0
        self.cut_count = 0
        self.dead_count = 0
        self.version = 0
        self.pages: LogPages | None = None
        self._is_paged = is_paged

    # ------------------------------------------------------------------ the contract

    @property
    def add(self) -> Callable[[QueueEntry], None]:
        return self.entries.append

    @property
    def add_run(self) -> Callable[[list[QueueEntry]], None]:
        return self.entries.extend

    def peek(self) -> QueueEntry | None:
        if self.pages is not None and self.pages.count:
            first = self.pages.first()
            if first is not None:
                return first
        entries = self.entries
        head, end = self.head, len(entries)
        while head < end and entries[head].state == SETTLED:
            head += 1
        self.head = head
        return entries[head] if head < end else None

    def take(self, count: int) -> list[QueueEntry]:
        if self.pages is None or not self.pages.count:
            return self._take_loaded(count)
        taken = self.pages.take(count)
        if not self.pages.count:
            self.pages = None
        return taken + self._take_loaded(count - len(taken))

    def _take_loaded(self, count: int) -> list[QueueEntry]:
        """Take entries that stand in no page, when there are no pages before them."""
        if count <= 0:
            return []
        if count >= self._loaded_count:
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
        known, pages = self.entries, self.pages
        back = sorted(entries, key=_offset_of)
        if pages is not None and back and back[0].offset < pages.end:
            count = bisect_left(back, pages.end, key=_offset_of)
            pages.insert(back[:count])
            del back[:count]
        if not back:
            return
        if not known or back[0].offset > known[-1].offset:
            known += back
            return
        if len(back) <= INSERTED_MAX:
            self._cut_head_off()
            for entry in back:
                insort(known, entry, key=_offset_of)
            self.version += 1
            return
        self._replace(sorted(self._live() + back, key=_offset_of))

    def discard(self, entry: QueueEntry) -> None:
        if self.pages is not None and entry.offset < self.pages.end:
            self.pages.discard(entry)
            return
        self.dead_count += 1
        if self.dead_count > self._loaded_count + DEAD_ALLOWED:
            self._replace(self._live())

    def least(self) -> QueueEntry | None:
        return self.peek()

    def rank(self, entry: QueueEntry) -> int:
        return entry.offset

    @property
    def _loaded_count(self) -> int:
        """The number of entries in no page."""
        return len(self.entries) - self.dead_count

    def _live(self) -> list[QueueEntry]:
        return [entry for entry in self.entries[self.head :] if entry.state != SETTLED]

    def _cut_head_off(self) -> None:
        del self.entries[: self.head]
        self.dead_count -= self.head
        self.cut_count += self.head
        self.head = 0

    def _replace(self, live: list[QueueEntry]) -> None:
        self.entries[:] = live  # kept as it is: ``add`` is a method of this very list
        self.head = 0
        self.dead_count = 0
        self.version += 1

    # ------------------------------------------------------------------------- paging

    @property
    def paged(self) -> PagedOrder | None:
        return self if self._is_paged else None

    @property
    def has_levels(self) -> bool:
        return False

    @property
    def paged_count(self) -> int:
        return 0 if self.pages is None else self.pages.count

    def kept_entries(self) -> list[QueueEntry]:
        return [] if self.pages is None else self.pages.kept()

    def page_out(self, pager: Pager, keep: int, limit: int) -> int:
        """The newest ``keep`` stay: readers that keep up never touch the disk."""
        head = self.head
        excess = len(self.entries) - head - keep
        if excess < max(1, min(keep >> 3, PAGE_ENTRIES)):  # not for every message
            return 0
        if self.pages is None:
            self.pages = LogPages(pager)
        taken, dead = self.pages.fill(self.entries[head : head + min(excess, limit)])
        self.dead_count -= dead
        self.dead_count += taken  # what is before the head counts as settled
        self.head = head + taken
        self._cut_head_off()
        return taken

    def add_page(self, pager: Pager, page: Page, _level: int) -> None:
        # before any entry is added otherwise
        assert not self.entries, self
        if self.pages is None:
            self.pages = LogPages(pager)
        self.pages.append(page)

    def drop_pages(self, on_dropped: Callable[[Page], None]) -> int:
        if self.pages is None:
            return 0
        kept, count = self.pages.drop(on_dropped)
        self.pages = None
        if kept:
            self._replace(kept + self._live())
        return count

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

    def entries_from(self, offset: int) -> Iterator[QueueEntry]:
        """The entries from this offset on, in order, left where they are.

        Those of pages are new objects, and the log must not change in between.
        """
        if self.pages is not None:
            yield from self.pages.entries_from(offset)
        for entry in islice(self.entries, self.index_of(offset), None):
            if entry.state != SETTLED:
                yield entry

    def entries_between(self, start: int, end: int) -> list[QueueEntry]:
        """The entries from offset ``start`` to before ``end``, as ``entries_from``."""
        return list(takewhile(lambda entry: entry.offset < end, self.entries_from(start)))

    # ------------------------------------------------------------------ for operators

    def walk(self, after: Any = None, *, is_backwards: bool = False) -> Iterator[list[QueueEntry]]:
        """Numbers that cannot be read leave, as they do when a reader comes to them."""
        if is_backwards:
            yield from self._walk_back(after)
            return
        offset = 0 if after is None else after + 1
        while True:
            if self.pages is not None and offset < self.pages.end:
                share, offset = self.pages.read(offset, WALKED_AT_ONCE)
            else:
                start = self.index_of(offset)
                share = self.entries[start : start + WALKED_AT_ONCE]
                if not share:
                    return
                offset = share[-1].offset + 1
            yield [entry for entry in share if entry.state == READY]

    def _walk_back(self, before: int | None) -> Iterator[list[QueueEntry]]:
        end = maxsize if before is None else before
        while True:
            stop = self.index_of(end)
            share = self.entries[max(self.head, stop - WALKED_AT_ONCE) : stop]
            if not share:
                break
            end = share[0].offset
            yield [entry for entry in reversed(share) if entry.state == READY]
        span = WALKED_AT_ONCE  # offsets may have holes of any length
        while self.pages is not None and self.pages.count and end > self.pages.first_offset:
            end = min(end, self.pages.end)
            start = max(self.pages.first_offset, end - span)
            share, read_to = self.pages.read(start, WALKED_AT_ONCE)
            if read_to < end and span > WALKED_AT_ONCE:
                span = max(WALKED_AT_ONCE, span // 2)  # the nearest of them were not read
                continue
            yield [entry for entry in reversed(share) if entry.offset < end]
            end = start
            span *= 2 if len(share) < WALKED_AT_ONCE // 2 else 1

    def standing(self, entry: QueueEntry) -> QueueEntry | None:
        if self.pages is None or entry.offset >= self.pages.end:
            return super().standing(entry)
        found, _ = self.pages.read(entry.offset, 1)
        return found[0] if found and found[0].offset == entry.offset else None

    # ------------------------------------------------------------------ for bulk reads

    @property
    def first_offset(self) -> int | None:
        """The lowest offset that is there; None in an empty log."""
        if self.pages is not None and self.pages.count:
            return self.pages.first_offset
        first = self.peek()
        return None if first is None else first.offset

    @property
    def last_offset(self) -> int | None:
        """The highest offset that is there; None in an empty log."""
        for entry in reversed(self.entries):
            if entry.state != SETTLED:
                return entry.offset
        if self.pages is not None and self.pages.count:
            return self.pages.last_offset
        return None

    @property
    def first_arrival_ms(self) -> int | None:
        """The arrival of the first entry, in epoch milliseconds; None in an empty log."""
        if self.pages is not None and self.pages.count:
            first_ms = self.pages.first_ms
            if self.pages.count:
                return first_ms
        first = self.peek()
        return None if first is None else first.message.arrival_ms

    def offset_since(self, arrival_ms: int) -> int | None:
        """Offset of the first entry that arrived then or later; None if none did.

        Where the wall clock was set back: see ``index_since``.
        """
        if self.pages is not None and self.pages.count:
            offset = self.pages.offset_since(arrival_ms)
            if offset is not None:
                return offset
        for entry in islice(self.entries, self.index_since(arrival_ms), None):
            if entry.state != SETTLED:
                return entry.offset
        return None

    def positions(self, start: int, end: int) -> tuple[array[int], array[int]]:
        """Offsets and journal positions of what is there with start <= offset < end, in order.

        About POSITIONS_AT_ONCE at most, so the caller goes on behind the last offset. Position 0:
        not in the journal. Nothing is read.
        """
        offsets, positions = array("Q"), array("Q")
        if self.pages is not None and start < self.pages.end:
            offsets, positions = self.pages.positions(start, end, POSITIONS_AT_ONCE)
        room = POSITIONS_AT_ONCE - len(offsets)
        if room > 0:
            for entry in islice(self.entries, self.index_of(start), None):
                if entry.offset >= end or room == 0:
                    break
                if entry.state != SETTLED:
                    offsets.append(entry.offset)
                    positions.append(journal_position(entry.message.position))
                    room -= 1
        return offsets, positions

    def __len__(self) -> int:
        count = len(self.entries) - self.dead_count
        return count if self.pages is None else count + self.pages.count

    def __iter__(self) -> Iterator[QueueEntry]:
        # numbers as new objects, with their contents: not for a log that may be deep
        if self.pages is not None:
            yield from self.pages.entries_from(0)
        for entry in islice(self.entries, self.head, None):
            if entry.state != SETTLED:
                yield entry
