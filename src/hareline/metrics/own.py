"""This broker's own metrics, with the prefix ``hareline_``; docs/metrics.md explains them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import SimpleNamespace
from typing import Final

from hareline.metrics.exposition import Family, head, histogram, label, number, sample
from hareline.metrics.source import Found, Kind, MetricsSource
from hareline.metrics.table import counters, gauges, metrics
from hareline.statistics.facts import TlsFacts
from hareline.statistics.timings import BOUNDS

PREFIX: Final = "hareline_"
LINES_PER_PIECE: Final = 128

_TIMES: Final = metrics(
    "histogram",
    event_loop_lag_seconds="loop_lag: How much later than asked for the event loop calls timers "
    "back",
    turn_seconds="turns: How long the ends of turns take: deliveries, hand-over to the journal, "
    "writes to sockets",
    gc_pause_seconds="collections: How long runs of the garbage collector take",
    journal_write_seconds="journal.writes: How long a batch takes to be written",
    journal_sync_seconds="journal.syncs: How long a batch takes to be synced to the disk",
)
_HELD: Final = Family("queue_messages_held", "gauge", "Messages that are not valid yet, or delayed")
_SCALARS: Final = (
    *gauges(
        messages_held="held: Messages that are not valid yet, or delayed",
        messages_paged_out="paged_out: Messages of which only the place on disk is kept",
    ),
    *counters(messages_read_back_total="read_back: Messages that were read back from disk"),
    *gauges(
        connections_blocked="blocked: Connections that a resource alarm blocks",
        store_refusing="is_refusing: is 1 if new persistent messages are refused for want of room",
        store_failed="has_failed: is 1 if nothing is stored until the broker is restarted",
    ),
    *counters(
        process_cpu_seconds_total="source.cpu_s: Processor time of the broker's process",
        turns_behind_total="turn.behind_count: Turns at whose end deliveries or the journal had "
        "not kept up, so that publishers wait",
        turns_store_behind_total="turn.store_behind_count: Turns at whose end too much waited for "
        "the journal",
        dispatches_left_total="turn.left_count: Queues that a turn left to the next one, since "
        "their share or its time was used up",
        journal_written_bytes_total="source.meters.journal.octets: Octets of all batches of the "
        "journal",
    ),
)
_DEAD_LETTERS: Final = Family(
    "messages_dead_lettered_total", "counter", "Dead letters that were published, by reason"
)
_DUPLICATES: Final = Family(
    "messages_duplicate_total",
    "counter",
    "Publishes confirmed and not taken, by what knew them: their number, or a queue",
)
_TRACED: Final = Family(
    "firehose_messages_total", "counter", "Copies that the firehose published, or lost"
)
_EVENTS: Final = Family(
    "events_total", "counter", "Events that the event exchange published, or lost"
)
_LIMITS: Final = Family(
    "limits_reached_total",
    "counter",
    "How often a limit has refused something, made it wait or ended it, by the limit's name",
)
_SLOW: Final = Family(
    "slow_consumers_total",
    "counter",
    "Consumers that were found slow, or held a message for too long, by what was done with them",
)
_HANDSHAKES: Final = Family(
    "tls_handshakes_total", "counter", "TLS handshakes that were done, or have failed"
)
_CERTIFICATES: Final = Family(
    "tls_certificate_expiry_timestamp_seconds",
    "gauge",
    "When a certificate ends: the broker's own ones, and authorities of its clients",
)


def alone(source: MetricsSource, found: Mapping[Kind, list[Found]]) -> Iterator[str]:
    """The pieces that are about the whole broker."""
    for metric in _TIMES:
        times = metric.read(source.meters)
        yield histogram(PREFIX, metric.family, BOUNDS, times.buckets, times.sum_s)
    held = paged_out = 0
    read_back = source.context.counts.gone.queues.disk_reads
    for count, each in enumerate(found["queue"], 1):
        held += each.facts.held
        paged_out += each.facts.paged_out
        read_back += each.facts.counts.disk_reads
        if not count % LINES_PER_PIECE:
            yield ""
    values = SimpleNamespace(
        source=source,
        turn=source.context.turn,
        held=held,
        paged_out=paged_out,
        read_back=read_back,
        blocked=sum(each.facts.state == "blocked" for each in found["connection"]),
        is_refusing=bool(source.store.refusal),
        has_failed=bool(source.store.failure),
    )
    for metric in _SCALARS:
        family = metric.family
        yield head(PREFIX, family) + sample(f"{PREFIX}{family.name}", "", metric.read(values))
    yield _dead_letters(source)
    yield _duplicates(source)
    yield _copies(source)
    yield _limits(source)
    yield _slow_consumers(source)
    yield _tls(source.tls())


def _dead_letters(source: MetricsSource) -> str:
    sums: dict[str, int] = {}
    for vhost in source.context.vhosts.values():
        for reason, count in vhost.environment.dead_letter_scheduler.sent_counts.items():
            sums[reason] = sums.get(reason, 0) + count
    name = f"{PREFIX}{_DEAD_LETTERS.name}"
    lines = [sample(name, label("reason", reason), count) for reason, count in sorted(sums.items())]
    return head(PREFIX, _DEAD_LETTERS) + "".join(lines)


def _duplicates(source: MetricsSource) -> str:
    name = f"{PREFIX}{_DUPLICATES.name}"
    lines = [head(PREFIX, _DUPLICATES)]
    for vhost in source.context.vhosts.values():
        counts = {"number": vhost.producers.duplicate_count, **vhost.environment.duplicate_counts}
        of_vhost = label("vhost", vhost.name)
        lines += [sample(name, f"{of_vhost},{label('by', by)}", n) for by, n in counts.items()]
    return "".join(lines)


def _limits(source: MetricsSource) -> str:
    name, reached = f"{PREFIX}{_LIMITS.name}", source.context.counts.limits_reached.by_limit
    lines = [sample(name, label("limit", limit), count) for limit, count in sorted(reached.items())]
    return head(PREFIX, _LIMITS) + "".join(lines)


def _slow_consumers(source: MetricsSource) -> str:
    name, counts = f"{PREFIX}{_SLOW.name}", source.context.counts.slow_consumers
    lines = [
        sample(name, f"{label('rule', rule)},{label('action', action)}", count)
        for (rule, action), count in sorted(counts.items())
    ]
    return head(PREFIX, _SLOW) + "".join(lines)


def _copies(source: MetricsSource) -> str:
    """Copies that firehoses and the event exchange have published and lost."""
    lines = [head(PREFIX, _TRACED)]
    for vhost in source.context.vhosts.values():
        firehose, of_vhost = vhost.firehose, label("vhost", vhost.name)
        outcomes = {"published": firehose.published_count, "lost": firehose.lost.count}
        lines += _by_outcome(_TRACED, f"{of_vhost},", outcomes)
    events = source.context.events
    if events is not None:
        lines.append(head(PREFIX, _EVENTS))
        outcomes = {"published": events.published_count, "lost": events.lost.count}
        lines += _by_outcome(_EVENTS, "", outcomes)
    return "".join(lines)


def _by_outcome(family: Family, labels: str, outcomes: Mapping[str, int]) -> list[str]:
    name = f"{PREFIX}{family.name}"
    return [
        sample(name, labels + label("outcome", outcome), count)
        for outcome, count in outcomes.items()
    ]


def of_objects(queues: list[Found]) -> Iterator[str]:
    """The pieces that are about each queue."""
    yield head(PREFIX, _HELD)
    name = f"{PREFIX}{_HELD.name}"
    for start in range(0, len(queues), LINES_PER_PIECE):
        yield "".join(
            [
                f"{name}{{{each.labels}}} {number(each.facts.held)}\n"
                for each in queues[start : start + LINES_PER_PIECE]
            ]
        )


def _tls(facts: TlsFacts | None) -> str:
    """Handshakes, and the ends of certificates; nothing where no port has TLS."""
    if facts is None:
        return ""
    name = f"{PREFIX}{_HANDSHAKES.name}"
    lines = [
        head(PREFIX, _HANDSHAKES),
        sample(name, label("outcome", "done"), facts.handshakes),
        sample(name, label("outcome", "failed"), facts.failed_handshakes),
        head(PREFIX, _CERTIFICATES),
    ]
    for each in facts.certificates:
        labels = (
            label("file", each.file),
            label("kind", "authority" if each.is_authority else "server"),
            label("serial", each.serial),
            label("subject", each.subject),
        )
        name = f"{PREFIX}{_CERTIFICATES.name}"
        lines.append(sample(name, ",".join(labels), each.not_after_ms // 1000))
    return "".join(lines)
