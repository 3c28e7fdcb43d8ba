"""Places of records in files, for a process that reads them beside the broker.

While a ``Pinned`` is held, each of its places reads what it read at first: its segments are neither
freed nor used for anything else.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable
from typing import Final

from hareline.storage.journal.format.positions import OFFSET_BITS
from hareline.storage.journal.writer import JournalWriter
from hareline.storage.store.liveness import Liveness

_NEIGHBOURS_MAX: Final = 8


class Pinned:
    """``places``: segment number and offset in its file, as positions; type Q."""

    __slots__ = ("_numbers", "places")

    def __init__(self, places: array[int], numbers: set[int]) -> None:
        self.places = places
        self._numbers = numbers

    def take_numbers(self) -> set[int]:
        """The segments to unpin; none when they have been taken before."""
        numbers, self._numbers = self._numbers, set()
        return numbers


class PinnedPlaces:
    """``directory``: of the journal, ``large_directory``: of the bodies of large messages."""

    def __init__(
        self,
        directory: str,
        large_directory: str,
        writer: JournalWriter,
        liveness: Liveness,
        ask_for_turn: Callable[[], None],
    ) -> None:
        """``ask_for_turn``: called when there may be segments to free."""
        self.directory = directory
        self.large_directory = large_directory
        self._writer = writer
        self._liveness = liveness
        self._ask_for_turn = ask_for_turn

    def pin(self, positions: array[int]) -> Pinned:
        """Return places of the records at these positions, until ``release``.

        There is at least one, and all are written.
        """
        liveness = self._liveness
        places = positions
        if liveness.moves:
            # not to where a batch is still being written; until it is durable, the segment that a
            # record is moved from stays
            end = self._writer.readable_position
            places = array("Q", [liveness.current(position, end) for position in positions])
        first, last = min(places) >> OFFSET_BITS, max(places) >> OFFSET_BITS
        if last - first < _NEIGHBOURS_MAX:  # some of these may have none of the places
            numbers = set(range(first, last + 1))
        else:
            numbers = {place >> OFFSET_BITS for place in places}
        liveness.pin(numbers)
        return Pinned(places, numbers)

    def release(self, pinned: Pinned) -> None:
        """The places have been read; a second call has no effect."""
        numbers = pinned.take_numbers()
        if numbers and self._liveness.unpin(numbers):
            self._ask_for_turn()
