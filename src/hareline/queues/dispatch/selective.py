"""The selective lane: not every consumer may have every entry.

A queue takes it while it has message groups, or a consumer with a selector or a start in time. This
module keeps the lane's consumers, each with the bit of its selector class, and answers the queue;
``placing`` decides which of them gets which entry, ``parking`` has the entries that none may have
now, ``classes`` reads off a message what it is for.                                         [hot]

Invariant: ``Consumer.is_active`` is True exactly for those that stand in ``ready_consumers``; a
consumer of this lane has a bit of ``classes`` as long as it is here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from hareline.queues.core.consumer import Consumer
from hareline.queues.core.entry import READY, QueueEntry, RankedEntry
from hareline.queues.core.groups import LEAVER, NEXT_OWNER, Group, Groups, Unplaced
from hareline.queues.core.lane import Lane
from hareline.queues.core.parking import Parking
from hareline.queues.dispatch.classes import EVERYTHING, MessageClasses
from hareline.queues.dispatch.placing import Placing
from hareline.queues.dispatch.ready_consumers import ReadyConsumers

if TYPE_CHECKING:
    from hareline.message import Message, Publisher
    from hareline.queues.core.consumer_book import ConsumerBook
    from hareline.queues.core.ports import QueuePort
    from hareline.queues.orders.order import EntryOrder
    from hareline.selectors.selector import Selector


# Groups that are freed for another consumer between two looks at the entries.
REBALANCED_AT_ONCE: Final = 4096


class SelectiveLane(Lane):
    """``groups`` is None in a queue without message groups, ``get_selector`` if basic.get may have
    every entry."""

    __slots__ = (
        "_classes",
        "_get_bit",
        "_groups",
        "_is_shared",
        "_order",
        "_placing",
        "_queue",
        "_ready",
        "_to_rebalance",
    )

    def __init__(
        self,
        queue: QueuePort,
        order: EntryOrder,
        groups: Groups | None = None,
        get_selector: Selector | None = None,
    ) -> None:
        super().__init__()
        self._queue = queue
        self._order = order
        self._groups = groups
        self._is_shared = groups is not None and groups.is_shared
        self._classes = MessageClasses(None if groups is None else groups.keys)
        self._ready = ReadyConsumers()
        self._to_rebalance: list[Group] = []
        self.parking = Parking(order.worth)
        self.wants_departures = groups is not None
        self._placing = Placing(queue, order, groups, self._classes, self.parking, self._ready)
        self._get_bit = EVERYTHING
        if get_selector is not None:
            self._get_bit = self._bit_of(get_selector)

    @property
    def is_needed(self) -> bool:
        """False if the plain lane would do the same."""
        return self._groups is not None or self._classes.has_users

    def run(self) -> bool:
        self.is_to_look_again = False
        self._ready.rule = self.consumers.rule
        if self._to_rebalance:
            self._rebalance()
        return self._placing.run(self.share) or bool(self._to_rebalance)

    def _rebalance(self) -> None:
        """Free some of the groups that another consumer may have part in."""
        assert self._groups is not None, "it has groups"
        for group in self._to_rebalance[-REBALANCED_AT_ONCE:]:
            if not isinstance(group.owner, Consumer):
                continue
            if not group.outstanding:
                self._placing.change_owner(group, None)
            elif self._groups.rebalance == "pause":
                self._placing.change_owner(group, NEXT_OWNER)
        del self._to_rebalance[-REBALANCED_AT_ONCE:]

    # ------------------------------------------------------------------- consumers

    def add(self, consumer: Consumer) -> None:
        consumer.class_bit = self._class_bit(consumer)
        displaced = self.consumers.add(consumer)
        if displaced is not None:
            self._retire(displaced)
            displaced.wait_for_outstanding()
            self.activate(displaced)
        if self._groups is not None and self._groups.rebalance != "off":
            self._to_rebalance = list(self._groups.by_key.values())
        self.activate(consumer)

    def _retire(self, consumer: Consumer) -> None:
        """Deliver nothing more to a consumer, and give its groups to others."""
        self._placing.retire(consumer)
        if self._groups is not None:
            for group in self._groups.owned_by(consumer):
                self._placing.change_owner(group, LEAVER if group.outstanding else None)
            self.parking.forget_owner(consumer)

    def remove(self, consumer: Consumer) -> None:
        successor = self.consumers.remove(consumer)
        self._retire(consumer)
        self._classes.leave(consumer.class_bit)
        if not self.consumers.has_priority(consumer.priority):
            self._ready.forget_level(consumer.priority)
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
        self._ready.add(consumer, is_to_revisit=self.parking.count > 0)

    def hand_over_to(self, successor: Lane) -> None:
        self._unpark_all()
        for consumer in self.consumers:
            consumer.leave_ring()
        self._ready.clear()
        successor.adopt(self.consumers, self.consumers.deactivate_all())

    def adopt(self, consumers: ConsumerBook, ready: list[Consumer]) -> None:
        for consumer in consumers:
            consumer.class_bit = self._class_bit(consumer)
        self.consumers = consumers
        for consumer in ready:
            self.activate(consumer)

    def _class_bit(self, consumer: Consumer) -> int:
        return self._bit_of(consumer.selector, consumer.since_ms, consumer.no_local_of)

    def _bit_of(
        self, selector: Selector | None, since_ms: int = 0, no_local_of: Publisher | None = None
    ) -> int:
        """The bit of a selector class; for a new one all entries are looked at again."""
        bit = self._classes.use(selector, since_ms, no_local_of)
        if bit is None:
            self.is_to_look_again = self.is_to_look_again or self.parking.count > 0
            self._unpark_all()
            bit = self._classes.add(selector, since_ms, no_local_of)
        return bit

    def selector_cost_with(self, consumer: Consumer) -> int:
        if consumer.is_browser:
            return 0
        added = self._classes.cost_of(consumer.selector, consumer.since_ms, consumer.no_local_of)
        return self._classes.cost + added if added else 0

    def finished(self) -> list[Consumer]:
        """One that waits for another to leave has its turn to come."""
        if len(self._order):
            return []
        return [
            one
            for one in self.consumers
            if one.closes_at_end and one.is_live and self.parking.best(one.class_bit, one) is None
        ]

    # ------------------------------------------------------------------ for operators

    def groups(self) -> list[Group]:
        """All message groups that are known, those without messages too; empty without groups."""
        return [] if self._groups is None else list(self._groups.by_key.values())

    def free_group(self, group: Group) -> bool:
        """Let the next message of a group go to any consumer; False if it has no owner.

        What its owner has unacked stays there.
        """
        if group.owner is None:
            return False
        self._placing.change_owner(group, None)
        self._queue.mark()
        return True

    # --------------------------------------------------------------------- entries

    def get(self) -> QueueEntry | None:
        return self._placing.get(self._get_bit)

    def take(self, count: int) -> list[QueueEntry]:
        self._unpark_all()
        return self._order.take(count)

    def _unpark_all(self) -> None:
        if not self.parking.count:
            return
        entries = self.parking.take_all()
        for entry in entries:
            entry.state = READY
        self._order.restore(entries)

    def ready_entries(self) -> list[QueueEntry]:
        return sorted([*self._order, *self.parking.entries()], key=self._order.rank)

    def least(self) -> QueueEntry | None:
        least = self._order.least()
        if not self.parking.count:
            return least
        parked = self.parking.least()
        if least is None or parked is None:
            return least or parked
        return min(least, parked, key=self._order.worth)

    def on_departed(self, entry: QueueEntry) -> None:
        """Its group may be free now."""
        group = entry.group
        if group is None:
            return
        assert isinstance(entry, RankedEntry), entry
        entry.group = None
        group.outstanding -= 1
        if group.outstanding:
            return
        if self._is_shared or isinstance(group.owner, Unplaced):
            if group.runs:
                self._placing.change_owner(group, None)
            else:
                group.owner = None

    def may_deliver(self, entry: QueueEntry) -> bool:
        return bool(self._ready)

    def has_taker(self, message: Message) -> bool:
        """A message of a group is for the group's owner only."""
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
