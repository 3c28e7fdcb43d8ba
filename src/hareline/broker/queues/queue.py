"""A queue: owns an ordering and a dispatcher, and keeps the books over both.

Called by the vhost (enqueue, accept), by the dispatcher (acquire, restore), and by the protocol
side (get, settle, reject, release, purge). It is not subclassed: what differs between queue types
is the ordering, and what a queue does besides is one small object for each thing, or None:

=================  ================================================================================
``expiry``         when entries expire; made for the first message that can
``hold``           entries that are not valid yet
``overflow``       limits, and what happens at them
``dead_letters``   where entries go that are dropped, expired, rejected or delivered too often
``last_values``    the ordering itself, where a new value takes the place of an older one
``ledger``         what the store keeps of this queue, if it is durable
``paging``         what of a deep queue leaves memory, where there is a disk for it
=================  ================================================================================

``enqueue`` is the lane of a queue that does nothing with new messages but to keep them; all others
are *guarded*, and publishers go by ``accept``.

Invariant: ``ready_count + held_count + unacked_count`` is the number of entries that are not
settled, and ``ready_bytes`` the octets of the ready ones' bodies.                           [hot]
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from hareline.broker.queues.dispatch.browsing import Browsers
from hareline.broker.queues.dispatch.consumer import Consumer
from hareline.broker.queues.dispatch.live_limit import LiveLimit
from hareline.broker.queues.dispatch.plain import BATCH_ENTRIES, Dispatcher
from hareline.broker.queues.dispatch.selective import SelectiveDispatcher
from hareline.broker.queues.entry import (
    ACQUIRED,
    HELD,
    PARKED,
    READY,
    RETURNS_MAX,
    SETTLED,
    UNCOUNTED,
    QueueEntry,
    RankedEntry,
)
from hareline.broker.queues.environment import QueueEnvironment
from hareline.broker.queues.kinds import (
    KEEPS_ALL,
    KEEPS_NONE,
    KEEPS_PERSISTENT,
    NO_DELIVERY_LIMIT,
    DeathReason,
)
from hareline.broker.queues.orders.fifo import FifoOrder
from hareline.broker.queues.orders.last_value_order import LastValueOrder
from hareline.broker.queues.orders.order import EntryOrder
from hareline.broker.queues.orders.priority import PriorityOrder
from hareline.broker.queues.policies.expiry import Expiry
from hareline.broker.queues.policies.hold import ready_at_ms
from hareline.broker.queues.ports import QueuePort
from hareline.errors import StoreError
from hareline.message import UNWRITTEN, Message
from hareline.storage.interface import QueueLedger
from hareline.turn import Dispatching, Turn

if TYPE_CHECKING:
    from array import array

    from hareline.broker.queues.dead_letters.dead_letters import DeadLetters
    from hareline.broker.queues.paging.window import Paging
    from hareline.broker.queues.policies.hold import Hold
    from hareline.broker.queues.policies.lease import Lease
    from hareline.broker.queues.policies.overflow import Overflow

RESTORED_PER_STEP: Final = 4_096  # entries of an earlier life, before some may leave memory


class Queue(QueuePort):
    """``owner``: whose the queue is exclusively (``broker.ownership``), None if it is everybody's.

    ``next_offset`` is also the number of messages ever enqueued. ``on_unused`` is called when the
    last consumer has left (the vhost deletes auto-delete queues then). ``delivery_limit``: how
    often an entry may come back, NO_DELIVERY_LIMIT = always; ``shows_delivery_count``: redelivered
    messages carry it in the header x-delivery-count. ``keeps``: which messages go to the store,
    KEEPS_NONE, KEEPS_PERSISTENT or KEEPS_ALL; the first while ``ledger`` is None. ``is_timeless``:
    no message expires here, whatever it says.
    ``is_delivering``: entries may be on their way from the ordering to consumers, so that the queue
    looks emptier than it is.
    """

    __slots__ = (
        "_add",
        "_admit",
        "_dispatcher",
        "_entry_class",
        "_exclusive_count",
        "_has_closing",
        "_is_marked",
        "_on_departed",
        "_on_left",
        "_order",
        "_put",
        "_turn",
        "arguments",
        "browsers",
        "dead_letters",
        "delivered_count",
        "delivery_limit",
        "environment",
        "expiry",
        "had_consumers",
        "held_count",
        "hold",
        "is_auto_delete",
        "is_deleted",
        "is_delivering",
        "is_durable",
        "is_timeless",
        "keeps",
        "last_values",
        "lease",
        "ledger",
        "name",
        "needs_admission",
        "next_offset",
        "on_unused",
        "overflow",
        "owner",
        "paging",
        "ready_bytes",
        "released_count",
        "settled_count",
        "shows_delivery_count",
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
        environment: QueueEnvironment | None = None,
    ) -> None:
        self.name = name
        self.is_durable = is_durable
        self.is_auto_delete = is_auto_delete
        self.owner = owner
        self.arguments: Mapping[str, object] = arguments or {}
        self.on_unused = on_unused
        self.environment = environment
        self._order = order
        self._put: Callable[[Any], None] = order.add
        self._add = self._put
        self._admit = self._add  # how a queue that is not guarded takes a new entry in
        self._entry_class = QueueEntry if isinstance(order, FifoOrder) else RankedEntry
        self._turn = turn
        self._dispatcher = Dispatcher(self, order)
        self.browsers: Browsers | None = None
        self._is_marked = False
        self.is_delivering = False
        self._has_closing = False  # consumers that close at the end
        self._exclusive_count = 0
        self.had_consumers = False
        self.is_deleted = False
        self.next_offset = 0
        self.ready_bytes = 0
        self.held_count = 0
        self.unacked_count = 0
        self.delivered_count = 0
        self.released_count = 0
        self.settled_count = 0
        self.expiry: Expiry | None = None
        self.hold: Hold | None = None
        self.lease: Lease | None = None
        self.overflow: Overflow | None = None
        self.dead_letters: DeadLetters | None = None
        self.ledger: QueueLedger | None = None
        self.keeps = KEEPS_NONE
        self.paging: Paging | None = None
        self.last_values: LastValueOrder | None = None
        if isinstance(order, LastValueOrder):
            self.keep_last_values(order)
        self.delivery_limit = NO_DELIVERY_LIMIT
        self.shows_delivery_count = False
        self.needs_admission = False
        self.is_timeless = False
        self._on_left: Callable[[QueueEntry], None] | None = None  # the policies and the lane
        self._on_departed: Callable[[QueueEntry], None] | None = None  # and the ledger
        self.renew_guard()

    def renew_guard(self) -> None:
        """To be called when one of the policies was set or taken away."""
        was_guarded = self.needs_admission
        self.needs_admission = (
            (self.expiry is not None and self.expiry.concerns_all)
            or self.hold is not None
            or self.overflow is not None
            or self._dispatcher.wants_new_entries
            or self.browsers is not None
        )
        self._on_left = None
        last_values, dispatcher = self.last_values, self._dispatcher
        if self.overflow is not None or (last_values is not None and dispatcher.wants_departures):
            self._on_left = self._left
        elif last_values is not None:
            self._on_left = last_values.forget
        elif dispatcher.wants_departures:
            self._on_left = dispatcher.on_departed
        if self.needs_admission or self._on_left is not None:
            self._entry_class = RankedEntry
        self._on_departed = self._on_left
        self._admit = self._add
        if self.ledger is not None:
            self._on_departed = self.ledger.settle if self._on_left is None else self._departed
            self._admit = self._admit_kept
        if self.needs_admission != was_guarded and self.environment is not None:
            self.environment.on_admission_changed()

    # ---------------------------------------------------------------- in

    def enqueue(self, message: Message) -> None:
        """The lane of queues that are not guarded, for messages without a time to live."""
        offset = self.next_offset
        self.next_offset = offset + 1
        self._admit(self._entry_class(self, message, offset))
        self.ready_bytes += message.size
        if not self._is_marked:
            self.mark()

    def _admit_kept(self, entry: QueueEntry) -> None:
        if entry.message.position or self.keeps == KEEPS_ALL:
            self._keep(entry)
        self._add(entry)

    def _keep(self, entry: QueueEntry) -> None:
        """A new entry that the store is to know, and its message with it."""
        assert self.ledger is not None
        if entry.message.position != UNWRITTEN:  # transient, or known to the store as another's
            entry.message = entry.message.unwritten()
        self.ledger.add(entry)

    def keep_in(self, ledger: QueueLedger, *, keeps: int = KEEPS_PERSISTENT) -> None:
        """What the queue has survives from now on; ``renew_guard`` is to follow."""
        self.ledger = ledger
        self.keeps = keeps

    def page_by(self, paging: Paging) -> None:
        """It says from now on what leaves memory; for a queue without entries."""
        self.paging = paging
        if paging.add is not None:
            self._put = paging.add
            if self.last_values is None:
                self._add = self._put

    def accept(self, message: Message) -> bool:
        """Take in a message with all that this queue does to new ones; False: it is refused.

        A message that is silently dropped at once (overflow "discard") was not refused.
        """
        overflow = self.overflow
        if overflow is not None:
            if overflow.refuses(message):
                return False
            if overflow.discards(message):
                return True
        offset = self.next_offset
        self.next_offset = offset + 1
        entry = RankedEntry(self, message, offset)
        if self.ledger is not None and (message.position or self.keeps == KEEPS_ALL):
            self._keep(entry)
        self._take_in(entry, self.environment.clock.now_ms if self.environment is not None else 0)
        return True

    def _take_in(self, entry: RankedEntry, now_ms: int) -> None:
        """All that this queue does to an entry that came at ``now_ms``."""
        expiry = self.expiry
        if expiry is None and entry.message.expires_at_ms and not self.is_timeless:
            expiry = self._start_expiry()
        if expiry is not None:
            expiry.add(entry, now_ms)
        hold = self.hold
        if hold is not None and hold.takes(entry, now_ms):
            entry.state = HELD
            self.held_count += 1
            if self.paging is not None:
                self.paging.watch(entry)
        else:
            self._make_ready(entry)
        if self.overflow is not None:
            self.overflow.enforce(entry)

    def restore_entries(self, entries: Iterable[tuple[int, int, Message]]) -> None:
        """Entries of an earlier life: offset, delivery count and message, in offset order.

        Times to live, and times until which they are held, count from the message's arrival.
        """
        paging = self.paging
        for number, (offset, delivery_count, message) in enumerate(entries, 1):
            entry = self._entry_of_earlier_life(offset, delivery_count, message)
            self._take_in(entry, message.arrival_ms)
            if paging is not None and not number % RESTORED_PER_STEP:
                paging.on_restored()
        if paging is not None:
            paging.on_restored()

    def _entry_of_earlier_life(
        self, offset: int, delivery_count: int, message: Message
    ) -> RankedEntry:
        entry = RankedEntry(self, message, offset)
        entry.delivery_count = delivery_count
        if entry.returns and self.shows_delivery_count:
            entry.message = self._showing_count(message, entry.returns)
        self.next_offset = max(self.next_offset, offset + 1)
        return entry

    @property
    def takes_pages(self) -> bool:
        """Whether entries of an earlier life may come by ``restore_paged``."""
        return (
            self.paging is not None
            and type(self._order) in (FifoOrder, PriorityOrder)
            and self.has_entries_to_itself
            and self.hold is None
            and (self.overflow is None or not self.overflow.counts_unacked)
        )

    @property
    def has_levels(self) -> bool:
        """Whether it has priorities."""
        return isinstance(self._order, PriorityOrder)

    def restore_paged(
        self,
        offsets: array[int],
        positions: array[int],
        ready_bytes: int,
        delivery_counts: Mapping[int, int] | None = None,
        *,
        kept: Iterable[tuple[int, int, Message]] = (),
        level: int = 0,
    ) -> None:
        """Entries of an earlier life whose contents stay on disk, behind all of their level.

        ``offsets`` and ``positions`` are ``array("Q")`` of the same length, of entries that become
        numbers; ``ready_bytes``: the octets of their bodies; ``delivery_counts`` has those above 0.
        ``kept``: entries that stay objects, since they expire or show how often they came back, as
        ``restore_entries`` takes them. ``level``: of priority; 0 in queues without. Only if
        ``takes_pages``; ``end_restore`` is to follow when all are there.
        """
        assert self.takes_pages, self
        assert self.paging is not None
        if offsets:
            self.next_offset = max(self.next_offset, offsets[-1] + 1)
        objects = [self._kept_entry(*each) for each in kept]
        kept_bytes = sum([entry.message.size for entry in objects])
        self.ready_bytes += ready_bytes + kept_bytes
        self.paging.restore(
            offsets, positions, ready_bytes + kept_bytes, delivery_counts or {}, objects, level
        )

    def _kept_entry(self, offset: int, delivery_count: int, message: Message) -> QueueEntry:
        """An entry that takes its place in a page; its time to live counts from its arrival."""
        assert self.paging is not None
        entry = self._entry_of_earlier_life(offset, delivery_count, message)
        if self.expiry is None and message.expires_at_ms and not self.is_timeless:
            self._start_expiry()
        if self.expiry is not None:
            self.expiry.add(entry, message.arrival_ms)
        self._order.rank(entry)  # an ordering that reads it from the message remembers it
        self.paging.leave_content(entry)
        return entry

    def end_restore(self) -> None:
        """All entries of an earlier life are there; limits apply to them."""
        if self.paging is not None:
            self.paging.on_restored()
        if self.overflow is not None:
            self.overflow.enforce(None)
        self.mark()

    def _showing_count(self, message: Message, delivery_count: int) -> Message:
        try:
            shown = message.with_header("x-delivery-count", delivery_count)
        except StoreError:
            return message  # it is on disk and not to be read: that is found when it is its turn
        shown.position = message.position  # the same one to the store
        return shown

    def _make_ready(self, entry: QueueEntry) -> None:
        """A new entry takes its place."""
        self._add(entry)
        self.ready_bytes += entry.message.size
        self._dispatcher.on_ready(entry)
        if self.browsers is not None:
            self.browsers.on_ready(entry)
        self.mark()

    def keep_last_values(self, values: LastValueOrder) -> None:
        """A new entry takes the place of an older one with its key; ``values`` keeps the books."""
        self.last_values = values
        self._add = self._add_value

    def _add_value(self, entry: RankedEntry) -> None:
        """The replaced one leaves only now: a dead letter of it may come to this very queue."""
        assert self.last_values is not None
        replaced = self.last_values.replaced_by(entry)
        self._put(entry)
        if replaced is not None:
            self.drop([replaced], "replaced")

    def make_held_ready(self, entries: list[QueueEntry]) -> None:
        """Their time has come (``hold`` calls this): each takes its own place.

        Of a last value they become the newest in this order.
        """
        if self.last_values is not None:
            for entry in entries:
                replaced = self.last_values.replaced_by(entry)
                if replaced is not None:
                    self.drop([replaced], "replaced")
            entries = [entry for entry in entries if entry.state == HELD]
        for entry in entries:
            entry.state = READY
            self.ready_bytes += entry.message.size
            self._dispatcher.on_ready(entry)
            if self.browsers is not None:
                self.browsers.on_ready(entry)
        self.held_count -= len(entries)
        self._order.restore(entries)
        self.mark()
        if self.overflow is not None:
            self.overflow.enforce(None)

    def take_due(self, entries: list[QueueEntry]) -> list[QueueEntry]:
        """Held entries whose time has come leave, to be sent on (``delay`` calls this).

        Returns those whose messages can be read. The ledger is still to be told of each, in this
        very callback of the loop.
        """
        if self.paging is not None and self.paging.has_stored:
            entries = self.paging.whole(entries)
            self.mark()  # the end of a dispatch forgets what was read
        for entry in entries:
            entry.state = SETTLED
        self.held_count -= len(entries)
        self.settled_count += len(entries)
        return entries

    def _start_expiry(self) -> Expiry:
        assert self.environment is not None, "a queue without an environment has no time"
        self.expiry = Expiry(self, self.environment)
        return self.expiry

    def mark(self) -> None:
        """Ask for a dispatch at the end of this turn."""
        if not self._is_marked:
            self._is_marked = True
            self._turn.mark_queue(self)

    @property
    def is_marked(self) -> bool:
        """Whether a dispatch is still to come."""
        return self._is_marked

    def put(self, message: Message) -> bool:
        """Take in a message with all that this queue does to new ones; False: refused."""
        if self.needs_admission or message.expires_at_ms:
            return self.accept(message)
        self.enqueue(message)
        return True

    def call_at_end_of_turn(self, part: Dispatching) -> None:
        """Have a part of this queue called once, like the queue itself when it is marked."""
        self._turn.mark_queue(part)

    def dispatch(self) -> bool:
        """The turn's call; True when entries and willing consumers are left."""
        if self.is_deleted:  # it was marked before
            return False
        is_unfinished = False
        try:
            is_unfinished = self._deliver()
        finally:
            # only now, so that what is put back on the way does not ask for one more dispatch
            self._is_marked = is_unfinished
        if not is_unfinished and self.expiry is not None and self.expiry.drop_expiring():
            self.mark()
        if self.overflow is not None:
            self.overflow.on_delivered()
        if self.paging is not None:
            self.paging.step()
        if self._has_closing:
            self._let_go()
        return is_unfinished and not self.is_deleted

    def _let_go(self) -> None:
        """Consumers that asked for it and have come to the end; the last may take the queue along.

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
        finished = self._dispatcher.finished()
        return finished if self.browsers is None else finished + self.browsers.finished()

    def deliver_due(self) -> None:
        """Deliver now what the end of the turn would deliver.

        Called before something that looks at the ready entries or takes them: whatever a client
        sends in one breath, what was published before its get, purge, cancel or delete is the
        consumers' (RabbitMQ's order; without it a delete could take their last messages along).
        """
        if self._is_marked:
            self._deliver()
        if self.expiry is not None and self.expiry.drop_expiring():
            self.mark()

    def _deliver(self) -> bool:
        """What expired in an earlier turn goes first; what expires in this one may still go out."""
        if self.expiry is not None and self.expiry.drop_expired():
            return True
        was_delivering, self.is_delivering = self.is_delivering, True
        try:
            return self._run()
        finally:
            self.is_delivering = was_delivering

    def _run(self) -> bool:
        if self.browsers is None:
            return self._dispatcher.run()
        is_unfinished = self.browsers.run()  # before anybody takes what they have not seen
        return self._dispatcher.run() or is_unfinished

    # --------------------------------------------------------------- out

    def get(self) -> QueueEntry | None:
        """Acquire the next entry for basic.get."""
        if self.lease is not None:
            self.lease.touch()
        self.deliver_due()
        if self.expiry is not None:
            while self.expiry.drop_expired():
                continue  # the next entry must not be one whose end a later turn would see to
        entry = self._dispatcher.get()
        if self.overflow is not None:
            self.overflow.on_delivered()
        return entry

    def acquire(self, count: int) -> list[QueueEntry]:
        """Take the next ``count`` entries of the ordering; fewer only if it is empty then.

        Messages that cannot be read leave the queue, and the next ones take their places.
        """
        entries = self._order.take(count)
        if self.paging is not None and self.paging.has_stored:
            entries = self.paging.readable(entries)
            while len(entries) < count and len(self._order):
                more = self._order.take(count - len(entries))
                entries += self.paging.readable(more)
        if len(self._order) == 0 and not self._dispatcher.parked_count:
            self.ready_bytes = 0
        else:
            self.ready_bytes -= sum([entry.message.size for entry in entries])
        for entry in entries:
            entry.state = ACQUIRED
        self.unacked_count += len(entries)
        self.delivered_count += len(entries)
        if self.ledger is not None and entries:
            self.ledger.on_acquired(entries)
        return entries

    def settle(self, entry: QueueEntry) -> None:
        """The acquired entry leaves the queue for good."""
        entry.state = SETTLED
        self.unacked_count -= 1
        self.settled_count += 1
        if self._on_departed is not None:
            self._on_departed(entry)

    def settle_delivered(self, entries: list[QueueEntry]) -> None:
        """Entries handed to a consumer that does not acknowledge."""
        count = len(entries)
        self.unacked_count -= count
        self.settled_count += count
        if (
            self._on_departed is not None or self.expiry is not None or self.browsers is not None
        ):  # somebody keeps entries, and goes by their state
            for entry in entries:
                entry.state = SETTLED
        if self._on_departed is not None:
            for entry in entries:
                self._on_departed(entry)

    def reject(self, entries: list[QueueEntry]) -> None:
        """Delivered entries that the client does not want, and does not want back."""
        self._drop_acquired(entries, "rejected")

    def _drop_acquired(self, entries: list[QueueEntry], reason: DeathReason) -> None:
        """Acquired entries leave the queue, to where its dead letters go."""
        for entry in entries:
            entry.state = SETTLED
        self.unacked_count -= len(entries)
        self.settled_count += len(entries)
        if self.is_deleted and reason != "deleted":
            return
        self._finish_dropped(entries, reason)

    def _finish_dropped(self, entries: list[QueueEntry], reason: DeathReason) -> None:
        """Settled entries, that were not accepted, leave.

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

    def _departed(self, entry: QueueEntry) -> None:
        """An entry was settled, from whatever state."""
        assert self._on_left is not None
        assert self.ledger is not None
        self._on_left(entry)
        self.ledger.settle(entry)

    def _left(self, entry: QueueEntry) -> None:
        """As ``_departed``, for all but the store."""
        if self.last_values is not None:
            self.last_values.forget(entry)
        self._dispatcher.on_departed(entry)
        if self.overflow is not None:
            self.overflow.on_departed(entry)

    def drop(self, entries: list[QueueEntry], reason: DeathReason) -> None:
        """Ready or held entries leave the queue: expired, pushed out or replaced."""
        for entry in entries:
            state = entry.state
            assert state in (READY, PARKED, HELD), entry
            entry.state = SETTLED
            if state == HELD:
                self.held_count -= 1
                continue
            self.ready_bytes -= entry.message.size
            if state == READY:
                self._order.discard(entry)
            else:
                self._dispatcher.on_parked_dropped()
        self.settled_count += len(entries)
        self._finish_dropped(entries, reason)

    def release(self, entries: list[QueueEntry], *, is_counted: bool = True) -> None:
        """Delivered entries become available again, at their own places, as redelivered.

        ``is_counted``: as one return more, which the delivery limit may not allow. Those that came
        back too often, have expired, or are no longer the last value, leave. What comes back to a
        queue that is deleted goes where the rest of it has gone (Broker-J).
        """
        if self.is_deleted:
            self._drop_acquired(entries, "deleted")
            return
        for entry in entries:
            if not is_counted:
                entry.delivery_count |= UNCOUNTED
            elif entry.delivery_count & RETURNS_MAX < RETURNS_MAX:
                entry.delivery_count += 1
        self.released_count += len(entries)
        if self.delivery_limit >= 0 and is_counted:
            limit = min(self.delivery_limit, RETURNS_MAX - 1)
            entries = self._without(entries, "delivery_limit", lambda entry: entry.returns > limit)
        if self.expiry is not None:
            entries = self._without(entries, "expired", self.expiry.is_expired)
        if self.last_values is not None:
            entries = self._without(entries, "replaced", self.last_values.is_stale)
        if self.shows_delivery_count and is_counted:
            for entry in entries:
                before = entry.message
                entry.message = self._showing_count(before, entry.returns)
                if self.overflow is not None:
                    self.overflow.on_changed(before, entry.message)
        if self.ledger is not None:
            self.ledger.on_released(entries)
        self._put_back(entries)
        if self.overflow is not None:
            self.overflow.enforce(None)

    def note_redelivery(self, entries: list[QueueEntry]) -> None:
        """Acquired entries are about to be sent again to the consumer that has them.

        That is no return as the delivery limit counts them, and nothing the store has to know: what
        was delivered once is redelivered after a crash.
        """
        for entry in entries:
            entry.delivery_count |= UNCOUNTED

    def _without(
        self, entries: list[QueueEntry], reason: DeathReason, leaves: Callable[[QueueEntry], bool]
    ) -> list[QueueEntry]:
        leaving = [entry for entry in entries if leaves(entry)]
        if not leaving:
            return entries
        self._drop_acquired(leaving, reason)
        return [entry for entry in entries if entry.state != SETTLED]

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
        if self._dispatcher.wants_departures:
            for entry in entries:
                self._dispatcher.on_departed(entry)
        self._order.restore(entries)
        self.mark()

    def purge(self) -> int:
        """Drop all entries that nobody has; returns how many. Unacked ones are not touched."""
        dropped = self._drop_pages()
        return dropped + len(self.take_all())

    def _drop_pages(self) -> int:
        """Settle what stands in pages, without reading it; returns how many entries they were."""
        dropped = 0 if self.paging is None else self.paging.drop_pages()
        self.settled_count += dropped
        return dropped

    def take_all(self) -> list[QueueEntry]:
        """Settle all ready and held entries, and return them in order."""
        entries = self._dispatcher.take_all()
        if self.hold is not None:
            entries += self.hold.take_all()
        for entry in entries:
            entry.state = SETTLED
        self.held_count = 0
        self.ready_bytes = 0
        self.settled_count += len(entries)
        if self._on_departed is not None:
            for entry in entries:
                self._on_departed(entry)
        return entries

    # --------------------------------------------------------- consumers

    def use_dispatcher(self, dispatcher: Dispatcher) -> None:
        """Go on by another lane, with the consumers there are."""
        self._dispatcher.hand_over_to(dispatcher)
        self._dispatcher = dispatcher
        self.renew_guard()

    def limit_live_consumers(self, limit: int) -> None:
        """Only so many receive, the others wait for one of them to leave; 0 = all.

        For a queue that has no consumers yet.
        """
        self._dispatcher.live = LiveLimit(limit) if limit else None

    def add_consumer(self, consumer: Consumer) -> None:
        """What is due is delivered before, except where much would be looked at again for each of
        the consumers that come in one turn; then they share it."""
        if not self._dispatcher.is_to_look_again:
            self.deliver_due()
        self.had_consumers = True
        self._has_closing = self._has_closing or consumer.closes_at_end
        self._exclusive_count += consumer.is_exclusive
        if consumer.is_browser:
            if self.browsers is None:
                self.browsers = Browsers(self, self._order)
                self.renew_guard()
        elif consumer.is_selective and type(self._dispatcher) is Dispatcher:
            self.use_dispatcher(SelectiveDispatcher(self, self._order))
        self._lane_of(consumer).add(consumer)
        self.mark()

    def selector_cost_with(self, consumer: Consumer) -> int:
        """What a message would cost in selectors if this consumer came too; 0 if it adds nothing.

        Readers are not counted: each looks at messages in its own time.
        """
        return 0 if consumer.is_browser else self._dispatcher.selector_cost_with(consumer)

    def _lane_of(self, consumer: Consumer) -> Dispatcher:
        if consumer.is_browser and self.browsers is not None:
            return self.browsers
        return self._dispatcher

    def remove_consumer(self, consumer: Consumer) -> None:
        """The consumer gets nothing more; what it has unacked stays with its channel."""
        if consumer.is_cancelled:
            return
        consumer.is_cancelled = True
        self._exclusive_count -= consumer.is_exclusive
        dispatcher = self._lane_of(consumer)
        dispatcher.remove(consumer)
        if dispatcher is self.browsers and not dispatcher.consumers:
            dispatcher.detach()
            self.browsers = None
            self.renew_guard()
        if isinstance(dispatcher, SelectiveDispatcher) and not dispatcher.is_needed:
            self.use_dispatcher(Dispatcher(self, self._order))
        if self.lease is not None:
            self.lease.touch()
        if self.on_unused is not None and not self.consumer_count:
            self.on_unused(self)

    def activate(self, consumer: Consumer) -> None:
        """The consumer may have become able to receive: credit came back, or its socket drained."""
        self._lane_of(consumer).activate(consumer)
        if not self._is_marked and (
            self.ready_count or (consumer.closes_at_end and not consumer.is_cancelled)
        ):
            self.mark()

    def on_deleted(self) -> list[Consumer]:
        """Empty the queue and let go of its consumers, who are returned to be told."""
        self.is_deleted = True
        ledger, self.ledger = self.ledger, None
        self.renew_guard()  # the store hears of no entry any more, but of the queue alone
        letters = self.dead_letters
        if letters is not None and letters.wants("deleted"):
            held = [] if self.hold is None else self.hold.take_all()
            self.held_count = self.ready_bytes = 0
            letters.publish_all(self._remains(held, ledger), "deleted")
        else:
            self._drop_pages()
            self.take_all()
            if ledger is not None:
                ledger.forget()
            if self.paging is not None:
                self.paging.stop()
        for part in (self.expiry, self.hold, self.lease, self.overflow):
            if part is not None:
                part.stop()
        self._on_departed = self._on_left = None  # they refer to this queue, nobody asks any more
        self._add = self._admit = self._put = self._order.add
        if self.last_values is not None:
            self.last_values.forget_all()
        consumers = self.consumers
        for consumer in consumers:
            consumer.is_cancelled = True
            self._lane_of(consumer).remove(consumer)
        self._dispatcher.detach()
        if self.browsers is not None:
            self.browsers.detach()
        return consumers

    def _remains(self, held: list[QueueEntry], ledger: QueueLedger | None) -> Iterator[QueueEntry]:
        """The entries of a deleted queue, taken as their dead letters are published, and read from
        disk where they are there; the store may forget them after the last."""
        dispatcher, paging = self._dispatcher, self.paging
        while entries := dispatcher.take_some(BATCH_ENTRIES):
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

    def _settle_taken(self, entries: list[QueueEntry]) -> None:
        for entry in entries:
            entry.state = SETTLED
        self.settled_count += len(entries)

    # ---------------------------------------------------- what is not in memory

    @property
    def has_entries_to_itself(self) -> bool:
        """Whether nobody else refers to the entries in the ordering that do not expire."""
        return (
            self.browsers is None
            and self.last_values is None
            and not self._dispatcher.wants_new_entries
        )

    @property
    def entry_class(self) -> type[QueueEntry]:
        """What its entries are."""
        return self._entry_class

    def count_acquired(self, entries: list[QueueEntry]) -> None:
        """Count entries that a lane itself took out of the ordering, or that were parked."""
        self.ready_bytes -= sum([entry.message.size for entry in entries])
        self.unacked_count += len(entries)
        self.delivered_count += len(entries)
        if self.ledger is not None:
            self.ledger.on_acquired(entries)

    def count_readings(self, count: int, *, unacked_count: int) -> None:
        """Count deliveries to readers, which take nothing; ``unacked_count`` of them to ack."""
        self.delivered_count += count
        self.unacked_count += unacked_count

    def count_reading_settled(self) -> None:
        """Count one reading less that is not acknowledged."""
        self.unacked_count -= 1

    def watch(self, entry: QueueEntry) -> None:
        """Let the content of an entry that stands in no ordering leave memory later."""
        if self.paging is not None:
            self.paging.watch(entry)

    @property
    def is_holding(self) -> bool:
        """True if entries may be held until they are valid."""
        return self.hold is not None

    @property
    def memory_window(self) -> tuple[int, int] | None:
        """Entries and octets that the overflow policy leaves in memory; None: no such limit."""
        return None if self.overflow is None else self.overflow.memory_window

    @property
    def counts_stored_bytes(self) -> bool:
        """True if limits count headers, and what is not settled (Broker-J)."""
        return self.overflow is not None and self.overflow.counts_unacked

    def on_pages_dropped(self, stored_bytes: int) -> None:
        """Entries that stood in pages were settled; ``stored_bytes`` as limits count them."""
        if self.overflow is not None:
            self.overflow.on_pages_dropped(stored_bytes)

    def unordered_entries(self) -> list[QueueEntry]:
        """Every parked or held entry, in no order, left where it is."""
        entries = self._dispatcher.parked_entries()
        return entries if self.hold is None else entries + self.hold.entries()

    def dead_letter_refused(self, message: Message) -> None:
        """Publish a message that a full queue refuses where its dead letters go, if anywhere."""
        if self.dead_letters is not None:
            self.dead_letters.publish_message(message, "maxlen")

    @property
    def has_stored_contents(self) -> bool:
        """Whether there may be entries whose content has to be read first."""
        return self.paging is not None and self.paging.has_stored

    def with_content(
        self, entries: list[QueueEntry], *, are_in_place: bool = False
    ) -> list[QueueEntry]:
        """These entries, whose contents are about to be read; without those that cannot be.

        ``are_in_place``: they stand in the ordering, or are parked.
        """
        if self.paging is None or not self.paging.has_stored:
            return entries
        return self.paging.readable(entries, are_in_place=are_in_place)

    def order_entries(self) -> list[QueueEntry]:
        """Every entry in the ordering, left where it is."""
        return list(self._order)

    def parked_entries(self) -> list[QueueEntry]:
        """Every parked entry, in no order, left where it is."""
        return self._dispatcher.parked_entries()

    def on_lost(self, entries: list[QueueEntry], *, are_in_place: bool) -> None:
        """Ready or held entries, whose messages cannot be read, leave; the store keeps what it has.

        ``are_in_place``: ready ones stand in the ordering, or are parked.
        """
        for entry in entries:
            state = entry.state
            entry.state = SETTLED
            if state == HELD:
                self.held_count -= 1
                continue
            self.ready_bytes -= entry.message.size
            if are_in_place and state == PARKED:
                self._dispatcher.on_parked_dropped()
            elif are_in_place:
                self._order.discard(entry)
        self.settled_count += len(entries)
        if self._on_left is not None:
            for entry in entries:
                self._on_left(entry)

    def on_lost_pages(self, count: int, size_bytes: int, stored_bytes: int) -> None:
        """Entries that stood in pages cannot be read; ``stored_bytes`` as limits count them."""
        self.settled_count += count
        self.ready_bytes -= min(size_bytes, self.ready_bytes)
        if self.overflow is not None:
            self.overflow.on_pages_dropped(stored_bytes)

    # ----------------------------------------------------------- reading

    def ready_entries(self) -> list[QueueEntry]:
        """Every ready entry, in order, left where it is."""
        return self._dispatcher.ready_entries()

    def may_deliver(self, entry: QueueEntry) -> bool:
        """Whether a dispatch now could hand this ready entry to anybody."""
        return self._dispatcher.may_deliver(entry)

    def has_taker(self, message: Message) -> bool:
        """Whether a consumer waits that would be given this message at once (immediate)."""
        self.deliver_due()
        if self.is_deleted:
            return False
        if self.hold is not None and ready_at_ms(message, message.arrival_ms) > message.arrival_ms:
            return False
        return self._dispatcher.has_taker(message)

    def least_ready(self) -> QueueEntry | None:
        """The ready entry that a full queue gives up first."""
        return self._dispatcher.least()

    @property
    def consumers(self) -> list[Consumer]:
        """Those that take, in the order in which they came, and then the browsers: a new list."""
        if self.browsers is None:
            return list(self._dispatcher.consumers)
        return [*self._dispatcher.consumers, *self.browsers.consumers]

    @property
    def consumer_count(self) -> int:
        count = len(self._dispatcher.consumers)
        return count if self.browsers is None else count + len(self.browsers.consumers)

    @property
    def ready_count(self) -> int:
        return len(self._order) + self._dispatcher.parked_count

    @property
    def is_exclusively_consumed(self) -> bool:
        return self._exclusive_count > 0

    def __repr__(self) -> str:
        return f"<Queue {self.name!r}, {self.ready_count} ready, {self.unacked_count} unacked>"
