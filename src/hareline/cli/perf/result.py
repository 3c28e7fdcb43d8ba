"""What a load test found: counts, rates and latencies of all processes together."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from hareline.cli.perf.latency import Histogram
from hareline.cli.perf.plan import Plan


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
    """Why no message came to a queue or a consumer; empty if one did."""
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
