"""Parts of the broker that all connections share, and parts of one that its channels share.

``server`` builds one Context; nothing in ``amqp`` fetches anything from anywhere else.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from dataclasses import dataclass, field

from hareline.amqp.alarms import Alarms
from hareline.amqp.backlog import Backlogs
from hareline.amqp.client import Client
from hareline.amqp.flow_control import ConnectionFlow
from hareline.amqp.input_gate import InputGate
from hareline.amqp.limits import OpenCounts, PublishRates
from hareline.amqp.output import Output
from hareline.amqp.ports import LiveConnection, Transport
from hareline.amqp.product import ProductNames
from hareline.auth.backends import AuthChain
from hareline.auth.mechanisms import MechanismRegistry
from hareline.auth.peer import network_of
from hareline.auth.users import User, UserRegistry
from hareline.broker.capacity import LOW_ON_MEMORY, BrokerCapacity
from hareline.broker.change_recorder import ChangeRecorder
from hareline.broker.event_exchange import EventExchange
from hareline.broker.vhost import VirtualHost
from hareline.clock import Clock
from hareline.counts import BrokerCounts
from hareline.errors import NotAllowed, ResourceError
from hareline.events import Report
from hareline.later import Shares
from hareline.queues.core.consumer import Consumer
from hareline.storage.interface import BodyStore
from hareline.turn import Turn
from hareline.wire.constants import FRAME_OVERHEAD


@dataclass(frozen=True, slots=True)
class Identity:
    """Properties of the broker in connection.start; ``amqp.product`` chooses the product name.

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
    ``ruled_consumers``: new ones under a rule, until ``amqp.consumer_watch`` takes them.
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
        self.ruled_consumers: list[Consumer] = []
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

    def set_tracing(self, vhost: VirtualHost, is_on: bool) -> None:
        """Switch the firehose of a virtual host on or off, for open channels and those to come."""
        if vhost.firehose.switch(is_on):
            for connection in list(self.connections):
                if connection.is_running and connection.client.vhost is vhost:
                    connection.update_taps()

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

    # ------------------------------------------------------------------- what may be opened

    def check_connection(self, vhost_name: str, user: User, host: str) -> None:
        """Raise NotAllowed if a limit on connections is reached, ResourceError if memory is short.

        ``host``: the client's address. Texts are RabbitMQ's where it has the limit.
        """
        open_now, limits = self.open_counts, self.limits
        limit = self.vhost_connection_limits.get(vhost_name)
        if self._is_reached("vhost.max-connections", limit, open_now.by_vhost.get(vhost_name, 0)):
            raise NotAllowed(
                f"access to vhost '{vhost_name}' refused for user '{user.name}': "
                f"connection limit ({limit}) is reached"
            )
        limit = _of_user(user.max_connections, limits.max_connections_per_user)
        if self._is_reached("user.max-connections", limit, open_now.by_user.get(user.identity, 0)):
            raise NotAllowed(
                f"connection refused for user '{user.name}': user connection limit ({limit}) is "
                "reached"
            )
        limit, network = limits.max_connections_per_address or None, network_of(host)
        if self._is_reached(
            "max_connections_per_address", limit, open_now.by_address.get(network, 0)
        ):
            raise NotAllowed(
                f"connection refused for address '{network}': address connection limit "
                f"({limit}) is reached"
            )
        limit = limits.max_connections or None
        if self._is_reached("max_connections", limit, open_now.connections):
            raise NotAllowed(f"connection refused: node connection limit ({limit}) is reached")
        if self._is_memory_short():
            raise ResourceError(f"connection refused: {LOW_ON_MEMORY}")

    def check_channel(self, user: User | None) -> None:
        """Raise NotAllowed if a limit on channels is reached, ResourceError if memory is short.

        The limit of each connection is left to its ``Channels``.
        """
        open_now, limits = self.open_counts, self.limits
        if user is not None:
            limit = _of_user(user.max_channels, limits.max_channels_per_user)
            count = open_now.channels_by_user.get(user.identity, 0)
            if self._is_reached("user.max-channels", limit, count):
                raise NotAllowed(
                    f"number of channels opened for user '{user.name}' has reached the maximum "
                    f"allowed user limit of ({limit})",
                    class_id=0,
                    method_id=0,
                )
        limit = limits.max_channels or None
        if self._is_reached("max_channels", limit, open_now.channels):
            raise NotAllowed(
                f"number of channels opened on node '{self.identity.node}' has reached the maximum "
                f"allowed limit of ({limit})",
                class_id=0,
                method_id=0,
            )
        if self._is_memory_short():
            raise ResourceError(f"channel refused: {LOW_ON_MEMORY}", class_id=0, method_id=0)

    def _is_reached(self, name: str, limit: int | None, count: int) -> bool:
        """True if the limit is reached, which is counted; None is no limit."""
        if limit is None or count < limit:
            return False
        self.counts.limits_reached.count(name)
        return True

    def _is_memory_short(self) -> bool:
        if self.capacity.is_critical:
            self.counts.limits_reached.count("memory")
        return self.capacity.is_critical

    def forget(self, connection: LiveConnection) -> None:
        self.connections.pop(connection, None)
        client = connection.client
        if client.is_open:
            name = connection.transport.connection_name
            client.vhost.counts.on_connection_ended(client.vhost.name, name, connection.counts)
        if not self.connections and self.on_last_connection_gone is not None:
            self.on_last_connection_gone()


def _of_user(own: int | None, for_all: int) -> int | None:
    """The limit that holds for a user: its own, or else that of all users, where 0 means none."""
    return own if own is not None else for_all or None


@dataclass(frozen=True, slots=True)
class ConnectionParts:
    """``context`` is the broker's, the others are the connection's."""

    context: Context
    transport: Transport
    client: Client
    gate: InputGate
    output: Output
    flow: ConnectionFlow
    backlogs: Backlogs
