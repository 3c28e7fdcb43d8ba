"""Context of every connection: the parts of the broker, and values of the settings.

``server`` builds one Context; nothing in ``amqp`` fetches anything from anywhere else.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from dataclasses import dataclass, field

from hareline.amqp.alarms import Alarms
from hareline.amqp.open_counts import OpenCounts
from hareline.amqp.ports import LiveConnection
from hareline.amqp.product import ProductNames
from hareline.amqp.publish_rate import PublishRates
from hareline.auth.backends import AuthChain
from hareline.auth.mechanisms import MechanismRegistry
from hareline.auth.users import UserRegistry
from hareline.broker.capacity import BrokerCapacity
from hareline.broker.change_recorder import ChangeRecorder
from hareline.broker.event_exchange import EventExchange
from hareline.broker.vhost import VirtualHost
from hareline.clock import Clock
from hareline.counts import BrokerCounts
from hareline.events import Report
from hareline.later import Shares
from hareline.storage.interface import BodyStore
from hareline.turn import Turn
from hareline.wire.constants import FRAME_OVERHEAD


@dataclass(frozen=True, slots=True)
class Identity:
    """What connection.start says of the broker; ``amqp.product`` chooses the product name.

    ``node``: what RabbitMQ calls the name of the node, in metrics, events and over HTTP.
    ``broker_id``: of this run of the broker; a client of several ports can tell whose they are.
    """

    product: str
    version: str
    cluster_name: str
    platform: str
    brand: str
    qpid_product: str = "RabbitMQ (qpid)"
    node: str = "hareline@localhost"
    broker_id: str = field(default_factory=lambda: secrets.token_hex(8))


@dataclass(frozen=True, slots=True)
class Limits:
    """0 means "no limit" for rates, and all that begin with ``max_`` but ``max_message_bytes``."""

    frame_max_bytes: int = 131_072
    channel_max: int = 2047
    heartbeat_s: int = 60
    handshake_timeout_s: float = 10.0
    authentication_timeout_s: float = 10.0
    authentication_failure_delay_s: float = 3.0
    max_message_bytes: int = 16_777_216
    large_message_bytes: int = 1_048_576
    publish_rate_per_user: int = 0
    publish_bytes_rate_per_user: int = 0
    max_connections: int = 0
    max_connections_per_user: int = 0
    max_connections_per_address: int = 0
    max_http_connections: int = 512
    max_http_connections_per_address: int = 128
    connection_rate: int = 0
    connection_rate_per_address: int = 0
    max_channels: int = 0
    max_channels_per_user: int = 0
    max_vhosts: int = 0
    max_consumers_per_channel: int = 0
    max_unacked_per_channel: int = 0
    max_unacked_per_user: int = 0
    max_selectors_per_queue: int = 16_384


class Context:
    """``users`` and ``mechanisms`` may be replaced while running (reload), ``limits`` by
    ``set_limits``.

    ``logins`` decides who may log in, over AMQP and HTTP.

    ``vhost_connection_limits``: of the virtual hosts that have one.

    ``large_bodies`` takes bodies above ``large_message_bytes``; None keeps them in memory.
    ``events``: the event exchange, told of connections, channels, consumers and alarms, or None.
    ``recorder``: keeps who changed what; None while nothing does.
    """

    def __init__(
        self,
        *,
        clock: Clock,
        turn: Turn,
        users: UserRegistry,
        logins: AuthChain,
        mechanisms: MechanismRegistry,
        identity: Identity,
        limits: Limits,
        report: Report,
        large_bodies: BodyStore | None = None,
        events: EventExchange | None = None,
    ) -> None:
        self.clock = clock
        self.turn = turn
        self.shares = Shares(turn, clock)
        self.users = users
        self.logins = logins
        self.mechanisms = mechanisms
        self.identity = identity
        self.products = ProductNames(identity.product, identity.qpid_product, clock, report)
        self.report = report
        self.large_bodies = large_bodies
        self.events = events
        self.recorder: ChangeRecorder | None = None
        self.vhosts: dict[str, VirtualHost] = {}
        self.vhost_connection_limits: dict[str, int] = {}
        self.connections: dict[LiveConnection, None] = {}  # in the order in which they came
        self.open_counts = OpenCounts()
        self.counts = BrokerCounts()
        self.capacity = BrokerCapacity(self.counts.limits_reached)
        self.rates = PublishRates(clock, self.counts.limits_reached)
        self.alarms = Alarms(self.connections, clock)
        if self.events is not None:
            self.alarms.on_changed.append(self.events.on_alarm)
        self.on_last_connection_gone: Callable[[], None] | None = None
        self.limits = limits
        self.set_limits(limits)

    def set_limits(self, limits: Limits) -> None:
        """Let these be in force from now on; connections whose rate changes notice it."""
        rates = self.rates
        before = (rates.per_user, rates.bytes_per_user)
        self.limits = limits
        rates.per_user = limits.publish_rate_per_user
        rates.bytes_per_user = limits.publish_bytes_rate_per_user
        if before != (rates.per_user, rates.bytes_per_user):
            for connection in list(self.connections):
                connection.renew_access()

    def listen_to(self, vhost: VirtualHost) -> None:
        """Hear from now on of what comes and goes in a virtual host."""
        vhost.tell_events(self.events, self.recorder)

    def lane_body_max(self, frame_max: int) -> int:
        """The largest body that may take a publish lane: one frame, allowed, kept in memory."""
        body_max = min(frame_max - FRAME_OVERHEAD, self.limits.max_message_bytes)
        if self.large_bodies is not None:
            body_max = min(body_max, self.limits.large_message_bytes)
        return body_max

    def count_entries(self) -> int:
        """Entries in all queues, ready and unacked."""
        return sum(
            queue.ready_count + queue.unacked_count
            for vhost in self.vhosts.values()
            for queue in vhost.queues.values()
        )

    def count_octets(self) -> int:
        """Octets that the connections that are open have read and written."""
        return sum(connection.transport.traffic_bytes() for connection in self.connections)

    def forget(self, connection: LiveConnection) -> None:
        """The connection has ended."""
        self.connections.pop(connection, None)
        client = connection.client
        if client.is_open:
            name = connection.transport.connection_name
            client.vhost.counts.on_connection_ended(client.vhost.name, name, connection.counts)
        if not self.connections and self.on_last_connection_gone is not None:
            self.on_last_connection_gone()
