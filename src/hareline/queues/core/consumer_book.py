"""Consumers of one lane in the order in which they came, and which of them are live.

Each lane has one book; when another lane takes over it gets the book as it is. A single active
consumer, or ``maximumLiveConsumers``, is a ``LiveLimit``. To add or remove a consumer costs the
same however many there are.                                                                 [hot]
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import OrderedDict
from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hareline.queues.core.consumer import Consumer
    from hareline.queues.core.dispatch_rule import DispatchRule


class LiveLimit:
    """At most ``limit`` consumers are live: the first to come. The others stand by.

    When a live one leaves, the one of highest priority takes over, and of equals the one that came
    first. No cost depends on how many stand by; ``is_live`` is False exactly for those.
    """

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


class ConsumerBook:
    """``live``: which consumers receive while the others stand by; None where all receive.
    ``rule``: which of those that can receive is next; None: in turn.

    A consumer stands here from ``add`` to ``remove``, whether it can receive or not.
    """

    __slots__ = ("_came", "_consumers", "_peer_counts", "live", "rule")

    def __init__(self) -> None:
        self._consumers: dict[Consumer, None] = {}
        self._peer_counts: dict[int, int] = {}  # consumers by priority
        self._came = 0
        self.live: LiveLimit | None = None
        self.rule: DispatchRule | None = None

    def add(self, consumer: Consumer) -> Consumer | None:
        """Enter a consumer and decide whether it is live; returns the one that it displaces."""
        self._consumers[consumer] = None
        self._came += 1
        consumer.number = self._came
        priority = consumer.priority
        self._peer_counts[priority] = self._peer_counts.get(priority, 0) + 1
        if self.live is None:
            consumer.is_live = True
            return None
        return self.live.add(consumer)

    def successor_of(self, consumer: Consumer) -> Consumer | None:
        """The consumer that is live now in place of this one, which is not; None: it just waits."""
        return None if self.live is None else self.live.successor_of(consumer)

    def remove(self, consumer: Consumer) -> Consumer | None:
        """Strike a consumer out; returns the one that is live in its place, if any."""
        del self._consumers[consumer]
        for window in consumer.windows:
            window.leave(consumer)
        priority = consumer.priority
        self._peer_counts[priority] -= 1
        if not self._peer_counts[priority]:
            del self._peer_counts[priority]
        return None if self.live is None else self.live.remove(consumer)

    def has_priority(self, priority: int) -> bool:
        """True if a consumer has this priority."""
        return priority in self._peer_counts

    def deactivate_all(self) -> list[Consumer]:
        """The consumers that can receive, in the order in which they came; none is active now."""
        active = [consumer for consumer in self._consumers if consumer.is_active]
        for consumer in active:
            consumer.is_active = False
        return active

    def __contains__(self, consumer: Consumer) -> bool:
        return consumer in self._consumers

    def __iter__(self) -> Iterator[Consumer]:
        return iter(self._consumers)

    def __len__(self) -> int:
        return len(self._consumers)
