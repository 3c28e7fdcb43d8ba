"""A stream as readers of ranges see it: where it begins, where it ends, and where what stands.

``management`` makes one of a queue for each request (``stream_of``). All is read from the queue's
parts; nothing is kept here.

Invariant: what stands before ``next`` survives a crash, has its offset for ever, and is followed by
the next offset unless the journal lost a message.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable
from typing import TYPE_CHECKING

from hareline.queues.dispatch.reading import ReadingLane
from hareline.queues.orders.log_order import LogOrder

if TYPE_CHECKING:
    from hareline.queues.core.entry import QueueEntry
    from hareline.queues.queue import Queue
    from hareline.storage.interface import MessageStore


class Stream:
    """Offsets are those of the queue's entries, times epoch milliseconds."""

    __slots__ = ("_lane", "_order", "_store", "queue")

    def __init__(
        self, queue: Queue, order: LogOrder, lane: ReadingLane, store: MessageStore
    ) -> None:
        self.queue = queue
        self._store = store
        self._order = order
        self._lane = lane

    @property
    def incarnation(self) -> str:
        """16 hex digits, new when the queue is declared again."""
        return self.queue.incarnation

    @property
    def next(self) -> int:
        """One past the last message that survives a crash; without a store, past the last one."""
        queue = self.queue
        if queue.ledger is None:
            return queue.next_offset
        return queue.ledger.durable_end(queue.next_offset)

    @property
    def first(self) -> int:
        """The offset of the oldest message; ``next`` if there is none before it."""
        first, end = self._order.first_offset, self.next
        return end if first is None else min(first, end)

    @property
    def size_bytes(self) -> int:
        """Octets of all bodies."""
        return self.queue.ready_bytes

    @property
    def first_arrival_ms(self) -> int | None:
        """Arrival of the oldest message; None if there is none."""
        entry = self._order.peek()
        return None if entry is None else entry.message.arrival_ms

    @property
    def is_journaled(self) -> bool:
        """True if messages stand in the journal; otherwise they are in memory only."""
        return self.queue.ledger is not None

    def positions(self, start: int, end: int) -> tuple[array[int], array[int]]:
        """Offsets and journal positions of what is there of a range, as ``LogOrder.positions``."""
        return self._order.positions(start, end)

    def entries(self, start: int, end: int) -> list[QueueEntry]:
        """Entries of a range that are there, as objects; for queues that no store keeps."""
        return self._order.entries_between(start, end)

    def offset_since(self, arrival_ms: int) -> int:
        """The offset of the first message that arrived then or later; ``next`` if none did."""
        offset, end = self._order.offset_since(arrival_ms), self.next
        return end if offset is None else min(offset, end)

    def when_moved(self, callback: Callable[[], None]) -> Callable[[], None]:
        """Call back once, when ``next`` has grown, or may have, or the queue is deleted.

        Returns what ends the wait; a callback may come all the same. What waits for the disk is
        told by the store, everything else by the next dispatch of the queue.
        """
        queue, store, watchers = self.queue, self._store, self._lane.watchers

        def on_dispatch() -> None:
            if queue.ledger is None:  # nothing is kept, or the queue is deleted
                callback()
            elif self.waits_for_disk:
                store.when_durable(store.ticket, callback)
            else:
                watchers.append(on_dispatch)

        def cancel() -> None:
            if on_dispatch in watchers:
                watchers.remove(on_dispatch)

        if self.waits_for_disk:
            store.when_durable(store.durable_ticket + 1, callback)
        else:
            watchers.append(on_dispatch)
        return cancel

    @property
    def waits_for_disk(self) -> bool:
        """True if there are messages that the store is still to make durable."""
        is_working = self.is_journaled and not self._store.failure
        return is_working and self.next < self.queue.next_offset


def stream_of(queue: Queue) -> Stream | None:
    """The queue as a stream; None for a queue of another type."""
    order, lane, environment = queue.order, queue.lane, queue.environment
    if (
        queue.arguments.get("x-queue-type") != "stream"
        or not isinstance(order, LogOrder)
        or not isinstance(lane, ReadingLane)  # it is deleted
        or environment is None
    ):
        return None
    return Stream(queue, order, lane, environment.store)
