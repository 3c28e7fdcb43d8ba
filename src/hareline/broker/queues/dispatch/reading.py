"""The dispatcher of a non-destructive queue: consumers read, and take nothing away.

Nothing is acquired; an entry stays ready until it expires, or is dropped, replaced or purged. Each
consumer is a reader with a place of its own:

* in a log (``queues.orders.log_order``) that is the offset it reads next, so fifty readers cost one
  copy of each message; only what becomes ready behind that place is kept for the reader, in a heap;
* in other orderings a new entry may come before some that were read, so a reader keeps what it has
  not seen: the entries that were there at its start, and a heap of what came since.

Readers that can receive stand in the rings of ``Dispatcher``. One that has seen everything waits at
the end instead, and goes back when there is something new, so waiting readers cost nothing. An
acknowledging reader is handed a ``Reading`` of the entry; settling and releasing that only gives
its credit back, since neither changes a log (RabbitMQ's streams, Broker-J's non-destructive
consumers).                                                                                  [hot]

Invariant: ``Consumer.is_active`` is True exactly while the reader stands in a ring or at the end.
"""

from __future__ import annotations

from heapq import heapify, heappop, heappush
from time import perf_counter
from typing import TYPE_CHECKING, Final, cast

from hareline.broker.queues.dispatch.plain import BATCH_BYTES, BATCH_ENTRIES, Dispatcher
from hareline.broker.queues.dispatch.reader import (
    Getter,
    Reader,
    Reading,
    ReadingAccount,
    is_wanted,
)
from hareline.broker.queues.entry import SETTLED, QueueEntry
from hareline.broker.queues.orders.log_order import LogOrder
from hareline.message import TRANSIENT

if TYPE_CHECKING:
    from collections import deque

    from hareline.broker.queues.dispatch.consumer import Consumer
    from hareline.broker.queues.dispatch.start_position import StartPosition
    from hareline.broker.queues.orders.order import EntryOrder
    from hareline.broker.queues.policies.retention import Retention
    from hareline.broker.queues.queue import Queue
    from hareline.message import Message

OFFSET_HEADER: Final = "x-stream-offset"  # RabbitMQ: rabbit_stream_queue

# What all readers together are shown in one turn: entries, and the time that the choosy ones, who
# look at each message, may take.
LOOKS_PER_TURN: Final = 4096
TURN_SHARE_S: Final = 0.005
SHARE_MIN: Final = 16  # of them to each reader, so that many readers do not make tiny batches
RUNS_PER_SWEEP: Final = 64
DEAD_ALLOWED: Final = 64


class ReadingDispatcher(Dispatcher):
    """``retention`` drops what a stream keeps no longer; None where nothing does. ``getter`` finds
    what basic.get may see; None where that is everything."""

    __slots__ = (
        "_account",
        "_at_end",
        "_done",
        "_ends_at",
        "_has_news",
        "_is_late",
        "_is_refused",
        "_log",
        "_looks",
        "_passed_offset",
        "_readers",
        "_runs",
        "getter",
        "retention",
    )

    wants_new_entries = True
    counts_unacked = True  # readings among the queue's unacked entries

    def __init__(self, queue: Queue, order: EntryOrder) -> None:
        super().__init__(queue, order)
        self._log = order if isinstance(order, LogOrder) else None
        self._account = cast("Queue", ReadingAccount(queue, is_counted=self.counts_unacked))
        self._readers: dict[Consumer, Reader] = {}
        self._at_end: dict[Reader, None] = {}
        self._done: list[Consumer] = []  # they asked to be let go at the end, and are there
        self._has_news = False
        self._passed_offset = 0  # in a log: all that can receive have seen what is before it
        # of the last serving: entries shown, wanted or not, and whether a window stopped it
        self._looks = 0
        self._is_refused = False
        self._ends_at = 0.0  # this turn's share of time
        self._is_late = False  # it is used up
        self._runs = 0
        self.retention: Retention | None = None
        self.getter: Getter | None = None

    # ------------------------------------------------------------------- consumers

    def add(self, consumer: Consumer) -> None:
        self._readers[consumer] = self._new_reader(consumer)
        super().add(consumer)

    def activate(self, consumer: Consumer) -> None:
        if consumer not in self._readers and not consumer.is_cancelled:  # of another lane before
            self._readers[consumer] = self._new_reader(consumer)
        self._passed_offset = 0
        super().activate(consumer)

    def remove(self, consumer: Consumer) -> None:
        reader = self._readers.pop(consumer)
        if reader.is_at_end:
            del self._at_end[reader]
            consumer.is_active = False
        super().remove(consumer)

    def selector_cost_with(self, consumer: Consumer) -> int:
        return 0

    def detach(self) -> None:
        super().detach()
        del self._account
        if self.retention is not None:
            self.retention.stop()
            self.retention = None

    @property
    def has_active_consumers(self) -> bool:
        return super().has_active_consumers or (self._has_news and bool(self._at_end))

    def _new_reader(self, consumer: Consumer) -> Reader:
        log = self._log
        if log is not None:
            return Reader(consumer, self._log_offset(log, consumer.start_position))
        entries = self._ready_entries()
        reader = Reader(consumer, self._offset_among(entries, consumer.start_position))
        first = reader.from_offset
        reader.shelf = [entry for entry in entries if entry.offset >= first] if first else entries
        reader.shelf.reverse()
        return reader

    def _ready_entries(self) -> list[QueueEntry]:
        """All that a new reader may be shown, in order."""
        return list(self._order)

    def _log_offset(self, log: LogOrder, start: StartPosition) -> int:
        """The offset that a start comes to, now; at most that of the next message."""
        end = self._queue.next_offset
        if start.kind == "first":
            return 0
        if start.kind == "offset":
            return min(start.value, end)
        entries = log.entries
        if start.kind == "time":
            index = log.index_since(start.value)
            return entries[index].offset if index < len(entries) else end
        if start.kind == "last":
            for entry in reversed(entries):
                if entry.state != SETTLED:
                    return entry.offset
        return end

    def _offset_among(self, entries: list[QueueEntry], start: StartPosition) -> int:
        """The same, where the entries are in an order of their own."""
        end = self._queue.next_offset
        if start.kind == "first":
            return 0
        if start.kind == "offset":
            return min(start.value, end)
        if start.kind == "time":
            since = start.value
            offsets = [entry.offset for entry in entries if entry.message.arrival_ms >= since]
            return min(offsets, default=end)
        if start.kind == "last":
            return max([entry.offset for entry in entries], default=end)
        return end

    # ------------------------------------------------- entries, on the queue's behalf

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
        self._offer(entry)

    def _offer(self, entry: QueueEntry) -> None:
        offset = entry.offset
        self._has_news = True
        if self._log is None:
            rank = self._order.rank(entry)
            for reader in self._readers.values():
                if offset >= reader.from_offset:
                    heappush(reader.heap, (rank, entry))
        elif offset + 1 < self._queue.next_offset:  # it was held until now
            self._passed_offset = 0
            for reader in self._readers.values():
                if reader.from_offset <= offset < reader.next_offset:
                    heappush(reader.heap, (offset, entry))
            if self.getter is not None:
                self.getter.on_ready(entry)

    def get(self) -> QueueEntry | None:
        """The first entry that the default filters let through, every time: basic.get starts from
        the beginning and leaves no mark."""
        order = self._order
        queue = self._queue
        entry = order.peek() if self.getter is None else self.getter.first(order)
        while entry is not None and not self._are_readable([entry]):
            entry = order.peek() if self.getter is None else self.getter.first(order)
        if entry is None:
            return None
        queue.unacked_count += 1
        queue.delivered_count += 1
        return Reading(self._account, entry)

    # -------------------------------------------------------------------- delivery

    def run(self) -> bool:
        """Show the readers within one turn's share; True when only the share stopped it."""
        if self._leavers:
            self._drop_leavers()
        retention = self.retention
        if retention is not None:
            retention.drop_old()
        if self._has_news:
            self._wake()
        self._runs += 1
        if self._runs % RUNS_PER_SWEEP == 0:
            self._sweep()
        is_unfinished = self._serve_all()
        if retention is not None:
            retention.drop_excess()
        is_unfinished = is_unfinished or (self._has_news and bool(self._at_end))
        log = self._log
        if log is not None and log.entries and not is_unfinished:
            self._passed_offset = log.entries[-1].offset + 1
        return is_unfinished

    def finished(self) -> list[Consumer]:
        done, self._done = self._done, []
        return done

    def has_taker(self, message: Message) -> bool:
        """A reader that has seen all there is."""
        return any(reader.consumer.would_receive(message) for reader in self._at_end)

    def may_deliver(self, entry: QueueEntry) -> bool:
        """A full log must not run for every message that pushes out one that all have seen."""
        return entry.offset >= self._passed_offset and self.has_active_consumers

    def _serve_all(self) -> bool:
        budget = LOOKS_PER_TURN
        self._ends_at = perf_counter() + TURN_SHARE_S
        self._is_late = False
        for _, ring in self._rings:
            while ring:
                if budget <= 0 or self._is_late:
                    return True
                share = max(SHARE_MIN, LOOKS_PER_TURN // len(ring))
                budget -= self._serve(ring, min(share, self._hand_over_limit()))
        return False

    def _wake(self) -> None:
        """There is something new: all that waited at the end look again."""
        self._has_news = False
        waiting, self._at_end = self._at_end, {}
        for reader in waiting:
            reader.is_at_end = False
            self._ring(reader.consumer.priority).append(reader.consumer)

    def _hand_over_limit(self) -> int:
        """Entries for one hand-over: by count, and by octets at this queue's average."""
        queue = self._queue
        ready_bytes = queue.ready_bytes
        if ready_bytes <= BATCH_BYTES:
            return BATCH_ENTRIES
        return max(1, min(BATCH_ENTRIES, BATCH_BYTES * queue.ready_count // ready_bytes))

    def _serve(self, ring: deque[Consumer], share: int) -> int:
        """Show the next reader of this ring some entries; returns how many it was shown."""
        consumer = ring.popleft()
        consumer.is_active = False
        if consumer.suspend_if_full():
            return 0
        reader = self._readers[consumer]
        limit = min(share, consumer.credit)
        self._looks = 0
        self._is_refused = False
        is_own = bool(reader.heap or reader.shelf)
        entries = self._from_own(reader, limit) if is_own else self._from_log(reader, limit)
        if entries:
            delivered = self._hand_over(consumer, entries)
            if delivered < len(entries):
                self._step_back(reader, entries[delivered:], is_own)
        self._look_on(ring, reader)
        return self._looks

    def _look_on(self, ring: deque[Consumer], reader: Reader) -> None:
        """Where a reader stands after it was served."""
        consumer = reader.consumer
        is_through = self._is_through(reader)
        if is_through and consumer.closes_at_end:
            self._done.append(consumer)
        if consumer.is_active or self._is_refused or consumer.credit <= 0:
            return
        consumer.is_active = True
        if is_through:
            reader.is_at_end = True
            self._at_end[reader] = None
        else:
            ring.append(consumer)

    def _is_through(self, reader: Reader) -> bool:
        if reader.heap or reader.shelf:
            return False
        log = self._log
        if log is None:
            return True
        return self._index(log, reader) >= len(log.entries)

    def _index(self, log: LogOrder, reader: Reader) -> int:
        if reader.version != log.version:
            reader.version = log.version
            reader.index = log.index_of(reader.next_offset)
        return reader.index if reader.index > log.head else log.head

    def _from_log(self, reader: Reader, limit: int) -> list[QueueEntry]:
        log = self._log
        if log is None:
            return []
        consumer = reader.consumer
        entries = log.entries
        index = self._index(log, reader)
        if self._queue.has_stored_contents:
            # looked at before: what cannot be read is settled now, and perhaps the list made anew
            is_picking = reader.is_selective or bool(consumer.windows)
            looked_at = BATCH_ENTRIES if is_picking else limit
            while not self._are_readable(entries[index : index + looked_at]):
                index = self._index(log, reader)
        if not reader.is_selective and not consumer.windows:
            found = entries[index : index + limit]
            index += len(found)
            self._looks = len(found)
            if log.dead_count:
                found = [entry for entry in found if entry.state != SETTLED]
        else:
            end = min(len(entries), index + BATCH_ENTRIES)
            found = []
            while index < end and len(found) < limit:
                entry = entries[index]
                if is_wanted(consumer, entry):
                    if consumer.windows and not self._is_admitted(consumer, entry):
                        break
                    found.append(entry)
                index += 1
                self._looks += 1
                if reader.is_selective and perf_counter() > self._ends_at:
                    self._is_late = True
                    break
        reader.index = index
        if index:
            reader.next_offset = max(reader.next_offset, entries[index - 1].offset + 1)
        return found

    def _from_own(self, reader: Reader, limit: int) -> list[QueueEntry]:
        """From what is kept for this reader alone."""
        consumer = reader.consumer
        heap, shelf = reader.heap, reader.shelf
        rank = self._order.rank
        found: list[QueueEntry] = []
        while (heap or shelf) and len(found) < limit and self._looks < BATCH_ENTRIES:
            is_new = not shelf or (bool(heap) and heap[0][0] < rank(shelf[-1]))
            entry = heap[0][1] if is_new else shelf[-1]
            self._are_readable([entry])
            is_for_it = is_wanted(consumer, entry)
            if is_for_it and consumer.windows and not self._is_admitted(consumer, entry):
                break
            if is_new:
                heappop(heap)
            else:
                shelf.pop()
            if is_for_it:
                found.append(entry)
            self._looks += 1
            if reader.is_selective and perf_counter() > self._ends_at:
                self._is_late = True
                break
        return found

    def _are_readable(self, entries: list[QueueEntry]) -> bool:
        """Get ready to show these; False: what cannot be read was settled, and has left."""
        paging = self._queue.paging
        if paging is None or not paging.has_stored:
            return True
        return len(paging.readable(entries, are_in_place=True)) == len(entries)

    def _is_admitted(self, consumer: Consumer, entry: QueueEntry) -> bool:
        """Whether all its windows have room; counts the entry then, else the reader waits."""
        size = entry.message.size
        for window in consumer.windows:
            if window.refuses(consumer, size):
                self._is_refused = True
                return False
        for window in consumer.windows:
            window.use(consumer, size)
        return True

    def _hand_over(self, consumer: Consumer, entries: list[QueueEntry]) -> int:
        queue = self._queue
        consumer.credit -= len(entries)
        if consumer.acknowledges:
            account = self._account
            delivered = consumer.deliver([Reading(account, entry) for entry in entries])
            if self.counts_unacked:
                queue.unacked_count += delivered
        else:
            delivered = consumer.deliver(entries)
        queue.delivered_count += delivered
        for entry in entries[delivered:]:
            consumer.take_credit_back(entry.message.size)
        return delivered

    def _step_back(self, reader: Reader, entries: list[QueueEntry], is_own: bool) -> None:
        """The consumer's output filled up: these come next."""
        if is_own:
            rank = self._order.rank
            for entry in entries:
                heappush(reader.heap, (rank(entry), entry))
        else:
            reader.next_offset = entries[0].offset
            reader.version = -1

    # ---------------------------------------------------------------------- memory

    def _sweep(self) -> None:
        """Let go of settled entries that readers keep who do not come to them."""
        allowed = 2 * self._queue.ready_count + DEAD_ALLOWED
        for reader in self._readers.values():
            if len(reader.heap) + len(reader.shelf) > allowed:
                reader.shelf = [entry for entry in reader.shelf if entry.state != SETTLED]
                reader.heap = [pair for pair in reader.heap if pair[1].state != SETTLED]
                heapify(reader.heap)
