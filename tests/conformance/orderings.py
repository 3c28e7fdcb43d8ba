"""The orderings there are, for the suites in this folder: how each is made, and what it promises.

A new queue type gets an entry in ``ORDERINGS``, and all the suites run for it. Places are worked
out here once more, from all the properties of the message and in the plainest way.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from fractions import Fraction
from functools import partial, total_ordering
from typing import Any, Final

from hareline.queues.core.entry import QueueEntry
from hareline.queues.orders.fifo import FifoOrder
from hareline.queues.orders.last_values import LastValueOrder
from hareline.queues.orders.log_order import LogOrder
from hareline.queues.orders.order import EntryOrder
from hareline.queues.orders.priority import qpid_levels, rabbitmq_levels
from hareline.queues.orders.sorted import SortedOrder

KEY: Final = "k"


@dataclass(frozen=True)
class Ordering:
    """``place`` gives what entries are sorted by: the smallest is next, no two are equal.

    ``worth`` likewise; the smallest is what a full queue gives up first.
    """

    name: str
    make: Callable[[], EntryOrder]
    place: Callable[[QueueEntry], Any]
    worth: Callable[[QueueEntry], Any]

    def __str__(self) -> str:
        return self.name


@total_ordering
@dataclass(frozen=True)
class Falling:
    """Sorts the other way round."""

    value: Any

    def __lt__(self, other: Falling) -> bool:
        return bool(other.value < self.value)


def arrival(entry: QueueEntry) -> int:
    return entry.offset


def rabbitmq_level(highest: int, entry: QueueEntry) -> int:
    return min(entry.message.properties.priority or 0, highest)


def qpid_level(levels: int, entry: QueueEntry) -> int:
    priority = entry.message.properties.priority
    if priority is None:
        priority = 4
    return min(max(priority - (5 - (levels + 1) // 2), 0), levels - 1)


def by_level(level: Callable[[QueueEntry], int]) -> Callable[[QueueEntry], tuple[int, int]]:
    return lambda entry: (-level(entry), entry.offset)


def by_low_level(level: Callable[[QueueEntry], int]) -> Callable[[QueueEntry], tuple[int, int]]:
    return lambda entry: (level(entry), entry.offset)


def text_place(entry: QueueEntry, wrap: Callable[[Any], Any] = bytes) -> tuple[Any, ...]:
    value = entry.message.headers.get(KEY)
    if value is None:
        return (0, entry.offset)
    text = str(value).lower() if isinstance(value, bool) else str(value)
    return (1, wrap(text.encode("utf-16-be", "surrogatepass")), entry.offset)


def number_place(entry: QueueEntry, wrap: Callable[[Any], Any] = Fraction) -> tuple[Any, ...]:
    value = entry.message.headers.get(KEY)
    if isinstance(value, str) and set(value) <= set("0123456789+-.eE "):
        try:
            value = Decimal(value.strip(" "))
        except InvalidOperation:
            value = None
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal):
        return (0, entry.offset)
    return (1, wrap(Fraction(value)), entry.offset)


def of_levels(
    name: str, make: Callable[[], EntryOrder], level: Callable[[QueueEntry], int]
) -> Ordering:
    return Ordering(name, make, by_level(level), by_low_level(level))


ORDERINGS: Final = (
    Ordering("fifo", FifoOrder, arrival, arrival),
    # what replaces what is between the queue and it; as an ordering it is first in, first out
    Ordering("log", LogOrder, arrival, arrival),
    Ordering("last-value", partial(LastValueOrder, KEY), arrival, arrival),
    of_levels("max-priority-0", partial(rabbitmq_levels, 0), partial(rabbitmq_level, 0)),
    of_levels("max-priority-5", partial(rabbitmq_levels, 5), partial(rabbitmq_level, 5)),
    of_levels("max-priority-255", partial(rabbitmq_levels, 255), partial(rabbitmq_level, 255)),
    of_levels("priorities-3", partial(qpid_levels, 3), partial(qpid_level, 3)),
    of_levels("priorities-10", partial(qpid_levels, 10), partial(qpid_level, 10)),
    Ordering("sorted", partial(SortedOrder, KEY), text_place, arrival),
    Ordering(
        "sorted-desc",
        partial(SortedOrder, KEY, descending=True),
        partial(text_place, wrap=Falling),
        arrival,
    ),
    Ordering("sorted-number", partial(SortedOrder, KEY, numeric=True), number_place, arrival),
    Ordering(
        "sorted-number-desc",
        partial(SortedOrder, KEY, descending=True, numeric=True),
        partial(number_place, wrap=Falling),
        arrival,
    ),
)
