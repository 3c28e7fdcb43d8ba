"""Sources of the sampler in a broker: queues, exchanges, connections, channels, and their sums.

The mark of an object is a sum of its counters in which no changes can cancel out. The tick that
visits a channel also collects what its routes have counted for exchanges, so channels come first.
Totals include objects that are gone, so they never fall.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final

from hareline.amqp.channel import Channel
from hareline.amqp.context import Context
from hareline.amqp.ports import LiveConnection
from hareline.broker.exchanges.exchange import Exchange
from hareline.counts import (
    ChannelCounts,
    ChurnCounts,
    ConnectionCounts,
    EndedObjects,
    ExchangeCounts,
    QueueCounts,
)
from hareline.queues.queue import Queue
from hareline.statistics.facts import NodeFacts
from hareline.statistics.history import BASIC, GLOBAL
from hareline.statistics.readings import can_deliver, channels_of
from hareline.statistics.sampler import Key, Sampler, Source, Sums, SumSource

DEPTHS: Final = ("messages", "messages_ready", "messages_unacknowledged")
#: How much of a consumer capacity is left of it after a tick.
CAPACITY_DECAY: Final = 0.8

_CHANNEL_NAMES: Final = tuple(ChannelCounts().as_dict())
_QUEUE_NAMES: Final = tuple(QueueCounts().as_dict())
_DISK: Final = ("disk_reads", "disk_writes")
_DISK_COLUMNS: Final = tuple(len(DEPTHS) + _QUEUE_NAMES.index(name) for name in _DISK)


class BrokerSource(Source):
    """A kind of objects of a broker; ``ended``: those that are gone, by kind."""

    retention = BASIC

    def __init__(self, context: Context, ended: EndedObjects) -> None:
        self.context = context
        self._ended = ended

    def take_ended(self) -> Sequence[tuple[Key, str]]:
        return self._ended.take(self.kind)


class QueueSource(BrokerSource):
    """Depths and counters of each queue, and what part of the time its consumers can take more."""

    kind = "queue"
    names = (*DEPTHS, *_QUEUE_NAMES)

    def __init__(self, context: Context, ended: EndedObjects) -> None:
        super().__init__(context, ended)
        self._tick = 0
        self._capacities: dict[Key, tuple[int, float]] = {}  # tick and value

    def visit(self) -> Iterator[tuple[Key, str, int, Queue]]:
        self._tick += 1
        for vhost in list(self.context.vhosts.values()):
            name = vhost.name
            for queue in list(vhost.queues.values()):
                yield (name, queue.name), name, queue.change_mark, queue

    def values(self, key: Key, found: Queue) -> tuple[int, ...]:
        if found.consumer_count:
            self._capacities[key] = (self._tick, self.consumer_capacity(key, found))
        else:
            self._capacities.pop(key, None)
        ready, unacked = found.ready_count, found.unacked_count
        return (ready + unacked, ready, unacked, *found.counts.as_dict().values())

    def take_ended(self) -> Sequence[tuple[Key, str]]:
        ended = super().take_ended()
        for key, _ in ended:
            self._capacities.pop(key, None)
        return ended

    def consumer_capacity(self, key: Key, queue: Queue) -> float:
        """Recent share of the time, 0 to 1, in which no ready message waited for a consumer."""
        if not queue.consumer_count:
            return 0.0
        now = 1.0 if can_deliver(queue) else 0.0
        tick, before = self._capacities.get(key, (self._tick, now))
        return round(now + (before - now) * CAPACITY_DECAY ** (self._tick - tick), 3)


def consumer_capacity(sampler: Sampler | None, vhost: str, queue: Queue) -> float | None:
    """The capacity of a queue's consumers, as the samples have it; None where nothing is sampled.

    It is RabbitMQ's consumer_capacity, which it also calls consumer_utilisation.
    """
    source = None if sampler is None else sampler.sources.get(QueueSource.kind)
    if not isinstance(source, QueueSource):
        return None
    return source.consumer_capacity((vhost, queue.name), queue)


class ExchangeSource(BrokerSource):
    """Publishes to each exchange, and the number of queues that took them."""

    kind = "exchange"
    names = tuple(ExchangeCounts().as_dict())

    def visit(self) -> Iterator[tuple[Key, str, int, Exchange]]:
        for vhost in list(self.context.vhosts.values()):
            name = vhost.name
            for exchange in list(vhost.exchanges.values()):
                yield (name, exchange.name), name, exchange.counts.publish_in, exchange

    def values(self, key: Key, found: Exchange) -> tuple[int, ...]:
        return found.counts.values()


class ConnectionSource(BrokerSource):
    """Octets and packets of each open connection."""

    kind = "connection"
    names = tuple(ConnectionCounts().as_dict())

    def visit(self) -> Iterator[tuple[Key, str, int, LiveConnection]]:
        for connection in list(self.context.connections):
            client, transport = connection.client, connection.transport
            if client.is_open:
                key = (transport.connection_name,)
                yield key, client.vhost.name, transport.traffic_bytes(), connection

    def values(self, key: Key, found: LiveConnection) -> tuple[int, ...]:
        return found.counts.values()


class ChannelSource(BrokerSource):
    """Message counters of each channel."""

    kind = "channel"
    names = _CHANNEL_NAMES

    def visit(self) -> Iterator[tuple[Key, str, int, Channel]]:
        for channel in channels_of(self.context):
            yield (channel.port.channel_name,), channel.vhost.name, _channel_mark(channel), channel

    def values(self, key: Key, found: Channel) -> tuple[int, ...]:
        return tuple(found.counts.as_dict().values())


def _channel_mark(channel: Channel) -> int:
    port, publishing = channel.port, channel.publishing
    mark = 2 * (port.next_tag - 1) - len(port.unacked) + port.unacked.given_back
    tally = port.tally
    if tally is not None:
        mark += tally.publish_count + tally.get_empty
    if publishing.confirms is not None:
        mark += publishing.confirms.confirmed_count
    if publishing.transaction is not None:
        mark -= publishing.transaction.kept_count
    return mark


# ------------------------------------------------------------------------------------ sums


class VhostSource(SumSource):
    """Depths, message counters and octets of each virtual host."""

    kind = "vhost"
    names = (*DEPTHS, *_CHANNEL_NAMES, *_DISK, "recv_oct", "send_oct")
    retention = GLOBAL

    def __init__(self, context: Context) -> None:
        self._context = context

    def rows(self, sums: Sums) -> Iterator[tuple[Key, tuple[int, ...]]]:
        for name, vhost in self._context.vhosts.items():
            gone = vhost.counts.gone
            queues = _added(sums.of("queue", name), (), len(QueueSource.names))
            octets = _added(sums.of("connection", name), gone.connections.values(), 4)
            yield (
                (name,),
                (
                    *queues[: len(DEPTHS)],
                    *_messages(sums.of("channel", name), gone.channels),
                    *_disk(queues, gone.queues),
                    octets[0],
                    octets[2],
                ),
            )


class OverviewSource(SumSource):
    """Depths, message counters and churn of the broker."""

    kind = "overview"
    names = (*DEPTHS, *_CHANNEL_NAMES, *_DISK, *ChurnCounts().as_dict())
    retention = GLOBAL

    def __init__(self, context: Context) -> None:
        self._context = context

    def rows(self, sums: Sums) -> Iterator[tuple[Key, tuple[int, ...]]]:
        counts = self._context.counts
        queues = _added(sums.of("queue"), (), len(QueueSource.names))
        yield (
            (),
            (
                *queues[: len(DEPTHS)],
                *_messages(sums.of("channel"), counts.gone.channels),
                *_disk(queues, counts.gone.queues),
                *counts.churn.values(),
            ),
        )


class NodeSource(SumSource):
    """The process, as ``read`` finds it at each tick."""

    kind = "node"
    names = NodeFacts._fields
    retention = GLOBAL

    def __init__(self, read: Callable[[], NodeFacts]) -> None:
        self._read = read

    def rows(self, sums: Sums) -> Iterable[tuple[Key, tuple[int, ...]]]:
        return [((), tuple(self._read()))]


def _messages(live: tuple[int, ...], gone: ChannelCounts) -> tuple[int, ...]:
    return _added(live, tuple(gone.as_dict().values()), len(_CHANNEL_NAMES))


def _disk(queues: tuple[int, ...], gone: QueueCounts) -> tuple[int, ...]:
    reads, writes = _DISK_COLUMNS
    return queues[reads] + gone.disk_reads, queues[writes] + gone.disk_writes


def _added(one: tuple[int, ...], other: tuple[int, ...], width: int) -> tuple[int, ...]:
    """Column by column; an empty one is nothing but 0."""
    if not one or not other:
        return one or other or (0,) * width
    return tuple([left + right for left, right in zip(one, other, strict=True)])
