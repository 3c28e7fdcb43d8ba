"""A window of credit that time gives back: the rate of one consumer.                       [hot]"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hareline.clock import TokenBucket
from hareline.queues.core.credit import CreditWindow, WaitingConsumer

if TYPE_CHECKING:
    from hareline.clock import Clock, Timer, Timers


class RateWindow(CreditWindow):
    """Lets one consumer have ``rate`` deliveries a second, whether it acknowledges or not."""

    __slots__ = ("_bucket", "_clock", "_timer", "_timers")

    def __init__(self, rate: int, clock: Clock, timers: Timers) -> None:
        super().__init__()
        self._bucket = TokenBucket(rate, clock.monotonic_s)
        self._clock = clock
        self._timers = timers
        self._timer: Timer | None = None

    def admits(self, size: int) -> bool:
        return self._bucket.count(self._clock.monotonic_s) > 0

    def refuses(self, consumer: WaitingConsumer, size: int) -> bool:
        now_s = self._clock.monotonic_s
        if self._bucket.count(now_s) > 0:
            return False
        self.waiting[consumer] = None
        if self._timer is None:
            self._timer = self._timers.call_later(self._bucket.wait_s(now_s), self._on_time)
        return True

    def share_of(self, consumer: WaitingConsumer) -> int:
        return self._bucket.count(self._clock.monotonic_s)

    def use(self, consumer: WaitingConsumer, size: int) -> None:
        self._bucket.take(1, self._clock.monotonic_s)

    def use_all(self, consumer: WaitingConsumer, sizes: list[int]) -> None:
        self._bucket.take(len(sizes), self._clock.monotonic_s)

    def take_back(self, consumer: WaitingConsumer, size: int) -> None:
        self._bucket.give_back(1)

    def restore(self, size: int) -> None:
        """Settling gives nothing back."""

    def leave(self, consumer: WaitingConsumer) -> None:
        self.waiting.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _on_time(self) -> None:
        self._timer = None
        for consumer in list(self.waiting):
            del self.waiting[consumer]
            consumer.queue.activate(consumer)
