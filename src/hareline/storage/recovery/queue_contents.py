"""Queues before the journal is read (``KnownQueue``) and after it (``QueueContents``).

An entry is three numbers in columns, 20 octets, until ``server.restore`` puts it into its queue.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final, NamedTuple

# A size also says whether the message has a time to live, since such entries cannot be kept as bare
# numbers. In a queue with priorities it has 64 bits, and the level.
EXPIRES: Final = 1 << 31
SIZE_MASK: Final = EXPIRES - 1
LEVEL_SHIFT: Final = 32

LevelReader = Callable[[bytes], int]


class KnownQueue(NamedTuple):
    """A queue before the journal is read.

    ``name``: for texts. ``level_of``: returns the level of a message by its property octets; None
    without priorities. ``is_loaded``: its entries become objects, as far as an estimate needs it.
    """

    name: str
    level_of: LevelReader | None = None
    is_loaded: bool = False


@dataclass(slots=True)
class QueueContents:
    """The live entries of one queue, ascending by offset.

    ``sizes``: octets of the bodies, with EXPIRES if the message has a time to live, and the level
    from LEVEL_SHIFT on if the queue has priorities. ``delivery_counts``: offset to count, of
    entries that have been, or may have been, delivered. ``large``: offset to id and size of a body
    in a file of its own.
    """

    offsets: array[int] = field(default_factory=lambda: array("Q"))
    positions: array[int] = field(default_factory=lambda: array("Q"))
    sizes: array[int] = field(default_factory=lambda: array("I"))
    delivery_counts: dict[int, int] = field(default_factory=dict)
    large: dict[int, tuple[int, int]] = field(default_factory=dict)

    @property
    def expiring_count(self) -> int:
        """Number of entries with a time to live."""
        return sum([size & EXPIRES for size in self.sizes]) // EXPIRES

    @property
    def has_levels(self) -> bool:
        """True if ``sizes`` have levels."""
        return self.sizes.typecode == "Q"

    def remove(self, offset: int) -> int:
        """Take out an entry, which must be there; returns its position."""
        index = bisect_left(self.offsets, offset)
        del self.offsets[index]
        del self.sizes[index]
        return self.positions.pop(index)

    def live(self, offsets: Iterable[int]) -> Iterator[int]:
        """Yield those of the offsets that are in the queue."""
        known = self.offsets
        for offset in offsets:
            index = bisect_left(known, offset)
            if index < len(known) and known[index] == offset:
                yield offset

    def __len__(self) -> int:
        return len(self.offsets)
