"""x-expires: a queue that is not used for this long is deleted.

A queue is used while it has consumers, when it is declared again, when a basic.get asks it, and
when it loses its last consumer (RabbitMQ); publishing does not count. ``queue`` and a declare call
``touch``, which only notes the instant; the timer compares that when it fires, and is set again for
the time that is left.

Invariant: time is monotonic, so a change of the wall clock deletes no queue.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from hareline.clock import Timer
from hareline.queues.core.environment import QueueEnvironment

if TYPE_CHECKING:
    from hareline.queues.core.ports import QueuePort

RESOLUTION_S: Final = 0.0005  # less than this is left by rounding, not by the clock
EMPTY_CHECK_S: Final = 1.0  # how often an overdue queue is looked at that may only go when empty


class Lease:
    """``expires_ms``: how long the queue may be unused; it runs from now.

    ``if_empty``: a queue that still has entries, unacked ones too, stays until it has none.
    ``on_expired`` deletes the queue and is called once.
    """

    __slots__ = (
        "_clock",
        "_expires_s",
        "_is_if_empty",
        "_on_expired",
        "_queue",
        "_timer",
        "_timers",
        "_used_s",
    )

    def __init__(
        self,
        queue: QueuePort,
        environment: QueueEnvironment,
        expires_ms: int,
        if_empty: bool,
        on_expired: Callable[[], None],
    ) -> None:
        self._queue: QueuePort | None = queue
        self._clock = environment.clock
        self._timers = environment.timers
        self._expires_s = expires_ms / 1000
        self._is_if_empty = if_empty
        self._on_expired: Callable[[], None] | None = on_expired
        self._used_s = self._clock.monotonic_s
        self._timer: Timer | None = self._timers.call_later(self._expires_s, self._on_time)

    def touch(self) -> None:
        """The queue was used: its time starts again."""
        self._used_s = self._clock.monotonic_s

    def stop(self) -> None:
        """The queue is deleted: let go of it, so that it is freed without the collector."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._queue = self._on_expired = None

    def _on_time(self) -> None:
        self._timer = None
        queue = self._queue
        if queue is None or self._on_expired is None:
            return
        if queue.consumer_count:
            self.touch()  # it cannot expire sooner than a full term after the last of them leaves
        left_s = self._used_s + self._expires_s - self._clock.monotonic_s
        if left_s > RESOLUTION_S:
            self._timer = self._timers.call_later(left_s, self._on_time)
        elif self._is_if_empty and (queue.ready_count or queue.held_count or queue.unacked_count):
            self._timer = self._timers.call_later(EMPTY_CHECK_S, self._on_time)
        else:
            self._on_expired()
