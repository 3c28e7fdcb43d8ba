"""The orderings there are, for the suites in this folder: how each is made, and what it promises.

A new queue type gets an entry in ``ORDERINGS``, and all the suites run for it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from hareline.broker.queues.entry import QueueEntry
from hareline.broker.queues.fifo import FifoOrder
from hareline.broker.queues.order import EntryOrder


@dataclass(frozen=True)
class Ordering:
    """``place`` gives what entries are sorted by: the smallest is next, no two are equal."""

    name: str
    make: Callable[[], EntryOrder]
    place: Callable[[QueueEntry], Any]

    def __str__(self) -> str:
        return self.name


ORDERINGS: Final = (Ordering("fifo", FifoOrder, lambda entry: entry.offset),)
