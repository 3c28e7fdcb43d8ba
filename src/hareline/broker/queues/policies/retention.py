"""What a stream keeps: x-max-age and x-max-length-bytes of ``x-queue-type: stream``.

``queues.dispatch.reading`` calls ``drop_old`` before it shows anything to a reader, and
``drop_excess`` after all readers had their turn; a timer drops what gets too old in between. The
oldest goes first, without dead letters, and readers that come later never see it. RabbitMQ drops
whole segments, so it keeps more than this for a while.

Invariant: what makes a stream longer than its octets is dropped before the end of the turn it came
in; the newest message stays, whatever its size, as RabbitMQ's last segment does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from hareline.broker.queues.entry import READY
from hareline.broker.queues.policies.deadline_timer import DeadlineTimer

if TYPE_CHECKING:
    from hareline.broker.queues.entry import QueueEntry
    from hareline.broker.queues.environment import QueueEnvironment
    from hareline.broker.queues.orders.log_order import LogOrder
    from hareline.broker.queues.ports import QueuePort

DROPPED_AT_ONCE: Final = 10_000  # in one call; a timer comes back for the rest at once


class Retention:
    """``max_age_ms``: how long after their arrival messages stay.

    ``max_length_bytes``: octets of bodies that stay at most. None is no limit.
    """

    __slots__ = ("_clock", "_deadline", "_log", "_max_age_ms", "_max_length_bytes", "_queue")

    def __init__(
        self,
        queue: QueuePort,
        log: LogOrder,
        environment: QueueEnvironment,
        *,
        max_age_ms: int | None,
        max_length_bytes: int | None,
    ) -> None:
        self._queue: QueuePort | None = queue
        self._log = log
        self._clock = environment.clock
        self._max_age_ms = max_age_ms
        self._max_length_bytes = max_length_bytes
        self._deadline = DeadlineTimer(environment, self.drop_old)

    def drop_old(self) -> None:
        """Drop what is too old now, and set the timer for the next one."""
        max_age_ms = self._max_age_ms
        if max_age_ms is None:
            return
        oldest_ms = self._clock.now_ms - max_age_ms
        head = self._log.peek()
        if head is not None and head.message.arrival_ms <= oldest_ms:
            head = self._drop_until(oldest_ms)
        if head is None:
            self._deadline.cancel()
            return
        due_ms = head.message.arrival_ms + max_age_ms
        if due_ms < self._deadline.at_ms:
            self._deadline.set(due_ms)

    def _drop_until(self, oldest_ms: int) -> QueueEntry | None:
        """Drop from the head what arrived until then; returns the new head."""
        log = self._log
        dropped = []
        index = log.head
        end = min(len(log.entries), index + DROPPED_AT_ONCE)
        while index < end and log.entries[index].message.arrival_ms <= oldest_ms:
            dropped.append(log.entries[index])
            index += 1
        self._drop(dropped)
        return log.peek()

    def drop_excess(self) -> None:
        """Drop the oldest while there are too many octets, but never the newest."""
        limit, queue = self._max_length_bytes, self._queue
        if limit is None or queue is None:
            return
        excess = queue.ready_bytes - limit
        if excess <= 0:
            return
        log = self._log
        dropped: list[QueueEntry] = []
        left = len(log)
        index = log.head
        while excess > 0 and left > 1:
            entry = log.entries[index]
            index += 1
            if entry.state == READY:
                dropped.append(entry)
                excess -= entry.message.size
                left -= 1
        self._drop(dropped)

    def _drop(self, entries: list[QueueEntry]) -> None:
        ready = [entry for entry in entries if entry.state == READY]
        if ready and self._queue is not None:
            self._queue.drop(ready, "retention")

    def stop(self) -> None:
        """The stream is deleted: let go of it, so that it is freed at once."""
        self._deadline.stop()
        self._queue = None
