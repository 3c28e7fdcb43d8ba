"""What a queue knows of a consumer: what it may still receive, and how to hand it entries.

``amqp.consuming`` supplies ``deliver``; the dispatcher is its only caller.

Invariant: ``is_active`` is True exactly while the consumer stands in its dispatcher's ring, and a
consumer in a ring has credit.                                                               [hot]
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

from hareline.broker.queues.credit import UNLIMITED, CreditWindow

if TYPE_CHECKING:
    from hareline.broker.queues.entry import QueueEntry
    from hareline.broker.queues.queue import Queue


class Consumer(ABC):
    """One subscription to one queue.

    ``credit``: deliveries it may still receive by count. ``windows``: further limits (octets,
    channel-wide), checked entry by entry when there are any. ``acknowledges`` is False for no-ack
    consumers, whose entries are settled on delivery. ``priority``: higher is served first
    (consumer argument x-priority).
    """

    __slots__ = (
        "acknowledges",
        "credit",
        "is_active",
        "is_cancelled",
        "is_exclusive",
        "priority",
        "queue",
        "tag",
        "windows",
    )

    def __init__(
        self,
        tag: str,
        queue: Queue,
        *,
        acknowledges: bool,
        is_exclusive: bool = False,
        priority: int = 0,
        prefetch_count: int = 0,
        windows: tuple[CreditWindow, ...] = (),
    ) -> None:
        self.tag = tag
        self.queue = queue
        self.acknowledges = acknowledges
        self.is_exclusive = is_exclusive
        self.priority = priority
        self.credit = prefetch_count if prefetch_count and acknowledges else UNLIMITED
        self.windows = windows if acknowledges else ()
        self.is_active = False
        self.is_cancelled = False

    @abstractmethod
    def deliver(self, entries: list[QueueEntry]) -> int:
        """Hand over the entries, in order; returns how many were taken, at least one.

        The rest (the connection's output is full) stays with the caller; there is none if the
        entries' content is no more than ``room_bytes``. Credit is the dispatcher's business, not
        this method's.
        """

    @property
    @abstractmethod
    def room_bytes(self) -> int:
        """Octets of content that ``deliver`` takes for certain."""

    @property
    def outlet(self) -> object:
        """What carries its deliveries in order; consumers that share one see a single sequence."""
        return self

    @abstractmethod
    def suspend_if_full(self) -> bool:
        """True when nothing can be written now; the consumer then sees to its own resumption."""

    @abstractmethod
    def on_queue_deleted(self) -> None:
        """The queue is gone: tell the client, if it takes basic.cancel."""

    def restore_credit(self, size: int) -> None:
        """One delivery of ``size`` octets was settled or released."""
        credit = self.credit
        self.credit = credit + 1
        if self.windows:
            for window in self.windows:
                window.restore(size)
                if window.waiting:
                    window.wake_waiting()
        if credit == 0 and not self.is_active:
            self.queue.activate(self)

    def __repr__(self) -> str:
        return f"<Consumer {self.tag!r} of {self.queue.name!r}, credit {self.credit}>"
