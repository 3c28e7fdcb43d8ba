"""The selective lane: not every consumer may have every entry.

A queue takes it while it has message groups, or a consumer with a selector or a start in time.
Each entry that comes up in the ordering is looked at once: which selectors are true of it, and
whose its group is. It is handed to a consumer that may have it and has credit, or it is parked
(``parking``) and waits until one regains credit or the group is free. So nothing is scanned twice
and nothing blocks what is behind it, at any depth.

One ``run`` plans hand-overs entry by entry and carries them out in batches, one call for each
consumer. Consumers with credit are *ready*; those that may have parked entries to come (their
credit has just come back, a group was freed) are *to revisit* these, before the others, unless the
ordering has something better.                                                              [hot]

Invariant: a ready consumer that is not to revisit has no parked entry that it may have.
"""

from __future__ import annotations

from time import perf_counter
from typing import TYPE_CHECKING, Any, Final

from hareline.broker.queues.dispatch.classes import EVERYTHING, MessageClasses
from hareline.broker.queues.dispatch.consumer import Consumer, Ring
from hareline.broker.queues.dispatch.credit import UNLIMITED
from hareline.broker.queues.dispatch.groups import GETTER, LEAVER, Group, Groups
from hareline.broker.queues.dispatch.parking import Head, Parking
from hareline.broker.queues.dispatch.plain import (
    BATCH_BYTES,
    BATCH_ENTRIES,
    ENTRIES_PER_TURN,
    Dispatcher,
)
from hareline.broker.queues.dispatch.ready_consumers import FEW_RINGS, ReadyConsumers
from hareline.broker.queues.entry import ACQUIRED, PARKED, READY, QueueEntry, RankedEntry
from hareline.broker.queues.orders.order import EntryOrder
from hareline.broker.selectors.selector import Selector

if TYPE_CHECKING:
    from hareline.broker.queues.queue import Queue
    from hareline.message import Message, Publisher

# Entries looked at in one turn, delivered or parked, and the time that this may take: a look may be
# some microseconds or, with thousands of selectors, some milliseconds.
LOOKS_PER_TURN: Final = 4096
TURN_SHARE_S: Final = 0.005
# From the ordering; what finds nobody with credit goes back, which a prefetch of 1 does each time.
TAKEN_AT_ONCE: Final = 64
TAKEN_AT_FIRST: Final = 2
# Between two looks at the clock: selectors that are held against messages; and of messages with
# more octets of properties one, as decoding these takes long.
MATCHES_AT_ONCE: Final = 4096
FEW_PROPERTY_OCTETS: Final = 2048


class SelectiveDispatcher(Dispatcher):
    """``groups`` is None in a queue without message groups, ``get_selector`` where basic.get may
    have everything."""

    __slots__ = (
        "_batched_bytes",
        "_batches",
        "_classes",
        "_get_bit",
        "_groups",
        "_has_returned",
        "_is_shared",
        "_order_rank",
        "_parking",
        "_ports",
        "_ready",
        "_room",
        "is_to_look_again",
        "wants_departures",
    )

    def __init__(
        self,
        queue: Queue,
        order: EntryOrder,
        groups: Groups | None = None,
        get_selector: Selector | None = None,
    ) -> None:
        super().__init__(queue, order)
        self._groups = groups
        self._is_shared = groups is not None and groups.is_shared
        self.wants_departures = groups is not None
        self.is_to_look_again = False
        self._parking = Parking(order.worth)
        self._order_rank = order.rank
        self._classes = MessageClasses(None if groups is None else groups.keys)
        self._ready = ReadyConsumers()
        # what a run has planned and not handed over yet
        self._batches: dict[Consumer, list[QueueEntry]] = {}
        self._ports: dict[object, Consumer] = {}
        self._batched_bytes = 0
        self._room = UNLIMITED  # of content, that all consumers in the batches have
        self._has_returned = False  # a hand-over left entries that come before all to be planned
        self._get_bit = EVERYTHING
        if get_selector is not None:
            self._get_bit = self._bit_of(get_selector)

    @property
    def is_needed(self) -> bool:
        """False when the plain lane would do the same."""
        return self._groups is not None or self._classes.has_users

    # ------------------------------------------------------------------- consumers

    def add(self, consumer: Consumer) -> None:
        consumer.class_bit = self._class_bit(consumer)
        super().add(consumer)

    def adopt(self, consumers: dict[Consumer, None], ready: list[Consumer]) -> None:
        for consumer in consumers:
            consumer.class_bit = self._class_bit(consumer)
        super().adopt(consumers, ready)

    def _class_bit(self, consumer: Consumer) -> int:
        return self._bit_of(consumer.selector, consumer.since_ms, consumer.no_local_of)

    def _bit_of(
        self, selector: Selector | None, since_ms: int = 0, no_local_of: Publisher | None = None
    ) -> int:
        """The bit of a selector class; for a new one everything is looked at anew."""
        bit = self._classes.use(selector, since_ms, no_local_of)
        if bit is None:
            self.is_to_look_again = self.is_to_look_again or self.parked_count > 0
            self._unpark_all()
            bit = self._classes.add(selector, since_ms, no_local_of)
        return bit

    def selector_cost_with(self, consumer: Consumer) -> int:
        if consumer.is_browser:
            return 0
        added = self._classes.cost_of(consumer.selector, consumer.since_ms, consumer.no_local_of)
        return self._classes.cost + added if added else 0

    def _unpark_all(self) -> None:
        if not self.parked_count:
            return
        entries = self._parking.take_all()
        for entry in entries:
            entry.state = READY
        self.parked_count = 0
        self._order.restore(entries)

    def _withdraw(self, consumer: Consumer) -> None:
        self._retire(consumer)
        if self._groups is not None:
            for group in self._groups.owned_by(consumer):
                self._change_owner(group, LEAVER if group.outstanding else None)
            self._parking.forget_owner(consumer)
        self._classes.leave(consumer.class_bit)

    def _forget_priority(self, priority: int) -> None:
        self._ready.forget_level(priority)

    def activate(self, consumer: Consumer) -> None:
        if (
            consumer.is_active
            or consumer.is_cancelled
            or consumer.credit <= 0
            or not consumer.is_live
        ):
            return
        self._ready.add(consumer, is_to_revisit=self.parked_count > 0)

    def _retire(self, consumer: Consumer) -> None:
        """It is not ready for now; the next of its ring revisits in its place."""
        if consumer.is_active and self._ready.remove(consumer) and self.parked_count:
            self._ready.mark_revisit_by_ring(consumer)

    @property
    def has_active_consumers(self) -> bool:
        return bool(self._ready)

    def _has_nothing_for(self, consumer: Consumer) -> bool:
        return (
            super()._has_nothing_for(consumer)
            and self._parking.best(consumer.class_bit, consumer) is None
        )

    def hand_over_to(self, successor: Dispatcher) -> None:
        self._unpark_all()
        for consumer in self.consumers:
            consumer.leave_ring()
        self._ready.clear()
        super().hand_over_to(successor)

    # ---------------------------------------------------------------------- looking

    def _group(self, key: Any, sequence: int) -> Group | None:
        """The group of this key; a first message may find it a new owner, if it can."""
        if key is None or self._groups is None:
            return None
        group = self._groups.get(key)
        if sequence == 1 and group.owner is not None and not group.outstanding:
            self._change_owner(group, None)
        return group

    def _place(self, entry: QueueEntry) -> bool:
        """Plan the delivery of an entry that has left the ordering, or park it."""
        mask, key, sequence = self._classes.of(entry)
        group = self._group(key, sequence)
        consumer: Consumer | None = None
        if group is not None and group.owner is not None:
            consumer = self._owner(group, mask, entry)
        if consumer is None and (group is None or group.owner is None):  # now, if not before
            consumer = self._next_consumer(mask, entry)
        if self._has_returned:
            self._order.restore([entry])
            return False
        if consumer is None:
            self._park(entry, mask, group)
            return False
        if self.parked_count and self._ready.next_to_revisit() is not None:
            best = self._parking.best(consumer.class_bit, consumer)
            if best is not None and best[0] < self._order_rank(entry):
                self._order.restore([entry])
                is_planned = self._offer(consumer, best)
                self._has_returned = True
                return is_planned
        self._plan(consumer, entry, group, sequence)
        return True

    def has_taker(self, message: Message) -> bool:
        """A message of a group is for the group's owner alone."""
        groups = self._groups
        if groups is not None:
            key = groups.keys(message).key
            message.forget_properties()
            group = None if key is None else groups.by_key.get(key)
            owner = None if group is None else group.owner
            if owner is not None:
                if not isinstance(owner, Consumer) or len(self._order):
                    return False
                return owner.would_receive(message)
        if len(self._order):
            return False
        return self._ready.has_taker(self._classes.by_properties(message)[0], message)

    def _park(self, entry: QueueEntry, mask: int, group: Group | None) -> None:
        entry.state = PARKED
        self.parked_count += 1
        if self._queue.paging is not None:
            self._queue.paging.watch(entry)
        self._parking.park(self._order_rank(entry), entry, mask, group)

    def _next_consumer(self, mask: int, entry: QueueEntry) -> Consumer | None:
        """Of those who may have it the one of highest priority, and among these in turn."""
        for level in self._ready.levels:
            consumer = self._ready.next_for(mask, level)
            while consumer is not None and not self._can_take(consumer, entry):
                consumer = self._ready.next_for(mask, level)
            if consumer is not None:
                return consumer
        return None

    def _owner(self, group: Group, mask: int, entry: QueueEntry) -> Consumer | None:
        owner = group.owner
        if (
            isinstance(owner, Consumer)
            and owner.is_active
            and mask & owner.class_bit
            and self._can_take(owner, entry)
        ):
            return owner
        return None

    def _can_take(self, consumer: Consumer, entry: QueueEntry) -> bool:
        """Whether its limits and its output have room; if not it retires until they have.

        What is planned is sure to be taken: if a part came back, others would have got entries
        behind it. So all batches together stay within the room of each, which they may share.
        """
        for window in consumer.windows:
            if window.refuses(consumer, entry.message.size):
                self._retire(consumer)
                return False
        if self._batches:
            octets = self._batched_bytes + len(entry.message.content)
            if consumer in self._batches:
                if octets <= self._room:
                    return True
                self._hand_over_all()
            elif consumer.delivery_port in self._ports or octets > min(
                self._room, consumer.room_bytes
            ):
                self._hand_over_all()  # also what another one on this channel has got
        if consumer.suspend_if_full():
            self._retire(consumer)
            return False
        return True

    # --------------------------------------------------------------------- delivery

    def run(self) -> bool:
        """Deliver within one turn's share; True when only the share stopped it."""
        self.is_to_look_again = False
        budget = ENTRIES_PER_TURN
        looks = LOOKS_PER_TURN
        ends_at = perf_counter() + TURN_SHARE_S
        most_at_once = min(TAKEN_AT_ONCE, max(1, MATCHES_AT_ONCE // (1 + self._classes.cost)))
        at_once = min(TAKEN_AT_FIRST, most_at_once)
        order = self._order
        while True:
            self._has_returned = False
            consumer = self._ready.next_to_revisit()
            if consumer is not None:
                looks -= 1
                budget -= self._serve_revisit(consumer)
            elif len(order) and self.has_active_consumers:
                taken = self._queue.with_content(order.take(min(at_once, budget)))
                at_once = min(most_at_once, 4 * at_once)
                looks -= len(taken)
                if taken and taken[0].message.header_size > FEW_PROPERTY_OCTETS:
                    at_once = 1
                budget -= self._place_all(taken)
            elif self._batches:
                self._hand_over_all()  # which may free groups, or fill up an output
            else:
                return False
            if budget <= 0 or looks <= 0 or perf_counter() > ends_at:
                self._hand_over_all()
                return True

    def _place_all(self, entries: list[QueueEntry]) -> int:
        """Place them while a consumer is ready and none is to revisit; the rest goes back.

        What is written out here is ``_place`` for the usual case: the consumer is in the highest
        level and has had an entry in this batch already (benchmarks/micro, selective lane).
        """
        planned = 0
        groups = self._groups
        by_key: dict[Any, Group] = {} if groups is None else groups.by_key
        ready = self._ready
        is_conditional = self._classes.is_conditional
        class_of = self._classes.by_properties
        for index, entry in enumerate(entries):
            if self._has_returned:
                self._order.restore(entries[index:])
                break
            message = entry.message
            if message.header_size > FEW_PROPERTY_OCTETS and index:
                self._order.restore(entries[index:])
                break
            mask, key, sequence = class_of(message)
            group = None if key is None else by_key.get(key)
            ring: Ring | None = None
            consumer: Any = None  # or an owner that is none, and then has no batch
            if group is not None and group.owner is not None:
                consumer = group.owner
            elif ready.levels:
                level = ready.levels[0]
                rings = level.rings
                if len(rings) <= FEW_RINGS:
                    for candidates in rings.values():
                        if mask & candidates.bit and (
                            ring is None or candidates.first.served_at < consumer.served_at
                        ):
                            ring = candidates
                            consumer = candidates.first
                else:
                    consumer = ready.next_for(mask, level)
                    ring = None if consumer is None else consumer.ring
            batch = self._batches.get(consumer)
            if (
                batch is None
                or is_conditional
                or sequence
                or not consumer.is_active
                or not mask & consumer.class_bit
                or consumer.windows
                or self._batched_bytes + len(message.content) > self._room
                or (ring is not None and group is not None and group.runs)
            ):
                if not ready or ready.next_to_revisit() is not None:
                    self._order.restore(entries[index:])
                    break
                if (
                    consumer is None
                    and key is None
                    and len(ready.levels) < 2
                    and (not is_conditional)
                ):
                    self._park(entry, mask, None)
                else:
                    planned += self._place(entry)
                    if self._ready.next_to_revisit() is not None:
                        self._order.restore(entries[index + 1 :])
                        break
                continue
            entry.state = ACQUIRED
            if key is not None:
                assert groups is not None
                assert isinstance(entry, RankedEntry)
                if group is None:
                    group = groups.get(key)
                group.owner = consumer
                entry.group = group
                group.outstanding += 1
            batch.append(entry)
            planned += 1
            self._batched_bytes += len(message.content)
            consumer.credit -= 1
            if ring is not None:
                ready.served += 1
                consumer.served_at = ready.served
                ring.first = consumer.ring_next
            if consumer.credit <= 0:
                self._retire(consumer)
                if self._ready.next_to_revisit() is not None:
                    self._order.restore(entries[index + 1 :])
                    break
            if len(batch) >= BATCH_ENTRIES or self._batched_bytes >= BATCH_BYTES:
                self._hand_over_all()
        return planned

    def _serve_revisit(self, consumer: Consumer) -> int:
        """Offer it the best of what is parked for it, or what comes before that in the ordering."""
        best = self._parking.best(consumer.class_bit, consumer)
        if best is None:
            self._ready.unmark_revisit(consumer)
            return 0
        head = self._order.peek()
        if head is not None and self._order_rank(head) < best[0]:
            taken = self._queue.with_content(self._order.take(1))
            return self._place(taken[0]) if taken else 0
        return self._offer(consumer, best)

    def _offer(self, consumer: Consumer, best: Head) -> bool:
        """Plan what is parked for a consumer; False: its limits say no, or it is to be asked again.

        What nobody owned may be followed by more of the kind, which the next of its ring is to have
        a share in.
        """
        batches, run = self._batches, best[1]
        group = run.group
        head = run.head()
        assert head is not None, "it was the best"
        if not self._queue.with_content([head[1]], are_in_place=True):
            return False
        if not self._can_take(consumer, head[1]):
            return False
        if self._has_returned or (group is not None and self._batches is not batches):
            return False  # handed over meanwhile: there may be something better now
        is_free = group is None or group.owner is None
        entry = self._parking.take(run)
        self.parked_count -= 1
        sequence = 0 if group is None else self._classes.by_properties(entry.message)[2]
        self._plan(consumer, entry, group, sequence)
        if is_free:
            self._ready.mark_revisit_by_ring(consumer)
        if self._ready.is_to_revisit(consumer):  # to the end: the others have their turn
            self._ready.mark_revisit(consumer)
        return True

    def _plan(
        self, consumer: Consumer, entry: QueueEntry, group: Group | None, sequence: int
    ) -> None:
        """The entry is this consumer's; it is handed over with the rest of its batch."""
        size = entry.message.size
        for window in consumer.windows:
            window.use(consumer, size)
        self._acquire(entry, group, consumer)
        if sequence < 0 and group is not None:  # JMSXGroupSeq: the last of its group
            self._change_owner(group, None)
        batch = self._batches.get(consumer)
        if batch is None:
            batch = self._batches[consumer] = []
            self._ports[consumer.delivery_port] = consumer
            self._room = min(self._room, consumer.room_bytes)
        batch.append(entry)
        consumer.credit -= 1
        self._ready.served += 1
        consumer.served_at = self._ready.served
        if consumer.credit <= 0:
            self._retire(consumer)
        else:
            self._ready.rotate(consumer)
        self._batched_bytes += len(entry.message.content)
        if self._batched_bytes >= BATCH_BYTES or len(batch) >= BATCH_ENTRIES:
            self._hand_over_all()

    def _acquire(self, entry: QueueEntry, group: Group | None, owner: object) -> None:
        entry.state = ACQUIRED
        if group is not None:
            assert isinstance(entry, RankedEntry), entry
            entry.group = group
            group.outstanding += 1
            if group.owner is not owner:
                self._change_owner(group, owner)

    def _count(self, entries: list[QueueEntry]) -> None:
        """Acquired entries in the queue's books."""
        queue = self._queue
        queue.ready_bytes -= sum([entry.message.size for entry in entries])
        queue.unacked_count += len(entries)
        queue.delivered_count += len(entries)
        if queue.ledger is not None:
            queue.ledger.on_acquired(entries)

    def _hand_over_all(self) -> None:
        batches, self._batches = self._batches, {}
        self._ports.clear()
        self._batched_bytes = 0
        self._room = UNLIMITED
        for entries in batches.values():
            self._count(entries)
        for consumer, entries in batches.items():
            delivered = 0
            if not consumer.is_cancelled and not consumer.suspend_if_full():
                delivered = consumer.deliver(entries)
            elif consumer.is_active:
                self._retire(consumer)
            if delivered < len(entries):
                self._has_returned = True
                self._take_back(consumer, entries[delivered:])
            if not consumer.acknowledges:
                self._queue.settle_delivered(entries[:delivered])

    # ------------------------------------------------- entries, on the queue's behalf

    def on_departed(self, entry: QueueEntry) -> None:
        """It was settled or goes back to the ordering: its group may be free."""
        group = entry.group
        if group is None:
            return
        assert isinstance(entry, RankedEntry), entry
        entry.group = None
        group.outstanding -= 1
        if group.outstanding:
            return
        if self._is_shared or group.owner is GETTER or group.owner is LEAVER:
            if group.runs:
                self._change_owner(group, None)
            else:
                group.owner = None

    def _change_owner(self, group: Group, owner: object | None) -> None:
        group.owner = owner
        if group.runs and self._parking.on_owner_changed(group):
            if owner is None:
                self._mark_revisit_by_all()
            elif isinstance(owner, Consumer) and owner.is_active:
                self._ready.mark_revisit(owner)
            self._queue.mark()

    def _mark_revisit_by_all(self) -> None:
        if self.parked_count:
            self._ready.mark_revisit_by_all()

    def get(self) -> QueueEntry | None:
        """Acquire the next entry for basic.get: of no group, or of a group that nobody has."""
        while True:
            best = self._parking.best(self._get_bit, None)
            head = self._order.peek()
            if best is not None and (head is None or best[0] < self._order_rank(head)):
                parked = best[1].head()
                if parked and not self._queue.with_content([parked[1]], are_in_place=True):
                    continue
                entry = self._parking.take(best[1])
                self.parked_count -= 1
                return self._take_for_get(entry, best[1].group)
            if head is None:
                return None
            if not self._queue.with_content(self._order.take(1)):
                continue
            mask, key, sequence = self._classes.of(head)
            group = self._group(key, sequence)
            if mask & self._get_bit and (group is None or group.owner is None):
                return self._take_for_get(head, group)
            self._park(head, mask, group)
            if group is None or group.owner is None:
                self._mark_revisit_by_all()  # it was the ordering's until now
                self._queue.mark()

    def _take_for_get(self, entry: QueueEntry, group: Group | None) -> QueueEntry:
        self._acquire(entry, group, GETTER)
        self._count([entry])
        return entry

    def least(self) -> QueueEntry | None:
        least = self._order.least()
        if not self.parked_count:
            return least
        parked = self._parking.least()
        if least is None or parked is None:
            return least or parked
        return min(least, parked, key=self._order.worth)

    def on_parked_dropped(self) -> None:
        self.parked_count -= 1
        self._parking.on_dropped()

    def take_some(self, count: int) -> list[QueueEntry]:
        if self.parked_count:
            self._unpark_all()
        return super().take_some(count)

    def parked_entries(self) -> list[QueueEntry]:
        return self._parking.entries()

    def ready_entries(self) -> list[QueueEntry]:
        return sorted(super().ready_entries() + self._parking.entries(), key=self._order_rank)

    def take_all(self) -> list[QueueEntry]:
        self._unpark_all()
        return super().take_all()
