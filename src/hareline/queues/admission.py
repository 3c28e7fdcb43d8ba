"""Admission of new messages, by the parts that the queue has.

Between ``books``, which keep the states of entries, and ``queue``, the face of all of it. A queue
whose parts do nothing with new messages takes them by ``enqueue`` (``books``); the others *need
admission*, and publishers go by ``put``. ``install`` gives a queue its parts, and has ``wiring``
work out what is called for each entry.                                                     [hot]
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hareline.compiled import mypyc_attr
from hareline.errors import StoreError
from hareline.message import Message
from hareline.queues.books import QueueBooks
from hareline.queues.core.entry import HELD, QueueEntry, RankedEntry
from hareline.queues.core.environment import QueueEnvironment
from hareline.queues.core.kinds import DISCARDED, KEEPS_ALL, KEEPS_NONE, REFUSED, TAKEN
from hareline.queues.core.lane import Lane
from hareline.queues.orders.last_values import LastValueOrder, LastValues
from hareline.queues.orders.order import EntryOrder
from hareline.queues.policies.expiry import Expiry
from hareline.queues.wiring import keep, wire
from hareline.storage.interface import QueueLedger

if TYPE_CHECKING:
    from hareline.queues.dead_letters.dead_letters import DeadLetters
    from hareline.queues.orders.window import Paging
    from hareline.queues.policies.hold import Hold
    from hareline.queues.policies.overflow import Overflow


@mypyc_attr(allow_interpreted_subclasses=True)
class AdmittingQueue(QueueBooks):
    """``keeps``: which messages go to the store (``kinds``). ``is_timeless``: no message expires
    here, whatever it says. ``needs_admission``: publishers go by ``put``.
    """

    __slots__ = (
        "archive",
        "dead_letters",
        "environment",
        "is_timeless",
        "keeps",
        "last_values",
        "needs_admission",
        "shows_delivery_count",
    )

    def __init__(self, order: EntryOrder, lane: Lane, environment: QueueEnvironment | None) -> None:
        super().__init__(order, lane)
        self.environment = environment
        self.keeps = KEEPS_NONE
        self.archive = None
        self.dead_letters: DeadLetters | None = None
        self.last_values = order.values if isinstance(order, LastValueOrder) else None
        self.shows_delivery_count = False
        self.is_timeless = False
        self.needs_admission = False
        self._wire()

    def install(
        self,
        *,
        lane: Lane | None = None,
        expiry: Expiry | None = None,
        hold: Hold | None = None,
        overflow: Overflow | None = None,
        last_values: LastValues | None = None,
        paging: Paging | None = None,
        ledger: QueueLedger | None = None,
        keeps: int | None = None,
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
        self.overflow = self.overflow if overflow is None else overflow
        self.last_values = self.last_values if last_values is None else last_values
        self.paging = self.paging if paging is None else paging
        self.ledger = self.ledger if ledger is None else ledger
        self.keeps = self.keeps if keeps is None else keeps
        self._wire()

    def _wire(self) -> None:
        """Work out what is called for each entry; after each change of the parts."""
        needed_admission = self.needs_admission
        wires = wire(
            self,
            self.order,
            self.lane,
            self.entry_class,
            browsers=self.browsers,
            expiry=self.expiry,
            hold=self.hold,
            overflow=self.overflow,
            last_values=self.last_values,
            paging=self.paging,
            ledger=self.ledger,
            keeps=self.keeps,
        )
        self._connect(wires)
        self.needs_admission = wires.needs_admission
        if wires.needs_admission != needed_admission and self.environment is not None:
            self.environment.on_admission_changed()

    # --------------------------------------------------------------------------- in

    def put(self, message: Message) -> int:
        """Take in a message with all that this queue does to new ones.

        Returns TAKEN, REFUSED, or DISCARDED where the overflow policy says so.
        """
        if not self.needs_admission and (message.extras is None or not message.expires_at_ms):
            self.enqueue(message)
            return TAKEN
        overflow = self.overflow
        if overflow is not None:
            if overflow.refuses(message):
                return REFUSED
            if overflow.discards(message):
                return DISCARDED
        entry = self._new_entry(message)
        if self.ledger is not None and (message.position or self.keeps == KEEPS_ALL):
            keep(entry, self.ledger)
        self._take_in(entry, self.environment.clock.now_ms if self.environment is not None else 0)
        return TAKEN

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
            entry.message = showing_count(message, entry.returns)
        self.count_revived(offset, returned_count=delivery_count > 0)
        if not is_paged:
            self._take_in(entry, message.arrival_ms)
            return entry
        assert self.paging is not None
        self._set_expiry(entry, message.arrival_ms)
        self.order.rank(entry)  # an ordering that reads it from the message remembers it
        self.paging.leave_content(entry)
        return entry

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


def without_overflow(queue: AdmittingQueue) -> None:
    """Take the limits from a queue that has some."""
    assert queue.overflow is not None, queue
    queue.overflow.stop()
    queue.overflow = None
    queue._wire()


def without_hold(queue: AdmittingQueue) -> None:
    """Let a queue that holds nothing now take in all messages as ready."""
    assert queue.hold is not None, queue
    assert not queue.held_count, queue
    queue.hold.stop()
    queue.hold = None
    queue._wire()


def showing_count(message: Message, delivery_count: int) -> Message:
    """The message with the header x-delivery-count; as it is, if it cannot be read from disk."""
    try:
        shown = message.with_header("x-delivery-count", delivery_count)
    except StoreError:
        return message  # that is found and reported when it is its turn
    shown.position = message.position  # the same one to the store
    return shown
