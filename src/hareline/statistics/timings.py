"""Durations of recurring work: turns, collections, lags of the event loop.

``net.sampling`` fills these, the metrics and ``statistics.sources`` read them. The numbers only
grow, but for ``take_max``.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import Final

#: Upper bounds of the buckets in seconds; one more bucket is for everything above.
BOUNDS: Final = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5)


class Timings:
    """``count`` times, ``sum_s`` seconds in all, and how many were in each bucket.

    ``last_s``: the latest one.
    """

    __slots__ = ("_max_s", "buckets", "last_s", "sum_s")

    def __init__(self) -> None:
        self.buckets = [0] * (len(BOUNDS) + 1)
        self.sum_s = 0.0
        self.last_s = 0.0
        self._max_s = 0.0

    def add(self, seconds: float) -> None:
        """One more."""
        self.sum_s += seconds
        self.last_s = seconds
        self._max_s = max(self._max_s, seconds)
        self.buckets[bisect_left(BOUNDS, seconds)] += 1

    @property
    def count(self) -> int:
        """Number of durations."""
        return sum(self.buckets)

    def take_max(self) -> float:
        """The longest since the last call."""
        longest, self._max_s = self._max_s, 0.0
        return longest
