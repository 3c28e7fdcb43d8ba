"""Highest priority first (``x-max-priority``, ``x-qpid-priorities``).

One FIFO ordering for each level that was ever used, and a bit mask of the levels that have an
entry, so that the highest of them is one ``bit_length`` away however many levels there are. The
order is strict at every depth. ``rabbitmq_levels`` and ``qpid_levels`` make one.

Invariant: bit n of ``_levels_in_use`` is set exactly when level n has an entry that is not settled,
and an entry of level n stands in ``_fifos[n]`` and nowhere else.                            [hot]
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any, Final

from hareline.message import Message, decode_priority
from hareline.queues.core.entry import QueueEntry, RankedEntry
from hareline.queues.core.pages import Page, Pager
from hareline.queues.core.property_cache import PropertyCache
from hareline.queues.orders.fifo import FifoOrder
from hareline.queues.orders.order import PagedOrder

LEVELS_MAX: Final = 256
QPID_ABSENT: Final = 4
RABBITMQ_ABSENT: Final = 0

# A rank is 1 + how far the level is below the highest one, and behind that the offset in so many
# bits. The 1 tells it from the bare offset of an entry that has no rank yet.
_OFFSET_BITS: Final = 56
_RANKED: Final = 1 << _OFFSET_BITS

LevelOf = Callable[[Message], int]
LevelReader = Callable[[bytes], int]
# for adding to a level: the rank of its offset 0, its bit, and the FIFO's own ``add``
Level = tuple[int, int, Callable[[QueueEntry], None]]


class PriorityOrder(PagedOrder):
    """``levels`` levels, 0 the last to be served; ``level_of`` is the level of a message.

    The level is read once, when an entry is added.
    """

    __slots__ = (
        "_count",
        "_fifos",
        "_level_of",
        "_levels",
        "_levels_in_use",
        "_open_levels",
        "_ranks_anew",
    )

    def __init__(self, levels: int, level_of: LevelOf) -> None:
        if not 1 <= levels <= LEVELS_MAX:
            raise ValueError(f"a queue has 1 to {LEVELS_MAX} levels of priority, not {levels}")
        self._levels = levels
        self._level_of = level_of
        self._fifos: list[FifoOrder | None] = [None] * levels
        self._open_levels: list[Level | None] = [None] * levels
        self._levels_in_use = 0
        self._count = 0
        self._ranks_anew = False  # what comes back may have a rank of another ordering

    @property
    def add(self) -> Callable[[RankedEntry], None]:
        return self._add

    def _add(self, entry: RankedEntry) -> None:
        level = self._level_of(entry.message)
        first_rank, bit, add = self._open_levels[level] or self._open_level(level)
        entry.rank = first_rank | entry.offset
        add(entry)
        self._levels_in_use |= bit
        self._count += 1

    def _level(self, entry: QueueEntry) -> int:
        return self._levels - (self.rank(entry) >> _OFFSET_BITS)

    def _open_level(self, level: int) -> Level:
        fifo = self._fifo(level)
        opened = ((self._levels - level) << _OFFSET_BITS, 1 << level, fifo.add)
        self._open_levels[level] = opened
        return opened

    def _fifo(self, level: int) -> FifoOrder:
        fifo = self._fifos[level]
        if fifo is None:
            fifo = self._fifos[level] = FifoOrder()
        return fifo

    def peek(self) -> QueueEntry | None:
        return self._first_of(self._levels_in_use)

    def least(self) -> QueueEntry | None:
        """The oldest of the lowest level that has any, as in Broker-J."""
        return self._first_of(self._levels_in_use & -self._levels_in_use)

    def worth(self, entry: QueueEntry) -> int:
        return self._level(entry) << _OFFSET_BITS | entry.offset

    def _first_of(self, levels: int) -> QueueEntry | None:
        """The next entry of the highest level in the mask, None for no level."""
        while levels:
            level = levels.bit_length() - 1
            fifo = self._fifo(level)
            entry = fifo.peek()
            if fifo.lost:
                self._count_lost(level, fifo)
            if entry is not None:
                return entry
            levels ^= 1 << level
        return None

    def take(self, count: int) -> list[QueueEntry]:
        entries: list[QueueEntry] = []
        while self._levels_in_use and count > 0:
            level = self._levels_in_use.bit_length() - 1
            fifo = self._fifo(level)
            taken = fifo.take(count)
            if fifo.lost:
                self._count_lost(level, fifo)
            elif not len(fifo):
                self._levels_in_use ^= 1 << level
            count -= len(taken)
            if not entries:
                entries = taken
            else:
                entries += taken
        self._count -= len(entries)
        return entries

    def restore(self, entries: Iterable[QueueEntry]) -> None:
        of_level: dict[int, list[QueueEntry]] = {}
        ranks_anew = self._ranks_anew
        for entry in entries:
            if ranks_anew and isinstance(entry, RankedEntry):
                entry.rank = entry.offset
            level = self._level(entry)
            if level in of_level:
                of_level[level].append(entry)
            else:
                of_level[level] = [entry]
        for level, some in of_level.items():
            self._fifo(level).restore(some)
            self._levels_in_use |= 1 << level
            self._count += len(some)

    def adopt(self, entries: list[QueueEntry]) -> None:
        self._ranks_anew = True
        self.restore(entries)

    def discard(self, entry: QueueEntry) -> None:
        level = self._level(entry)
        fifo = self._fifo(level)
        fifo.discard(entry)
        if fifo.lost:
            self._count_lost(level, fifo)
        elif not len(fifo):
            self._levels_in_use ^= 1 << level
        self._count -= 1

    def _count_lost(self, level: int, fifo: FifoOrder) -> None:
        """Subtract entries of this level that could not be read."""
        self._count -= fifo.lost
        fifo.lost = 0
        if not len(fifo):
            self._levels_in_use &= ~(1 << level)

    def rank(self, entry: QueueEntry) -> int:
        """As the contract says; given now to an entry that was held and has no rank yet."""
        rank: int = entry.rank
        if rank < _RANKED:
            level = self._level_of(entry.message)
            rank = (self._levels - level) << _OFFSET_BITS | entry.offset
            if isinstance(entry, RankedEntry):  # a plain one of an earlier ordering has no room
                entry.rank = rank
        return rank

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[QueueEntry]:
        for level in reversed(range(self._levels)):
            fifo = self._fifos[level]
            if fifo is not None:
                yield from fifo
                if fifo.lost:
                    self._count_lost(level, fifo)

    # ------------------------------------------------------------------ for operators

    def walk(self, after: Any = None, *, is_backwards: bool = False) -> Iterator[list[QueueEntry]]:
        levels = list(range(self._levels) if is_backwards else reversed(range(self._levels)))
        offset: int | None = None
        if after is not None:
            level = self._levels - (after >> _OFFSET_BITS)
            offset = after & (_RANKED - 1)
            levels = levels[levels.index(level) :] if level in levels else []
        for level in levels:
            fifo = self._fifos[level]
            if fifo is not None:
                yield from fifo.walk(offset, is_backwards=is_backwards)
            offset = None

    def standing(self, entry: QueueEntry) -> QueueEntry | None:
        level = self._level(entry)
        fifo = self._fifo(level)
        found = fifo.standing(entry)
        if fifo.lost:
            self._count_lost(level, fifo)
        if found is not None:
            self.rank(found)  # of a number that has become an object
        return found

    # ------------------------------------------------------------------------- paging

    @property
    def has_levels(self) -> bool:
        return True

    def page_out(self, pager: Pager, keep: int, limit: int) -> int:
        moved = 0
        for fifo in self._used_fifos():
            count = len(fifo)
            if count and moved < limit:
                moved += fifo.page_out(pager, keep, limit - moved)
            keep = max(0, keep - count)
        return moved

    @property
    def paged_count(self) -> int:
        return sum([fifo.paged_count for fifo in self._used_fifos()])

    def kept_entries(self) -> list[QueueEntry]:
        return [entry for fifo in self._used_fifos() for entry in fifo.kept_entries()]

    def _used_fifos(self) -> list[FifoOrder]:
        """The FIFOs of levels that were ever used; the first is served first."""
        return [fifo for fifo in reversed(self._fifos) if fifo is not None]

    def add_page(self, pager: Pager, page: Page, level: int) -> None:
        fifo = self._fifo(level)
        fifo.add_page(pager, page, level)
        self._levels_in_use |= 1 << level
        self._count += len(page)

    def drop_pages(self, on_dropped: Callable[[Page], None]) -> int:
        dropped = 0
        for level, fifo in enumerate(self._fifos):
            if fifo is not None and fifo.paged_count:
                dropped += fifo.drop_pages(on_dropped)
                if not len(fifo):
                    self._levels_in_use &= ~(1 << level)
        self._count -= dropped
        return dropped


def rabbitmq_levels(max_priority: int, default_priority: int | None = None) -> PriorityOrder:
    """``x-max-priority``: levels 0 to ``max_priority``; higher priorities count as that.

    A message without priority has ``default_priority``, 0 unless given. Source:
    rabbit_priority_queue.
    """
    return PriorityOrder(
        max_priority + 1, _level_function(*_rabbitmq_table(max_priority, default_priority))
    )


def qpid_levels(levels: int, default_priority: int | None = None) -> PriorityOrder:
    """``x-qpid-priorities``: this many levels, centred on priority 4; 10 of them are 0 to 9.

    A message without priority has ``default_priority``, 4 unless given. Three levels are the
    categories low (0 to 3), default (4) and high (5 and above). Source: Broker-J's
    PriorityQueueList.
    """
    return PriorityOrder(levels, _level_function(*_qpid_table(levels, default_priority)))


def rabbitmq_level_reader(max_priority: int, default_priority: int | None = None) -> LevelReader:
    """The level that ``rabbitmq_levels`` gives to a message, from its property octets."""
    return partial(_read_level, *_rabbitmq_table(max_priority, default_priority))


def qpid_level_reader(levels: int, default_priority: int | None = None) -> LevelReader:
    """The level that ``qpid_levels`` gives to a message, from its property octets."""
    return partial(_read_level, *_qpid_table(levels, default_priority))


def _read_level(of_priority: list[int], absent: int, property_octets: bytes) -> int:
    priority = decode_priority(property_octets)
    return of_priority[absent if priority is None else priority]


def _rabbitmq_table(max_priority: int, default_priority: int | None) -> tuple[list[int], int]:
    """The level of each of the 256 priorities, and the priority of messages without one."""
    absent = RABBITMQ_ABSENT if default_priority is None else default_priority
    return [min(priority, max_priority) for priority in range(256)], absent


def _qpid_table(levels: int, default_priority: int | None) -> tuple[list[int], int]:
    absent = QPID_ABSENT if default_priority is None else default_priority
    lowest = 5 - (levels + 1) // 2
    return [max(0, min(priority - lowest, levels - 1)) for priority in range(256)], absent


def _level_function(of_priority: list[int], absent: int) -> LevelOf:
    """The level of a message, by the table of all 256 priorities and the one for none."""
    if not 0 <= absent <= 255:
        raise ValueError(f"a default priority is 0 to 255, not {absent}")

    def level_of(message: Message) -> int:
        priority = message.priority
        return of_priority[absent if priority is None else priority]

    return PropertyCache(level_of)
