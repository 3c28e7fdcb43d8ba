"""Positions of readers outside of the broker in one stream, and the messages that they pin.

``broker.stream_readers`` has one of these for each stream with such readers, which it keeps over
restarts. ``retention`` asks for the lowest *pinned* offset: from there on messages stay longer,
within bounds. A pin counts for ``PIN_MS`` after its reader reported; then it is only a position.

Invariant: there are at most ``READERS_MAX`` positions.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from hareline.clock import Clock
from hareline.errors import PreconditionFailed
from hareline.queues.policies.deadline_timer import NEVER

READERS_MAX: Final = 1_000
PIN_MS: Final = 7 * 86_400_000


class ReaderPosition(NamedTuple):
    """``offset``: the next one that the reader wants. ``put_ms``: when it said so."""

    offset: int
    is_pinned: bool
    put_ms: int


class ReaderPositions:
    """The positions in one stream, by the readers' names.

    ``_lowest`` is the name of the reader with the lowest pin that counts. It is looked for again
    when that reader moves or its pin has ended, so others report without a look at all of them.
    """

    __slots__ = ("_clock", "_is_known", "_lowest", "_positions")

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._positions: dict[str, ReaderPosition] = {}
        self._lowest: str | None = None
        self._is_known = True

    @property
    def positions(self) -> Mapping[str, ReaderPosition]:
        """All of them, by name; for reading."""
        return self._positions

    def put(self, name: str, position: ReaderPosition) -> None:
        """The reader is here now. Raises PreconditionFailed for one reader too many."""
        if name not in self._positions and len(self._positions) >= READERS_MAX:
            raise PreconditionFailed(
                f"there are {READERS_MAX} readers already; delete one that is not used any more"
            )
        self._positions[name] = position
        if name == self._lowest or self._is_lower(position):
            self._is_known = False

    def remove(self, name: str) -> bool:
        """Forget a reader; False if there is none of this name."""
        if self._positions.pop(name, None) is None:
            return False
        if name == self._lowest:
            self._is_known = False
        return True

    def counts(self, position: ReaderPosition) -> bool:
        """True for a pin that was renewed lately enough."""
        return position.is_pinned and self._clock.now_ms < position.put_ms + PIN_MS

    @property
    def pinned_offset(self) -> int:
        """The lowest offset with a pin that counts; NEVER without any."""
        lowest = self._lowest_position()
        return NEVER if lowest is None else lowest.offset

    @property
    def pin_ends_ms(self) -> int:
        """The end of the lowest pin unless it is renewed, in epoch milliseconds; or NEVER."""
        lowest = self._lowest_position()
        return NEVER if lowest is None else lowest.put_ms + PIN_MS

    def _is_lower(self, position: ReaderPosition) -> bool:
        if not position.is_pinned:
            return False
        lowest = self._lowest
        return lowest is None or position.offset < self._positions[lowest].offset

    def _lowest_position(self) -> ReaderPosition | None:
        lowest = self._lowest
        if self._is_known and (lowest is None or self.counts(self._positions[lowest])):
            return None if lowest is None else self._positions[lowest]
        pinned = [
            (position.offset, name)
            for name, position in self._positions.items()
            if self.counts(position)
        ]
        self._lowest = min(pinned)[1] if pinned else None
        self._is_known = True
        return None if self._lowest is None else self._positions[self._lowest]

    def __len__(self) -> int:
        return len(self._positions)
