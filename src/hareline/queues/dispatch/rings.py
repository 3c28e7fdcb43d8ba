"""The consumers of a lane that can receive: a ring for each priority.

A ring is served only while no higher one has a consumer in it; within a ring it is round robin. The
plain and the reading lane each have one of these and serve the rings themselves.              [hot]

Invariant: a ring holds consumers whose ``is_active`` is True, and until the end of the turn some
that were removed from its middle; ``drop_leavers`` lets go of these.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import deque
from typing import TYPE_CHECKING

from hareline.turn import Dispatching

if TYPE_CHECKING:
    from hareline.queues.core.consumer import Consumer
    from hareline.queues.core.ports import QueuePort


class Rings(Dispatching):
    """``by_precedence``: priorities and their rings, the highest first; read it, do not change it.

    ``leavers``: priorities of rings in which removed consumers still stand.
    """

    __slots__ = ("_by_priority", "by_precedence", "leavers")

    def __init__(self) -> None:
        self.by_precedence: list[tuple[int, deque[Consumer]]] = []
        self._by_priority: dict[int, deque[Consumer]] = {}
        self.leavers: set[int] = set()

    def of(self, priority: int) -> deque[Consumer]:
        """The ring of this priority, a new one if there is none."""
        ring = self._by_priority.get(priority)
        if ring is None:
            ring = self._by_priority[priority] = deque()
            insort(self.by_precedence, (priority, ring), key=_precedence)
        return ring

    def remove(self, consumer: Consumer, queue: QueuePort) -> None:
        """Let a consumer receive nothing more.

        From the middle of its ring it goes at the end of the turn, with all others that leave: to
        find each by itself would cost a search.
        """
        if not consumer.is_active:
            return
        consumer.is_active = False
        ring = self.of(consumer.priority)
        if ring[0] is consumer:
            ring.popleft()
        elif ring[-1] is consumer:
            ring.pop()
        elif queue.is_delivering:
            ring.remove(consumer)
        else:
            if not self.leavers:
                queue.turn.mark_queue(self)
            self.leavers.add(consumer.priority)

    def forget(self, priority: int) -> None:
        """No consumer has this priority any more."""
        if self._by_priority.pop(priority, None) is not None:
            del self.by_precedence[bisect_left(self.by_precedence, -priority, key=_precedence)]

    def dispatch(self) -> bool:
        """The turn's call: let go of removed consumers. False: nothing is left to do."""
        self.drop_leavers()
        return False

    def drop_leavers(self) -> None:
        for priority in self.leavers:
            ring = self._by_priority.get(priority)
            if ring is not None:
                staying = [consumer for consumer in ring if consumer.is_active]
                ring.clear()
                ring.extend(staying)
        self.leavers.clear()

    def __bool__(self) -> bool:
        """True if a consumer can receive."""
        if self.leavers:
            self.drop_leavers()
        return any(ring for _, ring in self.by_precedence)


def _precedence(level: tuple[int, deque[Consumer]]) -> int:
    """By which ``by_precedence`` is sorted."""
    return -level[0]
