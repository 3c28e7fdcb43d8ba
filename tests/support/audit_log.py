"""Audit events of a made-up broker, and what a report has to make of them, in plain Python.

`audit_log` is a list of events as the broker writes them; `expected_report` works out the same
figures as ``hareline.spark.pipelines.audit_events`` without any of its code, message by message.
"""

from __future__ import annotations

import json
import math
import random
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any

Event = dict[str, Any]

START_US = 1_767_607_200_000_000  # 2026-01-05T10:00:00Z
QUEUES = ("orders", "<b>bills</b> & co", "007", "größe \u202e x")
LEAVING = ("acked", "rejected", "requeued", "expired", "dropped", "dead-lettered")


def audit_log(
    message_count: int, *, seed: int = 1, span_s: float = 90, slow_consumer: str = "slow"
) -> list[Event]:
    """Events of this many messages over a span, in the order of their times."""
    chance = random.Random(seed)
    events: list[Event] = []
    offsets: dict[str, int] = defaultdict(int)

    for _ in range(message_count):
        queue = chance.choices(QUEUES, (60, 25, 10, 5))[0]
        offset = offsets[queue]
        offsets[queue] += 1
        key, size = f"{queue}.{chance.randrange(3)}", chance.randrange(1000)
        now = START_US + int(chance.random() * span_s * 1e6)
        address = {"exchange": "shop", "routing_key": key, "size": size}
        place = {"queue": queue, "offset": offset, **address}
        events.append({"ts_us": now, "event": "published", **address, "queues": 1})
        events.append({"ts_us": now, "event": "routed", **place})
        events += _life(chance, now, place, slow_consumer)
    events.append({"ts_us": START_US + 5, "event": "published", "size": 7, "queues": 0})
    events.append({"ts_us": START_US + 5, "event": "unroutable", "size": 7, "routing_key": "x"})
    events.sort(key=lambda each: int(each["ts_us"]))
    return events


def _life(chance: random.Random, now: int, place: Event, slow: str) -> Iterable[Event]:
    """What happens to one message after it has come to its queue."""
    fate = chance.random()
    now += int(chance.expovariate(1 / 3_000))
    if fate < 0.02:
        yield {"ts_us": now, "event": "expired", **place, "delivery_count": 0}
        dead = {"reason": "expired", "delivery_count": 0}
        yield {"ts_us": now, "event": "dead-lettered", **place, **dead}
        return
    if fate < 0.03:
        yield {"ts_us": now, "event": "dropped", **place, "reason": "maxlen", "delivery_count": 0}
        return
    if fate < 0.04:
        return
    returns = 0
    while True:
        tag = chance.choices(("fast", "other", slow, ""), (50, 40, 8, 2))[0]
        consumer = {"consumer_tag": tag} if tag else {}
        yield {"ts_us": now, "event": "delivered", **place, **consumer, "delivery_count": returns}
        if fate < 0.05:
            return
        if fate < 0.20 and tag != slow:
            automatic = {"reason": "automatic", "delivery_count": returns}
            yield {"ts_us": now, "event": "acked", **place, **automatic}
            return
        now += 1 + int(chance.expovariate(1 / (80_000 if tag == slow else 2_000)))
        left = {**place, **consumer, "delivery_count": returns}
        if chance.random() < 0.1:
            yield {"ts_us": now, "event": "requeued", **left}
            returns += 1
            now += 1 + int(chance.expovariate(1 / 1_000))
            continue
        if chance.random() < 0.03:
            yield {"ts_us": now, "event": "rejected", **left}
            dead = {"reason": "rejected", "delivery_count": returns}
            yield {"ts_us": now, "event": "dead-lettered", **place, **dead}
            return
        yield {"ts_us": now, "event": "acked", **left}
        return


def bodies_of(events: Sequence[Event], events_per_body: int = 7) -> list[bytes]:
    """Bodies of messages of the audit stream."""
    lines = [json.dumps(each) for each in events]
    return [
        ("\n".join(lines[start : start + events_per_body]) + "\n").encode("ascii")
        for start in range(0, len(lines), events_per_body)
    ]


def percentile(values: Sequence[int], share: float) -> int:
    """The smallest value that so many of all are not above."""
    return sorted(values)[max(math.ceil(share * len(values)) - 1, 0)]


def expected_totals(events: Sequence[Event]) -> dict[str, dict[str, int]]:
    """For each queue, how many messages each thing happened to, and octets."""
    found: dict[str, dict[str, int]] = defaultdict(lambda: defaultdict(int))
    for each in events:
        if "queue" in each:
            totals = found[each["queue"]]
            totals[each["event"].replace("-", "_")] += each.get("count", 1)
            if each["event"] == "routed":
                totals["octets"] += each["size"]
            if each["event"] == "delivered" and each["delivery_count"]:
                totals["redelivered"] += 1
    return found


def expected_stages(events: Sequence[Event]) -> dict[tuple[str, str], list[int]]:
    """How long each stage of each message lasted, by queue and stage."""
    lives: dict[tuple[str, int], list[Event]] = defaultdict(list)
    for each in events:
        if "offset" in each and "count" not in each:
            lives[each["queue"], each["offset"]].append(each)
    found: dict[tuple[str, str], list[int]] = defaultdict(list)
    for (queue, _), life in lives.items():
        routed = [each["ts_us"] for each in life if each["event"] == "routed"]
        delivered = [each["ts_us"] for each in life if each["event"] == "delivered"]
        acked = [each["ts_us"] for each in life if each["event"] == "acked"]
        if len(routed) > 1:
            continue
        if routed and delivered:
            found[queue, "publish to deliver"].append(min(delivered) - routed[0])
        if delivered and acked:
            found[queue, "deliver to ack"].append(max(acked) - min(delivered))
        if routed and acked:
            found[queue, "publish to ack"].append(max(acked) - routed[0])
    return found


def expected_consumers(events: Sequence[Event]) -> dict[tuple[str, str], dict[str, Any]]:
    """For each queue and tag: deliveries, times from deliver to ack, and since when not acked."""
    found: dict[tuple[str, str], dict[str, Any]] = defaultdict(
        lambda: {"delivered": 0, "us": [], "unacked_since": []}
    )
    held: dict[tuple[str, int], tuple[str, int]] = {}
    for each in events:
        if "offset" not in each or "count" in each:
            continue
        message = each["queue"], each["offset"]
        if each["event"] == "delivered":
            tag = each.get("consumer_tag", "")
            found[each["queue"], tag]["delivered"] += 1
            held[message] = tag, each["ts_us"]
        elif each["event"] in LEAVING and message in held:
            tag, since = held.pop(message)
            if each["event"] == "acked" and each.get("reason") != "automatic":
                found[each["queue"], tag]["us"].append(each["ts_us"] - since)
    for (queue, _), (tag, since) in held.items():
        found[queue, tag]["unacked_since"].append(since)
    return found
