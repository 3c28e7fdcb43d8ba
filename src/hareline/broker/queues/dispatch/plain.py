"""Matches the ready entries of one queue to consumers with credit.

Consumers that can take something stand in a ring for each priority; a ring is served only while
no higher one has anybody in it. Within a ring it is round robin, one entry each, which a batch
keeps exactly: of entries e0 e1 e2 ... consumer i of k is handed ei, ei+k, ei+2k in one call. Where
two of them share an delivery_port, which would show e2 before e1, each call hands over one entry.

A consumer leaves its ring when its credit is used up or its socket is full, and is put back by
``activate``. So the work is proportional to deliveries, never to the consumers that wait.   [hot]
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections import deque
from itertools import accumulate
from typing import TYPE_CHECKING, Final

from hareline.broker.queues.dispatch.consumer import Consumer
from hareline.broker.queues.dispatch.credit import UNLIMITED
from hareline.broker.queues.entry import QueueEntry
from hareline.broker.queues.orders.order import EntryOrder

if TYPE_CHECKING:
    from hareline.broker.queues.dispatch.live_limit import LiveLimit
    from hareline.broker.queues.queue import Queue
    from hareline.message import Message

# One queue's share of a turn. Large enough that a batch amortises its fixed cost (about 2 us),
# small enough that other queues and the sockets wait only a few milliseconds.
ENTRIES_PER_TURN: Final = 2048
BATCH_ENTRIES: Final = 512
BATCH_BYTES: Final = 262_144


class Dispatcher:
    """The plain lane: every consumer may have every entry.

    ``consumers``: all of them, in the order in which they came. ``parked_count``: entries in state
    PARKED, which are not in the ordering. ``wants_new_entries`` and ``wants_departures`` ask the
    queue for calls of ``on_ready`` and ``on_departed``. ``is_to_look_again``: entries that no
    consumer could have are looked at again by the next ``run``. ``live``: which consumers receive,
    while the others stand by; None where all do.

    To add or remove a consumer costs the same however many there are.
    """

    __slots__ = (
        "_leavers",
        "_order",
        "_peer_counts",
        "_queue",
        "_ring_by_priority",
        "_rings",
        "consumers",
        "live",
        "parked_count",
    )

    wants_new_entries: bool = False
    wants_departures: bool = False
    is_to_look_again: bool = False

    def __init__(self, queue: Queue, order: EntryOrder) -> None:
        self._queue = queue
        self._order = order
        self._rings: list[tuple[int, deque[Consumer]]] = []  # highest priority first
        self._ring_by_priority: dict[int, deque[Consumer]] = {}
        # priorities of rings in which removed consumers still stand, until the end of the turn
        self._leavers: set[int] = set()
        self.consumers: dict[Consumer, None] = {}
        self._peer_counts: dict[int, int] = {}  # consumers by priority
        self.live: LiveLimit | None = None
        self.parked_count = 0

    # ------------------------------------------------------------------- consumers

    def add(self, consumer: Consumer) -> None:
        self.consumers[consumer] = None
        priority = consumer.priority
        self._peer_counts[priority] = self._peer_counts.get(priority, 0) + 1
        if self.live is None:
            consumer.is_live = True
        else:
            self.live.add(consumer)
        self.activate(consumer)

    def remove(self, consumer: Consumer) -> None:
        del self.consumers[consumer]
        for window in consumer.windows:
            window.leave(consumer)
        self._withdraw(consumer)
        priority = consumer.priority
        self._peer_counts[priority] -= 1
        if not self._peer_counts[priority]:
            del self._peer_counts[priority]
            self._forget_priority(priority)
        if self.live is not None:
            successor = self.live.remove(consumer)
            if successor is not None:
                self._queue.activate(successor)

    def _withdraw(self, consumer: Consumer) -> None:
        """It receives nothing more.

        From the middle of its ring it goes later, with all others that leave in this turn: each by
        itself would have to be looked for.
        """
        if not consumer.is_active:
            return
        consumer.is_active = False
        ring = self._ring(consumer.priority)
        if ring[0] is consumer:
            ring.popleft()
        elif ring[-1] is consumer:
            ring.pop()
        elif self._queue.is_delivering:
            ring.remove(consumer)
        else:
            if not self._leavers:
                self._queue.call_at_end_of_turn(self)
            self._leavers.add(consumer.priority)

    def selector_cost_with(self, consumer: Consumer) -> int:
        """As how many ordinary selectors those of the consumers would count if this one came too.

        0 if it brings none, or none that is new here. Readers are not counted: each looks at
        messages in its own time.
        """
        if not consumer.is_selective or consumer.is_browser:
            return 0
        return 1 if consumer.selector is None else consumer.selector.cost

    def dispatch(self) -> bool:
        """The turn's call: let go of the consumers that were removed. There is nothing to go on
        with in another turn, so False."""
        self._drop_leavers()
        return False

    def _drop_leavers(self) -> None:
        for priority in self._leavers:
            ring = self._ring_by_priority.get(priority)
            if ring is not None:
                staying = [consumer for consumer in ring if consumer.is_active]
                ring.clear()
                ring.extend(staying)
        self._leavers.clear()

    def _forget_priority(self, priority: int) -> None:
        """No consumer has it any more."""
        if self._ring_by_priority.pop(priority, None) is not None:
            del self._rings[bisect_left(self._rings, -priority, key=_precedence)]

    def hand_over_to(self, successor: Dispatcher) -> None:
        """Another lane goes on with these consumers; all ready entries are in the ordering."""
        successor.live = self.live
        successor._peer_counts = self._peer_counts
        ready = [consumer for consumer in self.consumers if consumer.is_active]
        for consumer in ready:
            consumer.is_active = False
        successor.adopt(self.consumers, ready)

    def adopt(self, consumers: dict[Consumer, None], ready: list[Consumer]) -> None:
        """Go on with these consumers of another lane; the others come back by themselves."""
        self.consumers = consumers
        for consumer in ready:
            self.activate(consumer)

    def detach(self) -> None:
        """The queue is deleted: without this reference it is freed, and not by the collector."""
        del self._queue

    def activate(self, consumer: Consumer) -> None:
        if consumer.is_active or consumer.is_cancelled or consumer.credit <= 0:
            return
        if not consumer.is_live:
            return
        consumer.is_active = True
        self._ring(consumer.priority).append(consumer)

    def _ring(self, priority: int) -> deque[Consumer]:
        ring = self._ring_by_priority.get(priority)
        if ring is None:
            ring = self._ring_by_priority[priority] = deque()
            insort(self._rings, (priority, ring), key=_precedence)
        return ring

    @property
    def has_active_consumers(self) -> bool:
        if self._leavers:
            self._drop_leavers()
        return any(ring for _, ring in self._rings)

    def finished(self) -> list[Consumer]:
        """Those that close at the end and have come to it: nothing that is ready is for them."""
        if len(self._order):
            return []
        return [one for one in self.consumers if one.closes_at_end and self._has_nothing_for(one)]

    def _has_nothing_for(self, consumer: Consumer) -> bool:
        """While the ordering is empty; one that waits for another to leave has its turn to come."""
        return consumer.is_live

    # ------------------------------------------------- entries, on the queue's behalf

    def on_ready(self, entry: QueueEntry) -> None:
        """A new entry is ready, or one that was held; only if ``wants_new_entries``."""

    def on_departed(self, entry: QueueEntry) -> None:
        """An entry was settled, or put back after it was acquired; if ``wants_departures``."""

    def on_parked_dropped(self) -> None:
        """A parked entry was settled where it is."""
        self.parked_count -= 1

    def may_deliver(self, entry: QueueEntry) -> bool:
        """Whether ``run`` could hand this ready entry to anybody; True where that is not known."""
        return self.has_active_consumers

    def has_taker(self, message: Message) -> bool:
        """Whether a consumer waits that would be given this new message at once."""
        if len(self._order):
            return False
        return any(consumer.would_receive(message) for consumer in self.consumers)

    def least(self) -> QueueEntry | None:
        """The ready entry that a full queue gives up first, left where it is."""
        return self._order.least()

    def get(self) -> QueueEntry | None:
        """Acquire the next entry for basic.get."""
        entries = self._queue.acquire(1)
        return entries[0] if entries else None

    def ready_entries(self) -> list[QueueEntry]:
        """Every ready entry, in order, left where it is."""
        return list(self._order)

    def take_some(self, count: int) -> list[QueueEntry]:
        """Remove and return the first ready entries, parked ones too; fewer when there are fewer.

        For a queue that is deleted: nobody is going to receive any more.
        """
        return self._order.take(count)

    def parked_entries(self) -> list[QueueEntry]:
        """Every parked entry, in no order, left where it is."""
        return []

    def take_all(self) -> list[QueueEntry]:
        """Remove and return every ready entry, in order."""
        return self._order.take(len(self._order))

    # -------------------------------------------------------------------- delivery

    def run(self) -> bool:
        """Deliver within one turn's share; True when only the share stopped it."""
        if self._leavers:
            self._drop_leavers()
        order = self._order
        budget = ENTRIES_PER_TURN
        for _, ring in self._rings:
            while ring:
                waiting = len(order)
                if waiting == 0:
                    return False
                if budget <= 0:
                    return True
                limit = self._batch_limit(waiting, budget)
                if ring[0].windows:
                    budget -= self._serve_windowed(ring, limit if len(ring) == 1 else 1)
                elif len(ring) == 1:
                    budget -= self._serve_one(ring, limit)
                else:
                    budget -= self._serve_round(ring, limit)
        return False

    def _batch_limit(self, waiting: int, budget: int) -> int:
        """How many entries to take at once: by count, and by octets at this queue's average."""
        limit = min(waiting, budget, BATCH_ENTRIES)
        ready_bytes = self._queue.ready_bytes
        if ready_bytes > BATCH_BYTES:
            limit = min(limit, max(1, BATCH_BYTES * waiting // ready_bytes))
        return limit

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
        """Whole rounds over all consumers of the ring at once, or one entry to the next of them."""
        count = len(ring)
        if limit < 2 * count:
            return self._serve_next(ring)
        consumers = list(ring)
        if len({consumer.delivery_port for consumer in consumers}) < count:
            return self._serve_next(ring)  # parts handed over one after the other would be seen
        rounds = limit // count
        room = UNLIMITED
        for consumer in consumers:
            if consumer.windows:
                return self._serve_next(ring)
            if consumer.suspend_if_full():
                ring.remove(consumer)
                consumer.is_active = False
                return 0
            rounds = min(rounds, consumer.credit)
            room = min(room, consumer.room_bytes)
        if room < count * self._queue.ready_bytes // len(self._order):
            return self._serve_next(ring)  # not even one round is likely to fit
        entries = self._fitting(self._queue.acquire(rounds * count), room, count)
        if not entries:
            return self._serve_next(ring)
        rounds = len(entries) // count
        for index, consumer in enumerate(consumers):
            if consumer.credit <= rounds:
                ring.remove(consumer)
                consumer.is_active = False
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

        To one who is alone there, up to ``limit`` as far as its windows admit them unseen.
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
        if queue.has_stored_contents:
            while entry is not None and not queue.with_content([entry], are_in_place=True):
                entry = order.peek()
        return entry

    def _hand_over(self, consumer: Consumer, entries: list[QueueEntry]) -> int:
        consumer.credit -= len(entries)
        delivered = consumer.deliver(entries)
        if delivered < len(entries):  # first, so that nobody takes the queue for emptier than it is
            self._take_back(consumer, entries[delivered:])
        if not consumer.acknowledges:
            self._queue.settle_delivered(entries[:delivered])
        return delivered

    def _take_back(self, consumer: Consumer, entries: list[QueueEntry]) -> None:
        """The consumer's output filled up on the way: the rest was never delivered."""
        for entry in entries:
            consumer.take_credit_back(entry.message.size)
        self._queue.restore(entries)


def _precedence(level: tuple[int, deque[Consumer]]) -> int:
    """By which ``_rings`` is sorted."""
    return -level[0]
