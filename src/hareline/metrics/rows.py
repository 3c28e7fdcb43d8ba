"""The values of each group of families, from what is known of a live object.

``metrics.rendering`` makes a record of ``statistics.facts`` for each queue, channel and connection,
once a scrape, and has its rows made here, in the order of ``families.GROUPS``. For the aggregated
metrics rows are summed up, beginning with what is ``gone``, so that no counter ever falls.

Invariant: a row has a value for each family of its group; None: this object has none.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, Literal, NamedTuple

from hareline.counts import (
    BrokerCounts,
    ChannelCounts,
    ConnectionCounts,
    ExchangeCounts,
    QueueCounts,
)
from hareline.statistics.facts import ChannelFacts, ConnectionFacts, QueueFacts

Kind = Literal["queue", "channel", "connection", "exchange"]
Row = tuple[float | None, ...]


class Rows(NamedTuple):
    """Reader of the rows of a group.

    ``gone``: the row of what is gone, None if only live objects count.
    """

    kind: Kind
    read: Callable[[Any], Row]
    gone: Callable[[BrokerCounts], Row] | None = None


def _queue_coarse(facts: QueueFacts) -> Row:
    return (facts.ready, facts.unacked, facts.messages)


def _queue_consumers(facts: QueueFacts) -> Row:
    return (facts.consumers,)


def _queue(facts: QueueFacts) -> Row:
    return (
        facts.consumers,
        facts.capacity,
        facts.capacity,
        facts.memory,
        facts.in_memory,
        facts.in_memory_bytes,
        facts.persistent,
        facts.persistent_bytes,
        facts.ready_bytes + facts.unacked_bytes,
        facts.ready_bytes,
        facts.unacked_bytes,
        facts.paged_out,
        facts.paged_out_bytes,
        facts.head_timestamp,
        facts.counts.disk_reads,
        facts.counts.disk_writes,
    )


def _queues_gone(counts: BrokerCounts) -> Row:
    gone = counts.gone.queues
    return (*[0] * 14, gone.disk_reads, gone.disk_writes)


def _queue_deliveries(counts: QueueCounts) -> Row:
    return (
        counts.get,
        counts.get_no_ack,
        counts.deliver,
        counts.deliver_no_ack,
        counts.redeliver,
        counts.ack,
        counts.get_empty,
    )


def _channel(facts: ChannelFacts) -> Row:
    return (
        facts.consumer_count,
        facts.unacked,
        facts.unconfirmed,
        facts.uncommitted,
        facts.acks_uncommitted,
        facts.prefetch_count,
        facts.global_prefetch_count,
    )


def _channel_publishes(counts: ChannelCounts) -> Row:
    return (counts.publish, counts.confirm, counts.return_unroutable, counts.drop_unroutable)


def _channel_deliveries(counts: ChannelCounts) -> Row:
    return (
        counts.get,
        counts.get_no_ack,
        counts.deliver,
        counts.deliver_no_ack,
        counts.redeliver,
        counts.ack,
        counts.get_empty,
    )


def _connection_octets(counts: ConnectionCounts) -> Row:
    return (counts.recv_oct, counts.send_oct)


def _connection(facts: ConnectionFacts) -> Row:
    counts = facts.counts
    return (counts.recv_cnt, counts.send_cnt, int(facts.send_pend > 0), facts.channel_count)


def _exchange(counts: ExchangeCounts) -> Row:
    return (counts.publish_in,)


ROWS: Final[Mapping[str, Rows]] = {
    "queue_coarse_metrics": Rows("queue", _queue_coarse),
    "queue_consumer_count": Rows("queue", _queue_consumers),
    "queue_metrics": Rows("queue", _queue, _queues_gone),
    "queue_delivery_metrics": Rows(
        "queue",
        lambda facts: _queue_deliveries(facts.counts),
        lambda counts: _queue_deliveries(counts.gone.queues),
    ),
    "channel_queue_exchange_metrics": Rows(
        "queue",
        lambda facts: (facts.counts.publish,),
        lambda counts: (counts.gone.queues.publish,),
    ),
    "channel_metrics": Rows("channel", _channel),
    "channel_exchange_metrics": Rows(
        "channel",
        lambda facts: _channel_publishes(facts.counts),
        lambda counts: _channel_publishes(counts.gone.channels),
    ),
    "channel_queue_metrics": Rows(
        "channel",
        lambda facts: _channel_deliveries(facts.counts),
        lambda counts: _channel_deliveries(counts.gone.channels),
    ),
    "connection_coarse_metrics": Rows(
        "connection",
        lambda facts: _connection_octets(facts.counts),
        lambda counts: _connection_octets(counts.gone.connections),
    ),
    "connection_metrics": Rows(
        "connection",
        _connection,
        lambda counts: (counts.gone.connections.recv_cnt, counts.gone.connections.send_cnt, 0, 0),
    ),
    "exchange_metrics": Rows("exchange", _exchange),
}
