"""Reader of a queue as ``readers`` keeps it, and the entries that basic.get sees.

A delivery from a non-destructive queue changes nothing there, so what a channel keeps as unacked is
a ``Reading`` and not the entry. It goes back to the queue's ``ReadingAccount``.               [hot]

Invariant: an entry does not know its readers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from hareline.queues.core.entry import ACQUIRED, PARKED, READY, SETTLED, EntryQueue, QueueEntry
from hareline.queues.core.start_position import FIRST, read_start
from hareline.queues.orders.log_order import LogOrder

if TYPE_CHECKING:
    from hareline.clock import Clock
    from hareline.queues.core.consumer import Consumer
    from hareline.queues.core.ports import QueuePort
    from hareline.queues.orders.order import EntryOrder
    from hareline.selectors.selector import Selector

FILTER_VALUE_HEADER: Final = "x-stream-filter-value"  # RabbitMQ: rabbit_stream_queue

Ranked = tuple[Any, QueueEntry]


class Reading(QueueEntry):
    """One hand-over of an entry to a reader that acknowledges: what its channel keeps as unacked.

    ``queue`` is the queue's ``ReadingAccount``, to which the channel settles or releases it.
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
    """Where readings come back instead of to their queue: they are counted, and nothing else.

    ``queue``: the queue. ``is_counted``: they are among its unacked entries.
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

    def release(self, entries: list[QueueEntry], *, is_counted: bool = True) -> None:
        """End the readings; no return is counted, as no delivery limit applies here."""
        for entry in entries:
            entry.state = SETTLED
        if self.is_counted:
            self.queue.count_readings(0, unacked_count=-len(entries))

    def reject(self, entries: list[QueueEntry]) -> None:
        self.release(entries)


class Reader:
    """The place of one consumer.

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
        "is_at_end",
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
        self.heap: list[Ranked] = []
        self.is_at_end = False
        self.is_selective = consumer.is_selective or consumer.stream_filter is not None


def is_wanted(consumer: Consumer, entry: QueueEntry) -> bool:
    """True if an entry that is still ready or parked is for this consumer."""
    if entry.state not in (READY, PARKED):
        return False
    message = entry.message
    filter_values = consumer.stream_filter
    if filter_values is not None:
        value = message.header(FILTER_VALUE_HEADER)
        if (value if isinstance(value, str) else "") not in filter_values:
            return False
    return consumer.wants(message)


class Getter:
    """What basic.get sees of a non-destructive queue that has default filters.

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
