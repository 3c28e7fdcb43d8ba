"""The lane of browsers: consumers that are shown the messages of an ordinary queue and take none.

A browser is shown every entry that was ready when it came, in the queue's order, and then each new
one, unless another consumer has taken it meanwhile; what was taken and comes back is not shown
again (Broker-J: browsers see no requeues). Groups, consumer priorities and single active consumers
do not concern it. The queue makes this lane for its first browser, runs it before its main lane,
and drops it after the last.                                                                 [hot]

Invariant: nothing here changes an entry, or the order.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hareline.queues.core.lane import Lane
from hareline.queues.dispatch.readers import Readers

if TYPE_CHECKING:
    from hareline.queues.core.consumer import Consumer
    from hareline.queues.core.entry import QueueEntry
    from hareline.queues.core.ports import QueuePort
    from hareline.queues.orders.order import EntryOrder


class BrowsingLane(Lane):
    """Readers beside a queue's main lane."""

    __slots__ = ("_readers",)

    def __init__(self, queue: QueuePort, order: EntryOrder) -> None:
        super().__init__()
        # what they have unacked is not counted: other consumers may have acquired the same entries
        self._readers = Readers(queue, order, None, counts_unacked=False)
        self.consumers = self._readers.consumers

    def run(self) -> bool:
        is_unfinished = self._readers.run()
        return is_unfinished or self._readers.has_news

    def add(self, consumer: Consumer) -> None:
        self._readers.add(consumer)

    def remove(self, consumer: Consumer) -> None:
        self._readers.remove(consumer)

    def activate(self, consumer: Consumer) -> None:
        self._readers.activate(consumer)

    def finished(self) -> list[Consumer]:
        return self._readers.finished()

    def on_ready(self, entry: QueueEntry) -> None:
        self._readers.on_ready(entry)
