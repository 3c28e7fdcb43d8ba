"""Rules for a queue whose last consumer has left: when it is deleted, and whether it is emptied.

Plain auto-delete queues have no such part: they are deleted at once. Delay and count are Artemis's
``auto-delete-delay`` and ``auto-delete-message-count``, the flag its ``purge-on-no-consumers``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from hareline.queues.policies.lease import EMPTY_CHECK_S, RESOLUTION_S

if TYPE_CHECKING:
    from hareline.clock import Timer
    from hareline.queues.core.environment import QueueEnvironment
    from hareline.queues.core.ports import QueuePort


class Unused:
    """``delay_ms``: how long an auto-delete queue stays without consumers. ``max_messages``: with
    more, unacked ones too, it stays until it has no more than these; None: it goes with whatever it
    has. ``purges``: the queue holds no ready messages while it has no consumers.

    ``on_end`` deletes the queue; None: it is not an auto-delete queue. Time is monotonic.
    """

    __slots__ = (
        "_clock",
        "_delay_s",
        "_left_s",
        "_max_messages",
        "_on_end",
        "_queue",
        "_timer",
        "_timers",
        "purges",
    )

    def __init__(
        self, queue: QueuePort, environment: QueueEnvironment, on_end: Callable[[], None] | None
    ) -> None:
        self._queue: QueuePort | None = queue
        self._clock = environment.clock
        self._timers = environment.timers
        self._on_end = on_end
        self._timer: Timer | None = None
        self._delay_s = self._left_s = 0.0
        self._max_messages: int | None = None
        self.purges = False

    def set_rules(self, delay_ms: int | None, max_messages: int | None, *, purges: bool) -> None:
        """Go by these from now on, also if the time of the queue already runs."""
        self._delay_s = (delay_ms or 0) / 1000
        self._max_messages = max_messages
        self.purges = purges
        if self._timer is not None:  # soon, since who changes the rules still needs the queue
            self._cancel()
            self._timer = self._timers.call_later(0, self._on_time)

    def on_unused(self, queue: QueuePort) -> None:
        """The last consumer has left."""
        if self.purges:
            queue.purge()
        self._left_s = self._clock.monotonic_s
        self._look()

    def on_restored(self, queue: QueuePort) -> None:
        """The broker has started: the end of the one before was the end of all consumers.

        Without a delay a queue waits for its next consumer, as a plain auto-delete one does.
        """
        if self.purges:
            queue.purge()
        if self._delay_s:
            self._left_s = self._clock.monotonic_s
            self._look()

    def stop(self) -> None:
        """The queue is deleted: let go of it, so that it is freed without the collector."""
        self._cancel()
        self._queue = self._on_end = None

    def _cancel(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _look(self) -> None:
        """Delete the queue if its time has come, or else look again later."""
        self._cancel()
        queue = self._queue
        if queue is None or self._on_end is None or queue.consumer_count:
            return  # the next one to leave begins again
        wait_s = self._left_s + self._delay_s - self._clock.monotonic_s
        if wait_s <= RESOLUTION_S:
            depth = queue.ready_count + queue.held_count + queue.unacked_count
            if self._max_messages is None or depth <= self._max_messages:
                self._on_end()
                return
            wait_s = EMPTY_CHECK_S
        self._timer = self._timers.call_later(wait_s, self._on_time)

    def _on_time(self) -> None:
        self._timer = None
        self._look()
