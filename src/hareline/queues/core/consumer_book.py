"""All consumers of one lane, in the order in which they came, and which of them are live.

Each lane has one; when another lane takes over it gets the book as it is. To add or remove a
consumer costs the same however many there are.                                              [hot]

Invariant: a consumer stands here from ``add`` to ``remove``, whether it can receive or not.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hareline.queues.core.consumer import Consumer
    from hareline.queues.core.live_limit import LiveLimit


class ConsumerBook:
    """``live``: which consumers receive while the others stand by; None where all receive."""

    __slots__ = ("_consumers", "_peer_counts", "live")

    def __init__(self) -> None:
        self._consumers: dict[Consumer, None] = {}
        self._peer_counts: dict[int, int] = {}  # consumers by priority
        self.live: LiveLimit | None = None

    def add(self, consumer: Consumer) -> Consumer | None:
        """Enter a consumer and decide whether it is live; returns the one that it displaces."""
        self._consumers[consumer] = None
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
