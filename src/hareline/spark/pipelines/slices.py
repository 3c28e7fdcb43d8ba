"""Where an archive may be cut so that a replay of one piece after the other keeps the order.

Arrivals grow with offsets unless the broker's clock was set back. A cut between two buckets of
time is allowed where, for each log, all offsets before it are lower than all behind it.
``replay`` counts the messages of each bucket and publishes the spans in turn.

Invariant: the spans are in order, do not overlap, and have all messages that were counted.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

#: A queue, and which of the queues that had this name.
Log = tuple[str, str]


class Span(NamedTuple):
    """Times of arrival in epoch microseconds; the end is exclusive."""

    start: int
    end: int


class BucketCount(NamedTuple):
    """Messages of one log that arrived in one bucket of time."""

    span: Span
    log: Log
    messages: int
    first_offset: int
    last_offset: int
    first_us: int


def spans_of(counts: Iterable[BucketCount], messages_min: int) -> list[Span]:
    """Spans of at least so many messages each, but for the last, where cuts are allowed."""
    by_bucket: dict[Span, list[BucketCount]] = {}
    for each in counts:
        by_bucket.setdefault(each.span, []).append(each)
    buckets = sorted(by_bucket)
    least_behind = _least_behind([by_bucket[each] for each in buckets])
    spans: list[Span] = []
    highest: dict[Log, int] = {}
    start: int | None = None
    messages = 0
    for bucket, behind in zip(buckets, least_behind, strict=True):
        if start is None:
            start = bucket.start
        for each in by_bucket[bucket]:
            highest[each.log] = max(each.last_offset, highest.get(each.log, -1))
            messages += each.messages
        may_cut = all(behind[log] > offset for log, offset in highest.items() if log in behind)
        if (may_cut and messages >= messages_min) or not behind:
            spans.append(Span(start, bucket.end))
            start, messages = None, 0
    return spans


def _least_behind(buckets: list[list[BucketCount]]) -> list[dict[Log, int]]:
    """For each bucket the lowest offset of each log in those behind it."""
    behind: dict[Log, int] = {}
    found = []
    for counts in reversed(buckets):
        found.append(dict(behind))
        for each in counts:
            behind[each.log] = min(each.first_offset, behind.get(each.log, each.first_offset))
    found.reverse()
    return found
