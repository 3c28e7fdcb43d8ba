"""Placement of entries on consumers of the selective lane: plans hand-overs and carries them out.

Each entry that comes up in the ordering is looked at once: which selectors are true of it, and who
has its group. It is planned for a consumer that may have it and has credit, or it is parked and
waits until one regains credit or the group is free. So nothing is scanned twice and nothing blocks
what is behind it, at any depth.

One ``run`` plans entry by entry and hands over in batches, one call for each consumer. Consumers
with credit are *ready*; those that may have parked entries to come (their credit has just come
back, a group was freed) are *to revisit* these, before the others, unless the ordering has
something better. ``selective`` is the only caller.                                          [hot]

Invariant: a ready consumer that is not to revisit has no parked entry that it may have.
"""

from __future__ import annotations

from time import perf_counter
from typing import TYPE_CHECKING, Any, Final

from hareline.queues.core.consumer import Consumer, Ring
from hareline.queues.core.credit import UNLIMITED
from hareline.queues.core.entry import ACQUIRED, PARKED, QueueEntry, RankedEntry
from hareline.queues.core.groups import GETTER, Group, Groups
from hareline.queues.core.lane import BATCH_BYTES, BATCH_ENTRIES
from hareline.queues.core.ports import with_content
from hareline.queues.dispatch.ready_consumers import FEW_RINGS, ReadyConsumers

if TYPE_CHECKING:
    from hareline.queues.core.parking import Head, Parking
    from hareline.queues.core.ports import QueuePort
    from hareline.queues.dispatch.classes import MessageClasses
    from hareline.queues.orders.order import EntryOrder

# Entries looked at in one turn, delivered or parked, and the time that this may take: a look may be
# some microseconds or, with thousands of selectors, some milliseconds.
LOOKS_PER_TURN: Final = 4096
TURN_SHARE_S: Final = 0.005
# From the ordering; entries for which no consumer has credit go back, each time if prefetch is 1.
TAKEN_AT_ONCE: Final = 64
TAKEN_AT_FIRST: Final = 2
# Between two looks at the clock: selectors that are evaluated; and one message only if it has more
# octets of properties than this, as decoding these takes long.
MATCHES_AT_ONCE: Final = 4096
FEW_PROPERTY_OCTETS: Final = 2048


class Placing:
    """Brings together the entries and the ready consumers of one selective lane.

    ``groups`` is None in a queue without message groups.
    """

    __slots__ = (
        "_batched_bytes",
        "_batches",
        "_classes",
        "_first_key",
        "_groups",
        "_has_returned",
        "_order",
        "_order_rank",
        "_parking",
        "_ports",
        "_queue",
        "_ready",
        "_room",
    )

    def __init__(
        self,
        queue: QueuePort,
        order: EntryOrder,
        groups: Groups | None,
        classes: MessageClasses,
        parking: Parking,
        ready: ReadyConsumers,
    ) -> None:
        self._queue = queue
        self._order = order
        self._order_rank = order.rank
        self._groups = groups
        self._first_key = None if groups is None else groups.first_key
        self._classes = classes
        self._parking = parking
        self._ready = ready
        # what a run has planned and not handed over yet; each delivery port is in one batch only
        self._batches: dict[Consumer, list[QueueEntry]] = {}
        self._ports: dict[object, Consumer] = {}
        self._batched_bytes = 0
        self._room = UNLIMITED  # of content, that all consumers in the batches have
        self._has_returned = False  # a hand-over left entries that come before all to be planned

    def run(self, share: int) -> bool:
        """Deliver so many entries at most; True if only the shares of a turn stopped it."""
        budget = share
        looks = LOOKS_PER_TURN
        ends_at = perf_counter() + TURN_SHARE_S
        cost = self._classes.cost + self._ready.rule_cost
        most_at_once = min(TAKEN_AT_ONCE, max(1, MATCHES_AT_ONCE // (1 + cost)))
        at_once = min(TAKEN_AT_FIRST, most_at_once)
        order = self._order
        while True:
            self._has_returned = False
            consumer = self._ready.next_to_revisit()
            if consumer is not None:
                looks -= 1
                budget -= self._serve_revisit(consumer)
            elif len(order) and self._ready:
                taken = with_content(self._queue, order.take(min(at_once, budget)))
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

    def get(self, bit: int) -> QueueEntry | None:
        """Acquire the next entry for basic.get: of no group, or of a group without an owner.

        ``bit``: what basic.get may have, as a bit of the mask.
        """
        while True:
            best = self._parking.best(bit, None)
            head = self._order.peek()
            if best is not None and (head is None or best[0] < self._order_rank(head)):
                parked = best[1].head()
                if parked and not with_content(self._queue, [parked[1]], are_in_place=True):
                    continue
                entry = self._parking.take(best[1])
                return self._take_for_get(entry, best[1].group)
            if head is None:
                return None
            if not with_content(self._queue, self._order.take(1)):
                continue
            mask, key, sequence = self._classes.of(head)
            group = self._group(key, sequence)
            if mask & bit and (group is None or group.owner is None):
                return self._take_for_get(head, group)
            self._park(head, mask, group)
            if group is None or group.owner is None:
                self._mark_revisit_by_all()  # until now it stood in the ordering
                self._queue.mark()

    def _take_for_get(self, entry: QueueEntry, group: Group | None) -> QueueEntry:
        self._acquire(entry, group, GETTER)
        self._queue.count_acquired([entry])
        return entry

    def retire(self, consumer: Consumer) -> None:
        """A consumer is not ready for now; the next of its ring revisits in its place."""
        if consumer.is_active and self._ready.remove(consumer) and self._parking.count:
            self._ready.mark_revisit_by_ring(consumer)

    def change_owner(self, group: Group, owner: object | None) -> None:
        """Give a group to this owner, or free it (None); its parked entries are looked at again."""
        group.owner = owner
        if group.runs and self._parking.on_owner_changed(group):
            if owner is None:
                self._mark_revisit_by_all()
            elif isinstance(owner, Consumer) and owner.is_active:
                self._ready.mark_revisit(owner)
            self._queue.mark()

    def _mark_revisit_by_all(self) -> None:
        if self._parking.count:
            self._ready.mark_revisit_by_all()

    # --------------------------------------------------------- entries that come up

    def _place_all(self, entries: list[QueueEntry]) -> int:
        """Place entries while a consumer is ready and none is to revisit; the rest goes back.

        Returns how many were planned. ``_place`` is written out here for the usual case: the
        consumer is in the highest level and has a batch already (benchmarks/micro, selective).
        """
        planned = 0
        groups = self._groups
        by_key: dict[Any, Group] = {} if groups is None else groups.by_key
        ready = self._ready
        is_conditional = (
            self._classes.is_conditional or ready.rule is not None or self._first_key is not None
        )
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
            consumer: Any = None  # or an owner that is no consumer, and so has no batch
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
                    and not is_conditional
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
                self.retire(consumer)
                if self._ready.next_to_revisit() is not None:
                    self._order.restore(entries[index + 1 :])
                    break
            if len(batch) >= BATCH_ENTRIES or self._batched_bytes >= BATCH_BYTES:
                self._hand_over_all()
        return planned

    def _place(self, entry: QueueEntry) -> bool:
        """Plan the delivery of an entry that has left the ordering, or park it; True if planned."""
        mask, key, sequence = self._classes.of(entry)
        group = self._group(key, sequence)
        consumer: Consumer | None = None
        if group is not None and group.owner is not None:
            consumer = self._owner(group, mask, entry)
        if consumer is None and (group is None or group.owner is None):  # a hand-over may free it
            consumer = self._next_consumer(mask, entry)
        if self._has_returned:
            self._order.restore([entry])
            return False
        if consumer is None:
            self._park(entry, mask, group)
            return False
        if self._parking.count and self._ready.next_to_revisit() is not None:
            best = self._parking.best(consumer.class_bit, consumer)
            if best is not None and best[0] < self._order_rank(entry):
                self._order.restore([entry])
                is_planned = self._offer(consumer, best)
                self._has_returned = True
                return is_planned
        self._plan(consumer, entry, group, sequence)
        return True

    def _group(self, key: Any, sequence: int) -> Group | None:
        """The group of this key; a first message gives up the group's owner, if that can be."""
        if key is None or self._groups is None:
            return None
        group = self._groups.get(key)
        if sequence == 1 and group.owner is not None and not group.outstanding:
            self.change_owner(group, None)
        return group

    def _park(self, entry: QueueEntry, mask: int, group: Group | None) -> None:
        entry.state = PARKED
        self._parking.park(self._order_rank(entry), entry, mask, group)
        if self._queue.paging is not None:
            self._queue.paging.watch(entry)

    def _next_consumer(self, mask: int, entry: QueueEntry) -> Consumer | None:
        """The consumer of highest priority that may have the entry; of equal ones the next."""
        for level in self._ready.levels:
            consumer = self._ready.next_for(mask, level)
            while consumer is not None and not self._can_take(consumer, entry):
                consumer = self._ready.next_for(mask, level)
            if consumer is not None:
                return consumer
        return None

    def _owner(self, group: Group, mask: int, entry: QueueEntry) -> Consumer | None:
        """The owner of the group, if it can have the entry now."""
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
        """True if a consumer's limits and output have room; otherwise it retires until they have.

        What is planned is sure to be taken: if a part came back, other consumers would have got
        entries behind it. So all batches together stay within the room of each, which they may
        share.
        """
        for window in consumer.windows:
            if window.refuses(consumer, entry.message.size):
                self.retire(consumer)
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
                self._hand_over_all()  # also the batch of another one on this channel
        if consumer.suspend_if_full():
            self.retire(consumer)
            return False
        return True

    # ------------------------------------------------------ entries that were parked

    def _serve_revisit(self, consumer: Consumer) -> int:
        """Offer it the best entry parked for it, or one that comes before that in the ordering."""
        best = self._parking.best(consumer.class_bit, consumer)
        if best is None:
            self._ready.unmark_revisit(consumer)
            return 0
        head = self._order.peek()
        if head is not None and self._order_rank(head) < best[0]:
            taken = with_content(self._queue, self._order.take(1))
            return self._place(taken[0]) if taken else 0
        return self._offer(consumer, best)

    def _offer(self, consumer: Consumer, best: Head) -> bool:
        """Plan a parked entry for a consumer; False: its limits refuse, or it is to be asked again.

        An entry without an owner may be followed by more of its run, which the next consumer of the
        ring is to share in.
        """
        batches, run = self._batches, best[1]
        group = run.group
        head = run.head()
        assert head is not None, "it was the best"
        if not with_content(self._queue, [head[1]], are_in_place=True):
            return False
        if not self._can_take(consumer, head[1]):
            return False
        if self._has_returned or (group is not None and self._batches is not batches):
            return False  # a hand-over came in between: there may be something better now
        is_free = group is None or group.owner is None
        entry = self._parking.take(run)
        sequence = 0 if group is None else self._classes.by_properties(entry.message)[2]
        self._plan(consumer, entry, group, sequence)
        if is_free:
            self._ready.mark_revisit_by_ring(consumer)
        if self._ready.is_to_revisit(consumer):  # to the end: the others come first now
            self._ready.mark_revisit(consumer)
        return True

    # -------------------------------------------------------------------- hand-overs

    def _plan(
        self, consumer: Consumer, entry: QueueEntry, group: Group | None, sequence: int
    ) -> None:
        """Acquire the entry for this consumer; it is handed over with the rest of its batch."""
        size = entry.message.size
        for window in consumer.windows:
            window.use(consumer, size)
        self._acquire(entry, group, consumer)
        if sequence < 0 and group is not None:  # JMSXGroupSeq: the last of its group
            self.change_owner(group, None)
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
            self.retire(consumer)
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
                if self._first_key is not None and owner is not GETTER:
                    self._queue.set_header(entry, self._first_key, True)
                self.change_owner(group, owner)

    def _hand_over_all(self) -> None:
        """Hand over all batches, and put back what the consumers did not take."""
        batches, self._batches = self._batches, {}
        self._ports.clear()
        self._batched_bytes = 0
        self._room = UNLIMITED
        for entries in batches.values():
            self._queue.count_acquired(entries)
        for consumer, entries in batches.items():
            delivered = 0
            if not consumer.is_cancelled and not consumer.suspend_if_full():
                delivered = consumer.deliver(entries)
            elif consumer.is_active:
                self.retire(consumer)
            if delivered < len(entries):
                self._has_returned = True
                self._take_back(consumer, entries[delivered:])
            if not consumer.acknowledges:
                self._queue.settle_delivered(entries[:delivered])

    def _take_back(self, consumer: Consumer, entries: list[QueueEntry]) -> None:
        """Put back entries that were not delivered, as the consumer's output filled up."""
        for entry in entries:
            consumer.take_credit_back(entry.message.size)
        self._queue.restore(entries)
