"""The plain lane: every consumer may have every entry.

Consumers that can take something stand in ``rings``, one for each priority; a ring is served only
while no higher one has a consumer in it. Within a ring it is round robin, one entry each, which a
batch keeps exactly: of entries e0 e1 e2 ... consumer i of k is handed ei, ei+k, ei+2k in one call.
Where two of them share a delivery port, which would show e2 before e1, the entries are taken
together, and each is handed over by a call of its own. A queue with a dispatch rule has the next
one brought to the front of its ring instead.

A consumer leaves its ring when its credit is used up or its socket is full, and is put back by
``activate``. So the work is proportional to deliveries, never to the consumers that wait.   [hot]

Invariant: ``Consumer.is_active`` is True exactly for those that stand in a ring.
"""

from __future__ import annotations

from bisect import bisect_right
from itertools import accumulate, islice
from typing import TYPE_CHECKING

from hareline.queues.core.credit import UNLIMITED
from hareline.queues.core.lane import (
    BATCH_BYTES,
    BATCH_ENTRIES,
    LOOKS_PER_ENTRY,
    Lane,
)
from hareline.queues.core.ports import with_content
from hareline.queues.dispatch.rings import Rings

if TYPE_CHECKING:
    from collections import deque

    from hareline.message import Message
    from hareline.queues.core.consumer import Consumer
    from hareline.queues.core.consumer_book import ConsumerBook
    from hareline.queues.core.dispatch_rule import DispatchRule
    from hareline.queues.core.entry import QueueEntry
    from hareline.queues.core.ports import QueuePort
    from hareline.queues.orders.order import EntryOrder


class PlainLane(Lane):
    """Every consumer may have every entry."""

    __slots__ = ("_order", "_queue", "_rings")

    def __init__(self, queue: QueuePort, order: EntryOrder) -> None:
        super().__init__()
        self._queue = queue
        self._order = order
        self._rings = Rings()

    # ------------------------------------------------------------------- consumers

    def add(self, consumer: Consumer) -> None:
        displaced = self.consumers.add(consumer)
        if displaced is not None:
            self._rings.remove(displaced, self._queue)
            displaced.wait_for_outstanding()
            self.activate(displaced)
        self.activate(consumer)

    def remove(self, consumer: Consumer) -> None:
        successor = self.consumers.remove(consumer)
        self._rings.remove(consumer, self._queue)
        if not self.consumers.has_priority(consumer.priority):
            self._rings.forget(consumer.priority)
        if successor is not None:
            self._queue.activate(successor)

    def activate(self, consumer: Consumer) -> None:
        if consumer.is_active or consumer.is_cancelled or consumer.credit <= 0:
            return
        if not consumer.is_live:
            successor = self.consumers.successor_of(consumer)
            if successor is not None:
                self.activate(successor)
            return
        consumer.is_active = True
        self._rings.of(consumer.priority).append(consumer)

    def hand_over_to(self, successor: Lane) -> None:
        successor.adopt(self.consumers, self.consumers.deactivate_all())

    def adopt(self, consumers: ConsumerBook, ready: list[Consumer]) -> None:
        self.consumers = consumers
        for consumer in ready:
            self.activate(consumer)

    def finished(self) -> list[Consumer]:
        """One that waits for another to leave has its turn to come."""
        if len(self._order):
            return []
        return [one for one in self.consumers if one.closes_at_end and one.is_live]

    def selector_cost_with(self, consumer: Consumer) -> int:
        if not consumer.is_selective or consumer.is_browser:
            return 0
        return 1 if consumer.selector is None else consumer.selector.cost

    # --------------------------------------------------------------------- entries

    def get(self) -> QueueEntry | None:
        entries = self._queue.acquire(1)
        return entries[0] if entries else None

    def take(self, count: int) -> list[QueueEntry]:
        return self._order.take(count)

    def ready_entries(self) -> list[QueueEntry]:
        return list(self._order)

    def least(self) -> QueueEntry | None:
        return self._order.least()

    def may_deliver(self, entry: QueueEntry) -> bool:
        return bool(self._rings)

    def has_taker(self, message: Message) -> bool:
        if len(self._order):
            return False
        return any(consumer.would_receive(message) for consumer in self.consumers)

    # -------------------------------------------------------------------- delivery

    def run(self) -> bool:
        """Deliver within one turn's share; True when only the share stopped it."""
        rings = self._rings
        if rings.leavers:
            rings.drop_leavers()
        order = self._order
        rule = self.consumers.rule
        budget = self.share
        for _, ring in rings.by_precedence:
            while ring:
                waiting = len(order)
                if waiting == 0:
                    return False
                if budget <= 0:
                    return True
                limit = self._batch_limit(waiting, budget)
                if rule is not None:
                    budget -= self._serve_by_rule(rule, ring, limit)
                elif ring[0].windows:
                    budget -= self._serve_windowed(ring, limit if len(ring) == 1 else 1)
                elif len(ring) == 1:
                    budget -= self._serve_one(ring, limit)
                else:
                    budget -= self._serve_round(ring, limit)
        # what a full consumer gave back may have woken one of a ring that was served before
        return bool(len(order) and rings)

    def _batch_limit(self, waiting: int, budget: int) -> int:
        """Return the entries to take at once: by count, and by octets at this queue's average."""
        limit = min(waiting, budget, BATCH_ENTRIES)
        ready_bytes = self._queue.ready_bytes
        if ready_bytes > BATCH_BYTES:
            limit = min(limit, max(1, BATCH_BYTES * waiting // ready_bytes))
        return limit

    def _serve_by_rule(self, rule: DispatchRule, ring: deque[Consumer], limit: int) -> int:
        """The consumer that the rule says; it goes to the end of its ring, if it has credit left.

        Returns the entries, and the looks at consumers as so many entries.
        """
        count = len(ring)
        if count > 1:
            consumer = rule.best(ring)
            if ring[0] is not consumer:
                ring.remove(consumer)
                ring.appendleft(consumer)
            if not rule.fills:
                limit = 1
        consumer = ring[0]
        if consumer.windows:
            served = self._serve_windowed(ring, limit)
        else:
            served = self._serve_one(ring, limit)
            if consumer.is_active and ring[0] is consumer:
                ring.rotate(-1)
        return served + count // LOOKS_PER_ENTRY

    def _serve_one(self, ring: deque[Consumer], limit: int) -> int:
        """The only consumer with credit takes a run of entries."""
        consumer = ring[0]
        if consumer.suspend_if_full():
            ring.popleft()
            consumer.is_active = False
            return 0
        entries = self._queue.acquire(min(limit, consumer.credit))
        if not entries:
            return 0
        if consumer.credit <= len(entries):
            ring.popleft()
            consumer.is_active = False
        return self._hand_over(consumer, entries)

    def _serve_round(self, ring: deque[Consumer], limit: int) -> int:
        """Whole rounds over all consumers of the ring at once, or an entry for each of the next."""
        if limit == 1:
            return self._serve_next(ring)
        consumers = list(islice(ring, limit))
        credit = room = UNLIMITED
        full: list[Consumer] = []
        for at, consumer in enumerate(consumers):
            if consumer.windows:  # it is served by itself when it is the first
                consumers, credit = consumers[:at], 1
                break
            if consumer.suspend_if_full():
                full.append(consumer)
            else:
                credit = min(credit, consumer.credit)
                room = min(room, consumer.room_bytes)
        if full:
            for consumer in full:
                ring.remove(consumer)
                consumer.is_active = False
            return 0
        rounds = min(limit // (len(consumers) or 1), credit)
        average = self._queue.ready_bytes // len(self._order)
        if room < len(consumers) * average:  # not even one round is likely to fit
            consumers, rounds = consumers[: room // average], 1
        entries = self._queue.acquire(rounds * len(consumers)) if consumers else []
        entries = self._fitting(entries, room, len(consumers) if rounds > 1 else 1)
        if not entries:
            return self._serve_next(ring)
        if rounds == 1:
            consumers = consumers[: len(entries)]
        count = len(consumers)
        rounds = len(entries) // count
        if credit > rounds:
            ring.rotate(-count)
        else:
            for consumer in consumers:
                ring.popleft()
                if consumer.credit > rounds:
                    ring.append(consumer)
                else:
                    consumer.is_active = False
        if len({consumer.delivery_port for consumer in consumers}) < count:
            # parts handed over one after the other would be seen
            for index, entry in enumerate(entries):
                self._hand_over(consumers[index % count], [entry])
        else:
            for index, consumer in enumerate(consumers):
                self._hand_over(consumer, entries[index::count])
        return len(entries)

    def _fitting(self, entries: list[QueueEntry], room: int, count: int) -> list[QueueEntry]:
        """The first whole rounds of ``count`` that fit into ``room``; the rest is put back.

        If one consumer of a round took less than its part, the others would have got entries
        behind those that it left. The last round is incomplete when entries could not be read.
        """
        sizes = [len(entry.message.content) for entry in entries]
        fitting = len(entries)
        if sum(sizes) > room:
            fitting = bisect_right(list(accumulate(sizes)), room)
        fitting -= fitting % count
        if fitting < len(entries):
            self._queue.restore(entries[fitting:])
        return entries[:fitting]

    def _serve_next(self, ring: deque[Consumer]) -> int:
        consumer = ring[0]
        if consumer.windows:
            return self._serve_windowed(ring, 1)
        if consumer.suspend_if_full():
            ring.popleft()
            consumer.is_active = False
            return 0
        entries = self._queue.acquire(1)
        if not entries:
            return 0
        ring.popleft()
        if consumer.credit > 1:
            ring.append(consumer)
        else:
            consumer.is_active = False
        return self._hand_over(consumer, entries)

    def _serve_windowed(self, ring: deque[Consumer], limit: int) -> int:
        """One entry to a consumer whose windows must be asked; it goes to the end of its ring.

        If it is alone there, up to ``limit`` entries as far as its windows admit them unseen.
        """
        entry = self._next_readable()
        if entry is None:
            return 0
        consumer = ring.popleft()
        consumer.is_active = False
        if consumer.suspend_if_full():
            return 0
        if limit > 1:
            shares = [window.share_of(consumer) for window in consumer.windows]
            limit = min(limit, consumer.credit, *shares)
        size = entry.message.size
        for window in consumer.windows:
            if window.refuses(consumer, size):
                return 0
        if limit > 1:
            entries = self._queue.acquire(limit)
            sizes = [entry.message.size for entry in entries]
            for window in consumer.windows:
                window.use_all(consumer, sizes)
        else:
            entries = self._queue.acquire(1)
            for window in consumer.windows:
                window.use(consumer, size)
        if consumer.credit > len(entries):
            ring.append(consumer)
            consumer.is_active = True
        return self._hand_over(consumer, entries)

    def _next_readable(self) -> QueueEntry | None:
        """The next entry, left where it is; those before it that cannot be read leave."""
        order, queue = self._order, self._queue
        entry = order.peek()
        if queue.paging is not None and queue.paging.has_stored:
            while entry is not None and not with_content(queue, [entry], are_in_place=True):
                entry = order.peek()
        return entry

    def _hand_over(self, consumer: Consumer, entries: list[QueueEntry]) -> int:
        consumer.credit -= len(entries)
        delivered = consumer.deliver(entries)
        if delivered < len(entries):  # first: until then the queue looks emptier than it is
            self._take_back(consumer, entries[delivered:])
        if not consumer.acknowledges:
            self._queue.settle_delivered(entries[:delivered])
        return delivered

    def _take_back(self, consumer: Consumer, entries: list[QueueEntry]) -> None:
        """The consumer's output filled up on the way: the rest was never delivered."""
        for entry in entries:
            consumer.take_credit_back(entry.message.size)
        self._queue.restore(entries)
