"""The lane of a paused queue: new messages are taken in as ever, and none is delivered.

A paused queue has this lane around the one that it had, which keeps its consumers, their credit and
what it has parked. So a queue that is not paused pays nothing, and one that goes on continues where
it stopped. Browsers of an ordinary queue have a lane of their own and go on, since they take
nothing; readers of a stream stop. Called by ``broker.live_arguments``, which keeps pauses over a
restart.

Invariant: nothing is acquired by way of this lane; all else is answered by the lane within.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hareline.queues.admission import swap_lane
from hareline.queues.core.lane import Lane
from hareline.queues.dispatch.plain import PlainLane
from hareline.queues.dispatch.reading import ReadingLane
from hareline.queues.dispatch.selective import SelectiveLane

if TYPE_CHECKING:
    from hareline.message import Message
    from hareline.queues.admission import AdmittingQueue
    from hareline.queues.core.consumer import Consumer
    from hareline.queues.core.consumer_book import ConsumerBook
    from hareline.queues.core.entry import QueueEntry


class PausedLane(Lane):
    """``inner``: the lane that goes on when the pause ends."""

    __slots__ = ("_queue", "inner")

    def __init__(self, queue: AdmittingQueue, inner: Lane) -> None:
        self._queue = queue
        self.inner = inner
        self._adopt_parts()

    def _adopt_parts(self) -> None:
        inner = self.inner
        self.consumers = inner.consumers
        self.parking = inner.parking
        self.is_to_look_again = False
        self.keeps_entries = inner.keeps_entries
        self.wants_departures = inner.wants_departures
        self.wants_new_entries = inner.wants_new_entries

    def run(self) -> bool:
        """Deliver nothing; a stream still drops what it keeps no longer."""
        if isinstance(self.inner, ReadingLane):
            self.inner.keep_up()
        return False

    def get(self) -> QueueEntry | None:
        return None

    # ------------------------------------------------------------------- consumers

    def add(self, consumer: Consumer) -> None:
        if consumer.is_selective and isinstance(self.inner, PlainLane):
            self._change_inner(SelectiveLane(self._queue, self._queue.order))
        self.inner.add(consumer)

    def remove(self, consumer: Consumer) -> None:
        self.inner.remove(consumer)

    def activate(self, consumer: Consumer) -> None:
        self.inner.activate(consumer)

    def finished(self) -> list[Consumer]:
        """None: what is left is still to come to them."""
        return []

    def hand_over_to(self, successor: Lane) -> None:
        self.inner.hand_over_to(successor)

    def adopt(self, consumers: ConsumerBook, ready: list[Consumer]) -> None:
        self.inner.adopt(consumers, ready)
        self._adopt_parts()

    def selector_cost_with(self, consumer: Consumer) -> int:
        return self.inner.selector_cost_with(consumer)

    def release(self) -> Lane:
        """The lane that the queue is to have again."""
        if isinstance(self.inner, SelectiveLane) and not self.inner.is_needed:
            self._change_inner(PlainLane(self._queue, self._queue.order))
        return self.inner

    def _change_inner(self, lane: Lane) -> None:
        self.inner.hand_over_to(lane)
        self.inner = lane
        self._adopt_parts()

    def stop(self) -> None:
        self.inner.stop()

    # --------------------------------------------------------------------- entries

    def take(self, count: int) -> list[QueueEntry]:
        return self.inner.take(count)

    def ready_entries(self) -> list[QueueEntry]:
        return self.inner.ready_entries()

    def least(self) -> QueueEntry | None:
        return self.inner.least()

    def on_ready(self, entry: QueueEntry) -> None:
        self.inner.on_ready(entry)

    def on_departed(self, entry: QueueEntry) -> None:
        self.inner.on_departed(entry)

    def may_deliver(self, entry: QueueEntry) -> bool:
        return False

    def has_taker(self, message: Message) -> bool:
        return False


def pause(queue: AdmittingQueue) -> None:
    """Stop the dispatch of a queue; publishing, settling and expiry go on."""
    if not isinstance(queue.lane, PausedLane):
        swap_lane(queue, PausedLane(queue, queue.lane))


def resume(queue: AdmittingQueue) -> None:
    """Let the dispatch of a paused queue go on."""
    if isinstance(queue.lane, PausedLane):
        swap_lane(queue, queue.lane.release())
        queue.mark()


def is_paused(queue: AdmittingQueue) -> bool:
    """True from ``pause`` to ``resume``."""
    return isinstance(queue.lane, PausedLane)


def working_lane(lane: Lane) -> Lane:
    """The lane that serves the consumers, also while the queue is paused."""
    return lane.inner if isinstance(lane, PausedLane) else lane
