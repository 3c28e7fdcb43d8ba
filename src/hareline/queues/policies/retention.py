"""Retention of a stream: x-max-age and x-max-length-bytes of ``x-queue-type: stream``.

``queues.dispatch.reading`` calls ``drop_old`` before it shows anything to a reader, and
``drop_excess`` after all readers had their turn; a timer drops what gets too old in between. The
oldest goes first, without dead letters, and readers that come later never see it. RabbitMQ drops
whole segments, so it keeps more than this for a while. What is at the lowest pin of a reader, or
behind it, stays for twice the age, and up to twice the octets.

Invariant: what makes a stream longer than its octets is dropped before the end of the turn it came
in; the newest message stays, whatever its size, as RabbitMQ's last segment does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from hareline.queues.core.entry import READY
from hareline.queues.policies.deadline_timer import NEVER, DeadlineTimer

if TYPE_CHECKING:
    from hareline.queues.core.entry import QueueEntry
    from hareline.queues.core.environment import QueueEnvironment
    from hareline.queues.core.ports import QueuePort
    from hareline.queues.orders.log_order import LogOrder
    from hareline.queues.orders.log_pages import LogPages
    from hareline.queues.policies.reader_positions import ReaderPositions

DROPPED_AT_ONCE: Final = 10_000  # in one call; a timer comes back for the rest at once


class Retention:
    """``max_age_ms``: how long after their arrival messages stay.

    ``max_length_bytes``: octets of bodies that stay at most. None is no limit. ``pins``: the
    positions of readers, once there are any.
    """

    __slots__ = (
        "_clock",
        "_deadline",
        "_log",
        "_max_age_ms",
        "_max_length_bytes",
        "_queue",
        "pins",
    )

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
        self._deadline = DeadlineTimer(environment, self._on_time)
        self.pins: ReaderPositions | None = None

    def set_limits(self, max_age_ms: int | None, max_length_bytes: int | None) -> None:
        """Keep so much from now on; the next run of the lane drops what is more."""
        self._max_age_ms = max_age_ms
        self._max_length_bytes = max_length_bytes
        self._deadline.cancel()

    def _on_time(self) -> None:
        self.drop_old()
        self.drop_excess()

    def drop_old(self) -> None:
        """Drop what is too old now, and set the timer for the next one."""
        max_age_ms = self._max_age_ms
        if max_age_ms is None:
            return
        oldest_ms = self._clock.now_ms - max_age_ms
        pinned = NEVER
        first_ms = self._log.first_arrival_ms
        if first_ms is not None and first_ms <= oldest_ms:
            pinned = self._pinned_offset
            self._drop_until(oldest_ms, pinned, oldest_ms - max_age_ms)
            first_ms = self._log.first_arrival_ms
        first_offset = self._log.first_offset
        if first_ms is None or first_offset is None:
            self._deadline.cancel()
            return
        due_ms = first_ms + max_age_ms
        if first_offset >= pinned and due_ms <= self._clock.now_ms:
            due_ms = self._end_of_pin(due_ms + max_age_ms)
        self._look_again_at(due_ms)

    def _look_again_at(self, at_ms: int) -> None:
        if at_ms < self._deadline.at_ms:
            self._deadline.set(at_ms)

    @property
    def _pinned_offset(self) -> int:
        return NEVER if self.pins is None else self.pins.pinned_offset

    def _end_of_pin(self, at_ms: int) -> int:
        """Return the end of the lowest pin, or ``at_ms`` if that is sooner."""
        return at_ms if self.pins is None else min(at_ms, self.pins.pin_ends_ms)

    def _drop_until(self, oldest_ms: int, pinned: int, oldest_pinned_ms: int) -> None:
        """Drop from the head what arrived until ``oldest_ms``.

        From the offset ``pinned`` on only what arrived until ``oldest_pinned_ms``.
        """
        log = self._log
        pages = log.pages
        if pages is not None and pages.count:
            is_pinned = pages.first_offset >= pinned
            end = 0 if is_pinned else pages.offset_of_younger(oldest_ms, DROPPED_AT_ONCE)
            if is_pinned or end > pinned:
                end = pinned
                if pages.first_ms <= oldest_pinned_ms:
                    end = max(end, pages.offset_of_younger(oldest_pinned_ms, DROPPED_AT_ONCE))
            self._drop_paged(pages, end)
            if pages.count:
                return
        dropped = []
        index = log.head
        end = min(len(log.entries), index + DROPPED_AT_ONCE)
        while index < end and log.entries[index].message.arrival_ms <= oldest_ms:
            if log.entries[index].offset >= pinned:
                oldest_ms, pinned = oldest_pinned_ms, NEVER
                continue
            dropped.append(log.entries[index])
            index += 1
        self._drop(dropped)

    def drop_excess(self) -> None:
        """Drop the oldest while there are too many octets, but never the newest."""
        limit, queue = self._max_length_bytes, self._queue
        if limit is None or queue is None:
            return
        excess = queue.ready_bytes - limit
        if excess <= 0:
            return
        pinned = self._pinned_offset
        log, pages = self._log, self._log.pages
        if pages is not None and pages.count:
            # what a pin keeps may be much, and it is not looked through again in each turn
            is_pinned = pages.first_offset >= pinned
            end = 0 if is_pinned else pages.offset_after(excess, len(log) - 1)
            if is_pinned or end > pinned:
                over = excess - limit  # above the octets that a pin may keep
                end = max(pinned, pages.offset_after(over, len(log) - 1) if over > 0 else 0)
            self._drop_paged(pages, end)
            excess = queue.ready_bytes - limit
            if pages.count:
                if excess > 0 and len(log) > 1:
                    self._look_again_at(self._end_of_pin(NEVER))
                return
        dropped: list[QueueEntry] = []
        left = len(log)
        index = log.head
        while excess > 0 and left > 1 and index < len(log.entries):
            entry = log.entries[index]
            if entry.offset >= pinned and excess <= limit:
                self._look_again_at(self._end_of_pin(NEVER))
                break
            index += 1
            if entry.state == READY:
                dropped.append(entry)
                excess -= entry.message.size
                left -= 1
        self._drop(dropped)

    def _drop_paged(self, pages: LogPages, end: int) -> None:
        """Drop what stands in pages before this offset; numbers without reading them."""
        self._drop(pages.kept_before(end))
        paging = None if self._queue is None else self._queue.paging
        if paging is not None:
            pages.cut(end, paging.drop_numbers)

    def _drop(self, entries: list[QueueEntry]) -> None:
        ready = [entry for entry in entries if entry.state == READY]
        if ready and self._queue is not None:
            self._queue.drop(ready, "retention")

    def stop(self) -> None:
        """The stream is deleted: let go of it, so that it is freed at once."""
        self._deadline.stop()
        self._queue = None
