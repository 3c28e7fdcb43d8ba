"""The lane of every deleted queue: it serves no consumer and has no entries.

A lane refers to its queue and the queue to its lane. When a queue is deleted it takes this lane
instead, so that both are freed at once by their reference counts; what still calls the queue (a
consumer whose credit comes back, a dispatch that was asked for before) finds nothing to do.

Invariant: there is one object of this class, and it never changes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from hareline.queues.core.consumer_book import ConsumerBook
from hareline.queues.core.lane import MainLane
from hareline.queues.core.parking import NO_PARKING

if TYPE_CHECKING:
    from hareline.message import Message
    from hareline.queues.core.consumer import Consumer
    from hareline.queues.core.entry import QueueEntry


class ClosedLane(MainLane):
    """Takes no consumer; all that is asked of it has the answer of an empty queue."""

    __slots__ = ()

    def __init__(self) -> None:
        self.consumers = ConsumerBook()
        self.parking = NO_PARKING
        self.is_to_look_again = False
        self.wants_departures = False
        self.wants_new_entries = False
        self.keeps_entries = False

    def add(self, consumer: Consumer) -> None:
        raise AssertionError(f"{consumer} comes to a deleted queue")

    def remove(self, consumer: Consumer) -> None:
        raise AssertionError(f"{consumer} leaves a deleted queue")

    def activate(self, consumer: Consumer) -> None:
        """It was cancelled with the queue."""

    def hand_over_to(self, successor: MainLane) -> None:
        raise AssertionError("a deleted queue has no other lane")

    def adopt(self, consumers: ConsumerBook, ready: list[Consumer]) -> None:
        """The consumers of a deleted queue have been removed."""

    def run(self) -> bool:
        return False

    def finished(self) -> list[Consumer]:
        return []

    def get(self) -> QueueEntry | None:
        return None

    def take(self, count: int) -> list[QueueEntry]:
        return []

    def ready_entries(self) -> list[QueueEntry]:
        return []

    def least(self) -> QueueEntry | None:
        return None

    def on_ready(self, entry: QueueEntry) -> None:
        """No consumer is left to see it."""

    def on_departed(self, entry: QueueEntry) -> None:
        """No consumer waits for it."""

    def may_deliver(self, entry: QueueEntry) -> bool:
        return False

    def has_taker(self, message: Message) -> bool:
        return False

    def selector_cost_with(self, consumer: Consumer) -> int:
        return 0

    def stop(self) -> None:
        """Nothing is to come."""


CLOSED_LANE: Final = ClosedLane()
