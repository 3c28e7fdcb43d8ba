"""A queue: an ordering, a lane and its policies, as the protocol side and the virtual host see it.

``books`` keeps the counters and the states of entries, ``wiring`` makes of the parts what is called
for each entry. A queue that only keeps new messages takes them by ``enqueue``; one whose parts do
more with them *needs admission*, and publishers go by ``put``.                              [hot]
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING

from hareline.compiled import mypyc_attr
from hareline.errors import StoreError
from hareline.message import Message
from hareline.queues.books import QueueBooks
from hareline.queues.core.consumer import Consumer
from hareline.queues.core.entry import (
    DELIVERY_COUNT,
    HELD,
    RETURNS_MAX,
    SETTLED,
    UNCOUNTED,
    QueueEntry,
    RankedEntry,
)
from hareline.queues.core.environment import QueueEnvironment
from hareline.queues.core.kinds import (
    DISCARDED,
    DUPLICATE,
    KEEPS_ALL,
    NO_DELIVERY_LIMIT,
    REFUSED,
    RETURNED,
    TAKEN,
    DeathReason,
)
from hareline.queues.core.lane import BATCH_ENTRIES, CLOSED_LANE, Lane
from hareline.queues.dispatch.plain import PlainLane
from hareline.queues.dispatch.reading import ReadingLane
from hareline.queues.dispatch.selective import SelectiveLane
from hareline.queues.orders.last_values import LastValueOrder, LastValues
from hareline.queues.orders.order import EntryOrder
from hareline.queues.policies.expiry import Expiry
from hareline.queues.policies.hold import Hold, ready_at_ms
from hareline.queues.wiring import keep, wire, wire_deleted
from hareline.storage.interface import QueueLedger
from hareline.turn import Turn

if TYPE_CHECKING:
    from hareline.queues.dead_letters.dead_letters import DeadLetters
    from hareline.queues.orders.window import Paging
    from hareline.queues.policies.deduplication import Deduplication
    from hareline.queues.policies.dispatch_pace import DispatchPace
    from hareline.queues.policies.lease import Lease
    from hareline.queues.policies.overflow import Overflow
    from hareline.queues.policies.unused import Unused


@mypyc_attr(allow_interpreted_subclasses=True)
class Queue(QueueBooks):
    """A queue of any type: types differ in the ordering. Each part is one small object, or None:

    =================  ===========================================================================
    ``expiry``         when entries expire; made for the first message that can
    ``hold``           entries that are not valid yet, or wait for their retry
    ``deduplication``  ids of messages that are not taken again
    ``overflow``       limits, and what happens at them
    ``dead_letters``   targets of entries that are dropped, expired, rejected or returned too often
    ``last_values``    the older entry that a new value takes the place of
    ``ledger``         the store's record of this queue, if it is durable
    ``paging``         what of a deep queue leaves memory, where there is a disk for it
    ``lease``          when an unused queue goes
    ``unused``         rules for the time without consumers, where it is not deleted at once
    ``pace``           when deliveries start, and how many there are in a second
    =================  ===========================================================================

    ``is_timeless``: no message expires here, whatever it says. ``owner``: whose the queue is
    exclusively (``core.ownership``), None for all connections.

    ``on_unused`` is called when the last consumer has left (the virtual host deletes auto-delete
    queues then). ``delivery_limit``: how often an entry may come back, NO_DELIVERY_LIMIT = always.
    ``exclusive_count``: consumers that let no other one in. ``incarnation``: 16 hex digits that
    tell it from an earlier queue of this name; empty if no definition keeps it. ``declared_ms``:
    when it was declared or restored, in epoch milliseconds.
    """

    __slots__ = (
        "_has_closing",
        "_late_in",
        "archive",
        "arguments",
        "consumer_count",
        "dead_letters",
        "declared_ms",
        "delivery_limit",
        "environment",
        "exclusive_count",
        "incarnation",
        "is_auto_delete",
        "is_deleted",
        "is_delivering",
        "is_durable",
        "is_paused",
        "is_timeless",
        "lease",
        "name",
        "needs_admission",
        "on_unused",
        "owner",
        "pace",
        "shows_delivery_count",
        "turn",
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
        environment: QueueEnvironment | None = None,
    ) -> None:
        super().__init__(order, PlainLane(self, order))
        self.name = name
        self.turn = turn
        self.is_durable = is_durable
        self.incarnation = ""
        self.declared_ms = 0 if environment is None else environment.clock.now_ms
        self.is_auto_delete = is_auto_delete
        self.owner = owner
        self.arguments: Mapping[str, object] = arguments or {}
        self.on_unused = on_unused
        self.is_delivering = False
        self.is_deleted = False
        self.is_paused = False
        self._has_closing = False  # consumers that close at the end
        self._late_in = -1  # the last turn whose share it used up
        self.consumer_count = 0
        self.exclusive_count = 0
        self.lease: Lease | None = None
        self.pace: DispatchPace | None = None
        self.delivery_limit = NO_DELIVERY_LIMIT
        self.environment = environment
        self.archive = None
        self.dead_letters: DeadLetters | None = None
        if isinstance(order, LastValueOrder):
            self.last_values = order.values
        self.shows_delivery_count = False
        self.is_timeless = False
        self.needs_admission = False
        self._wire()

    # ------------------------------------------------------------------------ parts

    def install(
        self,
        *,
        lane: Lane | None = None,
        expiry: Expiry | None = None,
        hold: Hold | None = None,
        deduplication: Deduplication | None = None,
        overflow: Overflow | None = None,
        last_values: LastValues | None = None,
        paging: Paging | None = None,
        ledger: QueueLedger | None = None,
        keeps: int | None = None,
        unused: Unused | None = None,
    ) -> None:
        """Go on with these parts; what is None stays as it is.

        ``paging`` and ``last_values`` are for a queue without entries, and so is ``overflow`` if it
        counts what is not settled.
        """
        if lane is not None:
            self.lane.hand_over_to(lane)
            self.lane = lane
        # what holds nothing yet is false, so each is compared with None
        self.expiry = self.expiry if expiry is None else expiry
        self.hold = self.hold if hold is None else hold
        self.deduplication = self.deduplication if deduplication is None else deduplication
        self.overflow = self.overflow if overflow is None else overflow
        self.last_values = self.last_values if last_values is None else last_values
        self.paging = self.paging if paging is None else paging
        self.ledger = self.ledger if ledger is None else ledger
        self.keeps = self.keeps if keeps is None else keeps
        if unused is not None:
            self.unused = unused
            self.on_unused = unused.on_unused
        self._wire()

    def set_order(self, order: EntryOrder) -> None:
        """Go on with another ordering, which gets the ready entries, and a lane without groups.

        For a queue without pages and browsers. One with groups or last values, and one that only
        shows its entries, must be empty.
        """
        order.adopt(self.lane.take(self.ready_count))
        self.order = order
        self.entry_class = RankedEntry
        self.last_values = order.values if isinstance(order, LastValueOrder) else None
        if self.paging is not None:
            self.paging.set_order(order)
        self.lane.stop()
        is_selective = any(consumer.is_selective for consumer in self.lane.consumers)
        self.install(lane=SelectiveLane(self, order) if is_selective else PlainLane(self, order))
        self.mark()

    def remove_overflow(self) -> None:
        """Go on without limits; for a queue that has some."""
        assert self.overflow is not None, self
        self.overflow.stop()
        self.overflow = None
        self._wire()

    def remove_hold(self) -> None:
        """Take in all messages as ready from now on; for a queue that holds nothing now."""
        assert self.hold is not None, self
        assert not self.held_count, self
        self.hold.stop()
        self.hold = None
        self._wire()

    def remove_deduplication(self) -> None:
        """Forget all ids, and take every message from now on; for a queue that looks at ids."""
        assert self.deduplication is not None, self
        self.deduplication = None
        self._wire()

    def _wire(self) -> None:
        """Work out what is called for each entry; after each change of the parts."""
        needed_admission = self.needs_admission
        wires = wire(self)
        self._connect(wires)
        self.needs_admission = wires.needs_admission
        if wires.needs_admission != needed_admission and self.environment is not None:
            self.environment.on_admission_changed()

    # --------------------------------------------------------------------------- in

    def put(self, message: Message) -> int:
        """Take in a message with all that this queue does to new ones.

        Returns TAKEN, REFUSED, or DISCARDED where the overflow policy says so, or
        ``discards_all``, and DUPLICATE for an id that the queue knows.
        """
        if not self.needs_admission and (message.extras is None or not message.expires_at_ms):
            self.enqueue(message)
            return TAKEN
        if self.discards_all:
            return DISCARDED
        ids, key = self.deduplication, None
        if ids is not None:
            key = ids.id_of(message)
            if key is not None and ids.knows(key):
                ids.count_duplicate(message)
                return DUPLICATE
        overflow = self.overflow
        if overflow is not None:
            if overflow.refuses(message):
                return REFUSED
            if overflow.discards(message):
                return DISCARDED
        entry = self._new_entry(message)
        if self.ledger is not None and (message.position or self.keeps == KEEPS_ALL):
            keep(entry, self.ledger)
        if ids is not None and key is not None:
            ids.add(key, entry)
        self._take_in(entry, self.environment.clock.now_ms if self.environment is not None else 0)
        return TAKEN

    @property
    def discards_all(self) -> bool:
        """True while it takes no message, since it has no consumers (x-purge-on-no-consumers)."""
        return self.unused is not None and self.unused.purges and not self.consumer_count

    def _take_in(self, entry: RankedEntry, now_ms: int) -> None:
        """Do to an entry that came at ``now_ms`` all that this queue does to new ones."""
        self._set_expiry(entry, now_ms)
        hold = self.hold
        if hold is not None and hold.takes(entry, now_ms):
            self._hold_entry(entry)
        else:
            self._make_ready(entry)
        if self.overflow is not None:
            self.overflow.enforce(entry)

    def _set_expiry(self, entry: RankedEntry, now_ms: int) -> None:
        expiry = self.expiry
        extras = entry.message.extras
        if extras is not None and extras.expires_at_ms and expiry is None and not self.is_timeless:
            assert self.environment is not None, "a queue without an environment has no time"
            expiry = self.expiry = Expiry(self, self.environment)
        if expiry is not None:
            expiry.add(entry, now_ms)

    def revive(
        self, offset: int, delivery_count: int, message: Message, *, is_paged: bool = False
    ) -> RankedEntry:
        """Take in an entry of an earlier life; called in the order of offsets.

        Times to live, and times until which it is held, count from the message's arrival.
        ``is_paged``: it is to stand in a page, without its content, and is not added here.
        """
        entry = RankedEntry(self, message, offset)
        entry.delivery_count = delivery_count
        if entry.returns and self.shows_delivery_count:
            entry.message = _with_header(message, DELIVERY_COUNT, entry.returns)
        hold = self.hold
        waits = (
            entry.returns > 0
            and entry.delivery_count & UNCOUNTED == 0  # a crash alone is no reason to wait
            and hold is not None
            and hold.retry is not None
        )
        self.count_revived(offset, returned_count=delivery_count > 0 and not waits)
        if self.deduplication is not None:
            self.deduplication.revive(message, entry)
        if waits:
            self._wait_again(entry)
            return entry
        if not is_paged:
            self._take_in(entry, message.arrival_ms)
            return entry
        assert self.paging is not None
        self._set_expiry(entry, message.arrival_ms)
        self.order.rank(entry)  # an ordering that reads it from the message remembers it
        self.paging.leave_content(entry)
        return entry

    def _wait_again(self, entry: RankedEntry) -> None:
        """Have an entry of an earlier life, which had come back, wait for its retry."""
        self._set_expiry(entry, entry.message.arrival_ms)
        if self.last_values is not None:  # a newer value takes its place, also while it waits
            replaced = self.last_values.replaced_by(entry)
            if replaced is not None:
                self.drop([replaced], "replaced")
        self._hold_entry(entry)
        assert self.hold is not None, self
        self.hold.keep_returned([entry])
        if self.overflow is not None:
            self.overflow.enforce(entry)

    def make_held_ready(self, entries: list[QueueEntry]) -> None:
        """Held entries whose time has come take their own places.

        Of a last value they become the newest in this order.
        """
        if self.last_values is not None:
            for entry in entries:
                replaced = self.last_values.replaced_by(entry)
                if replaced is not None:
                    self.drop([replaced], "replaced")
            entries = [entry for entry in entries if entry.state == HELD]
        self._end_hold(entries)
        if self.overflow is not None:
            self.overflow.enforce(None)

    # --------------------------------------------------------------------- dispatch

    def mark(self) -> None:
        if not self.is_marked:
            self.is_marked = True
            self.turn.mark_queue(self)

    def dispatch(self) -> bool:
        """Deliver within a share of the turn; True if entries and consumers for them are left."""
        if self.is_deleted:  # it was marked before
            return False
        is_unfinished = False
        try:
            is_unfinished = self._deliver()
        finally:
            # only now, so that what is put back on the way does not ask for one more dispatch
            self.is_marked = is_unfinished
        if not is_unfinished and self.expiry is not None and self.expiry.drop_expiring():
            self.mark()
        if self.overflow is not None:
            self.overflow.on_delivered()
        if self.paging is not None:
            self.paging.step()
        if self._has_closing:
            self._remove_finished()
        return is_unfinished and not self.is_deleted

    def _remove_finished(self) -> None:
        """Remove consumers that close at the end and have come to it; that may delete the queue.

        Only at the end of a turn: ``deliver_due`` must leave its callers a queue.
        """
        while finished := self._finished():
            for consumer in finished:
                if not consumer.is_cancelled:
                    self.remove_consumer(consumer)
                    consumer.on_finished()
            if self.is_deleted:
                return
        self._has_closing = any(consumer.closes_at_end for consumer in self.consumers)

    def _finished(self) -> list[Consumer]:
        finished = [] if self._is_stopped else self.lane.finished()
        return finished if self.browsers is None else finished + self.browsers.finished()

    def deliver_due(self) -> None:
        """Deliver now what the end of the turn would deliver.

        Called before something that looks at the ready entries or takes them: of what a client
        sends in one piece, messages published before its get, purge, cancel or delete are the
        consumers' (RabbitMQ's order; without it a delete could take their last messages along).
        Once in a turn, if that takes more than a share: hundreds of clients may ask for it at once.
        """
        if self.is_marked and self._late_in != self.turn.number and self._deliver():
            self._late_in = self.turn.number
        if self.expiry is not None and self.expiry.drop_expiring():
            self.mark()

    def _deliver(self) -> bool:
        """Drop what expired in an earlier turn first; what expires in this one may still go out."""
        if self.expiry is not None and self.expiry.drop_expired():
            return True
        was_delivering, self.is_delivering = self.is_delivering, True
        try:
            # browsers before consumers take what they have not seen
            is_unfinished = self.browsers is not None and self.browsers.run()
            if self.is_paused:
                self.lane.keep_up()
                return is_unfinished
            is_late = self.lane.run() if self.pace is None else self.pace.run()
            return is_late or is_unfinished
        finally:
            self.is_delivering = was_delivering

    @property
    def _is_stopped(self) -> bool:
        """True while consumers get nothing."""
        return self.is_paused or (self.pace is not None and self.pace.is_awaited)

    def set_paused(self, paused: bool) -> None:
        """Stop deliveries and basic.get, or let them go on where they stopped.

        Publishing, settling and expiry go on. So do browsers, which take nothing; the readers of a
        stream stop.
        """
        self.is_paused = paused
        if not paused:
            self.mark()

    # -------------------------------------------------------------------------- out

    def get(self) -> QueueEntry | None:
        """Acquire the next entry for basic.get."""
        if self.lease is not None:
            self.lease.touch()
        self.deliver_due()
        if self.expiry is not None:
            while self.expiry.drop_expired():
                continue  # the next entry must not be one that a later turn would drop
        entry = None if self.is_paused else self.lane.get()
        if self.overflow is not None:
            self.overflow.on_delivered()
        return entry

    def reject(self, entries: list[QueueEntry]) -> None:
        self._drop_acquired(entries, "rejected")

    def _drop_acquired(self, entries: list[QueueEntry], reason: DeathReason) -> None:
        self._settle_acquired(entries)
        if not self.is_deleted or reason == "deleted":
            self._finish_dropped(entries, reason)

    def drop(self, entries: list[QueueEntry], reason: DeathReason) -> None:
        self._settle_waiting(entries)
        self._finish_dropped(entries, reason)

    def _finish_dropped(self, entries: list[QueueEntry], reason: DeathReason) -> None:
        """Tell the listeners of settled entries that were not accepted, and dead-letter them.

        The store hears of it when the dead letter of each is with the store: a crash in between
        would lose the message.
        """
        if self._on_left is not None:
            for entry in entries:
                self._on_left(entry)
        if self.dead_letters is not None:
            self.dead_letters.publish(entries, reason, self.ledger)
        elif self.ledger is not None:
            for entry in entries:
                self.ledger.settle(entry)

    def release(
        self, entries: list[QueueEntry], *, is_counted: bool = True, cause: int = RETURNED
    ) -> None:
        """Delivered entries become available again, at their own places, as redelivered.

        ``is_counted``: as one return more, which the delivery limit may not allow. Those that came
        back too often, have expired, or are no longer the last value, leave. With a delayed retry
        for this ``cause`` they are held first. What comes back to a queue that is deleted goes
        where the rest of it has gone (Broker-J).
        """
        if self.is_deleted:
            self._drop_acquired(entries, "deleted")
            return
        for entry in entries:
            if not is_counted:
                entry.delivery_count |= UNCOUNTED
            elif entry.delivery_count & RETURNS_MAX < RETURNS_MAX:
                entry.delivery_count += 1
        self._count_released(entries)
        if self.delivery_limit >= 0 and is_counted:
            limit = min(self.delivery_limit, RETURNS_MAX - 1)
            entries = self._without(entries, "delivery_limit", lambda entry: entry.returns > limit)
        if self.expiry is not None:
            entries = self._without(entries, "expired", self.expiry.is_expired)
        if self.last_values is not None:
            entries = self._without(entries, "replaced", self.last_values.is_stale)
        if self.shows_delivery_count and is_counted:
            for entry in entries:
                self.set_header(entry, DELIVERY_COUNT, entry.returns)
        if self.ledger is not None:
            self.ledger.on_released(entries)
        if self.hold is not None and self.hold.takes_returned(cause):
            self._hold_returned(entries)
            self.hold.keep_returned(entries)
        else:
            self._put_back(entries)
        if self.unused is not None and self.discards_all:
            self.purge()
        if self.overflow is not None:
            self.overflow.enforce(None)

    def set_header(self, entry: QueueEntry, name: str, number: int) -> None:
        before = entry.message
        entry.message = _with_header(before, name, number)
        if self.overflow is not None:
            self.overflow.on_changed(before, entry.message)

    def _without(
        self, entries: list[QueueEntry], reason: DeathReason, leaves: Callable[[QueueEntry], bool]
    ) -> list[QueueEntry]:
        leaving = [entry for entry in entries if leaves(entry)]
        if not leaving:
            return entries
        self._drop_acquired(leaving, reason)
        return [entry for entry in entries if entry.state != SETTLED]

    def purge(self) -> int:
        dropped = self._drop_pages()
        return dropped + len(self._take_all())

    # -------------------------------------------------------------------- consumers

    def has_taker(self, message: Message) -> bool:
        self.deliver_due()
        if self.is_deleted or self._is_stopped:
            return False
        hold = self.hold
        since_ms = message.arrival_ms
        if hold is not None and ready_at_ms(message, since_ms, hold.headers) > since_ms:
            return False
        return self.lane.has_taker(message)

    def add_consumer(self, consumer: Consumer) -> None:
        """Deliver what is due before, except where much would be looked at again for each of
        the consumers that come in one turn; then they share it."""
        if not self.lane.is_to_look_again:
            self.deliver_due()
        self._has_closing = self._has_closing or consumer.closes_at_end
        self.consumer_count += 1
        self.exclusive_count += consumer.is_exclusive
        if consumer.is_browser:
            if self.browsers is None:
                self.browsers = ReadingLane(self, self.order, is_browsing=True)
                self._wire()
        elif consumer.is_selective and isinstance(self.lane, PlainLane):
            self.install(lane=SelectiveLane(self, self.order))
        self._lane_of(consumer).add(consumer)
        if self.pace is not None:
            self.pace.look()
        self.mark()

    def _lane_of(self, consumer: Consumer) -> Lane:
        if consumer.is_browser and self.browsers is not None:
            return self.browsers
        return self.lane

    def remove_consumer(self, consumer: Consumer) -> None:
        if consumer.is_cancelled:
            return
        consumer.is_cancelled = True
        self.consumer_count -= 1
        self.exclusive_count -= consumer.is_exclusive
        lane = self._lane_of(consumer)
        lane.remove(consumer)
        if lane is self.browsers and not lane.consumers:
            self.browsers = None
            self._wire()
        if isinstance(lane, SelectiveLane) and not lane.is_needed:
            self.install(lane=PlainLane(self, self.order))
        if self.pace is not None:
            self.pace.look()
        if self.lease is not None:
            self.lease.touch()
        if self.on_unused is not None and not self.consumer_count:
            self.on_unused(self)

    def activate(self, consumer: Consumer) -> None:
        self._lane_of(consumer).activate(consumer)
        if not self.is_marked and (
            self.ready_count or (consumer.closes_at_end and not consumer.is_cancelled)
        ):
            self.mark()

    @property
    def consumers(self) -> list[Consumer]:
        """Those that take, in the order in which they came, and then the browsers: a new list."""
        if self.browsers is None:
            return list(self.lane.consumers)
        return [*self.lane.consumers, *self.browsers.consumers]

    # ----------------------------------------------------------------------- the end

    def delete(self) -> list[Consumer]:
        """Empty the queue and part with its consumers, who are returned to be notified."""
        self.is_deleted = True
        ledger, self.ledger = self.ledger, None
        self._wire()  # the store hears of the queue from now on, and of no entry
        letters = self.dead_letters
        if letters is not None and letters.wants("deleted"):
            held = [] if self.hold is None else self.hold.take_all()
            self._count_emptied()
            letters.publish_all(self._taken_bit_by_bit(self.lane, held, ledger), "deleted")
        else:
            self._drop_pages()
            self._take_all()
            if ledger is not None:
                ledger.forget()
            if self.paging is not None:
                self.paging.stop()
        for part in (self.expiry, self.hold, self.lease, self.overflow, self.unused, self.pace):
            if part is not None:
                part.stop()
        self._connect(wire_deleted(self.order, self.entry_class))
        if self.last_values is not None:
            self.last_values.forget_all()
        consumers = self.consumers
        for consumer in consumers:
            consumer.is_cancelled = True
            self._lane_of(consumer).remove(consumer)
        self.consumer_count = 0
        self.lane.stop()
        self.lane, self.browsers = CLOSED_LANE, None
        return consumers

    def _taken_bit_by_bit(
        self, lane: Lane, held: list[QueueEntry], ledger: QueueLedger | None
    ) -> Iterator[QueueEntry]:
        """The entries of a deleted queue, taken as their dead letters are published, and read from
        disk where they are there; the store may forget them after the last."""
        paging = self.paging
        while entries := lane.take(BATCH_ENTRIES):
            if paging is not None:
                entries = paging.readable(entries)
            self._settle_taken(entries)
            yield from entries
        self._settle_taken(held)
        yield from held
        if ledger is not None:
            ledger.forget()
        if paging is not None:
            paging.stop()
            self.paging = None

    def __repr__(self) -> str:
        return f"<Queue {self.name!r}, {self.ready_count} ready, {self.unacked_count} unacked>"


def _with_header(message: Message, name: str, number: int) -> Message:
    """The message with this header; as it is, if it cannot be read from disk."""
    try:
        shown = message.with_header(name, number)
    except StoreError:
        return message  # that is found and reported when it is its turn
    shown.position = message.position  # the same one to the store
    return shown
