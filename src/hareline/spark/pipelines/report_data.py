"""Data of a report as plain values: made by ``report``, written as JSON, drawn by the page.

Times are microseconds; instants are those since 1970 in UTC, seconds where the name ends in ``_s``.
Counts are scaled to all messages if the audit is a sample; latencies are those of the sample.
Importing this needs neither pyspark nor pyarrow.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Final

#: The stages of a message's life, by their names in tables; what each measures is on the page.
PUBLISH_TO_DELIVER: Final = "publish to deliver"
DELIVER_TO_ACK: Final = "deliver to ack"
PUBLISH_TO_ACK: Final = "publish to ack"

#: A consumer is slow if its p95 is so many times the queue's median,
SLOW_RATIO: Final = 5.0
#: and it is as long as this, and of so many messages: less is noise.
SLOW_US_MIN: Final = 1_000
SLOW_ACKS_MIN: Final = 10

_BINS_MAX: Final = 180
_BIN_SECONDS: Final = (1, 5, 10, 30, 60, 300, 900, 3_600, 21_600, 86_400, 604_800)


@dataclass(frozen=True, slots=True)
class TimeBin:
    """Counts of one interval of the timeline."""

    start_s: int
    published: int = 0
    routed: int = 0
    delivered: int = 0
    acked: int = 0
    octets: int = 0


@dataclass(frozen=True, slots=True)
class LatencyBin:
    """The latency of messages that began a stage in one interval."""

    start_s: int
    stage: str
    p50_us: int
    p95_us: int
    p99_us: int


@dataclass(frozen=True, slots=True)
class Latency:
    """The latency of a stage in a queue; ``queue`` is None for all queues together."""

    queue: str | None
    stage: str
    messages: int
    p50_us: int
    p95_us: int
    p99_us: int
    max_us: int


@dataclass(frozen=True, slots=True)
class QueueTotals:
    """Messages of a queue by what happened to them."""

    queue: str
    routed: int = 0
    octets: int = 0
    delivered: int = 0
    redelivered: int = 0
    acked: int = 0
    rejected: int = 0
    requeued: int = 0
    expired: int = 0
    dropped: int = 0
    dead_lettered: int = 0

    @property
    def redelivery_rate(self) -> float:
        """The share of deliveries that were not the first one of their message."""
        return self.redelivered / self.delivered if self.delivered else 0.0


@dataclass(frozen=True, slots=True)
class DeadLetterCount:
    """Dead letters of a queue with the same reason and routing key."""

    reason: str
    queue: str
    routing_key: str
    messages: int


@dataclass(frozen=True, slots=True)
class ConsumerTotals:
    """Work of a consumer; its ``tag`` is empty for messages that were got one by one."""

    queue: str
    tag: str
    delivered: int
    acked: int
    p50_us: int | None
    p95_us: int | None
    max_us: int | None
    queue_p50_us: int | None
    unacked: int
    oldest_unacked_us: int | None

    @property
    def name(self) -> str:
        """Its tag, or a word for messages that were got one by one."""
        return self.tag or "(basic.get)"

    @property
    def ratio(self) -> float | None:
        """This consumer's p95 as a multiple of the queue's median."""
        if self.p95_us is None or not self.queue_p50_us:
            return None
        return self.p95_us / self.queue_p50_us

    @property
    def is_slow(self) -> bool:
        """True if the page points at it."""
        return (
            self.p95_us is not None
            and self.p95_us >= SLOW_US_MIN
            and self.acked >= SLOW_ACKS_MIN
            and (self.ratio or 0) >= SLOW_RATIO
        )


@dataclass(frozen=True, slots=True)
class ArchivedQueue:
    """Messages of a queue in an archive."""

    queue: str
    messages: int
    octets: int
    size_p50: int
    size_max: int
    first_us: int
    last_us: int

    @property
    def rate(self) -> float | None:
        """Messages a second; None without a span."""
        span_us = self.last_us - self.first_us
        return self.messages / span_us * 1e6 if span_us > 0 else None


@dataclass(frozen=True, slots=True)
class Report:
    """All of a report. ``missing``: what it does not cover, a sentence each."""

    source: str
    made_s: int
    share: float = 1.0
    events: int = 0
    first_us: int | None = None
    last_us: int | None = None
    published: int = 0
    unroutable: int = 0
    bin_s: int = 60
    timeline: Sequence[TimeBin] = ()
    latency_timeline: Sequence[LatencyBin] = ()
    latencies: Sequence[Latency] = ()
    queues: Sequence[QueueTotals] = ()
    #: How many queues there are in all; ``queues`` has those with the most messages.
    queue_count: int = 0
    dead_letters: Sequence[DeadLetterCount] = ()
    consumers: Sequence[ConsumerTotals] = ()
    archived: Sequence[ArchivedQueue] = ()
    totals: QueueTotals = field(default_factory=lambda: QueueTotals(""))
    missing: Sequence[str] = ()

    def as_json(self) -> dict[str, Any]:
        """The same in what JSON can say, with the figures that are worked out."""
        made = asdict(self)
        for written, totals in zip(made["queues"], self.queues, strict=True):
            written["redelivery_rate"] = totals.redelivery_rate
        for written, consumer in zip(made["consumers"], self.consumers, strict=True):
            written |= {"ratio": consumer.ratio, "is_slow": consumer.is_slow}
        return made


def bin_seconds(span_us: int) -> int:
    """The shortest interval that divides a span into a number of points that can be drawn."""
    for seconds in _BIN_SECONDS:
        if span_us <= seconds * 1_000_000 * _BINS_MAX:
            return seconds
    return _BIN_SECONDS[-1] * -(-span_us // (_BIN_SECONDS[-1] * 1_000_000 * _BINS_MAX))
