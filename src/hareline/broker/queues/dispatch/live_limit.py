"""Which consumers of a queue receive, where not all of them may, and which one is next.

With a single active consumer, or ``maximumLiveConsumers``, the first to come are *live* and the
others stand by. When a live one leaves, the one of highest priority takes over, and of equals the
one that came first. Kept by ``consumer_book``. No cost depends on how many stand by.

Invariant: ``Consumer.is_live`` is False exactly for those that stand by.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import OrderedDict
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hareline.broker.queues.dispatch.consumer import Consumer


class LiveLimit:
    """At most ``limit`` consumers are live."""

    __slots__ = ("_live_count", "_priorities", "_standing_by", "limit")

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._live_count = 0
        self._priorities: list[int] = []  # of those that stand by, the highest last
        self._standing_by: dict[int, OrderedDict[Consumer, None]] = {}  # by priority

    def add(self, consumer: Consumer) -> None:
        """Take in a new consumer; it is live if there is room for it."""
        consumer.is_live = self._live_count < self.limit
        if consumer.is_live:
            self._live_count += 1
            return
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
