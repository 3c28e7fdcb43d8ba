"""RabbitMQ's metrics that this broker has, a row each: name, value, and help text.

A *group* is what ``/metrics/detailed?family=`` asks for; ``metrics.rendering`` writes them. Names,
types, texts and their order are those of rabbitmq_prometheus; docs/metrics.md lists what RabbitMQ
has and this broker has not, with reasons.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import Any, Final, Literal, NamedTuple

from hareline.counts import BrokerCounts
from hareline.metrics.exposition import Family, MetricType, label
from hareline.metrics.source import Kind

PROTOCOL: Final = label("protocol", "amqp091")
#: Kind -> the name of the counts of objects that are gone.
_GONE: Final = {"queue": "queues", "channel": "channels", "connection": "connections"}


class Metric(NamedTuple):
    """A family, and the attribute that has its value; None there: the object has none."""

    family: Family
    attribute: str

    def read(self, facts: object) -> Any:
        return attrgetter(self.attribute)(facts)


def metrics(kind: MetricType, **rows: str) -> tuple[Metric, ...]:
    """Metrics by name; a row is the attribute that has the value, a colon, and the help text."""
    found = []
    for name, row in rows.items():
        attribute, _, text = row.partition(": ")
        found.append(Metric(Family(name, kind, text), attribute))
    return tuple(found)


def counters(**rows: str) -> tuple[Metric, ...]:
    """Metrics that only grow."""
    return metrics("counter", **rows)


def gauges(**rows: str) -> tuple[Metric, ...]:
    """Metrics that may fall."""
    return metrics("gauge", **rows)


class _Gone(NamedTuple):
    """The part of an object's facts that outlives it."""

    counts: object


class Group(NamedTuple):
    """Metrics read of the facts of each object of a kind, or of the ``MetricsSource``."""

    kind: Kind | Literal["broker"]
    metrics: tuple[Metric, ...]
    labels: str = ""

    def reader(self) -> Callable[[Any], Sequence[Any]]:
        """The function that reads the values of all metrics at once."""
        read = attrgetter(*[metric.attribute for metric in self.metrics])
        return read if len(self.metrics) > 1 else lambda facts: (read(facts),)

    def gone(self, counts: BrokerCounts) -> list[float]:
        """Sums over the objects that are gone, so that no counter falls; 0 for gauges."""
        if self.kind not in _GONE:
            return [0] * len(self.metrics)
        gone = _Gone(getattr(counts.gone, _GONE[self.kind]))
        return [
            metric.read(gone) if metric.family.type == "counter" else 0 for metric in self.metrics
        ]


GROUPS: Final[dict[str, Group]] = {
    "connection_churn_metrics": Group(
        "broker",
        counters(
            connections_opened_total="context.counts.churn.connection_created: Total number of "
            "connections opened",
            connections_closed_total="context.counts.churn.connection_closed: Total number of "
            "connections closed or terminated",
            channels_opened_total="context.counts.churn.channel_created: Total number of channels "
            "opened",
            channels_closed_total="context.counts.churn.channel_closed: Total number of channels "
            "closed",
            queues_declared_total="context.counts.churn.queue_declared: Total number of queues "
            "declared",
            queues_created_total="context.counts.churn.queue_created: Total number of queues "
            "created",
            queues_deleted_total="context.counts.churn.queue_deleted: Total number of queues "
            "deleted",
        ),
    ),
    "node_coarse_metrics": Group(
        "broker",
        gauges(
            process_open_fds="open_descriptors: Open file descriptors",
            process_open_tcp_sockets="sockets: Open TCP sockets",
            process_resident_memory_bytes="used_memory: Memory used in bytes",
            disk_space_available_bytes="free_disk: Disk space available in bytes",
        ),
    ),
    "node_metrics": Group(
        "broker",
        gauges(
            process_max_fds="descriptors_max: Open file descriptors limit",
            process_max_tcp_sockets="sockets_max: Open TCP sockets limit",
            resident_memory_limit_bytes="memory_watermark: Memory high watermark in bytes",
            disk_space_available_limit_bytes="disk_watermark: Free disk space low watermark in "
            "bytes",
            erlang_uptime_seconds="uptime_s: Node uptime",
        ),
    ),
    "node_persister_metrics": Group(
        "broker",
        counters(
            io_write_ops_total="meters.journal.writes.count: Total number of I/O write operations",
            io_write_bytes_total="meters.journal.octets: Total number of I/O bytes written",
            io_sync_ops_total="meters.journal.syncs.count: Total number of I/O sync operations",
            io_write_time_seconds_total="meters.journal.writes.sum_s: Total I/O write time",
            io_sync_time_seconds_total="meters.journal.syncs.sum_s: Total I/O sync time",
        ),
    ),
    "auth_attempt_metrics": Group(
        "broker",
        counters(
            auth_attempts_total="context.counts.auth_attempts: Total number of authorization "
            "attempts",
            auth_attempts_succeeded_total="succeeded_logins: Total number of successful "
            "authentication attempts",
            auth_attempts_failed_total="context.counts.auth_attempts_failed: Total number of "
            "failed authentication attempts",
        ),
        labels=PROTOCOL,
    ),
    "queue_coarse_metrics": Group(
        "queue",
        gauges(
            queue_messages_ready="ready: Messages ready to be delivered to consumers",
            queue_messages_unacked="unacked: Messages delivered to consumers but not yet "
            "acknowledged",
            queue_messages="messages: Sum of ready and unacknowledged messages - total queue depth",
        ),
    ),
    "queue_consumer_count": Group(
        "queue",
        gauges(
            queue_consumers="consumers: Consumers on a queue",
        ),
    ),
    "queue_metrics": Group(
        "queue",
        (
            *gauges(
                queue_consumers="consumers: Consumers on a queue",
                queue_consumer_capacity="capacity: Consumer capacity",
                queue_consumer_utilisation="capacity: Same as consumer capacity",
                queue_process_memory_bytes="memory: Memory in bytes used by the Erlang queue "
                "process",
                queue_messages_ram="in_memory: Ready and unacknowledged messages stored in memory",
                queue_messages_ram_bytes="in_memory_bytes: Size of ready and unacknowledged "
                "messages stored in memory",
                queue_messages_persistent="persistent: Persistent messages",
                queue_messages_persistent_bytes="persistent_bytes: Size in bytes of persistent "
                "messages",
                queue_messages_bytes="message_bytes: Size in bytes of ready and unacknowledged "
                "messages",
                queue_messages_ready_bytes="ready_bytes: Size in bytes of ready messages",
                queue_messages_unacked_bytes="unacked_bytes: Size in bytes of all unacknowledged "
                "messages",
                queue_messages_paged_out="paged_out: Messages paged out to disk",
                queue_messages_paged_out_bytes="paged_out_bytes: Size in bytes of messages paged "
                "out to disk",
                queue_head_message_timestamp="head_timestamp: Timestamp of the first message in "
                "the queue, if any",
            ),
            *counters(
                queue_disk_reads_total="counts.disk_reads: Total number of times queue read "
                "messages from disk",
                queue_disk_writes_total="counts.disk_writes: Total number of times queue wrote "
                "messages to disk",
            ),
        ),
    ),
    "queue_delivery_metrics": Group(
        "queue",
        counters(
            queue_get_ack_total="counts.get: Total number of messages fetched from a queue with "
            "basic.get in manual acknowledgement mode",
            queue_get_total="counts.get_no_ack: Total number of messages fetched from a queue "
            "with basic.get in automatic acknowledgement mode",
            queue_messages_delivered_ack_total="counts.deliver: Total number of messages "
            "delivered from a queue to consumers in manual acknowledgement mode",
            queue_messages_delivered_total="counts.deliver_no_ack: Total number of messages "
            "delivered from a queue to consumers in automatic acknowledgement mode",
            queue_messages_redelivered_total="counts.redeliver: Total number of messages "
            "redelivered from a queue to consumers",
            queue_messages_acked_total="counts.ack: Total number of messages acknowledged by "
            "consumers on a queue",
            queue_get_empty_total="counts.get_empty: Total number of times basic.get operations "
            "fetched no message on a queue",
        ),
    ),
    "channel_queue_exchange_metrics": Group(
        "queue",
        counters(
            queue_messages_published_total="counts.publish: Total number of messages published to "
            "queues",
        ),
    ),
    "channel_metrics": Group(
        "channel",
        gauges(
            channel_consumers="consumer_count: Consumers on a channel",
            channel_messages_unacked="unacked: Delivered but not yet acknowledged messages",
            channel_messages_unconfirmed="unconfirmed: Published but not yet confirmed messages",
            channel_messages_uncommitted="uncommitted: Messages received in a transaction but not "
            "yet committed",
            channel_acks_uncommitted="acks_uncommitted: Message acknowledgements in a transaction "
            "not yet committed",
            consumer_prefetch="prefetch_count: Limit of unacknowledged messages for each consumer",
            channel_prefetch="global_prefetch_count: Total limit of unacknowledged messages for "
            "all consumers on a channel",
        ),
    ),
    "channel_exchange_metrics": Group(
        "channel",
        counters(
            channel_messages_published_total="counts.publish: Total number of messages published "
            "into an exchange on a channel",
            channel_messages_confirmed_total="counts.confirm: Total number of messages published "
            "into an exchange and confirmed on the channel",
            channel_messages_unroutable_returned_total="counts.return_unroutable: Total number of "
            "messages published as mandatory into an exchange and returned to the publisher as "
            "unroutable",
            channel_messages_unroutable_dropped_total="counts.drop_unroutable: Total number of "
            "messages published as non-mandatory into an exchange and dropped as unroutable",
        ),
    ),
    "channel_queue_metrics": Group(
        "channel",
        counters(
            channel_get_ack_total="counts.get: Total number of messages fetched with basic.get in "
            "manual acknowledgement mode",
            channel_get_total="counts.get_no_ack: Total number of messages fetched with basic.get "
            "in automatic acknowledgement mode",
            channel_messages_delivered_ack_total="counts.deliver: Total number of messages "
            "delivered to consumers in manual acknowledgement mode",
            channel_messages_delivered_total="counts.deliver_no_ack: Total number of messages "
            "delivered to consumers in automatic acknowledgement mode",
            channel_messages_redelivered_total="counts.redeliver: Total number of messages "
            "redelivered to consumers",
            channel_messages_acked_total="counts.ack: Total number of messages acknowledged by "
            "consumers",
            channel_get_empty_total="counts.get_empty: Total number of times basic.get operations "
            "fetched no message",
        ),
    ),
    "connection_coarse_metrics": Group(
        "connection",
        counters(
            connection_incoming_bytes_total="counts.recv_oct: Total number of bytes received on a "
            "connection",
            connection_outgoing_bytes_total="counts.send_oct: Total number of bytes sent on a "
            "connection",
        ),
    ),
    "connection_metrics": Group(
        "connection",
        (
            *counters(
                connection_incoming_packets_total="counts.recv_cnt: Total number of packets "
                "received on a connection",
                connection_outgoing_packets_total="counts.send_cnt: Total number of packets sent "
                "on a connection",
            ),
            *gauges(
                connection_pending_packets="pending_packets: Number of packets waiting to be sent "
                "on a connection",
                connection_channels="channel_count: Channels on a connection",
            ),
        ),
    ),
    "exchange_metrics": Group(
        "exchange",
        counters(
            exchange_messages_published_total="publish_in: Total number of messages published "
            "into an exchange",
        ),
    ),
}

#: What only ``/metrics/detailed`` has, with the prefix ``rabbitmq_cluster_``.
CLUSTER_GROUPS: Final = {
    "vhost_status": Family("vhost_status", "gauge", "Whether a given vhost is running"),
    "exchange_bindings": Family(
        "exchange_bindings",
        "gauge",
        "Number of bindings for an exchange. This value is cluster-wide.",
    ),
    "exchange_names": Family(
        "exchange_name",
        "gauge",
        "Enumerates exchanges without any additional info. This value is cluster-wide. A cheaper "
        "alternative to `exchange_bindings`",
    ),
}

#: RabbitMQ's groups for which this broker has nothing: asked for, they are empty.
EMPTY_GROUPS: Final = frozenset(
    {
        "alarm_metrics",
        "auth_attempt_detailed_metrics",
        "channel_process_metrics",
        "mount_metrics",
        "queue_exchange_metrics",
        "ra_metrics",
        "stream_consumer_metrics",
    }
)

#: Of the whole broker; not in ``/metrics/detailed``.
TOTALS: Final = gauges(
    connections="connections: Connections currently open",
    channels="channels: Channels currently open",
    consumers="consumers: Consumers currently connected",
    queues="queues: Queues available",
)
ALARMS: Final = metrics(
    "untyped",
    alarms_file_descriptor_limit="file_descriptors: is 1 if file descriptor limit alarm is in "
    "effect",
    alarms_free_disk_space_watermark="disk: is 1 if free disk space watermark alarm is in effect",
    alarms_memory_used_watermark="memory: is 1 if VM memory watermark alarm is in effect",
)

BUILD_INFO: Final = Family("build_info", "untyped", "RabbitMQ & Erlang/OTP version info")
IDENTITY_INFO: Final = Family("identity_info", "untyped", "RabbitMQ node & cluster identity info")
QUEUE_INFO: Final = Family(
    "queue_info",
    "gauge",
    "A metric with a constant '1' value and labels that provide some queue details",
)

#: With the label ``protocol``.
GLOBAL_PROTOCOL: Final = (
    *counters(
        global_messages_received_total="sums.publish: Total number of messages received from "
        "publishers",
        global_messages_received_confirm_total="sums.confirm: Total number of messages received "
        "from publishers expecting confirmations",
        global_messages_routed_total="routed: Total number of messages routed to queues or streams",
        global_messages_unroutable_dropped_total="sums.drop_unroutable: Total number of messages "
        "published as non-mandatory into an exchange and dropped as unroutable",
        global_messages_unroutable_returned_total="sums.return_unroutable: Total number of "
        "messages published as mandatory into an exchange and returned to the publisher as "
        "unroutable",
        global_messages_confirmed_total="sums.confirm: Total number of messages confirmed to "
        "publishers",
    ),
    *gauges(
        global_publishers="publishers: Current number of publishers",
        global_consumers="consumers: Current number of consumers",
    ),
)

#: With the labels ``protocol`` and ``queue_type``.
GLOBAL_QUEUE_TYPE: Final = counters(
    global_messages_delivered_total="deliver_get: Total number of messages delivered to consumers",
    global_messages_delivered_consume_manual_ack_total="deliver: Total number of messages "
    "delivered to consumers using basic.consume with manual acknowledgment",
    global_messages_delivered_consume_auto_ack_total="deliver_no_ack: Total number of messages "
    "delivered to consumers using basic.consume with automatic acknowledgment",
    global_messages_delivered_get_manual_ack_total="get: Total number of messages delivered to "
    "consumers using basic.get with manual acknowledgment",
    global_messages_delivered_get_auto_ack_total="get_no_ack: Total number of messages delivered "
    "to consumers using basic.get with automatic acknowledgment",
    global_messages_get_empty_total="get_empty: Total number of times basic.get operations "
    "fetched no message",
    global_messages_redelivered_total="redeliver: Total number of messages redelivered to "
    "consumers",
    global_messages_acknowledged_total="ack: Total number of messages acknowledged by consumers",
)

#: With the labels ``queue_type`` and ``dead_letter_strategy``; by reason.
GLOBAL_DEAD_LETTERS: Final = counters(
    global_messages_dead_lettered_maxlen_total="maxlen: Total number of messages dead-lettered "
    "due to overflow drop-head or reject-publish-dlx",
    global_messages_dead_lettered_expired_total="expired: Total number of messages dead-lettered "
    "due to message TTL exceeded",
    global_messages_dead_lettered_rejected_total="rejected: Total number of messages "
    "dead-lettered due to basic.reject or basic.nack",
    global_messages_dead_lettered_delivery_limit_total="delivery_limit: Total number of messages "
    "dead-lettered due to delivery-limit exceeded",
)

MEMORY: Final = gauges(
    memory_binary_heap_bytes="bodies: Binary heap size in bytes",
    memory_message_index_bytes="entries: Message index footprint in bytes",
    memory_other_system_bytes="other: Other runtime footprint in bytes",
)
