"""The books of a queue: the state of each entry, and the counters over all of them.

Base of ``queues.queue.Queue``, and the only code that writes these counters. Entries change their
state here, and in lanes that park, acquire or show them (``entry`` has the table). What else
happens to entries, by the queue's policies, is decided in ``queue`` and ``wiring``.

Invariant: ``ready_count + held_count + unacked_count`` is the number of entries that are not
settled, and ``ready_bytes`` the octets of the ready ones' bodies.                           [hot]
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from hareline.compiled import mypyc_attr
from hareline.counts import QueueCounts
from hareline.queues.core.entry import (
    ACQUIRED,
    HELD,
    PARKED,
    READY,
    SETTLED,
    QueueEntry,
    RankedEntry,
)
from hareline.queues.core.kinds import KEEPS_NONE
from hareline.queues.core.ports import QueuePort

if TYPE_CHECKING:
    from hareline.message import Message
    from hareline.queues.core.lane import Lane
    from hareline.queues.dispatch.reading import ReadingLane
    from hareline.queues.orders.last_values import LastValues
    from hareline.queues.orders.order import EntryOrder
    from hareline.queues.orders.window import Paging
    from hareline.queues.policies.deduplication import Deduplication
    from hareline.queues.policies.expiry import Expiry
    from hareline.queues.policies.hold import Hold
    from hareline.queues.policies.overflow import Overflow
    from hareline.queues.policies.unused import Unused

Listener = Callable[[QueueEntry], None]


class QueueTally:
    """Counters beside the depths, raised once for a batch and never for a message.

    Every entry that was settled was acknowledged, got without acknowledgement, or is in
    ``automatic`` or ``dropped``; ``QueueBooks.counts`` puts it all together.

    ``first_offset``: of the first message that is not of an earlier life.
    ``automatic``: entries handed to consumers that do not acknowledge. ``dropped``: entries that
    left otherwise than by a consumer or a get. ``reading``: deliveries to readers, who were to
    acknowledge ``reading_acks`` of them, and gave ``reading_back`` of these back. ``redelivered``:
    deliveries with the redelivered flag. ``get``, ``get_no_ack`` and ``get_empty`` are of
    basic.get.
    """

    __slots__ = (
        "automatic",
        "dropped",
        "first_offset",
        "get",
        "get_empty",
        "get_no_ack",
        "reading",
        "reading_acks",
        "reading_back",
        "redelivered",
    )

    def __init__(self) -> None:
        self.first_offset = 0
        self.automatic = 0
        self.dropped = 0
        self.reading = 0
        self.reading_acks = 0
        self.reading_back = 0
        self.redelivered = 0
        self.get = 0
        self.get_no_ack = 0
        self.get_empty = 0

    def count_get(self, entry: QueueEntry | None, *, acknowledges: bool) -> None:
        """Count a basic.get; ``entry``: what was acquired for it."""
        if entry is None:
            self.get_empty += 1
        elif acknowledges:
            self.get += 1
        else:
            self.get_no_ack += 1

    def count_readings(self, count: int, unacked_count: int) -> None:
        """Count deliveries to readers, ``unacked_count`` of them to be acknowledged."""
        self.reading += count
        self.reading_acks += unacked_count


class Wires(NamedTuple):
    """``insert`` puts an entry into the ordering. ``append`` does the same for a new one of a queue
    that needs no admission, after the store has it; ``append_run`` for new ones that came together.

    ``on_left``: listeners to an entry that has left, without the store; ``on_departed``: with it.
    ``entry_class``: of new entries. ``needs_admission``: publishers go by ``Queue.put``.
    ``has_entries_to_itself``: only the ordering refers to those that do not expire.
    """

    insert: Callable[[Any], None]
    append: Callable[[Any], None]
    append_run: Callable[[list[Any]], None]
    on_left: Listener | None
    on_departed: Listener | None
    entry_class: type[QueueEntry]
    needs_admission: bool
    has_entries_to_itself: bool


@mypyc_attr(allow_interpreted_subclasses=True)
class QueueBooks(QueuePort):
    """``next_offset`` is also the number of messages ever enqueued. ``delivered_count``,
    ``released_count`` and ``settled_count`` only grow, but for deliveries that did not happen;
    ``tally`` has more of that kind. ``returned_count`` is no less than the ready entries that came
    back. ``redelivering``: of the acquired entries, those that came back, and that their channel
    has yet to count.

    ``order`` has the ready entries but those that the ``lane`` has parked. ``ledger``: what the
    store keeps of this queue, if it is durable, and ``keeps`` of which messages (``kinds``).
    ``paging``: what of a deep queue leaves memory, where there is a disk for it. ``is_marked``: a
    dispatch is still to come.
    """

    __slots__ = (
        "_append",
        "_append_run",
        "_insert",
        "_on_departed",
        "_on_left",
        "browsers",
        "deduplication",
        "delivered_count",
        "entry_class",
        "expiry",
        "has_entries_to_itself",
        "held_count",
        "hold",
        "is_marked",
        "keeps",
        "lane",
        "last_values",
        "ledger",
        "next_offset",
        "order",
        "overflow",
        "paging",
        "ready_bytes",
        "redelivering",
        "released_count",
        "returned_count",
        "settled_count",
        "tally",
        "unacked_count",
        "unused",
    )

    deduplication: Deduplication | None
    hold: Hold | None
    overflow: Overflow | None
    paging: Paging | None

    def __init__(self, order: EntryOrder, lane: Lane) -> None:
        self.order = order
        self.lane = lane
        self.browsers: ReadingLane | None = None
        self.expiry: Expiry | None = None
        self.deduplication = None
        self.hold = None
        self.overflow = None
        self.last_values: LastValues | None = None
        self.paging = None
        self.unused: Unused | None = None
        self.ledger = None
        self.keeps = KEEPS_NONE
        self.is_marked = False
        self.next_offset = 0
        self.ready_bytes = 0
        self.held_count = 0
        self.unacked_count = 0
        self.delivered_count = 0
        self.released_count = 0
        self.returned_count = 0
        self.redelivering = 0
        self.settled_count = 0
        self.tally = QueueTally()
        # what ``wiring`` makes of the parts and the policies
        self._insert: Callable[[Any], None] = order.add
        self._append: Callable[[Any], None] = order.add
        self._append_run: Callable[[list[Any]], None] = order.add_run
        self._on_left: Listener | None = None
        self._on_departed: Listener | None = None
        self.entry_class = order.entry_class
        self.has_entries_to_itself = True

    def _connect(self, wires: Wires) -> None:
        """Call these for each entry from now on."""
        self._insert = wires.insert
        self._append = wires.append
        self._append_run = wires.append_run
        self._on_left = wires.on_left
        self._on_departed = wires.on_departed
        self.entry_class = wires.entry_class
        self.has_entries_to_itself = wires.has_entries_to_itself

    @property
    def ready_count(self) -> int:
        return len(self.order) + self.lane.parking.count

    @property
    def counts(self) -> QueueCounts:
        """Counts of its messages since the broker started; none falls while the queue exists."""
        tally = self.tally
        automatic = tally.automatic + tally.reading - tally.reading_acks
        acks = self.settled_count - tally.automatic - tally.dropped - tally.get_no_ack
        if tally.reading_acks:
            acks += tally.reading_acks - tally.reading_back - self.unacked_count
        return QueueCounts(
            publish=self.next_offset - tally.first_offset,
            deliver=self.delivered_count - automatic - tally.get - tally.get_no_ack,
            deliver_no_ack=automatic,
            get=tally.get,
            get_no_ack=tally.get_no_ack,
            get_empty=tally.get_empty,
            ack=acks,
            redeliver=tally.redelivered,
            disk_reads=0 if self.paging is None else self.paging.contents.read_count,
            disk_writes=0 if self.ledger is None else self.ledger.counts()[0],
        )

    @property
    def change_mark(self) -> int:
        """A number that changes with each change of the counts and depths."""
        return (
            2 * (self.next_offset + self.delivered_count)
            + self.released_count
            + self.settled_count
            + self.tally.get_empty
            - self.held_count
            - self.unacked_count
        )

    # --------------------------------------------------------------------------- in

    def enqueue(self, message: Message) -> None:
        """Take in a message without a time to live; for queues that need no admission."""
        offset = self.next_offset
        self.next_offset = offset + 1
        self._append(self.entry_class(self, message, offset))
        self.ready_bytes += message.size
        if not self.is_marked:
            self.mark()

    def enqueue_run(self, messages: list[Message]) -> None:
        offset = self.next_offset
        self.next_offset = offset + len(messages)
        entry_class = self.entry_class
        self._append_run(
            [entry_class(self, message, at) for at, message in enumerate(messages, offset)]
        )
        self.ready_bytes += sum([message.size for message in messages])
        if not self.is_marked:
            self.mark()

    def _new_entry(self, message: Message) -> RankedEntry:
        offset = self.next_offset
        self.next_offset = offset + 1
        return RankedEntry(self, message, offset)

    def _hold_entry(self, entry: RankedEntry) -> None:
        """A new entry is not valid yet."""
        entry.state = HELD
        self.held_count += 1
        if self.paging is not None:
            self.paging.watch(entry)

    def _make_ready(self, entry: QueueEntry) -> None:
        """A new entry takes its place."""
        self._insert(entry)
        self._count_ready(entry)
        self.mark()

    def _count_ready(self, entry: QueueEntry) -> None:
        self.ready_bytes += entry.message.size
        self.lane.on_ready(entry)
        if self.browsers is not None:
            self.browsers.on_ready(entry)

    def _hold_returned(self, entries: list[QueueEntry]) -> None:
        """Acquired entries, which have come back, are to wait."""
        for entry in entries:
            assert entry.state == ACQUIRED, entry
            entry.state = HELD
            entry.consumer = None
            if self.paging is not None:
                self.paging.watch(entry)
        self.unacked_count -= len(entries)
        self.held_count += len(entries)
        self.returned_count -= len(entries)
        if self.lane.wants_departures:
            for entry in entries:
                self.lane.on_departed(entry)

    def _end_hold(self, entries: list[QueueEntry]) -> None:
        """Held entries become ready, each in its own place; browsers know those that came back."""
        for entry in entries:
            entry.state = READY
            if entry.delivery_count:
                self.returned_count += 1
                self.ready_bytes += entry.message.size
            else:
                self._count_ready(entry)
        self.held_count -= len(entries)
        self.order.restore(entries)
        self.mark()

    def take_due(self, entries: list[QueueEntry]) -> list[QueueEntry]:
        if self.paging is not None and self.paging.has_stored:
            entries = self.paging.whole(entries)
            self.mark()  # the end of a dispatch forgets what was read
        for entry in entries:
            entry.state = SETTLED
        self.held_count -= len(entries)
        self._count_dropped(len(entries))
        return entries

    def _count_dropped(self, count: int) -> None:
        """So many entries have left without having been accepted."""
        self.settled_count += count
        self.tally.dropped += count

    # -------------------------------------------------------------------------- out

    def acquire(self, count: int) -> list[QueueEntry]:
        """Take the next ``count`` entries of the ordering; fewer only if it is empty then.

        Messages that cannot be read leave the queue, and the next ones take their places.
        """
        order = self.order
        entries = order.take(count)
        if self.paging is not None and self.paging.has_stored:
            entries = self.paging.readable(entries)
            while len(entries) < count and len(order):
                more = order.take(count - len(entries))
                entries += self.paging.readable(more)
        if len(order) == 0 and not self.lane.parking.count:
            self.ready_bytes = 0
        else:
            self.ready_bytes -= sum([entry.message.size for entry in entries])
        for entry in entries:
            entry.state = ACQUIRED
        self.unacked_count += len(entries)
        self.delivered_count += len(entries)
        if self.returned_count:
            self._count_redelivered(entries)
        if self.ledger is not None and entries:
            self.ledger.on_acquired(entries)
        return entries

    def count_acquired(self, entries: list[QueueEntry]) -> None:
        self.ready_bytes -= sum([entry.message.size for entry in entries])
        self.unacked_count += len(entries)
        self.delivered_count += len(entries)
        if self.returned_count:
            self._count_redelivered(entries)
        if self.ledger is not None:
            self.ledger.on_acquired(entries)

    def _count_redelivered(self, entries: list[QueueEntry]) -> None:
        """Count those of these acquired entries that were delivered before."""
        count = sum([entry.delivery_count > 0 for entry in entries])
        self.tally.redelivered += count
        self.redelivering += count
        self.returned_count = max(0, self.returned_count - count) if self.ready_count else 0

    def count_readings(
        self, count: int, *, unacked_count: int, acked: QueueEntry | None = None
    ) -> None:
        self.unacked_count += unacked_count
        if count:
            self.delivered_count += count
            self.tally.count_readings(count, unacked_count)
        elif acked is None:
            self.tally.reading_back -= unacked_count

    def settle(self, entry: QueueEntry) -> None:
        entry.state = SETTLED
        self.unacked_count -= 1
        self.settled_count += 1
        if self._on_departed is not None:
            self._on_departed(entry)

    def settle_delivered(self, entries: list[QueueEntry]) -> None:
        count = len(entries)
        self.unacked_count -= count
        self.settled_count += count
        self.tally.automatic += count
        if (
            self._on_departed is not None or self.expiry is not None or self.browsers is not None
        ):  # these keep entries, and go by their state
            for entry in entries:
                entry.state = SETTLED
        if self._on_departed is not None:
            for entry in entries:
                self._on_departed(entry)

    def _settle_acquired(self, entries: list[QueueEntry]) -> None:
        """Acquired entries leave without having been accepted."""
        self._settle_taken(entries)
        self.unacked_count -= len(entries)

    def _settle_taken(self, entries: list[QueueEntry]) -> None:
        for entry in entries:
            entry.state = SETTLED
        self._count_dropped(len(entries))

    def _settle_waiting(self, entries: list[QueueEntry], *, are_in_place: bool = True) -> None:
        """Entries leave without having been accepted; ``are_in_place`` as in ``on_lost``."""
        for entry in entries:
            state = entry.state
            assert state != SETTLED, entry
            entry.state = SETTLED
            if state == HELD:
                self.held_count -= 1
                continue
            if state == ACQUIRED:
                self.unacked_count -= 1
                continue
            self.ready_bytes -= entry.message.size
            if are_in_place and state == PARKED:
                self.lane.parking.on_dropped()
            elif are_in_place:
                self.order.discard(entry)
        self._count_dropped(len(entries))

    def settle_in_place(self, entries: list[QueueEntry]) -> None:
        """Settle ready or held entries where they stand, as if a consumer had accepted them.

        For operators: nothing is dead-lettered, and no delivery is counted.
        """
        self._settle_waiting(entries)
        if self._on_departed is not None:
            for entry in entries:
                self._on_departed(entry)

    def on_lost(self, entries: list[QueueEntry], *, are_in_place: bool) -> None:
        self._settle_waiting(entries, are_in_place=are_in_place)
        if self._on_left is not None:
            for entry in entries:
                self._on_left(entry)

    def on_pages_left(self, count: int, size_bytes: int, stored_bytes: int, *, reason: str) -> None:
        self._count_dropped(count)
        self.ready_bytes -= min(size_bytes, self.ready_bytes)
        if self.overflow is not None:
            self.overflow.on_pages_dropped(stored_bytes)

    # ------------------------------------------------------------------------- back

    def restore(self, entries: list[QueueEntry]) -> None:
        self.delivered_count -= len(entries)
        if self.tally.redelivered:
            count = sum([entry.delivery_count > 0 for entry in entries])
            self.tally.redelivered -= count
            self.redelivering = max(0, self.redelivering - count)
            self.returned_count += count
        self._put_back(entries)

    def _count_released(self, entries: list[QueueEntry]) -> None:
        self.released_count += len(entries)
        self.returned_count += len(entries)

    def _put_back(self, entries: list[QueueEntry]) -> None:
        for entry in entries:
            assert entry.state == ACQUIRED, entry
            entry.state = READY
            entry.consumer = None
            self.ready_bytes += entry.message.size
        self.unacked_count -= len(entries)
        if self.lane.wants_departures:
            for entry in entries:
                self.lane.on_departed(entry)
        self.order.restore(entries)
        self.mark()

    # -------------------------------------------------------------------------- all

    def _drop_pages(self) -> int:
        """Settle what stands in pages, without reading it; returns how many entries they were."""
        dropped = 0 if self.paging is None else self.paging.drop_pages()
        self._count_dropped(dropped)
        return dropped

    def _take_all(self) -> list[QueueEntry]:
        """Settle all ready and held entries, and return them: in order, unless they are sorted."""
        entries = self.order.take_unsorted()
        entries += self.lane.take(self.ready_count)
        if self.hold is not None:
            entries += self.hold.take_all()
        self._settle_taken(entries)
        self.held_count = 0
        self.ready_bytes = 0
        if self._on_departed is not None:
            for entry in entries:
                self._on_departed(entry)
        return entries

    def _count_emptied(self) -> None:
        """Count messages that leave the queue bit by bit, or stand in no ordering any more."""
        self.held_count = self.ready_bytes = 0

    # ----------------------------------------------------------------- of an earlier life

    def count_revived(
        self, last_offset: int, ready_bytes: int = 0, *, returned_count: int = 0
    ) -> None:
        """Count entries of an earlier life, the last with this offset; octets of those in pages.

        ``returned_count``: how many of them were delivered before.
        """
        self.tally.first_offset = self.next_offset = max(self.next_offset, last_offset + 1)
        self.ready_bytes += ready_bytes
        self.returned_count += returned_count
