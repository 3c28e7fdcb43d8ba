"""Credit that is more than one consumer's count: octet limits, and limits shared by a channel.

A consumer limited only by count carries a plain integer (``Consumer.credit``) and never touches
this file. The others hold one or two windows, and every entry is put to each of them.      [hot]

Octets count message bodies. A message larger than what is left of an octet limit is still let
through when nothing else is outstanding, so that it cannot block its queue for ever
(AMQP 0-9-1, basic.qos prefetch-size).

Consumers that share a window may read different queues. One that the window refuses stands in
line, and credit that comes back is offered to those at its head, as many as there is credit for:
they are *invited*. While there is a line no other consumer is served, so a busy queue cannot keep a
quiet one waiting. A consumer that was served goes to the end of the line with its next entry.

Invariant: a consumer is never both in line and invited.
"""

from __future__ import annotations

from abc import abstractmethod
from collections import OrderedDict
from typing import TYPE_CHECKING, Any, Final

from hareline.compiled import mypyc_attr
from hareline.queues.core.entry import EntryHolder, EntryQueue
from hareline.turn import Dispatching

if TYPE_CHECKING:
    from hareline.storage.interface import QueueLedger
    from hareline.turn import Turn

UNLIMITED: Final = 1 << 62


@mypyc_attr(allow_interpreted_subclasses=True)
class ConsumedQueue(EntryQueue):
    """Calls to a queue of its consumers, their windows and a channel that ends one.

    ``is_marked``: a dispatch is still to come in this turn or the next. ``ledger`` is None unless
    the queue is durable. ``redelivering``: acquired entries that were delivered before, and that
    their channel has yet to count.
    """

    __slots__ = ()

    turn: Turn
    is_marked: bool
    redelivering: int
    ledger: QueueLedger | None

    @property
    @abstractmethod
    def ready_count(self) -> int:
        """Entries that a consumer could have, parked ones too."""

    @abstractmethod
    def activate(self, consumer: Any) -> None:
        """The consumer may have become able to receive: credit came back, or its socket drained."""

    @abstractmethod
    def mark(self) -> None:
        """Ask for a dispatch at the end of this turn."""

    @abstractmethod
    def deliver_due(self) -> None:
        """Deliver now what the end of the turn would deliver."""

    @abstractmethod
    def remove_consumer(self, consumer: Any) -> None:
        """The consumer gets nothing more; what it has unacked stays with its channel."""


@mypyc_attr(allow_interpreted_subclasses=True)
class WaitingConsumer(EntryHolder):
    """The part of a consumer that a window knows; it may wait in the window's line.

    ``acknowledges``: its deliveries use up credit. ``is_active``: its lane serves it. ``queue``:
    what it receives from.
    """

    __slots__ = ()

    acknowledges: bool
    is_active: bool
    queue: ConsumedQueue


class CreditWindow(Dispatching):
    """At most ``limit_count`` deliveries and ``limit_bytes`` octets outstanding; 0 = no limit.

    ``waiting``: consumers that were refused, the longest waiting first. ``invited``: those whose
    turn it is; their queues dispatch in this turn or the next. A consumer that needs no
    acknowledgement waits for credit like the others, but uses none up (RabbitMQ:
    ``rabbit_limiter:can_send``).

    Invariant: while ``invited`` is not empty, or there is credit for the first in line,
    ``dispatch`` is going to be called.
    """

    __slots__ = (
        "_is_fresh",
        "_is_marked",
        "_is_short",
        "invited",
        "limit_bytes",
        "limit_count",
        "used_bytes",
        "used_count",
        "waiting",
    )

    def __init__(self, limit_count: int = 0, limit_bytes: int = 0) -> None:
        self.limit_count = limit_count
        self.limit_bytes = limit_bytes
        self.used_count = 0
        self.used_bytes = 0
        self.waiting: OrderedDict[WaitingConsumer, None] = OrderedDict()
        self.invited: dict[WaitingConsumer, None] = {}
        self._is_marked = False
        self._is_fresh = False  # some were invited since the last dispatch
        self._is_short = False  # the first in line needs more octets than are left

    @property
    def is_limited(self) -> bool:
        return bool(self.limit_count or self.limit_bytes)

    # ------------------------------------------------------------------- one consumer

    def admits(self, size: int) -> bool:
        """True if there is credit for a delivery of ``size`` octets to any consumer."""
        if self.limit_count and self.used_count >= self.limit_count:
            return False
        if not self.limit_bytes or self.used_bytes == 0:
            return True
        return self.used_bytes + size <= self.limit_bytes

    def would_admit(self, size: int) -> bool:
        """True if a consumer that does not stand in line would be served now."""
        return not self.waiting and not self.invited and self.admits(size)

    def refuses(self, consumer: WaitingConsumer, size: int) -> bool:
        """True if ``consumer`` cannot have an entry of ``size`` octets now; then it waits."""
        if self.invited or self.waiting:
            if consumer not in self.invited:
                self.waiting[consumer] = None
                return True
            if self.admits(size):
                return False
            del self.invited[consumer]
            self.waiting[consumer] = None
            self.waiting.move_to_end(consumer, last=False)  # it is still the first
            self._is_short = True
            return True
        if self.admits(size):
            return False
        self.waiting[consumer] = None
        return True

    def share_of(self, consumer: WaitingConsumer) -> int:
        """Return the number of entries of any size that ``consumer`` may have at once.

        Invited consumers share equally. At most 1 if octets are limited; 0 while other consumers
        stand in line.
        """
        free = self.free_count
        if not self.invited and not self.waiting:
            return free if consumer.acknowledges or not free else UNLIMITED
        return max(1, free // len(self.invited)) if free and consumer in self.invited else 0

    @property
    def free_count(self) -> int:
        """Deliveries of any size that it admits; at most 1 if octets are limited."""
        free = max(0, self.limit_count - self.used_count) if self.limit_count else UNLIMITED
        return min(free, 0 if self.used_bytes else 1) if self.limit_bytes else free

    def use(self, consumer: WaitingConsumer, size: int) -> None:
        """Count an entry of ``size`` octets for ``consumer``."""
        if consumer.acknowledges:
            self.count(size)
        if self.invited:
            self.invited.pop(consumer, None)

    def use_all(self, consumer: WaitingConsumer, sizes: list[int]) -> None:
        """Count entries of these sizes for ``consumer``."""
        if consumer.acknowledges:
            self.used_count += len(sizes)
            self.used_bytes += sum(sizes)
        if self.invited:
            self.invited.pop(consumer, None)

    def take_back(self, consumer: WaitingConsumer, size: int) -> None:
        """Undo the count of an entry that ``consumer`` was not delivered after all."""
        if consumer.acknowledges:
            self.restore(size)

    def count(self, size: int) -> None:
        """Count a delivery as outstanding."""
        self.used_count += 1
        self.used_bytes += size

    def leave(self, consumer: WaitingConsumer) -> None:
        """Forget a cancelled consumer; what it was offered goes to the next in line."""
        self.waiting.pop(consumer, None)
        self.invited.pop(consumer, None)
        if self.waiting:
            self._offer_again()

    # ---------------------------------------------------------------------- the credit

    def restore(self, size: int) -> None:
        """Give back the credit of one delivery of ``size`` octets."""
        self.used_count -= 1
        self.used_bytes -= size
        if self.waiting:
            self._offer_again()

    def resize(self, limit_count: int, limit_bytes: int) -> None:
        """Limit deliveries and octets to this from now on; 0 = no limit."""
        self.limit_count = limit_count
        self.limit_bytes = limit_bytes
        if self.waiting:
            self._offer_again()

    def close(self) -> None:
        """The channel is closed: forget all consumers."""
        self.waiting.clear()
        self.invited.clear()

    def dispatch(self) -> bool:
        """The turn's call, after the dispatches of the queues whose consumers are invited.

        A consumer that has not taken what it was offered, because its queue has nothing for it or
        its output is full, makes room for the next.
        """
        self._is_marked = False
        for consumer in list(self.invited):
            if not consumer.is_active or not consumer.queue.is_marked:
                del self.invited[consumer]
        if self.invited and self._is_fresh:
            self._is_fresh = False
            self._mark()  # the queues of these are still to come
        else:
            for consumer in self.invited:  # their queues are too busy: it is the others' turn
                self.waiting[consumer] = None
            self.invited.clear()
            self._offer()
        return False

    def _offer_again(self) -> None:
        self._is_short = False
        self._offer()

    def _offer(self) -> None:
        """Invite those that have waited longest, as many as there is credit for."""
        waiting, invited = self.waiting, self.invited
        free = 0 if self._is_short else self._places - len(invited)
        while waiting and free > 0:
            consumer, _ = waiting.popitem(last=False)
            consumer.queue.activate(consumer)
            if consumer.is_active and consumer.queue.ready_count:
                invited[consumer] = None
                self._is_fresh = True
                free -= 1
        if invited and not self._is_marked:
            self._mark()

    def _mark(self) -> None:
        self._is_marked = True
        next(iter(self.invited)).queue.turn.mark_queue(self)

    @property
    def _places(self) -> int:
        """The number of consumers that may be offered the credit at once."""
        if not self.admits(0):
            return 0
        if self.limit_bytes:
            return 1
        return self.limit_count - self.used_count if self.limit_count else UNLIMITED
