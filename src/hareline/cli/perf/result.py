"""Result of a load test: counts, rates and latencies of all processes together.

Latencies are counted in buckets that are 1 % wide, so that histograms of processes add up.
Invariant: a percentile is at most 1 % above the latency that it stands for; below 1 us it is 1 us.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import ceil, log
from typing import Any, Final

from hareline.cli.perf.plan import Plan

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


def result_of(plan: Plan, counters: Iterable[Any], seconds: float, roles: dict[str, int]) -> Any:
    """The result as data. ``counters``: those of each role, of the measured time."""
    totals = dict.fromkeys(("sent", "received", "confirmed", "refused", "returned"), 0)
    latency, confirms, blocked = Histogram(), Histogram(), ""
    for each in counters:
        blocked = blocked or each.blocked
        for name in totals:
            totals[name] += getattr(each, name)
        latency.merge(each.latency)
        confirms.merge(each.confirm_latency)
    return {
        "pattern": plan.pattern.value,
        **roles,
        "sizes": list(plan.sizes),
        "persistent": plan.is_persistent,
        "in_flight": plan.in_flight,
        "prefetch": plan.prefetch,
        "seconds": round(seconds, 3),
        **totals,
        "sent_per_s": round(totals["sent"] / seconds, 1) if seconds else 0.0,
        "received_per_s": round(totals["received"] / seconds, 1) if seconds else 0.0,
        "latency_ms": latency.summary(),
        "confirm_latency_ms": confirms.summary(),
        "blocked": blocked,
    }


def why_nothing_moved(result: dict[str, Any]) -> str:
    """Reason why no message came to a queue or a consumer; empty if one did."""
    taken = result["confirmed"] > result["returned"]
    if not result["in_flight"] and not result["consumers"]:  # nothing says more
        taken = bool(result["sent"])
    if taken or result["received"]:
        return ""
    if result["blocked"]:
        return f"the broker is {result['blocked']}, and blocks publishers"
    if result["returned"]:
        return "no queue takes them"
    if result["refused"]:
        return "the broker refused them all: the queue is full, or they cannot be stored"
    return f"none came within {result['seconds']:g} s"


def result_lines(result: dict[str, Any]) -> list[str]:
    """The result for people."""
    lines = [
        f"sent      {result['sent']:>12,}  {result['sent_per_s']:>12,.0f}/s",
        f"received  {result['received']:>12,}  {result['received_per_s']:>12,.0f}/s",
    ]
    lines += [f"{name:<9} {result[name]:>12,}" for name in ("refused", "returned") if result[name]]
    for title, key in (("latency", "latency_ms"), ("confirms", "confirm_latency_ms")):
        if result[key]:
            figures = "  ".join(f"{name} {value:.3f}" for name, value in result[key].items())
            lines.append(f"{title:<9} ms  {figures}")
    return lines
