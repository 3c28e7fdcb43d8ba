"""The consumers of the selective lane that can receive, and which of them is next.

They stand in levels by priority, and in each level in one ring for each selector class. Some are
*to revisit* the parked entries: one of these may be for them now, and comes before all others.
``selective`` and ``placing`` are the only callers. There may be thousands of classes and of
priorities: no consumer costs more for the others that are there.                            [hot]

Invariant: ``Consumer.is_active`` is True exactly for those that stand in a ring, and all consumers
that are to revisit do.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from typing import TYPE_CHECKING, Final

from hareline.queues.core.consumer import Consumer, Ring

if TYPE_CHECKING:
    from hareline.message import Message
    from hareline.queues.core.dispatch_rule import DispatchRule

# With more rings than that in a level, those of a message are looked up by the bits of its mask.
FEW_RINGS: Final = 16


class Level:
    """The ready consumers of one priority, in rings by the number of their selector class.

    ``bits``: those of the classes that have a ring. ``revisit``: consumers that are to revisit the
    parked entries, in turn.
    """

    __slots__ = ("bits", "priority", "revisit", "rings")

    def __init__(self, priority: int) -> None:
        self.priority = priority
        self.rings: dict[int, Ring] = {}
        self.bits = 0
        self.revisit: dict[Consumer, None] = {}


def _precedence(level: Level) -> int:
    return -level.priority


class ReadyConsumers:
    """``levels``: highest priority first; read them, do not change them. ``served`` counts, for
    ``served_at`` of consumers: the one that waited longest comes first. ``rule``: another says so.
    """

    __slots__ = ("_by_priority", "_count", "_revisit_count", "levels", "rule", "served")

    def __init__(self) -> None:
        self.levels: list[Level] = []
        self._by_priority: dict[int, Level] = {}
        self._count = 0
        self._revisit_count = 0
        self.served = 0
        self.rule: DispatchRule | None = None

    def __bool__(self) -> bool:
        return self._count > 0

    @property
    def rule_cost(self) -> int:
        """The number of consumers that are looked at for each entry, where there is a rule."""
        return 0 if self.rule is None else self._count

    def add(self, consumer: Consumer, *, is_to_revisit: bool) -> None:
        """Put a consumer that can receive at the end of its ring."""
        consumer.is_active = True
        self._count += 1
        level = self._level(consumer.priority)
        bit = consumer.class_bit
        ring = level.rings.get(bit.bit_length())
        if ring is None:
            level.rings[bit.bit_length()] = Ring(consumer)
            level.bits |= bit
        else:
            ring.append(consumer)
        if is_to_revisit:
            self._mark_revisit(level, consumer)

    def _level(self, priority: int) -> Level:
        level = self._by_priority.get(priority)
        if level is None:
            level = self._by_priority[priority] = Level(priority)
            insort(self.levels, level, key=_precedence)
        return level

    def remove(self, consumer: Consumer) -> bool:
        """Take out a consumer that cannot receive for now; True if it was to revisit."""
        consumer.is_active = False
        self._count -= 1
        ring = consumer.ring
        assert ring is not None, "it stands in a ring"
        level = self._by_priority[consumer.priority]
        if ring.remove(consumer):
            del level.rings[ring.bit.bit_length()]
            level.bits ^= ring.bit
        was_to_revisit = consumer in level.revisit
        if was_to_revisit:
            self.unmark_revisit(consumer)
        return was_to_revisit

    def clear(self) -> None:
        """Drop all levels and rings, whose consumers have left them."""
        for level in self.levels:
            level.rings.clear()
        self.levels.clear()
        self._by_priority.clear()
        self._count = self._revisit_count = 0

    def forget_level(self, priority: int) -> None:
        """No consumer has this priority any more."""
        if self._by_priority.pop(priority, None) is not None:
            del self.levels[bisect_left(self.levels, -priority, key=_precedence)]

    # ----------------------------------------------------------------- who is next

    def next_for(self, mask: int, level: Level) -> Consumer | None:
        """The consumer of a level that has waited longest, of those whose bit is in the mask."""
        best: Consumer | None = None
        rings = level.rings
        if self.rule is not None:
            for ring in rings.values():
                if mask & ring.bit:
                    first = self._first(ring)
                    if best is None or self.rule.precedes(first, best):
                        best = first
            return best
        if len(rings) > FEW_RINGS:
            wanted = mask & level.bits
            if wanted.bit_count() < len(rings) // 4:
                while wanted:
                    number = wanted.bit_length()
                    wanted ^= rings[number].bit
                    first = rings[number].first
                    if best is None or first.served_at < best.served_at:
                        best = first
                return best
        for ring in rings.values():
            if mask & ring.bit and (best is None or ring.first.served_at < best.served_at):
                best = ring.first
        return best

    def _first(self, ring: Ring) -> Consumer:
        """The consumer of a ring that is next."""
        first = ring.first
        if self.rule is None:
            return first
        best = first
        other = first.ring_next
        while other is not None and other is not first:
            if self.rule.precedes(other, best):
                best = other
            other = other.ring_next
        return best

    def has_taker(self, mask: int, message: Message) -> bool:
        """True if a consumer whose bit is in the mask would be given this new message at once."""
        for level in self.levels:
            for ring in level.rings.values():
                if mask & ring.bit and ring.has_taker(message):
                    return True
        return False

    def rotate(self, consumer: Consumer) -> None:
        """Put a consumer that was served behind the others of its ring."""
        ring, following = consumer.ring, consumer.ring_next
        assert ring is not None, "it stands in a ring"
        assert following is not None, "it stands in a ring"
        if ring.first is consumer:
            ring.first = following

    # ------------------------------------------------------------ who is to revisit

    def next_to_revisit(self) -> Consumer | None:
        """The consumer whose turn it is to look at the parked entries, if there is one."""
        if self._revisit_count:
            for level in self.levels:
                if self.rule is not None and level.revisit:
                    return self.rule.best(level.revisit)
                for consumer in level.revisit:
                    return consumer
        return None

    def _mark_revisit(self, level: Level, consumer: Consumer) -> None:
        if consumer not in level.revisit:
            level.revisit[consumer] = None
            self._revisit_count += 1

    def mark_revisit(self, consumer: Consumer) -> None:
        """A parked entry may be for this consumer, which looks after those marked before it."""
        self.unmark_revisit(consumer)
        self._mark_revisit(self._level(consumer.priority), consumer)

    def mark_revisit_by_ring(self, consumer: Consumer) -> None:
        """A parked entry may be for the next consumer of this one's ring, if there is a ring."""
        level = self._level(consumer.priority)
        ring = level.rings.get(consumer.class_bit.bit_length())
        if ring is not None:
            self._mark_revisit(level, self._first(ring))

    def mark_revisit_by_all(self) -> None:
        """Parked entries have become available; the next of each ring is to look at them.

        One of them takes what it may have, and with it the group; when its credit ends before all
        is taken, the next has to look.
        """
        for level in self.levels:
            for ring in level.rings.values():
                self._mark_revisit(level, self._first(ring))

    def unmark_revisit(self, consumer: Consumer) -> None:
        """No parked entry is for this consumer."""
        revisit = self._by_priority[consumer.priority].revisit
        if consumer in revisit:
            del revisit[consumer]
            self._revisit_count -= 1

    def is_to_revisit(self, consumer: Consumer) -> bool:
        level = self._by_priority.get(consumer.priority)
        return level is not None and consumer in level.revisit
