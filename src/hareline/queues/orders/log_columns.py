"""One page of a log, and the entries that were made from pages last.

``log_pages`` keeps these in order and reads them; nothing else calls this module.

Invariant: the columns of a page have one row for each number, in the order of offsets, and the rows
before ``start`` have left.                                                                  [hot]
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from hareline.queues.core.pages import Page

if TYPE_CHECKING:
    from hareline.queues.core.entry import QueueEntry

LOG_PAGE_ENTRIES: Final = 1024  # 600 octets a page, besides its columns
# Entries made from numbers that are remembered, of all pages of a log, and what each of them takes
# besides its content.
RECENT_BYTES: Final = 2_097_152
RECENT_ENTRY_BYTES: Final = 512
UNKNOWN_MS: Final = -1


class LogPage:
    """``low`` <= each of its offsets < ``end``. ``start``: index of the first number that is there.

    ``offsets``, ``positions``, ``sizes`` (octets of the body): columns of the numbers; ``offsets``
    is a range where none is missing. ``kept``: the entries that are objects, ``dead_count`` of them
    settled. ``counts``, ``is_spooled``, ``stored_bytes``: as in ``pages.Page``.
    ``first_ms``, ``latest_ms``: arrival of the first entry, and of the latest; UNKNOWN_MS until
    they are asked for, after a restart and where the first one has left.
    """

    __slots__ = (
        "counts",
        "dead_count",
        "end",
        "first_ms",
        "is_spooled",
        "kept",
        "latest_ms",
        "low",
        "offsets",
        "positions",
        "sizes",
        "start",
        "stored_bytes",
    )

    def __init__(self, low: int) -> None:
        self.low = low
        self.end = low
        self.start = 0
        self.offsets: Sequence[int] = range(low, low)
        self.positions = array("Q")
        self.sizes = array("I")
        self.kept: list[QueueEntry] = []
        self.dead_count = 0
        self.counts: dict[int, int] | None = None
        self.is_spooled = False
        self.stored_bytes = 0
        self.first_ms = UNKNOWN_MS
        self.latest_ms = UNKNOWN_MS

    def append(self, page: Page) -> None:
        """Add entries that follow all that are here."""
        offsets = page.offsets
        if offsets:
            assert page.sizes is not None
            known, first, count = self.offsets, offsets[0], len(offsets)
            is_dense = offsets[-1] - first + 1 == count
            if is_dense and not known:
                self.offsets = range(first, first + count)
            elif is_dense and isinstance(known, range) and known.stop == first:
                self.offsets = range(known.start, first + count)
            else:
                self.offsets = array("Q", known)
                self.offsets += offsets
            self.positions += page.positions
            self.sizes += page.sizes
            self.end = offsets[-1] + 1
        if page.kept:
            self.kept += page.kept
            self.end = max(self.end, page.kept[-1].offset + 1)
        if page.counts is not None:
            self.counts = {**(self.counts or {}), **page.counts}
        self.is_spooled = self.is_spooled or page.is_spooled
        self.stored_bytes += page.stored_bytes

    def trim(self) -> None:
        """Let go of what the columns have allocated to grow: the page is full."""
        self.positions = self.positions[:]
        self.sizes = self.sizes[:]

    def remove(self, index: int) -> None:
        """Take one number out."""
        if index == self.start:
            self.start = index + 1
            self.first_ms = UNKNOWN_MS
            return
        offsets = array("Q", self.offsets)
        del offsets[index]
        del self.positions[index]
        del self.sizes[index]
        self.offsets = offsets

    def numbers(self, start: int, stop: int) -> Page:
        """The numbers between two indices, as a page by itself."""
        page = Page()
        page.offsets = array("Q", self.offsets[start:stop])
        page.positions = self.positions[start:stop]
        page.is_spooled = self.is_spooled
        page.size_bytes = sum(self.sizes[start:stop])
        return page

    @property
    def number_count(self) -> int:
        return len(self.positions) - self.start

    @property
    def room(self) -> int:
        """The number of entries it may still get."""
        return LOG_PAGE_ENTRIES - len(self.positions) - len(self.kept)

    def __len__(self) -> int:
        """Its entries, without settled ones."""
        return len(self.positions) - self.start + len(self.kept) - self.dead_count


class Recent:
    """Entries made from numbers, by page and index; the pages read last, within RECENT_BYTES."""

    __slots__ = ("_by_page", "_octets", "_octets_of")

    def __init__(self) -> None:
        self._by_page: dict[LogPage, list[QueueEntry | None]] = {}
        self._octets_of: dict[LogPage, int] = {}
        self._octets = 0

    def of(self, page: LogPage, start: int, stop: int) -> list[QueueEntry | None]:
        """Return the entries remembered between two indices; None for each that is not."""
        entries = self._by_page.pop(page, None)
        if entries is None:
            return [None] * (stop - start)
        self._by_page[page] = entries  # the one asked for last stands last
        if len(entries) < stop:  # the page has grown
            missing = [None] * (len(page.positions) - len(entries))
            entries += missing
            self._count(page, 8 * len(missing))
        return entries[start:stop]

    def remember(self, page: LogPage, start: int, entries: list[QueueEntry]) -> None:
        """Remember entries from an index on, and forget others if these are too many."""
        known = self._by_page.get(page)
        octets = sum([entry.message.size + RECENT_ENTRY_BYTES for entry in entries])
        if known is None:
            known = self._by_page[page] = [None] * len(page.positions)
            octets += 8 * len(known)
        known[start : start + len(entries)] = entries
        self._count(page, octets)
        while self._octets > RECENT_BYTES:
            self.forget(next(iter(self._by_page)))

    def _count(self, page: LogPage, octets: int) -> None:
        self._octets_of[page] = self._octets_of.get(page, 0) + octets
        self._octets += octets

    def forget(self, page: LogPage) -> None:
        """Forget the entries of a page that has changed or gone."""
        if self._by_page.pop(page, None) is not None:
            self._octets -= self._octets_of.pop(page)
