"""A rate as a bucket of tokens: so many a second come in, and as many fit in as come in a second.

Of connections that are accepted (``net.accepting``) and of what a user publishes
(``amqp.publish_rate``). It may be overdrawn, and says then how long to wait, so that whoever comes
together waits in the order of coming.

Invariant: over any time, no more is taken than has come in, and what fitted in at its beginning.
"""

from __future__ import annotations


class TokenBucket:
    """``rate``: tokens a second, above 0. A new one is full; less than 1 token never fits in."""

    __slots__ = ("_at_s", "_level", "rate")

    def __init__(self, rate: float, now_s: float) -> None:
        self.rate = rate
        self._level = self._size
        self._at_s = now_s

    @property
    def _size(self) -> float:
        return max(self.rate, 1.0)

    def take(self, count: float, now_s: float) -> float:
        """Take tokens, also those that are not there; returns in how many seconds they are."""
        self._fill(now_s)
        self._level -= count
        return -self._level / self.rate if self._level < 0 else 0.0

    def give_back(self, count: float) -> None:
        """Undo that so many were taken."""
        self._level = min(self._level + count, self._size)

    def is_full(self, now_s: float) -> bool:
        """True if nothing was taken for long enough: a new bucket would be no different."""
        self._fill(now_s)
        return self._level >= self._size

    def set_rate(self, rate: float, now_s: float) -> None:
        """Another rate from now on; what was taken stays taken."""
        self._fill(now_s)
        self.rate = rate
        self._level = min(self._level, self._size)

    def _fill(self, now_s: float) -> None:
        if now_s > self._at_s:
            self._level = min(self._level + (now_s - self._at_s) * self.rate, self._size)
            self._at_s = now_s
