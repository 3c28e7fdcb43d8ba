"""Traces of one queue in the records of the journal, gathered while it is read.

Entries come in the order of their offsets, but for those that compaction has moved. Each ascending
run of either kind is an ``EntryColumns``.                                                     [hot]
"""

from __future__ import annotations

from array import array
from itertools import compress
from typing import Final

from hareline.errors import MalformedFrame
from hareline.storage.journal.format.frame import MalformedRecord
from hareline.storage.recovery.queue_contents import KnownQueue

LEVELS_KNOWN_MAX: Final = 16_384  # sets of property octets whose level is remembered


class EntryColumns:
    """Offset, position and size of entries whose offsets ascend.

    ``is_mixed``: their positions may not ascend. ``typecode``: of the sizes, "Q" if they have the
    level; see ``recovery.queue_contents``.
    """

    __slots__ = ("is_mixed", "last_offset", "offsets", "positions", "sizes")

    def __init__(self, typecode: str = "I") -> None:
        self.is_mixed = False
        self.last_offset = -1
        self.offsets = array("Q")
        self.positions = array("Q")
        self.sizes = array(typecode)

    def __len__(self) -> int:
        return len(self.offsets)

    def select(self, is_kept: bytearray) -> None:
        """Keep only the entries at whose index there is a 1."""
        self.offsets = array("Q", compress(self.offsets, is_kept))
        self.positions = array("Q", compress(self.positions, is_kept))
        self.sizes = array(self.sizes.typecode, compress(self.sizes, is_kept))


class QueueTraces:
    """Traces of one queue in the journal.

    ``all_columns``: every run of ascending offsets; ``fresh`` and ``moved`` are the ones that grow,
    of new entries and of those that compaction has moved.
    ``firsts``, ``lengths``, ``places``: settled runs, and the segment of the record that says so;
    ``settled_count``: how many entries these are, where some may count twice.
    ``counts``: offset to delivery count, by MESSAGE records. ``returns``: the same by RETURN
    records, with the segment of the record.
    ``delivered``: offset of an entry that was delivered when its record was written, to the
    position of that record. ``redelivery_watermark``: entries below this offset may have been
    delivered, say COVER and CHECKPOINT records.
    ``large``: offset to id and size of a large body.
    """

    __slots__ = (
        "all_columns",
        "counts",
        "delivered",
        "firsts",
        "fresh",
        "is_loaded",
        "large",
        "lengths",
        "level_of",
        "levels",
        "moved",
        "next_offset",
        "places",
        "redelivery_watermark",
        "returns",
        "settled_count",
    )

    def __init__(self, queue: KnownQueue) -> None:
        self.level_of = queue.level_of
        self.is_loaded = queue.is_loaded
        self.levels: dict[bytes, int] = {}
        self.next_offset = 0
        self.redelivery_watermark = 0
        self.settled_count = 0
        self.fresh = self._new_columns()
        self.moved = self._new_columns()
        self.all_columns: list[EntryColumns] = [self.fresh, self.moved]
        self.large: dict[int, tuple[int, int]] = {}
        self.counts: dict[int, int] = {}
        self.returns: dict[int, tuple[int, int]] = {}
        self.delivered: dict[int, int] = {}
        self.firsts = array("Q")
        self.lengths = array("Q")
        self.places = array("Q")

    def _new_columns(self) -> EntryColumns:
        return EntryColumns("I" if self.level_of is None else "Q")

    def level(self, property_octets: bytes) -> int:
        """Return the level of a message with these properties. Raises MalformedRecord.

        Only for queues with priorities.
        """
        level = self.levels.get(property_octets)
        if level is None:
            assert self.level_of is not None
            try:
                level = self.level_of(property_octets)
            except MalformedFrame as error:
                raise MalformedRecord(f"MESSAGE record: {error.explanation}") from None
            if len(self.levels) >= LEVELS_KNOWN_MAX:
                self.levels.clear()
            self.levels[property_octets] = level
        return level

    @property
    def living_count(self) -> int:
        """About how many entries are live so far."""
        return max(0, sum(map(len, self.all_columns)) - self.settled_count)

    def begin_columns(self, is_moved: bool) -> EntryColumns:
        """Go on in a new run: the next offset is not above the last one."""
        columns = self._new_columns()
        self.all_columns.append(columns)
        if is_moved:
            self.moved = columns
        else:
            self.fresh = columns
        return columns

    def settle(self, first: int, length: int, segment: int) -> None:
        """Note a settled run, by a record in this segment."""
        firsts, lengths = self.firsts, self.lengths
        if firsts and firsts[-1] + lengths[-1] == first and self.places[-1] == segment:
            lengths[-1] += length
        else:
            firsts.append(first)
            lengths.append(length)
            self.places.append(segment)
        self.next_offset = max(self.next_offset, first + length)
        self.settled_count += length
