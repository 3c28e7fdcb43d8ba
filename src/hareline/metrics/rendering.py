"""The text of a scrape, made piece by piece.

``management.api.metrics`` pauses between pieces, between which lie some dozen objects or lines. An
object is shown as of one instant, different objects as of different ones. A family stands in a
scrape once, with all its samples behind its head.
"""

from __future__ import annotations

import platform
from collections.abc import Collection, Iterable, Iterator
from types import SimpleNamespace
from typing import Final, Literal, get_args

from hareline import __version__
from hareline.counts import ChannelCounts
from hareline.metrics import table
from hareline.metrics.exposition import Family, head, label, number, sample
from hareline.metrics.own import alone, of_objects
from hareline.metrics.source import Found, Kind, MetricsSource
from hareline.metrics.table import PROTOCOL, Group, Metric
from hareline.queues.core.kinds import DeathReason

Endpoint = Literal["aggregated", "per-object", "detailed", "memory-breakdown"]

PREFIX: Final = "rabbitmq_"
DETAILED_PREFIX: Final = "rabbitmq_detailed_"
CLUSTER_PREFIX: Final = "rabbitmq_cluster_"
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
        for name, group in table.GROUPS.items():
            if name in REPEATED:
                continue
            if group.kind == "broker":
                yield _all(PREFIX, group.metrics, self._source, group.labels)
                continue
            sums = group.gone(self._source.context.counts)
            yield from self._add(sums, group, self._found[group.kind])
            for metric, value in zip(group.metrics, sums, strict=True):
                if metric.family.name not in NOT_SUMMED:
                    yield _single(PREFIX, metric.family, value)
        yield from self._totals()
        yield from self._global()
        yield from alone(self._source, self._found)
        yield self._identity("aggregated")

    def per_object(self) -> Iterator[str]:
        """``/metrics/per-object``: each object on its own."""
        for kind in _KINDS:
            yield from self._collect(kind)
        for name, group in table.GROUPS.items():
            if group.kind == "broker":
                yield _all(PREFIX, group.metrics, self._source, group.labels)
            elif name not in REPEATED:
                yield from self._of_group(PREFIX, group, self._found[group.kind])
        yield from self._queue_info(PREFIX, self._found["queue"])
        yield from self._totals()
        yield from self._global()
        yield from of_objects(self._found["queue"])
        yield from alone(self._source, self._found)
        yield self._identity("per-object")

    def detailed(self, groups: Collection[str], vhosts: Collection[str]) -> Iterator[str]:
        """``/metrics/detailed``: these groups; ``vhosts``: of queues and exchanges there only."""
        wanted = [name for name in table.GROUPS if name in groups]
        if "queue_metrics" in wanted and "queue_consumer_count" in wanted:
            wanted.remove("queue_consumer_count")
        has_queues = False
        for name in wanted:
            group = table.GROUPS[name]
            kind = group.kind
            if kind == "broker":
                yield _all(DETAILED_PREFIX, group.metrics, self._source, group.labels)
                continue
            yield from self._collect(kind)
            found = self._found[kind]
            if vhosts and kind in ("queue", "exchange"):
                found = [each for each in found if each.vhost in vhosts]
            has_queues = has_queues or kind == "queue"
            yield from self._of_group(DETAILED_PREFIX, group, found)
        if has_queues:
            queues = [each for each in self._found["queue"] if not vhosts or each.vhost in vhosts]
            yield from self._queue_info(DETAILED_PREFIX, queues)
        for name, family in table.CLUSTER_GROUPS.items():
            if name in groups:
                yield from self._of_cluster(family, vhosts)
        yield self._identity("detailed")

    def memory_breakdown(self) -> Iterator[str]:
        """``/metrics/memory-breakdown``: what the memory of the process is used for."""
        yield from self._collect("queue")
        used = self._source.used_memory
        bodies = entries = 0
        for start, facts in enumerate(each.facts for each in self._found["queue"]):
            bodies += facts.in_memory_bytes
            entries += max(0, facts.memory - facts.in_memory_bytes)
            if not start % LINES_PER_PIECE:
                yield ""
        other = max(0, used - bodies - entries)
        uses = SimpleNamespace(bodies=bodies, entries=entries, other=other)
        yield _all(PREFIX, table.MEMORY, uses)
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

    def _add(self, sums: list[float], group: Group, found: list[Found]) -> Iterator[str]:
        """Add the values of all objects to ``sums``; pauses some objects apart."""
        read = group.reader()
        for count, each in enumerate(found, 1):
            for index, value in enumerate(read(each.facts)):
                if value is not None:
                    sums[index] += value
            if not count % OBJECTS_PER_PIECE:
                yield ""

    def _of_group(self, prefix: str, group: Group, found: list[Found]) -> Iterator[str]:
        rows, read = [], group.reader()
        for count, each in enumerate(found, 1):
            rows.append((each.labels, read(each.facts)))
            if not count % OBJECTS_PER_PIECE:
                yield ""
        for index, (family, _) in enumerate(group.metrics):
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
        yield head(prefix, table.QUEUE_INFO)
        name = f"{prefix}{table.QUEUE_INFO.name}"
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

    def _totals(self) -> Iterator[str]:
        found = self._found
        totals = SimpleNamespace(
            connections=len(found["connection"]),
            channels=len(found["channel"]),
            consumers=sum(each.facts.consumer_count for each in found["channel"]),
            queues=len(found["queue"]),
        )
        yield _all(PREFIX, table.TOTALS, totals)
        short = self._source.context.alarms.resources
        alarms = {"file_descriptors": False, "disk": "disk" in short, "memory": "memory" in short}
        yield _all(PREFIX, table.ALARMS, SimpleNamespace(**alarms))

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
        routed = sums.publish - sums.drop_unroutable - sums.return_unroutable
        of_protocol = SimpleNamespace(
            sums=sums, routed=routed, publishers=publishers, consumers=consumers
        )
        yield _all(PREFIX, table.GLOBAL_PROTOCOL, of_protocol, PROTOCOL)
        labels = f'{PROTOCOL},queue_type="rabbit_classic_queue"'
        yield _all(PREFIX, table.GLOBAL_QUEUE_TYPE, sums, labels)
        schedulers = [each.environment.dead_letter_scheduler for each in context.vhosts.values()]
        dead = {
            reason: sum(scheduler.sent_counts.get(reason, 0) for scheduler in schedulers)
            for reason in get_args(DeathReason)
        }
        labels = 'queue_type="rabbit_classic_queue",dead_letter_strategy="at_most_once"'
        yield _all(PREFIX, table.GLOBAL_DEAD_LETTERS, SimpleNamespace(**dead), labels)

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
        return _single(PREFIX, table.BUILD_INFO, 1, ",".join(build)) + _single(
            PREFIX, table.IDENTITY_INFO, 1, ",".join(who)
        )


def _all(prefix: str, metrics: Iterable[Metric], values: object, labels: str = "") -> str:
    """Families with one sample each, which is read of ``values``."""
    return "".join([_single(prefix, each.family, each.read(values), labels) for each in metrics])


def _single(prefix: str, family: Family, value: float, labels: str = "") -> str:
    """A family with one sample."""
    return head(prefix, family) + sample(f"{prefix}{family.name}", labels, value)
