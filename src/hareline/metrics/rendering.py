"""The text of a scrape, made piece by piece.

``management.api.metrics`` pauses between pieces, between which lie some dozen objects or lines. An
object is shown as of one instant, different objects as of different ones. A family stands in a
scrape once, with all its samples behind its head.
"""

from __future__ import annotations

import platform
from collections.abc import Collection, Iterator
from typing import Final, Literal

from hareline import __version__
from hareline.counts import ChannelCounts
from hareline.metrics import families as known
from hareline.metrics.exposition import Family, head, label, number, sample
from hareline.metrics.own import alone, of_objects
from hareline.metrics.rows import ROWS, Kind
from hareline.metrics.source import (
    Found,
    MetricsSource,
    descriptors_max,
    open_descriptors,
)

Endpoint = Literal["aggregated", "per-object", "detailed", "memory-breakdown"]

PREFIX: Final = "rabbitmq_"
DETAILED_PREFIX: Final = "rabbitmq_detailed_"
CLUSTER_PREFIX: Final = "rabbitmq_cluster_"
PROTOCOL: Final = label("protocol", "amqp091")
OBJECTS_PER_PIECE: Final = 32
LINES_PER_PIECE: Final = 128
#: What RabbitMQ's type of a queue is called in labels.
QUEUE_TYPES: Final = {
    "classic": "rabbit_classic_queue",
    "quorum": "rabbit_quorum_queue",
    "stream": "rabbit_stream_queue",
}
#: What a sum says nothing of.
NOT_SUMMED: Final = frozenset({"queue_head_message_timestamp"})
#: Families that another group has too, where all groups are shown.
REPEATED: Final = frozenset({"queue_consumer_count"})
_KINDS: Final[tuple[Kind, ...]] = ("queue", "channel", "connection", "exchange")


class Rendering:
    """One scrape; each of its methods gives the pieces of one endpoint, some of them empty."""

    def __init__(self, source: MetricsSource) -> None:
        self._source = source
        self._found: dict[Kind, list[Found]] = {}

    # ----------------------------------------------------------------------- endpoints

    def aggregated(self) -> Iterator[str]:
        """``/metrics``: sums over all objects."""
        for kind in _KINDS:
            yield from self._collect(kind)
        for group, families in known.GROUPS.items():
            if group in REPEATED:
                continue
            if group not in ROWS:
                yield self._of_node(group, families)
                continue
            sums: list[float] = []
            for row in self._sums(group):
                if row is None:
                    yield ""
                else:
                    sums = row
            for family, value in zip(families, sums, strict=True):
                if family.name not in NOT_SUMMED:
                    yield _single(PREFIX, family, value)
        yield from self._totals()
        yield from self._global()
        yield from alone(self._source, self._found)
        yield self._identity("aggregated")

    def per_object(self) -> Iterator[str]:
        """``/metrics/per-object``: each object on its own."""
        for kind in _KINDS:
            yield from self._collect(kind)
        for group, families in known.GROUPS.items():
            if group in ROWS:
                if group not in REPEATED:
                    yield from self._of_group(PREFIX, group, self._found[ROWS[group].kind])
            else:
                yield self._of_node(group, families)
        yield from self._queue_info(PREFIX, self._found["queue"])
        yield from self._totals()
        yield from self._global()
        yield from of_objects(self._found["queue"])
        yield from alone(self._source, self._found)
        yield self._identity("per-object")

    def detailed(self, groups: Collection[str], vhosts: Collection[str]) -> Iterator[str]:
        """``/metrics/detailed``: these groups; ``vhosts``: of queues and exchanges there only."""
        wanted = [group for group in known.GROUPS if group in groups]
        if "queue_metrics" in wanted and "queue_consumer_count" in wanted:
            wanted.remove("queue_consumer_count")
        has_queues = False
        for group in wanted:
            if group not in ROWS:
                yield self._of_node(group, known.GROUPS[group], DETAILED_PREFIX)
                continue
            kind = ROWS[group].kind
            yield from self._collect(kind)
            found = self._found[kind]
            if vhosts and kind in ("queue", "exchange"):
                found = [each for each in found if each.vhost in vhosts]
            has_queues = has_queues or kind == "queue"
            yield from self._of_group(DETAILED_PREFIX, group, found)
        if has_queues:
            queues = [each for each in self._found["queue"] if not vhosts or each.vhost in vhosts]
            yield from self._queue_info(DETAILED_PREFIX, queues)
        for group, families in known.CLUSTER_GROUPS.items():
            if group in groups:
                yield from self._of_cluster(families[0], vhosts)
        yield self._identity("detailed")

    def memory_breakdown(self) -> Iterator[str]:
        """``/metrics/memory-breakdown``: what the memory of the process is used for."""
        yield from self._collect("queue")
        used, _ = self._source.memory()
        bodies = entries = 0
        for start, facts in enumerate(each.facts for each in self._found["queue"]):
            bodies += facts.in_memory_bytes
            entries += max(0, facts.memory - facts.in_memory_bytes)
            if not start % LINES_PER_PIECE:
                yield ""
        values = (bodies, entries, max(0, used - bodies - entries))
        for family, value in zip(known.MEMORY, values, strict=True):
            yield _single(PREFIX, family, value)
        yield self._identity("memory-breakdown")

    # -------------------------------------------------------------------------- objects

    def _collect(self, kind: Kind) -> Iterator[str]:
        """Read all objects of a kind, unless this scrape has them already."""
        if kind in self._found:
            return
        found: list[Found] = []
        for count, each in enumerate(self._source.objects(kind), 1):
            if each is not None:
                found.append(each)
            if not count % OBJECTS_PER_PIECE:
                yield ""
        self._found[kind] = found

    def _sums(self, group: str) -> Iterator[list[float] | None]:
        """The sums of a group, at last; None at each pause before."""
        rows = ROWS[group]
        sums: list[float] = [0] * len(known.GROUPS[group])
        if rows.gone is not None:
            gone = rows.gone(self._source.context.counts)
            sums = [0 if value is None else value for value in gone]
        for count, each in enumerate(self._found[rows.kind], 1):
            for index, value in enumerate(rows.read(each.facts)):
                if value is not None:
                    sums[index] += value
            if not count % OBJECTS_PER_PIECE:
                yield None
        yield sums

    def _of_group(self, prefix: str, group: str, found: list[Found]) -> Iterator[str]:
        read = ROWS[group].read
        rows = []
        for count, each in enumerate(found, 1):
            rows.append((each.labels, read(each.facts)))
            if not count % OBJECTS_PER_PIECE:
                yield ""
        for index, family in enumerate(known.GROUPS[group]):
            yield head(prefix, family)
            name = f"{prefix}{family.name}"
            for start in range(0, len(rows), LINES_PER_PIECE):
                yield "".join(
                    [
                        f"{name}{{{labels}}} {number(value)}\n"
                        for labels, row in rows[start : start + LINES_PER_PIECE]
                        if (value := row[index]) is not None
                    ]
                )

    def _queue_info(self, prefix: str, found: list[Found]) -> Iterator[str]:
        yield head(prefix, known.QUEUE_INFO)
        name = f"{prefix}{known.QUEUE_INFO.name}"
        for start in range(0, len(found), LINES_PER_PIECE):
            yield "".join(
                [
                    f'{name}{{{each.labels},queue_type="{QUEUE_TYPES[each.kind_of_queue]}",'
                    'membership="leader"} 1\n'
                    for each in found[start : start + LINES_PER_PIECE]
                ]
            )

    def _of_cluster(self, family: Family, vhosts: Collection[str]) -> Iterator[str]:
        yield head(CLUSTER_PREFIX, family)
        name = f"{CLUSTER_PREFIX}{family.name}"
        for vhost in list(self._source.context.vhosts.values()):
            if vhosts and vhost.name not in vhosts:
                continue
            of_vhost = label("vhost", vhost.name)
            if family.name == "vhost_status":
                yield sample(name, of_vhost, 1)
                continue
            for exchange in list(vhost.exchanges.values()):
                if exchange.is_internal or not exchange.name:
                    continue
                count = 1
                if family.name == "exchange_bindings":
                    count = vhost.bindings.count_from(exchange.name)
                labels = (
                    of_vhost,
                    label("exchange", exchange.name),
                    label("type", exchange.type_name),
                )
                yield sample(name, ",".join(labels), count)

    # ------------------------------------------------------------------------ the broker

    def _of_node(self, group: str, families: tuple[Family, ...], prefix: str = PREFIX) -> str:
        values = self._node_values(group)
        labels = PROTOCOL if group == "auth_attempt_metrics" else ""
        return "".join(
            [
                head(prefix, family) + sample(f"{prefix}{family.name}", labels, value)
                for family, value in zip(families, values, strict=True)
            ]
        )

    def _node_values(self, group: str) -> tuple[float, ...]:
        source = self._source
        counts, limits = source.context.counts, source.context.limits
        if group == "connection_churn_metrics":
            return counts.churn.values()
        if group == "auth_attempt_metrics":
            failed = counts.auth_attempts_failed
            return counts.auth_attempts, counts.auth_attempts - failed, failed
        if group == "node_coarse_metrics":
            sockets = len(source.context.connections)
            return open_descriptors(), sockets, source.memory()[0], source.disk()[0]
        if group == "node_metrics":
            descriptors = descriptors_max()
            sockets_max = limits.max_connections or descriptors
            marks = source.memory()[1], source.disk()[1]
            return descriptors, sockets_max, *marks, round(source.uptime_s, 3)
        assert group == "node_persister_metrics", group
        journal = source.meters.journal
        writes, syncs = journal.writes, journal.syncs
        return writes.count, journal.octets, syncs.count, writes.sum_s, syncs.sum_s

    def _totals(self) -> Iterator[str]:
        found = self._found
        consumers = sum(each.facts.consumer_count for each in found["channel"])
        counts = (len(found["connection"]), len(found["channel"]), consumers, len(found["queue"]))
        for family, value in zip(known.TOTALS, counts, strict=True):
            yield _single(PREFIX, family, value)
        resources = self._source.context.alarms.resources
        alarms = (False, "disk" in resources, "memory" in resources)
        for family, is_on in zip(known.ALARMS, alarms, strict=True):
            yield _single(PREFIX, family, is_on)

    def _global(self) -> Iterator[str]:
        """Counters that RabbitMQ has by protocol, which never fall."""
        context = self._source.context
        sums = ChannelCounts()
        sums.add(context.counts.gone.channels)
        publishers = consumers = 0
        for count, each in enumerate(self._found["channel"], 1):
            sums.add(each.facts.counts)
            publishers += each.facts.counts.publish > 0
            consumers += each.facts.consumer_count
            if not count % OBJECTS_PER_PIECE:
                yield ""
        unroutable = sums.drop_unroutable + sums.return_unroutable
        by_protocol = (
            *(sums.publish, sums.confirm, sums.publish - unroutable),
            *(sums.drop_unroutable, sums.return_unroutable, sums.confirm),
            *(publishers, consumers),
        )
        for family, value in zip(known.GLOBAL_PROTOCOL, by_protocol, strict=True):
            yield _single(PREFIX, family, value, PROTOCOL)
        labels = f'{PROTOCOL},queue_type="rabbit_classic_queue"'
        by_type = (
            *(sums.deliver_get, sums.deliver, sums.deliver_no_ack, sums.get, sums.get_no_ack),
            *(sums.get_empty, sums.redeliver, sums.ack),
        )
        for family, value in zip(known.GLOBAL_QUEUE_TYPE, by_type, strict=True):
            yield _single(PREFIX, family, value, labels)
        labels = 'queue_type="rabbit_classic_queue",dead_letter_strategy="at_most_once"'
        schedulers = [each.environment.dead_letter_scheduler for each in context.vhosts.values()]
        for reason, family in known.GLOBAL_DEAD_LETTERS.items():
            dead = sum(scheduler.sent_counts.get(reason, 0) for scheduler in schedulers)
            yield _single(PREFIX, family, dead, labels)

    def _identity(self, endpoint: Endpoint) -> str:
        identity = self._source.context.identity
        build = (
            label("rabbitmq_version", identity.version),
            label("product_name", "Hareline"),
            label("product_version", __version__),
            label("python_version", platform.python_version()),
        )
        who = (
            label("rabbitmq_node", identity.node),
            label("rabbitmq_cluster", identity.cluster_name),
            label("rabbitmq_endpoint", endpoint),
        )
        return _single(PREFIX, known.BUILD_INFO, 1, ",".join(build)) + _single(
            PREFIX, known.IDENTITY_INFO, 1, ",".join(who)
        )


def _single(prefix: str, family: Family, value: float, labels: str = "") -> str:
    """A family with one sample."""
    return head(prefix, family) + sample(f"{prefix}{family.name}", labels, value)
