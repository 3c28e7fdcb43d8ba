"""Reading lane: consumers are shown the entries of a queue and take nothing away.

Each reader has a place of its own: in a log (``orders.log_order``) the offset that it reads next,
so fifty readers cost one copy of each message; in other orderings, where a new entry may come
before some that were read, the entries that it has yet to see. A reader that has seen everything
waits at the end, outside the ``rings``, so waiting readers cost nothing.                      [hot]

Invariant: to show an entry changes neither its state nor the order, and an entry does not know its
readers. ``Consumer.is_active`` is True exactly while the reader stands in a ring or at the end.
"""

from __future__ import annotations

from heapq import heapify, heappop, heappush
from time import perf_counter
from typing import TYPE_CHECKING, Any, Final

from hareline.message import TRANSIENT
from hareline.queues.core.entry import ACQUIRED, PARKED, READY, SETTLED, EntryQueue, QueueEntry
from hareline.queues.core.kinds import RETURNED
from hareline.queues.core.lane import BATCH_BYTES, BATCH_ENTRIES, Lane
from hareline.queues.core.ports import with_content
from hareline.queues.core.start_position import FIRST, STREAM_OFFSET, read_start
from hareline.queues.dispatch.rings import Rings
from hareline.queues.orders.log_order import LogOrder

if TYPE_CHECKING:
    from collections import deque
    from collections.abc import Callable

    from hareline.clock import Clock
    from hareline.message import Message
    from hareline.queues.core.consumer import Consumer
    from hareline.queues.core.consumer_book import ConsumerBook
    from hareline.queues.core.ports import QueuePort
    from hareline.queues.core.start_position import StartPosition
    from hareline.queues.orders.log_pages import LogPages
    from hareline.queues.orders.order import EntryOrder
    from hareline.queues.policies.retention import Retention
    from hareline.selectors.selector import Selector

# What all readers together are shown in one turn: entries, and the time that the selective ones,
# which look at each message, may take.
LOOKS_PER_TURN: Final = 4096
TURN_SHARE_S: Final = 0.005
SHARE_MIN: Final = 16  # of them to each reader, so that many readers do not make tiny batches
RUNS_PER_SWEEP: Final = 64
DEAD_ALLOWED: Final = 64

FILTER_VALUE_HEADER: Final = "x-stream-filter-value"  # RabbitMQ: rabbit_stream_queue


class Reading(QueueEntry):
    """Hand-over of an entry to a reader that acknowledges: its channel keeps this as unacked.

    ``queue`` is the lane's ``ReadingAccount``: settling and releasing only gives credit back
    (RabbitMQ's streams, Broker-J's non-destructive consumers).
    """

    __slots__ = ()

    def __init__(self, account: ReadingAccount, entry: QueueEntry) -> None:
        self.queue = account
        self.message = entry.message
        self.offset = entry.offset
        self.state = ACQUIRED
        self.delivery_count = 0
        self.consumer = None


class ReadingAccount(EntryQueue):
    """Counts the readings that come back, which do not go to their queue.

    ``is_counted``: they are among the unacked entries of ``queue``.
    """

    __slots__ = ("is_counted", "name", "queue")

    shows_delivery_count = False

    def __init__(self, queue: QueuePort, *, is_counted: bool) -> None:
        self.queue = queue
        self.name = queue.name
        self.is_counted = is_counted

    def settle(self, entry: QueueEntry) -> None:
        entry.state = SETTLED
        if self.is_counted:
            self.queue.count_readings(0, unacked_count=-1, acked=entry)

    def release(
        self, entries: list[QueueEntry], *, is_counted: bool = True, cause: int = RETURNED
    ) -> None:
        """End the readings; no return is counted, as no delivery limit applies here."""
        for entry in entries:
            entry.state = SETTLED
        if self.is_counted:
            self.queue.count_readings(0, unacked_count=-len(entries))

    def reject(self, entries: list[QueueEntry]) -> None:
        self.release(entries)


class Reader:
    """Place of one consumer.

    ``from_offset``: entries before this are not for it. ``next_offset``: in a log, what it sees
    next; ``index``: where that stands in this ``version`` of the log, ``cut_count`` included.
    ``shelf``: the entries that were there at its start, the next one last. ``heap``: by rank, what
    came since in places that it has passed or may pass. ``is_selective``: not every entry that it
    comes to is for it.
    """

    __slots__ = (
        "consumer",
        "from_offset",
        "heap",
        "index",
        "is_selective",
        "next_offset",
        "shelf",
        "version",
    )

    def __init__(self, consumer: Consumer, from_offset: int) -> None:
        self.consumer = consumer
        self.from_offset = from_offset
        self.next_offset = from_offset
        self.index = 0
        self.version = -1
        self.shelf: list[QueueEntry] = []
        self.heap: list[tuple[Any, QueueEntry]] = []
        self.is_selective = consumer.is_selective or consumer.stream_filter is not None

    def wants(self, entry: QueueEntry) -> bool:
        """True if an entry is for this reader, and is still ready or parked."""
        if entry.state not in (READY, PARKED):
            return False
        consumer, message = self.consumer, entry.message
        filter_values = consumer.stream_filter
        if filter_values is not None:
            value = message.header(FILTER_VALUE_HEADER)
            if (value if isinstance(value, str) else "") not in filter_values:
                return False
        return consumer.wants(message)

    def index_in(self, log: LogOrder) -> int:
        """Index of the next entry of this reader in those of the log."""
        if self.version != log.version:
            self.version = log.version
            index = log.index_of(self.next_offset)
            self.index = index + log.cut_count
            return index
        index = self.index - log.cut_count
        return index if index > log.head else log.head

    def is_through(self, log: LogOrder | None) -> bool:
        """True if the reader has seen everything; ``log``: the ordering, if it is a log."""
        if self.heap or self.shelf:
            return False
        if log is None:
            return True
        if log.pages is not None and self.next_offset < log.pages.end:
            return False
        return self.index_in(log) >= len(log.entries)


class ReadingLane(Lane):
    """Main lane of a non-destructive queue, or the lane of browsers beside another queue's.

    ``is_browsing``: a browser is shown every entry that was ready when it came, and then each new
    one, unless another consumer has taken it meanwhile; what was taken and comes back is not shown
    again (Broker-J: browsers see no requeues). Groups, consumer priorities and single active
    consumers do not concern it. Its unacked entries are not counted, as other consumers may have
    acquired the same.

    ``retention`` drops what a stream keeps no longer; None where nothing does. ``getter`` finds
    what basic.get may see; None where that is everything. ``watchers`` are called once, after the
    next run or at the end of the queue.
    """

    __slots__ = (
        "_account",
        "_at_end",
        "_by_consumer",
        "_done",
        "_ends_at",
        "_has_news",
        "_is_browsing",
        "_is_late",
        "_is_refused",
        "_log",
        "_looks",
        "_order",
        "_passed_offset",
        "_queue",
        "_rings",
        "_runs",
        "getter",
        "retention",
        "watchers",
    )

    def __init__(self, queue: QueuePort, order: EntryOrder, *, is_browsing: bool = False) -> None:
        super().__init__()
        self.share = LOOKS_PER_TURN
        self._queue = queue
        self._order = order
        self._is_browsing = is_browsing
        self._log = order if isinstance(order, LogOrder) and not is_browsing else None
        self.wants_new_entries = True
        self.keeps_entries = self._log is None  # readers of a log go by its offsets
        self.retention: Retention | None = None
        self.getter: Getter | None = None
        self.watchers: list[Callable[[], None]] = []
        self._account = ReadingAccount(queue, is_counted=not is_browsing)
        self._rings = Rings()
        self._by_consumer: dict[Consumer, Reader] = {}
        self._at_end: dict[Reader, None] = {}
        self._done: list[Consumer] = []  # they asked to be removed at the end, and are there
        self._has_news = False
        self._passed_offset = 0  # in a log: all that can receive have seen what is before it
        # of the last serving: entries shown, wanted or not, and whether a window stopped it
        self._looks = 0
        self._is_refused = False
        self._ends_at = 0.0  # this turn's share of time
        self._is_late = False  # it is used up
        self._runs = 0

    # ------------------------------------------------------------------- consumers

    def add(self, consumer: Consumer) -> None:
        self._by_consumer[consumer] = self._new_reader(consumer)
        self.consumers.add(consumer)
        self.activate(consumer)

    def activate(self, consumer: Consumer) -> None:
        if consumer not in self._by_consumer and not consumer.is_cancelled:  # of another lane
            self._by_consumer[consumer] = self._new_reader(consumer)
        self._passed_offset = 0
        if consumer.is_active or consumer.is_cancelled or consumer.credit <= 0:
            return
        if not consumer.is_live:
            return
        consumer.is_active = True
        self._rings.of(consumer.priority).append(consumer)

    def remove(self, consumer: Consumer) -> None:
        reader = self._by_consumer.pop(consumer)
        if reader in self._at_end:
            del self._at_end[reader]
            consumer.is_active = False
        successor = self.consumers.remove(consumer)
        self._rings.remove(consumer, self._queue)
        if not self.consumers.has_priority(consumer.priority):
            self._rings.forget(consumer.priority)
        if successor is not None:
            self._queue.activate(successor)

    def hand_over_to(self, successor: Lane) -> None:
        successor.adopt(self.consumers, self.consumers.deactivate_all())

    def adopt(self, consumers: ConsumerBook, ready: list[Consumer]) -> None:
        """Let each begin at its own start position, as a new consumer does."""
        self.consumers = consumers
        for consumer in ready:
            self.activate(consumer)

    def _new_reader(self, consumer: Consumer) -> Reader:
        entries = self._queue.lane.ready_entries() if self._log is None else []
        first = self._first_offset(consumer.start_position, entries)
        reader = Reader(consumer, first)
        reader.shelf = [entry for entry in entries if entry.offset >= first] if first else entries
        reader.shelf.reverse()
        return reader

    def _first_offset(self, start: StartPosition, entries: list[QueueEntry]) -> int:
        """Offset of a start position, now: in the log or, without one, among ``entries``.

        At most that of the next message.
        """
        log, value, end = self._log, start.value, self._queue.next_offset
        offset: int | None = None
        if start.kind == "first":
            offset = 0
        elif start.kind == "offset":
            offset = min(value, end)
        elif start.kind == "last":
            known = [entry.offset for entry in entries]
            offset = max(known, default=None) if log is None else log.last_offset
        elif start.kind == "time":
            known = [entry.offset for entry in entries if entry.message.arrival_ms >= value]
            offset = min(known, default=None) if log is None else log.offset_since(value)
        return end if offset is None else offset

    def finished(self) -> list[Consumer]:
        done, self._done = self._done, []
        return done

    def places(self) -> list[tuple[Consumer, int]]:
        """The readers of a log, each with the offset that it reads next; for operators."""
        if self._log is None:
            return []
        return [(consumer, reader.next_offset) for consumer, reader in self._by_consumer.items()]

    def has_more_for(self, consumer: Consumer) -> bool:
        """True if there are entries that the consumer has not come to; for operators."""
        reader = self._by_consumer.get(consumer)
        if reader is None:
            return False
        if self._log is None:
            return bool(reader.shelf or reader.heap)
        return reader.next_offset < self._queue.next_offset

    def stop(self) -> None:
        if self.retention is not None:
            self.retention.stop()
            self.retention = None
        self._call_watchers()

    # --------------------------------------------------------------------- entries

    def on_ready(self, entry: QueueEntry) -> None:
        if not self._is_browsing:
            self._write_offset(entry)
        offset = entry.offset
        self._has_news = True
        if self._log is None:
            rank = self._order.rank(entry)
            for reader in self._by_consumer.values():
                if offset >= reader.from_offset:
                    heappush(reader.heap, (rank, entry))
        elif offset + 1 < self._queue.next_offset:  # held until now, behind some places
            self._passed_offset = 0
            for reader in self._by_consumer.values():
                if reader.from_offset <= offset < reader.next_offset:
                    heappush(reader.heap, (offset, entry))
            if self.getter is not None:
                self.getter.on_ready(entry)

    def _write_offset(self, entry: QueueEntry) -> None:
        """Write its offset into the message, once for all readers.

        A message out of the store has it, unless it was stored while it was held.
        """
        message = entry.message
        position = message.position
        if position <= TRANSIENT or message.header(STREAM_OFFSET) != entry.offset:
            entry.message = message.with_header(STREAM_OFFSET, entry.offset)
            if position > TRANSIENT:
                entry.message.position = position  # the same one to the store

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
        return Reading(self._account, entry)

    def take(self, count: int) -> list[QueueEntry]:
        return self._order.take(count)

    def ready_entries(self) -> list[QueueEntry]:
        return list(self._order)

    def least(self) -> QueueEntry | None:
        return self._order.least()

    def has_taker(self, message: Message) -> bool:
        """True if a reader that has seen everything would be shown this new message at once."""
        return any(reader.consumer.would_receive(message) for reader in self._at_end)

    def may_deliver(self, entry: QueueEntry) -> bool:
        # a full log must not run for every message that pushes out one that all have seen
        if entry.offset < self._passed_offset:
            return False
        return bool(self._rings) or self._has_waiting_news

    @property
    def _has_waiting_news(self) -> bool:
        """True if readers at the end have not been shown what came since."""
        return self._has_news and bool(self._at_end)

    # -------------------------------------------------------------------- delivery

    def run(self) -> bool:
        retention = self.retention
        if retention is not None:
            retention.drop_old()
        is_unfinished = self._show()
        if retention is not None:
            retention.drop_excess()
        is_unfinished = is_unfinished or self._has_waiting_news
        if not is_unfinished and self._log is not None:
            last = self._log.last_offset
            if last is not None:
                self._passed_offset = last + 1
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

    def _show(self) -> bool:
        """Show entries within one turn's share; True if only the share stopped it."""
        if self._rings.leavers:
            self._rings.drop_leavers()
        if self._has_news:  # all that waited at the end look again
            self._has_news = False
            waiting, self._at_end = self._at_end, {}
            for reader in waiting:
                self._rings.of(reader.consumer.priority).append(reader.consumer)
        self._runs += 1
        if self._runs % RUNS_PER_SWEEP == 0:
            self._sweep()
        budget = self.share
        self._ends_at = perf_counter() + TURN_SHARE_S
        self._is_late = False
        for _, ring in self._rings.by_precedence:
            while ring:
                if budget <= 0 or self._is_late:
                    return True
                share = max(SHARE_MIN, LOOKS_PER_TURN // len(ring))
                budget -= self._serve(ring, min(share, budget, self._hand_over_limit()))
        return False

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
        reader = self._by_consumer[consumer]
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
        """Put a reader that was served where it stands now: in its ring, at the end, or nowhere."""
        consumer = reader.consumer
        is_through = reader.is_through(self._log)
        if is_through and consumer.closes_at_end:
            self._done.append(consumer)
        if consumer.is_active or self._is_refused or consumer.credit <= 0:
            return
        consumer.is_active = True
        if is_through:
            self._at_end[reader] = None
        else:
            ring.append(consumer)

    def _from_log(self, reader: Reader, limit: int) -> list[QueueEntry]:
        """The next entries of the log that are for this reader."""
        log = self._log
        if log is None:
            return []
        pages = log.pages
        if pages is not None and reader.next_offset < pages.end:
            return self._from_pages(pages, reader, limit)
        consumer = reader.consumer
        entries = log.entries
        index = reader.index_in(log)
        is_picking = reader.is_selective or bool(consumer.windows)
        paging = self._queue.paging
        if paging is not None and paging.has_stored:
            # looked at before: what cannot be read is settled now, which may replace the list
            looked_at = BATCH_ENTRIES if is_picking else limit
            shown = entries[index : index + looked_at]
            while len(with_content(self._queue, shown, are_in_place=True)) < len(shown):
                index = reader.index_in(log)
                shown = entries[index : index + looked_at]
        if not is_picking:
            found = entries[index : index + limit]
            index += len(found)
            self._looks = len(found)
            if log.dead_count:
                found = [entry for entry in found if entry.state != SETTLED]
        else:
            end = min(len(entries), index + BATCH_ENTRIES)
            found, index = self._pick(reader, entries, index, end, limit)
        reader.index = index + log.cut_count
        if index:
            reader.next_offset = max(reader.next_offset, entries[index - 1].offset + 1)
        return found

    def _from_pages(self, pages: LogPages, reader: Reader, limit: int) -> list[QueueEntry]:
        """The same for a reader that is so far behind that its next entries are on disk."""
        is_picking = reader.is_selective or bool(reader.consumer.windows)
        looked_at = self._hand_over_limit() if is_picking else limit
        shown, next_offset = pages.read(reader.next_offset, looked_at)
        shown = with_content(self._queue, shown, are_in_place=True)
        if not is_picking:
            found = shown
            self._looks = len(shown)
        else:
            found, index = self._pick(reader, shown, 0, len(shown), limit)
            if index < len(shown):
                next_offset = shown[index].offset
        reader.next_offset = next_offset
        if perf_counter() > self._ends_at:
            self._is_late = True
        return found

    def _pick(
        self, reader: Reader, entries: list[QueueEntry], index: int, end: int, limit: int
    ) -> tuple[list[QueueEntry], int]:
        """Those that are for this reader, one by one; also the index at which to go on."""
        consumer = reader.consumer
        found: list[QueueEntry] = []
        while index < end and len(found) < limit:
            entry = entries[index]
            if reader.wants(entry):
                if consumer.windows and not self._is_admitted(consumer, entry):
                    break
                found.append(entry)
            index += 1
            self._looks += 1
            if reader.is_selective and perf_counter() > self._ends_at:
                self._is_late = True
                break
        return found, index

    def _from_own(self, reader: Reader, limit: int) -> list[QueueEntry]:
        """The next entries of those kept for this reader only."""
        consumer = reader.consumer
        heap, shelf = reader.heap, reader.shelf
        rank = self._order.rank
        queue = self._queue
        is_stored = queue.paging is not None and queue.paging.has_stored
        found: list[QueueEntry] = []
        while (heap or shelf) and len(found) < limit and self._looks < BATCH_ENTRIES:
            is_new = not shelf or (bool(heap) and heap[0][0] < rank(shelf[-1]))
            entry = heap[0][1] if is_new else shelf[-1]
            if is_stored:
                with_content(queue, [entry], are_in_place=True)  # settles what cannot be read
            is_wanted = reader.wants(entry)
            if is_wanted and consumer.windows and not self._is_admitted(consumer, entry):
                break
            if is_new:
                heappop(heap)
            else:
                shelf.pop()
            if is_wanted:
                found.append(entry)
            self._looks += 1
            if reader.is_selective and perf_counter() > self._ends_at:
                self._is_late = True
                break
        return found

    def _is_admitted(self, consumer: Consumer, entry: QueueEntry) -> bool:
        """True if all its windows have room, which then count the entry; else the reader waits."""
        size = entry.message.size
        for window in consumer.windows:
            if window.refuses(consumer, size):
                self._is_refused = True
                return False
        for window in consumer.windows:
            window.use(consumer, size)
        return True

    def _hand_over(self, consumer: Consumer, entries: list[QueueEntry]) -> int:
        consumer.credit -= len(entries)
        unacked_count = 0
        if consumer.acknowledges:
            account = self._account
            delivered = consumer.deliver([Reading(account, entry) for entry in entries])
            if not self._is_browsing:
                unacked_count = delivered
        else:
            delivered = consumer.deliver(entries)
        self._queue.count_readings(delivered, unacked_count=unacked_count)
        for entry in entries[delivered:]:
            consumer.take_credit_back(entry.message.size)
        return delivered

    def _step_back(self, reader: Reader, entries: list[QueueEntry], is_own: bool) -> None:
        """Show these entries next: the consumer's output filled up before them."""
        if is_own:
            rank = self._order.rank
            for entry in entries:
                heappush(reader.heap, (rank(entry), entry))
        else:
            reader.next_offset = entries[0].offset
            reader.version = -1

    # ---------------------------------------------------------------------- memory

    def _sweep(self) -> None:
        """Drop settled entries that are kept for readers that do not come to them."""
        allowed = 2 * self._queue.ready_count + DEAD_ALLOWED
        for reader in self._by_consumer.values():
            if len(reader.heap) + len(reader.shelf) > allowed:
                reader.shelf = [entry for entry in reader.shelf if entry.state != SETTLED]
                reader.heap = [pair for pair in reader.heap if pair[1].state != SETTLED]
                heapify(reader.heap)


class Getter:
    """Finds what basic.get sees of a non-destructive queue that has default filters.

    ``selector`` None: any message. ``periods``: replay periods, which each get counts back from its
    own time. A get looks at all entries before the first that it may see, in a log only at those
    that no earlier get has looked at: ``_offset`` is that of the first that may match the selector.
    """

    __slots__ = ("_clock", "_offset", "_periods", "_selector")

    def __init__(self, selector: Selector | None, periods: list[str], clock: Clock) -> None:
        self._selector = selector
        self._periods = periods
        self._clock = clock
        self._offset = 0

    def on_ready(self, entry: QueueEntry) -> None:
        """Look at an entry of a log that was held until now, even if later ones were looked at."""
        self._offset = min(self._offset, entry.offset)

    def first(self, order: EntryOrder) -> QueueEntry | None:
        """The first entry that a get may see, left where it is; None if there is none."""
        now_ms = self._clock.now_ms
        start = read_start({}, self._periods, place="", now_ms=now_ms, default=FIRST)
        if start.kind == "next":
            return None  # none of those that are there
        if isinstance(order, LogOrder):
            return self._first_of_log(order, start.value)
        for entry in order:
            if entry.message.arrival_ms >= start.value and self._is_true_of(entry):
                return entry
        return None

    def _first_of_log(self, log: LogOrder, since_ms: int) -> QueueEntry | None:
        offset = self._offset
        if since_ms:
            since = log.offset_since(since_ms)
            if since is None:
                return None
            offset = max(offset, since)
        for entry in log.entries_from(offset):
            if self._is_true_of(entry):
                self._offset = entry.offset
                return entry
            offset = entry.offset + 1
        self._offset = offset
        return None

    def _is_true_of(self, entry: QueueEntry) -> bool:
        if self._selector is None:
            return True
        is_true = self._selector.matches(entry.message)
        entry.message.forget_properties()
        return is_true
