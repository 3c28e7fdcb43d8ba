"""The pace of a queue's deliveries: when they start, and how many there are in a second.      [hot]

Artemis has the start as ``consumers-before-dispatch`` and ``delay-before-dispatch``. Without it the
first of several consumers that start together gets much of what is there, and all message groups.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hareline.clock import TokenBucket

if TYPE_CHECKING:
    from hareline.clock import Timer
    from hareline.queues.core.environment import QueueEnvironment
    from hareline.queues.core.ports import QueuePort


class DispatchPace:
    """``is_awaited``: consumers get nothing yet; again from when the last of them has left.

    ``set_rules``: deliveries start when there are ``needed`` consumers, browsers not counted, or
    ``delay_ms`` after the first one came; None: that alone does not start them. All consumers
    together get ``rate`` messages a second; 0: no limit.
    """

    __slots__ = (
        "_bucket",
        "_clock",
        "_queue",
        "_start",
        "_starter",
        "_timers",
        "_waker",
        "is_awaited",
    )

    def __init__(self, queue: QueuePort, environment: QueueEnvironment) -> None:
        self._queue: QueuePort | None = queue
        self._clock = environment.clock
        self._timers = environment.timers
        self._starter: Timer | None = None
        self._waker: Timer | None = None
        self._start: tuple[int | None, int | None] = (None, None)
        self._bucket: TokenBucket | None = None
        self.is_awaited = False

    def set_rules(self, needed: int | None, delay_ms: int | None, rate: int) -> None:
        """Go by these from now on; both None: there is no wait. What has started goes on."""
        if self._bucket is None or self._bucket.rate != rate:
            self._cancel_wake()
            self._bucket = TokenBucket(rate, self._clock.monotonic_s) if rate else None
        if self._start != (needed, delay_ms):
            self._cancel_start()
            self._start = (needed, delay_ms)
            self.look()
        if self._queue is not None:
            self._queue.mark()

    def look(self) -> None:
        """A consumer has come or left, or there are other rules."""
        assert self._queue is not None, "a deleted queue has no consumers"
        count = len(self._queue.lane.consumers)
        needed, delay_ms = self._start
        if (needed, delay_ms) == (None, None):
            self._begin()
        elif not count:
            self._cancel_start()
            self.is_awaited = True
        elif needed is not None and count >= needed:
            self._begin()
        elif self.is_awaited and delay_ms is not None and self._starter is None:
            self._starter = self._timers.call_later(delay_ms / 1000, self._begin)

    def run(self) -> bool:
        """Have the queue's lane deliver as much as may be; True if only the share stopped it."""
        queue, bucket = self._queue, self._bucket
        assert queue is not None, "a deleted queue delivers nothing"
        lane = queue.lane
        if self.is_awaited:
            lane.keep_up()
            return False
        if bucket is None:
            return lane.run()
        now_s = self._clock.monotonic_s
        count = bucket.count(now_s)
        if count > 0:
            share, before = lane.share, queue.delivered_count
            lane.share = min(count, share)
            is_unfinished = lane.run()
            lane.share = share
            bucket.take(queue.delivered_count - before, now_s)
            if bucket.count(now_s) > 0:
                return is_unfinished
        else:
            lane.keep_up()
        if self._waker is None and queue.ready_count:
            self._waker = self._timers.call_later(bucket.wait_s(now_s), self._wake)
        return False

    def stop(self) -> None:
        """The queue is deleted: let go of it, so that it is freed without the collector."""
        self._cancel_start()
        self._cancel_wake()
        self._queue = None

    def _begin(self) -> None:
        self._cancel_start()
        if self._queue is not None and self.is_awaited:
            self.is_awaited = False
            self._queue.mark()

    def _wake(self) -> None:
        self._waker = None
        if self._queue is not None:
            self._queue.mark()

    def _cancel_start(self) -> None:
        if self._starter is not None:
            self._starter.cancel()
            self._starter = None

    def _cancel_wake(self) -> None:
        if self._waker is not None:
            self._waker.cancel()
            self._waker = None
