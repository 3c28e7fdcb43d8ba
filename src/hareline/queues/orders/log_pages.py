"""Entries of a log that have left memory: columns of numbers, which readers read and leave there.

Before the newest entries of a log, which are objects, stand its pages. An entry there is a position
and a size, 12 octets; its offset costs nothing as long as no other one of its page is missing.
Readers get entries made from the journal, a batch at a time. The latest of these are remembered, so
that readers at the same place share a read, and readers at different places hold nothing of their
own. Entries that expire, or that the store does not have, stand in the page of their place as the
objects they are.

``orders.log_order`` keeps one ``LogPages``; ``window`` is its ``Pager``. Entries leave from the
head (limits), all at once (purge), or one by one (expiry, damage).

Invariant: pages are in the order of their offsets, and so is each column and each ``kept``; every
page has an entry, perhaps a settled one. An entry made from a number is good until the caller is
done with it: the number is what counts.                                                     [hot]
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator
from heapq import merge
from itertools import islice
from operator import attrgetter
from typing import TYPE_CHECKING, Final

from hareline.message import stored_bytes
from hareline.queues.core.entry import SETTLED
from hareline.queues.core.pages import Page, Pager
from hareline.queues.orders.log_columns import (
    LOG_PAGE_ENTRIES,
    UNKNOWN_MS,
    LogPage,
    Recent,
)
from hareline.storage.interface import SPOOLED

if TYPE_CHECKING:
    from hareline.queues.core.entry import QueueEntry

FILLED_AT_ONCE: Final = 256
PEEKED: Final = 64  # read at once where entries are looked at from the head on, one by one
LOOKED_AT: Final = 256  # likewise, where many are

_offset_of: Final = attrgetter("offset")
_low_of: Final = attrgetter("low")
_GONE: Final = LogPage(0)  # stands for pages that have left, so that these are freed


class LogPages:
    """``count``: entries here that are not settled. ``end``: every offset below it, and above those
    that have left, stands here; 0 without pages."""

    __slots__ = ("_head", "_pager", "_pages", "_recent", "count", "end")

    def __init__(self, pager: Pager) -> None:
        self._pager = pager
        self._pages: list[LogPage] = []
        self._head = 0  # index of the first page; those before it are gone
        self._recent = Recent()
        self.count = 0
        self.end = 0

    # ------------------------------------------------------------------------ in

    def fill(self, entries: list[QueueEntry]) -> tuple[int, int]:
        """Take entries, in order, which follow all that are here, as far as they are written.

        Returns how many were taken, and how many of these were settled.
        """
        taken = dead = 0
        while taken < len(entries):
            room = self._pages[-1].room if self._pages else 0
            if room <= 0:
                room = LOG_PAGE_ENTRIES
            some = entries[taken : taken + min(FILLED_AT_ONCE, room)]
            page = Page()
            count = self._pager.page_out(page, some, keeps_unwritten=False)
            numbers = some[:count]
            if len(page.offsets) < count:
                are_numbers = set(page.offsets)
                numbers = [entry for entry in numbers if entry.offset in are_numbers]
            page.sizes = array("I", [entry.message.size for entry in numbers])
            added = len(page)
            if added:
                arrivals = [
                    entry.message.arrival_ms for entry in some[:count] if entry.state != SETTLED
                ]
                self._append(page, arrivals[0], max(arrivals))
            taken += count
            dead += count - added
            if not count or (count < len(some) and not page.is_full):
                break  # not written yet
        return taken, dead

    def append(self, page: Page) -> None:
        """Add entries of an earlier life, which follow all that are here."""
        self._append(page, UNKNOWN_MS, UNKNOWN_MS)

    def _append(self, page: Page, first_ms: int, latest_ms: int) -> None:
        pages = self._pages
        last = pages[-1] if pages else None
        if last is None or last.room <= 0:
            if last is not None:
                last.trim()
            last = LogPage(page.first_offset)
            last.first_ms, last.latest_ms = first_ms, latest_ms
            pages.append(last)
        elif last.latest_ms != UNKNOWN_MS:
            last.latest_ms = UNKNOWN_MS if latest_ms < 0 else max(last.latest_ms, latest_ms)
        last.append(page)
        self.count += len(page)
        self.end = last.end

    def insert(self, entries: list[QueueEntry]) -> None:
        """Put in entries that were taken, in order and all below ``end``, as objects."""
        pages = self._pages
        start = 0
        while start < len(entries):
            first = entries[start].offset
            index = bisect_right(pages, first, self._head, key=_low_of)
            behind = pages[index].low if index < len(pages) else self.end
            stop = bisect_left(entries, behind, start, key=_offset_of)
            some = entries[start:stop]
            if index == self._head:  # before all that are here
                made = [
                    _page_of(some[at : at + LOG_PAGE_ENTRIES])
                    for at in range(0, len(some), LOG_PAGE_ENTRIES)
                ]
                pages[index:index] = made
            else:
                page = pages[index - 1]
                page.kept = sorted(page.kept + some, key=_offset_of)
                page.end = max(page.end, some[-1].offset + 1)
                page.first_ms = page.latest_ms = UNKNOWN_MS
            self.count += len(some)
            start = stop

    # ------------------------------------------------------------------- reading

    def read(self, offset: int, limit: int) -> tuple[list[QueueEntry], int]:
        """The next entries from this offset on, up to ``limit``, and the offset behind them.

        They stay where they are. Those that cannot be read leave. Objects among them may have lost
        their content.
        """
        found: list[QueueEntry] = []
        while len(found) < limit and offset < self.end:
            page = self._pages[self._index_at(offset)]
            entries, offset = self._of_page(page, offset, limit - len(found))
            found += entries
        return found, offset

    def _index_at(self, offset: int) -> int:
        """Index of the page that has this offset or, if none has, the next higher one."""
        pages = self._pages
        index = max(bisect_right(pages, offset, self._head, key=_low_of) - 1, self._head)
        return index if offset < pages[index].end else index + 1

    def _of_page(self, page: LogPage, offset: int, limit: int) -> tuple[list[QueueEntry], int]:
        numbers = page.offsets
        start = max(page.start, bisect_left(numbers, offset))
        stop = min(len(numbers), start + limit)
        end = page.end if stop >= len(numbers) else numbers[stop]
        entries = self._numbers(page, start, stop) if start < stop else []
        if page.kept:
            kept = page.kept
            index = bisect_left(kept, offset, key=_offset_of)
            stop = bisect_left(kept, end, index, key=_offset_of)
            entries += [entry for entry in kept[index:stop] if entry.state != SETTLED]
            entries.sort(key=_offset_of)
            if len(entries) > limit:
                end = entries[limit].offset
                del entries[limit:]
        return entries, end

    def _numbers(self, page: LogPage, start: int, stop: int) -> list[QueueEntry]:
        """The numbers between two indices, as objects, without those that cannot be read."""
        known = self._recent.of(page, start, stop)
        if None not in known:
            return known  # type: ignore[return-value] # as was just looked up
        first = start + known.index(None)
        count = stop - first
        offsets = page.offsets[first:stop]
        stored_each = page.stored_bytes // page.number_count
        entries = self._pager.entries_at(
            offsets, page.positions[first:stop], page.sizes[first:stop], stored_each
        )
        if page.counts is not None:
            for entry in entries:
                entry.delivery_count = page.counts.get(entry.offset, 0)
        found: list[QueueEntry] = known[: first - start] + entries  # type: ignore[assignment]
        if len(entries) == count:
            self._recent.remember(page, first, entries)
        else:
            readable = set(map(_offset_of, entries))
            lost = [offset for offset in offsets if offset not in readable]
            page.stored_bytes -= stored_each * len(lost)
            for offset in lost:
                page.remove(bisect_left(page.offsets, offset))
            self.count -= len(lost)
            self._recent.forget(page)
            self._forget_if_empty(page)
        return found

    def first(self) -> QueueEntry | None:
        """The first entry; None if there is none, or none that can be read."""
        while self.count:
            entries, _ = self.read(self._pages[self._head].low, PEEKED)
            if entries:
                return entries[0]
        return None

    def entries_from(self, offset: int) -> Iterator[QueueEntry]:
        """All entries from an offset on, left where they are; numbers as new objects."""
        while offset < self.end:
            entries, offset = self.read(offset, LOOKED_AT)
            yield from entries

    def kept(self) -> list[QueueEntry]:
        """The entries that are objects, in order, settled ones too."""
        return [entry for page in self._pages[self._head :] for entry in page.kept]

    def kept_before(self, offset: int) -> list[QueueEntry]:
        """Those of them that stand before this offset."""
        kept: list[QueueEntry] = []
        for page in islice(self._pages, self._head, None):
            if page.low >= offset:
                break
            kept += [entry for entry in page.kept if entry.offset < offset]
        return kept

    # ------------------------------------------------------------ what numbers tell

    @property
    def first_offset(self) -> int:
        """The lowest offset of an entry that is not settled; there must be one."""
        page = self._pages[self._head]
        first = page.offsets[page.start] if page.number_count else page.end
        for entry in page.kept:
            if entry.state != SETTLED:
                return min(first, entry.offset)
        return first

    @property
    def last_offset(self) -> int:
        """The highest one; there must be one."""
        page = self._pages[-1]
        last = page.offsets[-1] if page.number_count else page.low
        for entry in reversed(page.kept):
            if entry.state != SETTLED:
                return max(last, entry.offset)
        return last

    def positions(self, start: int, end: int, limit: int) -> tuple[array[int], array[int]]:
        """Offsets and journal positions from ``start`` to before ``end``, about ``limit`` of them.

        Position 0: not in the journal.
        """
        offsets, positions = array("Q"), array("Q")
        start = max(start, self._pages[self._head].low) if self.count else self.end
        while start < min(end, self.end) and len(offsets) < limit:
            page = self._pages[self._index_at(start)]
            first = max(page.start, bisect_left(page.offsets, start))
            stop = bisect_left(page.offsets, end, first)
            some = array("Q", page.offsets[first:stop])
            at = page.positions[first:stop]
            if page.is_spooled:
                at = array("Q", [journal_position(position) for position in at])
            kept = [
                (entry.offset, journal_position(entry.message.position))
                for entry in page.kept
                if start <= entry.offset < end and entry.state != SETTLED
            ]
            if kept:
                rows = list(merge(zip(some, at, strict=True), kept))
                some = array("Q", [row[0] for row in rows])
                at = array("Q", [row[1] for row in rows])
            offsets += some
            positions += at
            start = page.end
        return offsets, positions

    def offset_after(self, octets: int, count: int) -> int:
        """The offset before which entries have these octets, at least, but are at most ``count``.

        Entries are counted from the head on, and none is read.
        """
        left = octets
        for page in islice(self._pages, self._head, None):
            rows: Iterator[tuple[int, int]] = zip(
                page.offsets[page.start :], page.sizes[page.start :], strict=True
            )
            if page.kept:
                rows = merge(
                    rows,
                    [
                        (entry.offset, entry.message.size)
                        for entry in page.kept
                        if entry.state != SETTLED
                    ],
                )
            for offset, size in rows:
                if left <= 0 or count <= 0:
                    return offset
                left -= size
                count -= 1
        return self.end

    # ------------------------------------------------------------------- arrivals

    @property
    def first_ms(self) -> int:
        """The arrival of the first entry; UNKNOWN_MS if none is here that can be read."""
        while self.count:
            page = self._pages[self._head]
            if page.first_ms != UNKNOWN_MS:
                return page.first_ms
            first = self.first()
            if first is not None:
                self._pages[self._head].first_ms = first.message.arrival_ms
        return UNKNOWN_MS

    def _latest_ms(self, page: LogPage) -> int:
        """Return the latest arrival in a page, as far as its last entry says; it may leave."""
        while page.latest_ms == UNKNOWN_MS and len(page):
            stop = len(page.positions)
            last = self._numbers(page, stop - 1, stop) if page.number_count else []
            last += [entry for entry in page.kept[-1:] if entry.state != SETTLED]
            if last:
                page.latest_ms = max([entry.message.arrival_ms for entry in last])
            elif not page.number_count:
                self._sweep(page)
        return page.latest_ms

    def offset_since(self, arrival_ms: int) -> int | None:
        """Offset of the first entry that arrived then or later; None: of these, none did.

        One page is read, and one entry of each that is looked at to find it, if no more is known.
        """
        low, high = self._head, len(self._pages)
        while low < high:
            middle = (low + high) // 2
            page = self._pages[middle]
            latest_ms = self._latest_ms(page)
            if not len(page):
                return self.offset_since(arrival_ms)  # nothing of it could be read; it is gone
            if latest_ms < arrival_ms:
                low = middle + 1
            else:
                high = middle
        if low < len(self._pages):
            for entry in self.entries_from(self._pages[low].low):
                if entry.message.arrival_ms >= arrival_ms:
                    return entry.offset
        return None

    def offset_of_younger(self, arrival_ms: int, limit: int) -> int:
        """The offset before which all arrived by then; stops behind some ``limit`` entries.

        Reads no more than the page in which that instant lies.
        """
        looked = 0
        offset = self._pages[self._head].low if self.count else self.end
        while offset < self.end and looked < limit:
            page = self._pages[self._index_at(offset)]
            looked += len(page)
            if self._latest_ms(page) <= arrival_ms:
                offset = page.end
                continue
            while offset < page.end and len(page):
                entries, offset = self._of_page(page, offset, LOOKED_AT)
                for entry in entries:
                    if entry.message.arrival_ms > arrival_ms:
                        return entry.offset
        return offset

    # ------------------------------------------------------------------------ out

    def discard(self, entry: QueueEntry) -> None:
        """An entry that stands here was settled."""
        offset = entry.offset
        page = self._pages[self._index_at(offset)]
        index = bisect_left(page.offsets, offset, page.start)
        if index < len(page.offsets) and page.offsets[index] == offset:
            if page.is_spooled:
                self._pager.drop_spooled(page.positions[index : index + 1])
            if page.stored_bytes:
                page.stored_bytes -= stored_bytes(entry.message)
            if index > page.start:
                self._recent.forget(page)
            page.remove(index)
        else:
            page.dead_count += 1
            page.first_ms = UNKNOWN_MS
            if 2 * page.dead_count > len(page.kept):
                self._sweep(page)
        self.count -= 1
        self._forget_if_empty(page)

    def _sweep(self, page: LogPage) -> None:
        """Remove settled entries of a page."""
        page.kept = [entry for entry in page.kept if entry.state != SETTLED]
        page.dead_count = 0
        page.first_ms = UNKNOWN_MS

    def _forget_if_empty(self, page: LogPage) -> None:
        if len(page):
            return
        self._recent.forget(page)
        pages = self._pages
        if pages[self._head] is page:
            self._pass_head()
        else:
            pages.remove(page)
            self.end = pages[-1].end

    def _pass_head(self) -> None:
        """Let go of the first page."""
        self._pages[self._head] = _GONE
        self._head += 1
        if 2 * self._head > len(self._pages):  # so the rest is moved only as often as it has halved
            del self._pages[: self._head]
            self._head = 0
        if not self._pages:
            self.end = 0

    def take(self, count: int) -> list[QueueEntry]:
        """Remove and return the next ``count`` entries; fewer if there are fewer."""
        taken: list[QueueEntry] = []
        while len(taken) < count and self.count:
            page = self._pages[self._head]
            entries, end = self._of_page(page, page.low, count - len(taken))
            if page.stored_bytes:
                kept = set(map(id, page.kept))
                page.stored_bytes -= sum(
                    [stored_bytes(entry.message) for entry in entries if id(entry) not in kept]
                )
            taken += entries
            self.cut(end, self._drop_spooled)
        return taken

    def _drop_spooled(self, page: Page) -> None:
        if page.is_spooled:
            self._pager.drop_spooled(page.positions)

    def cut(self, offset: int, on_cut: Callable[[Page], None]) -> None:
        """Remove all before an offset, without reading it; ``on_cut`` is shown the numbers."""
        while self.end and (page := self._pages[self._head]).low < offset:
            before = len(page)
            stop = max(page.start, bisect_left(page.offsets, offset))
            if stop > page.start:
                on_cut(page.numbers(page.start, stop))
            page.start = stop
            if page.kept:
                page.kept = page.kept[bisect_left(page.kept, offset, key=_offset_of) :]
                self._sweep(page)
            page.first_ms = UNKNOWN_MS
            page.low = min(offset, page.end)
            self.count -= before - len(page)
            if len(page):
                return
            self._forget_if_empty(page)

    def drop(self, on_dropped: Callable[[Page], None]) -> tuple[list[QueueEntry], int]:
        """Empty the pages without reading them; returns the kept entries and how many were numbers.

        The kept ones are in order. Each page is shown to ``on_dropped``, without them.
        """
        kept: list[QueueEntry] = []
        count = 0
        for page in self._pages[self._head :]:
            numbers = page.numbers(page.start, len(page.positions))
            numbers.stored_bytes = page.stored_bytes
            on_dropped(numbers)
            count += len(numbers)
            kept += [entry for entry in page.kept if entry.state != SETTLED]
            self._recent.forget(page)
        self._pages.clear()
        self._head = self.count = self.end = 0
        return kept, count


def _page_of(entries: list[QueueEntry]) -> LogPage:
    """A page of entries that stay objects."""
    page = LogPage(entries[0].offset)
    page.kept = entries
    page.end = entries[-1].offset + 1
    return page


def journal_position(position: int) -> int:
    """The position of a message that the journal has; 0 for any other."""
    return position if 0 < position < SPOOLED else 0
