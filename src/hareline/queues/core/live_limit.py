"""Limit on the consumers of a queue that receive, and the choice of the next one.

With a single active consumer, or ``maximumLiveConsumers``, the first to come are *live* and the
others stand by. When a live one leaves, the one of highest priority takes over, and of equals the
one that came first. A ``TakingOver`` also has one of higher priority displace the live one. Kept by
``consumer_book``. No cost depends on how many stand by.

Invariant: ``Consumer.is_live`` is False exactly for those that stand by.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import OrderedDict
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hareline.queues.core.consumer import Consumer


class LiveLimit:
    """At most ``limit`` consumers are live."""

    __slots__ = ("_live_count", "_priorities", "_standing_by", "limit")

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._live_count = 0
        self._priorities: list[int] = []  # of those that stand by, the highest last
        self._standing_by: dict[int, OrderedDict[Consumer, None]] = {}  # by priority

    def add(self, consumer: Consumer) -> Consumer | None:
        """Take in a new consumer; it is live if there is room for it.

        Returns the one that is displaced: it has been live, and is to receive nothing more.
        """
        consumer.is_live = self._live_count < self.limit
        if consumer.is_live:
            self._live_count += 1
        else:
            self._stand_by(consumer)
        return None

    def successor_of(self, consumer: Consumer) -> Consumer | None:
        """The consumer that is live now, if this one was displaced and has nothing outstanding."""
        return None

    def _stand_by(self, consumer: Consumer) -> None:
        peers = self._standing_by.get(consumer.priority)
        if peers is None:
            peers = self._standing_by[consumer.priority] = OrderedDict()
            insort(self._priorities, consumer.priority)
        peers[consumer] = None

    def remove(self, consumer: Consumer) -> Consumer | None:
        """Forget a consumer; returns the one that takes its place, which is live now."""
        if not consumer.is_live:
            self._forget(consumer)
            return None
        self._live_count -= 1
        return self._promote()

    def _promote(self) -> Consumer | None:
        """Make the best of those that stand by live, if there is one, and return it."""
        if not self._priorities:
            return None
        successor = next(iter(self._standing_by[self._priorities[-1]]))
        self._forget(successor)
        self._live_count += 1
        successor.is_live = True
        return successor

    def _forget(self, consumer: Consumer) -> None:
        """Take a consumer out of those that stand by."""
        peers = self._standing_by[consumer.priority]
        del peers[consumer]
        if not peers:
            del self._standing_by[consumer.priority]
            del self._priorities[bisect_left(self._priorities, consumer.priority)]


class TakingOver(LiveLimit):
    """A single active consumer that gives way to one of higher priority (quorum queues).

    It receives nothing more from then on, and stays in its place until all that it has is settled.

    ``_active``: the live consumer, or the one that was displaced and is still in its place.
    """

    __slots__ = ("_active",)

    def __init__(self) -> None:
        super().__init__(1)
        self._active: Consumer | None = None

    def add(self, consumer: Consumer) -> Consumer | None:
        super().add(consumer)
        active = self._active
        if active is None:
            self._active = consumer
        elif active.is_live and consumer.priority > active.priority:
            active.is_live = False
            return active
        return None

    def successor_of(self, consumer: Consumer) -> Consumer | None:
        if consumer is not self._active or consumer.is_live:
            return None
        self._live_count -= 1
        self._stand_by(consumer)
        self._active = self._promote()
        return self._active

    def remove(self, consumer: Consumer) -> Consumer | None:
        if consumer is not self._active:
            return super().remove(consumer)
        self._live_count -= 1
        self._active = self._promote()
        return self._active
