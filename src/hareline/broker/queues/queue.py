"""A queue: owns an ordering and a dispatcher, and keeps the books over both.

Called by the vhost (enqueue), by the dispatcher (acquire, restore), and by the protocol side
(acquire for basic.get, settle, release, purge). It is not subclassed: what differs between queue
types is the ordering.

Invariant: ``ready_count + unacked_count`` is the number of entries that are not settled, and
``ready_bytes`` the octets of the ready ones' bodies.                                        [hot]
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from hareline.broker.queues.consumer import Consumer
from hareline.broker.queues.dispatcher import Dispatcher
from hareline.broker.queues.entry import ACQUIRED, READY, SETTLED, QueueEntry
from hareline.broker.queues.order import EntryOrder
from hareline.message import Message
from hareline.turn import Turn


class Queue:
    """``owner`` is the connection that holds the queue exclusively, or None.

    ``next_offset`` is also the number of messages ever enqueued. ``on_unused`` is called when the
    last consumer has left (the vhost deletes auto-delete queues then).
    """

    __slots__ = (
        "_add",
        "_dispatcher",
        "_is_marked",
        "_order",
        "_turn",
        "arguments",
        "delivered_count",
        "had_consumers",
        "is_auto_delete",
        "is_deleted",
        "is_durable",
        "name",
        "next_offset",
        "on_unused",
        "owner",
        "ready_bytes",
        "released_count",
        "settled_count",
        "unacked_count",
    )

    def __init__(
        self,
        name: str,
        order: EntryOrder,
        turn: Turn,
        *,
        is_durable: bool = False,
        is_auto_delete: bool = False,
        owner: object | None = None,
        arguments: Mapping[str, object] | None = None,
        on_unused: Callable[[Queue], None] | None = None,
    ) -> None:
        self.name = name
        self.is_durable = is_durable
        self.is_auto_delete = is_auto_delete
        self.owner = owner
        self.arguments: Mapping[str, object] = arguments or {}
        self.on_unused = on_unused
        self._order = order
        self._add = order.add
        self._turn = turn
        self._dispatcher = Dispatcher(self, order)
        self._is_marked = False
        self.had_consumers = False
        self.is_deleted = False
        self.next_offset = 0
        self.ready_bytes = 0
        self.unacked_count = 0
        self.delivered_count = 0
        self.released_count = 0
        self.settled_count = 0

    # ---------------------------------------------------------------- in

    def enqueue(self, message: Message) -> None:
        offset = self.next_offset
        self.next_offset = offset + 1
        self._add(QueueEntry(self, message, offset))
        self.ready_bytes += message.size
        if not self._is_marked:
            self.mark()

    def mark(self) -> None:
        """Ask for a dispatch at the end of this turn."""
        if not self._is_marked:
            self._is_marked = True
            self._turn.mark_queue(self)

    def dispatch(self) -> bool:
        """The turn's call; True when entries and willing consumers are left."""
        is_unfinished = False
        try:
            is_unfinished = self._dispatcher.run()
        finally:
            # only now, so that what is put back on the way does not ask for one more dispatch
            self._is_marked = is_unfinished
        return is_unfinished

    def deliver_due(self) -> None:
        """Deliver now what the end of the turn would deliver.

        Called before something that looks at the ready entries or takes them: whatever a client
        sends in one breath, what was published before its get, purge, cancel or delete is the
        consumers' (RabbitMQ's order; without it a delete could take their last messages along).
        """
        if self._is_marked:
            self._dispatcher.run()

    # --------------------------------------------------------------- out

    def acquire(self, count: int) -> list[QueueEntry]:
        """Take the next ``count`` ready entries, fewer when there are fewer."""
        entries = self._order.take(count)
        if len(self._order) == 0:
            self.ready_bytes = 0
        else:
            self.ready_bytes -= sum([entry.message.size for entry in entries])
        for entry in entries:
            entry.state = ACQUIRED
        self.unacked_count += len(entries)
        self.delivered_count += len(entries)
        return entries

    def settle(self, entry: QueueEntry) -> None:
        """The acquired entry leaves the queue for good."""
        entry.state = SETTLED
        self.unacked_count -= 1
        self.settled_count += 1

    def settle_delivered(self, entries: list[QueueEntry]) -> None:
        """Entries handed to a consumer that does not acknowledge."""
        count = len(entries)
        self.unacked_count -= count
        self.settled_count += count

    def release(self, entries: list[QueueEntry]) -> None:
        """Delivered entries become available again, at their own places, as redelivered."""
        if self.is_deleted:
            return
        for entry in entries:
            entry.delivery_count += 1
        self.released_count += len(entries)
        self._put_back(entries)

    def restore(self, entries: list[QueueEntry]) -> None:
        """Acquired entries that were never delivered go back as they were."""
        self.delivered_count -= len(entries)
        self._put_back(entries)

    def _put_back(self, entries: list[QueueEntry]) -> None:
        for entry in entries:
            assert entry.state == ACQUIRED, entry
            entry.state = READY
            entry.consumer = None
            self.ready_bytes += entry.message.size
        self.unacked_count -= len(entries)
        self._order.restore(entries)
        self.mark()

    def purge(self) -> int:
        """Drop all ready entries; returns how many. Unacked ones are not touched."""
        entries = self._order.take(len(self._order))
        for entry in entries:
            entry.state = SETTLED
        self.ready_bytes = 0
        return len(entries)

    # --------------------------------------------------------- consumers

    def add_consumer(self, consumer: Consumer) -> None:
        self.deliver_due()
        self.had_consumers = True
        self._dispatcher.add(consumer)
        self.mark()

    def remove_consumer(self, consumer: Consumer) -> None:
        """The consumer gets nothing more; what it has unacked stays with its channel."""
        if consumer.is_cancelled:
            return
        consumer.is_cancelled = True
        self._dispatcher.remove(consumer)
        if not self._dispatcher.consumers and self.on_unused is not None:
            self.on_unused(self)

    def activate(self, consumer: Consumer) -> None:
        """The consumer may have become able to receive: credit came back, or its socket drained."""
        self._dispatcher.activate(consumer)
        if not self._is_marked and len(self._order):
            self.mark()

    def on_deleted(self) -> list[Consumer]:
        """Empty the queue and let go of its consumers, who are returned to be told."""
        self.is_deleted = True
        self.purge()
        consumers = list(self._dispatcher.consumers)
        for consumer in consumers:
            consumer.is_cancelled = True
            self._dispatcher.remove(consumer)
        self._dispatcher.untie()
        return consumers

    # ----------------------------------------------------------- reading

    @property
    def consumers(self) -> list[Consumer]:
        return self._dispatcher.consumers

    @property
    def ready_count(self) -> int:
        return len(self._order)

    @property
    def is_exclusively_consumed(self) -> bool:
        return any(consumer.is_exclusive for consumer in self._dispatcher.consumers)

    def __repr__(self) -> str:
        return f"<Queue {self.name!r}, {self.ready_count} ready, {self.unacked_count} unacked>"
