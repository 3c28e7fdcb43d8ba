"""EntryOrder: the whole contract of a queue type.

An ordering holds the ready entries of one queue and says which is next. It knows nothing of
consumers, credit or the lifetimes of messages. Only the queue, its lanes and its paging call
it.

A new queue type is a subclass of ``EntryOrder`` that overrides the abstract members, and ``worth``
if a full queue gives up others than the oldest. Clients ask for it by a row of ``declare.table``
(``is_ordering``, and its line in docs/queue-arguments.md) with a field of ``QueueArguments``;
``broker.making.make_order`` makes it. An entry in tests/conformance/orderings.py puts it through
all suites for orderings.

What an ordering may rely on, and must keep:

- An entry is added once. Its ``offset`` grows with each new entry and never changes.
- Entries are ``RankedEntry``, and ``entry.rank`` belongs to the ordering. What it reads out of the
  message has to be remembered there, since a message may lose its content while the entry waits;
  ``property_cache.PropertyCache`` remembers the same by the octets of the properties.
- ``take`` removes entries, and ``restore`` brings some of them back, in any order, together with
  entries that were held and have never been added: their ``rank`` is still the offset.
- ``discard`` is told of an entry that was settled where it stands. The entry may stay in place if
  everything else passes over it, but not for ever: its message is kept in memory with it, and it
  may never come to the front. So sweep when most of what is kept is settled.
- No method may cost more than O(log n) for each entry that it adds, takes, restores or discards,
  on average. ``peek`` and ``least`` change nothing that a caller can see.
"""

from __future__ import annotations

from abc import ABCMeta, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from operator import itemgetter
from typing import Any, ClassVar, Final

from hareline.compiled import mypyc_attr
from hareline.queues.core.entry import READY, QueueEntry, RankedEntry
from hareline.queues.core.pages import Page, Pager

WALKED_AT_ONCE: Final = 256  # entries of a share; more in what has to be counted off each time
SHARES_MAX: Final = 64

_rank_in: Final = itemgetter(0)


def shares_of(
    ranked: list[tuple[Any, QueueEntry]], after: Any, is_backwards: bool
) -> Iterator[list[QueueEntry]]:
    """Shares of the entries behind a rank, or from the end and before it, of a sorted list."""
    if is_backwards:
        ranked = ranked[::-1]
    for start in range(0, len(ranked), WALKED_AT_ONCE):
        share = ranked[start : start + WALKED_AT_ONCE]
        if after is not None:
            share = [
                each for each in share if (each[0] < after if is_backwards else each[0] > after)
            ]
        yield [entry for _, entry in share if entry.state == READY]


@mypyc_attr(allow_interpreted_subclasses=True)
class EntryOrder(metaclass=ABCMeta):
    """Ready entries in delivery order. ``len()`` is their number, iteration shows them in order.

    ``entry_class``: what its entries are, or a subclass of it; QueueEntry if ``rank`` is not used.
    """

    __slots__ = ()

    entry_class: ClassVar[type[QueueEntry]] = RankedEntry

    @property
    @abstractmethod
    def add(self) -> Callable[[Any], None]:
        """The function that inserts a new entry; a property so that it may be a C method."""

    @property
    def add_run(self) -> Callable[[list[Any]], None]:
        """The function that inserts new entries, in the order of their offsets."""
        return self._add_each

    def _add_each(self, entries: list[Any]) -> None:
        add = self.add
        for entry in entries:
            add(entry)

    @abstractmethod
    def peek(self) -> QueueEntry | None:
        """The next entry, left where it is."""

    @abstractmethod
    def take(self, count: int) -> list[QueueEntry]:
        """Remove and return the next ``count`` entries, fewer when there are fewer."""

    def take_unsorted(self) -> list[QueueEntry]:
        """Remove and return all entries in any order, where ``take`` would work to sort them; none
        elsewhere. For a purge."""
        return []

    @abstractmethod
    def restore(self, entries: Iterable[QueueEntry]) -> None:
        """Put in entries that were taken or held, each at its own place."""

    def adopt(self, entries: list[QueueEntry]) -> None:
        """Put in the ready entries of another ordering, whose place this empty one takes.

        Acquired ones may come back later with a rank, or without any: plain ``QueueEntry``.
        """
        self.restore(entries)

    @abstractmethod
    def discard(self, entry: QueueEntry) -> None:
        """An entry that stands here has just been settled: it no longer counts or comes out.

        Called once for it, with its state already SETTLED, so an ordering may leave it where it is
        and pass over it later.
        """

    @abstractmethod
    def least(self) -> QueueEntry | None:
        """The entry that a full queue gives up first, left where it is."""

    def worth(self, entry: QueueEntry) -> Any:
        """Return the value that ``least`` compares: of all entries the smallest goes first.

        The offset unless the ordering says otherwise. For entries that have been added, in the
        ordering or not.
        """
        return entry.offset

    @abstractmethod
    def rank(self, entry: QueueEntry) -> Any:
        """The entry's place as a value: the smallest is next, no two are equal, it never changes.

        A whole number from 0, of which ``broker.operations.positions`` makes a text; SortedOrder
        alone has another kind. For entries that have been added or held, in the ordering or not.
        """

    def walk(self, after: Any = None, *, is_backwards: bool = False) -> Iterator[list[QueueEntry]]:
        """Shares of the entries behind this rank (None: all), left where they are, for operators.

        In order, or from the end and before that rank. Anything may happen to the queue between two
        shares; what comes or leaves meanwhile is shown or not, and no entry is shown twice. A share
        may be empty. Numbers of pages are shown as objects that stand nowhere: see ``standing``.
        """
        ranked = sorted([(self.rank(entry), entry) for entry in self], key=_rank_in)
        yield from shares_of(ranked, after, is_backwards)

    def standing(self, entry: QueueEntry) -> QueueEntry | None:
        """The object that stands here for an entry of ``walk``, a number made one; None: it left.

        It may be settled where it stands.
        """
        return entry if entry.state == READY else None

    @property
    def paged(self) -> PagedOrder | None:
        """Itself, if its entries can become numbers in pages; None: they stay objects.

        Entries that stay objects lose the content of their messages in a deep queue, so most
        orderings have no need of pages.
        """
        return None

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def __iter__(self) -> Iterator[QueueEntry]: ...


@mypyc_attr(allow_interpreted_subclasses=True)
class PagedOrder(EntryOrder):
    """An ordering in which entries behind a window can become numbers in pages.

    ``__len__`` and ``__iter__`` count and show those as well.
    """

    __slots__ = ()

    @property
    def paged(self) -> PagedOrder | None:
        """This ordering; None for one that was made to keep its entries as objects."""
        return self

    @property
    @abstractmethod
    def has_levels(self) -> bool:
        """True if it keeps several lines of entries, one for each level of priority."""

    @property
    @abstractmethod
    def paged_count(self) -> int:
        """The number of entries in pages."""

    @abstractmethod
    def kept_entries(self) -> list[QueueEntry]:
        """The entries in pages that are objects."""

    @abstractmethod
    def page_out(self, pager: Pager, keep: int, limit: int) -> int:
        """Let entries behind the ``keep`` that are served first leave memory, up to ``limit``.

        Returns how many did, or were found settled; fewer than ``limit``: for now no more can.
        """

    @abstractmethod
    def add_page(self, pager: Pager, page: Page, level: int) -> None:
        """Add a page of entries of an earlier life, behind all of its level; 0 without levels."""

    @abstractmethod
    def drop_pages(self, on_dropped: Callable[[Page], None]) -> int:
        """Forget all entries that are numbers, page by page; returns how many they were."""
