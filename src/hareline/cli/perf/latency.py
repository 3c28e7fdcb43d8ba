"""Counts of latencies in buckets that are 1 % wide, so that histograms of processes add up.

Invariant: a percentile is at most 1 % above the latency that it stands for; below 1 us it is 1 us.
"""

from __future__ import annotations

from math import ceil, log
from typing import Final

_GROWTH: Final = 1.01
_LOG: Final = log(_GROWTH)
PERCENTILES: Final = (50.0, 75.0, 95.0, 99.0, 99.9)


class Histogram:
    """``buckets``: how many latencies fell into each, by its number."""

    __slots__ = ("buckets", "count", "max_ns", "total_ns")

    def __init__(self) -> None:
        self.buckets: dict[int, int] = {}
        self.count = 0
        self.total_ns = 0
        self.max_ns = 0

    def add(self, ns: int) -> None:
        """Count one latency."""
        bucket = ceil(log(ns / 1000) / _LOG) if ns > 1000 else 0
        self.buckets[bucket] = self.buckets.get(bucket, 0) + 1
        self.count += 1
        self.total_ns += ns
        self.max_ns = max(self.max_ns, ns)

    def merge(self, other: Histogram) -> None:
        """Count what another one has counted, too."""
        for bucket, count in other.buckets.items():
            self.buckets[bucket] = self.buckets.get(bucket, 0) + count
        self.count += other.count
        self.total_ns += other.total_ns
        self.max_ns = max(self.max_ns, other.max_ns)

    def percentile_ms(self, percent: float) -> float:
        """The latency that so many percent do not exceed."""
        wanted = ceil(self.count * percent / 100)
        seen = 0
        for bucket in sorted(self.buckets):
            seen += self.buckets[bucket]
            if seen >= wanted:
                return min(_GROWTH**bucket / 1000, self.max_ns / 1e6 or 0.001)
        return 0.0

    def summary(self) -> dict[str, float]:
        """Percentiles, mean and maximum in milliseconds; empty if nothing was counted."""
        if not self.count:
            return {}
        found = {f"p{percent:g}": self.percentile_ms(percent) for percent in PERCENTILES}
        found |= {"mean": self.total_ns / self.count / 1e6, "max": self.max_ns / 1e6}
        return {name: round(value, 3) for name, value in found.items()}
