"""RabbitMQ's metrics that this broker has: groups of families, with names, types and help texts.

A *group* is what ``/metrics/detailed?family=`` asks for. ``metrics.rows`` has what reads the
values of each, ``metrics.rendering`` writes them. docs/metrics.md lists what RabbitMQ has and this
broker has not, with reasons.

Invariant: names, types and help texts are those of rabbitmq_prometheus, in its order.
"""

from __future__ import annotations

from typing import Final

from hareline.metrics.exposition import Family
from hareline.queues.core.kinds import DeathReason


def _counters(**texts: str) -> tuple[Family, ...]:
    return tuple([Family(name, "counter", text) for name, text in texts.items()])


def _gauges(**texts: str) -> tuple[Family, ...]:
    return tuple([Family(name, "gauge", text) for name, text in texts.items()])


#: Group -> its families.
GROUPS: Final[dict[str, tuple[Family, ...]]] = {
    "connection_churn_metrics": _counters(
        connections_opened_total="Total number of connections opened",
        connections_closed_total="Total number of connections closed or terminated",
        channels_opened_total="Total number of channels opened",
        channels_closed_total="Total number of channels closed",
        queues_declared_total="Total number of queues declared",
        queues_created_total="Total number of queues created",
        queues_deleted_total="Total number of queues deleted",
    ),
    "node_coarse_metrics": _gauges(
        process_open_fds="Open file descriptors",
        process_open_tcp_sockets="Open TCP sockets",
        process_resident_memory_bytes="Memory used in bytes",
        disk_space_available_bytes="Disk space available in bytes",
    ),
    "node_metrics": _gauges(
        process_max_fds="Open file descriptors limit",
        process_max_tcp_sockets="Open TCP sockets limit",
        resident_memory_limit_bytes="Memory high watermark in bytes",
        disk_space_available_limit_bytes="Free disk space low watermark in bytes",
        erlang_uptime_seconds="Node uptime",
    ),
    "node_persister_metrics": _counters(
        io_write_ops_total="Total number of I/O write operations",
        io_write_bytes_total="Total number of I/O bytes written",
        io_sync_ops_total="Total number of I/O sync operations",
        io_write_time_seconds_total="Total I/O write time",
        io_sync_time_seconds_total="Total I/O sync time",
    ),
    "auth_attempt_metrics": _counters(
        auth_attempts_total="Total number of authorization attempts",
        auth_attempts_succeeded_total="Total number of successful authentication attempts",
        auth_attempts_failed_total="Total number of failed authentication attempts",
    ),
    "queue_coarse_metrics": _gauges(
        queue_messages_ready="Messages ready to be delivered to consumers",
        queue_messages_unacked="Messages delivered to consumers but not yet acknowledged",
        queue_messages="Sum of ready and unacknowledged messages - total queue depth",
    ),
    "queue_consumer_count": _gauges(queue_consumers="Consumers on a queue"),
    "queue_metrics": (
        *_gauges(
            queue_consumers="Consumers on a queue",
            queue_consumer_capacity="Consumer capacity",
            queue_consumer_utilisation="Same as consumer capacity",
            queue_process_memory_bytes="Memory in bytes used by the Erlang queue process",
            queue_messages_ram="Ready and unacknowledged messages stored in memory",
            queue_messages_ram_bytes="Size of ready and unacknowledged messages stored in memory",
            queue_messages_persistent="Persistent messages",
            queue_messages_persistent_bytes="Size in bytes of persistent messages",
            queue_messages_bytes="Size in bytes of ready and unacknowledged messages",
            queue_messages_ready_bytes="Size in bytes of ready messages",
            queue_messages_unacked_bytes="Size in bytes of all unacknowledged messages",
            queue_messages_paged_out="Messages paged out to disk",
            queue_messages_paged_out_bytes="Size in bytes of messages paged out to disk",
            queue_head_message_timestamp="Timestamp of the first message in the queue, if any",
        ),
        *_counters(
            queue_disk_reads_total="Total number of times queue read messages from disk",
            queue_disk_writes_total="Total number of times queue wrote messages to disk",
        ),
    ),
    "queue_delivery_metrics": _counters(
        queue_get_ack_total="Total number of messages fetched from a queue with basic.get in "
        "manual acknowledgement mode",
        queue_get_total="Total number of messages fetched from a queue with basic.get in automatic "
        "acknowledgement mode",
        queue_messages_delivered_ack_total="Total number of messages delivered from a queue to "
        "consumers in manual acknowledgement mode",
        queue_messages_delivered_total="Total number of messages delivered from a queue to "
        "consumers in automatic acknowledgement mode",
        queue_messages_redelivered_total="Total number of messages redelivered from a queue to "
        "consumers",
        queue_messages_acked_total="Total number of messages acknowledged by consumers on a queue",
        queue_get_empty_total="Total number of times basic.get operations fetched no message on a "
        "queue",
    ),
    "channel_queue_exchange_metrics": _counters(
        queue_messages_published_total="Total number of messages published to queues",
    ),
    "channel_metrics": _gauges(
        channel_consumers="Consumers on a channel",
        channel_messages_unacked="Delivered but not yet acknowledged messages",
        channel_messages_unconfirmed="Published but not yet confirmed messages",
        channel_messages_uncommitted="Messages received in a transaction but not yet committed",
        channel_acks_uncommitted="Message acknowledgements in a transaction not yet committed",
        consumer_prefetch="Limit of unacknowledged messages for each consumer",
        channel_prefetch="Total limit of unacknowledged messages for all consumers on a channel",
    ),
    "channel_exchange_metrics": _counters(
        channel_messages_published_total="Total number of messages published into an exchange on a "
        "channel",
        channel_messages_confirmed_total="Total number of messages published into an exchange and "
        "confirmed on the channel",
        channel_messages_unroutable_returned_total="Total number of messages published as "
        "mandatory into an exchange and returned to the publisher as unroutable",
        channel_messages_unroutable_dropped_total="Total number of messages published as "
        "non-mandatory into an exchange and dropped as unroutable",
    ),
    "channel_queue_metrics": _counters(
        channel_get_ack_total="Total number of messages fetched with basic.get in manual "
        "acknowledgement mode",
        channel_get_total="Total number of messages fetched with basic.get in automatic "
        "acknowledgement mode",
        channel_messages_delivered_ack_total="Total number of messages delivered to consumers in "
        "manual acknowledgement mode",
        channel_messages_delivered_total="Total number of messages delivered to consumers in "
        "automatic acknowledgement mode",
        channel_messages_redelivered_total="Total number of messages redelivered to consumers",
        channel_messages_acked_total="Total number of messages acknowledged by consumers",
        channel_get_empty_total="Total number of times basic.get operations fetched no message",
    ),
    "connection_coarse_metrics": _counters(
        connection_incoming_bytes_total="Total number of bytes received on a connection",
        connection_outgoing_bytes_total="Total number of bytes sent on a connection",
    ),
    "connection_metrics": (
        *_counters(
            connection_incoming_packets_total="Total number of packets received on a connection",
            connection_outgoing_packets_total="Total number of packets sent on a connection",
        ),
        *_gauges(
            connection_pending_packets="Number of packets waiting to be sent on a connection",
            connection_channels="Channels on a connection",
        ),
    ),
    "exchange_metrics": _counters(
        exchange_messages_published_total="Total number of messages published into an exchange",
    ),
}

#: What only ``/metrics/detailed`` has, with the prefix ``rabbitmq_cluster_``.
CLUSTER_GROUPS: Final[dict[str, tuple[Family, ...]]] = {
    "vhost_status": _gauges(vhost_status="Whether a given vhost is running"),
    "exchange_bindings": _gauges(
        exchange_bindings="Number of bindings for an exchange. This value is cluster-wide."
    ),
    "exchange_names": _gauges(
        exchange_name="Enumerates exchanges without any additional info. This value is "
        "cluster-wide. A cheaper alternative to `exchange_bindings`"
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

#: What ``/metrics/detailed`` never sums up, and ``/metrics`` shows one by one.
TOTALS: Final = _gauges(
    connections="Connections currently open",
    channels="Channels currently open",
    consumers="Consumers currently connected",
    queues="Queues available",
)

ALARMS: Final = (
    Family(
        "alarms_file_descriptor_limit",
        "untyped",
        "is 1 if file descriptor limit alarm is in effect",
    ),
    Family(
        "alarms_free_disk_space_watermark",
        "untyped",
        "is 1 if free disk space watermark alarm is in effect",
    ),
    Family(
        "alarms_memory_used_watermark",
        "untyped",
        "is 1 if VM memory watermark alarm is in effect",
    ),
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
    *_counters(
        global_messages_received_total="Total number of messages received from publishers",
        global_messages_received_confirm_total="Total number of messages received from publishers "
        "expecting confirmations",
        global_messages_routed_total="Total number of messages routed to queues or streams",
        global_messages_unroutable_dropped_total="Total number of messages published as "
        "non-mandatory into an exchange and dropped as unroutable",
        global_messages_unroutable_returned_total="Total number of messages published as mandatory "
        "into an exchange and returned to the publisher as unroutable",
        global_messages_confirmed_total="Total number of messages confirmed to publishers",
    ),
    *_gauges(
        global_publishers="Current number of publishers",
        global_consumers="Current number of consumers",
    ),
)

#: With the labels ``protocol`` and ``queue_type``.
GLOBAL_QUEUE_TYPE: Final = _counters(
    global_messages_delivered_total="Total number of messages delivered to consumers",
    global_messages_delivered_consume_manual_ack_total="Total number of messages delivered to "
    "consumers using basic.consume with manual acknowledgment",
    global_messages_delivered_consume_auto_ack_total="Total number of messages delivered to "
    "consumers using basic.consume with automatic acknowledgment",
    global_messages_delivered_get_manual_ack_total="Total number of messages delivered to "
    "consumers using basic.get with manual acknowledgment",
    global_messages_delivered_get_auto_ack_total="Total number of messages delivered to consumers "
    "using basic.get with automatic acknowledgment",
    global_messages_get_empty_total="Total number of times basic.get operations fetched no message",
    global_messages_redelivered_total="Total number of messages redelivered to consumers",
    global_messages_acknowledged_total="Total number of messages acknowledged by consumers",
)

#: With the labels ``queue_type`` and ``dead_letter_strategy``; the reason of each.
GLOBAL_DEAD_LETTERS: Final[dict[DeathReason, Family]] = dict(
    zip(
        ("maxlen", "expired", "rejected", "delivery_limit"),
        _counters(
            global_messages_dead_lettered_maxlen_total="Total number of messages dead-lettered due "
            "to overflow drop-head or reject-publish-dlx",
            global_messages_dead_lettered_expired_total="Total number of messages dead-lettered "
            "due to message TTL exceeded",
            global_messages_dead_lettered_rejected_total="Total number of messages dead-lettered "
            "due to basic.reject or basic.nack",
            global_messages_dead_lettered_delivery_limit_total="Total number of messages "
            "dead-lettered due to delivery-limit exceeded",
        ),
        strict=True,
    )
)

MEMORY: Final = _gauges(
    memory_binary_heap_bytes="Binary heap size in bytes",
    memory_message_index_bytes="Message index footprint in bytes",
    memory_other_system_bytes="Other runtime footprint in bytes",
)
