"""Consumer as its queue sees it: the credit left, and the hand-over of entries.

``amqp.consuming`` supplies ``deliver``, which only the lane calls that serves the consumer.

Invariant: ``is_active`` is True exactly while the consumer stands in a ring of its lane, and a
consumer in a ring has credit. (A removed one may stand there until the end of the turn; it is
handed nothing.)                                                                             [hot]
"""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING

from hareline.compiled import mypyc_attr
from hareline.queues.core.credit import (
    UNLIMITED,
    ConsumedQueue,
    CreditWindow,
    WaitingConsumer,
)
from hareline.queues.core.entry import QueueEntry
from hareline.queues.core.start_position import FIRST, StartPosition

if TYPE_CHECKING:
    from hareline.message import Message, Publisher
    from hareline.selectors.selector import Selector


@mypyc_attr(allow_interpreted_subclasses=True)
class Consumer(WaitingConsumer):
    """One subscription to one queue.

    ``credit``: deliveries it may still receive by count. ``windows``: further limits (octets,
    channel-wide), checked entry by entry when there are any. ``acknowledges`` is False for no-ack
    consumers, whose entries are settled on delivery and use up no prefetch. ``prefetch_count``:
    what ``credit`` began with, 0 for no limit. ``priority``: higher is served first (consumer
    argument x-priority). ``number``: grows with each consumer that comes to its queue.
    ``selector``: it takes only messages of which this is true; None takes all. ``is_live``: False
    while it waits for another consumer to leave.

    ``refill_from``: once its credit was used up, it receives nothing until more than this much has
    come back (0: at once). Until then that much is held back from ``credit`` (``_held_back``), so
    that it stays at 0 or below and nothing can activate the consumer early.

    ``since_ms``: messages that arrived before (epoch milliseconds) are not for it. ``publisher``:
    its own connection, as messages show it; ``no_local_of``: the publisher whose messages are not
    for it, which is that one or None (no-local). ``closes_at_end``: it is removed at the end of a
    turn in which nothing is left for it.

    ``is_browser``: it is shown what is ready and takes nothing away. For browsers, and for all the
    consumers of a non-destructive queue, ``start_position`` says where they begin.
    ``stream_filter``: of a stream it gets only messages of these filter values, "" for those
    without one; None: all.

    Of the selective lane: ``class_bit`` is the bit of its selector in the masks of messages,
    ``served_at`` grows with each entry, ``ring_next`` and ``ring_previous`` are its neighbours in
    ``ring``. All None while it stands in no ring.
    """

    __slots__ = (
        "_held_back",
        "acknowledges",
        "class_bit",
        "closes_at_end",
        "credit",
        "is_active",
        "is_browser",
        "is_cancelled",
        "is_exclusive",
        "is_live",
        "no_local_of",
        "number",
        "prefetch_count",
        "priority",
        "publisher",
        "queue",
        "refill_from",
        "ring",
        "ring_next",
        "ring_previous",
        "selector",
        "served_at",
        "since_ms",
        "start_position",
        "stream_filter",
        "tag",
        "windows",
    )

    def __init__(
        self,
        tag: str,
        queue: ConsumedQueue,
        *,
        acknowledges: bool,
        is_exclusive: bool = False,
        priority: int = 0,
        prefetch_count: int = 0,
        refill_percent: int = 100,
        windows: tuple[CreditWindow, ...] = (),
        selector: Selector | None = None,
    ) -> None:
        """``prefetch_count`` 0: no limit. ``refill_percent``, 1 to 100: a consumer that has used up
        its limit is served again when no more than this part of it is unacked.
        """
        self.tag = tag
        self.queue = queue
        self.acknowledges = acknowledges
        self.prefetch_count = prefetch_count if acknowledges else 0
        self.is_exclusive = is_exclusive
        self.priority = priority
        self.credit = prefetch_count if prefetch_count and acknowledges else UNLIMITED
        self.windows = windows
        self.selector = selector
        self.refill_from = max(0, prefetch_count - prefetch_count * refill_percent // 100 - 1)
        self._held_back = 0
        self.is_active = False
        self.is_cancelled = False
        self.is_live = True
        self.since_ms = 0
        self.publisher: Publisher | None = None
        self.no_local_of: Publisher | None = None
        self.start_position: StartPosition = FIRST
        self.stream_filter: frozenset[str] | None = None
        self.is_browser = False
        self.closes_at_end = False
        self.number = 0
        self.class_bit = 0
        self.served_at = 0
        self.leave_ring()

    def leave_ring(self) -> None:
        """Refer to no ring, and to no other consumer in one."""
        self.ring: Ring | None = None
        self.ring_next: Consumer | None = None
        self.ring_previous: Consumer | None = None

    @abstractmethod
    def deliver(self, entries: list[QueueEntry]) -> int:
        """Hand over the entries, in order; returns how many were taken, at least one.

        The rest (the connection's output is full) stays with the caller; there is none if the
        entries' content is no more than ``room_bytes``. The lane counts the credit.
        """

    @property
    @abstractmethod
    def room_bytes(self) -> int:
        """Octets of content that ``deliver`` is sure to take."""

    @property
    def delivery_port(self) -> object:
        """The carrier of its deliveries in order; consumers that share it see one sequence."""
        return self

    @abstractmethod
    def suspend_if_full(self) -> bool:
        """True if nothing can be written now; the consumer then activates itself later."""

    @property
    def is_writable(self) -> bool:
        """True if a delivery now would be written at once; only asks."""
        return True

    @abstractmethod
    def on_queue_deleted(self) -> None:
        """The queue is gone: tell the client, if it takes basic.cancel."""

    @abstractmethod
    def on_finished(self) -> None:
        """It was removed at the end of its queue, as it had asked: tell the client."""

    @property
    def is_selective(self) -> bool:
        """True if some messages are not for it, so that it takes the selective lane."""
        return self.selector is not None or self.since_ms > 0 or self.no_local_of is not None

    def would_receive(self, message: Message) -> bool:
        """True if a new message is for it, and nothing keeps it from getting it at once."""
        if not self.is_active or not self.is_writable:
            return False
        if any(not window.would_admit(message.size) for window in self.windows):
            return False
        return self.wants(message)

    def wants(self, message: Message) -> bool:
        """True if a message that was not delivered before is for it."""
        if self.no_local_of is not None and message.address.publisher is self.no_local_of:
            return False
        if message.arrival_ms < self.since_ms:
            return False
        if self.selector is None:
            return True
        is_true = self.selector.matches(message)
        message.forget_properties()
        return is_true

    @property
    def open_credit(self) -> int | None:
        """Deliveries that it may still receive by count; None: any number."""
        if not self.prefetch_count:
            return None
        return max(0, self.credit + self._held_back)

    @property
    def outstanding(self) -> int:
        """Deliveries that it has not settled yet."""
        if not self.acknowledges:
            return 0
        return (self.prefetch_count or UNLIMITED) - self.credit - self._held_back

    def wait_for_outstanding(self) -> None:
        """Receive nothing until all that is outstanding is settled; it is activated then.

        For one that stands in no ring.
        """
        outstanding = self.outstanding
        if outstanding:
            self.credit = 1 - outstanding
            self._held_back = (self.prefetch_count or UNLIMITED) - 1

    def restore_credit(self, size: int) -> None:
        """One delivery of ``size`` octets was settled or released."""
        credit = self.credit
        self.credit = credit + 1
        if credit == 0 and not self.is_active:
            self._refill()
        if self.windows:
            self._restore_windows(size)

    def _refill(self) -> None:
        """Go on after all credit was used up: at once, or when enough has come back."""
        if self._held_back:
            self.credit += self._held_back
            self._held_back = 0
        elif self.refill_from:
            self._held_back = self.refill_from
            self.credit -= self.refill_from
            return
        self.queue.activate(self)

    def take_credit_back(self, size: int) -> None:
        """Undo the count of an entry of ``size`` octets that was not delivered after all."""
        self.credit += 1
        for window in self.windows:
            window.take_back(self, size)
        if not self.is_active:
            self.queue.activate(self)

    def _restore_windows(self, size: int) -> None:
        for window in self.windows:
            window.restore(size)

    def __repr__(self) -> str:
        return f"<Consumer {self.tag!r} of {self.queue.name!r}, credit {self.credit}>"


class Ring:
    """Consumers of one selector class and one priority in a circle (``ready_consumers``).

    Each is linked to its neighbours; ``first`` is next. ``bit`` is that of the class.
    """

    __slots__ = ("bit", "first")

    def __init__(self, consumer: Consumer) -> None:
        self.bit = consumer.class_bit
        self.first = consumer
        consumer.ring = self
        consumer.ring_next = consumer.ring_previous = consumer

    def append(self, consumer: Consumer) -> None:
        """Add a consumer, which is the last in turn."""
        consumer.ring = self
        first = self.first
        last = first.ring_previous
        assert last is not None, "it stands in a ring"
        consumer.ring_previous = last
        consumer.ring_next = first
        last.ring_next = first.ring_previous = consumer

    def remove(self, consumer: Consumer) -> bool:
        """Take a consumer out; True if it was the only one, and the ring is of no more use."""
        before, behind = consumer.ring_previous, consumer.ring_next
        assert before is not None, "it stands in a ring"
        assert behind is not None, "it stands in a ring"
        consumer.leave_ring()
        if behind is consumer:
            return True
        before.ring_next = behind
        behind.ring_previous = before
        if self.first is consumer:
            self.first = behind
        return False

    def has_taker(self, message: Message) -> bool:
        """True if one of them would be given this new message at once."""
        consumer: Consumer | None = self.first
        while consumer is not None:
            if consumer.would_receive(message):
                return True
            consumer = consumer.ring_next if consumer.ring_next is not self.first else None
        return False
