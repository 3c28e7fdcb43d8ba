"""Entries of a FIFO that have left memory: two columns of numbers for each page of them.

Between the entries that a FIFO has loaded and those that have just come stand its pages. An entry
there is an offset and a position, 16 octets; the object is made again when its page is turned.
Entries that another part of the queue refers to (they can expire, they are the last value of a key,
a browser has yet to see them) stand in the page of their place as the objects they are, without the
content of their messages. ``orders.fifo`` keeps one of these; ``window`` fills and reads them.

Invariant: pages are in the order of their offsets, and so is each column and each ``kept``. No page
is empty.                                                                                    [hot]
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from array import array
from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from operator import attrgetter
from typing import TYPE_CHECKING, Final

from hareline.queues.core.entry import SETTLED

if TYPE_CHECKING:
    from hareline.queues.core.entry import QueueEntry

# What is read from disk at once: long enough to make a read cheap for each message of usual size,
# short enough that no consumer has to wait for one.
# Not final: tests read smaller pages, and compiled code has the values of final names built in.
PAGE_ENTRIES = 256
PAGE_BYTES: Final = 262_144

_offset_of: Final = attrgetter("offset")
_first_offset_of: Final = attrgetter("first_offset")


class Page:
    """``offsets`` and ``positions``: of the entries that are numbers. ``kept``: the others.

    ``counts``: delivery counts by offset, of those numbers that have one above 0. ``is_spooled``:
    some of the numbers stand in the spool.
    ``size_bytes``: octets of the bodies of them all; ``sizes``: of each number, where it is known
    and is to be kept (logs). ``stored_bytes``: what the numbers count
    against limits by Qpid's names; 0 where there are none.
    """

    __slots__ = (
        "counts",
        "is_spooled",
        "kept",
        "offsets",
        "positions",
        "size_bytes",
        "sizes",
        "stored_bytes",
    )

    def __init__(self) -> None:
        self.offsets = array("Q")
        self.positions = array("Q")
        self.kept: list[QueueEntry] = []
        self.counts: dict[int, int] | None = None
        self.is_spooled = False
        self.size_bytes = 0
        self.sizes: array[int] | None = None
        self.stored_bytes = 0

    @property
    def first_offset(self) -> int:
        """The lowest offset; there must be an entry."""
        if not self.kept:
            return self.offsets[0]
        first = self.kept[0].offset
        return min(first, self.offsets[0]) if self.offsets else first

    @property
    def is_full(self) -> bool:
        return len(self) >= PAGE_ENTRIES or self.size_bytes >= PAGE_BYTES

    def __len__(self) -> int:
        """All its entries, with kept ones that are settled."""
        return len(self.offsets) + len(self.kept)


class Pager(ABC):
    """A writer and reader of pages: ``window.Paging``, or a test's."""

    __slots__ = ()

    @abstractmethod
    def page_out(self, page: Page, entries: list[QueueEntry], *, keeps_unwritten: bool) -> int:
        """Put entries, in their order, at the end of a page; returns how many.

        It stops where the page is full or, unless these are to be kept, at an entry that is not
        written yet. Settled ones are passed over and count.
        """

    @abstractmethod
    def entries_of(self, page: Page) -> list[QueueEntry]:
        """The entries of a page that is not used any more, in order.

        Numbers with whole messages, without those that cannot be read; kept ones as they are.
        """

    @abstractmethod
    def unfold(self, page: Page) -> None:
        """Make all entries of a page kept ones, so that they can be looked at where they are."""

    @abstractmethod
    def shown(self, page: Page) -> list[QueueEntry]:
        """The numbers of a page as objects that stand nowhere, in order; all stays as it is.

        Without those that cannot be read.
        """

    @abstractmethod
    def entries_at(
        self,
        offsets: Sequence[int],
        positions: array[int],
        sizes: array[int],
        stored_each: int,
    ) -> list[QueueEntry]:
        """Numbers that stay in their page, as objects with whole messages, in order.

        Without those that cannot be read, which have left the queue; each of them counted for
        ``stored_each`` against limits by Qpid's names.
        """

    @abstractmethod
    def drop_spooled(self, positions: array[int]) -> None:
        """Free what is spooled at these positions: the numbers have left, or are objects now."""


class Pages:
    """``count``: all entries here, with kept ones that are settled. ``lost``: how many could not
    be read and have left; the ordering subtracts them and sets it back."""

    __slots__ = ("_pager", "_pages", "count", "lost")

    def __init__(self, pager: Pager) -> None:
        self._pager = pager
        self._pages: deque[Page] = deque()
        self.count = 0
        self.lost = 0

    def fill(self, fresh: deque[QueueEntry], limit: int) -> tuple[int, int]:
        """Take up to ``limit`` entries from the left of ``fresh``, which follow all that are here.

        Returns how many were taken, and how many of these were settled.
        """
        pages, pager = self._pages, self._pager
        popleft = fresh.popleft
        taken = dead = 0
        page = pages[-1] if pages else None
        while fresh and taken < limit:
            if page is None or page.is_full:
                page = Page()
            before = len(page)
            room = min(PAGE_ENTRIES - before, len(fresh), limit - taken)
            entries = [popleft() for _ in range(room)]
            count = pager.page_out(page, entries, keeps_unwritten=False)
            if count < room:
                fresh.extendleft(reversed(entries[count:]))
            added = len(page) - before
            if added:
                self.count += added
                if not before:
                    pages.append(page)
            taken += count
            dead += count - added
            if count < room and not page.is_full:
                break  # not written yet
        return taken, dead

    def take_back(self, line: deque[QueueEntry], limit: int) -> int:
        """Take ``limit`` entries from the right of ``line``, which precede all that are here.

        Returns how many of them were settled.
        """
        entries = [line.pop() for _ in range(min(limit, len(line)))]
        entries.reverse()
        made: list[Page] = []
        start = dead = 0
        while start < len(entries):
            page = Page()
            part = entries[start : start + PAGE_ENTRIES]
            count = self._pager.page_out(page, part, keeps_unwritten=True)
            self.count += len(page)
            dead += count - len(page)
            start += count
            if len(page):
                made.append(page)
        self._pages.extendleft(reversed(made))
        return dead

    def append(self, page: Page) -> None:
        """Add a page of entries of an earlier life, which follow all that are here."""
        self._pages.append(page)
        self.count += len(page)

    def turn(self) -> list[QueueEntry]:
        """Remove and return the entries of the first page; there must be one."""
        page = self._pages.popleft()
        expected = len(page)
        self.count -= expected
        entries = self._pager.entries_of(page)
        self.lost += expected - len(entries)
        return entries

    @property
    def first_offset(self) -> int:
        """The lowest offset; there must be an entry."""
        return self._pages[0].first_offset

    def entries(self) -> Iterator[QueueEntry]:
        """All entries in order, settled ones too, left where they are, as objects from now on."""
        try:
            for page in list(self._pages):
                if page.offsets:
                    expected = len(page)
                    self._pager.unfold(page)
                    self.count -= expected - len(page)
                    self.lost += expected - len(page)
                yield from page.kept
        finally:
            self._forget_empty()

    # ----------------------------------------------------------------- for operators

    def shown_behind(self, offset: int) -> list[QueueEntry]:
        """The entries behind an offset, those of one page, in order; empty: there are none.

        Numbers as objects that stand nowhere. Nothing changes.
        """
        pages = self._pages
        index = max(bisect_right(pages, offset, key=_first_offset_of) - 1, 0)
        while index < len(pages):
            found = [entry for entry in self._shown(pages[index]) if entry.offset > offset]
            if found:
                return found
            index += 1
        return []

    def shown_before(self, offset: int) -> list[QueueEntry]:
        """Likewise the entries before an offset that are the nearest to it."""
        pages = self._pages
        index = bisect_left(pages, offset, key=_first_offset_of) - 1
        while index >= 0:
            found = [entry for entry in self._shown(pages[index]) if entry.offset < offset]
            if found:
                return found
            index -= 1
        return []

    def _shown(self, page: Page) -> list[QueueEntry]:
        if not page.offsets:
            return page.kept
        entries = self._pager.shown(page)
        if page.kept:
            entries += page.kept
            entries.sort(key=_offset_of)
        return entries

    def standing(self, offset: int) -> QueueEntry | None:
        """The entry of this offset, an object from now on like its whole page; None: not here."""
        pages = self._pages
        index = bisect_right(pages, offset, key=_first_offset_of) - 1
        if index < 0:
            return None
        page = pages[index]
        if page.offsets:
            at = bisect_left(page.offsets, offset)
            if at < len(page.offsets) and page.offsets[at] == offset:
                expected = len(page)
                self._pager.unfold(page)
                self.count -= expected - len(page)
                self.lost += expected - len(page)
        at = bisect_left(page.kept, offset, key=_offset_of)
        found = page.kept[at] if at < len(page.kept) else None
        if not len(page):
            self._forget_empty()
        return found if found is not None and found.offset == offset else None

    def kept(self) -> list[QueueEntry]:
        """The entries that are objects, in order."""
        return [entry for page in self._pages for entry in page.kept]

    def sweep(self) -> None:
        """Remove settled entries."""
        for page in self._pages:
            if page.kept:
                before = len(page.kept)
                page.kept = [entry for entry in page.kept if entry.state != SETTLED]
                self.count -= before - len(page.kept)
        self._forget_empty()

    def _forget_empty(self) -> None:
        if not all(map(len, self._pages)):
            self._pages = deque([page for page in self._pages if len(page)])

    def drop(self, on_dropped: Callable[[Page], None]) -> tuple[list[QueueEntry], int]:
        """Empty the pages without reading them; returns the kept entries and how many were numbers.

        The kept ones are in order. Each page is shown to ``on_dropped``.
        """
        kept: list[QueueEntry] = []
        count = 0
        while self._pages:
            page = self._pages.popleft()
            on_dropped(page)
            kept += page.kept
            count += len(page.offsets)
        self.count = 0
        return kept, count

    def __len__(self) -> int:
        """Return the number of pages."""
        return len(self._pages)
