"""The consumers of the selective lane that can receive, and which of them is next.

They stand in levels by priority, and in each level in one ring for each selector class. Some are
*eager*: there may be parked entries that they can have now, and these come before all others.
``selective`` is the only caller.                                                            [hot]

Invariant: ``Consumer.is_active`` is True exactly for those who stand in a ring; the eager ones do.
"""

from __future__ import annotations

from collections import deque

from hareline.broker.queues.consumer import Consumer


class Level:
    """The willing consumers of one priority, in rings by the bit of their selector class."""

    __slots__ = ("eager", "priority", "rings")

    def __init__(self, priority: int) -> None:
        self.priority = priority
        self.rings: dict[int, deque[Consumer]] = {}
        self.eager: dict[Consumer, None] = {}


class Willing:
    """``levels``: highest priority first; for looking into, not for changing. ``served`` counts,
    for ``served_at`` of consumers: who waited longest comes first.
    """

    __slots__ = ("levels", "served")

    def __init__(self) -> None:
        self.levels: list[Level] = []
        self.served = 0

    def __bool__(self) -> bool:
        return any(level.rings for level in self.levels)

    def add(self, consumer: Consumer, *, is_eager: bool) -> None:
        consumer.is_active = True
        level = self._level(consumer.priority)
        ring = level.rings.get(consumer.class_bit)
        if ring is None:
            ring = level.rings[consumer.class_bit] = deque()
        ring.append(consumer)
        if is_eager:
            level.eager[consumer] = None

    def _level(self, priority: int) -> Level:
        for level in self.levels:
            if level.priority == priority:
                return level
        level = Level(priority)
        self.levels.append(level)
        self.levels.sort(key=lambda one: -one.priority)
        return level

    def remove(self, consumer: Consumer) -> bool:
        """It cannot receive for now; True if it was eager, and another one has to look instead."""
        consumer.is_active = False
        level = self._level(consumer.priority)
        ring = level.rings[consumer.class_bit]
        ring.remove(consumer)
        if not ring:
            del level.rings[consumer.class_bit]
        was_eager = consumer in level.eager
        if was_eager:
            del level.eager[consumer]
        return was_eager

    def forget_level(self, priority: int) -> None:
        """No consumer has this priority any more."""
        self.levels = [level for level in self.levels if level.priority != priority]

    # ----------------------------------------------------------------- who is next

    def next_for(self, mask: int, level: Level) -> Consumer | None:
        """Of a level's consumers who match the one that waited longest."""
        best: Consumer | None = None
        for bit, ring in level.rings.items():
            if mask & bit and (best is None or ring[0].served_at < best.served_at):
                best = ring[0]
        return best

    def rotate(self, consumer: Consumer) -> None:
        """It was served: the others of its ring come first now."""
        ring = self._level(consumer.priority).rings[consumer.class_bit]
        if ring[0] is consumer:
            ring.rotate(-1)

    # ----------------------------------------------------------------- who is eager

    def next_eager(self) -> Consumer | None:
        for level in self.levels:
            for consumer in level.eager:
                return consumer
        return None

    def make_eager(self, consumer: Consumer) -> None:
        """It may have parked entries, after those who were made eager before."""
        eager = self._level(consumer.priority).eager
        eager.pop(consumer, None)
        eager[consumer] = None

    def make_first_eager(self, consumer: Consumer) -> None:
        """The next of this consumer's ring, if there is still one, may have parked entries."""
        level = self._level(consumer.priority)
        ring = level.rings.get(consumer.class_bit)
        if ring is not None:
            level.eager[ring[0]] = None

    def calm(self, consumer: Consumer) -> None:
        """There is nothing parked for it."""
        self._level(consumer.priority).eager.pop(consumer, None)

    def is_eager(self, consumer: Consumer) -> bool:
        return consumer in self._level(consumer.priority).eager

    def make_next_eager(self) -> None:
        """Parked entries can be had again; the next of each ring is to look at them.

        One of them takes what it may have, and with it the group; when its credit ends before all
        is taken, the next has to look.
        """
        for level in self.levels:
            for ring in level.rings.values():
                level.eager[ring[0]] = None
