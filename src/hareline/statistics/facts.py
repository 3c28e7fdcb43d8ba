"""Facts about live connections, channels, consumers and queues, for API, metrics and CLI.

Plain records; ``statistics.readings`` makes them from the objects when one is asked for. Times are
epoch milliseconds, sizes octets of bodies unless a field says otherwise.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from hareline.counts import ChannelCounts, ConnectionCounts, QueueCounts


class ConnectionFacts(NamedTuple):
    """``name`` is RabbitMQ's: ``127.0.0.1:41234 -> 127.0.0.1:5672``.

    ``state``: starting, tuning, opening, running, flow (not read, for a queue or the broker is
    behind), blocking (an alarm is on, and it has not published since), blocked, closing, closed.
    ``user`` and ``vhost`` are empty before the client has come so far. ``send_pend``: octets that
    wait for its socket; ``is_slow``: so many that deliveries to it stop. ``heartbeat_s`` 0: none.
    """

    name: str
    user_provided_name: str
    peer_host: str
    peer_port: int
    host: str
    port: int
    user: str
    vhost: str
    state: str
    auth_mechanism: str
    client_properties: Mapping[str, object]
    connected_ms: int
    frame_max: int
    channel_max: int
    heartbeat_s: int
    channel_count: int
    send_pend: int
    is_slow: bool
    counts: ConnectionCounts

    @property
    def pending_packets(self) -> int:
        """1 while anything waits for the socket, as RabbitMQ counts packets; else 0."""
        return int(self.send_pend > 0)


class ChannelFacts(NamedTuple):
    """``name`` is that of its connection, and `` (1)``. ``state``: running, flow or closing.

    ``prefetch_count`` is that of consumers that come, ``global_prefetch_count`` of the channel; 0:
    no limit. ``unconfirmed``: publishes that no confirm has answered; ``uncommitted`` publishes and
    ``acks_uncommitted`` wait for tx.commit. ``is_stopped``: by the client, with channel.flow.
    """

    name: str
    number: int
    connection_name: str
    user: str
    vhost: str
    state: str
    is_confirming: bool
    is_transactional: bool
    is_stopped: bool
    consumer_count: int
    prefetch_count: int
    global_prefetch_count: int
    unacked: int
    unconfirmed: int
    uncommitted: int
    acks_uncommitted: int
    counts: ChannelCounts


class ConsumerFacts(NamedTuple):
    """``status``: up, single_active, or waiting for another consumer to leave.

    ``prefetch_count`` 0: no limit, and then ``credit`` (deliveries that it may still receive) is
    None. ``unacked``: of this consumer. ``oldest_tag``: the first delivery tag of these, 0 without
    any; ``statistics.unacked.delivered_ms`` says when that was. ``slow_reason``: what keeps it from
    messages that wait for it, "prefetch" or "socket"; empty if nothing does.
    """

    tag: str
    vhost: str
    queue: str
    channel_name: str
    ack_required: bool
    exclusive: bool
    active: bool
    status: str
    priority: int
    prefetch_count: int
    credit: int | None
    unacked: int
    oldest_tag: int
    slow_reason: str
    arguments: Mapping[str, object]


class QueueFacts(NamedTuple):
    """``messages`` is ready and unacknowledged; ``held`` ones are not valid yet and not in it.

    ``paged_out``: messages whose content is on disk alone, ``in_memory`` the others.
    ``persistent``: messages that are on disk and not settled. ``unacked_bytes`` is estimated from
    a part of the deliveries where there are many, and so is ``memory``, octets in all.
    ``head_timestamp``: that property of the first ready message, in seconds, None without one.
    ``capacity``: how much of the time, from 0 to 1, no ready message waited for a consumer to
    become able to take it; 0 without consumers.
    """

    messages: int
    ready: int
    unacked: int
    held: int
    ready_bytes: int
    unacked_bytes: int
    persistent: int
    persistent_bytes: int
    in_memory: int
    in_memory_bytes: int
    paged_out: int
    paged_out_bytes: int
    memory: int
    consumers: int
    capacity: float
    head_timestamp: int | None
    declared_ms: int
    counts: QueueCounts

    @property
    def message_bytes(self) -> int:
        """Octets of ready and unacknowledged messages."""
        return self.ready_bytes + self.unacked_bytes


class CertificateFacts(NamedTuple):
    """A certificate that the broker shows, or that of an authority of its clients.

    Times are epoch milliseconds. ``names``: host names and addresses that it is for.
    """

    file: str
    is_authority: bool
    subject: str
    issuer: str
    serial: str
    names: tuple[str, ...]
    not_before_ms: int
    not_after_ms: int


class TlsFacts(NamedTuple):
    """TLS of the broker: handshakes since the start, and its certificates."""

    handshakes: int
    failed_handshakes: int
    certificates: tuple[CertificateFacts, ...]


class NodeFacts(NamedTuple):
    """The process: octets, descriptors, and how late its event loop is.

    Times are microseconds: ``loop_lag_us`` the latest, ``loop_lag_max_us`` the worst of the last
    sample interval, as ``turn_max_us`` and ``gc_max_us`` are. -1: not known on this system.
    """

    mem_used: int
    fd_used: int
    fd_total: int
    sockets_used: int
    sockets_total: int
    disk_free: int
    loop_lag_us: int
    loop_lag_max_us: int
    turn_max_us: int
    gc_num: int
    gc_max_us: int
