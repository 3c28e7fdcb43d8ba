"""The browsers of an ordinary queue: consumers that are shown its messages and take none.

A browser is shown every entry that was ready when it came, in the queue's order, and then each new
one, unless somebody has taken it meanwhile; what was taken and comes back is not shown again
(Broker-J: browsers see no requeues). Groups, consumer priorities and single active consumers do not
concern it. The queue makes this object for its first browser, runs it before its own dispatcher,
and drops it after the last.                                                                [hot]

Invariant: nothing here changes an entry, or the order.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hareline.broker.queues.dispatch.reading import ReadingDispatcher

if TYPE_CHECKING:
    from hareline.broker.queues.entry import QueueEntry
    from hareline.broker.queues.orders.order import EntryOrder
    from hareline.broker.queues.queue import Queue


class Browsers(ReadingDispatcher):
    """Readers beside a queue's own dispatcher."""

    __slots__ = ()

    counts_unacked = False

    def __init__(self, queue: Queue, order: EntryOrder) -> None:
        super().__init__(queue, order)
        self._log = None

    def _ready_entries(self) -> list[QueueEntry]:
        return self._queue.ready_entries()

    def on_ready(self, entry: QueueEntry) -> None:
        self._offer(entry)
