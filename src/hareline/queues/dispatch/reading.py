"""The lane of a non-destructive queue: its consumers are ``readers``, and so is basic.get.

A new message is given its offset as a header before any reader sees it. ``retention`` and
``getter`` are set where the queue is built.                                                 [hot]

Invariant: nothing here changes the state of an entry, or the order.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from hareline.message import TRANSIENT
from hareline.queues.core.lane import Lane
from hareline.queues.core.ports import with_content
from hareline.queues.dispatch.reader import Getter, Reading
from hareline.queues.dispatch.readers import Readers
from hareline.queues.orders.log_order import LogOrder

if TYPE_CHECKING:
    from collections.abc import Callable

    from hareline.message import Message
    from hareline.queues.core.consumer import Consumer
    from hareline.queues.core.consumer_book import ConsumerBook
    from hareline.queues.core.entry import QueueEntry
    from hareline.queues.core.ports import QueuePort
    from hareline.queues.orders.order import EntryOrder
    from hareline.queues.policies.retention import Retention

OFFSET_HEADER: Final = "x-stream-offset"  # RabbitMQ: rabbit_stream_queue


class ReadingLane(Lane):
    """``retention`` drops what a stream keeps no longer; None where nothing does. ``getter`` finds
    what basic.get may see; None where that is everything. ``watchers`` are called once, after the
    next run or at the end of the queue."""

    __slots__ = ("_order", "_queue", "_readers", "getter", "retention", "watchers")

    def __init__(self, queue: QueuePort, order: EntryOrder) -> None:
        super().__init__()
        self._queue = queue
        self._order = order
        log = order if isinstance(order, LogOrder) else None
        self._readers = Readers(queue, order, log, counts_unacked=True)
        self.consumers = self._readers.consumers
        self.wants_new_entries = True
        self.keeps_entries = log is None  # readers of a log go by its offsets
        self.retention: Retention | None = None
        self.getter: Getter | None = None
        self.watchers: list[Callable[[], None]] = []

    def run(self) -> bool:
        retention = self.retention
        if retention is not None:
            retention.drop_old()
        readers = self._readers
        is_unfinished = readers.run()
        if retention is not None:
            retention.drop_excess()
        is_unfinished = is_unfinished or readers.has_news
        if not is_unfinished:
            readers.mark_all_shown()
        if self.watchers:
            self._call_watchers()
        return is_unfinished

    def keep_up(self) -> None:
        if self.retention is not None:
            self.retention.drop_old()
            self.retention.drop_excess()
        if self.watchers:
            self._call_watchers()

    def _call_watchers(self) -> None:
        watchers = self.watchers[:]
        self.watchers.clear()
        for watcher in watchers:
            watcher()

    # ------------------------------------------------------------------- consumers

    def add(self, consumer: Consumer) -> None:
        self._readers.add(consumer)

    def remove(self, consumer: Consumer) -> None:
        self._readers.remove(consumer)

    def activate(self, consumer: Consumer) -> None:
        self._readers.activate(consumer)

    def hand_over_to(self, successor: Lane) -> None:
        successor.adopt(self.consumers, self.consumers.deactivate_all())

    def adopt(self, consumers: ConsumerBook, ready: list[Consumer]) -> None:
        """Each begins where it wants to, as a new consumer does."""
        self.consumers = self._readers.consumers = consumers
        for consumer in ready:
            self.activate(consumer)

    def finished(self) -> list[Consumer]:
        return self._readers.finished()

    def places(self) -> list[tuple[Consumer, int]]:
        """The consumers of a log, each with the offset that it reads next; for operators."""
        return self._readers.places()

    def has_more_for(self, consumer: Consumer) -> bool:
        """True if there are entries that the consumer has not come to; for operators."""
        return self._readers.has_more_for(consumer)

    def stop(self) -> None:
        if self.retention is not None:
            self.retention.stop()
            self.retention = None
        self._call_watchers()

    # --------------------------------------------------------------------- entries

    def on_ready(self, entry: QueueEntry) -> None:
        """Write its offset into the message, once for all readers, and tell them of it.

        A message out of the store has it, unless it was stored while it was held.
        """
        message = entry.message
        position = message.position
        if position <= TRANSIENT or message.header(OFFSET_HEADER) != entry.offset:
            entry.message = message.with_header(OFFSET_HEADER, entry.offset)
            if position > TRANSIENT:
                entry.message.position = position  # the same one to the store
        if self._readers.on_ready(entry) and self.getter is not None:
            self.getter.on_ready(entry)

    def get(self) -> QueueEntry | None:
        """The first entry that the default filters let through, every time: basic.get starts from
        the beginning and leaves no mark."""
        order, queue, getter = self._order, self._queue, self.getter
        entry = order.peek() if getter is None else getter.first(order)
        while entry is not None and not with_content(queue, [entry], are_in_place=True):
            entry = order.peek() if getter is None else getter.first(order)
        if entry is None:
            return None
        queue.count_readings(1, unacked_count=1)
        return Reading(self._readers.account, entry)

    def take(self, count: int) -> list[QueueEntry]:
        return self._order.take(count)

    def ready_entries(self) -> list[QueueEntry]:
        return list(self._order)

    def least(self) -> QueueEntry | None:
        return self._order.least()

    def may_deliver(self, entry: QueueEntry) -> bool:
        return self._readers.may_show(entry)

    def has_taker(self, message: Message) -> bool:
        return self._readers.has_taker(message)
